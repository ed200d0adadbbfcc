"""Draw a cluster and its gangs in a line each, run one cycle, and ask where things went.

    world = draw("s0: r0[n0 n1] r1[n2 n3 n4]", node="gpu=4", running="n0:gpu=4")
    outcome = allocate(world, gang("train", tasks=2, each="gpu=4", within=1))
    assert {"n2": 1, "n3": 1} == placed(outcome, "train")

A tree is written `name[members]`, members being domains or nodes; `name: members` takes all that follows in its
group, round brackets make a group, `n0..3` stands for n0 to n3, names outside every bracket are nodes outside every
domain. A domain's tier is one more than the highest below it (innermost 1), or given as `name@tier`.
Amounts are written `gpu=4 cpu=64 mem=8` (mem in Gi). Wherever pods stand, `n0` is a pod that runs on n0, `n0!` one
that is on its way out, `-` a pending pod, `~` one behind a gate, `+` one that has succeeded.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Protocol

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.api.natural import natural
from tierwise.config.profile import DEFAULT, Profile
from tierwise.dialects.build import build
from tierwise.framework.report import CycleReport
from tierwise.model.snapshot import Snapshot
from tierwise.port import Bind, Nominate, Objects
from tierwise.scheduler import cycle, effects

__all__ = [
    "Gang",
    "Groups",
    "Outcome",
    "Role",
    "World",
    "allocate",
    "by_group",
    "draw",
    "gang",
    "groups",
    "objects_of",
    "placed",
    "role",
    "spots",
    "waiting",
    "why",
]

_LONG = {"gpu": "nvidia.com/gpu", "mem": "memory"}
_LEAVING = "1970-01-01T00:00:00Z"


def amounts(text: str) -> dict[str, str]:
    """Read `gpu=4 cpu=64`, parted by blanks or commas."""
    pairs = (item.split("=") for item in text.replace(",", " ").split())
    return {_LONG.get(name, name): f"{number}Gi" if name == "mem" else number for name, number in pairs}


class Printer(Protocol):
    """What Hypothesis' printer offers."""

    def text(self, obj: str) -> None: ...


# -- clusters


@dataclass(frozen=True)
class World:
    """A cluster as plain manifests, and the drawing that they come from."""

    manifests: tuple[Raw, ...]
    drawing: str

    def _repr_pretty_(self, printer: Printer, cycle: bool) -> None:
        printer.text(self.drawing)


@dataclass(frozen=True)
class _Domain:
    name: str
    members: tuple[_Domain | str, ...]
    given: int | None

    @property
    def tier(self) -> int:
        inner = (m.tier for m in self.members if isinstance(m, _Domain))
        return self.given if self.given is not None else 1 + max(inner, default=0)


def draw(
    tree: str,
    *,
    node: str = "cpu=8",
    nodes: Mapping[str, str] | None = None,
    running: str = "",
    cordoned: str = "",
    tier_names: Mapping[int, str] | None = None,
    queues: str = "",
) -> World:
    """A cluster: `running` holds `n0:gpu=4` for each pod of nobody, `queues` names, those with `!` closed."""
    drawing = f"draw({tree!r}, {node=}, {nodes=}, {running=}, {cordoned=}, {tier_names=}, {queues=})"
    members = _parse(_tokens(tree))
    names = list(_node_names(members))
    hypernodes = [_hypernode(d, (tier_names or {}).get(d.tier, "")) for d in _domains(members)]
    machines = [_node(name, (nodes or {}).get(name, node), name in cordoned.split()) for name in names]
    busy = [_pod(f"busy-{i}", *item.split(":")) for i, item in enumerate(running.split())]
    return World((*machines, *hypernodes, *busy, *map(_queue, queues.split())), drawing)


def _tokens(tree: str) -> list[str]:
    return re.findall(r"[^\s\[\]():]+|[\[\]():]", tree)


def _parse(tokens: list[str]) -> tuple[_Domain | str, ...]:
    """Members up to the end of the group; uses the tokens up."""
    members: list[_Domain | str] = []
    while tokens and tokens[0] not in ("]", ")"):
        name = tokens.pop(0)
        opened = tokens[0] if tokens else ""
        if name == "(":
            members += _parse(tokens)
            tokens.pop(0)
        elif opened in ("[", ":"):
            tokens.pop(0)
            short, _, tier = name.partition("@")
            members.append(_Domain(short, _parse(tokens), int(tier) if tier else None))
            if opened == "[":
                tokens.pop(0)
        else:
            members += _range(name)
    return tuple(members)


def _range(name: str) -> list[str]:
    found = re.fullmatch(r"(.*?)(\d+)\.\.(\d+)", name)
    return [f"{found[1]}{i}" for i in range(int(found[2]), int(found[3]) + 1)] if found else [name]


