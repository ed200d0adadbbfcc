"""Place a job by counting slots of a tree: gathered jobs, and jobs whose only constraint is on an alternate tree.

Called by `solve`, for the surplus, and by evicting actions and diagnosis, which count with it. A plugin gives the
options, best first: all tasks in one domain of a tier, with numbers whose multiples the domains of some tiers take.

What every domain can hold is then an arithmetic sequence, and so are sums of them: the tree is counted once from the
rows up, the count is exact for tasks of one shape, and dealing from the top down never needs to backtrack. Tasks of
several shapes, and those that move filters, are tried on the ledger; what that leaves open is asked of the integer
program of `exact`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, partial
from itertools import islice, product
from math import lcm, prod

import msgspec
import numpy as np
from msgspec.structs import replace

from tierwise.actions.placement.demand import Demand, RemainingTasks, TaskGroup
from tierwise.actions.placement.exact import Gathering, place_exactly, refuted
from tierwise.actions.placement.problem import NoPlace, Placement, SearchResult, found_on, place_tasks, usable
from tierwise.actions.placement.program import Multiples
from tierwise.actions.placement.trial import confined, fit_any_way
from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import Ask, GatherOption
from tierwise.framework.ledger import Pool
from tierwise.model.arrays import EMPTY, Bools, Ints
from tierwise.model.job import Job, PodSet, Shape, SubJob
from tierwise.model.topology import ROOT, Topology

__all__ = [
    "Quanta",
    "SlotTree",
    "gathering_of",
    "gathering_on",
    "in_common",
    "most_in_multiples",
    "place_in_multiples",
    "slot_tree",
]


class OutOfBoundError(Exception):
    """There are more choices than are looked at."""


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

    def around(self, places: Ints) -> Ints:
        """By row, which of some places, none inside another, it is in; -1 for none."""
        size = len(self.topology)
        place_of_row = np.full(len(self.rows), -1, dtype=np.int64)
        rows = places[places >= size] - size
        place_of_row[rows] = rows + size
        for domain in places[places < size].tolist():
            place_of_row[self.topology.span(domain)] = domain
        return place_of_row

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
        self.usable: Bools = tree.inside | anywhere  # by row of the tree
        self._room = np.concatenate((self._least[:size], np.where(self.usable, tree.room, 0)))
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


def gathering_of(cycle: Cycle, job: Job, task_group: TaskGroup, option: GatherOption) -> Gathering:
    """What an option asks for, in words of the integer program."""
    return gathering_on(cycle, _any_rows(cycle, job, task_group), option, task_group.need)


def in_common(options: Sequence[GatherOption]) -> GatherOption:
    """An option that allows whatever one of several allows."""
    shared = frozenset.intersection(*(frozenset(option.multiples) for option in options))
    return GatherOption(max(option.tier for option in options), tuple(sorted(shared)))


def _any_rows(cycle: Cycle, job: Job, task_group: TaskGroup) -> SlotTree:
    """The job's tree, with the rows that take any of its tasks."""
    rooms: list[Ints] = []
    for tasks_left in task_group.remaining:
        fit_counts = cycle.fit_counts.of(tasks_left.pod_set.shape).rows(Pool.FUTURE_IDLE)
        rooms.append(np.minimum(fit_counts, tasks_left.left))
    return slot_tree(cycle, task_group.sub, job, np.add.reduce(rooms))


def gathering_on(cycle: Cycle, tree: SlotTree, option: GatherOption, count: int, only: int = -1) -> Gathering:
    """The homes of an option, or `only` one of them, and the multiples of the places inside."""
    topology, size = tree.topology, len(tree.topology)
    quanta = Quanta(tree, option)
    homes = np.full(len(cycle.nodes), -1, dtype=np.int64)
    places = quanta.places if only < 0 else np.array([only])
    places = places[(count + tree.held[places]) % quanta.whole == 0]
    homes[tree.rows] = np.where(quanta.usable, tree.around(places), -1)
    multiples: list[Multiples] = []
    inner = [d for tier, d in topology.at_tier.items() if tier < option.tier]
    for level in (size + np.arange(len(tree.rows)), *inner) if option.multiples and option.tier > 0 else ():
        by_row = np.full(len(homes), -1, dtype=np.int64)
        by_row[tree.rows] = tree.around(level[quanta.quantum[level] > 1])
        by_row[homes < 0] = -1
        if (by_row >= 0).any():
            multiples.append(Multiples(by_row, quanta.quantum, tree.held))
    return Gathering(homes, tuple(multiples))


def _place_exactly(
    cycle: Cycle, job: Job, task_group: TaskGroup, option: GatherOption, pool: Pool
) -> SearchResult | NoPlace:
    """A place by the integer program: in the first few domains that may hold a task group, one by one, then in any."""
    demand, tree = Demand((task_group,)), _any_rows(cycle, job, task_group)
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
