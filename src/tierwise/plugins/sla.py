"""sla: jobs that have waited long go first.

    deadline = created + waiting time

The waiting time is the job's own (annotation sla-waiting-time on its pod group), else the argument
`sla-waiting-time`, both written like "1h2m3s"; a time that cannot be read, or is not positive, is none. Jobs are
ordered by deadline, those without one last. A job whose deadline has passed is admitted to its queue
regardless of gates in later tiers.
"""

from __future__ import annotations

from tierwise.api.duration import seconds
from tierwise.framework.declaration import takes_part
from tierwise.framework.extension import Arguments, CycleView, EnqueueGate, JobOrder
from tierwise.model.job import Job

__all__ = ["Sla"]

_KEY = "sla-waiting-time"


@takes_part(EnqueueGate, JobOrder, rises_with_use=True)
class Sla:
    """Orders jobs by deadline, and says which are due."""

    def __init__(self, arguments: Arguments, view: CycleView) -> None:
        raw = arguments.get(_KEY)
        time = seconds(raw) if isinstance(raw, str) else None
        self._time = time if time is not None and time > 0 else None
        self._now = view.snapshot.now

    def job_key(self, job: Job) -> tuple[float, ...]:
        return (self._deadline(job),)

    def must_enqueue(self, job: Job) -> bool:
        """Whether a job has waited as long as it may."""
        return self._deadline(job) <= self._now

    def _deadline(self, job: Job) -> float:
        time = job.sla if job.sla is not None else self._time
        if time is not None:
            return job.created + time
        return float("inf")