def _node_names(members: Iterable[_Domain | str]) -> Iterator[str]:
    for member in members:
        yield from _node_names(member.members) if isinstance(member, _Domain) else (member,)


def _domains(members: Iterable[_Domain | str]) -> Iterator[_Domain]:
    for member in members:
        if isinstance(member, _Domain):
            yield member
            yield from _domains(member.members)


def _hypernode(domain: _Domain, tier_name: str) -> Raw:
    members: list[Raw] = [
        {
            "type": "HyperNode" if isinstance(m, _Domain) else "Node",
            "selector": {"exactMatch": {"name": m.name if isinstance(m, _Domain) else m}},
        }
        for m in domain.members
    ]
    spec: Raw = {"tier": domain.tier, "members": members} | ({"tierName": tier_name} if tier_name else {})
    return _manifest("topology.volcano.sh/v1alpha1", "HyperNode", {"name": domain.name}, spec=spec)


def _node(name: str, has: str, cordoned: bool) -> Raw:
    status = {"allocatable": {"pods": "110"} | amounts(has)}
    metadata: Raw = {"name": name, "labels": {"kubernetes.io/hostname": name}}
    return _manifest("v1", "Node", metadata, spec={"unschedulable": cordoned}, status=status)


def _queue(name: str) -> Raw:
    state = "Closed" if name.endswith("!") else "Open"
    return _manifest("scheduling.volcano.sh/v1beta1", "Queue", {"name": name.rstrip("!")}, status={"state": state})


def _manifest(api_version: str, kind: str, metadata: Raw, **rest: object) -> Raw:
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **rest}


def _pod(name: str, where: str, asks: str, metadata: Raw | None = None, further: Raw | None = None) -> Raw:
    """One pod; `where` as the module says."""
    meta: Raw = {"name": name, "namespace": "default", **(metadata or {})}
    requests = {"resources": {"requests": amounts(asks)}} if asks else {}
    spec: Raw = {"containers": [{"name": "main", **requests}], **(further or {})}
    status: Raw = {"phase": {"+": "Succeeded", "-": "Pending", "~": "Pending"}.get(where, "Running")}
    if where == "~":
        spec["schedulingGates"] = [{"name": "wait"}]
    elif where not in ("-", "+"):
        spec["nodeName"] = where.rstrip("!")
        if where.endswith("!"):
            meta["deletionTimestamp"] = _LEAVING
    return _manifest("v1", "Pod", meta, spec=spec, status=status)


# -- gangs


class _Call:
    """Shows a value as the call that makes it, defaults left out; Hypothesis prints failing examples so."""

    def __repr__(self) -> str:
        assert is_dataclass(self)
        said = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != f.default}
        return f"{type(self).__name__.lower()}({', '.join(f'{k}={v!r}' for k, v in said.items() if v != {})})"

    def _repr_pretty_(self, printer: Printer, cycle: bool) -> None:
        printer.text(repr(self))


@dataclass(frozen=True, repr=False)
class Role(_Call):
    """Pods of one role; `minimum` of them must start, where it is given."""

    name: str
    tasks: int
    each: str = "cpu=1"
    minimum: int | None = None


@dataclass(frozen=True, repr=False)
class Groups(_Call):
    """Alike sub-groups of one policy: `size` pods are the least of each, `tasks` what it has (the same if left out)."""

    count: int
    size: int
    tasks: int | None = None
    within: int | str | None = None
    soft: bool = False
    minimum: int = 0
    each: str = ""
    name: str = "part"


