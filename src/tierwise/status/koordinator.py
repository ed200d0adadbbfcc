"""What a cycle means for Koordinator's pod groups: they have phases of their own, and no conditions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tierwise.api.codec import Raw
from tierwise.api.core import ObjectMeta
from tierwise.dialects.koordinator.gangs import gang_object
from tierwise.explain.message import message
from tierwise.explain.wire import pod_groups_of
from tierwise.model.job import Phase
from tierwise.port import Effect, Key, PatchStatus, RecordEvent
from tierwise.status.conditions import READY, reservation_mark
from tierwise.status.outcome import GangOutcome

__all__ = ["MESSAGE_ANNOTATION", "of_gangs", "told"]

MESSAGE_ANNOTATION: Final = "tierwise.io/unschedulable"
_PHASES: Final = {
    Phase.PENDING: "Pending",
    Phase.INQUEUE: "Pending",
    Phase.RUNNING: "Running",
    Phase.UNKNOWN: "Unknown",
    Phase.COMPLETED: "Finished",
}


def of_gangs(outcome: GangOutcome) -> Iterator[Effect]:
    """The status of each gang of a job that has an object, and events about it: the phase, the message as a mark."""
    for path in pod_groups_of(outcome.job):
        found = gang_object(outcome.objects, path)
        if found is None:
            continue
        key, gang = found
        phase = _PHASES[outcome.phase]
        events, marks = told(outcome, key, gang.metadata)
        yield from events
        marks |= reservation_mark(gang.metadata.annotations, outcome.reserved)
        status: Raw = {"phase": phase} if gang.status.phase != phase else {}
        if status or marks:
            yield PatchStatus(key, status, marks)


def told(outcome: GangOutcome, key: Key, meta: ObjectMeta) -> tuple[list[Effect], dict[str, str]]:
    """News about a group whose status has no place for a message: events, and the annotation that keeps the message."""
    rejection, bound, decision = outcome.rejection, outcome.bound, outcome.decision
    text = f"{rejection.verdict.words}: {message(rejection, key.namespace)}" if rejection is not None else ""
    known = meta.annotations.get(MESSAGE_ANNOTATION, "")
    events: list[Effect] = []
    if rejection is not None and text != known:
        events.append(RecordEvent(key, "Warning", rejection.reason.code, text, decision))
    elif bound and rejection is None:
        events.append(RecordEvent(key, "Normal", "Scheduled", READY, decision))
    return events, {MESSAGE_ANNOTATION: text} if text != known else {}
