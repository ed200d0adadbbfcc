"""Check hard network topology: the pods of a gang, and of each sub-group, are where its constraints want them.

A constraint is about the hyperNodes of one fabric, or about a tree of node labels; each is looked at by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from tierwise.api.core import Node, ObjectMeta, Pod
from tierwise.api.go_pattern import compile_pattern
from tierwise.api.kai import Topology as KaiTopology
from tierwise.api.koordinator import ClusterNetworkTopology
from tierwise.api.kueue import Topology as KueueTopology
from tierwise.api.limits import DEPTH
from tierwise.api.selector import matches
from tierwise.api.volcano import HyperNode, MemberSpec, NetworkTopologySpec, PodGroup
from tierwise.audit.gangs import members, part_word, sub_groups
from tierwise.audit.gathered import layers
from tierwise.audit.pods import Finding, counts, holds
from tierwise.port import Objects

__all__ = ["Fabrics", "fabric_of", "listed", "topology"]


def topology(objects: Objects) -> Iterator[Finding]:
    """Gangs and sub-groups that are wider apart than they may be."""
    fabrics = Fabrics(objects)
    inside = members(objects)
    for path, record in objects.every(PodGroup).items():
        placed = [pod for pod in inside[path] if counts(pod) and holds(pod)]
        fabric = fabric_of(record.metadata)
        if text := fabrics.tree(fabric).too_wide(record.spec.network_topology, placed):
            yield Finding("too-wide", f"PodGroup {path}", text)
        yield from fabrics.findings(record.metadata, f"PodGroup {path}", placed)
        for policy, groups in sub_groups(record, placed):
            word = part_word(policy)
            whose = f"PodGroup {path}, {word}s {policy.name}"
            yield from fabrics.crowded(record.metadata, whose, policy.name, groups.values(), word=word)
            for values, pods in sorted(groups.items()):
                whose = f"PodGroup {path}, {word} {policy.name}-{'-'.join(values)}"
                inner = record.metadata.annotations.get(f"tierwise.io/fabric.{policy.name}", fabric)
                if text := fabrics.tree(inner).too_wide(policy.network_topology, pods):
                    yield Finding("too-wide", whose, text)
                yield from fabrics.findings(record.metadata, whose, pods, sub_group=policy.name)


class Fabrics:
    """The trees of a cluster, each grown once, however many groups name it."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._trees: dict[str, _Tree] = {}
        self._domains: dict[tuple[str, str], list[frozenset[str]] | None] = {}

    def findings(
        self, meta: ObjectMeta, subject: str, pods: list[Pod], *, level: str = "", sub_group: str = ""
    ) -> Iterator[Finding]:
        """Yield a finding for each hard constraint, listed for exactly this sub-group ("": the whole group), that the
        places of the pods break. Rules about sets and about keeping apart are not among them. level, a constraint of
        the group's own language, is checked as well where the group names a fabric; "" is none.
        """
        fabric_of_group = fabric_of(meta)
        own_level = (entry for entry in listed(meta) if not entry.get("set") and entry.get("apart") is None)
        entries = [entry for entry in own_level if str(entry.get("subGroup") or "") == sub_group]
        if level and fabric_of_group:
            entries.append({"tier": level})
        for entry in entries:
            if text := self._misplaced(entry, fabric_of_group, pods):
                yield Finding("too-wide", subject, text)

    def crowded(
        self, meta: ObjectMeta, subject: str, policy: str, groups: Iterable[list[Pod]], *, word: str
    ) -> Iterator[Finding]:
        """Domains that hold more sub-groups of a policy than may share one."""
        node_sets = [{pod.spec.node_name for pod in pods if holds(pod)} for pods in groups]
        for entry in listed(meta):
            limit = entry.get("apart")
            named = entry.get("subGroup") == policy and not entry.get("set")
            if not named or type(limit) is not int:
                continue
            fabric = str(entry.get("fabric") or fabric_of(meta))
            for domain in self.domains("" if fabric == "HyperNode" else fabric, entry.get("tier")):
                inside = sum(not nodes.isdisjoint(domain) for nodes in node_sets)
                if inside > limit:
                    text = f"{inside} {word}s are in one {entry.get('tier')}, and {limit} may"
                    yield Finding("not-apart", subject, text)

    def tree(self, fabric: str) -> _Tree:
        """The hyperNodes of a fabric."""
        tree = self._trees.get(fabric)
        if tree is None:
            tree = self._trees[fabric] = _Tree(self._objects, fabric)
        return tree

    def domains(self, fabric: str, tier: object) -> list[frozenset[str]]:
        """The domains of a tier of a fabric as sets of nodes; none where there is no such tier."""
        if (fabric, str(tier)) not in self._domains:
            self._domains[fabric, str(tier)] = _labelled(self._objects, fabric, str(tier))
        domains_named = self._domains[fabric, str(tier)]
        if domains_named is None:
            return self.tree(fabric).domains(tier)
        return domains_named

    def _misplaced(self, entry: dict[str, object], fabric_of_group: str, pods: list[Pod]) -> str:
        """Error text for pods placed against a listed constraint; "" if they respect it."""
        fabric = str(entry.get("fabric") or fabric_of_group)
        fabric = "" if fabric == "HyperNode" else fabric
        tier = entry.get("tier")
        spread = entry.get("spread") or 0
        pods = [pod for pod in pods if holds(pod)]
        if not pods or not isinstance(spread, int):
            return ""
        nodes = {pod.spec.node_name for pod in pods}
        domains = self.domains(fabric, tier)
        if not domains:
            return f"{len(pods)} pods are placed, and fabric {fabric or 'HyperNode'} has no domain of tier {tier}"
        of_fabric = f"of fabric {fabric or 'HyperNode'}"
        if spread:
            level = f"tier {tier}" if isinstance(tier, int) else f"{tier}"
            used = sum(not nodes.isdisjoint(domain) for domain in domains)
            if used >= spread:
                return ""
            return f"{len(pods)} pods must be in {spread} domains of {level} {of_fabric}, and are in {used}"
        if any(nodes <= domain for domain in domains):
            return ""
        kind_of_domain = f"domain of tier {tier}" if isinstance(tier, int) else f"{tier}"
        place = f"one {kind_of_domain} {of_fabric}"
        return f"{len(pods)} pods on {len(nodes)} nodes must be in {place}, and none holds them"


