"""What a cycle means for Koordinator's pod groups: they have phases of their own, and no conditions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from tierwise.api.codec import Raw
from tierwise.api.koordinator import PodGroup as Gang
from tierwise.api.meta import ObjectMeta
from tierwise.api.volcano import PodGroup
from tierwise.explain.message import decision_id, message
from tierwise.explain.wire import pod_groups_of
from tierwise.framework.report import CycleReport
from tierwise.model.job import Job, Phase
from tierwise.model.reason import Rejection
from tierwise.model.snapshot import Snapshot
from tierwise.port import Effect, Key, Objects, PatchStatus, RecordEvent
from tierwise.status.conditions import READY, phase_after, reservation_mark

__all__ = ["MESSAGE_ANNOTATION", "gang_statuses", "told"]

MESSAGE_ANNOTATION: Final = "tierwise.io/unschedulable"
_GROUPS: Final = ("scheduling.sigs.k8s.io", "scheduling.koordinator.sh")
_PHASES: Final = {
    Phase.PENDING: "Pending",
    Phase.INQUEUE: "Pending",
    Phase.RUNNING: "Running",
    Phase.UNKNOWN: "Unknown",
    Phase.COMPLETED: "Finished",
}


def gang_statuses(
    objects: Objects, snapshot: Snapshot, report: CycleReport, whose: Callable[[Job], bool]
) -> Iterator[Effect]:
    """Status patches and events of the gangs of some jobs that a cycle changed."""
    gangs = objects.every(Gang)
    if not gangs:
        return
    others = objects.every(PodGroup)
    for job in filter(whose, snapshot.jobs):
        for key in pod_groups_of(job):
            if key in gangs and (job.gangs or key not in others):
                yield from _of_gang(objects, report, job, gangs[key], decision_id(snapshot.now, job.key))


def _of_gang(objects: Objects, report: CycleReport, job: Job, gang: Gang, decision: str) -> Iterator[Effect]:
    """The phase, and the message as an annotation."""
    namespace, name = gang.metadata.namespace or "default", gang.metadata.name
    keys = (Key(group, "PodGroup", namespace, name) for group in _GROUPS)
    key = next(key for key in keys if objects.record(key) is gang)
    bound = sum(d.count() for d in report.decisions if d.job is job and d.bound)
    phase = _PHASES[phase_after(job, report, bound)]
    events, marks = told(key, gang.metadata, report.rejections.get(job.key), bound, decision)
    yield from events
    marks |= reservation_mark(gang.metadata.annotations, report.reservation(job))
    status: Raw = {"phase": phase} if gang.status.phase != phase else {}
    if status or marks:
        yield PatchStatus(key, status, marks)


def told(
    key: Key, meta: ObjectMeta, rejection: Rejection | None, bound: int, decision: str
) -> tuple[list[Effect], dict[str, str]]:
    """News about a group whose status has no place for a message: events, and the annotation that keeps the message."""
    text = f"{rejection.verdict.words}: {message(rejection, key.namespace)}" if rejection is not None else ""
    known = meta.annotations.get(MESSAGE_ANNOTATION, "")
    events: list[Effect] = []
    if rejection is not None and text != known:
        events.append(RecordEvent(key, "Warning", rejection.reason.code, text, decision))
    elif bound and rejection is None:
        events.append(RecordEvent(key, "Normal", "Scheduled", READY, decision))
    return events, {MESSAGE_ANNOTATION: text} if text != known else {}
