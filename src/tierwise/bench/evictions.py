"""Rows about eviction: how good the chosen victims are, and how long it takes to weigh every domain."""

from __future__ import annotations

import time

import numpy as np

from tierwise.bench.crowds import EVICTING, Crowd, cheapest, crowd, destroyed
from tierwise.bench.goals import Row, at_most
from tierwise.bench.lab import Lab
from tierwise.bench.measure import best_of
from tierwise.bench.worlds import cluster, flat_cluster
from tierwise.scheduler import cycle

__all__ = ["e1", "p9a", "p9b", "p9c"]


def p9a(lab: Lab) -> Row:
    """Mean cost of the victims against the exact optimum."""
    ratios = _ratios(lab)
    what = f"cost of the victims ÷ exact optimum, mean over {len(ratios)} full clusters, every domain weighed"
    return Row("P9a", what, float(np.mean(ratios)), at_most(1.15, 1.05))


def p9b(lab: Lab) -> Row:
    """The same, the worst case."""
    ratios = _ratios(lab)
    what = f"cost of the victims ÷ exact optimum, worst of {len(ratios)} full clusters"
    return Row("P9b", what, max(ratios), at_most(2, 1.3))


def p9c(lab: Lab) -> Row:
    """Time to weigh every domain of a large cluster."""
    full = crowd(cluster(lab.size.small), lab.size.residents, need=16, tier=1)
    seconds, weighed = _timed(full, max(2, lab.size.repeats // 4))
    what = (
        f"seconds for a preempting cycle, {weighed} domains of {lab.size.small:,} nodes, {lab.size.residents:,} gangs"
    )
    return Row("P9c", what, seconds, at_most(1, 0.3))


def e1(lab: Lab) -> Row:
    """Preemption where every gang is a candidate."""
    nodes, gangs = lab.size.small // 5, lab.size.residents * 7 // 20
    full = crowd(cluster(nodes), gangs, need=64, tier=3)
    seconds, weighed = _timed(full, max(2, lab.size.repeats // 4))
    what = (
        f"seconds for a preempting cycle at {nodes:,} nodes with {gangs:,} candidate gangs, {weighed} domains weighed"
    )
    return Row("E1", what, seconds, at_most(2, 0.5))


def _timed(full: Crowd, repeats: int) -> tuple[float, int]:
    """Seconds of the whole cycle, and how many domains could have held the gang."""
    report = cycle(full.snapshot, EVICTING)
    if not report.evictions:
        raise RuntimeError("the cluster is meant to be full, and nobody was evicted")
    weighed = sum(len(story.looked) for stories in report.stories.values() for story in stories)
    return best_of(repeats, lambda: cycle(full.snapshot, EVICTING), clock=time.process_time), weighed


def _ratios(lab: Lab) -> list[float]:
    """Broken work against the optimum; where nothing need be broken, evicted tasks against it."""
    ratios = []
    for seed in range(lab.size.contests):
        where = flat_cluster(6, 8 + seed % 9)
        full = crowd(where, 14 + seed % 11, need=4 + seed % 5, tier=1 + seed % 2, seed=seed)
        broken, evicted = destroyed(full, cycle(full.snapshot, EVICTING))
        least_broken, least_evicted = cheapest(full, 1 + seed % 2)
        if least_broken:
            ratios.append(broken / least_broken)
        else:
            ratios.append(evicted / least_evicted if not broken else 1.0 + broken)
    return ratios
