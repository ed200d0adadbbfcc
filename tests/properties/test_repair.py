"""Gangs that lose nodes get whole again wherever that is possible, with the ranks and in the domains that they had."""

from __future__ import annotations

from itertools import permutations

import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from msgspec.structs import replace as replaced
from tests.support.depth import examples
from tests.support.draw import draw, gang, objects_of
from tests.support.manifests import job, partitions, task, tier
from tests.support.sight import schedule, sees
from tests.support.split_optimum import tree_of
from tests.support.strategies import trees

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.api.core import Pod
from tierwise.config.profile import DEFAULT, PluginChoice
from tierwise.model.ranks import near_homes
from tierwise.model.topology import Topology
from tierwise.port import Key, Objects
from tierwise.sim.cluster.rounds import Rounds

MARK = "tierwise.io/on-node-loss"


# -- replacements of one gang are chosen together


@st.composite
def _replacements(draw_: DrawFn) -> tuple[Topology, list[int], list[int]]:
    """A tree, the homes of some tasks, and at least as many free places."""
    topology = tree_of(draw_(trees()))
    homes = draw_(st.lists(st.integers(0, len(topology) - 1), min_size=1, max_size=4))
    places = st.lists(st.integers(0, len(topology.leaf) - 1), min_size=len(homes), max_size=len(homes))
    return topology, homes, draw_(places)


def _distance(topology: Topology, home: int, row: int) -> int:
    """How many tiers from its home a task is."""
    return int(topology.tier[topology.meet(home, int(topology.leaf[row]))]) - int(topology.tier[home])


@given(_replacements())
def test_ranks_are_dealt_as_near_to_their_homes_as_can_be(drawn: tuple[Topology, list[int], list[int]]) -> None:
    """No other way to deal the rows has the tasks nearer, taken together."""
    topology, homes, rows = drawn
    found = near_homes(topology, homes, np.array(rows)).tolist()
    best = min(sum(map(_distance, [topology] * len(rows), homes, dealt)) for dealt in permutations(rows))

    assert sorted(rows) == sorted(found)
    assert best == sum(map(_distance, [topology] * len(rows), homes, found))


# -- whole lives: a job is placed, loses nodes, and is repaired


class Loss(msgspec.Struct, frozen=True):
    """A cluster of racks below spines, a job of equal groups on it, what else runs, and which nodes are lost."""

    racks: tuple[tuple[int, ...], ...]  # nodes by rack and spine
    groups: int
    size: int
    spine: bool  # whether all groups must be below one spine
    busy: tuple[int, ...]
    lost: tuple[int, ...]
    wish: str

    @property
    def tree(self) -> str:
        """As it is drawn."""
        names = iter(range(sum(map(sum, self.racks))))
        numbered = iter(range(100))
        spines = []
        for i, spine in enumerate(self.racks):
            inner = " ".join(f"r{next(numbered)}[{' '.join(f'n{next(names)}' for _ in range(size))}]" for size in spine)
            spines.append(f"(s{i}: {inner})")
        return f"z0: {' '.join(spines)}"

    def objects(self) -> Objects:
        world = draw(self.tree, node="cpu=1", running=" ".join(f"n{i}:cpu=1" for i in self.busy))
        parted = partitions(self.groups, self.size, minPartitions=self.groups, networkTopology=tier(1))
        total = self.groups * self.size
        raw = job(
            "train",
            task("w", total, partitionPolicy=parted),
            metadata={"annotations": {MARK: self.wish, "tierwise.io/pattern": f"pp={self.groups},tp={self.size}"}},
            minAvailable=total,
            networkTopology=tier(2 if self.spine else 3),
        )
        return Objects.of((codec.decode(m), m) for m in (*world.manifests, raw))

    def holds(self, without: tuple[int, ...]) -> bool:
        """Whether the job has a place at all on the nodes that are neither busy nor among these, by counting."""
        free = iter(i not in self.busy and i not in without for i in range(sum(map(sum, self.racks))))
        held = [sum(sum(next(free) for _ in range(size)) // self.size for size in spine) for spine in self.racks]
        return (max(held) if self.spine else sum(held)) >= self.groups


@st.composite
def _losses(draw_: DrawFn) -> Loss:
    racks = draw_(
        st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple), min_size=1, max_size=2).map(tuple)
    )
    nodes = range(sum(map(sum, racks)))
    some = st.lists(st.sampled_from(nodes), unique=True, max_size=3).map(tuple)
    return Loss(
        racks,
        draw_(st.integers(1, 3)),
        draw_(st.integers(1, 3)),
        draw_(st.booleans()),
        draw_(some),
        draw_(some),
        draw_(st.sampled_from(["replace", "restart-subgroup", "restart-all"])),
    )


