"""The JSON of `explain --job`: where a job and its pods are placed, and how far its search came."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, islice

from tierwise.api.codec import Raw
from tierwise.api.meta import format_time
from tierwise.explain.message import refusal
from tierwise.explain.proposal import proposal_wire
from tierwise.explain.rejection_wire import FORMAT, eviction_wire, rejection_wire, tried_wire
from tierwise.explain.reservations import reservation_wire
from tierwise.explain.wire import pod_group_wire
from tierwise.framework.report import CycleReport
from tierwise.model.job import Job, Status
from tierwise.model.snapshot import Snapshot

__all__ = ["job_wire"]


def job_wire(
    job: Job, after: Snapshot, reports: Sequence[tuple[Snapshot, CycleReport]], bindings: Mapping[str, str]
) -> Raw:
    """The podGroup as `schedule` lists it, with its pods, and what the last cycle said about the rest."""
    rejection = refusal(job, reports[-1][1])
    mine = {task.key for task in job.tasks}
    return {
        "formatVersion": FORMAT,
        "podGroup": job.key,
        **pod_group_wire(after, job, job.key),
        "bindings": {pod: node for pod, node in bindings.items() if pod in mine},
        "pending": [task.key for task in job.tasks if task.status is Status.PENDING],
        **rejection_wire(rejection),
        "eviction": eviction_wire([s for _, report in reports for s in report.eviction_attempts.get(job.key, ())]),
        "proposal": _proposal(job, reports),
        "ladder": _ladder(job),
        "tried": [tried_wire(tried) for tried in rejection.tried] if rejection is not None else [],
        **_reservation(job, *reports[-1]),
    }


def _reservation(job: Job, snapshot: Snapshot, report: CycleReport) -> Raw:
    """The reservation of the job, where it has one."""
    found = next((reservation for reservation in report.reservations if reservation.job.key == job.key), None)
    return {"reservation": reservation_wire(snapshot, found)} if found is not None else {}


def _proposal(job: Job, reports: Sequence[tuple[Snapshot, CycleReport]]) -> Raw | None:
    """What was recommended for the job when its minimum was placed."""
    found = ((snapshot, d) for snapshot, report in reports for d in report.decisions if d.job.key == job.key)
    return next((wire for snapshot, d in found if (wire := proposal_wire(snapshot, d)) is not None), None)


def _ladder(job: Job) -> list[Raw]:
    """For how long the job holds out for which tier."""
    ends = accumulate((step.seconds for step in job.ladder), initial=job.created)
    return [
        {"tier": s.tier, "until": format_time(end)} for s, end in zip(job.ladder, islice(ends, 1, None), strict=True)
    ]
