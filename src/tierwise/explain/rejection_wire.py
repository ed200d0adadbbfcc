"""The words that every JSON has for what becomes of a job: why it waits, how far its search came, who had to go.

`schedule`, `explain`, `why` and the pages say the same with the same keys; a page may add to them what its map needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from tierwise.api.codec import Raw
from tierwise.explain.message import message
from tierwise.framework.bundle import FREE
from tierwise.framework.report import BundleSummary, CycleReport, Eviction, EvictionAttempt
from tierwise.model.job import Job, Rejection, Task, Tried

__all__ = ["FORMAT", "eviction_wire", "evictions_wire", "pod_group_of", "rejection_wire", "tried_wire", "work_wire"]

FORMAT: Final = 2
"""The version of this vocabulary: a key that is renamed or gets another meaning makes the next one."""


def pod_group_of(job: Job, task: Task) -> str:
    """The pod group of a task, empty for a lone pod."""
    if job.gangs:
        return task.role
    return job.key if job.declared else ""


def rejection_wire(rejection: Rejection | None) -> Raw:
    """Why a job waits; empty texts where it does not."""
    if rejection is None:
        return {"verdict": "", "reason": "", "message": ""}
    return {"verdict": rejection.verdict.value, "reason": rejection.reason.code, "message": message(rejection)}


def tried_wire(tried: Tried) -> Raw:
    """How far a tier came, or a constraint by itself where a job has several."""
    return {
        "tier": tried.tier,
        **({"constraint": tried.layer} if tried.layer else {}),
        "hyperNodes": tried.domains,
        "best": tried.best,
        "fits": tried.fits,
        "asked": tried.asked,
        "searchedHere": tried.here,
        "notSearched": tried.outside,
        "causes": [{"reason": reason.code, "message": reason.text, "nodes": n} for reason, n in tried.causes],
    }


def evictions_wire(evictions: Iterable[Eviction]) -> list[Raw]:
    """Which pods were evicted, for which job and why."""
    return [
        {
            "pod": e.task.key,
            "podGroup": pod_group_of(e.job, e.task),
            "by": e.by.key if e.by is not None else "",
            "action": e.action,
            "reason": e.reason,
        }
        for e in evictions
    ]


def eviction_wire(attempts: Sequence[EvictionAttempt]) -> list[Raw]:
    """Every attempt, as `explain` prints it in JSON."""
    return [
        {
            "action": attempt.action,
            "obstacle": attempt.obstacle.text if attempt.obstacle is not None else "",
            "hyperNodes": list(attempt.domains_considered),
            "hyperNode": attempt.domain,
            "bundles": [_bundle_wire(note) for note in attempt.bundles],
            "loss": attempt.loss,
        }
        for attempt in attempts
    ]


def _bundle_wire(note: BundleSummary) -> Raw:
    gang_kind = "Safe" if note.safe else "Whole"
    return {
        "podGroup": note.job,
        "kind": "Single" if note.by_pod else gang_kind,
        "pods": note.tasks,
        "efficiency": None if note.efficiency >= FREE else note.efficiency,
        "evicted": note.taken,
    }


def work_wire(report: CycleReport) -> Raw:
    """How much a cycle looked at."""
    return {"trials": report.search_counts.trials, "hyperNodes": report.search_counts.domains}