def _lose(objects: Objects, nodes: tuple[int, ...]) -> Objects:
    """The same with nodes that are not ready."""
    changed: dict[Key, Raw] = {}
    for i in nodes:
        key = Key("", "Node", "", f"n{i}")
        raw = objects.raw(key)
        assert raw is not None
        status = raw["status"]
        assert isinstance(status, dict)
        changed[key] = {**raw, "status": {**status, "conditions": [{"type": "Ready", "status": "False"}]}}
    return objects.changed(changed, {})


def _places(history: Rounds) -> dict[str, tuple[str, str]]:
    """Node and rank of the pods of the job that run, by name."""
    pods = history.cluster.read().every(Pod)
    return {
        pod.metadata.name: (pod.spec.node_name, pod.metadata.annotations.get("tierwise.io/rank", ""))
        for pod in pods.values()
        if pod.spec.node_name and pod.metadata.name.startswith("train")
    }


@sees(evictions=1)
@given(_losses())
@examples(60)
def test_a_gang_is_whole_again_wherever_it_can_be(loss: Loss) -> None:
    """Where counting finds a place for the gang on what is left, it runs there as a whole, within its domains and with
    its ranks; where it finds none, nobody was evicted but from the lost nodes, unless the job wants that.
    """
    before = schedule(loss.objects(), DEFAULT, now=0.0)
    stood, total = _places(before), loss.groups * loss.size
    assert (total if loss.holds(()) else 0) == len(stood)
    if not stood:
        return
    after = schedule(_lose(before.cluster.read(), loss.lost), DEFAULT, now=60.0)
    stands = _places(after)
    down = {f"n{i}" for i in loss.lost}

    assert all(stood[name][1] == rank for name, (_, rank) in stands.items())
    assert down.isdisjoint(node for node, _ in stands.values())
    if loss.holds(loss.lost):
        assert total == len(stands)
        _assert_within(loss, {name: node for name, (node, _) in stands.items()})
    elif loss.wish == "replace":
        kept = {name for name, (node, _) in stood.items() if node not in down}
        assert kept == stands.keys()
    if loss.wish == "replace" and not any(e.reason.startswith("there is no room") for e in after.evictions):
        assert {name for name, (node, _) in stood.items() if node in down} == {
            e.task.key.removeprefix("default/") for e in after.evictions
        }


def _assert_within(loss: Loss, stands: dict[str, str]) -> None:
    """Every group is in one rack, and where the job says so all of them below one spine."""
    rack: dict[str, tuple[int, int]] = {}
    numbers = iter(range(100))
    for s, spine in enumerate(loss.racks):
        for r, size in enumerate(spine):
            rack |= {f"n{next(numbers)}": (s, r) for _ in range(size)}
    groups: dict[int, set[tuple[int, int]]] = {}
    for name, node in stands.items():
        groups.setdefault(int(name.rpartition("-")[2]) // loss.size, set()).add(rack[node])
    assert all(len(racks) == 1 for racks in groups.values())
    assert not loss.spine or len({s for racks in groups.values() for s, _ in racks}) == 1


# -- spares


@sees(binds=2, refusals=1)
@given(st.integers(1, 3), st.integers(1, 3), st.integers(0, 3), st.integers(1, 3))
@examples(40)
def test_spares_are_given_back_at_once(tasks: int, spares: int, lent: int, lost: int) -> None:
    """In the cycle in which an owner lacks pods they are nominated or bound, as far as its spares go."""
    lost = min(lost, tasks)
    names = [f"n{i}" for i in range(tasks + spares)]
    lent = min(lent, spares)
    world = draw(f"r0[{' '.join(names)}]", node="cpu=1")
    marks = {"tierwise.io/spares": str(spares)}
    stands = [*names[: tasks - lost], *["-"] * lost]
    gone = names[tasks - lost : tasks]
    owner = gang("train", tasks=tasks, within=1, on=" ".join(stands), marks=marks)
    borrower = gang(
        "lent", tasks=lent, on=" ".join(names[tasks : tasks + lent]), marks={"tierwise.io/borrows-spares": "true"}
    )
    objects = _lose(objects_of(world, owner, *([borrower] if lent else [])), tuple(int(name[1:]) for name in gone))
    several = replaced(DEFAULT, tiers=(*DEFAULT.tiers, (PluginChoice("repair", {"maxSpares": 3}),)))
    history = schedule(objects, several, now=0.0, cycles=1)
    _, report = history.reports[0]
    placed = sum(decision.count() for decision in report.decisions if decision.job.key == "default/train")

    if lost < tasks:
        assert (lost if lost <= spares else 0) == placed
        assert (lost <= spares and max(0, lost - (spares - lent)) > 0) == bool(report.evictions)
