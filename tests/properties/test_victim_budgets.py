"""Counting disruption budgets down in arrays gives what going through the victims one by one gives."""

from __future__ import annotations

from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.support.depth import examples

from tierwise.bench.evictions import EVICTING, scattered
from tierwise.bench.worlds import flat_cluster
from tierwise.config.profile import PluginChoice
from tierwise.framework.extension import Preemptor, Purpose
from tierwise.model.job import Job
from tierwise.model.running import RunningTable
from tierwise.scheduler import open_cycle

PROFILE = replace(EVICTING, tiers=(*EVICTING.tiers, (PluginChoice("pdb"),)))


def one_by_one(running: RunningTable, victims: list[int], left: list[int]) -> list[bool]:
    """The slow twin: who goes uses up one disruption of each of its budgets."""
    goes = []
    for victim in victims:
        budgets = running.tasks[victim].budgets
        goes.append(all(left[budget] > 0 for budget in budgets))
        for budget in budgets if goes[-1] else ():
            left[budget] -= 1
    return goes


@given(pick=st.randoms(use_true_random=False))
@examples(40)
def test_counting_equals_one_by_one(pick: Random) -> None:
    """Pods without a budget, with one and with several, and budgets that are used up from the start."""
    allowed = tuple(pick.choices(range(5), k=pick.randrange(1, 5)))

    def covered(job: Job) -> Job:
        names = range(len(allowed))
        tasks = tuple(
            replace(t, budgets=tuple(pick.sample(names, pick.randrange(min(3, len(names) + 1))))) for t in job.tasks
        )
        return replace(job, tasks=tasks, subs=(replace(job.subs[0], tasks=tasks),)) if job.subs[0].tasks else job

    full = scattered(flat_cluster(1, 4), 1, need=1)
    cycle = open_cycle(replace(full, jobs=tuple(map(covered, full.jobs)), budgets=allowed), PROFILE)
    job, running = full.jobs[-1], cycle.running
    preemptor = Preemptor(Purpose.PREEMPT, job, job.subs[0].request, gang=True, running=running)
    victims = pick.sample(range(len(running)), pick.randrange(len(running) + 1))
    goes = cycle.pipeline.counted(preemptor, np.array(victims, dtype=np.int64))

    assert one_by_one(running, victims, list(allowed)) == goes.tolist()
