"""`Cycle`, which every action receives: the snapshot, ledger, pipeline, fit counts, nominations and report of one pass.

Created by `scheduler.cycle`. `Backlog` knows which pending tasks are still to be placed, `Nominations` which resources
are reserved for nominated gangs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from itertools import islice
from typing import Protocol, TypeVar

import msgspec
import numpy as np
from msgspec.structs import replace

from tierwise.config.searches import SearchBudget
from tierwise.framework.crowds import crowded
from tierwise.framework.declined import DeclinedPlaces, Held
from tierwise.framework.extension import Ask, CycleView
from tierwise.framework.idle_room import IdleRoom
from tierwise.framework.kept import KeptOfLedger
from tierwise.framework.ledger import Ledger, Pool
from tierwise.framework.pipeline import Pipeline, PluginError
from tierwise.framework.refusals import Refusals
from tierwise.framework.report import Eviction, ReportBuilder
from tierwise.framework.steps import OutOfStepsError, StepAccount
from tierwise.model.arrays import Bools, Ints, Why
from tierwise.model.held_places import HeldPlace
from tierwise.model.job import Constraint, Job, PodSet, Reason, Shape, SubJob, Task
from tierwise.model.node import NodeTable
from tierwise.model.running import RunningTable, running_table
from tierwise.model.snapshot import Ground, Snapshot
from tierwise.model.topology import AlternateTopology, Topology

__all__ = ["Cycle", "FitCount", "FitCounts", "Nominations"]


# How many more tasks of a shape each node and each domain takes, updated incrementally.
#
# `FitCounts` keeps one `FitCount` for each shape that was asked for. A `FitCount` recomputes the rows that changed on
# the ledger, and adds the differences to the domains above them. Called by placement, eviction and diagnosis; it never
# writes to the ledger.


_CLOSED = 16
"""Sets of closed rows for which counts are kept."""

WhyNot = Callable[[Shape], Why]


class FitCount:
    """How many more tasks of one shape each row and each domain takes, on idle and on future idle resources."""

    def __init__(self, shape: Shape, why: Why, ledger: Ledger, topology: Topology) -> None:
        self.why = why  # number of the first static objection per row; 0 for none
        self.open = why == 0
        self._shape = shape
        self._ledger = ledger
        self._topology = topology
        self._idle = self._count_all(Pool.IDLE)
        self._future = self._count_all(Pool.FUTURE_IDLE) if ledger.any_releasing else None

    def _count_all(self, pool: Pool) -> tuple[Ints, Ints]:
        rows = self._measure(slice(None), pool)
        return rows, self._topology.totals(rows)

    # Future idle is counted only once something is being released.

    def rows(self, pool: Pool) -> Ints:
        """The count of each row; callers must not write to it."""
        return (self._idle if pool is Pool.IDLE or self._future is None else self._future)[0]

    def domains(self, pool: Pool) -> Ints:
        """The count of each domain: the sum over its rows."""
        return (self._idle if pool is Pool.IDLE or self._future is None else self._future)[1]

    def _measure(self, rows: Ints | slice, pool: Pool) -> Ints:
        room = self._shape.max_tasks(self._ledger.free(self._shape.asked, rows, pool))
        room[~self.open[rows]] = 0
        return room

    def follow(self, rows: Ints) -> FitCount:
        """Recompute rows that changed on the ledger."""
        if self._ledger.any_releasing and self._future is None:
            self._idle, self._future = self._count_all(Pool.IDLE), self._count_all(Pool.FUTURE_IDLE)
        else:
            self._update(rows)
        return self

    def _update(self, rows: Ints) -> None:
        for pool in (Pool.IDLE, Pool.FUTURE_IDLE) if self._future is not None else (Pool.IDLE,):
            before, domains = self.rows(pool), self.domains(pool)
            after = self._measure(rows, pool)
            change = after - before[rows]
            changed = change.nonzero()[0]
            if len(changed):
                before[rows] = after
                touched, numbers = self._topology.touched(rows[changed], change[changed])
                domains[touched] += numbers


class FitCounts:
    """The fit counts of a cycle by shape, created on first use.

    Rows may be closed to the job that is served, whatever its shapes (`close`): then they count for none of them.
    """

    def __init__(self, ledger: Ledger, topology: Topology, why_not: WhyNot) -> None:
        self._ledger, self._topology = ledger, topology
        self._everywhere = self._kept = self._counts(why_not)
        self._closed: Why | None = None  # all that is closed: what was last asked for, and what is barred
        self._barred: Why | None = None
        self._asked: Why | None = None
        self._by_rows: dict[bytes, KeptOfLedger[FitCount]] = {}

    def _counts(self, why_not: WhyNot) -> KeptOfLedger[FitCount]:
        ledger, topology = self._ledger, self._topology
        return KeptOfLedger[FitCount](
            ledger.moved,
            lambda shape: FitCount(shape, why_not(shape), ledger, topology),
            lambda _, count, rows: count.follow(rows),
        )

    def of(self, shape: Shape) -> FitCount:
        return self._kept.of(shape.number, shape)

    def why(self, shape: Shape) -> Why:
        """The static objections to a shape, for which nothing need be counted anew."""
        return (self._kept.last(shape.number) or self.of(shape)).why

    @property
    def closed(self) -> Why | None:
        """By row, the number of the reason why it is closed to the job that is served, 0 for none; None: all are open.

        Then an answer for this job is none for others of its kind.
        """
        return self._closed

    @property
    def barred(self) -> bool:
        """Whether rows are closed for a time."""
        return self._barred is not None

    def close(self, why: Why | None) -> None:
        """From now on these rows are closed, those that are barred, and no others."""
        self._asked = why
        self._close_all()

    def bar(self, why: Why | None) -> None:
        """From now on these rows stay closed whatever else is closed or opened."""
        if why is not self._barred:
            self._barred = why
            self._close_all()

    @contextmanager
    def closed_too(self, why: Why) -> Iterator[None]:
        """Inside, these rows are closed as well."""
        before = self._asked
        self.close(why if before is None else np.where(before != 0, before, why))
        try:
            yield
        finally:
            self.close(before)

    def _close_all(self) -> None:
        why, barred = self._asked, self._barred
        if why is None:
            why = barred
        elif barred is not None:
            why = np.where(why != 0, why, barred)
        if why is self._closed:
            return
        if why is not None and self._closed is not None and np.array_equal(why, self._closed):
            return
        self._closed = why
        if why is None:
            self._kept = self._everywhere
            return
        key = why.tobytes()
        if key not in self._by_rows:
            if len(self._by_rows) >= _CLOSED:
                self._by_rows.clear()
            self._by_rows[key] = self._counts_beside(why)
        self._kept = self._by_rows[key]

    def _counts_beside(self, closed: Why) -> KeptOfLedger[FitCount]:
        everywhere = self._everywhere

        def objections(shape: Shape) -> Why:
            own_objections = (everywhere.last(shape.number) or everywhere.of(shape.number, shape)).why
            all_objections: Why = np.where(own_objections != 0, own_objections, closed)
            return all_objections

        return self._counts(objections)


T = TypeVar("T")


# Which pending tasks are still to be placed; shared by all actions, so that no task is placed twice.


class Backlog:
    """How many tasks of each pod set were placed already; the next ones follow in rank order."""

    def __init__(self) -> None:
        self._dealt: dict[int, int] = {}
        self._nominated: set[int] = set()

    def left(self, pod_set: PodSet) -> int:
        return len(pod_set.tasks) - self._dealt.get(id(pod_set), 0)

    def peek(self, pod_set: PodSet, count: int) -> tuple[Task, ...]:
        """The next tasks to be placed."""
        start = self._dealt.get(id(pod_set), 0)
        return pod_set.tasks[start : start + count]

    def pop(self, pod_set: PodSet, count: int) -> tuple[Task, ...]:
        start = self._dealt.get(id(pod_set), 0)
        self._dealt[id(pod_set)] = start + count
        return pod_set.tasks[start : start + count]

    def pop_all(self, pod_sets: Iterable[PodSet]) -> None:
        """All tasks of these pod sets were placed."""
        self._dealt.update((id(pod_set), len(pod_set.tasks)) for pod_set in pod_sets)

    def some_left(self, job: Job) -> bool:
        dealt = self._dealt
        for sub in job.subs:  # loops instead of `any`: it is asked for every waiting job
            for pod_set in sub.pod_sets:
                if len(pod_set.tasks) > dealt.get(id(pod_set), 0):
                    return True
        return False

    def all_left(self, job: Job) -> bool:
        """Whether no task of a job was placed in this cycle."""
        dealt = self._dealt
        for sub in job.subs:  # loops, as above
            for pod_set in sub.pod_sets:
                if id(pod_set) in dealt:
                    return False
        return True

    @property
    def untouched(self) -> bool:
        """Whether no task was placed, and no job nominated, in this cycle."""
        return not self._dealt and not self._nominated

    def nominate(self, job: Job) -> None:
        """A job was nominated: its other tasks wait until it is bound."""
        self._nominated.add(job.number)

    def open(self, job: Job) -> bool:
        """Whether a job has tasks left that may be placed in this cycle."""
        return job.number not in self._nominated and self.some_left(job)


# Resources reserved for nominated pods: no other job is placed on them until the nomination ends.
#
# A nomination is written on the pod, so it survives a restart. At the start of a cycle the resources of every nominated
# pending task are reserved as if it were pipelined; they are released when its job is served, which may then use them.
#
# Places that are held for a job whose pods are being moved are lent to it while it is served, and reserved again after
# that as far as it has not come there: its pods come one by one, and a gang is placed when all of them are there.
#
# Both are kept in the ledger's undo log: where it is rewound, what was released in between is reserved again.


_Reserved = tuple[tuple[Shape, Ints, Ints], ...]
"""Shapes, rows and counts."""


class Nominations:
    """The reserved resources, by job."""

    def __init__(self, snapshot: Snapshot, ledger: Ledger, room: IdleRoom) -> None:
        self._ledger = ledger
        self._jobs = snapshot.jobs
        self._kept: dict[int, list[_Reserved]] = {}  # by job, the last entry counts
        self._places: list[HeldPlace] = []  # that are held, as many of each as no pod has come to
        self._held: dict[int, list[int]] = {}  # by job, which of them; jobs of one owner share them
        self._lent = [frozenset[int]()]  # jobs that are being served; the last entry counts
        self._hold(snapshot, room)
        for job in snapshot.nominated:
            for pod_set in job.every_pod_set():
                self._keep_nominated(job, pod_set, snapshot.nodes)

    def _keep_nominated(self, job: Job, pod_set: PodSet, nodes: NodeTable) -> None:
        named = [task.nominated for task in pod_set.tasks if task.nominated >= 0]
        if not named:
            return
        with (
            self._ledger.statement() as statement,
            suppress(PluginError),
        ):  # a plugin that fails here fails again when the job is served
            self._keep(job, pod_set.shape, nodes.rows[named])
            statement.keep()

    def _keep(self, job: Job, shape: Shape, rows: Ints) -> None:
        numbers = np.bincount(rows)
        distinct = np.flatnonzero(numbers)
        counts = numbers[distinct]
        self._ledger.set_aside(shape, distinct, counts)
        self._ledger.append(self._kept.setdefault(job.number, []), (*self._of(job.number), (shape, distinct, counts)))

    def _hold(self, snapshot: Snapshot, room: IdleRoom) -> None:
        """Reserve the places that are held at this time; none for successors whose account has nothing left."""
        places = [place for place in snapshot.held_places.places if snapshot.now < place.until]
        self._places = room.allowed_places(places) if places else places
        numbers = {job.key: job.number for job in snapshot.jobs} if self._places else {}
        for i, place in enumerate(self._places):
            self._ledger.reserve(place.request, place.row, place.count, place.queue)
            for key in place.jobs:
                self._held.setdefault(numbers[key], []).append(i)

    @property
    def places_after_others(self) -> list[HeldPlace]:
        """The places that are kept for pods that come after others, as many of each as none has come to."""
        return [place for place in self._places if place.after and place.count]

    def open_places(self) -> list[HeldPlace]:
        """Release what is kept for pods that come after others, inside a statement that is undone; which places."""
        lent = {i for number in self._lent[-1] for i in self._held[number]}
        opened = [place for i, place in enumerate(self._places) if place.after and place.count and i not in lent]
        for place in opened:
            self._ledger.reserve(place.request, place.row, -place.count, place.queue)
        return opened

    def _of(self, number: int) -> _Reserved:
        entries = self._kept.get(number)
        return entries[-1] if entries else ()

    def __len__(self) -> int:
        """How many jobs have reserved resources."""
        return sum(map(bool, map(self._of, self._kept)))

    def holds(self, job: Job) -> bool:
        """Whether anything is reserved for a job."""
        return bool(self._of(job.number)) or job.number in self._held

    def kept_for(self) -> list[tuple[Job, Held]]:
        """Nominated jobs that were not served, each with the places that are reserved for it."""
        return [(self._jobs[number], place) for number in self._kept if (place := self._of(number))]

    def release(self, job: Job) -> None:
        """Release a job's reserved resources, for good or, where they are held for it, while it is served."""
        self._give_back(job.number)
        if job.number in self._held and not self.lends(job):
            self._ledger.append(self._lent, self._lent[-1] | {job.number})
            for place in (self._places[i] for i in self._held[job.number]):
                self._ledger.reserve(place.request, place.row, -place.count, place.queue)

    def drop(self, job: Job) -> None:
        """Release what a job is nominated for: it has no turn in this cycle."""
        self._give_back(job.number)

    def lends(self, job: Job) -> bool:
        """Whether what is held for a job was released for the time in which it is served."""
        return job.number in self._lent[-1]

    def reserve_again(self, job: Job, placed: Mapping[int, int]) -> None:
        """A job was served: hold again what was lent to it, but for so many of its tasks by row."""
        self._ledger.append(self._lent, self._lent[-1] - {job.number})
        still_placed = dict(placed)
        for i in self._held[job.number]:
            place = self._places[i]
            come = min(place.count, still_placed.get(place.row, 0))
            still_placed[place.row] = still_placed.get(place.row, 0) - come
            self._places[i] = replace(place, count=place.count - come)
            if come < place.count:
                self._ledger.reserve(place.request, place.row, place.count - come, place.queue)

    def withdraw_below(self, job: Job) -> bool:
        """Release the reservations of all less important jobs; whether there are any."""
        below = [number for number in self._kept if self._of(number) and self._jobs[number].priority < job.priority]
        for number in below:
            self._give_back(number)
        return bool(below)

    def _give_back(self, number: int) -> None:
        place = self._of(number)
        if place:
            self._ledger.append(self._kept[number], ())
        for shape, rows, counts in place:
            self._ledger.set_aside(shape, rows, -counts)


