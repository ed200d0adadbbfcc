"""Rows about eviction: how long it takes to weigh every domain, and to find victims among many."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

import msgspec
import numpy as np
from msgspec.structs import replace

from tierwise.config.profile import DEFAULT, Profile
from tierwise.model.job import Job, Phase, Status, SubJob
from tierwise.model.snapshot import Snapshot
from tierwise.scheduler import cycle
from tierwise_lab.bench.lab import Lab, Measured, row
from tierwise_lab.bench.measure import at_most, best_of
from tierwise_lab.bench.worlds import (
    CLASSES,
    GPUS_PER_NODE,
    BenchCluster,
    GangSpec,
    cluster,
    jobs,
    snapshot,
    with_leaders,
)

__all__ = ["EVICTING", "CrowdedCluster", "crowded_cluster", "protected", "scattered"]


# Clusters that are full of running gangs, and one more important gang that needs room: what eviction is measured on.
#
# Every task takes a whole node, so the cheapest victims of a domain can be found exactly: the test of the victims does.


EVICTING: Profile = replace(DEFAULT, actions=("allocate", "backfill", "gangpreempt"))
_WHOLE_NODE = CLASSES[7]
_WITH_LEADERS = CLASSES[6]
"""Whole nodes as well, and the class of leaders asks for more cpu and memory."""
_TIGHT = 0.7
"""Share of the gangs without surplus; the others can lose half."""


class CrowdedCluster(msgspec.Struct, frozen=True):
    """A snapshot, and whose tasks stand on which rows; the last job is the one that needs room."""

    snapshot: Snapshot
    rows: tuple[tuple[int, ...], ...]  # of each running gang, the lead left out
    minimums: tuple[int, ...]
    need: int


def crowded_cluster(where: BenchCluster, gangs: int, *, need: int, tier: int, seed: int = 1) -> CrowdedCluster:
    """Every node taken by one of so many gangs of equal importance, and a gang of `need` pods that matters more."""
    rng = np.random.default_rng((seed, gangs))
    rows = _shares(rng, len(where.nodes), gangs)
    minimums = tuple(len(r) if rng.random() < _TIGHT else max(1, len(r) // 2) for r in rows)
    all_jobs = jobs([*(GangSpec(_WHOLE_NODE, len(r), where.top) for r in rows), GangSpec(_WHOLE_NODE, need, tier)])
    lead = all_jobs[0]
    running = all_jobs[1:-1]
    hungry = all_jobs[-1]
    running_jobs = [_standing(job, r, minimum) for job, r, minimum in zip(running, rows, minimums, strict=True)]
    full = snapshot(where, [lead, *running_jobs, replace(hungry, priority=10)])
    return CrowdedCluster(full, rows, minimums, need)


def _shares(rng: np.random.Generator, nodes: int, gangs: int) -> tuple[tuple[int, ...], ...]:
    """Consecutive rows, cut at random; a tenth of the gangs trade a stretch with another, so that they spread."""
    cuts = np.sort(rng.choice(np.arange(1, nodes), size=gangs - 1, replace=False))
    parts = [part.tolist() for part in np.split(np.arange(nodes), cuts)]
    for _ in range(gangs // 10):
        a, b = rng.choice(gangs, size=2, replace=False).tolist()
        half = min(len(parts[a]), len(parts[b])) // 2
        parts[a][:half], parts[b][:half] = parts[b][:half], parts[a][:half]
    return tuple(tuple(sorted(part)) for part in parts)


def _standing(job: Job, rows: Sequence[int], minimum: int) -> Job:
    """A copy of a gang that runs on these rows."""
    tasks = tuple(replace(t, status=Status.RUNNING, node=row) for t, row in zip(job.tasks, rows, strict=True))
    (sub,) = job.subs
    running: SubJob = replace(
        sub,
        pod_sets=(),
        held=np.array(rows, dtype=np.int64),
        ready=len(rows),
        minimum=minimum,
        constraint=None,
        tasks=tasks,
    )
    return replace(job, phase=Phase.RUNNING, minimum=minimum, constraint=None, subs=(running,), tasks=tasks)


@row("P9c", at_most(1, 0.3))
def _p9c(lab: Lab) -> Measured:
    """Time to weigh every domain of a large cluster."""
    full = crowded_cluster(cluster(lab.size.small), lab.size.residents, need=16, tier=1)
    seconds, weighed = _timed(full, max(2, lab.size.repeats // 4))
    what = (
        f"seconds for a preempting cycle, {weighed} domains of {lab.size.small:,} nodes, {lab.size.residents:,} gangs"
    )
    return what, seconds


@row("E1", at_most(2, 0.5))
def _e1(lab: Lab) -> Measured:
    """Preemption where every gang is a candidate."""
    nodes = lab.size.small // 5
    gangs = lab.size.residents * 7 // 20
    full = crowded_cluster(cluster(nodes), gangs, need=64, tier=3)
    seconds, weighed = _timed(full, max(2, lab.size.repeats // 4))
    what = (
        f"seconds for a preempting cycle at {nodes:,} nodes with {gangs:,} candidate gangs, {weighed} domains weighed"
    )
    return what, seconds


def _timed(full: CrowdedCluster, repeats: int) -> tuple[float, int]:
    """Seconds of the whole cycle, and how many domains could have held the gang."""
    report = cycle(full.snapshot, EVICTING)
    if not report.evictions:
        raise RuntimeError("the cluster is meant to be full, and nothing was evicted")
    weighed = sum(
        len(attempt.domains_considered) for attempts in report.eviction_attempts.values() for attempt in attempts
    )
    return best_of(repeats, lambda: cycle(full.snapshot, EVICTING), clock=time.process_time), weighed


# Clusters full of small gangs that stand on many nodes each, and gangs that cannot lose a single pod.


def scattered(
    where: BenchCluster, preemptors: int, *, need: int = 16, tier: int = 2, leaders: bool = False
) -> Snapshot:
    """As many gangs of eight pods as nodes, a GPU each, every pod on another node; gangs of whole nodes want room.

    These have pods of one shape, or a leader that asks for more.
    """
    nodes = len(where.nodes)
    all_jobs = jobs(
        [
            *[GangSpec(CLASSES[0], GPUS_PER_NODE, where.top)] * nodes,
            *[GangSpec(_WITH_LEADERS if leaders else _WHOLE_NODE, need, tier)] * preemptors,
        ]
    )
    lead = all_jobs[0]
    running = all_jobs[1 : nodes + 1]
    hungry = all_jobs[nodes + 1 :]
    stride = max(1, nodes // GPUS_PER_NODE - 1)
    running_jobs = [
        _standing(job, [(number + i * stride) % nodes for i in range(GPUS_PER_NODE)], GPUS_PER_NODE)
        for number, job in enumerate(running)
    ]
    hungry = [with_leaders(job) for job in hungry] if leaders else hungry
    return snapshot(where, [lead, *running_jobs, *(replace(job, priority=10) for job in hungry)])


def protected(where: BenchCluster, gangs: int, preemptors: int) -> Snapshot:
    """Every node taken by gangs without surplus, and jobs of four pods that matter more."""
    rows = _shares(np.random.default_rng(gangs), len(where.nodes), gangs)
    tall = where.top
    all_jobs = jobs(
        [*(GangSpec(_WHOLE_NODE, len(r), tall) for r in rows), *[GangSpec(_WHOLE_NODE, 4, tall)] * preemptors]
    )
    lead = all_jobs[0]
    running = all_jobs[1 : gangs + 1]
    hungry = all_jobs[gangs + 1 :]
    running_jobs = [_standing(job, r, len(r)) for job, r in zip(running, rows, strict=True)]
    return snapshot(where, [lead, *running_jobs, *(replace(job, priority=10) for job in hungry)])


def _scattered(lab: Lab, preemptors: int, who: str, *, leaders: bool = False) -> Measured:
    """Room for gangs of 16 nodes among small, scattered ones."""
    nodes = lab.size.everyday // 2
    seconds = _evicting_seconds(scattered(cluster(nodes), preemptors, leaders=leaders), EVICTING, lab)
    return f"seconds for a preempting cycle, {who} among {nodes:,} scattered gangs on {nodes:,} nodes", seconds


row("C3a", at_most(2, 0.5))(partial(_scattered, preemptors=1, who="one gang of 16 nodes"))
row("C3b", at_most(10, 2))(partial(_scattered, preemptors=50, who="fifty gangs of 16 nodes"))
row("C3c", at_most(10, 3))(
    partial(_scattered, preemptors=50, who="fifty gangs of a leader and 15 workers", leaders=True)
)


@row("C4", at_most(2, 0.2))
def _c4(lab: Lab) -> Measured:
    """Classic preemption for jobs for which no pod may be evicted."""
    nodes = lab.size.everyday // 2
    full = protected(cluster(nodes), max(2, nodes // 8), 5)
    seconds = _evicting_seconds(full, replace(DEFAULT, actions=("allocate", "backfill", "preempt")), lab, futile=True)
    what = (
        f"seconds for a cycle that preempts in vain, five jobs at {nodes:,} nodes full of gangs without a pod to spare"
    )
    return what, seconds


def _evicting_seconds(full: Snapshot, profile: Profile, lab: Lab, *, futile: bool = False) -> float:
    if bool(cycle(full, profile).evictions) == futile:
        raise RuntimeError("pods are meant to be evicted" if not futile else "no pod is meant to be evicted")
    return best_of(max(1, lab.size.repeats // 10), lambda: cycle(full, profile), clock=time.process_time)
