"""What is evicted is there until it is gone: no bind counts on a victim of its own cycle having left."""

from __future__ import annotations

from random import Random

from tests.support.depth import size
from tests.support.victims import Judged, crowd, judge, profile
from tests.support.volumes import objects

from tierwise.sim.cluster.rounds import schedule

_CLUSTERS = size(80, 4000, quick=32)


def test_binds_keep_all_rules_while_victims_are_still_there() -> None:
    """Whatever the order of actions, every bind of a cycle keeps every rule with all victims of that cycle in place.

    Anti-affinity both ways, affinity, spread, ports, claims for one pod, limits and zones of volumes, devices and room;
    nobody goes twice, groups that fall as one go whole, and repair keeps within budgets. Too few evictions, or binds
    beside victims, prove nothing.
    """
    seen = Judged()
    for seed in range(_CLUSTERS):
        pick = Random(seed)
        manifests, chosen = crowd(pick), profile(pick)
        history = schedule(objects(*manifests), chosen, now=1767229200.0, cycles=2)
        for before, report in history.reports:
            judge(manifests, before, report, seen)

    assert [] == seen.faults
    assert seen.evictions >= _CLUSTERS // 2
    assert seen.beside >= _CLUSTERS // 12
    assert seen.together >= _CLUSTERS // 20
    assert {"repair", "gangpreempt", "podpreempt", "jobpreempt"} <= seen.kinds.keys()
