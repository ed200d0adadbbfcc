"""Conditions of a pod group as users of Volcano know them: `Scheduled` and `Unschedulable`.

Both follow from where the group is now, and one that says what it said before is the same, with its time and its
transition: writing them twice changes nothing. Volcano leaves an Unschedulable that no longer holds at "True"; here it
turns "False".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tierwise.api.codec import Raw
from tierwise.api.core import Condition
from tierwise.controllers.stamp import stamp
from tierwise.dialects.identity import made_up_uid
from tierwise.explain.message import message
from tierwise.model.job import Job
from tierwise.model.reason import Rejection

__all__ = ["READY", "conditions", "unschedulable"]

READY: Final = "tasks in gang are ready to be scheduled"
SCHEDULED: Final = "Scheduled"
UNSCHEDULABLE: Final = "Unschedulable"


def unschedulable(job: Job, rejection: Rejection, bound: int) -> str:
    """How many tasks of a gang wait, and why."""
    pending = sum(len(part.tasks) for part in job.parts()) - bound
    return f"{pending}/{len(job.tasks)} tasks in gang unschedulable: {message(rejection)}"


def conditions(
    present: Sequence[Condition], job: Job, *, ready: bool, waits: tuple[str, str] | None, now: float
) -> list[Raw]:
    """The conditions of a group whose minimum stands or not, and of which some wait (code and text) or none."""
    wanted: dict[str, tuple[bool, str, str]] = {
        SCHEDULED: (ready, READY if ready else "NotEnoughTasks", READY if ready else "the gang is below its minimum"),
        UNSCHEDULABLE: (True, *waits) if waits is not None else (False, "NothingWaits", "no task waits for a place"),
    }
    known = {condition.type: condition for condition in present}
    kept = [_shown(condition) for condition in present if condition.type not in wanted]
    for kind, (holds, reason, text) in wanted.items():
        before = known.get(kind)
        # That something never was need not be said.
        if holds or before is not None:
            kept.append(_condition(before, (kind, "True" if holds else "False", reason, text), job.key, now))
    return kept


def _condition(before: Condition | None, content: tuple[str, str, str, str], key: str, now: float) -> Raw:
    kind, status, reason, text = content
    if before is not None and (before.type, before.status, before.reason, before.message) == content:
        return _shown(before)
    since = before.last_transition_time if before is not None and before.status == status else ""
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": text,
        "lastTransitionTime": since or stamp(now),
        "transitionID": made_up_uid("Transition", key, f"{stamp(now)} {content}"),
    }


def _shown(condition: Condition) -> Raw:
    return {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": condition.last_transition_time,
        "transitionID": condition.transition_id,
    }
