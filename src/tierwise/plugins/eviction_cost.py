"""eviction-cost: what evicting a pod loses is weighed against what it brings.

    lost   = now - max(start, last checkpoint) + restart cost     seconds of each pod's work
    gained = min(expected duration, horizon)                      seconds of the preemptor's work

Pods younger than the minimum run time of their job, their queue or the profile are protected. Losses join the cost of
breaking a gang, so that bundles and domains are compared with them, and a plan that loses more than the preemptor gains
is declined until that has waited for long enough; both are counted in shares of what the preemptor needs, times
seconds. What a job says of itself counts up to limits of the profile.
"""

from __future__ import annotations

import numpy as np

from tierwise.api.duration import seconds
from tierwise.config.arguments import flag
from tierwise.framework.declaration import takes_part
from tierwise.framework.extension import Arguments, CycleView, EvictionCosts, Preemptor, Purpose, VictimFilter
from tierwise.model.arrays import Bools, Floats, Ints, distinct
from tierwise.model.job import Job, Status
from tierwise.model.running import RunningTable

__all__ = ["EvictionCost"]

_HORIZON = 3600.0
_LONGEST = 3600.0
_NOTICE = 600.0
_RESTART = 86_400.0
_DECLINED = 3600.0


@takes_part(VictimFilter, EvictionCosts, by_amounts=True)
class EvictionCost:
    """Protects young pods, and prices the work of all others."""

    answers: frozenset[Purpose] = frozenset()  # it protects, and names no victims
    counts = False

    def __init__(self, arguments: Arguments, view: CycleView) -> None:
        self._jobs = view.jobs
        self._queues = view.queues
        self._now = view.snapshot.now
        self._horizon = _seconds(arguments, "horizon", _HORIZON) or _HORIZON
        self._longest = _seconds(arguments, "maxMinimumRunTime", _LONGEST)
        self._notice = _seconds(arguments, "maxNotice", _NOTICE)
        self._restart = _seconds(arguments, "maxRestartCost", _RESTART)
        self._patience = _seconds(arguments, "maxDecline", _DECLINED)
        self._usual = _seconds(arguments, "minimumRunTime", 0.0)
        self._checkpoints: dict[int, float] = {}
        self._declines = flag(arguments, "decline", default=True)
        self._by_queue = {
            name: _seconds(arguments, f"minimumRunTime.{name}", 0.0)
            for name in self._queues
            if f"minimumRunTime.{name}" in arguments
        }

    # -- who is protected

    def protect(self, preemptor: Preemptor, victims: Ints) -> Bools:
        """Pods that have not run for as long as they may."""
        tasks = preemptor.running.tasks
        jobs = preemptor.running.job
        reclaims = preemptor.purpose is Purpose.RECLAIM
        kinds = distinct(jobs[victims]).tolist()
        times = {number: self._minimum(self._jobs[number], reclaims=reclaims) for number in kinds}
        young = [self._now - tasks[v].started < times[int(jobs[v])] for v in victims.tolist()]
        return np.array(young, dtype=bool)

    def _minimum(self, job: Job, *, reclaims: bool) -> float:
        """The longest of what job, queue and profile say; what a tenant writes for itself counts up to a limit."""
        queue = self._queues.get(job.queue)
        job_minimum = min(job.terms.minimum_run_time, self._longest) if job.terms is not None else 0.0
        queue_minimum = 0.0
        if queue is not None:
            queue_minimum = queue.minimum_run_time
            if reclaims and queue.reclaim_run_time is not None:
                queue_minimum = queue.reclaim_run_time
            queue_minimum = min(queue_minimum, self._longest) if queue.scope else queue_minimum
        return max(job_minimum, queue_minimum, self._by_queue.get(job.queue, self._usual))

    # -- what is lost and gained

    def lost_seconds(self, running: RunningTable, victims: Ints) -> Floats:
        """Seconds of its work that each of these pods would lose."""
        return np.array([self._lost(running, victim) for victim in victims.tolist()], dtype=np.float64)

    def _lost(self, running: RunningTable, victim: int) -> float:
        task = running.tasks[victim]
        job = self._jobs[int(running.job[victim])]
        restart = min(job.terms.restart_cost, self._restart) if job.terms is not None else 0.0
        return max(0.0, self._now - max(task.started, self._saved(job))) + restart

    def _saved(self, job: Job) -> float:
        saved = self._checkpoints.get(job.number)
        if saved is None:
            saved = self._checkpoints[job.number] = job.saved
        return saved

    def gained_seconds(self, job: Job) -> float:
        """Seconds of its work that a preemptor is ahead where it starts now: its own duration, up to the horizon."""
        expected = job.terms.expected if job.terms is not None else 0.0
        if expected:
            return min(expected, self._horizon)
        return self._horizon

    def notice_seconds(self, job: Job) -> float:
        """How long its pods are told before they are evicted: as long as it asks, up to the profile's limit."""
        if job.terms is not None:
            return min(job.terms.notice, self._notice)
        return 0.0

    def declines(self, job: Job) -> bool:
        """Whether a plan that loses more than it gains is not carried out for a job: as long as that can wait."""
        waiting = [task.created for task in job.tasks if task.status is Status.PENDING and task.created]
        return self._declines and self._now - min(waiting, default=self._now) < self._patience


def _seconds(arguments: Arguments, name: str, otherwise: float) -> float:
    """A duration, or a number of seconds; what cannot be read is as if it were not there."""
    value = arguments.get(name)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return max(0.0, float(value))
    duration = seconds(value) if isinstance(value, str) else None
    return max(0.0, duration) if duration is not None else otherwise
