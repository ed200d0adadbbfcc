"""QOSSort: the queue by priority, then by quality-of-service class, then by age.

Guaranteed pods go before burstable ones, those before best-effort ones. For a gang, its firmest pending task counts.
"""

from __future__ import annotations

from tierwise.framework.declaration import takes_part
from tierwise.framework.extension import Arguments, CycleView, JobOrder
from tierwise.model.job import Job, Shape

__all__ = ["QosSort", "ordinary_key", "waiting_shapes"]


def waiting_shapes(job: Job) -> list[Shape]:
    """The shapes of a job's pending tasks."""
    return [pod_set.shape for pod_set in job.every_pod_set()]


def ordinary_key(job: Job) -> tuple[float, ...]:
    """Priority, class and age; the smallest goes first."""
    return (-job.priority, min((shape.qos for shape in waiting_shapes(job)), default=0), job.created)


@takes_part(JobOrder, rises_with_use=True, by_priority=True)
class QosSort:
    """Orders jobs by priority, class and age."""

    def __init__(self, arguments: Arguments, view: CycleView) -> None:
        pass

    def job_key(self, job: Job) -> tuple[float, ...]:
        return ordinary_key(job)
