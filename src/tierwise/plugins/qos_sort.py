"""QOSSort: the queue by priority, then by quality-of-service class, then by age.

Guaranteed pods go before burstable ones, those before best-effort ones. For a gang, its firmest task counts.
"""

from __future__ import annotations

from tierwise.framework.extension import Arguments, CycleView
from tierwise.model.job import Job

__all__ = ["QosSort", "ordinary_key"]


def ordinary_key(job: Job) -> tuple[float, ...]:
    """Priority, class and age; the smallest goes first."""
    return (-job.priority, min((task.shape.qos for task in job.tasks), default=0), job.created)


class QosSort:
    """Orders jobs by priority, class and age."""

    def __init__(self, arguments: Arguments, view: CycleView) -> None:
        pass

    def job_key(self, job: Job) -> tuple[float, ...]:
        return ordinary_key(job)