@dataclass(frozen=True, repr=False)
class Gang(_Call):
    """A pod group and its pods: plain ones first, then role by role, then sub-group by sub-group.

    `within` is a hard tier by number or name, "" a hard constraint that names none; `on` says where the pods stand,
    in order, those left out being pending.
    """

    name: str
    tasks: int = 0
    each: str = "cpu=1"
    within: int | str | None = None
    soft: bool = False
    minimum: int | None = None
    roles: tuple[Role, ...] = ()
    groups: tuple[Groups, ...] = ()
    on: str = ""
    priority: int = 0
    queue: str = ""
    created: int = 0
    least: str = ""
    phase: str = ""
    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # further ones, by pod
    spec: Raw = field(default_factory=dict)  # further fields of every pod's spec

    def manifests(self) -> list[Raw]:
        members = [(f"{self.name}-{i}", self.each, {}) for i in range(self.tasks)]
        for r in self.roles:
            members += [(f"{self.name}-{r.name}-{i}", r.each, {"volcano.sh/task-spec": r.name}) for i in range(r.tasks)]
        for g in self.groups:
            for i in range(g.count):
                pods = range(g.size if g.tasks is None else g.tasks)
                members += [(f"{self.name}-{g.name}-{i}-{j}", g.each or self.each, {g.name: str(i)}) for j in pods]
        where = [*self.on.split(), *["-"] * len(members)]
        pods = [
            _pod(name, spot, each, self._metadata(name, labels), {"priority": self.priority, **self.spec})
            for (name, each, labels), spot in zip(members, where, strict=False)
        ]
        return [self._pod_group(len(members)), *pods]

    def _metadata(self, pod: str, labels: Mapping[str, str]) -> Raw:
        annotations = {"scheduling.k8s.io/group-name": self.name}
        return {"labels": {**labels, **self.labels.get(pod, {})}, "annotations": annotations}

    def _pod_group(self, tasks: int) -> Raw:
        created = f"1970-01-01T00:{self.created // 60:02}:{self.created % 60:02}Z"
        metadata: Raw = {"name": self.name, "namespace": "default", "creationTimestamp": created}
        spec: Raw = {
            "minMember": tasks if self.minimum is None else self.minimum,
            "minTaskMember": {r.name: r.minimum for r in self.roles if r.minimum is not None},
            "queue": self.queue,
            "minResources": amounts(self.least) if self.least else None,
            "networkTopology": _topology(self.within, self.soft),
            "subGroupPolicy": [
                {
                    "name": g.name,
                    "subGroupSize": g.size,
                    "minSubGroups": g.minimum,
                    "matchLabelKeys": [g.name],
                    "networkTopology": _topology(g.within, g.soft),
                }
                for g in self.groups
            ],
        }
        api_version = "scheduling.volcano.sh/v1beta1"
        return _manifest(api_version, "PodGroup", metadata, spec=spec, status={"phase": self.phase})


gang, groups, role = Gang, Groups, Role


def _topology(within: int | str | None, soft: bool) -> Raw | None:
    if soft:
        return {"mode": "soft"}
    if within is None:
        return None
    if within == "":
        return {"mode": "hard"}
    return {"mode": "hard", "highestTierAllowed" if isinstance(within, int) else "highestTierName": within}


# -- what comes out


@dataclass(frozen=True)
class Outcome:
    """What one cycle did, pod by pod."""

    snapshot: Snapshot
    report: CycleReport
    bindings: dict[str, str]
    nominations: dict[str, str]


def objects_of(world: World, *gangs: Gang) -> Objects:
    """The manifests of a cluster and its gangs, decoded."""
    manifests = (*world.manifests, *(m for g in gangs for m in g.manifests()))
    return Objects.of((codec.decode(m), m) for m in manifests)


def allocate(world: World, *gangs: Gang, profile: Profile = DEFAULT) -> Outcome:
    """One cycle over the cluster and these gangs."""
    snapshot = build(objects_of(world, *gangs), now=0.0)
    report = cycle(snapshot, profile)
    asked = effects(snapshot, report)
    return Outcome(
        snapshot,
        report,
        {e.pod.name: e.node for e in asked if isinstance(e, Bind)},
        {e.pod.name: e.node for e in asked if isinstance(e, Nominate)},
    )


def placed(outcome: Outcome, name: str) -> dict[str, int]:
    """How many pods of a gang each node was given in this cycle."""
    return dict(Counter(node for _, node in _of(outcome.bindings, name)))


def waiting(outcome: Outcome, name: str) -> dict[str, int]:
    """How many pods of a gang wait for each node."""
    return dict(Counter(node for _, node in _of(outcome.nominations, name)))


def spots(outcome: Outcome, name: str) -> str:
    """The nodes of a gang's pods in the natural order of their names."""
    return " ".join(node for _, node in _of(outcome.bindings, name))


def by_group(outcome: Outcome, name: str) -> dict[str, str]:
    """The same for each sub-group, by its number."""
    found: dict[str, list[str]] = {}
    for pod, node in _of(outcome.bindings, name):
        found.setdefault(pod.rsplit("-", 1)[0].removeprefix(f"{name}-"), []).append(node)
    return {group: " ".join(nodes) for group, nodes in found.items()}


def _of(where: Mapping[str, str], name: str) -> list[tuple[str, str]]:
    return sorted(((p, n) for p, n in where.items() if p.startswith(f"{name}-")), key=lambda item: natural(item[0]))


def why(outcome: Outcome, name: str) -> str:
    """The code of the reason why (the rest of) a gang waits; empty where there is none."""
    rejection = outcome.report.rejections.get(f"default/{name}")
    return rejection.reason.code if rejection is not None else ""
