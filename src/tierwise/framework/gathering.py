"""Distribute tasks of one shape over a tree, all below one domain, in whole multiples per tier.

A `SlotTree` is the tree with the capacity of every node; a `GatherOption` says how tasks are to be gathered. Everything
is counted on arrays without a ledger, so evicting actions can use it with capacity that would be freed.

In the domains of one tier tasks come in multiples of the least common multiple of the numbers required at that tier and
below. What a domain can hold is therefore an arithmetic sequence, and so are sums of them: the tree is counted once
from the nodes up, the count is exact, and distributing from the top down never needs to backtrack.

*low* and *top* are the fewest and the most tasks that a domain may take, *drawn* are tasks that others should be near
to, *standing* are placed tasks of the gang itself. `gather_reference` in the tests states the same rule plainly.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from math import lcm

import msgspec
import numpy as np

from tierwise.model.arrays import Bools, Ints, summed
from tierwise.model.topology import ROOT, Topology

__all__ = ["GatherOption", "Gathered", "Quanta", "SlotTree"]

Multiples = tuple[tuple[int, int], ...]


class GatherOption(msgspec.Struct, frozen=True):
    """One way to gather: all tasks in one domain of a tier, or on one node for tier 0."""

    tier: int
    multiples: Multiples = ()  # (tier, number): in each domain of the tier tasks come in multiples of the number
    compare: tuple[int, ...] = ()  # tiers whose domains are compared for candidates of equal capacity
    pipeline: int = 1  # this many consecutive ranks stay together where possible
    by_name: bool = False  # domains are filled by name, not the largest first


class Gathered(msgspec.Struct, frozen=True, eq=False):
    """Where tasks go: the innermost domain that was chosen for all of them, and a row for each in rank order."""

    domain: int
    rows: Ints


class Quanta(msgspec.Struct, frozen=True, eq=False):
    """The number whose multiples each domain or row takes, placed tasks included."""

    domains: Ints
    rows: Ints
    held: Ints  # tasks of the gang in each domain
    standing: Ints  # on each row


class SlotTree(msgspec.Struct, frozen=True, dict=True):
    """A tree, the capacity of its nodes for one shape, and the tasks that are placed already."""

    topology: Topology
    rank: Ints  # natural order of the nodes' names
    room: Ints  # per row
    drawn: Ints  # per row
    standing: Ints  # per row

    def find(self, option: GatherOption, count: int) -> Gathered | None:
        """The best place for so many tasks; None where no domain of the tier holds them."""
        return next(self.each(option, count), None)

    def each(self, option: GatherOption, count: int) -> Iterator[Gathered]:
        """Every place for so many tasks, best first."""
        sums = _Sums(self, option.multiples)
        places, row_wise = self._candidates(option.tier)
        places = places[sums.holds(places, count, rows=row_wise)]
        for best in places[self._order(sums, option, places, rows=row_wise)].tolist():
            if row_wise:
                yield Gathered(int(self.topology.leaf[best]), np.full(count, best, dtype=np.int64))
            else:
                yield Gathered(best, _Deal(self, sums, option).run(best, count))

    def places(self, option: GatherOption, count: int) -> Ints:
        """The domains of the option's tier that hold so many tasks, in no order; rows for tier 0."""
        places, row_wise = self._candidates(option.tier)
        result: Ints = places[_Sums(self, option.multiples).holds(places, count, rows=row_wise)]
        return result

    def quanta(self, option: GatherOption) -> Quanta:
        """In which multiples tasks come on rows and in domains."""
        sums, parents = _Sums(self, option.multiples), self.topology.parent
        domains = np.where(parents >= 0, sums.within[parents], sums.whole)
        return Quanta(domains, sums.within[self.topology.leaf], self.held_below, self.standing)

    def most(self, option: GatherOption, count: int) -> int:
        """How many of so many tasks the best domain of the tier takes."""
        places, row_wise = self._candidates(option.tier)
        return int(_Sums(self, option.multiples).most(places, count, rows=row_wise).max(initial=0))

    def offers(self, option: GatherOption) -> tuple[Ints, Ints]:
        """The domains of the option's tier, largest capacity first, and what each can take; rows for tier 0."""
        places, row_wise = self._candidates(option.tier)
        sums = _Sums(self, option.multiples)
        top = (sums.row_top if row_wise else sums.top)[places]
        names = self.rank if row_wise else self.topology.rank
        order = np.lexsort((names[places], -top))
        return places[order], top[order]

    def nearest_rows(self) -> Ints:
        """The rows of the tree with free capacity, best first for a single task."""
        rows = np.flatnonzero(self.inside & (self.room > 0))
        return rows[self._order(_Sums(self, ()), GatherOption(0), rows, rows=True)]

    @cached_property
    def drawn_below(self) -> Ints:
        return self.topology.totals(self.drawn)

    @cached_property
    def held_below(self) -> Ints:
        return self.topology.totals(self.standing)

    @cached_property
    def inside(self) -> Bools:
        """Which rows belong to the tree; gathered tasks are never placed on other rows."""
        return self.topology.leaf != ROOT if len(self.topology) > 1 else np.ones(len(self.room), dtype=bool)

    def _candidates(self, tier: int) -> tuple[Ints, bool]:
        """The domains of a tier, or the rows for tier 0; only those around the gang's placed tasks."""
        stands = np.flatnonzero(self.standing)
        if tier <= 0:
            return (stands if len(stands) == 1 else stands[:0] if len(stands) else np.flatnonzero(self.inside)), True
        domains = self.topology.at_tier.get(tier, np.zeros(0, dtype=np.int64))
        if len(stands):
            home = self.topology.meet_rows(stands)
            domains = domains[(domains <= home) & (home < self.topology.last[domains])]
        return domains, False

    def _order(self, sums: _Sums, option: GatherOption, places: Ints, *, rows: bool) -> Ints:
        """Candidates, best first: near what they are drawn to, then the least room, then those around them, by name."""
        drawn, top = (self.drawn, sums.row_top) if rows else (self.drawn_below, sums.top)
        around = self._around(places, rows=rows)
        inside_out = [tier for tier in self.topology.at_tier if tier > option.tier]
        listed = [tier for tier in dict.fromkeys((*option.compare, *inside_out)) if tier in around]
        keys = [-drawn[places], *(-self.drawn_below[around[tier]] for tier in inside_out)]
        keys += [top[places], *(sums.top[around[tier]] for tier in listed)]
        keys.append((self.rank if rows else self.topology.rank)[places])
        return np.lexsort(keys[::-1])

    def _around(self, places: Ints, *, rows: bool) -> dict[int, Ints]:
        """Per tier, the widest domain around each place within it; where a row has none, its innermost one."""
        current = self.topology.leaf[places] if rows else places
        around: dict[int, Ints] = {}
        for tier in self.topology.at_tier:
            outer = self.topology.parent[current]
            climbs = (self.topology.tier[current] < tier) & (outer >= 0) & (self.topology.tier[outer] <= tier)
            current = np.where(climbs, outer, current)
            around[tier] = current
        return around


