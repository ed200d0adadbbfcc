"""Place tasks of several shapes on the rows of a domain, by exact counting.

A mixture is a number of tasks of each shape. The mixtures that some rows can take together form a set that is closed
downwards, so one array describes it: for every number of tasks of all shapes but the most numerous, how many of that
one fit beside them (-1 if the others alone do not fit). Two disjoint sets of rows take every sum of their mixtures,
which is a convolution of the arrays; counting from the rows up finds a mixture that fits whenever there is one.

`fit_mixed` places one task group below one domain; `Mixtures` assigns several task groups to inner domains, with the
same arrays. The work is bounded: by default at most 2^23 array cells are kept and 2^28 are added, and `OutOfBoundError`
is raised beyond. Two shapes of a thousand tasks each, or three of thirty, are far below that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from math import prod
from typing import NamedTuple, Protocol

import msgspec
import numpy as np
from msgspec.structs import replace

from tierwise.actions.placement.assign import Chosen, Frame, Ground, Option
from tierwise.actions.placement.demand import RemainingTasks, TaskGroup
from tierwise.actions.placement.problem import Budget, NoPlace, Part, Placement, SearchResult, first_found, plus
from tierwise.actions.placement.quanta import Quanta, SlotTree
from tierwise.actions.placement.trial import place_tasks
from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import Ask, GatherOption
from tierwise.framework.ledger import Pool
from tierwise.model.arrays import Bools, Ints
from tierwise.model.job import Job
from tierwise.model.shape import Shape

__all__ = ["Mixtures", "OutOfBoundError", "fit_mixed", "mixed_in_multiples"]

Mix = tuple[int, ...]
"""How many tasks of each shape."""


class OutOfBoundError(Exception):
    """The exact count would take too long: what was asked is not known."""


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

    def __init__(self, cycle: Cycle, most: Mapping[Shape, int], pool: Pool, *, in_multiples: bool = False) -> None:
        ordered = sorted(most, key=most.__getitem__)  # numbers of shapes depend on who was read first
        self.shapes = tuple(most if in_multiples else ordered)
        self.most: Mix = tuple(most[shape] for shape in self.shapes)
        self._cycle = cycle
        self._pool = pool
        self._asked = np.unique(np.concatenate([shape.asked for shape in self.shapes]))
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
        """What no row at all takes."""
        return self.table((np.zeros((1, len(self.size)), dtype=np.int64), np.zeros(1, dtype=np.int64)))

    def plus(self, table: Ints, options: Options) -> Ints:
        """What a set of rows takes together with another one, which takes `options`."""
        if len(options[1]) > np.count_nonzero(table >= 0):
            table, options = self.table(options), _options(table)
        self._cells += table.size
        self._work += len(options[1]) * table.size
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
        fit_counts = np.stack([np.minimum(room[rows], most) for room, most in zip(self._rooms, self.most, strict=True)])
        free = self._cycle.ledger.free(self._asked, rows, self._pool)
        useful = np.minimum(free, (np.array(self.most) @ self._requests)[:, None])  # what nobody asks for tells nothing
        useful[:, ~fit_counts.any(axis=0)] = 0
        alike, kinds = np.unique(np.concatenate((useful, fit_counts)), axis=1, return_inverse=True)
        return kinds.ravel(), alike.T

    def options(self, kind: Ints) -> Options:
        """What rows of a kind take."""
        known = self._kinds.get(kind.tobytes())
        if known is None:
            resources = len(self._asked)
            known = self._kinds[kind.tobytes()] = self._measure(kind[:resources], kind[resources:].tolist())
        return known

    def _measure(self, free: Ints, limits: list[int]) -> Options:
        """The mixtures that a row with so much free, and room for so many tasks of each shape alone, takes."""
        cells = prod(limit + 1 for limit in limits[:-1])
        if cells > self._cycle.budget.cells:
            raise OutOfBoundError
        offsets = np.indices([limit + 1 for limit in limits[:-1]]).reshape(len(limits) - 1, cells).T
        used = offsets @ self._requests[:-1]
        fits = ((used <= free) | (used == 0)).all(axis=1)
        offsets, left = offsets[fits], free - used[fits]
        wanted = self._requests[-1] > 0
        values = (left[:, wanted] // self._requests[-1][wanted]).min(axis=1, initial=limits[-1])
        return offsets, np.maximum(values, 0)


def _options(table: Ints) -> Options:
    return np.argwhere(table >= 0), table[table >= 0]


def _holds(table: Ints, mix: Mix) -> bool:
    """Whether a mixture is in the set."""
    return bool(table[mix[:-1]] >= mix[-1])


class Row(NamedTuple):
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
        found: dict[int, Mix] = {}
        for block, before in zip(reversed(self._blocks), reversed(self._tables[:-1]), strict=True):
            mine = _share(block.options, before, mix)
            found |= block.unwind(mine)
            mix = tuple(a - b for a, b in zip(mix, mine, strict=True))
        return found


class Without:
    """A block of which a mixture is taken: what is left for others. Traces tell of both."""

    def __init__(self, block: Sum | Without, mix: Mix) -> None:
        self._block = block
        self._mix = mix
        self.table: Ints = np.full_like(block.table, -1)
        rest = block.table[tuple(slice(number, None) for number in mix[:-1])] - mix[-1]
        self.table[tuple(slice(0, size) for size in rest.shape)] = np.maximum(rest, -1)

    @property
    def options(self) -> Options:
        return _options(self.table)

    def unwind(self, mix: Mix) -> dict[int, Mix]:
        return self._block.unwind(plus(mix, self._mix))


def _share(options: Options, before: Ints, mix: Mix) -> Mix:
    """The least that the last part takes of a mixture if the parts before it take the rest."""
    offsets, values = options
    inside = (offsets <= np.array(mix[:-1], dtype=np.int64)).all(axis=1)
    offsets, values = offsets[inside], values[inside]
    rest = before[tuple((np.array(mix[:-1], dtype=np.int64) - offsets).T)]
    missing = np.maximum(mix[-1] - rest, 0)
    able = np.flatnonzero((rest >= 0) & (missing <= values))
    least = able[np.argmin(offsets[able].sum(axis=1) + missing[able])]
    return (*offsets[least].tolist(), int(missing[least]))


# -- tasks in multiples


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
    most = np.array([int((offsets.sum(axis=1) + values).max()) for offsets, values in options])
    quanta = Quanta(replace(tree, room=most[kinds]), option)

    def taken(place: int, enough: Callable[[Ints], bool] | None = None) -> BlockCounts:
        """What a place takes; of its parts those come first that may have to take some, since tasks stand there."""
        if place >= len(tree.topology):
            row = place - len(tree.topology)
            return Row(int(tree.rows[row]), options[kinds[row]])
        parts = quanta.parts(place)
        parts = parts[quanta.top[parts] > 0]
        begun = tree.held[parts] > 0
        first, others = (map(in_steps, some.tolist()) for some in (parts[begun], parts[~begun]))
        return Sum(axes, chain((Sum(axes, first),), others), enough)

    def in_steps(place: int) -> BlockCounts:
        return InSteps(taken(place), int(quanta.quantum[place]), int(tree.held[place]))

    target = tuple(counts[shape] for shape in axes.shapes) + (0,) * (len(axes.most) - len(counts))
    for place in cycle.first(iter(quanta.best_first(sum(target)).tolist()), cycle.budget.mixed_places):
        whole = Sum(axes, (taken(place, partial(_holds, mix=target)),))
        if _holds(whole.table, target):
            found = reversed(whole.unwind(target).items())
            return {row: tuple(mix[axes.position(shape)] for shape in counts) for row, mix in found}
    return None


class InSteps:
    """A block of which only mixtures count that make a whole multiple together with what it holds."""

    def __init__(self, block: BlockCounts, quantum: int, held: int) -> None:
        offsets, values = block.options
        whole = (offsets.sum(axis=1) + held) % quantum == 0
        self.options: Options = offsets[whole], values[whole]
        self.unwind = block.unwind


# -- several task groups in inner domains


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
        return _write(self._cycle, self._job, groups, self._axes, rows)

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
            while self._within(more) and _holds(table, more):
                known += 1
                more = plus(more, mix)
            self._held[self._number(table), mix] = known
        return known

    def _holds(self, place: int) -> bool:
        """Whether a domain, and each around it, holds what it was given."""
        domain: int | None = place
        while domain is not None:
            mix = self._given.get(domain)
            if mix is not None and not (self._within(mix) and _holds(self._block(self._places[domain]).table, mix)):
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
        if self.is_tied(place) or self._places[place].inner:
            return (place, self._given.get(place))
        return (self._around.get(place), self._number(self._rest(place)), int(self._cycle.topology.tier[place]))


# -- one task group in one domain


def fit_mixed(
    cycle: Cycle, job: Job, task_group: TaskGroup, domain: int, pools: tuple[Pool, ...]
) -> list[Placement] | None:
    """Place a task group of several shapes below a domain if there is any way to; OutOfBoundError where that is not
    known.
    """
    if any(cycle.pipeline.moving(tasks_left.pod_set.shape) for tasks_left in task_group.remaining):
        raise OutOfBoundError
    choices = Choices(task_group, cycle.budget.choices)
    for pool in pools if cycle.ledger.any_releasing else pools[:1]:
        axes = Axes(cycle, most_of([choices]), pool)
        mixes = choices.mixes(axes)
        rows = _by_preference(cycle, job, task_group, domain, axes.shapes[-1], pool)
        block = Sum(axes, axes.rows(rows), partial(_any_inside, mixes))
        able = np.flatnonzero(_inside(block.table, mixes))
        if len(able):
            first = int(able[0])
            return _write(
                cycle, job, [(choices.task_group(first), domain)], axes, block.unwind(tuple(mixes[first].tolist()))
            )
    return None


def _inside(table: Ints, mixes: Ints) -> Bools:
    """Which of some mixtures, (mixtures x shapes), are in the set."""
    inside: Bools = table[tuple(mixes[:, :-1].T)] >= mixes[:, -1]
    return inside


def _any_inside(mixes: Ints, table: Ints) -> bool:
    return bool(_inside(table, mixes).any())


class Choices:
    """The ways to choose a task group's tasks from its remaining tasks, those that follow its order first."""

    def __init__(self, task_group: TaskGroup, bound: int) -> None:
        """OutOfBoundError where there are more than a bound."""
        most = [min(tasks_left.left, task_group.need) for tasks_left in task_group.remaining]
        if sum(most) == task_group.need:
            counts = np.array([most], dtype=np.int64)
        else:
            if prod(number + 1 for number in most[:-1]) > bound:
                raise OutOfBoundError
            counts = np.indices([number + 1 for number in most[:-1]]).reshape(len(most) - 1, -1).T
            last = task_group.need - counts.sum(axis=1)
            counts = np.column_stack((counts, last))[(last >= 0) & (last <= most[-1])]
        for role, least in task_group.roles.items():
            own = [i for i, tasks_left in enumerate(task_group.remaining) if tasks_left.pod_set.role_number == role]
            counts = counts[counts[:, own].sum(axis=1) >= least]
        self._lot = task_group
        self._counts: Ints = counts[::-1]  # the more of the first remaining tasks the better

    def __len__(self) -> int:
        return len(self._counts)

    def task_group(self, number: int) -> TaskGroup:
        """The task group with exactly the tasks of one choice."""
        pairs = zip(self._lot.remaining, self._counts[number].tolist(), strict=True)
        return replace(
            self._lot,
            remaining=tuple(RemainingTasks(tasks_left.pod_set, count) for tasks_left, count in pairs if count),
        )

    def mixes(self, axes: Axes) -> Ints:
        """The choices as mixtures, (choices x shapes)."""
        mixes = np.zeros((len(self._counts), len(axes.most)), dtype=np.int64)
        for i, tasks_left in enumerate(self._lot.remaining):
            mixes[:, axes.position(tasks_left.pod_set.shape)] += self._counts[:, i]
        return mixes

    def most(self) -> dict[Shape, int]:
        """The most tasks of each shape that some choice has."""
        every = dict.fromkeys(tasks_left.pod_set.shape for tasks_left in self._lot.remaining)
        own = {s: [i for i, p in enumerate(self._lot.remaining) if p.pod_set.shape is s] for s in every}
        return {s: int(self._counts[:, mine].sum(axis=1).max(initial=0)) for s, mine in own.items()}


