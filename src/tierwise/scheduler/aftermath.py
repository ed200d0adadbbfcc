"""The tallies of a cycle once it is over: what was bound stands, and what is taken back does not."""

from __future__ import annotations

from collections.abc import Collection

from tierwise.framework.ledger import Ledger
from tierwise.framework.report import CycleReport
from tierwise.model.job import Job, Status, SubJob, Task
from tierwise.model.snapshot import Snapshot

__all__ = ["tallies"]


def tallies(snapshot: Snapshot, report: CycleReport, back: Collection[str]) -> Ledger:
    """A ledger on which jobs are as ready as they are now; amounts are those before the cycle."""
    ledger = Ledger(snapshot)
    for decision in report.decisions:
        for placed in decision.placed if decision.bound else ():
            for task in placed.tasks:
                if not task.shape.best_effort:  # those were counted before they were placed
                    _count(ledger, decision.job, placed.sub, task, 1)
    for job in snapshot.jobs if back else ():
        for sub in job.subs:
            for task in sub.tasks:
                if task.key in back and task.status is Status.RUNNING:
                    _count(ledger, job, sub, task, -1)
    return ledger


def _count(ledger: Ledger, job: Job, sub: SubJob, task: Task, by: int) -> None:
    ledger.ready[sub.number] += by
    for number, name in job.role_names.items():
        if name == task.role:
            ledger.role_ready[number] += by
