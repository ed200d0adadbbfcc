"""Assign parts of several plain shapes to inner domains by counting mixtures: a ground of the search.

Called by `assign` where trials find nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np
from msgspec.structs import replace

from tierwise.actions.placement.demand import TaskGroup
from tierwise.actions.placement.mixtures import (
    Axes,
    Choices,
    Mix,
    OutOfBoundError,
    Sum,
    Without,
    holds,
    most_of,
    write_mixed,
)
from tierwise.actions.placement.problem import Budget, NoPlace, Part, Placement, SearchResult, first_found, plus
from tierwise.actions.placement.search import Chosen, Frame, Ground, Option
from tierwise.framework.cycle import Cycle
from tierwise.framework.ledger import Pool
from tierwise.model.arrays import Ints
from tierwise.model.job import Job

__all__ = ["Mixtures"]


class _Place(msgspec.Struct, frozen=True, eq=False):
    """A domain that task groups may be assigned to: those like it inside, and the rows that stand in none of these."""

    domain: int
    inner: tuple[_Place, ...]
    rows: Ints


class Mixtures(Ground):
    """Several plain shapes: domains are given mixtures, then all of them are dealt to nodes at once.

    What inner domains were given counts in those around them, and what they leave counts towards these.
    """

    cost = 10

    @classmethod
    def place(
        cls, cycle: Cycle, job: Job, whole: Part, domain: int, pools: tuple[Pool, ...], budget: Budget
    ) -> SearchResult | NoPlace:
        """Place what a job lacks below a domain, on idle resources or else on what is being released as well."""
        usable, most = pools if cycle.ledger.any_releasing else pools[:1], cycle.budget.mixed_steps
        try:
            return first_found(cls(cycle, job, whole, domain, pools, pool).run(budget, most) for pool in usable)
        except OutOfBoundError:
            return NoPlace.BOUNDED

    def __init__(self, cycle: Cycle, job: Job, whole: Part, domain: int, pools: tuple[Pool, ...], pool: Pool) -> None:
        super().__init__(cycle, job, whole, domain, pools)
        most, ways = cycle.budget.choices, cycle.budget.ways
        choices = {leaf.number: Choices(leaf.task_group, most) for leaf in whole.leaves if leaf.task_group is not None}
        self._axes = Axes(cycle, most_of(choices.values()), pool)
        self._wanted: dict[int, list[tuple[Mix, TaskGroup]]] = {}
        for number, each in choices.items():
            mixes = each.mixes(self._axes)
            self._bounded |= len(mixes) > ways
            kept = range(min(len(mixes), ways))
            self._wanted[number] = [(tuple(mixes[i].tolist()), each.task_group(i)) for i in kept]
        self._mix_of = {id(group): mix for found in self._wanted.values() for mix, group in found}
        self._given: dict[int, Mix] = {}
        self._blocks: dict[tuple[int, ...], Sum | Without] = {}
        self._numbers: dict[bytes, int] = {}
        self._held: dict[tuple[int, Mix], int] = {}
        self._plant(set(self._usable(whole, domain)))

    def _usable(self, part: Part, within: int) -> Iterator[int]:
        """All domains that the parts of a group, and those inside them, may be given."""
        for inner in part.parts:
            for option in self.known(inner, within, widest=True):
                yield option.place
                yield from self._usable(inner, option.place)

    def _plant(self, places: set[int]) -> None:
        """The domains of all options as a tree."""
        topology = self._cycle.topology
        places.add(self._domain)
        around: dict[int, list[_Place]] = {}
        self._places: dict[int, _Place] = {}
        self._around: dict[int, int] = {}
        for domain in sorted(places, reverse=True):  # inner ones first, for domains stand in preorder
            inner = tuple(reversed(around.pop(domain, [])))
            span = topology.span(domain)
            own = np.ones(span.stop - span.start, dtype=bool)
            for place in inner:
                inside = topology.span(place.domain)
                own[inside.start - span.start : inside.stop - span.start] = False
                self._around[place.domain] = domain
            place = self._places[domain] = _Place(domain, inner, span.start + np.flatnonzero(own))
            outer = next((d for d in topology.ancestors(domain) if d != domain and d in places), None)
            if outer is not None:
                around.setdefault(outer, []).append(place)
        self._top = self._places[self._domain]

    def options(self, part: Part, within: int) -> Iterator[Option]:
        """The places of a part, one of each kind, and of a leaf each way to choose its tasks."""
        tried: set[tuple[object, ...]] = set()
        for option in self.known(part, within, widest=True):
            kind = self._kind(option.place)
            if kind in tried:
                continue
            tried.add(kind)
            if part.task_group is None:
                yield option
            for _, task_group in self._wanted.get(part.number, ()):
                yield replace(option, task_group=task_group)

    def put(self, part: Part, option: Option) -> bool:
        """Give a domain a mixture beside what it has, if it takes that."""
        place, mix = option.place, self._mix_of[id(option.task_group)]
        before = self._given.get(place)
        self._given[place] = mix if before is None else plus(before, mix)
        if self._holds(place):
            return True
        self.take_back(part, option)
        return False

    def take_back(self, part: Part, option: Option) -> None:
        place, mix = option.place, self._mix_of[id(option.task_group)]
        self._given[place] = tuple(a - b for a, b in zip(self._given[place], mix, strict=True))
        if not any(self._given[place]):
            del self._given[place]

    def write(self, chosen: Chosen) -> list[Placement]:
        """Place task groups in the domains that were given their mixtures."""
        groups = [(option.task_group, option.place) for _, option in chosen if option.task_group is not None]
        groups.sort(key=lambda c: -len(self._cycle.topology.chains[c[1]]))
        nothing = (0,) * len(self._axes.shapes)
        rows = self._block(self._top, rest=True).unwind(nothing)
        return write_mixed(self._cycle, self._job, groups, self._axes, rows)

    def state(self, frame: Frame) -> tuple[object, ...]:
        """What later parts see: alike places in any order, others by what they were given."""
        own = set(frame.domains())
        kinds = ((place, self._given.get(place)) if place in own else self._kind(place) for place in self._places)
        return tuple(sorted(kinds, key=repr))

    def hopeful(self, frame: Frame) -> bool:
        """Whether the places would take all task groups of the next one's kind, if there were no others."""
        if not super().hopeful(frame):
            return False
        rest = frame.part.parts[frame.next :]
        ways = self._wanted.get(rest[0].number, [])
        if frame.part.optional or len(ways) != 1:
            return True
        mix = ways[0][0]
        like = [part for part in rest if [m for m, _ in self._wanted.get(part.number, ())] == [mix]]
        places = {option.place for part in like for option in self.known(part, frame.domain, widest=True)}
        if any(self._places[place].inner for place in places):
            return True
        return sum(self._most(place, mix) for place in places) >= len(like)

    def _most(self, place: int, mix: Mix) -> int:
        """How many task groups of a mixture a domain takes beside what it was given."""
        table = self._rest(place)
        known = self._held.get((self._number(table), mix))
        if known is None:
            known = 0
            more = mix
            while self._within(more) and holds(table, more):
                known += 1
                more = plus(more, mix)
            self._held[self._number(table), mix] = known
        return known

    def _holds(self, place: int) -> bool:
        """Whether a domain, and each around it, holds what it was given."""
        domain: int | None = place
        while domain is not None:
            mix = self._given.get(domain)
            if mix is not None and not (self._within(mix) and holds(self._block(self._places[domain]).table, mix)):
                return False
            domain = self._around.get(domain)
        return True

    def _within(self, mix: Mix) -> bool:
        return all(n <= most for n, most in zip(mix, self._axes.most, strict=True))

    def _block(self, place: _Place, *, rest: bool = False) -> Sum | Without:
        """What a domain takes beside what those inside were given; `rest` takes off what it was given itself."""
        below = range(place.domain, int(self._cycle.topology.last[place.domain]))
        inside = tuple(
            sorted((d, *mix) for d, mix in self._given.items() if d in below and (rest or d != place.domain))
        )
        key = (place.domain, int(rest), *(number for entry in inside for number in entry))
        block = self._blocks.get(key)
        if block is None:
            if rest and place.domain in self._given:
                block = Without(self._block(place), self._given[place.domain])
            elif place.inner:
                own = self._rows_of(place)
                block = Sum(self._axes, (own, *(self._block(inner, rest=True) for inner in place.inner)))
            else:
                block = self._rows_of(place)
            self._blocks[key] = block
        return block

    def _rows_of(self, place: _Place) -> Sum | Without:
        key = (-1, place.domain)
        block = self._blocks.get(key)
        if block is None:
            block = self._blocks[key] = Sum(self._axes, self._axes.rows(place.rows))
        return block

    def _rest(self, place: int) -> Ints:
        return self._block(self._places[place], rest=True).table

    def _number(self, table: Ints) -> int:
        return self._numbers.setdefault(table.tobytes(), len(self._numbers))

    def _kind(self, place: int) -> tuple[object, ...]:
        """What tells a place from its siblings: what is left in it, and itself where a task group is tied to it."""
        if self.has_placed_tasks(place) or self._places[place].inner:
            return (place, self._given.get(place))
        return (self._around.get(place), self._number(self._rest(place)), int(self._cycle.topology.tier[place]))