class KeptRoom(Protocol):
    """Room that is kept free for some jobs, and from others."""

    def kept_for(self) -> Iterable[tuple[Job, Held]]:
        """The jobs for which places are kept now, each with its places."""

    def serve(self, job: Job | None) -> None:
        """From now on it is open to a job as far as that may have it; None for whoever may not."""


class ClosedTimes(Protocol):
    """Nodes that are closed for a time, to jobs that would run into it."""

    def serve(self, job: Job | None, at: float | None = None) -> None:
        """From now on the rows are closed that a job may not use if it starts now, or at a time; None: none."""

    def serving(self, job: Job, at: float | None = None) -> AbstractContextManager[None]:
        """Close rows for a job inside the context, as `serve` does; after it the rows are as they were before."""

    def concerns(self, job: Job) -> bool:
        """Whether some rows are closed to a job that starts now."""

    def closing(self, job: Job) -> Sequence[str]:
        """The names of those that close rows to a job that starts now, and when they are."""

    def opens(self, job: Job) -> float:
        """When the first of the rows that are closed to a job open again; infinite where none is."""

    def empties(self) -> float:
        """When the next window begins that evicts who is left; infinite where none does."""

    def ends(self, job: Job) -> Sequence[float]:
        """When rows open that are closed to a job at some time, as far as one looks ahead."""

    def changes(self, job: Job, time: float) -> float:
        """The first moment from a time on at which other rows are closed to a job; infinite for never."""


