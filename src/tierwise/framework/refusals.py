"""The book of refusals: what was found to be impossible, for whom, and what that depends on.

Each kind of refusal has a page, and `INPUTS` says what its refusals depend on. Whoever asks a page finds it empty as
soon as one of these inputs is another than when the page was filled, so nobody clears a page by hand. A refusal is no
decision: a cycle that forgets all of them decides the same, later.

Most pages last for one action of one cycle (`Refusals.page`). What is known from the last cycle is read by job:

- what a job was told (`last`), as long as the job is what it was. It is refused with the very same words if a *gate*
  kept it out (its queue, the profile, or a plugin that says which jobs may be tried; all of these are tierwise's own,
  and look at the job, its queue and the trees alone), or because it fits on no empty node;
- what is known of cleared nodes, by kind of gang (`get`);
- that no place was found for a minimum (`is_unplaced`), as long as it asks for the same, no node has more room than at
  the end of the last cycle, and the rules between pods that bind it count what they counted. A search that stopped at
  a bound proves nothing, so it is not among these;
- that a search which proves nothing took many steps (`standing`), until room grows or ten minutes pass;
- that the gangs of a set which start together found no place in some orders (`why_set_waits`), as long as no node has
  more room, the gangs are what they were, and so are their limits and where parts of their sets stand. Other orders
  may find one, so this is forgotten after ten minutes, as what was cut short is.

All that these read besides is what `KeptVerdicts` declares; where that is another, nothing is kept. All that is told is
what a cycle that begins with nothing tells, in the same order, with the figures of now.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence, Sized
from itertools import chain
from typing import Any, Final, Generic, TypeVar

import msgspec
import numpy as np
from msgspec.structs import replace

from tierwise.framework.ledger import Ledger, Pool
from tierwise.framework.report import ReportBuilder
from tierwise.framework.steps import StepAccount
from tierwise.model.arrays import Ints
from tierwise.model.job import Job, Rejection, Shape, Task
from tierwise.model.snapshot import Snapshot
from tierwise.model.turns import CutRefusal, Turns

__all__ = ["INPUTS", "Input", "KindAsked", "Page", "Refusals", "SmallestRefused", "StandingRefusals", "ToldJob", "What"]

_MORE = 64

_VERDICT: Final = "verdict"
"""In the place of an action: what a job was told of a refusal."""

_CHEAP: Final = 8
"""Steps of a refusal that may as well be found out again while others wait for their turn."""

_CUT_SHORT: Final = 1000
"""Refusals that stand until room grows; of further ones nothing is known in the next cycle."""

_UNPLACED = 1000
"""Jobs, and sets, for which it is remembered that they found no place; further ones are searched for again in the next
cycle.
"""

_STANDS = 600.0
"""Seconds after which what was not proven is looked for again: rules may be met by what takes room, and a set was tried
in some orders alone.
"""

V = TypeVar("V")


class Input(enum.Enum):
    """Inputs of refusals within one cycle. Each has a number that is another once it has changed."""

    RELEASES = "capacity was released"
    MOMENT = "the ledger was written"
    DECISIONS = "a job was given a place"
    EVICTIONS = "a pod was evicted"
    NOMINATIONS = "room is kept for more nominated jobs, or for fewer"


class What(enum.Enum):
    """The kinds of refusals that hold within a cycle, and what is found out to tell whether one holds."""

    MINIMUM = "no place for the minimum of a gang"
    KEPT_PLACE = "no place but one that a gang keeps which has declined it"
    ON_SINGLE_NODES = "evicting on single nodes does not make room"
    BY_POD = "no plan of evictions for a lone pod"
    AS_BEFORE = "no node has more room than when the last cycle ended"
    RULES = "what the rules between pods that bind some shapes say"


INPUTS: Mapping[What, tuple[Input, ...]] = {
    What.MINIMUM: (Input.RELEASES,),
    What.KEPT_PLACE: (Input.RELEASES, Input.DECISIONS),
    What.ON_SINGLE_NODES: (Input.MOMENT, Input.RELEASES, Input.DECISIONS, Input.EVICTIONS),
    What.BY_POD: (Input.EVICTIONS, Input.NOMINATIONS),
    What.AS_BEFORE: (Input.MOMENT, Input.RELEASES),
    What.RULES: (Input.MOMENT, Input.RELEASES),
}
"""A refusal is forgotten once one of these has changed.

