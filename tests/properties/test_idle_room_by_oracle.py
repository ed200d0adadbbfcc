"""Nobody is evicted for a gang that idle room might do for: a second solver looks at every plan."""

from __future__ import annotations

import random

import pytest
from msgspec.structs import replace
from tests.digest.scenes import KINDS, cases
from tests.support.depth import size
from tests.support.draw import allocate
from tests.support.ruled_gangs import Instance, Kind, Node, drawn
from tests.support.ruled_victims import crowded, important, victims

from tierwise.config.profile import DEFAULT
from tierwise.explain.idle_plans import PlansSeen, look_at_plans
from tierwise.sim.cluster.rounds import schedule

EVICTING = [kind for kind in KINDS if kind.startswith("evicting")]
SIZE = size(1500, 20_000, quick=500)
DRAWN = size(150, 4000, quick=50)


@pytest.mark.parametrize("kind", EVICTING)
def test_no_plan_of_a_scene_was_needless(kind: str) -> None:
    """In scenes of the digest with fabrics, nested groups, quotas and several queues."""
    for name, make in cases(SIZE):
        if name.startswith(f"{kind}/"):
            case = make()
            history = schedule(case.objects, case.profile, now=case.now, cycles=case.cycles)
            for snapshot, report in history.reports:
                assert () == look_at_plans(snapshot, report, case.profile).needless, name


@pytest.mark.parametrize("packed", [False, True])
def test_no_plan_of_a_gang_with_rules_was_needless(packed: bool) -> None:
    """And enough plans are looked at."""
    profile, looked = replace(DEFAULT, actions=("enqueue", "allocate", "gangpreempt")), 0
    for seed in range(DRAWN):
        chance = random.Random(f"idle room {seed}")
        instance = crowded(chance, drawn(chance, packed=packed))
        outcome = allocate(victims(instance), important(instance), profile=profile)
        seen = look_at_plans(outcome.snapshot, outcome.report, profile)
        looked += seen.looked
        assert () == seen.needless, seed
    assert looked > DRAWN // 12


def test_a_needless_plan_is_found() -> None:
    """The plan of a full cluster, held against one with an idle node besides."""
    profile = replace(DEFAULT, actions=("enqueue", "allocate", "gangpreempt"))
    full = Instance((Node(2, "a", 0),), ((Kind("y", 2), 0),), ((Kind("x", 1), 2),), 2, (0,), packed=False)
    roomy = replace(full, nodes=(*full.nodes, Node(2, "a", 0)))
    report = allocate(victims(full), important(full), profile=profile).report
    snapshot = allocate(victims(roomy), important(roomy), profile=profile).snapshot

    assert report.evictions
    assert PlansSeen((("default/g", "gangpreempt"),), 1) == look_at_plans(snapshot, report, profile)
