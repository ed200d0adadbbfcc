"""backfill: place best-effort pods, which request only a pod slot, one by one, after the rest of their job.

Best-effort pods of a gang that starts whole are placed with it, by `allocate`.
"""

from __future__ import annotations

from tierwise.actions.enqueue import admission_reason
from tierwise.actions.placement.commit import commit
from tierwise.actions.placement.demand import Demand, TaskGroup
from tierwise.actions.placement.surplus import place_surplus
from tierwise.framework.cycle import Cycle
from tierwise.framework.ledger import job_ready
from tierwise.framework.steps import waits_for_steps
from tierwise.model.job import Job, PodSet, Reason, Rejection, SubJob

__all__ = ["backfill"]

_WAITS = Reason("WaitsForGang", "backfill", "the rest of its gang has no place yet")


def backfill(cycle: Cycle) -> None:
    """Every pending best-effort pod of a job that may run."""
    nominated = {decision.job.number for decision in cycle.report.decisions if not decision.bound}
    for job in cycle.snapshot.waiting:
        if job.best_effort_pod_sets:
            failed = cycle.attempt(job, lambda job: _serve(cycle, job, waits=job.number in nominated))
            if failed is not None:
                stage = "steps" if waits_for_steps(failed) else "gate"
                cycle.report.reject(job, Rejection(stage, job.key, failed))


def _serve(cycle: Cycle, job: Job, *, waits: bool) -> None:
    """One job; one that is only nominated `waits`, also where the ledger has its tasks on idle room."""
    cycle.show(job)
    if not any(job.pod_sets()):  # else allocate has given its room back when it was served
        cycle.nominations.release(job)
    reason = admission_reason(cycle, job)
    if reason is None and cycle.pipeline.gangs and (waits or not job_ready(cycle.ledger, job)):
        reason = _WAITS
    if reason is not None:
        if job.key not in cycle.report.rejections:
            cycle.report.reject(job, Rejection("gate", job.key, reason))
        return
    for number, pod_set in job.best_effort_pod_sets:
        _place(cycle, job, job.subs[number], pod_set)


def _place(cycle: Cycle, job: Job, sub: SubJob, pod_set: PodSet) -> None:
    """All pods of a part that find a slot; whatever keeps the rest of the job waiting stays its reason."""
    earlier_refusal = cycle.report.rejections.get(job.key)
    waiting_before = cycle.backlog.left(pod_set)
    allowed = cycle.pipeline.headroom(job, pod_set.shape.request, waiting_before)
    placements = place_surplus(cycle, job, TaskGroup.of(sub, pod_set, allowed)) if allowed else []
    if placements:
        commit(cycle, job, placements, action="backfill", score=0.0, bound=True)
    still_waiting = cycle.backlog.left(pod_set)
    if earlier_refusal is not None:
        cycle.report.reject(job, earlier_refusal)
    elif still_waiting and (over := cycle.pipeline.quota_exceeded(job, pod_set.shape.request)) is not None:
        cycle.report.reject(job, Rejection("quota", job.key, over))
    elif still_waiting:
        from tierwise.actions.diagnosis.diagnose import diagnose  # slow to import, and not every cycle rejects

        cycle.report.reject(
            job, diagnose(cycle, job, Demand((TaskGroup.of(sub, pod_set, still_waiting),)), bounded=False)
        )
