"""Sparing victims by keeping count gives what asking anew for every trial gives."""

from __future__ import annotations

from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.support.depth import examples

from tierwise.actions.eviction.feasibility import Feasibility, Quotas, fits_in, place_in
from tierwise.actions.placement.demand import demand
from tierwise.config.profile import PluginChoice
from tierwise.framework.extension import Preemptor, Purpose
from tierwise.framework.ledger import job_ready
from tierwise.model.job import Job
from tierwise.model.topology import ROOT
from tierwise.scheduler import open_cycle
from tierwise_lab.bench.evictions import EVICTING, scattered
from tierwise_lab.bench.worlds import CLASSES, GPUS_PER_NODE, GangSpec, flat_cluster, jobs, with_leaders


def waiting(last: Job, pick: Random) -> Job:
    """A gang of any class in the place of the last job."""
    size, group = pick.randrange(1, 5), pick.choice((0, 1, 2))
    return in_place_of(last, GangSpec(CLASSES[pick.choice((3, 5, 7))], size * max(group, 1), 2, group))


def in_place_of(last: Job, spec: GangSpec) -> Job:
    """A gang that has the numbers of a job of as many sub-jobs or fewer, the last one."""
    job = jobs([spec])[1]
    first = last.subs[0].number
    subs = (replace(sub, number=first + i, job_number=last.number) for i, sub in enumerate(job.subs))
    return replace(job, key=last.key, number=last.number, priority=last.priority, subs=tuple(subs))


@given(pick=st.randoms(use_true_random=False))
@examples(45)
def test_counting_equals_asking(pick: Random) -> None:
    """Whatever is spared in whatever stretches, and whichever part is enough by itself.

    Gangs of whole nodes or of parts of them, in one piece or in groups of which each wants a rack, of one shape or of a
    leader and workers, in queues that may have to lose more than room is made for.
    """
    full = scattered(flat_cluster(2, 6), 1, tier=2)
    job = pick.choice((waiting, mixed))(full.jobs[-1], pick)
    limit = {"nvidia.com/gpu": GPUS_PER_NODE * len(full.nodes) - pick.randrange(-20, 60)}  # all of them are used
    queues = {name: replace(queue, capability=limit) for name, queue in full.queues.items()}
    profile = pick.choice((EVICTING, replace(EVICTING, tiers=(*EVICTING.tiers, (PluginChoice("capacity"),)))))
    cycle = open_cycle(replace(full, jobs=(*full.jobs[:-1], job), queues=queues), profile)
    need = np.sum([sub.request for sub in job.subs], axis=0)
    preemptor = Preemptor(Purpose.PREEMPT, job, need, gang=True, running=cycle.running)
    fits = fits_in(cycle, preemptor, demand(cycle, job), ROOT, Quotas(cycle, preemptor))
    for _ in range(4):
        compare(fits, pick, len(cycle.running))


def mixed(last: Job, pick: Random) -> Job:
    """A gang of a leader and workers in the place of the last job, whole or in groups; of some the leader asks for no
    more than a worker.
    """
    size, group = pick.randrange(1, 4), pick.choice((0, 2, 3))
    spec = GangSpec(CLASSES[pick.choice((2, 4, 6))], size * (group or 2), 2, group)
    job = in_place_of(last, spec)
    return with_leaders(job) if pick.random() < 0.7 else in_two_roles(job)


def in_two_roles(job: Job) -> Job:
    """The same gang; the first task of each sub-job has a role of its own."""
    subs = []
    for sub in job.subs:
        (alike,) = sub.pod_sets
        parts = (
            replace(alike, role=role, tasks=tasks) for role, tasks in (("a", alike.tasks[:1]), ("b", alike.tasks[1:]))
        )
        subs.append(replace(sub, pod_sets=tuple(parts)))
    return replace(job, subs=tuple(subs))


def with_fewer(job: Job) -> Job:
    """The same gang, content with one task less: which ones is a choice, so that it is tried."""
    subs = tuple(replace(sub, minimum=sub.minimum - 1) for sub in job.subs)
    return replace(job, subs=subs, minimum=sum(sub.minimum for sub in subs))


@given(seed=st.integers(0, 1 << 30))
@examples(60)
def test_what_is_counted_or_looked_at_is_what_a_search_finds(seed: int) -> None:
    """Gangs of a leader and workers: mixtures are counted exactly where all tasks must be placed, and elsewhere a look
    at amounts leaves out no trial but those that come to nothing.
    """
    pick = Random(seed)
    full = scattered(flat_cluster(2, 6), 1, tier=2)
    job = mixed(full.jobs[-1], pick)
    job = pick.choice((job, job, with_fewer(job)))
    cycle = open_cycle(replace(full, jobs=(*full.jobs[:-1], job)), EVICTING)
    need = np.sum([sub.request for sub in job.subs], axis=0)
    preemptor = Preemptor(Purpose.PREEMPT, job, need, gang=True, running=cycle.running)
    asked, domain = demand(cycle, job), pick.randrange(len(cycle.topology))
    fits = fits_in(cycle, preemptor, asked, domain, Quotas(cycle, preemptor))
    standing = cycle.running.inside(cycle.topology.span(domain))
    inside = range(standing.start, standing.stop)
    for _ in range(6):
        victims = np.sort(np.array(pick.sample(inside, pick.randrange(len(inside) // 2, len(inside)))))
        with cycle.ledger.statement():
            cycle.ledger.evict(cycle.running, victims)
            found = place_in(cycle, preemptor, asked, domain)
            expected = found is not None and job_ready(cycle.ledger, job, waiting=True)

        assert expected == fits.without(victims)


def compare(fits: Feasibility, pick: Random, size: int) -> None:
    """Some of so many running tasks, in parts."""
    tasks = np.array(pick.sample(range(size), pick.randrange(40, size)))
    parts = np.split(tasks, sorted(pick.sample(range(1, len(tasks)), pick.randrange(4, 40))))
    fixed, parts = np.sort(parts[0]), [np.sort(part) for part in parts[1:]]
    victims, start = np.concatenate(parts), np.concatenate(([0], np.cumsum([len(part) for part in parts])))

    assert Feasibility.fewest(fits, victims, start) == fits.fewest(victims, start)
    assert Feasibility.needed(fits, victims, start, fixed) == fits.needed(victims, start, fixed)
    assert Feasibility.first_alone(fits, victims, start, fixed) == fits.first_alone(victims, start, fixed)