def most_of(every: Iterable[Choices]) -> dict[Shape, int]:
    """The most tasks of each shape that some task groups have together."""
    most: dict[Shape, int] = {}
    for choices in every:
        for shape, number in choices.most().items():
            most[shape] = most.get(shape, 0) + number
    return most


def _by_preference(cycle: Cycle, job: Job, task_group: TaskGroup, domain: int, shape: Shape, pool: Pool) -> Ints:
    """Rows below a domain: near what the job has standing, in large inner domains, on nodes with high scores."""
    topology, span = cycle.topology, cycle.topology.span(domain)
    leaf = topology.leaf[span]
    room = cycle.fit_counts.of(shape)
    ask = Ask(shape, task_group.sub, job, distance_decided=True)
    scores = np.rint(cycle.pipeline.score(ask, span, room.rows(pool)[span] > 0) * 2.0**20)
    standing = [stands[0] for stands in map(cycle.ledger.placed_rows, job.subs) if stands is not None]
    far = (
        topology.meeting_tiers(topology.meet_rows(np.concatenate(standing)))[leaf] if standing else np.zeros(len(leaf))
    )
    order = np.lexsort((cycle.nodes.rank[span], -scores, leaf, -room.domains(pool)[leaf], far))
    rows: Ints = span.start + order
    return rows


