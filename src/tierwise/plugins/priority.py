"""priority: the more important goes first, among jobs, sub-jobs and the tasks of a sub-job."""

from __future__ import annotations

from tierwise.framework.extension import Arguments, CycleView
from tierwise.model.job import Job, Part, SubJob

__all__ = ["Priority"]


class Priority:
    """Orders by the value of the priority class, highest first."""

    def __init__(self, arguments: Arguments, view: CycleView) -> None:
        pass

    def job_key(self, job: Job) -> tuple[float, ...]:
        return (-job.priority,)

    def sub_job_key(self, sub: SubJob) -> tuple[float, ...]:
        return (-sub.priority,)

    def part_key(self, part: Part) -> tuple[float, ...]:
        return (-part.shape.priority,)
