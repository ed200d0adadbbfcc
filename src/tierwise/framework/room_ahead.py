"""How much room there will be: what runs ends as expected, and no new job comes.

For one shape, the room of a domain is a step function of time: what it holds now, and more with every task that ends
there. Its mean over the run of a gang is what a place there is worth to others (plugin `places`).

Ends are those of `model.endings`, as far as jobs of the namespace that asks may plan with them: each question names it
in `by`. What was placed in this cycle is taken to stay. In a trial at a later moment that
moment (`Ledger.ended`) stands for now, and what has ended by then is not expected again.
"""

from __future__ import annotations

from functools import cached_property
from math import inf
from typing import TYPE_CHECKING
from zlib import crc32

import msgspec
import numpy as np
from msgspec.structs import replace

from tierwise.framework.kept import KeptOfLedger
from tierwise.framework.ledger import Ledger
from tierwise.model.arrays import Bools, Floats, Ints, NDArray, Rows, begins, of_rows
from tierwise.model.endings import endings
from tierwise.model.held import Endings
from tierwise.model.job import ANYBODY, Job, Shape, Status, namespace_of
from tierwise.model.snapshot import Snapshot

if TYPE_CHECKING:
    from tierwise.model.expected_ends import ExpectedEnds

__all__ = ["GivenBack", "RoomAhead", "RoomSteps"]

_HISTORY = "history"
_LATE, _LATE_SHARE = 60.0, 0.3
"""What is given to a task beyond its expected end: so many seconds, or this share of its age."""
_MOMENTS = 64
"""Moments ahead that are looked at for one gang, the next ones."""
_DRAWS = 32
"""Drawn futures that are looked at for one gang, where ends are not known."""


class RoomSteps(msgspec.Struct, frozen=True):
    """When rows come to hold more tasks of a shape, in the order of time, and how many more."""

    time: Floats
    row: Ints
    more: Ints


class _Ending(msgspec.Struct, frozen=True):
    """Tasks that run and will end, by row and then by end."""

    row: Ints
    time: Floats
    stated: Floats  # the end that was stated, also where that is over
    request: Ints  # (resources x tasks)
    order: Ints  # their positions in the order of time

    def on(self, rows: Ints) -> Ints:
        """Positions of the tasks on some distinct rows, row by row."""
        begin = self.row.searchsorted(rows)
        sizes = self.row.searchsorted(rows, side="right") - begin
        ends = sizes.cumsum()
        positions: Ints = (begin - ends + sizes).repeat(sizes) + np.arange(ends[-1] if len(ends) else 0)
        return positions


class _Growth(msgspec.Struct, frozen=True):
    """How many tasks of one shape each row holds now, and how many more with each task that ends.

    Whether a row takes tasks of the shape at all does not count here.
    """

    ending: _Ending
    room: Ints  # by row
    more: Ints  # by position in `ending`


class GivenBack(msgspec.Struct, frozen=True):
    """Amounts that are idle on each node, (resources x rows), which differ from those of the ledger on some rows."""

    idle: Ints
    rows: Ints  # distinct


class _Running(msgspec.Struct, frozen=True):
    """Jobs that run, and their tasks."""

    jobs: tuple[Job, ...]
    names: NDArray[np.uint64]  # a number for the name of each job
    job: Ints  # by task, as the following
    row: Ints
    request: Ints  # (resources x tasks)


