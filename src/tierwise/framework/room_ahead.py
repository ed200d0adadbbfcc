"""How much room there will be: what runs ends as expected, and nobody new comes.

For one shape, the room of a domain is a step function of time: what it holds now, and more with every task that ends
there. Its mean over the run of a gang is what a place there is worth to others (plugin `places`).

Ends are those of `model.expected_ends`, as far as they are stated by a job, its queue or a deadline: a median of other
runs says little about one leaf. What was placed in this cycle is taken to stay.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING
from zlib import crc32

import msgspec
import numpy as np
from numpy.typing import NDArray

from tierwise.framework.ledger import Ledger
from tierwise.model.arrays import Bools, Floats, Ints
from tierwise.model.job import Job, Shape, Status
from tierwise.model.snapshot import Snapshot

if TYPE_CHECKING:
    from tierwise.model.expected_ends import ExpectedEnd, ExpectedEnds

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
        self._steps: dict[int, tuple[int, RoomSteps]] = {}

    @cached_property
    def ends(self) -> ExpectedEnds:
        """What is known of ends."""
        from tierwise.model.expected_ends import ExpectedEnds  # importing the core must stay cheap

        return ExpectedEnds(self._snapshot)

    def run_time(self, job: Job) -> float:
        """How many seconds a waiting job runs, as it is stated; 0 where that is unknown, or nothing that runs ends."""
        now = self._snapshot.now
        end = self.ends.if_started(job, now) if len(self._ending.row) else None
        return end.planned - now if end is not None and _is_stated(end) else 0.0

    def mean(self, shape: Shape, room: Ints, open_rows: Bools, run: float) -> Floats:
        """By domain, the mean room over a run of so many seconds that starts now.

        Given the room of now, by domain, and which rows take tasks of the shape at all.
        """
        steps, now, topology = self._kept(shape, open_rows), self._snapshot.now, self._snapshot.topology
        upto = int(np.searchsorted(steps.time, now + run))
        gained = steps.more[:upto] * (now + run - steps.time[:upto]) / run
        by_row = np.bincount(steps.row[:upto], weights=gained, minlength=len(self._snapshot.nodes))
        sums: Floats = np.concatenate((np.zeros(1), np.cumsum(by_row)))
        found: Floats = sums[topology.end] - sums[topology.start] + room
        return found

    def _kept(self, shape: Shape, open_rows: Bools) -> RoomSteps:
        """The steps as the ledger is now."""
        moved = self._ledger.moved.length
        kept = self._steps.get(shape.number)
        if kept is None or kept[0] != moved:
            kept = self._steps[shape.number] = moved, self.steps(shape, self._ledger.idle, open_rows)
        return kept[1]

    def steps(self, shape: Shape, idle: Ints, open_rows: Bools) -> RoomSteps:
        """When rows come to hold more tasks of a shape, with so much idle on each, (resources x rows)."""
        ending, asked = self._ending, shape.asked
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

    def leaves_drawn(self, shape: Shape, idle: Ints, open_rows: Bools, within: float) -> Ints:
        """What each leaf may hold within some seconds: as many times as are drawn, with ends by age and ended runs."""
        running, asked = self._running, shape.asked
        chance = np.array([self.ends.chance(job, within) for job in running.jobs])
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
        leaf, place = np.unique(self._snapshot.topology.leaf, return_inverse=True)
        found = np.zeros((len(leaf), len(per_row)), dtype=np.int64)
        np.add.at(found, place, per_row.T)
        return found

    def mean_run(self, job: Job) -> float:
        """How long jobs like a waiting one have run on average; 0 where none is known."""
        return self.ends.mean_run(job)

    @cached_property
    def _running(self) -> _Running:
        rows = self._snapshot.nodes.rows.tolist()
        jobs: list[Job] = []
        found: list[tuple[int, int, Ints]] = []
        for job in self._snapshot.jobs:
            standing = [task for task in job.tasks if task.status is Status.RUNNING and task.node >= 0]
            if standing:
                found += [(len(jobs), rows[task.node], task.shape.request) for task in standing]
                jobs.append(job)
        request = np.array([request for _, _, request in found], dtype=np.int64)
        return _Running(
            jobs=tuple(jobs),
            names=np.array([crc32(job.key.encode()) for job in jobs], dtype=np.uint64),
            job=np.array([job for job, _, _ in found], dtype=np.int64),
            row=np.array([row for _, row, _ in found], dtype=np.int64),
            request=request.reshape(len(found), len(self._snapshot.axis)).T,
        )

    def whole_from(self, resources: Ints) -> Floats:
        """By row, when nothing of these resources is in use; infinite where that is not known."""
        ending, nodes = self._ending, self._snapshot.nodes
        request = ending.request[resources]
        used = nodes.allocatable[resources] - self._ledger.idle[resources]
        freed = np.stack([np.bincount(ending.row, weights=amounts, minlength=len(nodes)) for amounts in request])
        last = np.full(len(nodes), -inf)
        holds = (request > 0).any(axis=0)
        np.maximum.at(last, ending.row[holds], ending.time[holds])
        return np.where((freed >= used).all(axis=0), last, inf)

    @cached_property
    def _ending(self) -> _Ending:
        found = list(self._tasks())
        row = np.array([row for row, _, _ in found], dtype=np.int64)
        time = np.array([time for _, time, _ in found])
        request = np.array([shape.request for _, _, shape in found], dtype=np.int64)
        request = request.reshape(len(found), len(self._snapshot.axis)).T
        order = np.lexsort((time, row))
        return _Ending(row[order], time[order], request[:, order], np.flatnonzero(np.diff(row[order], prepend=-1)))

    def _tasks(self) -> Iterator[tuple[int, float, Shape]]:
        """Row, end and shape of what runs and will end."""
        from tierwise.model.expected_ends import started_at  # the same

        snapshot = self._snapshot
        rows = snapshot.nodes.rows.tolist()
        timed = {name for name, queue in snapshot.queues.items() if queue.expected_duration}
        for job in snapshot.jobs:
            stated = job.terms is not None and job.terms.expected
            if not stated and job.queue not in timed and not (job.tasks and job.tasks[0].active_deadline):
                continue  # a look at each would show in a large cluster
            standing = [task for task in job.tasks if task.status is Status.RUNNING and task.node >= 0]
            end = self._frees(self.ends.of(job), started_at(job) or 0.0) if standing else inf
            if end < inf:
                yield from ((rows[task.node], end, task.shape) for task in standing)
        for task in snapshot.others:
            if task.status is Status.RUNNING and task.node >= 0 and (task.expected or task.active_deadline):
                end = self._frees(self.ends.of_task(task), task.started)
                if end < inf:
                    yield rows[task.node], end, task.shape

    def _frees(self, end: ExpectedEnd, started: float) -> float:
        """When a task is taken to be gone; one beyond its time is given a bit more."""
        now = self._snapshot.now
        if not _is_stated(end):
            return inf
        return end.planned if end.planned > now else now + max(_LATE, _LATE_SHARE * (now - started))


def _drawn(names: NDArray[np.uint64], draw: int) -> Floats:
    """A number between 0 and 1 for each name, the same whenever it is asked for: bits that are mixed well."""
    with np.errstate(over="ignore"):
        mixed = (names + np.uint64(1 + draw) * np.uint64(0x9E3779B97F4A7C15)) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    found: Floats = (mixed >> np.uint64(11)).astype(np.float64) / 2.0**53
    return found


def _is_stated(end: ExpectedEnd) -> bool:
    return end.known and end.source.value != _HISTORY
