"""Rows about eviction: how good the chosen victims are, and how long it takes to weigh every domain."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

import msgspec
import numpy as np
from msgspec.structs import replace

from tierwise.bench.lab import Lab, Measured, row
from tierwise.bench.measure import at_most, best_of
from tierwise.bench.worlds import (
    CLASSES,
    GPUS_PER_NODE,
    BenchCluster,
    GangSpec,
    cluster,
    flat_cluster,
    jobs,
    snapshot,
    with_leaders,
)
from tierwise.config.profile import DEFAULT, Profile
from tierwise.framework.report import CycleReport
from tierwise.model.job import Job, Phase, Status, SubJob
from tierwise.model.snapshot import Snapshot
from tierwise.scheduler import cycle

__all__ = ["EVICTING", "cheapest", "crowded_cluster", "destroyed", "protected", "scattered"]


# Clusters that are full of running gangs, and one more important gang that needs room: what eviction is measured on.
#
# Every task takes a whole node, so the cheapest victims of a domain can be found exactly: `cheapest` does, by a
# dynamic programme over the nodes to be freed, and the engine's choice is held against it.


EVICTING: Profile = replace(DEFAULT, actions=("allocate", "backfill", "gangpreempt"))
_WHOLE_NODE = CLASSES[7]
_WITH_LEADERS = CLASSES[6]
"""Whole nodes as well, and the class of leaders asks for more cpu and memory."""
_TIGHT = 0.7
"""Share of the gangs that have nothing to spare; the others can lose half."""


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
    made = jobs([*(GangSpec(_WHOLE_NODE, len(r), where.top) for r in rows), GangSpec(_WHOLE_NODE, need, tier)])
    lead, running, hungry = made[0], made[1:-1], made[-1]
    standing = [_standing(job, r, least) for job, r, least in zip(running, rows, minimums, strict=True)]
    full = snapshot(where, [lead, *standing, replace(hungry, priority=10)])
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
    """The same gang, running on these rows."""
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


def destroyed(crowded: CrowdedCluster, report: CycleReport) -> tuple[int, int]:
    """Nodes' worth of work lost with broken gangs, wherever it ran, and nodes evicted."""
    lost: dict[int, int] = {}
    for eviction in report.evictions:
        lost[eviction.job.number] = lost.get(eviction.job.number, 0) + 1
    broken = 0
    for number, gone in lost.items():
        held, least = len(crowded.rows[number - 1]), crowded.minimums[number - 1]
        broken += held if held - gone < least else 0
    return broken, sum(lost.values())


def cheapest(crowded: CrowdedCluster, tier: int) -> tuple[int, int]:
    """The same of the cheapest plan in any domain up to a tier: fewest nodes' worth broken, then fewest evicted."""
    topology = crowded.snapshot.topology
    plans = []
    for group in topology.by_tier(0, tier):
        for domain in group.tolist():
            span = topology.span(domain)
            if span.stop - span.start >= crowded.need:
                plans.append(_cheapest_in(crowded, span))
    return min(plans)


def _cheapest_in(crowded: CrowdedCluster, span: slice) -> tuple[int, int]:
    """Safe tasks cost nothing broken, so all of them come first; the rest is a cover of nodes by whole gangs."""
    cores: list[tuple[int, int]] = []  # nodes freed here, nodes' worth lost anywhere
    safe = 0
    for rows, least in zip(crowded.rows, crowded.minimums, strict=True):
        here = sum(span.start <= row < span.stop for row in rows)
        spare = min(here, len(rows) - least)
        safe += spare
        if here > spare:
            cores.append((here - spare, len(rows)))
    missing = crowded.need - safe
    if missing <= 0:
        return 0, crowded.need
    best: dict[int, tuple[int, int]] = {0: (0, 0)}  # nodes freed by cores, capped -> nodes' worth lost, nodes freed
    for freed, lost in cores:
        for have, (cost, gone) in list(best.items()):
            reach = min(missing, have + freed)
            offer = (cost + lost, gone + freed)
            if reach not in best or offer < best[reach]:
                best[reach] = offer
    if missing not in best:
        return 2**40, 2**40
    broken, freed_by_cores = best[missing]
    return broken, max(crowded.need, freed_by_cores)


@row("P9a", at_most(1.15, 1.05))
def _p9a(lab: Lab) -> Measured:
    """Mean cost of the victims against the exact optimum."""
    ratios = _ratios(lab)
    what = f"cost of the victims ÷ exact optimum, mean over {len(ratios)} full clusters, every domain weighed"
    return what, float(np.mean(ratios))


@row("P9b", at_most(2, 1.3))
def _p9b(lab: Lab) -> Measured:
    """The same, the worst case."""
    ratios = _ratios(lab)
    what = f"cost of the victims ÷ exact optimum, worst of {len(ratios)} full clusters"
    return what, max(ratios)


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
    nodes, gangs = lab.size.small // 5, lab.size.residents * 7 // 20
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


def _ratios(lab: Lab) -> list[float]:
    """Broken work against the optimum; where nothing need be broken, evicted tasks against it."""
    ratios = []
    for seed in range(lab.size.contests):
        where = flat_cluster(6, 8 + seed % 9)
        full = crowded_cluster(where, 14 + seed % 11, need=4 + seed % 5, tier=1 + seed % 2, seed=seed)
        broken, evicted = destroyed(full, cycle(full.snapshot, EVICTING))
        least_broken, least_evicted = cheapest(full, 1 + seed % 2)
        if least_broken:
            ratios.append(broken / least_broken)
        else:
            ratios.append(evicted / least_evicted if not broken else 1.0 + broken)
    return ratios


# Clusters full of small gangs that stand on many nodes each, and gangs that cannot lose a single pod.


def scattered(
    where: BenchCluster, preemptors: int, *, need: int = 16, tier: int = 2, leaders: bool = False
) -> Snapshot:
    """As many gangs of eight pods as nodes, a GPU each, every pod on another node; gangs of whole nodes want room.

    These have pods of one shape, or a leader that asks for more.
    """
    nodes = len(where.nodes)
    made = jobs(
        [
            *[GangSpec(CLASSES[0], GPUS_PER_NODE, where.top)] * nodes,
            *[GangSpec(_WITH_LEADERS if leaders else _WHOLE_NODE, need, tier)] * preemptors,
        ]
    )
    lead, running, hungry = made[0], made[1 : nodes + 1], made[nodes + 1 :]
    stride = max(1, nodes // GPUS_PER_NODE - 1)
    standing = [
        _standing(job, [(number + i * stride) % nodes for i in range(GPUS_PER_NODE)], GPUS_PER_NODE)
        for number, job in enumerate(running)
    ]
    hungry = [with_leaders(job) for job in hungry] if leaders else hungry
    return snapshot(where, [lead, *standing, *(replace(job, priority=10) for job in hungry)])


def protected(where: BenchCluster, gangs: int, preemptors: int) -> Snapshot:
    """Every node taken by gangs that have nothing to spare, and jobs of four pods that matter more."""
    rows = _shares(np.random.default_rng(gangs), len(where.nodes), gangs)
    tall = where.top
    made = jobs([*(GangSpec(_WHOLE_NODE, len(r), tall) for r in rows), *[GangSpec(_WHOLE_NODE, 4, tall)] * preemptors])
    lead, running, hungry = made[0], made[1 : gangs + 1], made[gangs + 1 :]
    standing = [_standing(job, r, len(r)) for job, r in zip(running, rows, strict=True)]
    return snapshot(where, [lead, *standing, *(replace(job, priority=10) for job in hungry)])


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
