"""Actions in an order that nobody expects, or twice: what one has dealt with, the next leaves alone."""

from __future__ import annotations

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


def test_allocate_twice_places_once() -> None:
    """A second allocate in the same cycle finds nothing left to do."""
    gang = Gang("gang", (Pod("gang-0", "cpu=1"), Pod("gang-1", "cpu=1"), Pod("gang-2", "cpu=1")), 2)
    told = once(replace(NODE, gangs=(gang,)), profile_of("allocate"))

    placed = [task.key for decision in told.report.decisions for one in decision.placed for task in one.tasks]
    assert ["default/gang-0", "default/gang-1", "default/gang-2"] == placed
