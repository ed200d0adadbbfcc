"""Slots of a tree, counted: how many tasks of gathered jobs each domain holds, in steps, and where they may go.

A plugin gives the options, best first: all tasks in one domain of a tier, with numbers whose multiples the domains of
some tiers take. What every domain can hold is then an arithmetic sequence, and so are sums of them: the tree is counted
once from the rows up, the count is exact for tasks of one shape, and dealing from the top down never needs to
backtrack. `Gathering` is the same in words of the integer program. Placing is for `quanta` and `exact`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from math import lcm

import msgspec
import numpy as np

from tierwise.actions.placement.demand import TaskGroup
from tierwise.actions.placement.program import Multiples
from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import GatherOption
from tierwise.framework.ledger import Pool
from tierwise.model.arrays import EMPTY, Bools, Ints
from tierwise.model.job import Job, SubJob
from tierwise.model.topology import ROOT, Topology

__all__ = ["Gathering", "Quanta", "SlotTree", "any_rows", "gathering_of", "gathering_on", "in_common", "slot_tree"]


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


# The same in words of the integer program.


class Gathering(msgspec.Struct, frozen=True, eq=False):
    """Where tasks that are gathered may go: all of them to one home, by row, and how many each place takes."""

    homes: Ints
    multiples: tuple[Multiples, ...]


def gathering_of(cycle: Cycle, job: Job, task_group: TaskGroup, option: GatherOption) -> Gathering:
    """What an option asks for, in words of the integer program."""
    return gathering_on(cycle, any_rows(cycle, job, task_group), option, task_group.need)


def in_common(options: Sequence[GatherOption]) -> GatherOption:
    """An option that allows whatever one of several allows."""
    shared = frozenset.intersection(*(frozenset(option.multiples) for option in options))
    return GatherOption(max(option.tier for option in options), tuple(sorted(shared)))


def any_rows(cycle: Cycle, job: Job, task_group: TaskGroup) -> SlotTree:
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
