"""Place a job by counting slots of a tree: gathered jobs, and jobs whose only constraint is on an alternate tree.

Called by `solve`, for the surplus, and by evicting actions and diagnosis, which count with it. A plugin gives the
options, best first: all tasks in one domain of a tier, with numbers whose multiples the domains of some tiers take.

What every domain can hold is then an arithmetic sequence, and so are sums of them: the tree is counted once from the
rows up, the count is exact for tasks of one shape, and dealing from the top down never needs to backtrack. Tasks of
several shapes are counted as `mixtures`, and tasks that move filters are tried on the ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import chain, islice, product
from math import lcm

import msgspec
import numpy as np
from msgspec.structs import replace

from tierwise.actions.placement.demand import TaskGroup
from tierwise.actions.placement.mixtures import (
    Axes,
    BlockCounts,
    Mix,
    Options,
    OutOfBoundError,
    Row,
    Sum,
    each_choice,
    holds,
)
from tierwise.actions.placement.problem import NoPlace, Placement, SearchResult, found_on, place_tasks, usable
from tierwise.actions.placement.trial import confined, fit_any_way
from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import Ask, GatherOption
from tierwise.framework.ledger import Pool
from tierwise.model.arrays import EMPTY, Bools, Ints
from tierwise.model.job import Job, PodSet, Shape, SubJob
from tierwise.model.topology import ROOT, Topology

__all__ = ["Quanta", "SlotTree", "mixed_in_multiples", "most_in_multiples", "place_in_multiples", "slot_tree"]

_NEVER = 2**40
"""More tasks than there are: what a place would have to take that can take none."""


class SlotTree(msgspec.Struct, frozen=True, dict=True):
    """A tree whose places are its domains and, numbered after these, its rows; and what rows take of one shape."""

    topology: Topology
    rank: Ints  # natural order of the nodes' names
    room: Ints  # per row
    drawn: Ints  # per row: tasks that others should be near to
    standing: Ints  # per row: placed tasks of the gang itself
    rows: Ints  # of the cluster
    gathered: bool = True  # tasks are never placed on rows outside of the tree

    @cached_property
    def near(self) -> Ints:
        """By place: tasks that others should be near to."""
        return np.concatenate((self.topology.totals(self.drawn), self.drawn))

    @cached_property
    def held(self) -> Ints:
        """By place: placed tasks of the gang."""
        return np.concatenate((self.topology.totals(self.standing), self.standing))

    @cached_property
    def inside(self) -> Bools:
        """Which rows belong to the tree: are in a domain below its root."""
        return self.topology.leaf != ROOT if len(self.topology) > 1 else np.ones(len(self.room), dtype=bool)

    def rows_in(self, place: int) -> Ints:
        """The rows of the cluster that belong to a place."""
        size = len(self.topology)
        return self.rows[self.topology.span(place) if place < size else slice(place - size, place - size + 1)]


def slot_tree(cycle: Cycle, sub: SubJob, job: Job, room: Ints) -> SlotTree:
    """The job's tree as tasks see it that find so much room on each row of the cluster."""
    nodes, placed, tree = len(cycle.nodes), cycle.ledger.placed_rows(sub), cycle.tree_of(job.constraint)
    tasks_by_row = np.zeros(nodes, dtype=np.int64)
    if placed is not None:
        tasks_by_row += np.bincount(*placed, minlength=nodes).astype(np.int64)
    drawn = tasks_by_row if job.gather is None else tasks_by_row + np.bincount(job.gather.drawn, minlength=nodes)
    rows = tree.rows
    gathered = job.gather is not None
    return SlotTree(tree.topology, cycle.nodes.rank[rows], room[rows], drawn[rows], tasks_by_row[rows], rows, gathered)


