"""How many tasks of a gang domains take at most under its rules between pods: counts per place, before any trial.

A rule says how many tasks a place takes (`framework.pod_rules`), and a domain takes no more than its places together.
These are bounds: they never say too little, so a domain that they rule out would have been tried in vain. For tasks of
one shape with one rule of topology spread they are exact.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np

from tierwise.actions.placement.bounds import Room
from tierwise.framework.cycle import Cycle
from tierwise.framework.ledger import Pool
from tierwise.framework.pod_rules import AtMost, Charged, Even, Near, PodRules
from tierwise.model.arrays import Bools, Ints, begins, ordinals, summed
from tierwise.model.job import Shape
from tierwise.model.topology import Topology

__all__ = ["RuledRoom"]

_BOUNDLESS = 2**62

_COUNTED = 4
"""Steps of counting what one rule lets domains take, beside those by nodes."""


class RuledRoom(Room):
    """The room of a pool for tasks that rules bind."""

    def __init__(self, cycle: Cycle, pool: Pool, rules: PodRules) -> None:
        super().__init__(cycle, pool, closed=_closed(rules))
        self._rules = rules

    def held(self, shape: Shape, domains: Ints, need: int) -> Ints:
        """How many tasks of a shape each of some domains takes, up to `need`, if so many tasks are placed in all."""
        bound = np.minimum(super().held(shape, domains, need), need)
        for rule in self._rules.records:
            able = bound.nonzero()[0]
            if len(able) and shape.number in rule.shapes:
                self.cycle.steps.charge(_COUNTED + len(self.cycle.nodes) // 512)
                bound[able] = np.minimum(bound[able], self._under(rule, shape, domains[able], need))
        return bound

    def _under(self, rule: object, shape: Shape, domains: Ints, need: int) -> Ints:
        """How many tasks one rule lets each domain take."""
        rows = np.minimum(self.rows(shape), need)
        topology = self.cycle.topology
        if isinstance(rule, AtMost):
            parts = _Parts.of(topology, domains, rule.places, rows)
            bound = parts.capped(rule.at(parts.place))
            return bound + topology.totals(np.where(rule.places < 0, rows, 0))[domains]
        if isinstance(rule, Charged):
            return self._charged(rule, rule.charges[shape.number], domains, rows)
        if isinstance(rule, Near) and not rule.by:
            parts = _Parts.of(topology, domains, rule.places, rows)
            met = rule.there[parts.place]
            bound = parts.capped(np.where(met, parts.room, 0))
            return bound + parts.largest(~met) if rule.found else bound
        if isinstance(rule, Even) and shape.number in rule.counted:
            return self._evenly(rule, shape, domains, rows, need)
        return np.full(len(domains), need)

    def _charged(self, rule: Charged, charges: Ints, domains: Ints, rows: Ints) -> Ints:
        """How many tasks the rest of places pays for, as if each there were charged as little as any."""
        counted = (rule.places >= 0) & (charges > 0)
        lowest = np.full(len(rule.remaining), _BOUNDLESS)
        np.minimum.at(lowest, rule.places[counted], charges[counted])
        parts = _Parts.of(self.cycle.topology, domains, rule.places, np.where(counted, rows, 0))
        bound = parts.capped((rule.remaining // lowest)[parts.place])
        return bound + self.cycle.topology.totals(np.where(counted, 0, rows))[domains]

    def _evenly(self, rule: Even, shape: Shape, domains: Ints, rows: Ints, need: int) -> Ints:
        topology = self.cycle.topology
        parts = _Parts.of(topology, domains, rule.places, np.where(rule.among, rows, 0))
        lifted = parts  # the places whose pods may become more
        alone = rule.counted == {shape.number}
        if not alone:
            lifted = _Parts.of(topology, domains, rule.places, rule.among.astype(np.int64))
        lowest = _lowest(rule, lifted, need, exact=alone)
        bound = parts.capped(np.maximum(lowest[parts.owner] + rule.above - rule.there[parts.place], 0))
        uncounted = np.where(rule.among, 0, rows)
        if uncounted.any():
            bound += topology.totals(uncounted)[domains]
        return bound


def _closed(rules: PodRules) -> Mapping[int, Bools]:
    """By shape, the rows that no task of a gang opens."""
    closed = dict(rules.closed)
    for number, rows in rules.lonely.items():
        closed[number] = closed[number] | rows if number in closed else rows
    return closed


class _Parts(msgspec.Struct, frozen=True):
    """Places, part by part where domains cut them: the domain of each part by position, its place and its room.

    Parts of one domain follow each other, in the order of their places. Those without room are left out.
    """

    owner: Ints
    place: Ints
    room: Ints
    domains: int  # how many there are

    @classmethod
    def of(cls, topology: Topology, domains: Ints, places: Ints, rows: Ints) -> _Parts:
        """The parts that have room on rows with a place."""
        usable = np.flatnonzero((rows > 0) & (places >= 0))
        begin = usable.searchsorted(topology.start[domains])
        size = usable.searchsorted(topology.end[domains]) - begin
        owner = np.arange(len(domains)).repeat(size)
        position = np.arange(len(owner)) - (size.cumsum() - size)[owner] + begin[owner]
        inside = usable[position]
        order = np.lexsort((places[inside], owner))
        owner, inside = owner[order], inside[order]
        place = places[inside]
        begun = begins(owner, place).nonzero()[0]
        room = np.add.reduceat(rows[inside], begun) if len(begun) else rows[:0]
        return cls(owner[begun], place[begun], room, len(domains))

    def capped(self, cap: Ints) -> Ints:
        """By domain, how many tasks its parts take where each takes no more than so many."""
        return summed(self.owner, np.minimum(self.room, cap), self.domains)

    def largest(self, eligible: Bools) -> Ints:
        """By domain, the room of the largest of its eligible parts."""
        largest = np.zeros(self.domains, dtype=np.int64)
        np.maximum.at(largest, self.owner[eligible], self.room[eligible])
        return largest


def _lowest(rule: Even, parts: _Parts, need: int, *, exact: bool) -> Ints:
    """By domain, how many pods the emptiest place ends with at most, if so many tasks go to these parts."""
    if rule.few or not len(rule.compared):
        return np.zeros(parts.domains, dtype=np.int64)
    order = np.argsort(rule.there[rule.compared], kind="stable")
    pods = rule.there[rule.compared][order]
    upto = np.append(pods, _BOUNDLESS)
    lowest: Ints = np.minimum(_level(pods, need), upto[_first_without(rule, parts, order)])
    if exact:
        compared = np.isin(parts.place, rule.compared)
        ends = (rule.there[parts.place] + parts.room)[compared]
        np.minimum.at(lowest, parts.owner[compared], ends)
    return lowest


def _level(pods: Ints, need: int) -> int:
    """To what number so many more pods raise places with these, which ascend, where always the emptiest takes one."""
    cost = np.arange(len(pods)) * pods - (pods.cumsum() - pods)  # to raise all before one to it
    reached = int(cost.searchsorted(need, side="right")) - 1
    return int(pods[reached]) + (need - int(cost[reached])) // (reached + 1)


def _first_without(rule: Even, parts: _Parts, order: Ints) -> Ints:
    """By domain, the position of the emptiest compared place that none of its parts is of; their number if none is."""
    position = np.full(len(rule.there), -1)
    position[rule.compared[order]] = np.arange(len(order))
    index = position[parts.place]
    able = index >= 0
    index, owner = index[able], parts.owner[able]
    sort = np.lexsort((index, owner))
    index, owner = index[sort], owner[sort]
    before = ordinals(owner)
    missed: Ints = np.bincount(owner, minlength=parts.domains)
    np.minimum.at(missed, owner, np.where(index == before, len(order), before))
    return missed
