"""Planning for the most promising domains alone gives what planning for every domain gives."""

from __future__ import annotations

from math import inf
from random import Random
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.support.depth import examples
from tests.support.evict_scenes import GANGS, Case, cases
from tests.support.evict_world import objects

from tierwise.actions.eviction.price_bounds import DomainBounds
from tierwise.bench.evictions import EVICTING, scattered
from tierwise.bench.worlds import flat_cluster
from tierwise.config.profile import Profile
from tierwise.model.job import Job
from tierwise.model.snapshot import Snapshot
from tierwise.scheduler import cycle
from tierwise.snapshot.builder import build


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
    with (
        patch.object(DomainBounds, "by_amounts", lambda _, domains: dict.fromkeys(domains.tolist(), (-inf,))),
        patch.object(DomainBounds, "by_levels", lambda _, bounds: bounds),
        patch.object(DomainBounds, "by_rows", lambda _, bounds: bounds),
    ):
        assert decided(snapshot, profile) == quick


@given(cases(*GANGS))
@examples(40)
def test_in_small_clusters(case: Case) -> None:
    """Queues, budgets, roles, sub-groups and marks."""
    scene, profile = case
    same(build(objects(scene), 0.0), profile)


@given(pick=st.randoms(use_true_random=False))
@examples(20)
def test_among_scattered_gangs(pick: Random) -> None:
    """Several preemptors, each of which breaks gangs that the next one finds broken."""
    full = scattered(
        flat_cluster(pick.randrange(2, 5), pick.randrange(4, 8)), pick.randrange(1, 4), need=pick.randrange(1, 5)
    )

    def drawn(job: Job) -> Job:
        if any(job.pod_sets()):
            return job
        return replace(job, priority=pick.randrange(3), minimum=pick.randrange(2, len(job.tasks) + 1))

    lead, *others = full.jobs
    same(replace(full, jobs=(lead, *(drawn(job) for job in others))), EVICTING)
