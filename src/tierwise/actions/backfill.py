"""backfill: place best-effort pods, which ask for nothing but a pod slot, wherever the filters let them."""

from __future__ import annotations

from tierwise.actions.demand import Backlog, Demand, Lot, Portion
from tierwise.actions.diagnose import diagnose
from tierwise.actions.surplus import place_surplus
from tierwise.framework.cycle import Cycle
from tierwise.framework.report import Decision, Placed
from tierwise.model.job import Job, Phase
from tierwise.model.topology import ROOT

__all__ = ["backfill"]


def backfill(cycle: Cycle) -> None:
    """Every pending best-effort pod of a job that is in its queue."""
    backlog = Backlog()
    for job in cycle.snapshot.jobs:
        if job.effortless and (job.phase is not Phase.PENDING or job.key in cycle.report.phases):
            if cycle.report.probe is not None:
                cycle.report.probe.look(cycle, job)
            _place(cycle, backlog, job)


def _place(cycle: Cycle, backlog: Backlog, job: Job) -> None:
    if job.queue not in cycle.snapshot.queues or cycle.pipeline.admit(job) is not None:
        return
    for sub_index, part in job.effortless:
        sub = job.subs[sub_index]
        lot = Lot(sub, (Portion(part, len(part.tasks)),), len(part.tasks))
        takes = place_surplus(cycle, job, lot)
        placed = tuple(Placed(sub, backlog.deal(part, len(t.rows)), t.rows, t.pool) for t in takes)
        if placed:
            cycle.report.decide(Decision(job, "backfill", ROOT, placed, bound=True))
        if backlog.left(part):
            rest = Demand((Lot(sub, (Portion(part, backlog.left(part)),), backlog.left(part)),))
            cycle.report.reject(job, diagnose(cycle, job, rest, bounded=False))