def fabric_of(meta: ObjectMeta) -> str:
    """The fabric that an object names; "" for the hyperNodes that name none."""
    name = meta.labels.get("tierwise.io/fabric") or meta.annotations.get("tierwise.io/fabric", "")
    return "" if name.strip() == "HyperNode" else name.strip()


def listed(meta: ObjectMeta) -> Iterator[dict[str, object]]:
    """The hard constraints that a group lists besides its own, rules about its sets among them.

    One that cannot be read has placed no pods.
    """
    try:
        entries = msgspec.json.decode(meta.annotations.get("tierwise.io/topology-constraints", "").strip() or "[]")
    except (msgspec.DecodeError, RecursionError):  # the latter of lists in lists in lists
        entries = []
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and str(entry.get("mode", "hard")).lower() == "hard" and _readable(entry):
            yield entry


def _readable(entry: dict[str, object]) -> bool:
    """Whether the fields are of the types that they must have; a bool is no number."""
    fabric = entry.get("fabric", "")
    tier = entry.get("tier")
    spread = entry.get("spread")
    return isinstance(fabric, str) and type(tier) in (int, str) and (spread is None or type(spread) is int)


def _levels_of(objects: Objects, fabric: str) -> list[str]:
    """Node labels of the levels of a Topology of KAI or Kueue, from the outside inwards; none if it does not exist."""
    group, _, name = fabric.removeprefix("Topology ").partition("/")
    kai = objects.every(KaiTopology).get(name)
    kueue = objects.every(KueueTopology).get(name)
    record = kai if group == "kai.scheduler" else kueue
    return [entry.node_label for entry in record.spec.levels] if record is not None else []


def _labelled(objects: Objects, fabric: str, level: str) -> list[frozenset[str]] | None:
    """The domains of a level that labels make, as sets of nodes; None where the tree is one of hyperNodes."""
    fabric = _named(objects).get(fabric, fabric)
    if fabric == "ClusterNetworkTopology":
        chain = layers(objects)
        outwards = list(chain.values())[list(chain).index(level) :] if level in chain else []
    elif fabric.startswith("Topology "):
        keys = _levels_of(objects, fabric)
        outwards = [(key,) for key in keys[: keys.index(level) + 1]] if level in keys else []
    else:
        return None
    by_values: dict[tuple[str, ...], set[str]] = {}
    for name, node in objects.every(Node).items() if outwards else ():
        values = tuple(next((v for key in keys if (v := node.metadata.labels.get(key, ""))), "") for keys in outwards)
        if all(values):
            by_values.setdefault(values, set()).add(name)
    return [frozenset(names) for names in by_values.values()]


def _named(objects: Objects) -> dict[str, str]:
    """By name of a fabric, the tree that declares it.

    Topologies of Koordinator, KAI and Kueue declare one by an annotation.
    """
    layered = objects.every(ClusterNetworkTopology).get("default")
    carriers = {fabric_of(layered.metadata): "ClusterNetworkTopology"} if layered is not None else {}
    for name, kai_topology in objects.every(KaiTopology).items():
        carriers[fabric_of(kai_topology.metadata)] = f"Topology kai.scheduler/{name}"
    for name, kueue_topology in objects.every(KueueTopology).items():
        carriers[fabric_of(kueue_topology.metadata)] = f"Topology kueue.x-k8s.io/{name}"
    return {name: tree for name, tree in carriers.items() if name}


