"""Actions in an order that nobody expects, or twice: what one has dealt with, the next leaves alone."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.support.evict_world import Gang, Pod, Scene, once, profile_of

NODE = Scene({"s0": ("r0",)}, {"r0": ("n0",)}, {"n0": "cpu=4"})


def test_allocate_leaves_nominated_gangs_alone() -> None:
    """A gang for which room was made is not placed a second time by an allocate that comes later in the cycle."""
    low = Gang("low", (Pod("low-0", "cpu=4", on="n0"),), 1)
    urgent = Gang("urgent", (Pod("urgent-0", "cpu=1", priority=9),), 1, priority=9)
    modest = Gang("modest", (Pod("modest-0", "cpu=3", never=True),), 1)
    told = once(replace(NODE, gangs=(low, urgent, modest)), profile_of("gangpreempt allocate"))

    assert ["default/urgent", "default/modest"] == [decision.job.key for decision in told.report.decisions]
    assert {"default/urgent-0": "n0", "default/modest-0": "n0"} == told.wire["nominations"]


@pytest.mark.parametrize("action", ["gangpreempt", "preempt", "gangreclaim", "reclaim", "podpreempt", "jobpreempt"])
def test_the_rest_of_a_gang_that_an_evicting_action_starts_is_told_so(action: str) -> None:
    """Room that a nominated gang leaves after another was refused starts that one, and its surplus waits for it."""
    racks = Scene(
        {"s0": ("r0", "r1")}, {"r0": ("n0",), "r1": ("n1", "n2")}, {"n0": "cpu=5", "n1": "cpu=4", "n2": "cpu=4"}
    )
    first = Gang("first", (Pod("first-0", "cpu=5"), Pod("first-1", "cpu=5")), 1, priority=1)
    moves = Gang("moves", (Pod("moves-0", "cpu=4", nominated="n0"), Pod("moves-1", "cpu=4")), 2, within=1)
    told = once(replace(racks, gangs=(first, moves)), profile_of(action))

    assert {"default/moves-0": "n1", "default/moves-1": "n2", "default/first-0": "n0"} == told.wire["bindings"]
    assert [("default/first-1", "WaitsForGang")] == [(one["pod"], one["reason"]) for one in told.wire["pending"]]


def test_allocate_twice_places_once() -> None:
    """A second allocate in the same cycle finds nothing left to do."""
    gang = Gang("gang", (Pod("gang-0", "cpu=1"), Pod("gang-1", "cpu=1"), Pod("gang-2", "cpu=1")), 2)
    told = once(replace(NODE, gangs=(gang,)), profile_of("allocate"))

    placed = [task.key for decision in told.report.decisions for one in decision.placed for task in one.tasks]
    assert ["default/gang-0", "default/gang-1", "default/gang-2"] == placed
