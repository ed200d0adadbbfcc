"""Conditions of a pod group: `Scheduled` and `Unschedulable` as users of Volcano know them, and `Reserved`.

They follow from where the group is now, and one that says what it said before is the same, with its time and its
transition: writing them twice changes nothing. Volcano leaves an Unschedulable that no longer holds at "True"; here it
turns "False".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from tierwise.api.codec import Raw
from tierwise.api.core import Condition, Pod
from tierwise.api.reservation import RESERVATION, spell_reservation
from tierwise.controllers.stamp import stamp
from tierwise.controllers.workqueue import Index
from tierwise.dialects.identity import made_up_uid
from tierwise.explain.message import decision_id, message
from tierwise.framework.report import CycleReport, Decision, Reservation
from tierwise.model.job import Job, Phase, Rejection, Status, namespace_of, told
from tierwise.model.snapshot import Snapshot
from tierwise.port import Objects

__all__ = ["READY", "GangOutcome", "conditions", "phase_after", "reservation_mark", "unschedulable"]

# The phase of a pod group after a cycle, whichever dialect it is written in.


_STANDING: Final = (Status.RUNNING, Status.RELEASING, Status.SUCCEEDED)


def phase_after(job: Job, report: CycleReport, bound: int) -> Phase:
    """The phase of a group after a cycle; bound is how many of its pods the cycle bound.

    It is Completed where all its pods have ended and its minimum succeeded; Running where its minimum runs, or ran once
    and need not again; Unknown where some run and the rest was rejected; else Inqueue where it was let in, or Pending.
    """
    statuses = [task.status for task in job.tasks]
    running_or_bound = sum(map(statuses.count, _STANDING)) + bound
    succeeded = statuses.count(Status.SUCCEEDED)
    ended = succeeded + statuses.count(Status.FAILED)
    if succeeded and ended == len(job.tasks) and succeeded >= job.minimum:
        return Phase.COMPLETED
    if running_or_bound and (running_or_bound >= job.minimum or job.satisfied):
        return Phase.RUNNING
    if running_or_bound and job.key in report.rejections:
        return Phase.UNKNOWN
    phase = report.phases.get(job.key, job.phase)
    if phase is Phase.INQUEUE:
        return Phase.INQUEUE
    return Phase.PENDING


READY: Final = "tasks in gang are ready to be scheduled"
SCHEDULED: Final = "Scheduled"
UNSCHEDULABLE: Final = "Unschedulable"
RESERVED: Final = "Reserved"
_NOT_RESERVED: Final = "nothing is reserved for it"


def unschedulable(job: Job, rejection: Rejection, bound: int) -> str:
    """How many tasks of a gang wait, and why."""
    pending = sum(len(pod_set.tasks) for pod_set in job.pod_sets()) - bound
    return f"{pending}/{len(job.tasks)} tasks in gang unschedulable: {message(rejection, namespace_of(job.key))}"


def conditions(
    present: Sequence[Condition],
    job: Job,
    *,
    ready: bool,
    waits: tuple[str, str] | None,
    now: float,
    reserved: Reservation | None = None,
) -> list[Raw]:
    """The conditions of a group whose minimum runs or not, and of which some wait (code and text) or none."""
    states: dict[str, tuple[bool, str, str]] = {
        SCHEDULED: (ready, READY if ready else "NotEnoughTasks", READY if ready else "the gang is below its minimum"),
        UNSCHEDULABLE: (True, *waits) if waits is not None else (False, "NothingWaits", "no task waits for a place"),
        RESERVED: (True, RESERVED, _place(reserved)) if reserved is not None else (False, "NotReserved", _NOT_RESERVED),
    }
    by_type = {condition.type: condition for condition in present}
    foreign = [_shown(condition) for condition in present if condition.type not in states]
    for kind, (holds, reason, text) in states.items():
        before = by_type.get(kind)
        # That something never was need not be said.
        if holds or before is not None:
            foreign.append(_condition(before, (kind, "True" if holds else "False", reason, text), job.key, now))
    return foreign


def _place(reserved: Reservation) -> str:
    return told(reserved.text, reserved.names, namespace_of(reserved.job.key))


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


# The reservation of a group as an annotation, in every language: it is read back after a restart.


def reservation_mark(annotations: Mapping[str, str], reserved: Reservation | None) -> dict[str, str]:
    """The annotation of a reservation where it differs from the present one; empty for one that is no more."""
    mark = spell_reservation(reserved.record) if reserved is not None else ""
    return {RESERVATION: mark} if annotations.get(RESERVATION, "") != mark else {}


# What a cycle means for one gang, as the function of its language is told that writes its status.


class GangOutcome(msgspec.Struct, frozen=True):
    """A gang after a cycle."""

    objects: Objects
    snapshot: Snapshot
    report: CycleReport
    pods: Index[Pod]  # by podGroup of Volcano's
    job: Job
    decisions: Sequence[Decision]  # about this job
    reserved: Reservation | None

    @property
    def bound(self) -> int:
        """How many of its pods were bound."""
        return sum(decision.count() for decision in self.decisions if decision.bound)

    @property
    def phase(self) -> Phase:
        """Current phase of the gang."""
        return phase_after(self.job, self.report, self.bound)

    @property
    def rejection(self) -> Rejection | None:
        """Why the rest of it waits."""
        return self.report.rejections.get(self.job.key)

    @property
    def decision(self) -> str:
        """Identifier of the decision, for events."""
        return decision_id(self.snapshot.now, self.job.key)