class Quanta:
    """What the places of a tree may take under an option: low, low + quantum, ..., top; top is -1 for nothing."""

    def __init__(self, tree: SlotTree, option: GatherOption) -> None:
        topology, self.tree, self._option = tree.topology, tree, option
        self._size = size = len(topology)
        tiers = np.array(list(topology.at_tier))
        inner = np.array([lcm(*(n for at, n in option.multiples if at < tier)) for tier in tiers.tolist()])
        self.within: Ints = inner[np.searchsorted(tiers, topology.tier)]  # per domain, of what is directly in it
        self.whole = lcm(*(number for _, number in option.multiples))
        parent = np.concatenate((topology.parent, topology.leaf))
        self.quantum: Ints = np.where(parent >= 0, self.within[parent], self.whole)
        self._name = np.concatenate((topology.rank, tree.rank))
        self._least = np.zeros(len(parent), dtype=np.int64)
        anywhere = not tree.gathered and option.tier >= topology.tier[ROOT]
        self._room = np.concatenate((self._least[:size], np.where(tree.inside | anywhere, tree.room, 0)))
        self._low, self.top = np.zeros_like(self._least), np.zeros_like(self._least)
        for places in (np.arange(size, len(parent)), *topology.at_tier.values()):
            minimum, room, held_by_place, quantum = (
                self._least[places],
                self._room[places],
                tree.held[places],
                self.quantum[places],
            )
            low, top = minimum + (-held_by_place - minimum) % quantum, room - (room + held_by_place) % quantum
            never, outer, around = top < low, parent[places], parent[places] >= 0
            self._low[places], self.top[places] = low, np.where(never, -1, top)
            np.add.at(self._least, outer[around], np.where(never, _NEVER, low)[around])
            np.add.at(self._room, outer[around], np.where(never, 0, top)[around])

    @property
    def places(self) -> Ints:
        """The domains of the option's tier, or the rows for tier 0: only those around the gang's placed tasks."""
        tier, topology = self._option.tier, self.tree.topology
        candidates = topology.at_tier.get(tier, EMPTY) if tier > 0 else self._size + np.flatnonzero(self.tree.inside)
        result: Ints = candidates[self.tree.held[candidates] == self.tree.standing.sum()]
        return result

    def holding(self, count: int) -> Ints:
        """The places that take exactly so many tasks, if no other place takes any."""
        places = self.places
        fits = (self._least[places] <= count) & (count <= self._room[places])
        holding: Ints = places[fits & ((count + self.tree.held[places]) % self.whole == 0)]
        return holding

    def most(self, count: int) -> int:
        """How many of so many tasks the best place takes, if no other takes any."""
        places = self.places
        upto = np.minimum(self._room[places], count)
        upto -= (upto + self.tree.held[places]) % self.whole
        return int(upto[upto >= self._least[places]].max(initial=0))

    def offers(self) -> Ints:
        """The places, those that can take the most first."""
        places = self.places
        return places[np.lexsort((self._name[places], -self.top[places]))]

    def best_first(self, count: int) -> Ints:
        """The places that hold so many tasks: near what they are drawn to, then the least room, then the same of the
        domains around them, then by name.
        """
        places, topology, near = self.holding(count), self.tree.topology, self.tree.near
        around = topology.around(topology.leaf[places - self._size] if self._option.tier <= 0 else places)
        outer = [tier for tier in topology.at_tier if tier > self._option.tier]
        listed = [tier for tier in dict.fromkeys((*self._option.compare, *outer)) if tier in around]
        keys = [-near[places], *(-near[around[tier]] for tier in outer)]
        keys += [self.top[places], *(self.top[around[tier]] for tier in listed), self._name[places]]
        return places[np.lexsort(keys[::-1])]

    def each(self, count: int) -> Iterator[Ints]:
        """Of every place for so many tasks, best first, a row of the cluster for each task in rank order."""
        for place in self.best_first(count).tolist():
            yield self.tree.rows[self._deal(place, count)]

    def _deal(self, place: int, count: int) -> Ints:
        """A row for each task: first pipelines that stay together, then the rest."""
        if place >= self._size:
            return np.full(count, place - self._size)
        parts, quantum, pipeline = self.parts(place), int(self.within[place]), self._option.pipeline
        low, top = self._low[parts], self.top[parts]
        numbers = low + _shared(top - low, count - int(low.sum()), lcm(pipeline, quantum))
        numbers += _shared(top - numbers, count - int(numbers.sum()), quantum)
        together = numbers // pipeline * pipeline
        if not self.tree.topology.children[place]:
            return np.repeat(np.tile(parts - self._size, 2), np.concatenate((together, numbers - together)))
        used = np.flatnonzero(numbers)
        dealt = [self._deal(part, n) for part, n in zip(parts[used].tolist(), numbers[used].tolist(), strict=True)]
        rows_and_numbers = list(zip(dealt, together[used].tolist(), strict=True))
        return np.concatenate(
            [*(rows[:n] for rows, n in rows_and_numbers), *(rows[n:] for rows, n in rows_and_numbers)]
        )

    def parts(self, domain: int) -> Ints:
        """The places directly in a domain, first come first served: near what tasks are drawn to, roomy, by name."""
        topology = self.tree.topology
        own_span, children = topology.own_span(domain), np.array(topology.children[domain], dtype=np.int64)
        parts = np.concatenate((children, np.arange(self._size + own_span.start, self._size + own_span.stop)))
        inner = parts < self._size
        room = np.where(inner & self._option.by_name, 0, self.top[parts])
        return parts[np.lexsort((self._name[parts], ~inner, -room, -self.tree.near[parts]))]