class _Tree:
    """The hyperNodes of one fabric as sets of nodes."""

    def __init__(self, objects: Objects, fabric: str) -> None:
        self._hypernodes = {
            name: record for name, record in objects.every(HyperNode).items() if fabric_of(record.metadata) == fabric
        }
        self._nodes = objects.every(Node)
        nodes = _Labelled({name: node.metadata.labels for name, node in self._nodes.items()})
        by_label = _Labelled({name: hypernode.metadata.labels for name, hypernode in self._hypernodes.items()})
        self._own: dict[str, set[str]] = {}
        self._inner: dict[str, set[str]] = {}
        for name, hypernode in self._hypernodes.items():
            self._own[name], self._inner[name] = set(), set()
            for member in hypernode.spec.members:
                if member.type == "HyperNode":
                    self._inner[name] |= by_label.selected(member)
                else:
                    self._own[name] |= nodes.selected(member)
        self._sets = {name: self._below(name) for name in self._hypernodes}
        self._around: dict[str, list[str]] = {}
        for name, inside in self._sets.items():
            for node in inside:
                self._around.setdefault(node, []).append(name)

    def too_wide(self, constraint: NetworkTopologySpec | None, pods: list[Pod]) -> str:
        """Error text for pods spread wider than the constraint allows; "" if they are not."""
        if constraint is None or constraint.mode.lower() == "soft" or not pods:
            return ""
        limit = self._limit(constraint)
        if limit is None:
            return ""
        nodes = {pod.spec.node_name for pod in pods}
        around = self._around.get(min(nodes), ())  # who holds them all holds any of them
        tiers = [self._hypernodes[name].spec.tier for name in around if nodes <= self._sets[name]]
        if any(tier <= limit for tier in tiers):
            return ""
        where = f"only one of tier {min(tiers)} holds them" if tiers else "none holds them"
        return f"{len(pods)} pods on {len(nodes)} nodes must be within one hyperNode of tier {limit}, and {where}"

    def domains(self, tier: object) -> list[frozenset[str]]:
        """The sets of nodes of the widest hyperNodes whose tier is at most this one.

        The tier is a number or a tier's name (the lowest, where several have it); the list is empty where no tier has
        that name.
        """
        named = [h.spec.tier for h in self._hypernodes.values() if h.spec.tier_name == tier]
        limit = tier if isinstance(tier, int) else min(named, default=None)
        within = [name for name, h in self._hypernodes.items() if limit is not None and h.spec.tier <= limit]
        inner = set()
        for name in within:
            inner.update(self._inner[name])
        return [self._sets[name] for name in within if name not in inner]

    def inside(self, name: str) -> frozenset[str]:
        """The nodes below a hyperNode; none where there is no such hyperNode."""
        return self._sets.get(name, frozenset())

    def _limit(self, constraint: NetworkTopologySpec) -> int | None:
        """The highest tier allowed; None where that is no limit: a name that no hyperNode has, or the whole cluster."""
        highest = max((h.spec.tier for h in self._hypernodes.values()), default=0)
        limit = constraint.highest_tier_allowed
        if constraint.highest_tier_name:
            named = [h.spec.tier for h in self._hypernodes.values() if h.spec.tier_name == constraint.highest_tier_name]
            limit = max(named, default=None)
        return None if limit is None or limit > highest else limit

    def _below(self, name: str) -> frozenset[str]:
        """The nodes below a hyperNode; what is deeper than a tree may be belongs to none that is in use."""
        names_below: set[str] = set()
        seen: set[str] = set()
        layer = {name}
        for _ in range(DEPTH):
            seen |= layer
            names_below.update(*(self._own[inner] for inner in layer))
            layer = {inner for outer in layer for inner in self._inner[outer]} - seen
            if not layer:
                break
        return frozenset(names_below)


class _Labelled:
    """Nodes or hyperNodes by their names, with their labels."""

    def __init__(self, labels: dict[str, dict[str, str]]) -> None:
        self._labels = labels
        self._by_label: dict[tuple[str, str], list[str]] = {}
        for name, labels_of_node in labels.items():
            for label in labels_of_node.items():
                self._by_label.setdefault(label, []).append(name)

    def selected(self, member: MemberSpec) -> set[str]:
        """Those that a member of a hyperNode means."""
        select = member.selector
        if select.exact_match is not None:
            return {select.exact_match.name} & self._labels.keys()
        if select.regex_match is not None:
            try:
                named = compile_pattern(select.regex_match.pattern)
            except ValueError:
                return set()
            return {name for name in self._labels if named.search(name)}
        if select.label_match is None:
            return set()
        pair = next(iter(select.label_match.match_labels.items()), None)  # what it lists must be there
        candidates = self._labels if pair is None else self._by_label.get(pair, ())
        return {name for name in candidates if matches(select.label_match, self._labels[name])}