class RoomAhead:
    """The room of a cluster from now on, by shape, as the ledger is when it is asked for."""

    def __init__(self, snapshot: Snapshot, ledger: Ledger) -> None:
        self._snapshot = snapshot
        self._ledger = ledger
        self._growth = KeptOfLedger(ledger.moved, RoomAhead._first_growth, RoomAhead._growth_again)
        self._growth_in_trial = KeptOfLedger(ledger.moved, RoomAhead._first_growth)
        self._freed: dict[tuple[bytes, str], tuple[Floats, Floats]] = {}
        self._runs: dict[int, float] = {}
        self._endings: dict[str, Endings] = {}
        self._ending: dict[str, _Ending] = {}

    @property
    def now(self) -> float:
        """The moment that the ledger is about."""
        return max(self._snapshot.now, self._ledger.ended)

    @cached_property
    def ends(self) -> ExpectedEnds:
        """What is known of ends."""
        from tierwise.model.expected_ends import ExpectedEnds  # importing the core must stay cheap

        return ExpectedEnds(self._snapshot)

    def run_time(self, job: Job) -> float:
        """How many seconds a waiting job runs, as it is stated; 0 where that is unknown, or nothing that runs ends."""
        seconds = self._runs.get(job.number)
        if seconds is None:
            seconds = self._stated(job) if self._states(job) and len(self._endings_for(self.planner(job)).row) else 0.0
            self._runs[job.number] = seconds
        return seconds

    def planner(self, job: Job) -> str:
        """For whom ends are asked: the namespace of a job, or ANYBODY for all those who may plan with the same ends."""
        name = namespace_of(job.key)
        return name if name in self._every.namespaces else ANYBODY

    def _stated(self, job: Job) -> float:
        now = self._snapshot.now
        end = self.ends.if_started(job, now)
        if end.known and end.source.value != _HISTORY:
            return end.planned - now
        return 0.0

    def _states(self, job: Job) -> bool:
        """Whether a job, its queue or a deadline says how long it runs: most say nothing, and have many tasks."""
        queue = self._snapshot.queues.get(job.queue)
        by_job = job.terms is not None and job.terms.expected
        by_queue = queue is not None and queue.expected_duration
        return bool(by_job or by_queue or (job.tasks and job.tasks[0].active_deadline))

    def mean(self, shape: Shape, room: Ints, open_rows: Bools, run: float, by: str) -> Floats:
        """By domain, the mean room over a run of so many seconds that starts now.

        Given the room of now, by domain, and which rows take tasks of the shape at all.
        """
        now = self.now
        topology = self._snapshot.topology
        steps = _steps(self._growth_of(shape, by), open_rows)
        upto = int(np.searchsorted(steps.time, now + run))
        gained = steps.more[:upto] * (now + run - steps.time[:upto]) / run
        by_row = np.bincount(steps.row[:upto], weights=gained, minlength=len(self._snapshot.nodes))
        sums: Floats = np.concatenate((np.zeros(1), np.cumsum(by_row)))
        mean_room: Floats = sums[topology.end] - sums[topology.start] + room
        return mean_room

    # -- growth by shape: where the ledger has changed, rows are looked at again

    def _growth_of(self, shape: Shape, by: str) -> _Growth:
        ended = self._ledger.ended
        cache = self._growth if ended == -inf else self._growth_in_trial  # there are few moments of trials to keep
        return cache.of((shape.number, ended, by), self, shape, by)

    def _first_growth(self, shape: Shape, by: str) -> _Growth:
        ending = self._left(by)
        idle = self._ledger.idle
        return _Growth(ending, shape.max_tasks(idle[shape.asked]), _more(ending, shape, idle, slice(None)))

    def _growth_again(self, shape: Shape, by: str, growth: _Growth, rows: Ints) -> _Growth:
        return _look_again(growth, shape, self._ledger.idle, rows)

    def _growth_with(self, shape: Shape, given_back: GivenBack, by: str) -> _Growth:
        growth = self._growth_of(shape, by)
        changed = replace(growth, room=growth.room.copy(), more=growth.more.copy())
        return _look_again(changed, shape, given_back.idle, given_back.rows)

    # -- leaves: the innermost domains, one row of the answer each

    def leaves_now(self, shape: Shape, given_back: GivenBack, open_rows: Bools, by: str) -> Ints:
        """How many tasks of a shape each leaf holds, with so much idle on each row."""
        return self._leaves_now(self._growth_with(shape, given_back, by), open_rows)

    def _leaves_now(self, growth: _Growth, open_rows: Bools) -> Ints:
        return self._by_leaf(np.where(open_rows, growth.room, 0)[None, :])

    def leaves_at(
        self, shape: Shape, given_back: GivenBack, open_rows: Bools, until: float, by: str
    ) -> tuple[Floats, Ints]:
        """The moments up to a time at which leaves come to hold more, the first one now, and what each holds then."""
        growth = self._growth_with(shape, given_back, by)
        steps = _steps(growth, open_rows)
        upto = min(int(np.searchsorted(steps.time, until, side="right")), _MOMENTS)
        growth_by_leaf = np.zeros((len(self._leaf_starts), upto), dtype=np.int64)
        growth_by_leaf[self._leaves[steps.row[:upto]], np.arange(upto)] = steps.more[:upto]
        return steps.time[:upto], self._leaves_now(growth, open_rows) + np.cumsum(growth_by_leaf, axis=1)

    def leaves_drawn(self, shape: Shape, given_back: GivenBack, open_rows: Bools, until: float, by: str) -> Ints:
        """What each leaf may hold by a time: as many times as are drawn, with ends by age and ended runs."""
        running = self._running
        resources = shape.asked
        within = until - self._snapshot.now
        still_runs = [self.ends.of(job).planned > self._ledger.ended for job in running.jobs]
        chance = np.array([self.ends.chance(job, within, by) for job in running.jobs]) * still_runs
        if not chance.any():
            return np.zeros((0, 0), dtype=np.int64)
        room_by_draw = np.empty((_DRAWS, len(open_rows)), dtype=np.int64)
        for draw in range(_DRAWS):
            ended = (_drawn(running.names, draw) < chance)[running.job]
            free = given_back.idle[resources]
            np.add.at(free.T, running.row[ended], running.request[resources][:, ended].T)
            room_by_draw[draw] = shape.max_tasks(free)
        return self._by_leaf(np.where(open_rows, room_by_draw, 0))

    def _by_leaf(self, per_row: Ints) -> Ints:
        """Sums by leaf, for each of several quantities by row: (leaves x quantities)."""
        sums: Ints = np.add.reduceat(per_row, self._leaf_starts, axis=1).T
        return sums

    @cached_property
    def _leaf_starts(self) -> Ints:
        """The first row of each leaf; rows follow the tree, so those of a leaf follow each other."""
        return begins(self._snapshot.topology.leaf).nonzero()[0]

    @cached_property
    def _leaves(self) -> Ints:
        """By row, the number of its leaf among the leaves."""
        leaf_numbers: Ints = begins(self._snapshot.topology.leaf).cumsum() - 1
        return leaf_numbers

    def mean_run(self, job: Job) -> float:
        """How long jobs like a waiting one have run on average; 0 where none is known."""
        return self.ends.mean_run(job)

    @cached_property
    def _running(self) -> _Running:
        running = self._snapshot.columns.held(Status.RUNNING)
        of_jobs = running.job >= 0
        numbers, job = np.unique(running.job[of_jobs], return_inverse=True)
        jobs = tuple([self._snapshot.jobs[number] for number in numbers.tolist()])
        names = np.array([crc32(job.key.encode()) for job in jobs], dtype=np.uint64)
        return _Running(jobs, names, job, running.row[of_jobs], self._requests[:, running.shape[of_jobs]])

    def whole_from(self, resources: Ints, rows: Rows, by: str) -> Floats:
        """By row, when nothing of these resources is in use; infinite where that is not known."""
        key = resources.tobytes(), by
        if key not in self._freed:
            self._freed[key] = self._freed_of(resources, self._endings_for(by))
        freed, last_end = self._freed[key]
        used = of_rows(self._snapshot.nodes.allocatable, resources, rows) - of_rows(self._ledger.idle, resources, rows)
        return np.where((freed[:, rows] >= used).all(axis=0), last_end[rows], inf)

    def _freed_of(self, resources: Ints, ending: Endings) -> tuple[Floats, Floats]:
        """By row, how much of these resources is freed in the end, (resources x rows), and when the last of it is."""
        size = len(self._snapshot.nodes)
        request = self._requests[resources[:, None], ending.shape]
        last_end = np.full(size, -inf)
        holds = (request > 0).any(axis=0)
        np.maximum.at(last_end, ending.row[holds], ending.end[holds])
        return np.stack([np.bincount(ending.row, weights=amounts, minlength=size) for amounts in request]), last_end

    @cached_property
    def _every(self) -> Endings:
        return endings(self._snapshot, self.ends)

    def _endings_for(self, by: str) -> Endings:
        """What is known to end, for a planner; a task beyond its time is given a bit more."""
        endings = self._endings.get(by)
        if endings is None:
            seen = self._every.seen_by(by)
            now = self._snapshot.now
            late = now + np.maximum(_LATE, _LATE_SHARE * (now - seen.started))
            endings = self._endings[by] = replace(seen, end=np.where(seen.end > now, seen.end, late))
        return endings

    def _ending_for(self, by: str) -> _Ending:
        ending = self._ending.get(by)
        if ending is None:
            seen = self._endings_for(by)
            stated = self._every.seen_by(by).end
            order = np.lexsort((seen.end, seen.row))
            row = seen.row[order]
            end = seen.end[order]
            request = self._requests[:, seen.shape[order]]
            ending = self._ending[by] = _Ending(row, end, stated[order], request, end.argsort(kind="stable"))
        return ending

    def _left(self, by: str) -> _Ending:
        """Those of them that a trial has not let end."""
        every = self._ending_for(by)
        ended = self._ledger.ended
        if ended == -inf:
            return every
        still_running = every.stated > ended
        time = every.time[still_running]
        order = time.argsort(kind="stable")
        return _Ending(
            every.row[still_running], time, every.stated[still_running], every.request[:, still_running], order
        )

    @cached_property
    def _requests(self) -> Ints:
        """What a task of each shape asks for, (resources x shapes)."""
        shapes = self._snapshot.shapes
        requests = np.array([shape.request for shape in shapes], dtype=np.int64)
        return requests.reshape(len(shapes), len(self._snapshot.axis)).T


