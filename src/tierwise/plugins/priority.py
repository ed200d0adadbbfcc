"""priority: the more important goes first, among jobs, sub-jobs and the tasks of a sub-job.

Preemption evicts only tasks of jobs with a strictly lower priority. Where a task preempts tasks of its own job, the
victim's priority must be below the highest pending one. Reclaim is not filtered.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from tierwise.framework import extension as points
from tierwise.framework.declaration import takes_part
from tierwise.model.arrays import Bools, Ints
from tierwise.model.job import Job, PodSet, SubJob

__all__ = ["Priority"]


@takes_part(
    points.JobOrder,
    points.TaskOrder,
    points.Starving,
    points.SubJobOrder,
    points.VictimFilter,
    ignores_names=True,
    rises_with_use=True,
    by_priority=True,
    by_amounts=True,
)
class Priority:
    """Orders by the value of the priority class, highest first."""

    answers = frozenset((points.Purpose.PREEMPT,))
    counts = False

    def __init__(self, arguments: points.Arguments, view: points.CycleView) -> None:
        self._ledger = view.ledger
        self._jobs = view.jobs

    @cached_property
    def _of_job(self) -> Ints:
        return np.array([job.priority for job in self._jobs], dtype=np.int64)

    def job_key(self, job: Job) -> tuple[float, ...]:
        return (-job.priority,)

    def sub_job_key(self, sub: SubJob) -> tuple[float, ...]:
        return (-sub.priority,)

    def task_key(self, pod_set: PodSet) -> tuple[float, ...]:
        return (-pod_set.shape.priority,)

    def starving(self, job: Job) -> bool:
        """Whether pending tasks are left; those that are left to backfill and gated ones do not count."""
        pending = sum(sub.pending for sub in job.subs)
        subs = [sub.number for sub in job.subs]
        placed = int((self._ledger.ready[subs] + self._ledger.waiting[subs]).sum()) - sum(s.ready for s in job.subs)
        return pending > max(placed, 0)

    def protect(self, preemptor: points.Preemptor, victims: Ints) -> Bools:
        """Protects tasks of jobs at least as important as the preemptor; none when reclaiming.

        Pods that are evicted one by one are compared by their own priority, and so are those of the preemptor's own
        job.
        """
        if preemptor.purpose is points.Purpose.RECLAIM:
            return np.zeros(len(victims), dtype=bool)
        waits = max((pod_set.shape.priority for pod_set in preemptor.job.pod_sets()), default=-(2**63))
        if preemptor.by_pod:
            return preemptor.running.priority[victims] >= waits
        jobs = preemptor.running.job[victims]
        protected: Bools = self._of_job[jobs] >= preemptor.job.priority
        if not preemptor.gang:
            of_preemptor = jobs == preemptor.job.number
            protected[of_preemptor] = preemptor.running.priority[victims[of_preemptor]] >= waits
        return protected
