"""Count which mixtures of several shapes rows take together, for gangs whose pods are gathered in multiples.

A mixture is a number of tasks of each shape. The mixtures that some rows can take together form a set that is closed
downwards, so one array describes it: for every number of tasks of all shapes but the most numerous, how many of that
one fit beside them (-1 if the others alone do not fit). Two disjoint sets of rows take every sum of their mixtures,
which is a convolution of the arrays; counting from the rows up finds a mixture that fits whenever there is one.

Called by `quanta`. The work is bounded: by default at most 2^23 array cells are kept and 2^28 are added, and
`OutOfBoundError` is raised beyond. Two shapes of a thousand tasks each, or three of thirty, are far below that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice, product
from math import prod
from typing import Protocol

import msgspec
import numpy as np
from msgspec.structs import replace

from tierwise.actions.placement.demand import RemainingTasks, TaskGroup
from tierwise.framework.cycle import Cycle
from tierwise.framework.ledger import Pool
from tierwise.model.arrays import Ints, distinct
from tierwise.model.job import Shape

__all__ = [
    "Axes",
    "BlockCounts",
    "Choices",
    "Mix",
    "Options",
    "OutOfBoundError",
    "Row",
    "Sum",
    "each_choice",
    "holds",
]

Mix = tuple[int, ...]
"""How many tasks of each shape."""


class OutOfBoundError(Exception):
    """The exact count would take too long: what was asked is not known."""


_WORK_OF_A_STEP = 4096
"""Cells of a table that are added up in one step of the account."""

Options = tuple[Ints, Ints]
"""Mixtures of the shapes but the last, (mixtures x shapes), and how many of the last fit beside each."""


class BlockCounts(Protocol):
    """Some rows, and what they take together."""

    @property
    def options(self) -> Options: ...

    def unwind(self, mix: Mix) -> dict[int, Mix]:
        """Rows with what each takes of a mixture that fits, the last that is filled first."""


class Axes:
    """The shapes of a demand with the most that is asked of each, on one pool; the most numerous shape is the last.

    Where tasks come `in_multiples`, less may not fit where more does: then the last is a shape of which nothing is
    asked, so that tables say of every mixture of the others whether it fits.
    """

    def __init__(
        self, cycle: Cycle, largest_numbers: Mapping[Shape, int], pool: Pool, *, in_multiples: bool = False
    ) -> None:
        ordered = sorted(
            largest_numbers, key=largest_numbers.__getitem__
        )  # numbers of shapes depend on who was read first
        self.shapes = tuple(largest_numbers if in_multiples else ordered)
        self.most: Mix = tuple(largest_numbers[shape] for shape in self.shapes)
        self._cycle = cycle
        self._pool = pool
        self._asked = distinct(np.concatenate([shape.asked for shape in self.shapes]))
        self._requests = np.stack([shape.request[self._asked] for shape in self.shapes])
        self._rooms = [cycle.fit_counts.of(shape).rows(pool) for shape in self.shapes]
        if in_multiples:
            self.most = (*self.most, 0)
            self._requests = np.append(self._requests, np.zeros((1, len(self._asked)), dtype=np.int64), axis=0)
            self._rooms.append(np.zeros_like(self._rooms[0]))
        self.size = tuple(number + 1 for number in self.most[:-1])
        self._kinds: dict[bytes, Options] = {}
        self._work = 0
        self._cells = 0
        if prod(self.size) > cycle.budget.cells:
            raise OutOfBoundError

    def position(self, shape: Shape) -> int:
        return self.shapes.index(shape)

    def table(self, options: Options) -> Ints:
        """For every mixture of the shapes but the last, how many of the last fit beside it; -1 if it does not fit."""
        offsets, values = options
        table = np.full(self.size, -1, dtype=np.int64 if self.most[-1] else np.int8)
        table[tuple(offsets.T)] = values
        return table

    def nothing(self) -> Ints:
        """The table of no row at all: it takes no task."""
        return self.table((np.zeros((1, len(self.size)), dtype=np.int64), np.zeros(1, dtype=np.int64)))

    def plus(self, table: Ints, options: Options) -> Ints:
        """The table of two sets of rows together; the second one takes `options`.

        Raises OutOfBoundError beyond the budget.
        """
        if len(options[1]) > np.count_nonzero(table >= 0):
            table, options = self.table(options), _options(table)
        work = len(options[1]) * table.size
        self._cycle.steps.charge(1 + work // _WORK_OF_A_STEP)
        self._cells += table.size
        self._work += work
        if self._cells > self._cycle.budget.cells or self._work > self._cycle.budget.work:
            raise OutOfBoundError
        result = np.full_like(table, -1)
        for offset, value in zip(*(numbers.tolist() for numbers in options), strict=True):
            into = tuple(slice(number, None) for number in offset)
            source = table[tuple(slice(0, size - number) for size, number in zip(self.size, offset, strict=True))]
            np.maximum(result[into], np.where(source < 0, -1, source + value) if value else source, out=result[into])
        np.minimum(result, self.most[-1], out=result)
        return result

    def rows(self, rows: Ints) -> Iterator[Row]:
        """The rows that take any task; of alike rows no more than there are tasks."""
        kinds, alike = self.kinds(rows)
        seen = [0] * len(alike)
        for row, kind in zip(rows.tolist(), kinds.tolist(), strict=True):
            seen[kind] += 1
            if seen[kind] <= sum(self.most) and alike[kind, len(self._asked) :].any():
                yield Row(row, self.options(alike[kind]))

    def kinds(self, rows: Ints) -> tuple[Ints, Ints]:
        """A number for each row that alike rows share; and what tells each kind: what is free, how much alone fits."""
        fit_counts = np.stack(
            [
                np.minimum(room[rows], largest_number)
                for room, largest_number in zip(self._rooms, self.most, strict=True)
            ]
        )
        free = self._cycle.ledger.free(self._asked, rows, self._pool)
        useful = np.minimum(free, (np.array(self.most) @ self._requests)[:, None])  # the rest does not matter
        useful[:, ~fit_counts.any(axis=0)] = 0
        alike, kinds = np.unique(np.concatenate((useful, fit_counts)), axis=1, return_inverse=True)
        return kinds.ravel(), alike.T

    def options(self, kind: Ints) -> Options:
        """Mixtures of tasks that rows of a kind take."""
        options = self._kinds.get(kind.tobytes())
        if options is None:
            resources = len(self._asked)
            options = self._kinds[kind.tobytes()] = self._measure(kind[:resources], kind[resources:].tolist())
        return options

    def _measure(self, free: Ints, limits: list[int]) -> Options:
        """The mixtures that a row with so much free, and room for so many tasks of each shape alone, takes."""
        cells = prod(limit + 1 for limit in limits[:-1])
        if cells > self._cycle.budget.cells:
            raise OutOfBoundError
        offsets = np.indices([limit + 1 for limit in limits[:-1]]).reshape(len(limits) - 1, cells).T
        used = offsets @ self._requests[:-1]
        fits = ((used <= free) | (used == 0)).all(axis=1)
        offsets = offsets[fits]
        free_after = free - used[fits]
        requests_any = self._requests[-1] > 0
        values = (free_after[:, requests_any] // self._requests[-1][requests_any]).min(axis=1, initial=limits[-1])
        return offsets, np.maximum(values, 0)


def _options(table: Ints) -> Options:
    return np.argwhere(table >= 0), table[table >= 0]


def holds(table: Ints, mix: Mix) -> bool:
    """Whether a mixture is in the set."""
    return bool(table[mix[:-1]] >= mix[-1])


class Row(msgspec.Struct, frozen=True):
    """A row by itself."""

    row: int
    options: Options

    def unwind(self, mix: Mix) -> dict[int, Mix]:
        return {self.row: mix} if any(mix) else {}


class Sum:
    """Disjoint blocks together, in the order in which they are filled; `enough` may say that no more are needed."""

    def __init__(self, axes: Axes, blocks: Iterable[BlockCounts], enough: Callable[[Ints], bool] | None = None) -> None:
        self._blocks: list[BlockCounts] = []
        self._tables = [axes.nothing()]
        for block in blocks:
            if enough is not None and enough(self._tables[-1]):
                break
            self._blocks.append(block)
            self._tables.append(axes.plus(self._tables[-1], block.options))
        self.table = self._tables[-1]

    @property
    def options(self) -> Options:
        return _options(self.table)

    def unwind(self, mix: Mix) -> dict[int, Mix]:
        mix_by_row: dict[int, Mix] = {}
        for block, before in zip(reversed(self._blocks), reversed(self._tables[:-1]), strict=True):
            mine = _share(block.options, before, mix)
            mix_by_row |= block.unwind(mine)
            mix = tuple(a - b for a, b in zip(mix, mine, strict=True))
        return mix_by_row


def _share(options: Options, before: Ints, mix: Mix) -> Mix:
    """The least that the last part takes of a mixture if the parts before it take the rest."""
    offsets, values = options
    inside = (offsets <= np.array(mix[:-1], dtype=np.int64)).all(axis=1)
    offsets = offsets[inside]
    values = values[inside]
    mix_before = before[tuple((np.array(mix[:-1], dtype=np.int64) - offsets).T)]
    missing = np.maximum(mix[-1] - mix_before, 0)
    able = np.flatnonzero((mix_before >= 0) & (missing <= values))
    smallest = able[np.argmin(offsets[able].sum(axis=1) + missing[able])]
    return (*offsets[smallest].tolist(), int(missing[smallest]))


class Choices:
    """The ways to choose a task group's tasks from its remaining tasks, those that follow its order first."""

    def __init__(self, task_group: TaskGroup, bound: int) -> None:
        """OutOfBoundError where there are more than a bound."""
        max_counts = [min(tasks_left.left, task_group.need) for tasks_left in task_group.remaining]
        if sum(max_counts) == task_group.need:
            counts = np.array([max_counts], dtype=np.int64)
        else:
            if prod(number + 1 for number in max_counts[:-1]) > bound:
                raise OutOfBoundError
            counts = np.indices([number + 1 for number in max_counts[:-1]]).reshape(len(max_counts) - 1, -1).T
            last_counts = task_group.need - counts.sum(axis=1)
            counts = np.column_stack((counts, last_counts))[(last_counts >= 0) & (last_counts <= max_counts[-1])]
        for role, minimum in task_group.roles.items():
            positions = [
                i for i, tasks_left in enumerate(task_group.remaining) if tasks_left.pod_set.role_number == role
            ]
            counts = counts[counts[:, positions].sum(axis=1) >= minimum]
        self._task_group = task_group
        self._counts: Ints = counts[::-1]  # the more of the first remaining tasks the better

    def unlike(self) -> Iterator[TaskGroup]:
        """The task group with exactly the tasks of one choice after the other, one for each mixture of shapes."""
        shapes = [tasks_left.pod_set.shape.number for tasks_left in self._task_group.remaining]
        seen: set[tuple[tuple[int, int], ...]] = set()
        for number, counts in enumerate(self._counts.tolist()):
            mix: Counter[int] = Counter()
            for shape, count in zip(shapes, counts, strict=True):
                mix[shape] += count
            key = tuple(sorted(mix.items()))
            if key not in seen:
                seen.add(key)
                yield self.task_group(number)

    def task_group(self, number: int) -> TaskGroup:
        """The task group with exactly the tasks of one choice."""
        pairs = zip(self._task_group.remaining, self._counts[number].tolist(), strict=True)
        return replace(
            self._task_group,
            remaining=tuple(RemainingTasks(tasks_left.pod_set, count) for tasks_left, count in pairs if count),
        )


def each_choice(cycle: Cycle, task_groups: tuple[TaskGroup, ...]) -> Iterator[tuple[TaskGroup, ...]]:
    """Task groups that have more tasks than they need, with tasks of one choice after the other: for searches that
    place given tasks. The first is what each of them takes in its order; a bound on their number is noted.
    """
    max_choices = cycle.budget.ways

    def choices(task_group: TaskGroup) -> Iterable[TaskGroup]:
        if len(task_group.by_shape()) == 1 or task_group.firm():
            return (task_group,)
        try:
            return islice(
                Choices(task_group, cycle.budget.choices).unlike(), max_choices + 1
            )  # one more shows that there are
        except OutOfBoundError:
            cycle.report.search_counts.cut += 1
            return (task_group,)

    return cycle.first(product(*map(choices, task_groups)), max_choices)