def _more(ending: _Ending, shape: Shape, idle: Ints, positions: Rows) -> Ints:
    """How many more tasks of a shape a row holds with each of these tasks that end, with so much idle on each row.

    With a task on a row are all tasks there.
    """
    row = ending.row[positions]
    resources = shape.asked
    request = of_rows(ending.request, resources, positions)
    row_starts = begins(row).nonzero()[0]
    sums = np.cumsum(request, axis=1)
    before = (sums - request)[:, row_starts]
    freed = sums - np.repeat(before, np.diff(np.append(row_starts, len(row))), axis=1)
    free = idle[resources[:, None], row]
    after = shape.max_tasks(free + freed)
    less = np.roll(after, 1)
    less[row_starts] = shape.max_tasks(free[:, row_starts])
    growth: Ints = after - less
    return growth


def _look_again(growth: _Growth, shape: Shape, idle: Ints, rows: Ints) -> _Growth:
    """The growth of some rows, with so much idle on each, in place of what was known of them."""
    growth.room[rows] = shape.max_tasks(idle[shape.asked[:, None], rows])
    positions = growth.ending.on(rows)
    if len(positions):
        growth.more[positions] = _more(growth.ending, shape, idle, positions)
    return growth


def _steps(growth: _Growth, open_rows: Bools) -> RoomSteps:
    """When rows come to hold more, of those that take tasks of the shape."""
    ending = growth.ending
    growth_by_task = growth.more[ending.order]
    row = ending.row[ending.order]
    growing = (np.where(open_rows[row], growth_by_task, 0)).nonzero()[0]
    return RoomSteps(ending.time[ending.order[growing]], row[growing], growth_by_task[growing])


def _drawn(names: NDArray[np.uint64], draw: int) -> Floats:
    """A number between 0 and 1 for each name, the same whenever it is asked for: bits that are mixed well."""
    with np.errstate(over="ignore"):
        mixed = (names + np.uint64(1 + draw) * np.uint64(0x9E3779B97F4A7C15)) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    numbers: Floats = (mixed >> np.uint64(11)).astype(np.float64) / 2.0**53
    return numbers