While nothing is released capacity only shrinks, so a gang that found no place will find none. With the places that
others keep closed room only shrinks, too; with all of them open it is what it was until a job is given a place.
"""


class Page(Generic[V]):
    """Refusals of one kind by key, as long as all that they depend on is what it was."""

    def __init__(self, inputs: Iterable[Callable[[], int]], forgetting: Callable[[], object] | None) -> None:
        """`forgetting` is called before refusals are forgotten."""
        self._inputs, self._forgetting = tuple(inputs), forgetting
        self._read: list[int] = []  # what the inputs were when the first of the entries was added
        self._entries: dict[Hashable, V] = {}

    def entries(self) -> Mapping[Hashable, V]:
        """All that is known and holds now, by key."""
        if self._entries and self._read != [read_input() for read_input in self._inputs]:
            if self._forgetting is not None:
                self._forgetting()
            self._entries = {}
        return self._entries

    def add(self, key: Hashable, refusal: V) -> None:
        """Remember a refusal."""
        if not self.entries():
            self._read = [read_input() for read_input in self._inputs]
        self._entries[key] = refusal


class SmallestRefused(Generic[V]):
    """The smallest demand of each family that was refused, by the limit within which it was looked for.

    In a family one number says how much is asked for. A refusal of so much speaks for as much and more, and within a
    limit that is as wide for a narrower one.
    """

    def __init__(self, page: Page[dict[float, tuple[int, V]]]) -> None:
        self._page = page

    def __bool__(self) -> bool:
        return bool(self._page.entries())

    def speaks_for(self, families: Iterable[Hashable], need: int, limit: float) -> V | None:
        """A refusal of as much or less, in one of these families, within a limit as wide."""
        entries = self._page.entries()
        for family in families:
            for wide, (size, refusal) in entries.get(family, {}).items():
                if wide >= limit and need >= size:
                    return refusal
        return None

    def add(self, family: Hashable, need: int, limit: float, refusal: V) -> None:
        """Remember a refusal, unless one of less is remembered for the limit."""
        by_limit = self._page.entries().get(family, {})
        size_and_refusal = by_limit.get(limit)
        if size_and_refusal is None or need < size_and_refusal[0]:
            self._page.add(family, {**by_limit, limit: (need, refusal)})


class KindAsked(msgspec.Struct, frozen=True):
    """Inputs of a refusal besides free room, for a job that has passed the gates and has nothing placed."""

    kind: tuple[object, ...]
    pods: int  # that its minimum lacks
    limit: float
    has_surplus: bool
    shapes: tuple[Shape, ...]


class Unplaced(msgspec.Struct, frozen=True):
    """A job whose minimum found no place, and what the search depended on besides room."""

    tasks: tuple[Task, ...]  # another object once anything of the job is another
    asked: Hashable  # the demand, and the limits of its parts
    rules: bytes  # a digest of the rules between pods that bind it; empty where none do


class UnplacedSet(msgspec.Struct, frozen=True):
    """A set of which the gangs that start together found no place, and what the search depended on besides room."""

    gangs: tuple[tuple[Task, ...], ...]  # the tasks of each: another object once anything of the gang is another
    asked: Hashable
    why: str
    at: float  # when it was looked for


class UnplacedJobs(msgspec.Struct, frozen=True):
    """The jobs that found no place in a cycle, and the room with which that is so: with less of it, too."""

    jobs: Mapping[str, Unplaced] = {}
    sets: Mapping[str, UnplacedSet] = {}
    room: Ints | None = None  # free, or soon free, when the cycle ended, (resources x rows)


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
    rules: bytes | None = None  # a digest of the rules between pods that bind it; None where no search has failed


class StandingRefusals:
    """Refusals that prove nothing and took many steps: they stand from cycle to cycle until room grows, or for a time.

    They are kept by job and action, in what one cycle hands on to the next (`Turns`). While jobs are late that were not
    looked at, refusals that took few steps stand, too: nobody has a second turn before each has had one.
    """

    def __init__(self, steps: StepAccount, room: Callable[[], Ints], snapshot: Snapshot | None) -> None:
        """`room` gives what is idle or leaving on each node, (resources x rows)."""
        self._steps = steps
        self._room = room
        self._before = snapshot.turns if snapshot is not None else Turns()
        self._nodes = snapshot.nodes if snapshot is not None else None
        self._now = snapshot.now if snapshot is not None else 0.0
        self._entries: dict[tuple[str, str], CutRefusal] = {}
        self._passing: dict[tuple[str, str], CutRefusal] = {}  # of this cycle, for as long as others are late
        self._least: Ints | None = None  # the least room since the refusals that still stand

    def begin(self) -> bool:
        """Remember the refusals of earlier cycles that still stand; whether room has not grown since the last one."""
        before = self._before
        if before.nodes is not self._nodes or before.room is None:
            return False
        room = self._room()
        if before.room.shape != room.shape or (room > before.room).any():
            return False
        self._least = before.room
        self._entries = {key: entry for key, entry in before.cut.items() if self._now < entry.at + _STANDS}
        return True

    def get(self, job: Job, action: str = "") -> Rejection | None:
        """The refusal of a job by an action, the running one if none is named, that still stands."""
        entry = self._entries.get((job.key, action or self._steps.action)) if self._entries else None
        if entry is not None and entry.concerns(job):
            return entry.refusal
        return None

    def add(self, job: Job, refusal: Rejection, action: str = "") -> None:
        """Let the refusal of a job by an action, the running one if none is named, stand until room grows."""
        if len(self._entries) < _CUT_SHORT:
            self._entries[job.key, action or self._steps.action] = CutRefusal(job.tasks, refusal, self._now)

    def add_passing(self, job: Job, refusal: Rejection, begun: int, action: str = "") -> None:
        """A job was refused after a search, that began at so many steps: once is enough until all had their turn."""
        if self._steps.taken - begun > _CHEAP and len(self._passing) < _CUT_SHORT:
            entry = CutRefusal(job.tasks, refusal, self._now, passing=True)
            self._passing[job.key, action or self._steps.action] = entry

    def judged(self, job: Job, refusal: Rejection) -> Rejection | None:
        """The words in which a job was told such a refusal, if they still stand."""
        entry = self._entries.get((job.key, _VERDICT)) if self._entries else None
        if entry is not None and entry.concerns(job) and entry.of == refusal:
            return entry.refusal
        return None

    def add_judged(self, job: Job, refusal: Rejection, judged: Rejection) -> None:
        """Let a job be told the same as long as it is refused in the same words, until room grows."""
        if len(self._entries) < _CUT_SHORT:
            self._entries[job.key, _VERDICT] = CutRefusal(job.tasks, judged, self._now, refusal)

    def hand_on(self, rejections: Mapping[str, Rejection]) -> Turns:
        """The turns that the next cycle should know of, with the refusals of the jobs that wait after this one."""
        before = self._before
        had_any = bool(before.cut or before.late)
        if not rejections and not had_any:
            return before
        turns = self._steps.turns(rejections)
        cut = {key: entry for key, entry in self._entries.items() if key[0] in rejections and not entry.passing}
        if turns.late:
            every = {**self._passing, **self._entries}
            cut = {key: entry for key, entry in every.items() if key[0] in rejections}
        if not cut and not turns.late:
            return turns if had_any else before
        room = self._room()
        if self._least is not None:
            room = np.minimum(room, self._least)
        return replace(turns, cut=cut, nodes=self._nodes, room=room)


class Refusals:
    """The book of one cycle: its pages, what is known from the last cycle, and what the next one will know."""

    def __init__(
        self,
        ledger: Ledger,
        report: ReportBuilder,
        nominated: Sized,
        *,
        snapshot: Snapshot | None = None,
        by: object | None = None,
    ) -> None:
        """`by` is the profile, where all its plugins decide by the job and by what is declared; None where one of them
        may not: then nothing is known from the last cycle, nor kept for the next one.
        """
        self._inputs: dict[Input, Callable[[], int]] = {
            Input.RELEASES: lambda: ledger.releases,
            Input.MOMENT: ledger.mark,
            Input.DECISIONS: lambda: len(report.decisions),
            Input.EVICTIONS: lambda: len(report.evictions),
            Input.NOMINATIONS: lambda: len(nominated),
        }
        box = snapshot.kept_verdicts if snapshot is not None else None
        self._box = box if box is not None and snapshot is not None and box.about(snapshot, by) else None
        kinds, jobs, unplaced = self._box.last if self._box is not None else ({}, {}, None)
        self._kinds: Mapping[object, object] = kinds
        self._last: Mapping[str, ToldJob] = jobs  # type: ignore[assignment]  # it is filled here alone
        jobs_now = snapshot.unsettled if snapshot is not None and self._last else ()
        self.gates: Mapping[str, Rejection] = {  # of jobs that a gate kept out in the last cycle, and keeps out now
            job.key: last_told.refusal
            for job in jobs_now
            if (last_told := self.last(job)) is not None and last_told.gate
        }
        self._now: dict[object, object] = {}  # kinds that were found out in this cycle
        self._passing: dict[object, object] = {}  # what is known in this cycle alone
        self._new_gates: dict[str, Rejection] = {}
        self._again = 0  # jobs that are told what they were told
        self.jobs: dict[str, ToldJob] = {}  # what the next cycle will know of jobs
        self.asked: dict[str, KindAsked] = {}  # by job, the kind as which it was refused in this cycle
        self.read: list[object] = []  # the keys of what was asked for since it was last emptied, and lasts
        self.keeps = self._box is not None
        self.standing = StandingRefusals(ledger.steps, ledger.room, snapshot)
        self._ledger = ledger
        self.before = unplaced if isinstance(unplaced, UnplacedJobs) else UnplacedJobs()  # of the last cycle
        self._unplaced: dict[str, tuple[int, Unplaced]] = {}  # of this cycle, with the count of releases of then
        self._unplaced_sets: dict[str, tuple[int, UnplacedSet]] = {}
        self._moment = snapshot.now if snapshot is not None else 0.0
        self._as_before: Page[bool] = self.page(What.AS_BEFORE)
        self.rules: Page[bytes] = self.page(What.RULES)  # digests, by the numbers of shapes

    def page(self, what: What, forgetting: Callable[[], object] | None = None) -> Page[Any]:
        """An empty page for refusals of a kind, for one action; `forgetting` is called before they are forgotten."""
        return Page([self._inputs[input_name] for input_name in INPUTS[what]], forgetting)

    # -- what jobs were told

    def last(self, job: Job) -> ToldJob | None:
        """What a job was told that is what it was; None where it is not, or nothing is known.

        What a part of a set is told depends on the other parts, which may be others now.
        """
        last_told = self._last.get(job.key) if job.member is None else None
        return last_told if last_told is not None and last_told.tasks is job.tasks else None

    def passes_gates(self, job: Job) -> bool:
        """Whether no gate kept a job out in the last cycle, and none does now."""
        last_told = self.last(job)
        return last_told is not None and (
            last_told.nowhere or last_told.asked is not None or last_told.rules is not None
        )

    def kind_asked(self, job: Job) -> KindAsked | None:
        """As which kind a job was refused in the last cycle, if it is what it was."""
        last_told = self.last(job)
        return last_told.asked if last_told is not None else None

    def nowhere(self, job: Job, *, releasing: bool) -> Rejection | None:
        """The refusal of a job that was found to fit on no empty node."""
        last_told = self.last(job)
        return (
            last_told.refusal
            if last_told is not None and last_told.nowhere and last_told.on == (False, releasing)
            else None
        )

    def refused_by_gate(self, job: Job, rejection: Rejection) -> None:
        """A gate has refused a job, and will as long as nothing of the job and of what is read is another."""
        if self.keeps:
            self._new_gates[job.key] = rejection

    def is_by_gate(self, job: Job, rejection: Rejection) -> bool:
        """Whether a refusal of this cycle is such a one."""
        return self._new_gates.get(job.key) is rejection

    def repeat(self, job: Job, told_job: ToldJob) -> Rejection:
        """Give a job the refusal of the last cycle again."""
        self._again += 1
        self.jobs[job.key] = told_job
        return told_job.told

    def repeat_gates(self, rejections: dict[str, Rejection]) -> set[str]:
        """Tell all jobs that a gate keeps out again what they were told; which these are."""
        repeated = {key: self._last[key] for key, refusal in self.gates.items() if rejections.get(key) is refusal}
        repeated = {key: told_job for key, told_job in repeated.items() if told_job.on is None}
        self._again += len(repeated)
        self.jobs.update(repeated)
        rejections.update((key, told_job.told) for key, told_job in repeated.items())
        return set(repeated)

    # -- minimums that found no place

    def was_unplaced(self, job: Job) -> bool:
        """Whether the last cycle found no place for the minimum of a job that is what it was."""
        before = self.before.jobs.get(job.key)
        return before is not None and before.tasks is job.tasks

    def is_unplaced(self, job: Job, demand_key: Hashable, rules: bytes) -> bool:
        """Whether the minimum of a job finds no place because the last cycle found none; False where that is open."""
        if not self.was_unplaced(job):
            return False
        before = self.before.jobs[job.key]
        still_holds = (before.asked, before.rules) == (demand_key, rules) and self._has_no_more_room()
        if still_holds:
            self._unplaced[job.key] = self._ledger.releases, before
        return still_holds

    def add_unplaced(self, job: Job, demand_key: Hashable, rules: bytes) -> None:
        """The minimum of a job has found no place, and it was proven that there is none."""
        if len(self._unplaced) < _UNPLACED:
            self._unplaced[job.key] = self._ledger.releases, Unplaced(job.tasks, demand_key, rules)

    def why_set_waits(self, path: str, gangs: Sequence[Job], demands_key: Hashable) -> str | None:
        """Why the gangs of a set that start together have found no place, if that stands; None where it is open."""
        before = self.before.sets.get(path)
        if before is None or before.asked != demands_key or len(before.gangs) != len(gangs):
            return None
        same_tasks = all(gang.tasks is tasks for gang, tasks in zip(gangs, before.gangs, strict=True))
        if not same_tasks or self._moment >= before.at + _STANDS or not self._has_no_more_room():
            return None
        self._unplaced_sets[path] = self._ledger.releases, before
        return before.why

    def add_set(self, path: str, gangs: Sequence[Job], demands_key: Hashable, why: str) -> None:
        """The gangs of a set that start together have found no place, in the orders in which they were tried."""
        if self.keeps and len(self._unplaced_sets) < _UNPLACED:
            unplaced_set = UnplacedSet(tuple(gang.tasks for gang in gangs), demands_key, why, self._moment)
            self._unplaced_sets[path] = self._ledger.releases, unplaced_set

    def rules_of_unplaced(self, job: Job) -> bytes | None:
        """The digest of the rules that bound a job which found no place in this cycle; None for any other job."""
        unplaced = self._unplaced.get(job.key)
        return unplaced[1].rules if unplaced is not None else None

    def _has_no_more_room(self) -> bool:
        """Whether no node has more room now than when the last cycle ended."""
        no_more_room = self._as_before.entries().get(None)
        if no_more_room is None:
            before, room_now = self.before.room, self._room()
            no_more_room = before is not None and before.shape == room_now.shape and not bool((room_now > before).any())
            self._as_before.add(None, no_more_room)
        return no_more_room

    def _room(self) -> Ints:
        idle = self._ledger.idle
        resources, rows = idle.shape
        return self._ledger.free(np.arange(resources), slice(0, rows), Pool.FUTURE_IDLE)

    def _unplaced_to_hand_on(self) -> UnplacedJobs:
        """The jobs and sets that found no place since capacity was last released: the room of now has none for them."""
        releases = self._ledger.releases
        jobs = {key: unplaced for key, (then, unplaced) in self._unplaced.items() if then == releases}
        sets = {path: unplaced for path, (then, unplaced) in self._unplaced_sets.items() if then == releases}
        return UnplacedJobs(jobs, sets, self._room()) if jobs or sets else UnplacedJobs()

    # -- what is known of kinds

    def get(self, key: object, *, lasts: bool) -> object | None:
        """What is known, if anything."""
        if not lasts:
            return self._passing.get(key)
        self.read.append(key)
        value = self._now.get(key)
        if value is None:
            value = self._kinds.get(key)
            if value is not None:
                self._now[key] = value
        return value

    def put(self, key: object, value: object, *, lasts: bool) -> None:
        """Remember a value that `lasts` over cycles, or holds for this cycle only."""
        (self._now if lasts else self._passing)[key] = value

    def hand_on(self) -> None:
        """Let the next cycle know what this one does, of as many kinds as jobs that wait have asked for.

        What is handed on is never changed from here on: other threads may read the same snapshot.
        """
        if self._box is None:
            return
        kinds = {**self._kinds, **self._now} if self._now else self._kinds
        # As long as no job that waited is gone, all that was known is of use.
        if self._again < len(self._last) or len(kinds) > 2 * len(self.jobs) + _MORE:
            keys_read = set(chain.from_iterable(told_job.read for told_job in self.jobs.values()))
            kinds = {key: value for key, value in kinds.items() if key in keys_read or key in self._now}
        self._box.last = kinds, self.jobs, self._unplaced_to_hand_on()
