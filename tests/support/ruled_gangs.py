"""Small gangs with rules between pods, and the plainest answer to "can this gang start?".

`startable` places one pod after the other, in every order and on every node that Kubernetes' filters let it on, and
remembers what it has been through. Filters are written out here for pods with one label, `app`, and nodes with a host
and a zone, so the answer shares nothing with the scheduler.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Final

import msgspec
from tests.support.draw import Gang, World
from tests.support.drawn_gang import manifest

from tierwise.api.codec import Raw

__all__ = [
    "HOST",
    "RECORDS",
    "ZONE",
    "Drawn",
    "Instance",
    "Kind",
    "Node",
    "Rule",
    "drawn",
    "drawn_with",
    "order_decides",
    "records",
    "startable",
]

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


class Rule(msgspec.Struct, frozen=True):
    """A required rule of a pod, about pods with a label."""

    what: str  # "away", "near" or "even"
    app: str
    key: str
    skew: int = 1
    domains: int = 0


class Kind(msgspec.Struct, frozen=True):
    """Pods that cannot be told apart."""

    app: str
    cpu: int
    rules: tuple[Rule, ...] = ()


class Node(msgspec.Struct, frozen=True):
    """A node; "" for no zone. Nodes of one rack follow each other."""

    cpu: int
    zone: str
    rack: int


class Instance(msgspec.Struct, frozen=True):
    """A cluster, pods that stand there, and a gang: so many pods of each kind, of which so many must start together."""

    nodes: tuple[Node, ...]
    standing: tuple[tuple[Kind, int], ...]
    gang: tuple[tuple[Kind, int], ...]
    minimum: int
    least: tuple[int, ...]  # of each kind
    packed: bool  # whether the pods of each kind share a rack; then all of them are needed
    racks: int = 0  # in so many of them the gang must stand

    def world(self) -> World:
        """The cluster and the pods that stand there."""
        found: list[Raw] = [_node(i, node) for i, node in enumerate(self.nodes)]
        for rack in sorted({node.rack for node in self.nodes}):
            members: list[Raw] = [
                {"type": "Node", "selector": {"exactMatch": {"name": f"n{i}"}}}
                for i, node in enumerate(self.nodes)
                if node.rack == rack
            ]
            metadata: Raw = {"name": f"r{rack}"}
            found.append(
                manifest("topology.volcano.sh/v1alpha1", "HyperNode", metadata, spec={"tier": 1, "members": members})
            )
        for i, (kind, at) in enumerate(self.standing):
            found.append(_pod(f"standing-{i}", kind, {}, {}, node=f"n{at}"))
        return World(tuple(found), "")

    def asked(self) -> Drawn:
        """The gang."""
        return Drawn(name="g", tasks=sum(number for _, number in self.gang), instance=self)


class Drawn(Gang, frozen=True):
    """The gang of an instance."""

    instance: Instance | None = None

    def manifests(self) -> list[Raw]:
        instance = self.instance
        assert instance is not None
        spec: Raw = {"minMember": instance.minimum}
        if instance.packed:
            spec["subGroupPolicy"] = [
                {
                    "name": f"k{i}",
                    "subGroupSize": number,
                    "minSubGroups": 1,
                    "labelSelector": {"matchLabels": {"kind": f"k{i}"}},
                    "matchLabelKeys": ["kind"],
                    "networkTopology": {"mode": "hard", "highestTierAllowed": 1},
                }
                for i, (_, number) in enumerate(instance.gang)
            ]
        elif any(instance.least):
            spec["minTaskMember"] = {f"k{i}": least for i, least in enumerate(instance.least) if least}
        pods = [
            _pod(
                f"g-{i}-{j}",
                kind,
                {"kind": f"k{i}"},
                {"scheduling.k8s.io/group-name": "g", "volcano.sh/task-spec": f"k{i}"},
            )
            for i, (kind, number) in enumerate(instance.gang)
            for j in range(number)
        ]
        metadata: Raw = {"name": "g", "namespace": "default", "creationTimestamp": "1970-01-01T00:00:00Z"}
        if instance.racks:
            wide = {"fabric": "HyperNode", "tier": 1, "spread": instance.racks}
            metadata["annotations"] = {"tierwise.io/topology-constraints": json.dumps([wide])}
        group = manifest("scheduling.volcano.sh/v1beta1", "PodGroup", metadata, spec=spec, status={"phase": "Inqueue"})
        return [group, *pods]


def _node(number: int, node: Node) -> Raw:
    labels: Raw = {HOST: f"n{number}"}
    if node.zone:
        labels[ZONE] = node.zone
    status: Raw = {"allocatable": {"cpu": str(node.cpu), "pods": "110"}}
    return manifest("v1", "Node", {"name": f"n{number}", "labels": labels}, status=status)


def _pod(name: str, kind: Kind, labels: Raw, annotations: Raw, *, node: str = "") -> Raw:
    terms: dict[str, list[Raw]] = {"away": [], "near": [], "even": []}
    for rule in kind.rules:
        term: Raw = {"labelSelector": {"matchLabels": {"app": rule.app}}, "topologyKey": rule.key}
        if rule.what == "even":
            term |= {"maxSkew": rule.skew, "whenUnsatisfiable": "DoNotSchedule"}
            term |= {"minDomains": rule.domains} if rule.domains else {}
        terms[rule.what].append(term)
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    spec: Raw = {
        "schedulerName": "volcano",
        "containers": [{"name": "main", "resources": {"requests": {"cpu": str(kind.cpu)}}}],
        "affinity": {"podAffinity": {required: terms["near"]}, "podAntiAffinity": {required: terms["away"]}},
        "topologySpreadConstraints": terms["even"],
    }
    metadata: Raw = {
        "name": name,
        "namespace": "default",
        "labels": {"app": kind.app} | labels,
        "annotations": annotations,
    }
    if node:
        spec["nodeName"] = node
    return manifest("v1", "Pod", metadata, spec=spec, status={"phase": "Running" if node else "Pending"})


# -- drawn


def drawn(chance: random.Random, *, packed: bool) -> Instance:
    """Up to five nodes and eight pods; in half of all instances some pods stand there."""
    racks = sorted(chance.randrange(2) for _ in range(chance.randint(1, 5)))
    nodes = tuple(Node(chance.randint(1, 6), chance.choice("abab "), rack) for rack in racks)
    nodes = tuple(msgspec.structs.replace(node, zone=node.zone.strip()) for node in nodes)
    gang = []
    for i in range(chance.choice((1, 2, 2, 3))):
        app = chance.choice(("x", "x", "y")) if i else "x"
        rules = tuple(_rule(chance, app) for _ in range(chance.choice((0, 1, 1, 2) if i else (1, 1, 1, 2))))
        gang.append((Kind(app, chance.randint(1, 3), rules), chance.randint(1, 3)))
    standing: list[tuple[Kind, int]] = []
    for _ in range(chance.choice((0, 0, 1, 2, 3))):
        at = chance.randrange(len(nodes))
        app = chance.choice("xyz")
        rules = (_rule(chance, app),) if chance.random() < 0.3 else ()
        if sum(kind.cpu for kind, where in standing if where == at) < nodes[at].cpu:
            standing.append((Kind(app, 1, rules), at))
    pods = sum(number for _, number in gang)
    least = tuple(chance.choice((0, 1)) for _ in gang)
    minimum = pods if packed or chance.random() < 0.7 else chance.randint(max(1, sum(least)), pods)
    return Instance(nodes, tuple(standing), tuple(gang), minimum, (0,) * len(gang) if packed else least, packed)


def _rule(chance: random.Random, app: str) -> Rule:
    what = chance.choice(("away", "away", "near", "even", "even"))
    other = chance.choice((app, app, app, "x", "y", "z"))
    return Rule(what, other, chance.choice((HOST, ZONE)), chance.randint(1, 2), chance.choice((0, 0, 0, 2)))


RECORDS: Final = ("at most", "apart", "near its own", "near others", "even", "racks")
"""What rules between pods become when places are counted; `records` says which of them an instance has."""


def records(instance: Instance) -> Iterator[str]:
    """What the rules of a gang become, as far as they are about its own pods."""
    apps = {kind.app for kind, _ in instance.gang}
    if instance.racks:
        yield "racks"
    for kind, _ in instance.gang:
        for rule in kind.rules:
            own = rule.app == kind.app
            if rule.what == "even":
                yield "even"
            elif own or rule.app in apps:
                yield _BETWEEN[rule.what, own]


_BETWEEN: Final = {
    ("away", True): "at most",
    ("away", False): "apart",
    ("near", True): "near its own",
    ("near", False): "near others",
}


def drawn_with(chance: random.Random, record: str, *, packed: bool) -> Instance:
    """An instance in which a rule becomes some record, beside whatever else is drawn."""
    instance = drawn(chance, packed=packed)
    if record == "racks":
        nodes = tuple(msgspec.structs.replace(node, rack=chance.randrange(3)) for node in instance.nodes)
        return msgspec.structs.replace(instance, nodes=nodes, racks=chance.choice((2, 2, 3)))
    (first, number), *others = instance.gang
    if record in ("apart", "near others"):
        (second, many), *others = others or [(Kind("y", chance.randint(1, 3)), chance.randint(1, 3))]
        second = msgspec.structs.replace(second, app="y")
        others = [(second, many), *others]
    rule = _rule(chance, first.app)
    what = {"apart": "away", "at most": "away", "even": "even"}.get(record, "near")
    about = "y" if record in ("apart", "near others") else first.app
    rule = msgspec.structs.replace(rule, what=what, app=about)
    first = msgspec.structs.replace(first, rules=(rule, *first.rules[1:]))
    gang = ((first, number), *others)
    least = tuple((*instance.least, 0)[: len(gang)])
    minimum = sum(many for _, many in gang) if packed else instance.minimum
    return msgspec.structs.replace(instance, gang=gang, least=least, minimum=minimum)


def order_decides(instance: Instance) -> bool:
    """Whether pods of the gang may hold each other up, so that only some orders of placing them reach a state.

    So it is with spreads that count pods of the gang which do not carry them alike, and with kinds of pods that look
    for each other over different labels.
    """
    kinds = [kind for kind, _ in instance.gang]
    evens = [(kind, rule) for kind in kinds for rule in kind.rules if rule.what == "even"]
    if any(rule.app == other.app and rule not in other.rules for _, rule in evens for other in kinds):
        return True
    nears = [(kind, rule) for kind in kinds for rule in kind.rules if rule.what == "near"]
    return any(
        one.app == that.app and other.app == this.app and one.key != other.key
        for this, one in nears
        for that, other in nears
    )


# -- the plainest answer

State = tuple[tuple[int, ...], ...]
"""By kind of the gang, how many of its pods stand on each node."""


def startable(instance: Instance, *, cleared: bool = False) -> bool:
    """Whether the gang can start, some way; `cleared`: if no other pod stood anywhere."""
    standing = () if cleared else instance.standing
    nothing: State = tuple((0,) * len(instance.nodes) for _ in instance.gang)
    seen, stack = {nothing}, [nothing]
    while stack:
        state = stack.pop()
        if _started(instance, state):
            return True
        for i, (kind, number) in enumerate(instance.gang):
            if sum(state[i]) == number or sum(map(sum, state)) == instance.minimum:
                continue
            for at in range(len(instance.nodes)):
                if _lets(instance, standing, state, i, kind, at):
                    own = (*state[i][:at], state[i][at] + 1, *state[i][at + 1 :])
                    after = (*state[:i], own, *state[i + 1 :])
                    if after not in seen:
                        seen.add(after)
                        stack.append(after)
    return False


def _started(instance: Instance, state: State) -> bool:
    enough = all(sum(own) >= least for own, least in zip(state, instance.least, strict=True))
    racks = {node.rack for at, node in enumerate(instance.nodes) if any(own[at] for own in state)}
    return enough and len(racks) >= instance.racks and sum(map(sum, state)) == instance.minimum


def _lets(
    instance: Instance, standing: tuple[tuple[Kind, int], ...], state: State, number: int, kind: Kind, at: int
) -> bool:
    """Whether one more pod of a kind is let on a node."""
    nodes = instance.nodes
    pods = [*standing]
    for (other, _), own in zip(instance.gang, state, strict=True):
        pods += [(other, where) for where, count in enumerate(own) for _ in range(count)]
    if sum(other.cpu for other, where in pods if where == at) + kind.cpu > nodes[at].cpu:
        return False
    if instance.packed and any(n and nodes[where].rack != nodes[at].rack for where, n in enumerate(state[number])):
        return False

    def value(where: int, key: str) -> str:
        return f"n{where}" if key == HOST else nodes[where].zone

    def together(where: int, key: str) -> bool:
        return bool(value(at, key)) and value(where, key) == value(at, key)

    for other, where in pods:
        if any(r.what == "away" and r.app == other.app and together(where, r.key) for r in kind.rules):
            return False
        if any(r.what == "away" and r.app == kind.app and together(where, r.key) for r in other.rules):
            return False
    near = [rule for rule in kind.rules if rule.what == "near"]
    wanted = [where for other, where in pods if all(rule.app == other.app for rule in near)]
    if any(not value(at, rule.key) for rule in near):
        return False
    if near and not all(any(together(where, rule.key) for where in wanted) for rule in near):
        some = any(value(where, rule.key) for where in wanted for rule in near)
        if some or any(rule.app != kind.app for rule in near):
            return False
    even = [rule for rule in kind.rules if rule.what == "even"]
    counted = [where for where in range(len(nodes)) if all(value(where, rule.key) for rule in even)]
    for rule in even:
        if not value(at, rule.key):
            return False
        by_place = {value(where, rule.key): 0 for where in counted}
        for other, where in pods:
            if where in counted and other.app == rule.app:
                by_place[value(where, rule.key)] += 1
        lowest = min(by_place.values(), default=0)
        if rule.domains and len(by_place) < rule.domains:
            lowest = 0
        if by_place.get(value(at, rule.key), 0) + (rule.app == kind.app) - lowest > rule.skew:
            return False
    return True
