"""The usual way to write tasks that have a place to the ledger; `alike` and `plain_pods` write many at once."""

from __future__ import annotations

import numpy as np

from tierwise.actions.placement.problem import Placement, SearchResult
from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import Ask
from tierwise.framework.ledger import Pool
from tierwise.framework.placer import Picks
from tierwise.model.job import Job, PodSet

__all__ = ["place_tasks", "written"]


def place_tasks(cycle: Cycle, ask: Ask, pod_set: PodSet, picks: Picks, pool: Pool) -> Placement:
    """Write the placement of tasks of one pod set to the ledger."""
    rows, counts = picks
    cycle.ledger.place(pod_set.shape, rows, counts, pool=pool)
    cycle.ledger.count_placed(ask.sub, pod_set, rows, counts, pool=pool)
    cycle.ledger.charge(ask.job, pod_set.shape.request * counts.sum())
    return Placement(ask.sub, pod_set, np.repeat(rows, counts), pool)


def written(cycle: Cycle, job: Job, found: SearchResult) -> SearchResult:
    """What was found and taken back, on the ledger once more."""
    for placement in found.placements:
        picks = np.unique(placement.rows, return_counts=True)
        place_tasks(cycle, Ask(placement.pod_set.shape, placement.sub, job), placement.pod_set, picks, placement.pool)
    return found
