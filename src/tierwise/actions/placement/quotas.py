"""Quotas: whether the queue of a job may use what the job asks for, or what was placed for it.

Called by every action that places jobs. The plugins are asked by `Pipeline.quota_exceeded`; what is charged to ask them
is rewound.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tierwise.actions.placement.demand import Demand, needs
from tierwise.actions.placement.problem import Placement
from tierwise.framework.cycle import Cycle
from tierwise.model.arrays import Ints
from tierwise.model.job import Job
from tierwise.model.reason import Reason

__all__ = ["over_quota", "over_quota_as_placed", "over_quota_at_once", "over_quota_now"]


def over_quota(cycle: Cycle, job: Job, asked: Demand) -> Reason | None:
    """Why a job's queue may not use what the job asks for; None if it may."""
    if not cycle.pipeline.quota_exceeded:
        return None
    return cycle.pipeline.quota_exceeded(job, needs(asked, len(cycle.view.axis)))


def over_quota_as_placed(cycle: Cycle, job: Job, asked: Demand, placements: Iterable[Placement]) -> Reason | None:
    """Why a job's queue may not use what was placed, where that differs from what the job has asked for.

    Where the tasks of a job differ, the search may choose other tasks than those that the quotas were asked about.
    """
    if not cycle.pipeline.quota_exceeded:
        return None
    used = _used(cycle, placements)
    if (used == needs(asked, len(used))).all():
        return None
    with cycle.ledger.statement():
        cycle.ledger.charge(job, -used)  # these amounts are charged already
        return cycle.pipeline.quota_exceeded(job, used)


def over_quota_now(cycle: Cycle, job: Job, placements: Iterable[Placement]) -> Reason | None:
    """Why a job's queue may not use what was placed yet, while its terminating tasks still hold their share."""
    if not cycle.pipeline.quota_exceeded or not cycle.ledger.queue_leaving.any():
        return None
    used = _used(cycle, placements)
    with cycle.ledger.statement():
        cycle.ledger.charge(job, -used)  # these amounts are charged already
        cycle.ledger.count_leaving()
        return cycle.pipeline.quota_exceeded(job, used)


def over_quota_at_once(cycle: Cycle, job: Job, request: Ints) -> Reason | None:
    """Why a job's queue may not use more at once, while its terminating tasks still hold their share."""
    with cycle.ledger.statement():
        cycle.ledger.count_leaving()
        return cycle.pipeline.quota_exceeded(job, request)


def _used(cycle: Cycle, placements: Iterable[Placement]) -> Ints:
    used = np.zeros(len(cycle.view.axis), dtype=np.int64)
    for placement in placements:
        used += placement.pod_set.shape.request * len(placement.rows)
    return used