class _Sums:
    """What every row and domain may take under some multiples: low, low + quantum, ..., top; low > top for nothing."""

    def __init__(self, slot_tree: SlotTree, multiples: Multiples) -> None:
        topology = slot_tree.topology
        self._held, self._standing = slot_tree.held_below, slot_tree.standing
        self._numbers = sorted(multiples)
        self.whole = self._quantum_below(None)
        tiers = np.array(list(topology.at_tier))
        quanta = np.array([self._quantum_below(tier) for tier in tiers.tolist()])
        self.within = quanta[np.searchsorted(tiers, topology.tier)]  # per domain, of what stands directly in it
        room = np.where(slot_tree.inside, slot_tree.room, 0)
        quantum = self.within[topology.leaf]
        self.row_low = -slot_tree.standing % quantum
        self.row_top = room - (room + slot_tree.standing) % quantum
        self.row_top[self.row_top < self.row_low] = -1
        size = len(topology)
        self.least = summed(topology.leaf, self.row_low, size)
        self.room = summed(topology.leaf, np.maximum(self.row_top, 0), size)
        self._stuck = summed(topology.leaf, self.row_top < 0, size)
        self.low = np.zeros(size, dtype=np.int64)
        self.top = np.zeros(size, dtype=np.int64)
        for domains in topology.at_tier.values():
            self._add_up(topology, domains)

    def _quantum_below(self, tier: int | None) -> int:
        return lcm(*(number for at, number in self._numbers if tier is None or at < tier))

    def _add_up(self, topology: Topology, domains: Ints) -> None:
        """From what the parts of these domains may take to what they may take themselves."""
        parents = topology.parent[domains]
        quantum = np.where(parents >= 0, self.within[parents], self.whole)
        held, least, room = self._held[domains], self.least[domains], self.room[domains]
        self.low[domains] = least + (-held - least) % quantum
        self.top[domains] = room - (room + held) % quantum
        stuck = (self._stuck[domains] > 0) | (self.top[domains] < self.low[domains])
        self.top[domains[stuck]] = -1
        outer = parents >= 0
        np.add.at(self.least, parents[outer], self.low[domains[outer]])
        np.add.at(self.room, parents[outer], np.maximum(self.top[domains[outer]], 0))
        np.add.at(self._stuck, parents[outer], stuck[outer])

    def holds(self, places: Ints, count: int, *, rows: bool) -> Bools:
        """Which places take exactly so many tasks, if no other place takes any."""
        low, room, held, free = self._at(places, rows=rows)
        result: Bools = free & (low <= count) & (count <= room) & ((count + held) % self.whole == 0)
        return result

    def most(self, places: Ints, count: int, *, rows: bool) -> Ints:
        """Up to how many tasks places take, if no other place takes any."""
        low, room, held, free = self._at(places, rows=rows)
        upto = np.minimum(room, count)
        upto = upto - (upto + held) % self.whole
        return np.where(free & (upto >= low), upto, 0)

    def _at(self, places: Ints, *, rows: bool) -> tuple[Ints, Ints, Ints, Bools]:
        if rows:
            top = self.row_top[places]
            return self.row_low[places], top, self._standing[places], top >= 0
        return self.least[places], self.room[places], self._held[places], self._stuck[places] == 0


