"""Planning for the most promising domains alone gives what planning for every domain gives."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from random import Random
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.support.depth import examples
from tests.support.evict_scenes import GANGS, Case, cases
from tests.support.evict_world import objects
from tests.support.sight import cycle, sees

from tierwise.actions.eviction import by_pod
from tierwise.actions.eviction.gang import GangPreemptor
from tierwise.actions.eviction.node_costs import NodeCosts
from tierwise.actions.eviction.price_bounds import DomainBounds, Price
from tierwise.actions.eviction.victims import EvictionPlan
from tierwise.config.profile import Profile
from tierwise.model.arrays import Ints
from tierwise.model.job import Job, Shape
from tierwise.model.snapshot import Snapshot
from tierwise.snapshot.builder import build
from tierwise_lab.bench.evictions import EVICTING, scattered
from tierwise_lab.bench.worlds import CLASSES, flat_cluster


def decided(snapshot: Snapshot, profile: Profile) -> list[object]:
    """Who goes for whom, and where everything is placed."""
    report = cycle(snapshot, profile)
    placed = [
        (d.job.key, [([t.key for t in p.tasks], p.rows.tolist()) for p in d.placed], d.bound) for d in report.decisions
    ]
    return [[(e.task.key, e.by.key if e.by else "") for e in report.evictions], placed]


def same(snapshot: Snapshot, profile: Profile) -> None:
    """Both decide alike; the slow twin knows nothing of a domain before it is planned for, so all of them are."""
    quick = decided(snapshot, profile)
    with patch.object(DomainBounds, "at_once", lambda _, _eligible, domains: dict.fromkeys(domains.tolist(), (-inf,))):
        assert decided(snapshot, profile) == quick


@sees(evictions=20)
@given(cases(*GANGS))
@examples(40)
def test_in_small_clusters(case: Case) -> None:
    """Queues, budgets, roles, sub-groups and marks."""
    scene, profile = case
    same(build(objects(scene), 0.0), profile)


def drawn_jobs(full: Snapshot, pick: Random) -> Snapshot:
    """The same cluster, its running gangs of any priority and minimum."""

    def drawn(job: Job) -> Job:
        if any(job.pod_sets()):
            return job
        return replace(job, priority=pick.randrange(3), minimum=pick.randrange(2, len(job.tasks) + 1))

    lead, *others = full.jobs
    return replace(full, jobs=(lead, *(drawn(job) for job in others)))


@sees(evictions=171)
@given(pick=st.randoms(use_true_random=False))
@examples(20)
def test_among_scattered_gangs(pick: Random) -> None:
    """Several preemptors, each of which breaks gangs that the next one finds broken."""
    full = scattered(
        flat_cluster(pick.randrange(2, 6), pick.randrange(4, 8)), pick.randrange(2, 7), need=pick.randrange(1, 4)
    )
    same(drawn_jobs(full, pick), EVICTING)


@sees(decisions=5, refusals=5)
@given(pick=st.randoms(use_true_random=False))
@examples(20, least=5)
def test_plans_that_cannot_be_carried_out_come_in_order(pick: Random) -> None:
    """Where no plan can be carried out, those come first that break what matters least, and plans that break nothing
    by their price.
    """
    full = drawn_jobs(scattered(flat_cluster(pick.randrange(3, 6), 5), 1, need=pick.randrange(1, 4)), pick)

    prices: list[Price] = []

    def in_vain(_self: object, _preemptor: object, _asked: object, plan: EvictionPlan, _looked: object) -> bool:
        prices.append(plan.price)
        return False

    with patch.object(GangPreemptor, "_carry_out", in_vain):
        cycle(full, EVICTING)
    harmless = [price for price in prices if not price[1]]

    assert sorted(price[0] for price in prices) == [price[0] for price in prices]
    assert sorted(harmless) == harmless


def with_shape(job: Job, draw: Callable[[], Shape], budgets: Callable[[], tuple[str, ...]]) -> Job:
    """The same job, each of its pods of a shape and under budgets that are drawn; pending ones are all alike."""
    (sub,) = job.subs
    if not sub.pod_sets:
        tasks = tuple(replace(task, shape=draw(), budgets=budgets()) for task in job.tasks)
        return replace(job, tasks=tasks, subs=(replace(sub, tasks=tasks),))
    shape = draw()
    tasks = tuple(replace(task, shape=shape) for task in job.tasks)
    return replace(
        job, tasks=tasks, subs=(replace(sub, pod_sets=(replace(sub.pod_sets[0], shape=shape, tasks=tasks),)),)
    )


@sees(evictions=88)
@given(pick=st.randoms(use_true_random=False))
@examples(20)
def test_pod_by_pod(pick: Random) -> None:
    """Pods of several sizes, priorities and budgets in nodes that are full, half full or free."""
    where = flat_cluster(pick.randrange(2, 5), pick.randrange(3, 6))
    full = scattered(where, pick.randrange(1, 4), need=pick.randrange(2, 6), tier=pick.randrange(1, 3))
    low = [replace(CLASSES[0], number=len(full.shapes) + i, priority=i) for i in range(3)]
    high = replace(CLASSES[pick.choice((3, 5, 7))], number=len(full.shapes) + len(low), priority=5)
    lead, *others = full.jobs
    left = {f"d/{i}": pick.randrange(4) for i in range(4)}
    jobs = [
        with_shape(
            job,
            (lambda: high) if job.subs[0].pod_sets else lambda: pick.choice(low),
            lambda: tuple(pick.sample([*left], pick.choice((0, 0, 1, 2)))),
        )
        for job in others
        if job.subs[0].pod_sets or pick.random() < 0.8
    ]
    numbered = tuple(
        replace(job, number=i, subs=(replace(job.subs[0], number=i, job_number=i),))
        for i, job in enumerate((lead, *jobs))
    )
    world = replace(full, jobs=numbered, shapes=(*full.shapes, *low, high), budgets=left)
    profile = replace(EVICTING, actions=("allocate", pick.choice(("jobpreempt", "quotapreempt", "podpreempt"))))
    quick = told(world, profile)
    with patch.object(by_pod, "at_least", unknown):
        assert told(world, profile) == quick


def unknown(prices: NodeCosts, _each: Ints, span: slice, count: int) -> int | None:
    """The slow twin: a plan may cost nothing until it is made."""
    return 0 if int(prices.room[span].sum()) >= count else None


def told(snapshot: Snapshot, profile: Profile) -> tuple[list[object], object]:
    """What is decided, and which domains each job hears of."""
    attempts = cycle(snapshot, profile).eviction_attempts
    return decided(snapshot, profile), {job: [a.domains_considered for a in found] for job, found in attempts.items()}
