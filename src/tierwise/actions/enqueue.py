"""enqueue: let pending jobs into their queue where nothing objects; only then are their pods created."""

from __future__ import annotations

from tierwise.actions.entry import queue_objection
from tierwise.framework.cycle import Cycle
from tierwise.model.job import Job, Phase
from tierwise.model.reason import Rejection

__all__ = ["enqueue"]


def enqueue(cycle: Cycle) -> None:
    """Move jobs from Pending to Inqueue, in queue and job order."""
    waiting = [job for job in cycle.snapshot.jobs if job.phase is Phase.PENDING]
    for job in sorted(waiting, key=lambda job: _key(cycle, job)):
        reason = queue_objection(cycle, job) or cycle.pipeline.may_enqueue(job)
        if reason is None:
            cycle.report.phases[job.key] = Phase.INQUEUE
        else:
            cycle.report.reject(job, Rejection("enqueue", job.key, reason))


def _key(cycle: Cycle, job: Job) -> tuple[object, ...]:
    queue = cycle.snapshot.queues.get(job.queue)
    first = cycle.pipeline.queue_key(queue) if queue is not None else ()
    return (queue is None, first, cycle.pipeline.job_key(job))
