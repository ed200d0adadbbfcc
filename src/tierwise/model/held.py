"""Which rows tasks hold, shape by shape: the one place that turns lists of tasks into arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from math import inf
from operator import attrgetter
from typing import Any

import msgspec
import numpy as np

from tierwise.model.arrays import Bools, Floats, Ints, NDArray, begins, distinct
from tierwise.model.job import Job, Shape, Status, Task
from tierwise.model.node import NodeTable

__all__ = ["ColumnCache", "Endings", "KeptColumns", "TaskColumns", "TaskTimes", "held_amounts", "rows_by_shape"]

_NODE, _SHAPE, _STATUS, _TASKS = map(attrgetter, ("node", "shape.number", "status", "tasks"))
_STARTED, _EXPECTED, _DEADLINE = map(attrgetter, ("started", "expected", "active_deadline"))
_CODE = {status: code for code, status in enumerate(Status)}


class TaskColumns(msgspec.Struct, frozen=True, eq=False):
    """All tasks of a snapshot as columns: those of its jobs in order, then those of no job."""

    jobs: tuple[Job, ...]
    others: tuple[Task, ...]
    row: Ints
    shape: Ints
    status: Ints
    job: Ints  # the index of the job; -1 for none

    def having(self, status: Status) -> Bools:
        """Which tasks have this status."""
        found: Bools = self.status == _CODE[status]
        return found

    def with_status(self, status: Status) -> list[Job]:
        """The jobs with a task of this status, in order."""
        found = distinct(self.job[self.having(status)])
        return [self.jobs[i] for i in found.tolist() if i >= 0]

    def held(self, status: Status) -> HeldTasks:
        """The tasks of a status that are on a known node."""
        chosen = (self.having(status) & (self.row >= 0)).nonzero()[0]
        return HeldTasks(self.row[chosen], self.shape[chosen], self.job[chosen])

    def on_rows(self, rows: Sequence[int]) -> list[tuple[Job | None, Task]]:
        """The tasks on these rows with their jobs, in the order of the columns."""
        found = np.flatnonzero(np.isin(self.row, rows))
        own = int(np.count_nonzero(self.job >= 0))  # those of no job come last
        begins = np.searchsorted(self.job[:own], self.job[found])
        return [
            (self.jobs[job], self.jobs[job].tasks[i - begin]) if job >= 0 else (None, self.others[i - own])
            for i, job, begin in zip(found.tolist(), self.job[found].tolist(), begins.tolist(), strict=True)
        ]


class TaskTimes(msgspec.Struct, frozen=True, eq=False):
    """When tasks began and what is known of their ends, as columns in the order of `TaskColumns`."""

    started: Floats  # 0 where that is not known
    expected: Floats  # how long a task runs, as it states itself; 0 where it does not
    stop: Floats  # when its deadline ends it; infinite where it has none


class Endings(msgspec.Struct, frozen=True):
    """Tasks that run and will end, in no order.

    What a task or its job states of itself may count in its own namespace alone: for jobs of other namespaces it ends
    at `limit`.
    """

    row: Ints
    shape: Ints  # by number
    started: Floats  # of the job, where a task belongs to one; infinite where that is not known
    end: Floats  # as it was stated: it lies in the past where a task is overdue
    limit: Floats | None = None  # None: all ends count for everybody
    namespace: Ints | None = None  # in `namespaces`, where the limit is another than the end; else -1
    namespaces: tuple[str, ...] = ()

    def seen_by(self, namespace: str) -> Endings:
        """The tasks that end as far as jobs of a namespace may plan with it."""
        if self.limit is None or self.namespace is None:
            return self
        own = self.namespaces.index(namespace) if namespace in self.namespaces else -1
        end = np.where(self.namespace == own, self.end, self.limit)
        known = end < inf
        return Endings(self.row[known], self.shape[known], self.started[known], end[known])


class KeptColumns(msgspec.Struct, frozen=True, eq=False):
    """Columns that a cache makes when they are asked for: where nothing waits, they are not needed."""

    nodes: NodeTable
    jobs: tuple[Job, ...]
    others: tuple[Task, ...]
    pieces: Sequence[Sequence[Task]]  # the others once more, in pieces that are kept
    cache: ColumnCache
    used: Ints | None = None  # what all of them hold, (resources x rows); None where some are terminating

    def columns(self) -> TaskColumns:
        return self.cache.columns(self.nodes, self.jobs, self.others, self.pieces)

    def times(self) -> TaskTimes:
        return self.cache.times(self.jobs, self.pieces)


class ColumnCache:
    """Makes columns from snapshot to snapshot: tasks in the same tuple or list as before are copied."""

    def __init__(self) -> None:
        self._held, self._times = _Pieces(_read_held), _Pieces(_read_times)

    def columns(
        self,
        nodes: NodeTable,
        jobs: tuple[Job, ...],
        others: tuple[Task, ...],
        parts: Sequence[Sequence[Task]] | None = None,
    ) -> TaskColumns:
        """The columns of these on these nodes; `parts` are the others once more, in pieces that are kept."""
        pieces = [*map(_TASKS, jobs), *([others] if parts is None else parts)]
        sizes, (node, shape, status) = self._held.follow(pieces)
        number = np.repeat(np.arange(len(pieces)), sizes)
        number[number >= len(jobs)] = -1
        return TaskColumns(jobs, others, nodes.rows[node], shape, status, number)

    def times(self, jobs: tuple[Job, ...], parts: Sequence[Sequence[Task]]) -> TaskTimes:
        """The times of these tasks."""
        return TaskTimes(*self._times.follow([*map(_TASKS, jobs), *parts])[1])


class _Pieces:
    """Columns of the tasks in some pieces, as a function reads them; pieces of the last call are copied."""

    def __init__(self, read: Callable[[Sequence[Task]], NDArray[Any]]) -> None:
        self._read = read
        self._pieces: list[Sequence[Task]] = []  # kept alive, so that no other has the id of one of them
        self._ids: Ints = np.zeros(0, dtype=np.int64)
        self._starts: Ints = np.zeros(0, dtype=np.int64)
        self._columns = read(())

    def follow(self, pieces: list[Sequence[Task]]) -> tuple[Ints, NDArray[Any]]:
        """How many tasks are in each piece, and the columns of all of them."""
        ids = np.fromiter(map(id, pieces), np.int64, len(pieces))
        sizes = np.fromiter(map(len, pieces), np.int64, len(pieces))
        starts = np.cumsum(sizes) - sizes
        known, source = self._find(ids)
        columns = np.empty((len(self._columns), int(sizes.sum())), dtype=self._columns.dtype)
        copied = np.repeat(known, sizes)
        shift = np.zeros(len(pieces), dtype=np.int64)
        shift[known] = self._starts[source[known]] - starts[known]
        columns[:, copied] = self._columns[:, (np.arange(len(copied)) + np.repeat(shift, sizes))[copied]]
        if len(copied) and not copied.all():
            columns[:, ~copied] = self._read([*chain(*(pieces[i] for i in np.flatnonzero(~known).tolist()))])
        self._pieces = pieces
        self._ids = ids
        self._starts = starts
        self._columns = columns
        return sizes, columns

    def _find(self, ids: Ints) -> tuple[Bools, Ints]:
        """Which pieces are known, and where they stood."""
        if not len(self._ids):
            return np.zeros(len(ids), dtype=bool), np.zeros(len(ids), dtype=np.int64)
        order = np.argsort(self._ids)
        place = np.minimum(np.searchsorted(self._ids, ids, sorter=order), len(order) - 1)
        source = order[place]
        return self._ids[source] == ids, source


def _read_held(tasks: Sequence[Task]) -> Ints:
    codes = map(_CODE.__getitem__, map(_STATUS, tasks))
    found = (np.fromiter(column, np.int64, len(tasks)) for column in (map(_NODE, tasks), map(_SHAPE, tasks), codes))
    return np.array([*found])


def _read_times(tasks: Sequence[Task]) -> Floats:
    started, expected, deadline = (
        np.fromiter(map(read, tasks), np.float64, len(tasks)) for read in (_STARTED, _EXPECTED, _DEADLINE)
    )
    return np.array([started, expected, np.where((deadline > 0) & (started > 0), started + deadline, inf)])


class HeldTasks(msgspec.Struct, frozen=True):
    """Tasks of one status that are on a known node, as columns."""

    row: Ints
    shape: Ints
    job: Ints  # -1 for none

    def by_shape(self) -> dict[int, Ints]:
        """Rows, one entry per task, by number of the shape."""
        few = len(self.shape) > 0 and int(self.shape.max()) < 1 << 16  # short numbers are sorted by radix
        order = np.argsort(self.shape.astype(np.uint16) if few else self.shape, kind="stable")
        numbers = self.shape[order]
        rows = self.row[order]
        first = begins(numbers).nonzero()[0]
        bounds = pairwise([*first.tolist(), len(order)])
        return {number: rows[start:end] for number, (start, end) in zip(numbers[first].tolist(), bounds, strict=True)}

    def requests(self, shapes: Sequence[Shape], size: tuple[int, int]) -> Ints:
        """What the tasks of each job ask for together; the size is (jobs x resources)."""
        result = np.zeros(size, dtype=np.int64)
        own = self.job >= 0
        if np.logical_or.reduce(own):
            pairs, counts = np.unique(self.job[own] * len(shapes) + self.shape[own], return_counts=True)
            asked = np.array([shape.request for shape in shapes])
            np.add.at(result, pairs // len(shapes), asked[pairs % len(shapes)] * counts[:, None])
        return result


def rows_by_shape(nodes: NodeTable, tasks: Iterable[Task], status: Status) -> dict[int, Ints]:
    """Rows of the tasks with a status that are on a known node, one entry per task, by number of their shape."""
    found: dict[int, list[int]] = {}
    for task in tasks:
        if task.status is status and task.node >= 0:
            found.setdefault(task.shape.number, []).append(task.node)
    return {number: nodes.rows[numbers] for number, numbers in found.items()}


def held_amounts(shapes: Sequence[Shape], held: Mapping[int, Ints]) -> Iterator[tuple[int, Ints, Ints]]:
    """By resource that any of them asks for: the rows of tasks (which may repeat) and how much each holds.

    What it costs grows with tasks and not with shapes times nodes: clusters have pods that no other pod is like.
    """
    if not held:
        return
    rows = np.concatenate(list(held.values()))
    which = np.repeat(np.arange(len(held)), [len(rows) for rows in held.values()])
    requests = np.stack([shapes[number].request for number in held], axis=1)
    for r in np.flatnonzero(requests.any(axis=1)).tolist():
        yield r, rows, requests[r, which]
