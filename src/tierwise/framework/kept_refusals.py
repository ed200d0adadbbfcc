"""What the last cycle told jobs that wait, as far as it holds in this one: they are refused without a further look.

A refusal is kept with what was made of it. All that it reads is the job, and what `KeptVerdicts` declares; where that
is another, nothing is kept. Where the job is the same, the next cycle refuses it with the very same words if it was
refused

- by a *gate*: its queue, the profile, or a plugin that says which jobs may be tried. All of these are tierwise's own,
  and look at the job, its queue and the trees alone;
- because it fits on no empty node: then it fits on none that other pods stand on.

Every other refusal depends on what other pods hold. Of a job that was looked for, it is kept that it has passed the
gates, and of which kind it is: one that finds no place is refused with all others of its kind. All that is told is what
a cycle that begins with nothing tells, in the same order.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

import msgspec

from tierwise.model.job import Job, Rejection, Shape, Task
from tierwise.model.snapshot import Snapshot

__all__ = ["KeptRefusals", "KindAsked", "ToldJob"]

_MORE = 64


class KindAsked(msgspec.Struct, frozen=True):
    """What the refusal of a job that has passed the gates, and has nothing placed, depends on besides free room."""

    kind: tuple[object, ...]
    pods: int  # that its minimum lacks
    limit: float
    has_surplus: bool
    shapes: tuple[Shape, ...]


class ToldJob(msgspec.Struct, frozen=True):
    """What was made of the refusal of one job, and of what."""

    tasks: tuple[Task, ...]  # another object once anything of the job is another
    refusal: Rejection
    on: tuple[bool, ...] | None  # what was true of the cluster besides; None where nodes had no say
    told: Rejection
    read: tuple[object, ...]  # the keys of what was asked for on the way
    gate: bool  # a gate refused it
    nowhere: bool  # it fits on no empty node, and that is all that was to be said
    asked: KindAsked | None  # None where it was not refused as one of a kind


class KeptRefusals:
    """What is known of jobs and of kinds of gangs from the last cycle, and what the next one will know."""

    def __init__(self, snapshot: Snapshot | None = None, by: object | None = None) -> None:
        """`by` is the profile, where all its plugins decide by the job and by what is declared; None where one of them
        may not, and nothing is kept.
        """
        box = snapshot.kept_verdicts if snapshot is not None else None
        self._box = box if box is not None and snapshot is not None and box.about(snapshot, by) else None
        kinds, jobs = self._box.last if self._box is not None else ({}, {})
        self._kinds: Mapping[object, object] = kinds
        self._last: Mapping[str, ToldJob] = jobs  # type: ignore[assignment]  # it is filled here alone
        jobs_now = snapshot.unsettled if snapshot is not None and self._last else ()
        self.gates: Mapping[str, Rejection] = {  # of jobs that a gate kept out in the last cycle, and keeps out now
            job.key: last.refusal for job in jobs_now if (last := self.last(job)) is not None and last.gate
        }
        self._now: dict[object, object] = {}  # kinds that were found out in this cycle
        self._passing: dict[object, object] = {}  # what is known in this cycle alone
        self._new_gates: dict[str, Rejection] = {}
        self._again = 0  # jobs that are told what they were told
        self.jobs: dict[str, ToldJob] = {}  # what the next cycle will know of jobs
        self.asked: dict[str, KindAsked] = {}  # by job, the kind as which it was refused in this cycle
        self.read: list[object] = []  # the keys of what was asked for since it was last emptied, and lasts
        self.keeps = self._box is not None

    # -- what jobs were told

    def last(self, job: Job) -> ToldJob | None:
        """What a job was told that is what it was; None where it is not, or nothing is known.

        What a part of a set is told depends on the other parts, which may be others now.
        """
        last = self._last.get(job.key) if job.member is None else None
        return last if last is not None and last.tasks is job.tasks else None

    def passes_gates(self, job: Job) -> bool:
        """Whether no gate kept a job out in the last cycle, and none does now."""
        last = self.last(job)
        return last is not None and (last.nowhere or last.asked is not None)

    def kind_asked(self, job: Job) -> KindAsked | None:
        """As which kind a job was refused in the last cycle, if it is what it was."""
        last = self.last(job)
        return last.asked if last is not None else None

    def nowhere(self, job: Job, *, releasing: bool) -> Rejection | None:
        """The refusal of a job that was found to fit on no empty node."""
        last = self.last(job)
        return last.refusal if last is not None and last.nowhere and last.on == (False, releasing) else None

    def refused_by_gate(self, job: Job, rejection: Rejection) -> None:
        """A gate has refused a job, and will as long as nothing of the job and of what is read is another."""
        if self.keeps:
            self._new_gates[job.key] = rejection

    def is_by_gate(self, job: Job, rejection: Rejection) -> bool:
        """Whether a refusal of this cycle is such a one."""
        return self._new_gates.get(job.key) is rejection

    def repeat(self, job: Job, told: ToldJob) -> Rejection:
        """A job is told what it was told."""
        self._again += 1
        self.jobs[job.key] = told
        return told.told

    def repeat_gates(self, rejections: dict[str, Rejection]) -> set[str]:
        """Tell all jobs that a gate keeps out again what they were told; which these are."""
        again = {key: self._last[key] for key, refusal in self.gates.items() if rejections.get(key) is refusal}
        again = {key: told for key, told in again.items() if told.on is None}
        self._again += len(again)
        self.jobs.update(again)
        rejections.update((key, told.told) for key, told in again.items())
        return set(again)

    # -- what is known of kinds

    def get(self, key: object, *, lasts: bool) -> object | None:
        """What is known, if anything."""
        if not lasts:
            return self._passing.get(key)
        self.read.append(key)
        found = self._now.get(key)
        if found is None:
            found = self._kinds.get(key)
            if found is not None:
                self._now[key] = found
        return found

    def put(self, key: object, found: object, *, lasts: bool) -> None:
        """Something was found out that `lasts`, or holds for this cycle alone."""
        (self._now if lasts else self._passing)[key] = found

    def hand_on(self) -> None:
        """Let the next cycle know what this one does, of as many kinds as jobs that wait have asked for.

        What is handed on is never changed from here on: other threads may read the same snapshot.
        """
        if self._box is None:
            return
        kinds = {**self._kinds, **self._now} if self._now else self._kinds
        # As long as no job that waited is gone, all that was known is of use.
        if self._again < len(self._last) or len(kinds) > 2 * len(self.jobs) + _MORE:
            asked = set(chain.from_iterable(told.read for told in self.jobs.values()))
            kinds = {key: found for key, found in kinds.items() if key in asked or key in self._now}
        self._box.last = kinds, self.jobs
