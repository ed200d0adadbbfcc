"""The phase of a pod group after a cycle, whichever dialect it is written in."""

from __future__ import annotations

from typing import Final

from tierwise.framework.report import CycleReport
from tierwise.model.job import Job, Phase, Status

__all__ = ["phase_after"]

_STANDING: Final = (Status.RUNNING, Status.RELEASING, Status.SUCCEEDED)


def phase_after(job: Job, report: CycleReport, bound: int) -> Phase:
    """Running once the minimum stands; Unknown where some stand and the rest cannot be placed.

    A group that fell below its minimum queues again, as in Volcano; one that need have it only once stays Running.
    """
    held = sum(task.status in _STANDING for task in job.tasks) + bound
    succeeded = sum(task.status is Status.SUCCEEDED for task in job.tasks)
    ended = succeeded + sum(task.status is Status.FAILED for task in job.tasks)
    if succeeded and ended == len(job.tasks) and succeeded >= job.minimum:
        return Phase.COMPLETED
    if held and (held >= job.minimum or job.satisfied):
        return Phase.RUNNING
    if held and job.key in report.rejections:
        return Phase.UNKNOWN
    phase = report.phases.get(job.key, job.phase)
    return Phase.INQUEUE if phase is Phase.INQUEUE else Phase.PENDING
