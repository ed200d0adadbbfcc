"""enqueue: let pending jobs into their queue where nothing objects; only then are their pods created.

A profile without the action lets in every job whose queue is there and open (`promote`): controllers create the pods of
a job once its podGroup has left phase Pending, so nobody else could begin.
"""

from __future__ import annotations

from tierwise.actions.entry import queue_objection
from tierwise.framework.cycle import Cycle
from tierwise.model.job import Job, Phase
from tierwise.model.reason import Rejection

__all__ = ["enqueue", "promote"]


def enqueue(cycle: Cycle) -> None:
    """Move jobs from Pending to Inqueue, in queue and job order."""
    waiting = [job for job in cycle.snapshot.jobs if job.phase is Phase.PENDING]
    for job in sorted(waiting, key=lambda job: _key(cycle, job)):
        reason = queue_objection(cycle, job) or cycle.pipeline.may_enqueue(job)
        if reason is None:
            cycle.report.phases[job.key] = Phase.INQUEUE
        else:
            cycle.report.reject(job, Rejection("enqueue", job.key, reason))


def promote(cycle: Cycle) -> None:
    """Let in every job of an open queue, whether or not its pods exist yet; the others hear why not."""
    for job in cycle.snapshot.jobs:
        if job.phase is Phase.PENDING:
            reason = queue_objection(cycle, job)
            if reason is None:
                cycle.report.phases[job.key] = Phase.INQUEUE
            else:
                cycle.report.reject(job, Rejection("enqueue", job.key, reason))


def _key(cycle: Cycle, job: Job) -> tuple[object, ...]:
    queue = cycle.snapshot.queues.get(job.queue)
    first = cycle.pipeline.queue_key(queue) if queue is not None else ()
    return (queue is None, first, cycle.pipeline.job_key(job))