class _Deal:
    """Assigns rows to tasks below one domain, in rank order."""

    def __init__(self, slot_tree: SlotTree, sums: _Sums, option: GatherOption) -> None:
        self._ground = slot_tree
        self._sums = sums
        self._way = option

    def run(self, domain: int, count: int) -> Ints:
        """A row for each task: first pipelines that stay together, then the rest."""
        topology, sums = self._ground.topology, self._sums
        children = np.array(topology.children[domain], dtype=np.int64)
        after = int(topology.end[children[-1]]) if len(children) else int(topology.start[domain])
        direct = np.arange(after, int(topology.end[domain]))
        low = np.concatenate((sums.low[children], sums.row_low[direct]))
        top = np.concatenate((sums.top[children], sums.row_top[direct]))
        order = self._order(children, direct)
        quantum = int(sums.within[domain])
        numbers = low + _shared(order, top - low, count - int(low.sum()), lcm(self._way.pipeline, quantum))
        numbers += _shared(order, top - numbers, count - int(numbers.sum()), quantum)
        together = numbers // self._way.pipeline * self._way.pipeline
        if not len(children):
            return np.repeat(np.tile(direct[order], 2), np.concatenate((together[order], (numbers - together)[order])))
        whole, rest = [], []
        for i in order[numbers[order] > 0].tolist():
            number = int(numbers[i])
            inner = i < len(children)
            rows = self.run(int(children[i]), number) if inner else np.full(number, direct[i - len(children)])
            whole.append(rows[: together[i]])
            rest.append(rows[together[i] :])
        return np.concatenate([*whole, *rest])

    def _order(self, children: Ints, direct: Ints) -> Ints:
        """Parts of a domain, first come first served: where tasks are drawn to, then the roomiest, then by name."""
        slot_tree, sums = self._ground, self._sums
        drawn = np.concatenate((slot_tree.drawn_below[children], slot_tree.drawn[direct]))
        room = sums.top[children] * (not self._way.by_name)
        kind = np.repeat((0, 1), (len(children), len(direct)))
        rank = np.concatenate((slot_tree.topology.rank[children], slot_tree.rank[direct]))
        return np.lexsort((rank, kind, -np.concatenate((room, sums.row_top[direct])), -drawn))


def _shared(order: Ints, free: Ints, count: int, step: int) -> Ints:
    """One part after the other takes what it can of so many tasks, in whole steps."""
    free = free[order] // step * step
    before = np.cumsum(free) - free
    result = np.empty(len(free), dtype=np.int64)
    result[order] = np.clip(count // step * step - before, 0, free)
    return result
