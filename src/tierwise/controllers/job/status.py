"""The status of a job: how many of its pods wait, run and have ended, and where the job is in its life.

Called by the job controller. Moves a job from Pending to Running and on to Completed or Failed; every other phase is
set by life-cycle policies and left alone here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tierwise.api.codec import Raw
from tierwise.api.core import Pod
from tierwise.api.volcano import Job
from tierwise.controllers.stamp import stamp
from tierwise.port import Effect, PatchStatus, key_of

__all__ = ["bring"]


def bring(job: Job, own: Sequence[Pod], now: float) -> list[Effect]:
    """Write what became of a job with its defaults filled in, where that has changed."""
    counts = Counter(_standing(pod) for pod in own)
    phase = _phase(job, counts)
    wanted: Raw = {
        "minAvailable": job.spec.min_available or 0,
        "pending": counts["Pending"],
        "running": counts["Running"],
        "succeeded": counts["Succeeded"],
        "failed": counts["Failed"],
        "terminating": counts["Terminating"],
    }
    status = job.status
    present: Raw = {
        "minAvailable": status.min_available,
        "pending": status.pending,
        "running": status.running,
        "succeeded": status.succeeded,
        "failed": status.failed,
        "terminating": status.terminating,
    }
    changes = {field: count for field, count in wanted.items() if present[field] != count}
    if phase != status.state.phase:
        changes = {"state": {"phase": phase, "lastTransitionTime": stamp(now)}, **wanted}
    return [PatchStatus(key_of(job), changes)] if changes else []


def _standing(pod: Pod) -> str:
    """What a pod counts as; a pod on its way out neither runs nor waits, one that ended has ended."""
    phase = pod.status.phase or ("Running" if pod.spec.node_name else "Pending")
    if pod.metadata.deletion_timestamp and phase in ("Pending", "Running"):
        return "Terminating"
    return phase


def _phase(job: Job, counts: Counter[str]) -> str:
    phase, needed, wanted = job.status.state.phase or "Pending", job.spec.min_available or 0, job.spec.min_success
    succeeded, ended = counts["Succeeded"], counts["Succeeded"] + counts["Failed"]
    total = sum(task.replicas for task in job.spec.tasks)
    if phase not in ("Pending", "Running"):
        return phase
    if wanted is not None and succeeded >= wanted:
        return "Completed"
    if total and ended >= total:
        return "Completed" if succeeded >= (needed if wanted is None else wanted) else "Failed"
    # Volcano lets ended pods count: a job whose first pods are done before the last start has been running.
    return "Running" if phase == "Running" or (needed and counts["Running"] + ended >= needed) else "Pending"
