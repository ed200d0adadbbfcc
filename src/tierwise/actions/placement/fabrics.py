"""Place a job whose constraints are on several trees, or whose sub-groups have theirs on another than rows follow.

Called by `solve` and for the surplus. Constraints become limits that rows know (`limits`), and `cells` deals tasks of
one shape exactly. Of tasks of several shapes it says which places counting leaves; within these they are packed by
score, and where that fails, in every way there is. Tasks that keep each other away are tried on the ledger alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np
from msgspec.structs import replace

from tierwise.actions.placement.cells import Cells, Dealt
from tierwise.actions.placement.demand import Demand, RemainingTasks, TaskGroup, counts_by_pod_set
from tierwise.actions.placement.limits import Tiers, attempts, limited, within_limits
from tierwise.actions.placement.problem import BOTH, NOW_ONLY, Budget, Limit, NoPlace, Part, Placement, SearchResult
from tierwise.actions.placement.trial import place_tasks
from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import Ask
from tierwise.framework.ledger import Pool, sub_ready
from tierwise.model.arrays import Bools, Ints
from tierwise.model.job import Job
from tierwise.model.shape import Shape

__all__ = ["fabric_surplus", "search_fabrics"]

_SETUP = 50
"""What it costs to look at one more way, in such choices."""

_DEEPEST = 256
"""How many tasks of several shapes are packed in every way there is; more are packed by score alone."""

_GRAIN = 2.0**20


class _OutOfStepsError(Exception):
    """The search has made all the steps that it may."""


def search_fabrics(cycle: Cycle, job: Job, asked: Demand, *, pools: tuple[Pool, ...] = BOTH) -> SearchResult | NoPlace:
    """The best place for a demand, written to the ledger."""
    bounded, budget = not _interchangeable(asked), Budget(cycle.budget.steps)
    for tiers in attempts(cycle, job):
        for pool in pools if cycle.ledger.any_releasing else pools[:1]:
            cycle.report.search_counts.trials += 1
            with cycle.ledger.statement() as statement:
                found = _Attempt(cycle, job, asked.task_groups, tiers, pool).run(budget)
                if not isinstance(found, NoPlace):
                    statement.keep()
                    rows = np.concatenate([placement.rows for placement in found])
                    return SearchResult(cycle.topology.meet_rows(rows), tuple(found), 0.0)
                bounded |= found is NoPlace.BOUNDED
    return NoPlace.of(bounded=bounded)


def fabric_surplus(cycle: Cycle, job: Job, task_group: TaskGroup) -> list[Placement]:
    """As many tasks of a task group beyond the minimum as fit beside the others; a sub-job without its own, whole."""

    def placed(number: int, *, keep: bool) -> list[Placement]:
        with cycle.ledger.statement() as statement:
            found = search_fabrics(cycle, job, Demand((replace(task_group, need=number),)), pools=NOW_ONLY)
            if keep and isinstance(found, SearchResult):
                statement.keep()
            cycle.report.search_counts.cut += found is NoPlace.BOUNDED
            return list(found.placements) if isinstance(found, SearchResult) else []

    everything = placed(task_group.need, keep=True)
    if everything or (job.policies and cycle.pipeline.gangs and not sub_ready(cycle.ledger, task_group.sub)):
        return everything
    least, most = 0, task_group.need - 1
    while least < most:  # where a number of tasks fits, fewer fit as well
        middle = (least + most + 1) // 2
        least, most = (middle, most) if placed(middle, keep=False) else (least, middle - 1)
    return placed(least, keep=True) if least else []


def _interchangeable(asked: Demand) -> bool:
    """Whether other selections of sub-groups would fare no better, each being like those that were selected."""
    kinds = {
        (g.need, g.sub.policy, g.sub.inner_group, tuple(r.pod_set.shape.number for r in g.remaining))
        for g in (*asked.task_groups, *asked.spares)
    }
    return asked.alternatives is None and not asked.open and (not asked.spares or len(kinds) == 1)


_Asked = tuple[TaskGroup, RemainingTasks, int, Bools]
"""So many of the remaining tasks of a task group, and the rows that they may go to."""


class _Attempt:
    """One question to `Cells`, and its answer on the ledger."""

    def __init__(self, cycle: Cycle, job: Job, task_groups: Sequence[TaskGroup], tiers: Tiers, pool: Pool) -> None:
        self._cycle, self._job, self._pool = cycle, job, pool
        self._task_groups = task_groups
        self._shapes = {r.pod_set.shape.number: r.pod_set.shape for g in task_groups for r in g.remaining}
        self._moves = any(cycle.pipeline.moving(shape) for shape in self._shapes.values())
        self._counted = len(self._shapes) == 1 and not self._moves
        self._choices = cycle.budget.tree_rows
        self._whole = limited(cycle, job, task_groups, tiers)

    def run(self, budget: Budget) -> list[Placement] | NoPlace:
        """Where the tasks go, written to the ledger."""
        trials = self._cycle.budget.tree_trials
        cells = Cells(self._whole, self._room(), self._order())
        ways = islice(cells.solutions(budget, self._cycle.budget.tree_steps), trials if self._moves else None)
        try:
            for number, dealt in enumerate(found for _ in ways if (found := cells.deal()) is not None):
                tried = (self._try, self._pack) if number < trials else (self._pack,)
                for way in (self._write,) if self._counted else tried:
                    with self._cycle.ledger.statement() as statement:
                        placements = way(dealt)
                        if placements is not None:
                            statement.keep()
                            return placements
        except _OutOfStepsError:
            return NoPlace.BOUNDED
        return NoPlace.of(bounded=self._moves or cells.bounded)

    def _room(self) -> Ints:
        """How many tasks each row takes, of whichever shape it takes the most of."""
        room: Ints = np.maximum.reduce(
            [self._cycle.fit_counts.of(shape).rows(self._pool) for shape in self._shapes.values()]
        )
        return room

    def _order(self) -> Ints:
        """Rows by score, then by name."""
        cycle, first = self._cycle, self._task_groups[0]
        ask, everywhere = self._ask(first, first.remaining[0].pod_set.shape), slice(0, len(cycle.nodes))
        keys = np.rint(cycle.pipeline.score(ask, everywhere, self._room() > 0) * _GRAIN).astype(np.int64)
        order = np.empty(len(keys), dtype=np.int64)
        order[np.lexsort((cycle.nodes.rank, -keys))] = np.arange(len(keys))
        return order

    def _ask(self, task_group: TaskGroup, shape: Shape) -> Ask:
        return Ask(shape, task_group.sub, self._job)

    def _groups(self, dealt: Sequence[Dealt]) -> Iterator[tuple[TaskGroup, Ints, Bools]]:
        """Each task group with the rows that it was dealt, and all rows of its place."""
        for leaves, rows, place in dealt:
            for i, leaf in enumerate(leaves):
                if leaf.task_group is not None:
                    yield leaf.task_group, rows[i * leaf.pods : (i + 1) * leaf.pods], place

    def _write(self, dealt: Sequence[Dealt]) -> list[Placement]:
        placements = []
        for task_group, rows, _ in self._groups(dealt):
            start = 0
            for tasks_left, number in zip(task_group.remaining, counts_by_pod_set(task_group), strict=True):
                if number:
                    picks = np.unique(rows[start : start + number], return_counts=True)
                    ask = self._ask(task_group, tasks_left.pod_set.shape)
                    placements.append(place_tasks(self._cycle, ask, tasks_left.pod_set, picks, self._pool))
                    start += number
        return placements

    def _try(self, dealt: Sequence[Dealt]) -> list[Placement] | None:
        """Task by task onto the rows of each group's place, those of the largest shape first."""
        placements: list[Placement] = []
        for task_group, _, place in self._groups(dealt):
            asked = zip(task_group.remaining, counts_by_pod_set(task_group), strict=True)
            for tasks_left, number in sorted(asked, key=lambda entry: self._freedom(entry[0].pod_set.shape)):
                for _ in range(number):
                    row = self._best_row(task_group, tasks_left.pod_set.shape, place)
                    if row is None:
                        return None
                    ask, one = self._ask(task_group, tasks_left.pod_set.shape), np.ones(1, dtype=np.int64)
                    placements.append(
                        place_tasks(self._cycle, ask, tasks_left.pod_set, (np.array([row]), one), self._pool)
                    )
        return placements if within_limits(self._cycle, self._job) else None

    def _pack(self, dealt: Sequence[Dealt]) -> list[Placement] | None:
        """Every way to put the tasks onto the rows of their places, the largest first; none where they move others."""
        if self._moves:
            return None
        if sum(task_group.need for task_group in self._task_groups) > _DEEPEST:
            raise _OutOfStepsError
        self._choices -= _SETUP
        cycle, everywhere = self._cycle, slice(0, len(self._cycle.nodes))
        asked = [
            (task_group, tasks_left, number, place)
            for task_group, _, place in self._groups(dealt)
            for tasks_left, number in zip(task_group.remaining, counts_by_pod_set(task_group), strict=True)
            if number
        ]
        asked.sort(key=lambda entry: self._freedom(entry[1].pod_set.shape))
        used = np.flatnonzero(np.any([shape.request > 0 for shape in self._shapes.values()], axis=0))
        free = cycle.ledger.free(used, everywhere, self._pool).copy()
        opened = {n: cycle.fit_counts.of(shape).why == 0 for n, shape in self._shapes.items()}
        # Rows that no task of the job could tell apart, but for what is free on them.
        marks = np.stack([place for *_, place in asked] + [opened[n] for n in sorted(opened)]).astype(np.int64)
        spread = [limit.homes for limit in _limits(self._whole) if limit.fewest]
        kinds = np.unique(np.concatenate((marks, np.stack(spread))) if spread else marks, axis=1, return_inverse=True)
        kind = kinds[1].ravel()
        tasks = [i for i, (_, _, number, _) in enumerate(asked) for _ in range(number)]
        rows: list[int] = []
        failed: set[bytes] = set()

        def fits(position: int) -> bool:
            if position == len(tasks):
                return self._kept(asked, tasks, rows)
            state = position.to_bytes(4, "little") + free.tobytes()
            if state in failed and not spread:
                return False
            self._choices -= 1
            if self._choices < 0:
                raise _OutOfStepsError
            _, tasks_left, _, place = asked[tasks[position]]
            shape = tasks_left.pod_set.shape
            request = shape.request[used]
            able = np.flatnonzero(place & opened[shape.number] & (free >= request[:, None]).all(axis=0))
            seen: set[bytes] = set()
            for row in able.tolist():
                alike = int(kind[row]).to_bytes(4, "little") + free[:, row].tobytes()
                if alike in seen:
                    continue
                seen.add(alike)
                free[:, row] -= request
                rows.append(row)
                if fits(position + 1):
                    return True
                rows.pop()
                free[:, row] += request
            failed.add(state)
            return False

        return self._put(asked, tasks, rows) if fits(0) else None

    def _kept(self, asked: Sequence[_Asked], tasks: Sequence[int], rows: Sequence[int]) -> bool:
        """Whether tasks on these rows stand in as many domains as they must."""
        with self._cycle.ledger.statement():
            self._put(asked, tasks, rows)
            return within_limits(self._cycle, self._job)

    def _put(self, asked: Sequence[_Asked], tasks: Sequence[int], rows: Sequence[int]) -> list[Placement]:
        placements = []
        for i, (task_group, tasks_left, _, _) in enumerate(asked):
            mine = np.array([row for task, row in zip(tasks, rows, strict=True) if task == i], dtype=np.int64)
            ask, picks = self._ask(task_group, tasks_left.pod_set.shape), np.unique(mine, return_counts=True)
            placements.append(place_tasks(self._cycle, ask, tasks_left.pod_set, picks, self._pool))
        return placements

    def _freedom(self, shape: Shape) -> int:
        return int(self._cycle.fit_counts.of(shape).rows(self._pool).sum())

    def _best_row(self, task_group: TaskGroup, shape: Shape, place: Bools) -> int | None:
        """The row of a place with the highest score for one more task."""
        cycle, everywhere = self._cycle, slice(0, len(self._cycle.nodes))
        ask = self._ask(task_group, shape)
        fits = cycle.fits(ask, everywhere, self._pool) & place
        rows = np.flatnonzero(fits)
        if not len(rows):
            return None
        keys = np.rint(cycle.pipeline.score(ask, everywhere, fits) * _GRAIN)[rows]
        return int(rows[np.lexsort((cycle.nodes.rank[rows], -keys))[0]])


def _limits(part: Part) -> Iterator[Limit]:
    yield from part.limits
    for inner in part.parts:
        yield from _limits(inner)
