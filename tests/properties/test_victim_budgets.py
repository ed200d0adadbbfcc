"""Filters that count in arrays say what they say where victims are gone through one by one."""

from __future__ import annotations

from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.support.depth import examples

from tierwise.config.profile import PluginChoice
from tierwise.framework.extension import Preemptor, Purpose
from tierwise.model.job import Job
from tierwise.model.running import RunningTable
from tierwise.model.snapshot import Snapshot
from tierwise.scheduler import open_cycle
from tierwise_lab.bench.evictions import EVICTING, scattered
from tierwise_lab.bench.worlds import flat_cluster

PROFILE = replace(EVICTING, tiers=(*EVICTING.tiers, (PluginChoice("pdb"),)))


def one_by_one(running: RunningTable, victims: list[int], left: dict[str, int]) -> list[bool]:
    """The slow twin: who goes uses up one disruption of its budget; pods under two budgets stay."""
    goes = []
    for victim in victims:
        budgets = running.tasks[victim].budgets
        goes.append(len(budgets) < 2 and all(left[budget] > 0 for budget in budgets))
        for budget in budgets if goes[-1] else ():
            left[budget] -= 1
    return goes


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Snapshot, Random]:
    """Pods without a budget, with one and with several, and budgets that are used up; gangs with pods to spare."""
    pick = draw(st.randoms(use_true_random=False))
    allowed = {f"d/b{i}": number for i, number in enumerate(pick.choices(range(5), k=pick.randrange(1, 5)))}

    def covered(job: Job) -> Job:
        if not job.subs[0].tasks:
            return job
        names = [*allowed]
        tasks = tuple(
            replace(t, budgets=tuple(pick.sample(names, pick.randrange(min(3, len(names) + 1))))) for t in job.tasks
        )
        minimum = pick.randrange(1, len(tasks) + 1)
        return replace(job, tasks=tasks, minimum=minimum, subs=(replace(job.subs[0], tasks=tasks),))

    full = scattered(flat_cluster(1, 4), 1, need=1)
    return replace(full, jobs=tuple(map(covered, full.jobs)), budgets=allowed), pick


@given(worlds())
@examples(40)
def test_counting_equals_one_by_one(world: tuple[Snapshot, Random]) -> None:
    """Whoever is asked about, in whatever order."""
    full, pick = world
    cycle = open_cycle(full, PROFILE)
    job, running = full.jobs[-1], cycle.running
    preemptor = Preemptor(Purpose.PREEMPT, job, job.subs[0].request, gang=True, running=running)
    victims = pick.sample(range(len(running)), pick.randrange(len(running) + 1))
    goes = cycle.pipeline.counted(preemptor, np.array(victims, dtype=np.int64))

    assert one_by_one(running, victims, dict(full.budgets)) == goes.tolist()


@given(worlds(), st.booleans())
@examples(20)
def test_who_could_go_is_asked_about_alone(world: tuple[Snapshot, Random], gang: bool) -> None:
    """What filters that count say of each alone is what they say where nobody else is asked about."""
    full, _ = world
    cycle = open_cycle(full, PROFILE)
    job, everyone = full.jobs[-1], np.arange(len(cycle.running))
    preemptor = Preemptor(Purpose.PREEMPT, job, job.subs[0].request, gang=gang, running=cycle.running)
    each = [bool(cycle.pipeline.may_go(preemptor, everyone[i : i + 1])[0]) for i in everyone.tolist()]

    assert (
        each
        == cycle.pipeline.alone(preemptor, everyone).tolist()
        == cycle.pipeline.could_go(preemptor, everyone).tolist()
    )
