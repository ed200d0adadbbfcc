"""Several who act in one cycle, and what stood before it: what one of them takes is not there for the next."""

from __future__ import annotations

from functools import partial

import pytest
from msgspec.structs import replace
from tests.support.draw import World, allocate, draw, gang, groups, objects_of, placed, waiting
from tests.support.strategies import profile

from tierwise.api.codec import Raw
from tierwise.api.merge_patch import merged
from tierwise.config.profile import DEFAULT, PluginChoice
from tierwise.scheduler import cycle
from tierwise.snapshot.builder import Reader

REPLACE = {"tierwise.io/on-node-loss": "replace"}
NOT_READY: Raw = {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}
RACKS = "s0: r0[n0 n1 n2] r1[n3 n4 n5] r2[n6 n7 n8]"
PREEMPTING = replace(
    profile("priority", "gang", "predicates", "network-topology-aware", "capacity"),
    actions=("enqueue", "allocate", "gangpreempt"),
)

_gang = partial(gang, owned=True)


def _lose(world: World, *nodes: str) -> World:
    return World(
        tuple(merged(raw, NOT_READY) if raw["metadata"]["name"] in nodes else raw for raw in world.manifests),  # type: ignore[index]
        world.drawing,
    )


def _evicted(outcome: object) -> list[str]:
    return sorted(e.task.key.partition("/")[2] for e in outcome.report.evictions)  # type: ignore[attr-defined]


def _half(name: str, on: str) -> object:
    return _gang(name, tasks=3, each="cpu=8", within=1, on=on, marks=REPLACE)


def test_two_gangs_that_lose_nodes_do_not_move_to_one_rack() -> None:
    """Each would have its only place there: one of them moves, and the other hears that there is no room."""
    world = _lose(draw(RACKS), "n2", "n5")

    outcome = allocate(world, _half("a", "n0 n1 -"), _half("b", "n3 n4 -"))  # type: ignore[arg-type]

    assert ["a-0", "a-1"] == _evicted(outcome)
    assert "neither a part nor all of the gang has a place elsewhere" in str(outcome.report.eviction_attempts)


def test_a_place_that_a_gang_moves_to_is_not_given_to_who_comes_after_it() -> None:
    """A gang that is served later finds the rack kept, and waits; without the move it would have it."""
    world = _lose(draw(RACKS), "n2")
    later = gang("later", tasks=3, each="cpu=8", within=1, priority=-1)
    busy = gang("busy", tasks=3, each="cpu=8", within=1, on="n3 n4 n5", priority=9)

    with_move = allocate(world, _half("a", "n0 n1 -"), busy, later)  # type: ignore[arg-type]
    without = allocate(world, busy, later)

    assert ({}, {"n6": 1, "n7": 1, "n8": 1}) == (placed(with_move, "later"), placed(without, "later"))


@pytest.mark.parametrize(("most", "expected"), [("8", ["low-0"]), ("4", []), ("16", [])])
def test_a_gang_of_a_queue_at_its_capability_evicts_in_its_queue_or_waits(most: str, expected: list[str]) -> None:
    """A free node does not help where the queue is full; where even its victims' share is too little, nobody goes."""
    queue: Raw = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": "q"},
        "spec": {"capability": {"cpu": most}},
    }
    world = draw("s0: r0[n0 n1 n2]")
    world = World((*world.manifests, queue), world.drawing)
    low = gang("low", tasks=1, each="cpu=8", on="n0", queue="q", priority=1)
    other = gang("other", tasks=1, each="cpu=8", on="n1", priority=0)

    outcome = allocate(
        world, low, other, gang("high", tasks=1, each="cpu=8", queue="q", priority=9), profile=PREEMPTING
    )

    assert expected == _evicted(outcome)
    assert ({"n2": 1} if most == "16" else {}) == placed(outcome, "high")


def test_sub_groups_of_which_a_part_runs_are_completed_where_they_stand() -> None:
    """The rest of each joins its own rack, also where the other rack has more room."""
    half = gang("g", each="cpu=4", on="n0 - n3 -", groups=(groups(2, 2, within=1),))

    outcome = allocate(draw(RACKS), half)

    assert ({}, {"r0": 1, "r1": 1}) == (waiting(outcome, "g"), _by_rack(placed(outcome, "g")))


def _by_rack(nodes: dict[str, int]) -> dict[str, int]:
    found: dict[str, int] = {}
    for name, number in nodes.items():
        rack = f"r{int(name[1:]) // 3}"
        found[rack] = found.get(rack, 0) + number
    return found


def test_complaints_end_with_what_they_are_about() -> None:
    """A reader that follows the cluster tells of spares that no profile keeps as long as the gang asks for them."""
    repairing = replace(DEFAULT, tiers=(*DEFAULT.tiers, (PluginChoice("repair", {}),)))
    asks = gang("g", tasks=2, each="cpu=1", on="n0 n1", marks={"tierwise.io/spares": "9999"})
    reader, told = Reader(repairing), []
    for number, one in enumerate((asks, gang("g", tasks=2, each="cpu=1", on="n0 n1"), asks, None)):
        objects = objects_of(draw(RACKS), *((one,) if one is not None else ()))
        report = cycle(reader.read(objects, float(number)), repairing)
        told.append([reason.code for _, reason in report.complaints])

    assert [["FewerSpares"], [], ["FewerSpares"], []] == told


@pytest.mark.parametrize(
    ("state", "expected"), [("", 1), ("Open", 1), ("Unknown", 1), ("Closing", 0), ("Closed", 0), ("Bogus", 0)]
)
def test_a_queue_that_is_closing_gives_no_more_and_takes_nothing_back(state: str, expected: int) -> None:
    """What runs in it stays, and nothing of it starts, whatever the state says beside that it is open."""
    queue: Raw = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": "q"},
        "status": {"state": state},
    }
    world = draw("s0: r0[n0 n1]")
    world = World((*world.manifests, queue), world.drawing)
    runs, waits = gang("runs", tasks=1, on="n0", queue="q"), gang("waits", tasks=1, queue="q")

    outcome = allocate(world, runs, waits)

    assert (expected, []) == (sum(placed(outcome, "waits").values()), _evicted(outcome))
