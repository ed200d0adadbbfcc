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

from collections import Counter
from collections.abc import Mapping

import msgspec
from tests.support.drawn_gang import (
    Gang,
    Groups,
    Printer,
    Role,
    amounts,
    gang,
    groups,
    manifest,
    pod,
    role,
)
from tests.support.drawn_tree import Domain, domains, node_names, read_tree

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.api.natural import natural
from tierwise.config.profile import DEFAULT, Profile
from tierwise.framework.report import CycleReport
from tierwise.model.snapshot import Snapshot
from tierwise.port import Bind, Nominate, Objects
from tierwise.scheduler import cycle
from tierwise.scheduler.effects import effects
from tierwise.snapshot.builder import build

__all__ = [
    "Gang",
    "Groups",
    "Outcome",
    "Printer",
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


class World(msgspec.Struct, frozen=True):
    """A cluster as plain manifests, and the drawing that they come from."""

    manifests: tuple[Raw, ...]
    drawing: str

    def _repr_pretty_(self, printer: Printer, cycle: bool) -> None:
        printer.text(self.drawing)


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
    members = read_tree(tree)
    names = list(node_names(members))
    hypernodes = [_hypernode(d, (tier_names or {}).get(d.tier, "")) for d in domains(members)]
    machines = [_node(name, (nodes or {}).get(name, node), name in cordoned.split()) for name in names]
    standing = (item.split(":") for item in running.split())
    busy = [pod(f"busy-{i}", where, asks) for i, (where, asks) in enumerate(standing)]
    return World((*machines, *hypernodes, *busy, *map(_queue, queues.split())), drawing)


def _hypernode(domain: Domain, tier_name: str) -> Raw:
    members: list[Raw] = [
        {
            "type": "HyperNode" if isinstance(m, Domain) else "Node",
            "selector": {"exactMatch": {"name": m.name if isinstance(m, Domain) else m}},
        }
        for m in domain.members
    ]
    spec: Raw = {"tier": domain.tier, "members": members} | ({"tierName": tier_name} if tier_name else {})
    return manifest("topology.volcano.sh/v1alpha1", "HyperNode", {"name": domain.name}, spec=spec)


def _node(name: str, has: str, cordoned: bool) -> Raw:
    status = {"allocatable": {"pods": "110"} | amounts(has)}
    metadata: Raw = {"name": name, "labels": {"kubernetes.io/hostname": name}}
    return manifest("v1", "Node", metadata, spec={"unschedulable": cordoned}, status=status)


def _queue(name: str) -> Raw:
    state = "Closed" if name.endswith("!") else "Open"
    return manifest("scheduling.volcano.sh/v1beta1", "Queue", {"name": name.rstrip("!")}, status={"state": state})


# -- what comes out


class Outcome(msgspec.Struct, frozen=True):
    """What one cycle did, pod by pod."""

    snapshot: Snapshot
    report: CycleReport
    bindings: dict[str, str]
    nominations: dict[str, str]


def objects_of(world: World, *gangs: Gang) -> Objects:
    """The manifests of a cluster and its gangs, decoded."""
    manifests = (*world.manifests, *(m for g in gangs for m in g.manifests()))
    return Objects.of((codec.decode(m), m) for m in manifests)


def allocate(world: World, *gangs: Gang, profile: Profile = DEFAULT, now: float = 0.0) -> Outcome:
    """One cycle over the cluster and these gangs."""
    snapshot = build(objects_of(world, *gangs), now, profile)
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
    for member, node in _of(outcome.bindings, name):
        found.setdefault(member.rsplit("-", 1)[0].removeprefix(f"{name}-"), []).append(node)
    return {group: " ".join(nodes) for group, nodes in found.items()}


def _of(where: Mapping[str, str], name: str) -> list[tuple[str, str]]:
    return sorted(((p, n) for p, n in where.items() if p.startswith(f"{name}-")), key=lambda item: natural(item[0]))


def why(outcome: Outcome, name: str) -> str:
    """The code of the reason why (the rest of) a gang waits; empty where there is none."""
    rejection = outcome.report.rejections.get(f"default/{name}")
    return rejection.reason.code if rejection is not None else ""