class RowsInTurn(Protocol):
    """Nodes that a job would rather have, or rather not have, than others; it gets others before it waits."""

    def concerns(self, job: Job) -> bool:
        """Whether a job has such a wish."""

    def in_turn(self, cycle: Cycle, job: Job, search: Callable[[], T], is_place: Callable[[T], bool]) -> T:
        """Search where it would rather be, and elsewhere where that finds nothing."""


class ReservedRoom(Protocol):
    """Places that waiting jobs have reserved for later."""

    def left_alone(self, job: Job) -> AbstractContextManager[None]:
        """Placements inside leave free what others have reserved, as far as the job has to respect that."""


class BetweenGangs(Protocol):
    """What gangs ask of the other parts of their sets."""

    def serve(self, job: Job | None) -> None:
        """From now on the rows are closed that a job may not use as the other parts of its sets stand; None: none."""

    def serving(self, job: Job) -> AbstractContextManager[None]:
        """Close rows for a job inside the context, as `serve` does; after it the rows are as they were before."""

    def refusal(self, job: Job) -> Reason | None:
        """Why a job must not be tried, whatever room there is."""

    def too_few_domains(self, gangs: Sequence[Job]) -> Reason | None:
        """Why gangs that start together never can."""

    def joint(self, job: Job) -> list[Job]:
        """The gangs that start together with a job, itself among them; none where it starts by itself."""

    def standing_there(self, job: Job, rows: Sequence[Ints]) -> AbstractContextManager[None]:
        """Inside, a gang stands on these rows for the others of its sets."""

    def standing_for(self, gangs: Sequence[Job]) -> Hashable:
        """Where parts stand of the sets that rules of some gangs are about: the same for the same answer."""

    def concerns(self, job: Job) -> bool:
        """Whether where a job stands depends on other gangs, by rules or by wishes."""

    def parts_in(self, job: Job, domains: Ints) -> Ints | None:
        """In how many ways each of these domains misses what the job would like of its sets; None: it likes nothing."""


