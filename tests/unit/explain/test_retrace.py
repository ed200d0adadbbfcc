"""Going through a cycle's decisions again: what made room stands before what used it."""

from __future__ import annotations

from msgspec.structs import replace
from tests.support.evict_world import Gang, Pod, Scene, objects, profile_of

from tierwise.explain.decision_basis import decision_bases
from tierwise.sim.cluster import rounds

RACK = Scene({"s0": ("r0",)}, {"r0": ("n0",)}, {"n0": "cpu=4"})


def test_who_made_room_is_gone_for_those_after() -> None:
    """A gang that is placed on what an eviction of the same cycle leaves is told that it fits there."""
    victim = Gang("low", (Pod("low-0", "cpu=4", on="n0"),), 1)
    urgent = Gang("urgent", (Pod("urgent-0", "cpu=1", priority=9),), 1, priority=9)
    modest = replace(Gang("modest", (Pod("modest-0", "cpu=2", never=True),), 1), within=1)  # left to allocate
    profile = profile_of("gangpreempt allocate")
    history = rounds.schedule(objects(replace(RACK, gangs=(victim, urgent, modest))), profile, now=0.0, cycles=1)
    (snapshot, report) = history.reports[0]

    (basis,) = decision_bases(snapshot, report, profile, {"default/modest"}).values()

    assert ["gangpreempt", "allocate"] == [decision.action for decision in report.decisions]
    assert [1] == [tried.fits for tried in basis.tried if tried.tier == 1]
