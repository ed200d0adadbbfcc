"""Place a job by counting slots of a tree: gathered jobs, and jobs whose only constraint is on an alternate tree.

Called by `solve`, for the surplus, and by evicting actions and diagnosis, which count with it. A plugin gives the
options, best first: all tasks in one domain of a tier, with numbers whose multiples the domains of some tiers take.

The tree is counted by `slots`, which is exact for tasks of one shape, and tasks are dealt from the top down. Tasks of
several shapes, and those that move filters, are tried on the ledger; what that leaves open is asked of the integer
program of `exact`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import islice, product
from math import prod

import numpy as np
from msgspec.structs import replace

from tierwise.actions.placement.demand import Demand, RemainingTasks, TaskGroup
from tierwise.actions.placement.exact import place_exactly, refuted
from tierwise.actions.placement.problem import NoPlace, Placement, SearchResult, found_on, place_tasks, usable
from tierwise.actions.placement.slots import Quanta, SlotTree, any_rows, gathering_on, slot_tree
from tierwise.actions.placement.trial import confined, fit_any_way
from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import Ask, GatherOption
from tierwise.framework.ledger import Pool
from tierwise.model.arrays import Ints
from tierwise.model.job import Job, PodSet, Shape
from tierwise.model.topology import ROOT

__all__ = ["most_in_multiples", "place_in_multiples"]


class OutOfBoundError(Exception):
    """There are more choices than are looked at."""


# Gangs, on the ledger.


def place_in_multiples(
    cycle: Cycle, job: Job, task_group: TaskGroup, options: Sequence[GatherOption], pools: tuple[Pool, ...]
) -> SearchResult | NoPlace:
    """The best place for a task group by the first option that has one, written to the ledger."""
    counts = cycle.report.search_counts
    cut = counts.cut
    plain = len(task_group.by_shape()) == 1 and not any(map(cycle.pipeline.moving, task_group.by_shape()))
    proven = True
    doubted = False
    for option, pool in product(options, usable(cycle, pools)):
        for (group_choice,) in each_choice(cycle, (task_group,)):
            gathering = _Gathered(cycle, job, group_choice)
            counts.trials += 1
            for method in (gathering.dealt, gathering.tried):
                placements = cycle.ledger.attempt(method, option, pool)
                if placements is not None:
                    return found_on(cycle, placements)
        if plain or (option.pipeline > 1 and option.multiples):
            continue
        if not doubted and refuted(cycle, job, Demand((task_group,))):
            counts.cut = cut  # whatever was cut short before, nothing was missed
            return NoPlace.PROVEN
        doubted = True
        placed = _place_exactly(cycle, job, task_group, option, pool)
        if isinstance(placed, SearchResult):
            return placed
        proven &= placed is NoPlace.PROVEN
    if doubted and proven:
        counts.cut = cut
    return NoPlace.of(bounded=not proven or counts.cut > cut)


def most_in_multiples(cycle: Cycle, job: Job, task_group: TaskGroup, option: GatherOption) -> int:
    """How many tasks of a task group beyond the minimum may join the others now, by counting."""
    shape = task_group.remaining[0].pod_set.shape
    tree = slot_tree(cycle, task_group.sub, job, cycle.fit_counts.of(shape).rows(Pool.IDLE))
    return Quanta(tree, option).most(task_group.need)


_Tasks = dict[Shape, list[tuple[PodSet, int]]]
"""By shape: how many of which pod sets."""


class _Gathered:
    """A task group, role minimums first, and the ways to place it under an option.

    A way that returns None may have written to the ledger: its caller rewinds.
    """

    def __init__(self, cycle: Cycle, job: Job, task_group: TaskGroup) -> None:
        self._cycle, self._job, self._task_group = cycle, job, task_group
        self._tasks: _Tasks = {}
        for pod_set, number in task_group.taken():
            self._tasks.setdefault(pod_set.shape, []).append((pod_set, number))
        self._counts = {shape: sum(number for _, number in tasks) for shape, tasks in self._tasks.items()}
        self._count = sum(self._counts.values())
        self.moving = any(map(cycle.pipeline.moving, self._tasks))

    def _tree(self, room: Ints) -> SlotTree:
        return slot_tree(self._cycle, self._task_group.sub, self._job, room)

    def dealt(self, option: GatherOption, pool: Pool) -> list[Placement] | None:
        """Count every task as the largest one, so that any task may take any slot; tasks follow in rank order."""
        for room in self._rooms(pool):
            dealings = Quanta(self._tree(room), option).each(self._count)
            for rows in (
                self._cycle.first(dealings, self._cycle.budget.gathered_places) if self.moving else islice(dealings, 1)
            ):
                placements = self._cycle.ledger.attempt(self._pour, self._tasks, rows, pool)
                if placements is not None:
                    return placements
        return None

    def _rooms(self, pool: Pool) -> Iterator[Ints]:
        """How many tasks each row takes, whichever of them they are; where nodes change, one each is tried first."""
        cycle, everywhere = self._cycle, slice(0, len(self._cycle.nodes))
        room = np.minimum.reduce([cycle.fit_counts.of(shape).rows(pool) for shape in self._tasks])
        if len(self._tasks) > 1:
            request = np.maximum.reduce([shape.request for shape in self._tasks])
            resources = np.flatnonzero(request)
            free = cycle.ledger.free(resources, everywhere, pool)
            room = np.minimum(room, np.maximum((free // request[resources, None]).min(axis=0), 0))
        if self.moving:
            allowed = np.logical_and.reduce([cycle.allowed(shape, everywhere, pool) for shape in self._tasks])
            room = np.where(allowed, room, 0)
            yield np.minimum(room, 1)
        yield room

    def tried(self, option: GatherOption, pool: Pool) -> list[Placement] | None:
        """Several shapes, in every order, inside one domain after the other."""
        if len(self._tasks) == 1 or option.multiples:
            return None
        cycle, lead = self._cycle, max(self._counts, key=self._counts.__getitem__)
        tree = self._tree(cycle.fit_counts.of(lead).rows(pool))
        places = Quanta(tree, option).best_first(self._counts[lead])
        for place in cycle.first(iter(places.tolist()), cycle.budget.gathered_places):
            rows = tree.rows_in(place)
            search = partial(fit_any_way, cycle, self._job, self._task_group, cycle.topology.meet_rows(rows), (pool,))
            placement = confined(cycle, self._job, rows, search)
            if isinstance(placement, SearchResult):
                return list(placement.placements)
        return None

    def _pour(self, tasks: _Tasks, rows: Ints, pool: Pool) -> list[Placement] | None:
        """Tasks in rank order onto rows in order; None where filters that move do not let one of them."""
        parts = [part for parts in tasks.values() for part in parts]
        ranks = [task.rank for pod_set, number in parts for task in self._cycle.backlog.peek(pod_set, number)]
        place = np.empty(len(ranks), dtype=np.int64)
        place[np.argsort(ranks, kind="stable")] = np.arange(len(ranks))
        placements, start = [], 0
        for pod_set, number in parts:
            task_rows = rows[place[start : start + number]]
            ask, start = Ask(pod_set.shape, self._task_group.sub, self._job), start + number
            for batch in task_rows[:, None] if self.moving else (task_rows,):
                if self.moving and not self._cycle.fits(ask, slice(batch[0], batch[0] + 1), pool)[0]:
                    return None
                place_tasks(self._cycle, ask, pod_set, np.unique(batch, return_counts=True), pool)
            placements.append(Placement(ask.sub, pod_set, task_rows, pool))  # each task on its own node, in rank order
        return placements


# Tasks of several shapes, or with rules between them.


def _place_exactly(
    cycle: Cycle, job: Job, task_group: TaskGroup, option: GatherOption, pool: Pool
) -> SearchResult | NoPlace:
    """A place by the integer program: in the first few domains that may hold a task group, one by one, then in any."""
    demand, tree = Demand((task_group,)), any_rows(cycle, job, task_group)
    places = Quanta(tree, option).best_first(task_group.need).tolist()
    closely, anywhere = places[: cycle.budget.mixed_places], places[cycle.budget.mixed_places :]
    homes = [gathering_on(cycle, tree, option, task_group.need, place) for place in closely]
    if anywhere:
        homes.append(gathering_on(cycle, tree, option, task_group.need))
    bounded = False
    for gathering in homes:
        placed = place_exactly(cycle, job, demand, ROOT, (pool,), gathering=gathering)
        if isinstance(placed, SearchResult):
            return placed
        bounded |= placed is NoPlace.BOUNDED
    return NoPlace.of(bounded=bounded)


# Which tasks of a task group that has more than it needs.


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
