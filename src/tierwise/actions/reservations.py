"""Reservations: a job that finds no place is given one in the future, and jobs behind it must leave it that.

Running jobs end as `model.expected_ends` says, so what is free is a function of time. A reservation is the first moment
at which the job's own search finds a place, with everything that has ended by then gone, and the domain of that place.
A job that is served later starts only if every reservation holds all the same: because it has ended by then, or because
the reserved domain still holds the other job with it there.

Called by `allocate`, job by job in the order in which it serves them. All trials are made on the ledger and rewound.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property, partial
from math import inf

import msgspec
import numpy as np
from msgspec.structs import replace

from tierwise.actions.placement.bounds import Room, may_hold_all
from tierwise.actions.placement.demand import Demand, demand, needs
from tierwise.actions.placement.problem import SearchResult, deferral, held_by, rows_of
from tierwise.actions.placement.solve import search_minimum
from tierwise.actions.placement.trial import close_others
from tierwise.api.core import format_time
from tierwise.api.plurals import count
from tierwise.config.reservations import CONSERVATIVE, OFF, ReservationRules
from tierwise.framework.cycle import Cycle
from tierwise.framework.declined import Held
from tierwise.framework.extension import Delay
from tierwise.framework.ledger import Pool, job_ready
from tierwise.framework.report import Reservation
from tierwise.model.arrays import Ints, distinct
from tierwise.model.expected_ends import EndSource, ExpectedEnd, ExpectedEnds, started_at
from tierwise.model.job import ANYBODY, Job, Named, Reason, Rejection, Shape, Status, Task, namespace_of
from tierwise.model.topology import ROOT, ROOT_NAME

__all__ = ["Reservations"]

_Moment = tuple[int, float]
"""A number of groups that have ended, and when."""

_WITHOUT_MOMENT = 16
"""Jobs for which a place without a moment is looked for; it holds no job back, and finding it takes time."""
_SLACK = 60.0
"""Seconds by which a reservation may become later without a word: pods start some time after they are bound."""


class _Run(msgspec.Struct, frozen=True, dict=True):
    """A job that runs: when it ends, and what it holds until then."""

    job: Job | None  # None for a pod of no job, and for a job that the snapshot counts as standing
    queue: str | None  # None for a pod of no job
    key: str
    end: ExpectedEnd
    since: float
    tasks: Sequence[tuple[Shape, int]]  # with the row of each

    @property
    def planned(self) -> float:
        """When it ends; infinite where that is not known, or where it should have ended long ago."""
        return inf if self.end.broken else self.end.planned

    @cached_property
    def uses(self) -> Ints:
        """The amounts that it holds in all, by resource."""
        amounts: Ints = np.sum([shape.request for shape, _ in self.tasks], axis=0)
        return amounts


class _Timeline:
    """Who ends when: groups of runs that end together, numbered from 1 on; unknown ends come last, one by one."""

    def __init__(self, runs: Sequence[_Run], size: tuple[int, int] = (0, 0)) -> None:
        """`size` is that of the amounts on the ledger, (resources x rows)."""
        self._gone, self._freed = 0, np.zeros(size, dtype=np.int64)
        self.runs = sorted(runs, key=lambda run: (run.planned, run.since, run.key))
        self.times = [-inf]  # by group; the first one is for now
        self.group: list[int] = []  # of each run
        for run in self.runs:
            if run.planned == inf or run.planned != self.times[-1]:
                self.times.append(run.planned)
            self.group.append(len(self.times) - 1)

    @property
    def last(self) -> int:
        return len(self.times) - 1

    def at(self, time: float, unknown: int = 0) -> int:
        """The last group that has ended at a time; of an infinite one, so many of the unknown ends have come."""
        return bisect_right(self.times, time) - 1 if time < inf else bisect_left(self.times, inf) - 1 + unknown

    def freed(self, group: int) -> Ints:
        """What everybody holds who has ended with a group, (resources x rows); it holds until the next question."""
        before, upto = np.searchsorted(self.columns[1], (self._gone, group), side="right").tolist()
        changed, add = (slice(before, upto), np.add) if before < upto else (slice(upto, before), np.subtract)
        add.at(self._freed.T, self.columns[0][changed], self._requests[changed])
        self._gone = group
        return self._freed

    @cached_property
    def columns(self) -> tuple[Ints, Ints, Ints]:
        """Row, group and number of the run of each task, in the order of groups."""
        entries = [(row, self.group[i], i) for i, run in enumerate(self.runs) for _, row in run.tasks]
        row, group, run = np.array(entries, dtype=np.int64).reshape(-1, 3).T.copy()
        return row, group, run

    @cached_property
    def _shapes(self) -> list[Shape]:
        """Shape of every task of the runs, in the order of the runs and of the tasks in them."""
        return [shape for run in self.runs for shape, _ in run.tasks]

    @cached_property
    def _requests(self) -> Ints:
        """Request of each task, (tasks x resources)."""
        return np.array([shape.request for shape in self._shapes], dtype=np.int64).reshape(-1, len(self._freed))

    @cached_property
    def by_shape(self) -> list[tuple[Shape, Ints, Ints, Ints]]:
        """The columns by shape."""
        number = np.array([shape.number for shape in self._shapes], dtype=np.int64)
        row, group, run = self.columns
        columns_by_shape = []
        for shape_number in distinct(number).tolist():
            columns = np.flatnonzero(number == shape_number)
            columns_by_shape.append((self._shapes[columns[0]], row[columns], group[columns], run[columns]))
        return columns_by_shape


def _is_on_node(task: Task) -> bool:
    """Whether a task runs on a node of the snapshot."""
    return task.status is Status.RUNNING and task.node >= 0


def _runs(cycle: Cycle, ends: ExpectedEnds) -> Iterator[_Run]:
    """Jobs that run, and single pods that say how long they do: others, such as those of services, stay."""
    leaving = {eviction.task.key for eviction in cycle.report.evictions}
    rows = cycle.nodes.rows.tolist()
    snapshot = cycle.snapshot
    for job, job_or_none in (*((job, job) for job in snapshot.jobs), *((job, None) for job in snapshot.standing_jobs)):
        tasks = [(task.shape, rows[task.node]) for task in job.tasks if _is_on_node(task) and task.key not in leaving]
        if tasks:
            yield _Run(job_or_none, job.queue, job.key, ends.of(job), started_at(job) or 0.0, tasks)
    for task in snapshot.others:
        if _is_on_node(task) and (task.expected or task.active_deadline):
            yield _Run(None, None, f"pod {task.key}", ends.of_task(task), task.started, [(task.shape, rows[task.node])])


class _Place(msgspec.Struct, frozen=True):
    """Where a job fits after a group of ends."""

    group: int
    time: float
    held: Held


class Reservations:
    """The reservations of one cycle."""

    def __init__(self, cycle: Cycle, rules: ReservationRules) -> None:
        self._cycle, self._rules = cycle, rules
        self._now = cycle.snapshot.now
        self._held: list[Reservation] = []
        self._asked: dict[int, tuple[Demand, int]] = {}  # by job: what its is for, and how many unknown ends it awaits
        self._queue: dict[int, str] = {}  # by job with one: the queue with which it was served
        self._running: list[_Run] = []  # what runs, and what this cycle has started
        self._seen = -1  # decisions that are among them; -1 before the first look
        self._own_words: set[str] = set()  # namespaces of runs whose end is another one for jobs of other namespaces
        self._timelines: dict[str, _Timeline] = {}  # by such a namespace, and the one for all others by ANYBODY

    def __bool__(self) -> bool:
        """Whether a job is held back for one."""
        return any(reservation.holds for reservation in self._held)

    @cached_property
    def _ends(self) -> ExpectedEnds:
        return ExpectedEnds(self._cycle.snapshot)

    def _timeline(self, job: Job) -> _Timeline:
        """Who ends when, by now, as far as a job may plan with it."""
        decisions = self._cycle.report.decisions
        if self._seen != len(decisions):
            if self._seen < 0:
                self._running, self._seen = list(_runs(self._cycle, self._ends)), 0
            for decision in decisions[self._seen :]:
                if decision.bound:
                    tasks = [
                        (task.shape, row)
                        for part in decision.placed
                        for task, row in zip(part.tasks, part.rows.tolist(), strict=True)
                    ]
                    job = decision.job
                    self._running.append(_Run(job, job.queue, job.key, self._end(job), self._now, tasks))
            self._seen = len(decisions)
            self._timelines.clear()
            self._own_words = {namespace_of(run.key) for run in self._running if self._seen_by(run, ANYBODY) is not run}
        namespace = namespace_of(job.key)
        by = namespace if namespace in self._own_words else ANYBODY
        if by not in self._timelines:
            runs = [self._seen_by(run, by) for run in self._running] if self._own_words else self._running
            self._timelines[by] = _Timeline(runs, self._cycle.ledger.idle.shape)
        return self._timelines[by]

    def _seen_by(self, run: _Run, namespace: str) -> _Run:
        """A run with the end that jobs of a namespace may plan with."""
        end = self._ends.seen_by(run.end, run.since, namespace_of(run.key), namespace)
        return run if end is run.end else replace(run, end=end)

    # -- who gets one

    def consider(self, job: Job, queue: str, next_look: float = inf) -> None:
        """Give a job of a queue that found no place a reservation, if it is entitled to one.

        `next_look` is when a job that has declined a place looks at it anew.
        """
        if not self._entitled(job, queue):
            return
        job_demand = demand(self._cycle, job)
        if not job_demand.enough or not job_demand.task_groups:
            return
        place = self._earliest(job, job_demand, next_look)
        if place is None:
            return
        timeline = self._timeline(job)
        self._asked[job.number] = job_demand, place.group - timeline.at(inf) if place.time == inf else 0
        self._held.append(self._reservation(job, job_demand, place))
        self._queue[job.number] = queue

    def _entitled(self, job: Job, queue: str) -> bool:
        """Whether there is one more to give: those that do not bind the job use up nothing but the work to find them.

        So who rests on the bare word of its own namespace takes the turn of no other namespace.
        """
        rules = self._rules
        if rules.mode == OFF or job.minimum < rules.pods or job.number in self._asked:
            return False
        binding = [reservation for reservation in self._held if reservation.binds(namespace_of(job.key))]
        if len(self._held) - len(binding) >= _WITHOUT_MOMENT:
            return False
        if rules.mode == CONSERVATIVE:
            return len(binding) < rules.depth
        return all(self._queue[reservation.job.number] != queue for reservation in binding)

    def _reservation(self, job: Job, demand: Demand, place: _Place) -> Reservation:
        """Where it was before, if it fits there as early."""
        earlier = job.reserved
        if earlier is not None:
            domain = self._rows_of(job, earlier.domain)
            is_there = domain is None or all(np.isin(rows, domain).all() for _, rows, _ in place.held)
            place_there = None if is_there else self._trial(job, demand, place.group, place.time, within=domain)
            place = replace(place, held=place_there) if isinstance(place_there, tuple) else place
        name, rows = self._domain(job, place.held)
        end = self._end_from(job, place.time)
        runs_there = self._runs_there(job, place)
        runs_of_quota = self._runs_of_quota(job, demand, place, runs_there)
        awaits = sorted((*runs_there, *runs_of_quota), key=lambda run: (run.planned, run.since, run.key), reverse=True)
        lapses = self._lapses(job, place.time, awaits)
        before = self._reservations_before(job, place)
        bare = place.time < inf and self._rests_on_bare_words(job, awaits, before)
        spent = lapses > self._now and not bare and not self._cycle.idle_room.allows(job, place.held)
        holds = lapses > self._now and not spent
        text, names = self._text(job, name, place.time, awaits, holds=holds, bare=bare)
        return Reservation(
            job,
            name,
            rows,
            place.held,
            place.time,
            end,
            awaits=tuple(run.key for run in awaits),
            quotas=(job.queue,) if runs_of_quota else (),
            after=tuple(reservation.job.key for reservation in before),
            text=text,
            holds=holds,
            lapses=lapses,
            bare=bare,
            names=names,
            refused=self._cycle.idle_room.refusal(job) if spent else None,
        )

    def _lapses(self, job: Job, time: float, awaits: Sequence[_Run]) -> float:
        """Until when others are held back for a place from a time on, if nothing ends; minus infinity for nobody.

        They are where that time is known and near, until plans give up on the first of the runs that it awaits; or, if
        its job has waited long, in the hour that its namespace and its queue have for that.
        """
        rules = self._rules
        if time <= self._now + rules.window:
            return min((run.end.lapses for run in awaits), default=inf)
        if job.created + rules.aging > self._now:
            return -inf
        return self._cycle.idle_room.hour(job, rules.aging, rules.aging_limit, rules.aging_pause)

    def _rests_on_bare_words(self, job: Job, awaits: Sequence[_Run], before: Sequence[Reservation]) -> bool:
        """Whether a moment is known by words of the job's own namespace alone, with nothing behind them.

        It then holds back nobody of another namespace: else a pod that states days would keep a cluster idle.
        """
        own_namespace = namespace_of(job.key)
        ends = [run.end for run in awaits if namespace_of(run.key) == own_namespace]
        ends += [
            self._ends.if_started(reservation.job, reservation.start)
            for reservation in before
            if namespace_of(reservation.job.key) == own_namespace
        ]
        bare = any(self._ends.relied_on(end, own_namespace, ANYBODY) == inf for end in ends)
        return bare or any(reservation.bare for reservation in before)

    def _charge(self, reservation: Reservation, sign: int) -> None:
        """Charge what is reserved to the queue of its job."""
        for shape, _, counts in reservation.held if reservation.holds else ():
            self._cycle.ledger.charge_kept(reservation.job, sign * shape.request * int(counts.sum()))

    # -- the first moment at which it fits

    def _earliest(self, job: Job, demand: Demand, next_look: float) -> _Place | None:
        """The first moment at which a job fits beside the reservations that are there, and where.

        A place is none that the job would decline for a closer one: next is when that comes, and the job looks anew at
        the latest. Where there is none at all, moments are passed over until there is one without reservations.
        """
        looks, i, passed = [next_look], 0, False
        moments = self._moments(job, looks)
        alone = partial(self._trial, job, demand, beside=())
        for _ in range(self._cycle.budget.moments):
            i = self._next(job, demand, moments, i)
            if i == len(moments):
                break
            group, time = moments[i]
            outcome = self._trial(job, demand, group, time)
            if isinstance(outcome, tuple):
                return _Place(group, time, outcome)
            if outcome is not None:
                looks.append(outcome.until)
                moments = self._moments(job, looks)
                upto = bisect_left(moments, outcome.until, lo=i + 1, key=lambda moment: moment[1])
                start = upto if outcome.firm else i + 1
                i = bisect_left(moments, True, start, upto, key=lambda moment: isinstance(alone(*moment), tuple))
            elif passed or alone(group, time) is not None:
                i += 1
            else:
                passed, i = True, bisect_left(moments, True, lo=i + 1, key=lambda moment: alone(*moment) is not None)
        return None

    def _moments(self, job: Job, looks: Sequence[float]) -> list[_Moment]:
        """When a job may find a place, in order: after groups of ends, after reservations, and as it looks anew."""
        timeline = self._timeline(job)
        windows = self._cycle.windows
        opening = windows.ends(job) if windows is not None else ()
        times = (*looks, *(self._end_of(reservation, job) for reservation in self._held), *opening)
        moments = {*enumerate(timeline.times), *((timeline.at(time), time) for time in times if self._now < time < inf)}
        return sorted(moments)[1:]  # the first one is now

    def _next(self, job: Job, demand: Demand, moments: Sequence[_Moment], i: int) -> int:
        """The first of some moments from the i-th on at which a job may fit by counting.

        As long as it would run beside the same reservations, what fits still fits with more gone.
        """
        while i < len(moments):
            time, j = max(moments[i][1], self._now), len(moments)
            if time < inf:
                run = self._end_from(job, time) - time
                changes = [
                    t
                    for reservation in self._held
                    for t in (self._end_of(reservation, job), reservation.start - run)
                    if t >= time
                ]
                if self._cycle.windows is not None:
                    changes.append(self._cycle.windows.changes(job, time))
                j = bisect_left(moments, min(changes, default=inf), lo=i + 1, key=lambda moment: moment[1])
            fits = partial(self._may_fit, job, demand, beside=self._overlapping(job, time))
            if fits(moments[j - 1]):
                return bisect_left(moments, True, i, j - 1, key=lambda moment: fits(moment))
            i = j
        return i

    def _trial(
        self,
        job: Job,
        demand: Demand,
        group: int,
        time: float,
        *,
        within: Ints | None = None,
        beside: Sequence[Reservation] | None = None,
    ) -> Held | Delay | None:
        """Where the search places a job once a group has ended, without what others have reserved meanwhile.

        A delay where that is a place which it would decline for a closer one.
        """
        cycle = self._cycle
        beside = self._overlapping(job, time) if beside is None else beside
        if not self._may_fit(job, demand, (group, time), beside, within):
            return None
        with cycle.ledger.statement(), cycle.serving(job, time):
            cycle.declined.open_for(job, time)
            self._let_end(job, group)
            cycle.ledger.go_ahead(time)
            if cycle.pipeline.quota_exceeded and cycle.over_quota(job, needs(demand)) is not None:
                return None
            self._set_aside(beside, 1)
            if within is not None:
                close_others(cycle, within)
            placement = search_minimum(cycle, job, demand)
            if not isinstance(placement, SearchResult) or not job_ready(cycle.ledger, job, waiting=True):
                return None
            delay = deferral(cycle, job, placement.placements)
            return delay if delay is not None and delay.until > time else held_by(placement.placements)

    def _may_fit(
        self,
        job: Job,
        demand: Demand,
        moment: _Moment,
        beside: Sequence[Reservation],
        within: Ints | None = None,
    ) -> bool:
        """Whether counting what is free leaves open that a trial finds a place: it costs a fraction of one."""
        if demand.alternatives is not None:
            return True
        group, time = moment
        ledger = self._cycle.ledger
        with ledger.statement():
            self._cycle.declined.open_for(job, time)
            free = ledger.idle + ledger.releasing - ledger.pipelined + self._timeline(job).freed(group)
        for reservation in beside:
            for shape, rows, counts in reservation.held:
                free[:, rows] -= shape.request[:, None] * counts
        if within is not None:
            inside = free[:, within]
            free[:] = 0
            free[:, within] = inside
        with self._cycle.serving(job, time):
            return bool(may_hold_all(Room(self._cycle, Pool.FUTURE_IDLE, free=free), demand, np.array([ROOT]))[0])

    def _let_end(self, job: Job, group: int) -> None:
        """Count everybody else as gone who ends in a group or before, from nodes and from their queues."""
        timeline, ledger = self._timeline(job), self._cycle.ledger
        own_runs = [i for i, run in enumerate(timeline.runs) if run.job is job]
        for shape, row, groups, run in timeline.by_shape:
            upto = int(np.searchsorted(groups, group, side="right"))
            counts = np.bincount(row[:upto][~np.isin(run[:upto], own_runs)] if own_runs else row[:upto])
            rows = np.flatnonzero(counts)
            if len(rows):
                ledger.let_end(shape, rows, counts[rows])
        if self._cycle.pipeline.quota_exceeded:
            for run_to_end in timeline.runs[: bisect_right(timeline.group, group)]:
                if run_to_end.job is not job:
                    self._leave_quota(run_to_end)

    def _leave_quota(self, run: _Run) -> None:
        """Take what a run uses off its queue."""
        if run.job is not None:
            self._cycle.ledger.charge(run.job, -run.uses)
        elif run.queue is not None:
            self._cycle.ledger.charge_queue(run.queue, -run.uses)

    def _overlapping(self, job: Job, time: float) -> list[Reservation]:
        """The reservations of others that are still running, or start, while a job runs that starts at a time."""
        start, end = max(time, self._now), self._end_from(job, time)
        of_other_jobs = (
            reservation for reservation in self._held if reservation.job is not job and _holds_back(reservation, job)
        )
        return [
            reservation
            for reservation in of_other_jobs
            if self._end_of(reservation, job) > start and not _ends_before(end, reservation)
        ]

    def _end_of(self, reservation: Reservation, job: Job) -> float:
        """When the owner of a reservation will have ended, as far as another job may plan with it."""
        of, by = namespace_of(reservation.job.key), namespace_of(job.key)
        if of == by or reservation.end == inf:
            return reservation.end
        end = self._ends.if_started(reservation.job, max(reservation.start, self._now))
        return self._ends.relied_on(end, of, by)

    def _end_from(self, job: Job, time: float) -> float:
        """When a waiting job ends that starts at a time, or now where that is over: what is overdue has not ended."""
        return self._ends.if_started(job, max(time, self._now)).planned if time < inf else inf

    # -- who may start beside them

    def objection(self, job: Job, placement: SearchResult) -> Reason | None:
        """Why a job must not start where it was placed on the ledger: a reservation would not hold; None if it may.

        A reservation that holds with another arrangement inside its domain has that one from then on.
        """
        rows = rows_of(placement.placements)
        moved: list[tuple[int, Reservation]] = []
        for i, reservation in enumerate(self._held):
            if self._leaves(job, reservation) or not any(
                np.isin(rows, reserved_rows).any() for _, reserved_rows, _ in reservation.held
            ):
                continue
            owner_demand, unknown = self._asked[reservation.job.number]
            group = self._timeline(reservation.job).at(reservation.start, unknown)
            new_place = self._trial(reservation.job, owner_demand, group, reservation.start, within=reservation.rows)
            if not isinstance(new_place, tuple):
                return self._delays(job, reservation)
            moved.append((i, replace(reservation, held=new_place)))
        for i, reservation in moved:
            self._held[i] = reservation
        return None

    def blocking(self, job: Job) -> Reason | None:
        """Why a job that could start was held back: the first reservation that it cannot be sure to end before."""
        return next(
            (self._delays(job, reservation) for reservation in self._held if not self._leaves(job, reservation)), None
        )

    @contextmanager
    def charging(self, job: Job) -> Iterator[None]:
        """Queues pay for what their jobs have reserved, but not for what the job that is served need not mind."""
        free = [
            reservation
            for reservation in self._held
            if reservation.job.queue == job.queue and self._leaves(job, reservation)
        ]
        for reservation in free:
            self._charge(reservation, -1)
        before = len(self._held)
        yield
        for reservation in (*free, *self._held[before:]):
            self._charge(reservation, 1)

    def left_alone(self, job: Job) -> AbstractContextManager[None]:
        """Another action serves a job: what others have reserved is paid for, and set aside from before its end on."""
        waiting = self._cycle.report.rejections
        of_other_jobs = (
            reservation for reservation in self._held if reservation.job is not job and reservation.job.key in waiting
        )
        return self._apart(
            [reservation for reservation in of_other_jobs if not self._leaves(job, reservation)], charged=True
        )

    def respected(self, job: Job) -> AbstractContextManager[None]:
        """Placements inside leave free everything that is reserved from before the job's end on."""
        return self._apart(
            [reservation for reservation in self._held if not self._leaves(job, reservation)], charged=False
        )

    @contextmanager
    def _apart(self, minded: Sequence[Reservation], *, charged: bool) -> Iterator[None]:
        self._set_aside(minded, 1, charged=charged)
        try:
            yield
        finally:
            self._set_aside(minded, -1, charged=charged)

    def _end(self, job: Job) -> ExpectedEnd:
        """When a job ends that starts now, or runs and grows."""
        return self._ends.if_started(job, self._now) if started_at(job) is None else self._ends.of(job)

    def _leaves(self, job: Job, reservation: Reservation) -> bool:
        """Whether a reservation need not be minded: it does not hold this job back, or the job has ended by then."""
        return not _holds_back(reservation, job) or _ends_before(self._believed(job, reservation), reservation)

    def _believed(self, job: Job, reservation: Reservation) -> float:
        """By when a job has surely ended, for the owner of a reservation.

        A job that stays longer than it says takes what was reserved. To those of its own namespace its word is enough;
        others rely on a deadline, or on runs of like jobs, unless some job of the namespace is breaking its word now.
        """
        return self._ends.surely(job, namespace_of(reservation.job.key))

    def _set_aside(self, minded: Sequence[Reservation], sign: int, *, charged: bool = False) -> None:
        for reservation in minded:
            if charged:
                self._charge(reservation, sign)
            self._cycle.ledger.await_releases()
            for shape, rows, counts in reservation.held:
                self._cycle.ledger.place(shape, rows, sign * counts, pool=Pool.FUTURE_IDLE)

    def tell(self) -> None:
        """Say of every job with a reservation that it has one, beside what keeps it waiting; later actions mind it."""
        rejections = self._cycle.report.rejections
        for reservation in self._held:
            self._charge(reservation, -1)
            rejection = rejections.get(reservation.job.key)
            if rejection is not None:
                reason = Reason("Reserved", "reservations", reservation.text, reservation.names)
                reasons = (reason, reservation.refused) if reservation.refused is not None else (reason,)
                further = (Rejection("reservation", reservation.job.key, cause) for cause in reasons)
                rejections[reservation.job.key] = replace(rejection, children=(*rejection.children, *further))
        self._cycle.report.reservations[:] = self._held
        self._cycle.reserved[:] = [self] if self._held else []

    # -- words

    def _domain(self, job: Job, place: Held) -> tuple[str, Ints]:
        """The innermost domain around a place, in the tree that the job's constraint is about, and its rows."""
        rows, tree = (
            distinct(np.concatenate([shape_rows for _, shape_rows, _ in place])),
            self._cycle.tree_of(job.constraint),
        )
        domain = tree.topology.meet_rows(tree.positions[rows])
        return tree.topology.name[domain], np.sort(tree.rows[tree.topology.span(domain)])

    def _rows_of(self, job: Job, name: str) -> Ints | None:
        """The rows of a domain by its name; None where there is none of that name any more."""
        tree = self._cycle.tree_of(job.constraint)
        domain = tree.topology.index.get(name)
        return np.sort(tree.rows[tree.topology.span(domain)]) if domain is not None else None

    # -- what a moment depends on

    def _runs_there(self, job: Job, place: _Place) -> list[_Run]:
        """The runs on a place that must end before it is free."""
        timeline = self._timeline(job)
        row, group, run = timeline.columns
        place_rows = distinct(np.concatenate([shape_rows for _, shape_rows, _ in place.held]))
        run_numbers = distinct(run[np.isin(row, place_rows) & (group <= place.group)]).tolist()
        return [timeline.runs[i] for i in run_numbers if timeline.runs[i].job is not job]

    def _runs_of_quota(self, job: Job, demand: Demand, place: _Place, runs_of_place: Sequence[_Run]) -> list[_Run]:
        """The further runs that must end before quotas allow a place whose `runs_of_place` runs have ended.

        None of them can be left out: the last one without which those before it are too few is one of them, and so on
        until they are enough.
        """
        if not self._cycle.pipeline.quota_exceeded:
            return []
        timeline, keys_there = self._timeline(job), {run.key for run in runs_of_place}
        ended = timeline.runs[: bisect_right(timeline.group, place.group)]
        other_runs = [
            run for run in ended if run.queue is not None and run.job is not job and run.key not in keys_there
        ]
        needed: list[_Run] = []

        def enough(upto: int) -> bool:
            with self._cycle.ledger.statement():
                for run in (*runs_of_place, *needed, *other_runs[:upto]):
                    self._leave_quota(run)
                return self._cycle.over_quota(job, needs(demand)) is None

        upto = len(other_runs)
        while not enough(0):
            last_needed = bisect_left(range(upto), True, key=lambda i: enough(i + 1))
            if last_needed == upto:
                break  # other selections of its tasks are allowed; no run is to be named for that
            needed.append(other_runs[last_needed])
            upto = last_needed
        return needed

    def _reservations_before(self, job: Job, place: _Place) -> tuple[Reservation, ...]:
        """The reservations on the same rows, or of the same queue, that are over when a place begins."""
        rows = np.concatenate([reserved_rows for _, reserved_rows, _ in place.held])
        timed = self._held if place.time < inf else ()
        before = (
            reservation
            for reservation in timed
            if _holds_back(reservation, job) and self._end_of(reservation, job) <= place.time
        )
        return tuple(
            reservation
            for reservation in before
            if reservation.job.queue == job.queue
            or any(np.isin(reserved_rows, rows).any() for _, reserved_rows, _ in reservation.held)
        )

    def _text(
        self, job: Job, name: str, time: float, awaits: Sequence[_Run], *, holds: bool, bare: bool
    ) -> tuple[str, tuple[Named, ...]]:
        is_known = time < inf
        late = bool(awaits) and awaits[0].end.overdue and time < self._now
        when = f" from {format_time(time)}" if is_known and not late else ""
        parts = [f"reserved {_called(name)}{when}"]
        if awaits:
            parts.append(_last_one(awaits[0], time))
        if len(awaits) > 1:
            parts.append(f"{count(len(awaits) - 1, 'more job')} there must end before")
        if not is_known:
            parts.append("its start is not known")
        if not holds:
            parts.append("it holds back no other job")
        elif bare:
            parts.append(
                "it holds back only jobs of its namespace, as no deadline ensures that the jobs before it end by then"
            )
        before = job.reserved
        if before is not None and before.start < time - _SLACK:
            parts.append(f"it was {_called(before.domain)} from {format_time(before.start)} before")
        return "; ".join(parts), tuple(_last_one_named(run, time) for run in awaits[:1])

    def _delays(self, job: Job, reservation: Reservation) -> Reason:
        since = f"from {format_time(reservation.start)}" if reservation.start < inf else "once it is free"
        end = self._end(job)
        # Without a time that moves with the clock: the text is written to the cluster, and only changes are.
        if end.source is EndSource.UNKNOWN:
            why = end.text
        elif _ends_before(end.safe, reservation):
            why = f"{end.text}, and no deadline ensures that"
        else:
            why = f"it would still run then ({end.text})"
        whose = f"{reservation.job.key}, which has {_called(reservation.domain)} reserved {since}"
        names = (Named(namespace_of(reservation.job.key), whose, "a reservation of another namespace"),)
        return Reason("WouldDelayReservation", "reservations", f"would delay {whose}: {why}", names)


def _last_one_named(run: _Run, time: float) -> Named:
    return Named(namespace_of(run.key), _last_one(run, time), "a job of another namespace must end before")


def _last_one(run: _Run, time: float) -> str:
    """When, and how surely, the last job ends that must end before a reservation begins; as a sentence."""
    end = run.end
    if end.planned < time:
        return f"{run.key} must end before ({end.text})"
    if end.overdue:
        return f"it begins as soon as {run.key} ends ({end.text})"
    if not end.known:
        return f"{run.key} runs there, and {end.text}"
    within = f", with 90 % between {format_time(end.most[0])} and {format_time(end.most[1])}" if end.most else ""
    return f"{run.key} ends then ({end.text}){within}"


def _holds_back(reservation: Reservation, job: Job) -> bool:
    """Whether a reservation is one to mind for a job: none is for a job that is more important than its owner, or whose
    namespace it does not bind.
    """
    return job.priority <= reservation.job.priority and reservation.binds(namespace_of(job.key))


def _ends_before(end: float, reservation: Reservation) -> bool:
    """Whether what ends at a time is surely gone when a reservation begins."""
    return end <= reservation.start and end < inf


def _called(domain: str) -> str:
    return "the cluster" if domain == ROOT_NAME else domain
