"""Why a job must not be tried now: its queue, its phase, or a plugin's gate. Asked by every action that places."""

from __future__ import annotations

from tierwise.framework.cycle import Cycle
from tierwise.model.job import Job, Phase
from tierwise.model.reason import Reason

__all__ = ["INCOMPLETE", "objection", "queue_objection"]

INCOMPLETE = Reason("SubGroupIncomplete", "gang", "too few pods of its sub-group exist to make it whole")

_NOT_ENQUEUED = Reason("NotEnqueued", "enqueue", "it has not left phase Pending")


def objection(cycle: Cycle, job: Job) -> Reason | None:
    """The first thing that keeps a job out."""
    if job.unsupported:
        return Reason("NotSupported", "pod", job.unsupported)
    closed = queue_objection(cycle, job)
    if closed is not None:
        return closed
    if job.phase is Phase.PENDING and job.key not in cycle.report.phases:
        known = cycle.report.rejections.get(job.key)
        return known.reason if known is not None else _NOT_ENQUEUED
    return cycle.pipeline.admit(job)


def queue_objection(cycle: Cycle, job: Job) -> Reason | None:
    """Whether its queue is there and open."""
    queue = cycle.snapshot.queues.get(job.queue)
    if queue is None:
        return Reason("QueueNotFound", "queue", f"its queue {job.queue} does not exist")
    return None if queue.open else Reason("QueueClosed", "queue", f"its queue {job.queue} is not open")