def _write(
    cycle: Cycle, job: Job, task_groups: Sequence[tuple[TaskGroup, int]], axes: Axes, dealt: Mapping[int, Mix]
) -> list[Placement]:
    """Give the task groups, inner domains first, their tasks on the rows that they share, and write that to the
    ledger.
    """
    rows = np.array(sorted(dealt), dtype=np.int64)
    left = np.array([dealt[row] for row in rows.tolist()], dtype=np.int64).reshape(len(rows), len(axes.shapes))
    placements: list[Placement] = []
    for task_group, domain in task_groups:
        span = cycle.topology.span(domain)
        inside = (rows >= span.start) & (rows < span.stop)
        for tasks_left in task_group.remaining:
            column = left[:, axes.position(tasks_left.pod_set.shape)]
            able = np.where(inside, column, 0)
            counts = np.clip(tasks_left.left - (np.cumsum(able) - able), 0, able)
            column -= counts
            placements += _take(cycle, Ask(tasks_left.pod_set.shape, task_group.sub, job), tasks_left, rows, counts)
    return placements


def _take(cycle: Cycle, ask: Ask, tasks_left: RemainingTasks, rows: Ints, counts: Ints) -> list[Placement]:
    """On idle room as far as there is any, the rest on what is still being released."""
    placements = []
    for pool in (Pool.IDLE, Pool.FUTURE_IDLE):
        number = np.minimum(counts, cycle.fit_counts.of(ask.shape).rows(pool)[rows])
        used = number > 0
        if used.any():
            placements.append(place_tasks(cycle, ask, tasks_left.pod_set, (rows[used], number[used]), pool))
            counts = counts - number
        if not counts.any():
            break
    return placements