class Stopwatch(Protocol):
    """Takes times from outside: a cycle knows no clock, and decides the same whoever looks on."""

    def action(self, name: str) -> AbstractContextManager[None]:
        """An action runs inside."""

    def job(self, job: Job) -> AbstractContextManager[None]:
        """A job is served inside."""


class Cycle(msgspec.Struct, frozen=True):
    """One pass over one snapshot."""

    snapshot: Snapshot
    view: CycleView
    ledger: Ledger
    pipeline: Pipeline
    fit_counts: FitCounts
    nominations: Nominations
    report: ReportBuilder
    declined: DeclinedPlaces
    idle_room: IdleRoom
    refusals: Refusals
    backlog: Backlog = msgspec.field(default_factory=Backlog)
    inspect: Callable[[Cycle, Job], None] | None = None  # called for each job before it is served; set by `explain`
    spares: KeptRoom | None = None
    sets: BetweenGangs | None = None  # None where no gang of the snapshot is in a set, and no pod has terms about pods
    windows: ClosedTimes | None = None  # None where no node is ever closed
    known: RowsInTurn | None = None  # None where no failed start is remembered
    own_places: RowsInTurn | None = None  # None where no job comes after another
    reserved: list[ReservedRoom] = []  # by an action that is over; empty where nothing is reserved
    most_pods: int | None = None  # after so many placed pods no further job is served; None: all are
    stopwatch: Stopwatch | None = None
    volumes_for: dict[str, str] = {}  # by claim without a volume: the node that one is made for
    _running: list[RunningTable] = []
    _crowded: list[Mapping[str, Reason]] = []

    @property
    def crowded(self) -> Mapping[str, Reason]:
        """By key of a job: why it is not looked at, as too many pods of its namespace wait before it."""
        if not self._crowded:
            self._crowded.append(crowded(self.snapshot.waiting, self.pipeline.max_waiting_pods))
        return self._crowded[0]

    @property
    def running(self) -> RunningTable:
        """The running tasks at the start of the cycle; built once, for the first action that evicts."""
        if not self._running:
            self._running.append(running_table(self.snapshot))
        return self._running[0]

    @property
    def budget(self) -> SearchBudget:
        """How far searches go."""
        return self.view.budget

    @property
    def steps(self) -> StepAccount:
        """The account that every search of the cycle charges."""
        return self.ledger.steps

    @property
    def nodes(self) -> NodeTable:
        return self.snapshot.nodes

    @property
    def topology(self) -> Topology:
        return self.snapshot.topology

    def current_domain(self, gang: Job | SubJob) -> int | None:
        """The innermost domain around all placed tasks of a gang; None if none is placed."""
        span = self.ledger.placed_span(gang)
        return self.topology.meet_span(*span) if span is not None else None

    def previous_domain(self, sub: SubJob) -> int | None:
        """The domain that a sub-job last ran in; None if it runs now, or if that domain no longer exists."""
        if not sub.previous_domain or self.ledger.placed_rows(sub) is not None:
            return None
        return self.topology.index.get(sub.previous_domain)

    def over_quota(self, job: Job, amounts: Ints, *, placed: bool = False, leaving: bool = False) -> Reason | None:
        """Why a job's queue may not use these amounts; None if it may.

        Where they are `placed`, they are charged already. With `leaving` they are used at once, while terminating tasks
        of the queue still hold their share.
        """
        if not self.pipeline.quota_exceeded or (placed and leaving and not self.ledger.queue_leaving.any()):
            return None  # what is placed was asked about before
        with self.ledger.statement():
            if placed:
                self.ledger.charge(job, -amounts)
            if leaving:
                self.ledger.count_leaving()
            return self.pipeline.quota_exceeded(job, amounts)

    def first(self, candidates: Iterator[T], max_candidates: int) -> Iterator[T]:
        """At most `max_candidates` of some candidates; where there are more, the search is noted as cut short."""
        yield from islice(candidates, max_candidates)
        if next(candidates, None) is not None:
            self.report.search_counts.cut += 1

    def alternate_topology(self, job: Job) -> AlternateTopology | None:
        """The tree that a job's constraint refers to, if it is not the one that rows follow."""
        return self.snapshot.alternate_topology(job.constraint)

    def tree_of(self, constraint: Constraint | None) -> AlternateTopology:
        """The tree that a constraint is about, with the rows of the cluster in its order."""
        alternate = self.snapshot.alternate_topology(constraint)
        return alternate if alternate is not None else AlternateTopology(self.topology, np.arange(len(self.nodes)))

    def gathered(self, job: Job) -> bool:
        """Whether a job is gathered: because it asks for it, or because its only constraint is on another tree."""
        return self.snapshot.ground(job) is Ground.GATHERED

    def beside_gradients(self, job: Job) -> bool:
        """Whether a job finds its place otherwise than by gradients: it is gathered, or on several trees."""
        return self.snapshot.ground(job) is not Ground.ROWS

    @contextmanager
    def serving(self, job: Job, at: float | None = None) -> Iterator[None]:
        """Inside, searches are for a job that starts now, or at a time: windows and the rules of its sets hold."""
        with (
            self.windows.serving(job, at) if self.windows is not None else nullcontext(),
            self.sets.serving(job) if self.sets is not None else nullcontext(),
        ):
            yield

    def is_closed_to(self, job: Job) -> bool:
        """Whether some rows are closed to a job, or to be left out first, because of who it is."""
        if self.windows is not None and self.windows.concerns(job):
            return True
        if self.sets is not None and self.sets.concerns(job):
            return True
        return self.rows_in_turn(job) is not None

    def rows_in_turn(self, job: Job) -> RowsInTurn | None:
        """By whose wishes a job is searched for in several turns; None for one search."""
        if self.known is not None and self.known.concerns(job):
            return self.known
        return self.own_places if self.own_places is not None and self.own_places.concerns(job) else None

    def open_to(self, job: Job | None) -> None:
        """From now on what is kept from some jobs, or closed to them, is open to a job as far as it may have it."""
        self.declined.serve(job, self.report.rejections)
        if self.spares is not None:
            self.spares.serve(job)
        if self.windows is not None:
            self.windows.serve(job)

    def attempt(self, job: Job, serve: Callable[[Job], T]) -> T | Reason:
        """Serve a job. If a plugin fails, undo what was not decided yet and return the reason.

        Every action serves a job through this, so whatever is kept from some jobs is opened and closed here.
        """
        self.open_to(job)
        with self._kept_from(job):
            mark = self.ledger.mark()
            decided, evicted = len(self.report.decisions), len(self.report.evictions)
            self.report.search_counts.cut_before = self.report.search_counts.cut
            try:
                with self.steps.searching(job):
                    return serve(job)
            except (PluginError, OutOfStepsError) as failure:
                if len(self.report.decisions) == decided:
                    self.ledger.rewind(mark)
                    del self.report.evictions[evicted:]
                return failure.reason if isinstance(failure, PluginError) else self.steps.out_of_steps(job)
            finally:
                if self.nominations.lends(job):
                    self.nominations.reserve_again(job, self._placed_since(job, decided))

    def _kept_from(self, job: Job) -> AbstractContextManager[object]:
        """Inside, what is kept from a job, as by rules of its sets and reservations, is closed; and time is taken."""
        if self.stopwatch is None and not self.reserved and self.sets is None:
            return nullcontext()
        contexts = ExitStack()
        if self.sets is not None:
            contexts.enter_context(self.sets.serving(job))
        if self.stopwatch is not None:
            contexts.enter_context(self.stopwatch.job(job))
        for room in self.reserved:
            contexts.enter_context(room.left_alone(job))
        return contexts

    def show(self, job: Job, *, replaces: bool = False) -> None:
        """Let `inspect` look at a job that is about to be served, with room that is reserved for it counted as free.

        One that `replaces` nominated jobs sees the room of the less important ones, too, as it will when it is placed.
        """
        if self.inspect is None:
            return
        with self.ledger.statement(), self.steps.uncounted():
            self.nominations.release(job)
            if replaces:
                self.nominations.withdraw_below(job)
            self.inspect(self, job)

    def _placed_since(self, job: Job, decided: int) -> Counter[int]:
        """By row, the tasks of a job that were placed by decisions from a number on."""
        decisions = (decision for decision in self.report.decisions[decided:] if decision.job is job)
        return Counter(row for decision in decisions for placed in decision.placed for row in placed.rows.tolist())

    def evict(self, evictions: Iterable[Eviction]) -> None:
        """Carry out evictions that are on the ledger, once whoever they are for has its place there.

        From here on rules between pods see the victims again, whatever runs next: they are there until they are gone.
        """
        self.report.evictions += evictions
        self.ledger.linger()

    def evict_running(
        self,
        victims: Ints,
        by: Job | None,
        action: str,
        why: str | Callable[[Job], str],
        *,
        past_budgets: bool = False,
    ) -> None:
        """Report evictions of running tasks, given by position; `why` may differ by the job of each.

        With `past_budgets` those are evicted all the same that the Eviction API would refuse: tasks under a budget
        that allows no more, and tasks under two budgets.
        """
        text_for = why if callable(why) else lambda _: why
        owners = [self.snapshot.jobs[number] for number in self.running.job[victims].tolist()]
        tasks = [self.running.tasks[victim] for victim in victims.tolist()]
        past = [past_budgets and self._refused_by_budgets(task) for task in tasks]
        self.evict(
            Eviction(task, job, by, action, text_for(job), beyond)
            for task, job, beyond in zip(tasks, owners, past, strict=True)
        )

    def _refused_by_budgets(self, task: Task) -> bool:
        """Whether the Eviction API would refuse to evict a task that the ledger counts as evicted already."""
        return len(task.budgets) > 1 or any(self.ledger.disruptions_left(budget) < 0 for budget in task.budgets)

    def fits(self, ask: Ask, span: slice, pool: Pool) -> Bools:
        """Which rows of a span take one more task, according to every filter."""
        fits = self.fit_counts.of(ask.shape).rows(pool)[span] > 0
        self.steps.charge(1)
        if self.pipeline.moving(ask.shape):
            self.steps.charge(3 + (span.stop - span.start) // 512)
            fits &= self.allowed(ask.shape, span, pool)
        return fits

    def allowed(self, shape: Shape, span: slice, pool: Pool) -> Bools:
        """Which rows of a span the filters that move allow to one more task.

        Where it would start now they are asked twice, as Kubernetes does: no pod counts on pods that are nominated.
        """
        allowed: Bools = self.pipeline.why_not_now(shape, span) == 0
        if pool is Pool.IDLE and self.ledger.expects and allowed.any():
            with self.ledger.as_it_is():
                allowed &= self.pipeline.why_not_now(shape, span) == 0
        return allowed

    def shortage(self, resource: str, requested: int, free: int) -> str:
        """The resource that a node lacks, with the amounts requested and free."""
        from tierwise.api.quantity import show  # exact fractions are slow to import, and few cycles explain anything

        return f"short of {resource}: asks {show(resource, requested)}, {show(resource, max(free, 0))} free"
