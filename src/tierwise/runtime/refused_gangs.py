"""Gangs whose binds were refused for a reason that stays: left alone for a while, so that nobody asks again and again.

A policy or a webhook that denies a bind denies it in the next cycle as well. Such a gang is not served for one second,
then two, and so on up to a minute. A gang of which a part was bound is asked for once more at once: its rest goes
before others, who would take the room while it waits. The waiting ends when the gang becomes another one: its pods,
what they ask for, their labels or gates, or what its group asks for. A tenant may change these all the time, so a
change ends it once a minute at most.

Called by the loop with what became of its writes. Times are of a clock that never jumps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from tierwise import port
from tierwise.api.core import Pod
from tierwise.dialects.languages import declaring
from tierwise.model.job import Job, Reason
from tierwise.model.snapshot import Snapshot

__all__ = ["LONGEST", "RefusedGangs", "paused_reason"]

_FIRST: Final = 1.0
"""Seconds for which a gang is left alone after its first refusal."""

LONGEST: Final = 60.0
"""Seconds for which it is left alone at most; and between two ends of that by a change of the gang."""

_Known = Mapping[str, object]
"""What may change so that the gang is asked for again: by pod, and of the objects that declare it."""


class _Refusal(msgspec.Struct):
    known: _Known
    seconds: float  # for which it is left alone
    until: float
    text: str
    changed: float = float("-inf")  # when a change has ended the wait last


class RefusedGangs:
    """Which gangs were refused, and until when they are left alone."""

    def __init__(self) -> None:
        self._refusals: dict[str, _Refusal] = {}

    def note(self, objects: port.Objects, snapshot: Snapshot, outcomes: Iterable[port.Outcome], now: float) -> None:
        """Remember gangs that were refused, as they were when it was decided to place them; forget those that were not.

        What was withheld, nobody has refused. What failed for another reason may succeed at once.
        """
        refused: dict[str, port.Outcome] = {}
        done: dict[str, bool] = {}
        begun: set[str] = set()
        for outcome in outcomes:
            gang = _gang_of(outcome.effect)
            if gang and outcome.lasting:
                refused.setdefault(gang, outcome)
            elif gang and isinstance(outcome.effect, port.Bind):
                done[gang] = done.get(gang, True) and outcome.ok
                begun.update([gang] if outcome.ok else ())
        for gang, fully_refused in done.items():
            if fully_refused and gang not in refused:
                self._refusals.pop(gang, None)
        jobs = {job.key: job for job in snapshot.jobs if job.key in refused} if refused else {}
        for gang, job in jobs.items():
            self._note(gang, _known(objects, job), refused[gang], now, in_part=gang in begun)

    def _note(self, gang: str, state: _Known, outcome: port.Outcome, now: float, *, in_part: bool) -> None:
        before = self._refusals.get(gang)
        initial = 0.0 if in_part else _FIRST
        seconds = initial if before is None else min(2.0 * before.seconds, LONGEST) or _FIRST
        refused = f"{port.about(outcome.effect)} was refused: {outcome.error}"
        text = f"{refused}; it is tried again within a minute, and when the gang changes"
        changed = before.changed if before is not None else float("-inf")
        self._refusals[gang] = _Refusal(state, seconds, now + seconds, text, changed)

    def paused(self, objects: port.Objects, snapshot: Snapshot, now: float) -> tuple[dict[str, Reason], float]:
        """The gangs that are left alone in the cycle over this snapshot, and in how many seconds the first is not."""
        self._refusals = {gang: refusal for gang, refusal in self._refusals.items() if now < refusal.until + LONGEST}
        if not self._refusals:
            return {}, float("inf")
        reasons: dict[str, Reason] = {}
        seconds_left = float("inf")
        for job in snapshot.unsettled:
            refusal = self._refusals.get(job.key)
            if refusal is None or now >= refusal.until:
                continue
            if now - refusal.changed >= LONGEST and _known(objects, job) != refusal.known:
                refusal.until = now
                refusal.seconds = 0.0
                refusal.changed = now
                continue
            reasons[job.key] = paused_reason(refusal.text)
            seconds_left = min(seconds_left, refusal.until - now)
        return reasons, seconds_left


def paused_reason(text: str) -> Reason:
    """Why a gang is left alone, in the words of its refusal."""
    return Reason("BindFailed", "bind", text)


def _gang_of(effect: port.Effect) -> str:
    """The gang that an effect is a part of starting; "" where it is none."""
    match effect:
        case port.Bind() | port.Prepare():
            return effect.gang
        case port.Nominate():
            return effect.gang if effect.node else ""
        case _:
            return ""


def _known(objects: port.Objects, job: Job) -> _Known:
    """State that must change before a refused gang is tried again."""
    pods = objects.every(Pod)
    pods_of_gang = [pods[task.key] for task in job.tasks if task.key in pods]
    state: dict[str, object] = {pod.metadata.name: _asked(pod) for pod in pods_of_gang}
    for key, record in declaring(objects, job):
        state[str(key)] = record.metadata.uid, record.metadata.labels, getattr(record, "spec", None)
    return state


def _asked(pod: Pod) -> object:
    """A pod without what a scheduler writes on it."""
    return pod.metadata.uid, pod.metadata.labels, replace(pod.spec, node_name="")
