"""Small gangs with whatever rules may say, nested and on two fabrics, and the plainest answer to "can this one start?".

Rules name namespaces and labels whose values must match, spreads heed selectors of nodes and taints, pods want ports of
their hosts, groups are nested and leave some of their pods out. `startable` places one pod after the other in every
order, as Kubernetes' filters let it, and `possible` looks for an order of what was placed. Both share nothing with the
scheduler, and nothing with `ruled_gangs`, which draws more rules and less around them.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator, Mapping

import msgspec
from msgspec.structs import replace
from tests.support.drawn_gang import manifest
from tests.support.languages import RACK, SPINE, kai_gang, near, pod, topology
from tests.support.two_fabrics import fabric

from tierwise.api.codec import Raw

__all__ = ["Instance", "about_itself", "drawn", "order_decides", "possible", "startable"]

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


class Rule(msgspec.Struct, frozen=True):
    """A required rule of a pod, about pods with a label."""

    what: str  # "away", "near" or "even"
    app: str
    key: str
    skew: int = 1
    domains: int = 0
    where: str = ""  # the namespaces: "" its own, "all" or those of "team b"
    same: str = ""  # "same": only pods with the same `ver`, "other": only pods with another
    affinity: str = ""  # nodeAffinityPolicy
    taints: str = ""  # nodeTaintsPolicy


class Kind(msgspec.Struct, frozen=True):
    """Pods that cannot be told apart."""

    app: str
    cpu: int
    rules: tuple[Rule, ...] = ()
    ver: str = "1"
    port: int = 0
    pool: str = ""
    tolerates: bool = False
    namespace: str = "default"


class Node(msgspec.Struct, frozen=True):
    """A node; "" for no zone. Nodes of one rack follow each other, and racks of one spine."""

    cpu: int
    zone: str
    rack: int
    feed: int
    pool: str = "p"
    tainted: bool = False

    @property
    def spine(self) -> int:
        return self.rack // 2


class Group(msgspec.Struct, frozen=True):
    """A part of a gang: pods of some kinds, or further parts, of which so many start together, in one domain."""

    name: str
    least: int
    key: str = ""  # RACK, SPINE or ""
    pods: tuple[tuple[int, int], ...] = ()  # a kind by number, and how many
    parts: tuple[Group, ...] = ()

    def leaves(self) -> Iterator[Group]:
        if not self.parts:
            yield self
        for part in self.parts:
            yield from part.leaves()


class Instance(msgspec.Struct, frozen=True):
    """A cluster, pods that stand there, and a gang."""

    nodes: tuple[Node, ...]
    kinds: tuple[Kind, ...]
    gang: Group
    standing: tuple[tuple[Kind, int], ...] = ()
    feeds: int = 0  # 1: all in one feed; more: in so many of them at least; 0: wherever
    leaf_in_feed: str = ""  # a sub-group that is in one feed

    def manifests(self) -> list[Raw]:
        """The cluster and the gang as users write them."""
        found = [topology(levels=(SPINE, RACK))]
        for name, team in (("default", "a"), ("other", "b")):
            found.append(manifest("v1", "Namespace", {"name": name, "labels": {"team": team}}))
        for i, node in enumerate(self.nodes):
            labels: Raw = {HOST: f"n{i}", SPINE: f"s{node.spine}", RACK: f"r{node.rack}", "pool": node.pool}
            labels |= {ZONE: node.zone} if node.zone else {}
            spec: Raw = {"taints": [{"key": "t", "value": "1", "effect": "NoSchedule"}]} if node.tainted else {}
            status: Raw = {"allocatable": {"cpu": str(node.cpu), "pods": "110"}}
            found.append(manifest("v1", "Node", {"name": f"n{i}", "labels": labels}, spec=spec, status=status))
        found += fabric("f", [node.feed for node in self.nodes], "power")
        for i, (kind, at) in enumerate(self.standing):
            labels = {"app": kind.app, "ver": kind.ver}
            found.append(
                pod(
                    f"standing-{i}",
                    on=f"n{at}",
                    cpu=kind.cpu,
                    spec=_spec(kind),
                    labels=labels,
                    namespace=kind.namespace,
                )
            )
        subs: list[Raw] = []
        pods: list[Raw] = []
        self._write(self.gang, "", subs, pods)
        spec = {"minMember": 1, "minSubGroup": self.gang.least, "subGroups": subs}
        if self.gang.key:
            spec["topologyConstraint"] = near(self.gang.key)
        (group,) = kai_gang("g", 0, **spec)  # type: ignore[arg-type]
        listed: list[Raw] = []
        if self.feeds:
            listed.append({"fabric": "power", "tier": 1} | ({"spread": self.feeds} if self.feeds > 1 else {}))
        if self.leaf_in_feed:
            listed.append({"fabric": "power", "tier": 1, "subGroup": self.leaf_in_feed})
        if listed:
            group["metadata"] = {"name": "g", "annotations": {"tierwise.io/topology-constraints": json.dumps(listed)}}
        return [*found, group, *pods]

    def _write(self, group: Group, parent: str, subs: list[Raw], pods: list[Raw]) -> None:
        for part in group.parts:
            body: Raw = {"name": part.name, **({"parent": parent} if parent else {})}
            body |= {"topologyConstraint": near(part.key)} if part.key else {}
            body |= {"minMember": 0, "minSubGroup": part.least} if part.parts else {"minMember": part.least}
            subs.append(body)
            self._write(part, part.name, subs, pods)
        for number, many in group.pods:
            kind = self.kinds[number]
            for i in range(many):
                labels = {"kai.scheduler/subgroup-name": group.name, "app": kind.app, "ver": kind.ver}
                marks = {"pod-group-name": "g"}
                name = f"g-{group.name}-{number}-{i}"
                pods.append(pod(name, cpu=kind.cpu, spec=_spec(kind), labels=labels, annotations=marks))


def _spec(kind: Kind) -> Raw:
    terms: dict[str, list[Raw]] = {"away": [], "near": [], "even": []}
    for rule in kind.rules:
        term: Raw = {"labelSelector": {"matchLabels": {"app": rule.app}}, "topologyKey": rule.key}
        if rule.same:
            term["matchLabelKeys" if rule.same == "same" else "mismatchLabelKeys"] = ["ver"]
        if rule.what == "even":
            term |= {"maxSkew": rule.skew, "whenUnsatisfiable": "DoNotSchedule"}
            term |= {"minDomains": rule.domains} if rule.domains else {}
            term |= {"nodeAffinityPolicy": rule.affinity} if rule.affinity else {}
            term |= {"nodeTaintsPolicy": rule.taints} if rule.taints else {}
        elif rule.where:
            term["namespaceSelector"] = {} if rule.where == "all" else {"matchLabels": {"team": "b"}}
        terms[rule.what].append(term)
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    container: Raw = {"name": "c", "resources": {"requests": {"cpu": str(kind.cpu)}}}
    if kind.port:
        container["ports"] = [{"containerPort": kind.port, "hostPort": kind.port}]
    spec: Raw = {
        "containers": [container],
        "affinity": {"podAffinity": {required: terms["near"]}, "podAntiAffinity": {required: terms["away"]}},
        "topologySpreadConstraints": terms["even"],
    }
    spec |= {"nodeSelector": {"pool": kind.pool}} if kind.pool else {}
    spec |= {"tolerations": [{"key": "t", "operator": "Exists"}]} if kind.tolerates else {}
    return spec


# -- drawn


def drawn(chance: random.Random) -> Instance:
    """Up to five nodes and seven pods; in half of all instances some pods stand there."""
    racks = sorted(chance.randrange(4) for _ in range(chance.randint(2, 5)))
    nodes = tuple(
        Node(
            chance.randint(1, 5),
            chance.choice("aab ").strip(),
            rack,
            chance.randrange(2),
            chance.choice("ppq"),
            chance.random() < 0.2,
        )
        for rack in racks
    )
    kinds = tuple(_kind(chance, i) for i in range(chance.choice((1, 2, 2, 3))))
    gang = _gang(chance, len(kinds))
    standing: list[tuple[Kind, int]] = []
    for _ in range(chance.choice((0, 0, 1, 2, 3))):
        at = chance.randrange(len(nodes))
        there = _kind(chance, 1)
        some = there.rules[:1] if chance.random() < 0.4 else ()
        there = replace(there, cpu=1, rules=some, pool="", port=0, namespace=chance.choice(("default", "other")))
        there = replace(there, app=chance.choice("xyz"))
        if sum(kind.cpu for kind, where in standing if where == at) < nodes[at].cpu:
            standing.append((there, at))
    leaf = chance.choice([*gang.leaves()]).name if chance.random() < 0.2 else ""
    return Instance(nodes, kinds, gang, (*standing,), chance.choice((0, 0, 0, 1, 2)), leaf)


def _kind(chance: random.Random, number: int) -> Kind:
    app = chance.choice("xxy") if number else "x"
    rules = tuple(_rule(chance, app) for _ in range(chance.choice((0, 1, 1, 2) if number else (1, 1, 2))))
    return Kind(
        app,
        chance.randint(1, 2),
        rules,
        chance.choice("112"),
        chance.choice((0, 0, 0, 80)),
        chance.choice(("", "", "", "p")),
        chance.random() < 0.5,
    )


def _rule(chance: random.Random, app: str) -> Rule:
    what = chance.choice(("away", "away", "near", "even", "even"))
    other = chance.choice((app, app, app, "x", "y", "z"))
    key = chance.choice((HOST, ZONE, RACK))
    same = chance.choice(("", "", "same", "other" if what != "even" else ""))
    if what == "even":
        policies = chance.choice(("", "", "Ignore")), chance.choice(("", "", "Honor"))
        return Rule(what, other, key, chance.randint(1, 2), chance.choice((0, 0, 0, 2)), "", same, *policies)
    return Rule(what, other, key, where=chance.choice(("", "", "all", "team b")), same=same)


def _gang(chance: random.Random, kinds: int) -> Group:
    left = chance.randint(2, 7)
    number = 0

    def leaf(key: str) -> Group:
        nonlocal left, number
        number += 1
        some = chance.sample(range(kinds), chance.choice((1, 1, min(2, kinds))))
        pods = tuple((kind, chance.randint(1, 2)) for kind in some)
        left -= sum(many for _, many in pods)
        total = sum(many for _, many in pods)
        least = total if chance.random() < 0.7 else chance.randint(1, total)
        return Group(f"l{number}", least, key, pods)

    parts: list[Group] = []
    while left > 0:
        if chance.random() < 0.3:
            inside = (leaf(chance.choice(("", RACK))), leaf(chance.choice(("", RACK))))
            number += 1
            parts.append(Group(f"m{number}", chance.choice((1, 2, 2)), chance.choice(("", SPINE)), (), inside))
        else:
            parts.append(leaf(chance.choice(("", "", RACK, SPINE))))
    least = len(parts) if chance.random() < 0.7 else chance.randint(1, len(parts))
    return Group("", least, chance.choice(("", "", "", SPINE)), (), tuple(parts))


# -- which rules mean whom


def _means(rule: Rule, carrier: Kind, other: Kind) -> bool:
    """Whether a rule of a pod is about another pod."""
    if rule.app != other.app:
        return False
    if rule.where == "team b" and other.namespace != "other":
        return False
    if not rule.where and other.namespace != carrier.namespace:
        return False
    return not rule.same or (rule.same == "same") == (carrier.ver == other.ver)


def _kinds_of(instance: Instance) -> list[Kind]:
    """The kinds of pods that the gang has."""
    used = {number for leaf in instance.gang.leaves() for number, _ in leaf.pods}
    return [instance.kinds[number] for number in sorted(used)]


def about_itself(instance: Instance) -> bool:
    """Whether affinity and spreads of the gang can be met by its own pods, and by no others."""
    kinds = _kinds_of(instance)
    own = {(kind.app, kind.ver, kind.namespace) for kind in kinds}
    for kind in kinds:
        for rule in kind.rules:
            if rule.what != "away" and not all(
                (app, ver, namespace) in own
                for app in "xyz"
                for ver in "12"
                for namespace in ("default", "other")
                if _means(rule, kind, Kind(app, 1, ver=ver, namespace=namespace))
            ):
                return False
    return True


def order_decides(instance: Instance) -> bool:
    """Whether the gang has rules of the kinds of decision 0375 of which only some orders of placing may do."""

    def spread(rule: Rule, kind: Kind) -> object:
        rows = _eligible(instance, rule, kind)
        ver = kind.ver if rule.same else ""
        return rule.app, ver, rule.key, rule.skew, rule.domains, rows

    kinds = _kinds_of(instance)
    for kind in kinds:
        for rule in kind.rules:
            if rule.what != "even":
                continue
            for other in kinds:
                same = any(r.what == "even" and spread(r, other) == spread(rule, kind) for r in other.rules)
                if _means(rule, kind, other) and not same:
                    return True
    nears = [(kind, rule) for kind in kinds for rule in kind.rules if rule.what == "near"]
    return any(
        _means(one, this, other) and _means(that, other, this) and one.key != that.key
        for this, one in nears
        for other, that in nears
    )


# -- the plainest answer

Pod = tuple[str, int]
"""A leaf of the gang, and a kind."""

State = tuple[tuple[Pod, int], ...]
"""Pods of the gang and their nodes, in order."""


def startable(instance: Instance, *, cleared: bool = False) -> bool:
    """Whether the gang can start, some way; `cleared`: if no other pod stood anywhere.

    With no more pods than its parts need; cleared, with more of them where it has to stand in several feeds.
    """
    standing = () if cleared else instance.standing
    exactly = not cleared or instance.feeds < 2
    leaves = [*instance.gang.leaves()]
    seen: set[State] = {()}
    stack: list[State] = [()]
    while stack:
        state = stack.pop()
        if _started(instance, state, exactly=exactly):
            return True
        by_leaf = Counter(name for (name, _), _ in state)
        by_pod = Counter(who for who, _ in state)
        for leaf in leaves:
            if exactly and by_leaf[leaf.name] == leaf.least:
                continue
            for number, many in leaf.pods:
                if by_pod[leaf.name, number] < many:
                    _go_on(instance, standing, state, (leaf.name, number), seen, stack)
    return False


def _go_on(
    instance: Instance,
    standing: tuple[tuple[Kind, int], ...],
    state: State,
    who: Pod,
    seen: set[State],
    stack: list[State],
) -> None:
    """Every state after one more pod."""
    for at in range(len(instance.nodes)):
        after = tuple(sorted((*state, (who, at))))
        if after not in seen and _lets(instance, standing, state, who, at) and _inside(instance, after):
            seen.add(after)
            stack.append(after)


def possible(instance: Instance, bound: Mapping[str, str]) -> bool:
    """Whether pods may have come to stand so: the gang has started, and some order of its pods was let in."""
    final = []
    for name, node in bound.items():
        _, leaf, kind, _ = name.split("-")
        final.append(((leaf, int(kind)), int(node[1:])))
    goal = tuple(sorted(final))
    if not _inside(instance, goal) or not _started(instance, goal, exactly=False):
        return False
    seen: set[State] = {()}
    stack: list[State] = [()]
    while stack:
        state = stack.pop()
        if state == goal:
            return True
        for who, at in set((Counter(goal) - Counter(state)).elements()):
            after = tuple(sorted((*state, (who, at))))
            if after not in seen and _lets(instance, instance.standing, state, who, at):
                seen.add(after)
                stack.append(after)
    return False


def _started(instance: Instance, state: State, *, exactly: bool) -> bool:
    by_leaf = Counter(name for (name, _), _ in state)
    halves = False

    def whole(group: Group) -> bool:
        nonlocal halves
        if not group.parts:
            found = by_leaf[group.name] == group.least if exactly else by_leaf[group.name] >= group.least
        else:
            found = sum([whole(part) for part in group.parts]) >= group.least
        halves |= not found and any(by_leaf[leaf.name] for leaf in group.leaves())
        return found

    started = whole(instance.gang)
    feeds = {instance.nodes[at].feed for _, at in state}
    return started and not halves and len(feeds) >= instance.feeds


def _inside(instance: Instance, state: State) -> bool:
    """Whether each part is in one domain of its own."""
    nodes = instance.nodes

    def one(group: Group) -> bool:
        names = {leaf.name for leaf in group.leaves()}
        own = [nodes[at] for (name, _), at in state if name in names]
        if group.key and len({node.rack if group.key == RACK else node.spine for node in own}) > 1:
            return False
        if group.name and group.name == instance.leaf_in_feed and len({node.feed for node in own}) > 1:
            return False
        return all(one(part) for part in group.parts)

    return one(instance.gang) and (instance.feeds != 1 or len({nodes[at].feed for _, at in state}) <= 1)


def _value(instance: Instance, at: int, key: str) -> str:
    node = instance.nodes[at]
    return {HOST: f"n{at}", ZONE: node.zone, RACK: f"r{node.rack}"}[key]


def _able(instance: Instance, kind: Kind, at: int) -> tuple[bool, bool]:
    """Whether a node is of the pool that pods of a kind select, and whether they tolerate it."""
    node = instance.nodes[at]
    return not kind.pool or kind.pool == node.pool, not node.tainted or kind.tolerates


def _eligible(instance: Instance, rule: Rule, kind: Kind) -> tuple[int, ...]:
    """The nodes on which a spread of a kind counts."""
    evens = [other for other in kind.rules if other.what == "even"]
    found = []
    for at in range(len(instance.nodes)):
        selected, tolerated = _able(instance, kind, at)
        heeded = (selected or rule.affinity == "Ignore") and (tolerated or rule.taints != "Honor")
        if heeded and all(_value(instance, at, even.key) for even in evens):
            found.append(at)
    return tuple(found)


def _lets(instance: Instance, standing: tuple[tuple[Kind, int], ...], state: State, who: Pod, at: int) -> bool:
    """Whether one more pod of the gang is let on a node."""
    kind = instance.kinds[who[1]]
    pods = [*standing, *((instance.kinds[number], where) for (_, number), where in state)]
    here = [other for other, where in pods if where == at]
    if not all(_able(instance, kind, at)) or sum(other.cpu for other in here) + kind.cpu > instance.nodes[at].cpu:
        return False
    if kind.port and any(other.port == kind.port for other in here):
        return False

    def together(where: int, key: str) -> bool:
        value = _value(instance, at, key)
        return bool(value) and _value(instance, where, key) == value

    for other, where in pods:
        if any(r.what == "away" and _means(r, kind, other) and together(where, r.key) for r in kind.rules):
            return False
        if any(r.what == "away" and _means(r, other, kind) and together(where, r.key) for r in other.rules):
            return False
    return _near(instance, pods, kind, at) and _even(instance, pods, kind, at)


def _near(instance: Instance, pods: list[tuple[Kind, int]], kind: Kind, at: int) -> bool:
    rules = [rule for rule in kind.rules if rule.what == "near"]
    if any(not _value(instance, at, rule.key) for rule in rules):
        return False
    wanted = [where for other, where in pods if all(_means(rule, kind, other) for rule in rules)]
    met = all(any(_value(instance, w, rule.key) == _value(instance, at, rule.key) for w in wanted) for rule in rules)
    some = any(_value(instance, where, rule.key) for where in wanted for rule in rules)
    return met or (not some and all(_means(rule, kind, kind) for rule in rules))


def _even(instance: Instance, pods: list[tuple[Kind, int]], kind: Kind, at: int) -> bool:
    for rule in kind.rules:
        if rule.what != "even":
            continue
        own = _value(instance, at, rule.key)
        if not own:
            return False
        eligible = _eligible(instance, rule, kind)
        by_place = {_value(instance, where, rule.key): 0 for where in eligible}
        for other, where in pods:
            if where in eligible and _means(rule, kind, other):
                by_place[_value(instance, where, rule.key)] += 1
        lowest = min(by_place.values(), default=0)
        if rule.domains and len(by_place) < rule.domains:
            lowest = 0
        if by_place.get(own, 0) + _means(rule, kind, kind) - lowest > rule.skew:
            return False
    return True
