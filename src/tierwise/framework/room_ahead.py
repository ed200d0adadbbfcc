"""How much room there will be: what runs ends as expected, and no new job comes.

For one shape, the room of a domain is a step function of time: what it holds now, and more with every task that ends
there. Its mean over the run of a gang is what a place there is worth to others (plugin `places`).

Ends are those of `model.endings`. What was placed in this cycle is taken to stay. In a trial at a later moment that
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
from tierwise.model.arrays import Bools, Floats, Ints, NDArray, Rows, of_rows
from tierwise.model.endings import endings
from tierwise.model.held import Endings
from tierwise.model.job import Job, Shape, Status
from tierwise.model.snapshot import Snapshot

if TYPE_CHECKING:
    from tierwise.model.expected_ends import ExpectedEnds

__all__ = ["RoomAhead", "RoomSteps"]

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
    first: Ints  # the positions at which a row begins


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
        self._snapshot, self._ledger = snapshot, ledger
        self._steps = KeptOfLedger(ledger.moved, RoomAhead.steps)
        self._freed: dict[bytes, tuple[Floats, Floats]] = {}
        self._runs: dict[int, float] = {}

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
        found = self._runs.get(job.number)
        if found is None:
            found = self._runs[job.number] = self._stated(job) if self._states(job) and len(self._endings.row) else 0.0
        return found

    def _stated(self, job: Job) -> float:
        now = self._snapshot.now
        end = self.ends.if_started(job, now)
        return end.planned - now if end.known and end.source.value != _HISTORY else 0.0

    def _states(self, job: Job) -> bool:
        """Whether a job, its queue or a deadline says how long it runs: most say nothing, and have many tasks."""
        queue = self._snapshot.queues.get(job.queue)
        by_job, by_queue = job.terms is not None and job.terms.expected, queue is not None and queue.expected_duration
        return bool(by_job or by_queue or (job.tasks and job.tasks[0].active_deadline))

    def mean(self, shape: Shape, room: Ints, open_rows: Bools, run: float) -> Floats:
        """By domain, the mean room over a run of so many seconds that starts now.

        Given the room of now, by domain, and which rows take tasks of the shape at all.
        """
        now, topology = self.now, self._snapshot.topology
        steps = self._steps.of((shape.number, self._ledger.ended), self, shape, self._ledger.idle, open_rows)
        upto = int(np.searchsorted(steps.time, now + run))
        gained = steps.more[:upto] * (now + run - steps.time[:upto]) / run
        by_row = np.bincount(steps.row[:upto], weights=gained, minlength=len(self._snapshot.nodes))
        sums: Floats = np.concatenate((np.zeros(1), np.cumsum(by_row)))
        found: Floats = sums[topology.end] - sums[topology.start] + room
        return found

    def steps(self, shape: Shape, idle: Ints, open_rows: Bools) -> RoomSteps:
        """When rows come to hold more tasks of a shape, with so much idle on each, (resources x rows)."""
        ending, asked = self._left, shape.asked
        row, first = ending.row, ending.first
        sums = np.cumsum(ending.request[asked], axis=1)
        before = (sums - ending.request[asked])[:, first]
        freed = sums - np.repeat(before, np.diff(np.append(first, len(row))), axis=1)
        free = idle[asked][:, row]
        after = shape.max_tasks(free + freed)
        less = np.roll(after, 1)
        less[first] = shape.max_tasks(free[:, first])
        more = np.where(open_rows[row], after - less, 0)
        some = np.flatnonzero(more)
        some = some[np.argsort(ending.time[some], kind="stable")]
        return RoomSteps(ending.time[some], row[some], more[some])

    # -- leaves: the innermost domains, one row of the answer each

    def leaves_now(self, shape: Shape, idle: Ints, open_rows: Bools) -> Ints:
        """How many tasks of a shape each leaf holds, with so much idle on each row."""
        return self._by_leaf(np.where(open_rows, shape.max_tasks(idle[shape.asked]), 0)[None, :])

    def leaves_at(self, shape: Shape, idle: Ints, open_rows: Bools, until: float) -> tuple[Floats, Ints]:
        """The moments up to a time at which leaves come to hold more, the first one now, and what each holds then."""
        steps = self.steps(shape, idle, open_rows)
        upto = min(int(np.searchsorted(steps.time, until, side="right")), _MOMENTS)
        more = np.zeros((upto, len(open_rows)), dtype=np.int64)
        more[np.arange(upto), steps.row[:upto]] = steps.more[:upto]
        room = self.leaves_now(shape, idle, open_rows) + np.cumsum(self._by_leaf(more), axis=1)
        return steps.time[:upto], room

    def leaves_drawn(self, shape: Shape, idle: Ints, open_rows: Bools, until: float) -> Ints:
        """What each leaf may hold by a time: as many times as are drawn, with ends by age and ended runs."""
        running, asked, within = self._running, shape.asked, until - self._snapshot.now
        left = [self.ends.of(job).planned > self._ledger.ended for job in running.jobs]
        chance = np.array([self.ends.chance(job, within) for job in running.jobs]) * left
        if not chance.any():
            return np.zeros((0, 0), dtype=np.int64)
        found = np.empty((_DRAWS, len(open_rows)), dtype=np.int64)
        for draw in range(_DRAWS):
            ended = (_drawn(running.names, draw) < chance)[running.job]
            free = idle[asked].copy()
            np.add.at(free.T, running.row[ended], running.request[asked][:, ended].T)
            found[draw] = shape.max_tasks(free)
        return self._by_leaf(np.where(open_rows, found, 0))

    def _by_leaf(self, per_row: Ints) -> Ints:
        """Sums by leaf, for each of several quantities by row: (leaves x quantities)."""
        found = np.zeros((int(self._leaves.max(initial=-1)) + 1, len(per_row)), dtype=np.int64)
        np.add.at(found, self._leaves, per_row.T)
        return found

    @cached_property
    def _leaves(self) -> Ints:
        """By row, the number of its leaf among the leaves."""
        found: Ints = np.unique(self._snapshot.topology.leaf, return_inverse=True)[1]
        return found

    def mean_run(self, job: Job) -> float:
        """How long jobs like a waiting one have run on average; 0 where none is known."""
        return self.ends.mean_run(job)

    @cached_property
    def _running(self) -> _Running:
        held = self._snapshot.columns.held(Status.RUNNING)
        own = held.job >= 0
        numbers, job = np.unique(held.job[own], return_inverse=True)
        jobs = tuple([self._snapshot.jobs[number] for number in numbers.tolist()])
        names = np.array([crc32(job.key.encode()) for job in jobs], dtype=np.uint64)
        return _Running(jobs, names, job, held.row[own], self._requests[:, held.shape[own]])

    def whole_from(self, resources: Ints, rows: Rows) -> Floats:
        """By row, when nothing of these resources is in use; infinite where that is not known."""
        key = resources.tobytes()
        if key not in self._freed:
            self._freed[key] = self._freed_of(resources)
        freed, last = self._freed[key]
        used = of_rows(self._snapshot.nodes.allocatable, resources, rows) - of_rows(self._ledger.idle, resources, rows)
        return np.where((freed[:, rows] >= used).all(axis=0), last[rows], inf)

    def _freed_of(self, resources: Ints) -> tuple[Floats, Floats]:
        """By row, how much of these resources is freed in the end, (resources x rows), and when the last of it is."""
        ending, size = self._endings, len(self._snapshot.nodes)
        request = self._requests[resources[:, None], ending.shape]
        last = np.full(size, -inf)
        holds = (request > 0).any(axis=0)
        np.maximum.at(last, ending.row[holds], ending.end[holds])
        return np.stack([np.bincount(ending.row, weights=amounts, minlength=size) for amounts in request]), last

    @cached_property
    def _endings(self) -> Endings:
        """What is known to end; a task beyond its time is given a bit more."""
        found, now = endings(self._snapshot), self._snapshot.now
        late = now + np.maximum(_LATE, _LATE_SHARE * (now - found.started))
        return replace(found, end=np.where(found.end > now, found.end, late))

    @cached_property
    def _ending(self) -> _Ending:
        found, stated = self._endings, endings(self._snapshot).end
        order = np.lexsort((found.end, found.row))
        row, request = found.row[order], self._requests[:, found.shape[order]]
        return _Ending(row, found.end[order], stated[order], request, np.flatnonzero(np.diff(row, prepend=-1)))

    @property
    def _left(self) -> _Ending:
        """Those of them that a trial has not let end."""
        every, ended = self._ending, self._ledger.ended
        if ended == -inf:
            return every
        left = every.stated > ended
        row, request = every.row[left], every.request[:, left]
        first = np.flatnonzero(np.diff(row, prepend=-1))
        return _Ending(row, every.time[left], every.stated[left], request, first)

    @cached_property
    def _requests(self) -> Ints:
        """What a task of each shape asks for, (resources x shapes)."""
        shapes = self._snapshot.shapes
        asked = np.array([shape.request for shape in shapes], dtype=np.int64)
        return asked.reshape(len(shapes), len(self._snapshot.axis)).T


def _drawn(names: NDArray[np.uint64], draw: int) -> Floats:
    """A number between 0 and 1 for each name, the same whenever it is asked for: bits that are mixed well."""
    with np.errstate(over="ignore"):
        mixed = (names + np.uint64(1 + draw) * np.uint64(0x9E3779B97F4A7C15)) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    found: Floats = (mixed >> np.uint64(11)).astype(np.float64) / 2.0**53
    return found