def _shared(free: Ints, count: int, step: int) -> Ints:
    """One part after the other takes what it can of so many tasks, in whole steps."""
    free = free // step * step
    shares: Ints = np.clip(count // step * step - (np.cumsum(free) - free), 0, free)
    return shares


# Gangs, on the ledger.


def place_in_multiples(
    cycle: Cycle, job: Job, task_group: TaskGroup, options: Sequence[GatherOption], pools: tuple[Pool, ...]
) -> SearchResult | NoPlace:
    """The best place for a task group by the first option that has one, written to the ledger."""
    counts = cycle.report.search_counts
    cut, moving = counts.cut, any(cycle.pipeline.moving(shape) for shape in task_group.by_shape())
    for option, pool in product(options, usable(cycle, pools)):
        for (group_choice,) in each_choice(cycle, (task_group,)):
            gathering = _Gathering(cycle, job, group_choice)
            counts.trials += 1
            for method in (gathering.dealt, gathering.mixed):
                placements = cycle.ledger.attempt(method, option, pool)
                if placements is not None:
                    return found_on(cycle, placements)
    return NoPlace.of(bounded=moving or counts.cut > cut)


def most_in_multiples(cycle: Cycle, job: Job, task_group: TaskGroup, option: GatherOption) -> int:
    """How many tasks of a task group beyond the minimum may join the others now, by counting."""
    shape = task_group.remaining[0].pod_set.shape
    tree = slot_tree(cycle, task_group.sub, job, cycle.fit_counts.of(shape).rows(Pool.IDLE))
    return Quanta(tree, option).most(task_group.need)


_Tasks = dict[Shape, list[tuple[PodSet, int]]]
"""By shape: how many of which pod sets."""


class _Gathering:
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

    def mixed(self, option: GatherOption, pool: Pool) -> list[Placement] | None:
        """Several shapes: every row takes whatever mixture it has room for, or what is found in trying."""
        if len(self._tasks) == 1:
            return None
        if not self.moving and (option.pipeline == 1 or not option.multiples):
            counts = [(self._cycle.fit_counts.of(shape).rows(pool), number) for shape, number in self._counts.items()]
            tree = self._tree(np.add.reduce([np.minimum(rows, number) for rows, number in counts]))
            try:
                dealt = mixed_in_multiples(self._cycle, tree, option, self._counts, pool)
                return None if dealt is None else self._pour_each(dealt, pool)
            except OutOfBoundError:
                self._cycle.report.search_counts.cut += 1
        return None if option.multiples else self._tried(option, pool)

    def _pour_each(self, dealt: dict[int, tuple[int, ...]], pool: Pool) -> list[Placement]:
        placements: list[Placement] = []
        for i, (shape, tasks) in enumerate(self._tasks.items()):
            rows = np.repeat(list(dealt), [mix[i] for mix in dealt.values()])
            placements += self._pour({shape: tasks}, rows, pool) or ()
        return placements

    def _tried(self, option: GatherOption, pool: Pool) -> list[Placement] | None:
        """In every order, inside one domain after the other."""
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


# Several shapes in multiples.


def mixed_in_multiples(
    cycle: Cycle, tree: SlotTree, option: GatherOption, counts: Mapping[Shape, int], pool: Pool
) -> dict[int, Mix] | None:
    """Rows in the order in which they are filled, and how many tasks of each shape each takes, all in one place.

    `tree` has the room of each shape by itself. Of the places that take so many tasks by counting, which nearly always
    tells, the first few are looked at.
    """
    if not len(Quanta(tree, option).holding(sum(counts.values()))):
        return None
    axes = Axes(cycle, counts, pool, in_multiples=bool(option.multiples))
    kinds, alike = axes.kinds(tree.rows)
    options = [axes.options(kind) for kind in alike]
    max_by_kind = np.array([int((offsets.sum(axis=1) + values).max()) for offsets, values in options])
    quanta = Quanta(replace(tree, room=max_by_kind[kinds]), option)

    def taken(place: int, enough: Callable[[Ints], bool] | None = None) -> BlockCounts:
        """What a place takes; of its parts those come first that may have to take some, since tasks stand there."""
        if place >= len(tree.topology):
            row = place - len(tree.topology)
            return Row(int(tree.rows[row]), options[kinds[row]])
        parts = quanta.parts(place)
        parts = parts[quanta.top[parts] > 0]
        begun = tree.held[parts] > 0
        begun_parts, other_parts = (
            map(in_steps, part_numbers.tolist()) for part_numbers in (parts[begun], parts[~begun])
        )
        return Sum(axes, chain((Sum(axes, begun_parts),), other_parts), enough)

    def in_steps(place: int) -> BlockCounts:
        return InSteps(taken(place), int(quanta.quantum[place]), int(tree.held[place]))

    target = tuple(counts[shape] for shape in axes.shapes) + (0,) * (len(axes.most) - len(counts))
    for place in cycle.first(iter(quanta.best_first(sum(target)).tolist()), cycle.budget.mixed_places):
        place_counts = Sum(axes, (taken(place, partial(holds, mix=target)),))
        if holds(place_counts.table, target):
            mix_by_row = reversed(place_counts.unwind(target).items())
            return {row: tuple(mix[axes.position(shape)] for shape in counts) for row, mix in mix_by_row}
    return None


class InSteps:
    """A block of which only mixtures count that make a whole multiple together with what it holds."""

    def __init__(self, block: BlockCounts, quantum: int, already_held: int) -> None:
        offsets, values = block.options
        is_multiple = (offsets.sum(axis=1) + already_held) % quantum == 0
        self.options: Options = offsets[is_multiple], values[is_multiple]
        self.unwind = block.unwind
