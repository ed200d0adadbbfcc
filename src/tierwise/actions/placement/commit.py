"""Turn what was found into a decision: rows dealt out to concrete tasks, in rank order, and put on the report."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tierwise.actions.placement.fit import Take
from tierwise.actions.placement.search import home
from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import Abstained, Proposal
from tierwise.framework.report import Decision, Placed
from tierwise.model.arrays import Ints
from tierwise.model.job import Job
from tierwise.model.ranks import laid_out
from tierwise.model.reason import Reason, Rejection
from tierwise.model.topology import ROOT

__all__ = ["decide", "over_now"]

_WAITS = Reason("WaitsForGang", "gang", "its gang waits for room that is still being released")


def over_now(cycle: Cycle, job: Job, takes: Iterable[Take]) -> Reason | None:
    """Why a job's queue must not have what was placed as long as those on their way out are still there."""
    if not cycle.pipeline.has_quotas or not cycle.ledger.queue_leaving.any():
        return None
    given = np.zeros(len(cycle.view.axis), dtype=np.int64)
    for take in takes:
        given += take.part.shape.request * len(take.rows)
    with cycle.ledger.statement():
        cycle.ledger.charge(job, -given)  # it is charged already
        cycle.ledger.count_leaving()
        return cycle.pipeline.over(job, given)


def decide(
    cycle: Cycle,
    job: Job,
    takes: Iterable[Take],
    *,
    action: str,
    score: float,
    bound: bool,
    proposed: Proposal | Abstained | None = None,
) -> None:
    """Put the decision on the report; what is left of a gang that is only nominated waits for it."""
    placed = tuple(
        Placed(take.sub, cycle.backlog.deal(take.part, len(take.rows)), _by_rank(cycle, job, take), take.pool)
        for take in takes
    )
    domain = home(cycle, job)
    cycle.report.decide(Decision(job, action, ROOT if domain is None else domain, placed, bound, score, proposed))
    if bound:
        return
    cycle.backlog.hold(job)
    if cycle.backlog.some_left(job):
        cycle.report.reject(job, Rejection("fit", job.key, _WAITS))


def _by_rank(cycle: Cycle, job: Job, take: Take) -> Ints:
    """The rows of a take in the order of its ranks; a part that is dealt in pieces keeps the order of the tree."""
    if job.pattern is None or len(take.rows) < len(take.part.tasks):
        return take.rows
    return laid_out(cycle.topology, take.rows, job.pattern)
