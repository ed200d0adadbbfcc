"""Place gathered jobs: try the gather options of the plugin in order, counting first and then writing to the ledger.

Called by `allocate`, for the minimum and for the surplus. Tasks of one shape are counted by `framework.gathering`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import islice, permutations
from math import lcm, prod

import msgspec
import numpy as np
from msgspec.structs import replace

from tierwise.actions.placement.demand import RemainingTasks, TaskGroup, counts_by_pod_set
from tierwise.actions.placement.mixtures import OutOfBoundError
from tierwise.actions.placement.problem import BOTH, NOW_ONLY, NoPlace, Placement, SearchResult
from tierwise.actions.placement.trial import place_tasks
from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import Ask
from tierwise.framework.gathering import Gathered, GatherOption, Quanta, SlotTree
from tierwise.framework.ledger import Pool
from tierwise.model.arrays import Bools, Ints
from tierwise.model.job import Job, SubJob
from tierwise.model.shape import Shape

__all__ = [
    "MixedDeal",
    "Mixture",
    "fits_bound",
    "gather_group",
    "gather_surplus",
    "rows_of",
    "slot_tree_of",
    "slot_tree_on",
]


# Deal tasks of several shapes over a tree, all below one domain, in whole multiples: exact where it is small enough.
#
# What a node can take is a set of mixtures (so many tasks of each shape); what a domain can take is every sum of one
# mixture of each of its parts whose total is a whole multiple. Sets are arrays of truth over all mixtures, counted
# from the nodes up, so a solution is found if there is one. `gathering` does the same for one shape, where numbers
# suffice.
#
# The work grows with the number of mixtures, so there is a bound: `fits_bound` says whether a demand is within it, and
# OutOfBoundError that adding up took too long.


Mix = tuple[int, ...]
"""How many tasks of each shape."""


def fits_bound(cycle: Cycle, counts: Mix) -> bool:
    """Whether so many tasks of each shape can be mixed exactly."""
    return prod(count + 1 for count in counts) <= cycle.budget.mixtures


class MixedDeal(msgspec.Struct, frozen=True, eq=False):
    """Where tasks go: the domain that holds them all, rows in the order in which they are filled, and how many each."""

    domain: int
    rows: Ints
    numbers: Ints  # (rows x shapes)


class _Part(msgspec.Struct, frozen=True):
    """A child domain or a row, and what it can take."""

    number: int
    is_row: bool
    placements: Bools  # by mixture


class Mixture:
    """So many tasks of each shape, on the room that rows have for them."""

    def __init__(
        self, slot_tree: SlotTree, counts: Mix, requests: Ints, free: Ints, *, open_to: Bools, work: int = 2**28
    ) -> None:
        """`requests` are (shapes x resources), `free` (resources x rows); filters let `open_to`, (shapes x rows)."""
        self._counts = counts
        self._size = tuple(count + 1 for count in counts)
        mixes = np.indices(self._size).reshape(len(counts), -1)
        self._totals: Ints = mixes.sum(axis=0).reshape(self._size)
        self._kinds, self._kind_of = _kinds(mixes, requests, free, open_to)
        most = (self._kinds * self._totals.ravel()).max(axis=1, initial=0)
        self._ground = SlotTree(
            slot_tree.topology, slot_tree.rank, most[self._kind_of], slot_tree.drawn, slot_tree.standing
        )
        self._work = work

    def find(self, option: GatherOption, first: Callable[[Iterator[Gathered]], Iterator[Gathered]]) -> MixedDeal | None:
        """The best domain of the way's tier that takes all tasks, of the first that are tried.

        Counting tells nearly always which of them hold the tasks.
        """
        count = sum(self._counts)
        dealing = _Dealing(self, option)
        for place in first(self._ground.each(option, count)):
            if option.tier <= 0:
                row = int(place.rows[0])
                if self.of_row(row)[self._counts]:
                    return MixedDeal(place.domain, np.array([row]), np.array([self._counts]))
            elif (dealt := dealing.deal(place.domain)) is not None:
                rows = np.array(list(dealt), dtype=np.int64)
                return MixedDeal(place.domain, rows, np.array(list(dealt.values()), dtype=np.int64))
        return None

    @property
    def slot_tree(self) -> SlotTree:
        """The tree, with the most tasks of any mixture that each row takes."""
        return self._ground

    @property
    def counts(self) -> Mix:
        return self._counts

    def of_row(self, row: int) -> Bools:
        """Which mixtures a row has room for."""
        result: Bools = self._kinds[self._kind_of[row]].reshape(self._size)
        return result

    def sums(self, one: Bools, other: Bools) -> Bools:
        """Every sum of a mixture of one set and a mixture of the other; OutOfBoundError where that takes too long."""
        few, many = sorted((one, other), key=np.count_nonzero)
        added = np.argwhere(few)
        self._work -= len(added) * many.size
        if self._work < 0:
            raise OutOfBoundError
        result = np.zeros_like(many)
        for mix in added.tolist():
            shifted = tuple(slice(number, None) for number in mix)
            kept = tuple(slice(0, size - number) for size, number in zip(many.shape, mix, strict=True))
            result[shifted] |= many[kept]
        return result

    def in_steps(self, placements: Bools, quantum: int, held: int) -> Bools:
        """Only mixtures that make a whole multiple together with what is held."""
        return placements if quantum == 1 else placements & ((self._totals + held) % quantum == 0)

    @cached_property
    def nothing(self) -> Bools:
        """What no part at all can take."""
        placements = np.zeros(self._size, dtype=bool)
        placements[(0,) * len(self._counts)] = True
        return placements

    def least(self, mixes: Ints) -> Mix:
        """Of some mixtures (n x shapes) one with the fewest tasks."""
        order = np.lexsort((*mixes.T[::-1], mixes.sum(axis=1)))
        return tuple(int(number) for number in mixes[order[0]])


def _kinds(mixes: Ints, requests: Ints, free: Ints, open_to: Bools) -> tuple[Bools, Ints]:
    """Rows that are alike: which mixtures each kind takes, (kinds x mixtures), and the kind of each row."""
    columns = np.concatenate((np.maximum(free, 0), open_to.astype(np.int64)))
    alike, kind_of = np.unique(columns, axis=1, return_inverse=True)
    asked = requests.T @ mixes  # (resources x mixtures)
    resources = len(free)
    placements = np.ones((alike.shape[1], mixes.shape[1]), dtype=bool)
    for kind, column in enumerate(alike.T):
        placements[kind] = (asked <= column[:resources, None]).all(axis=0)
        placements[kind] &= ((mixes == 0) | (column[resources:, None] > 0)).all(axis=0)
    return placements, kind_of.ravel()


class _Dealing:
    """Sets of mixtures from the rows up, and the way back down."""

    def __init__(self, mixture: Mixture, option: GatherOption) -> None:
        self._mixture = mixture
        self._ground = mixture.slot_tree
        self._quanta: Quanta = self._ground.quanta(option)
        self._whole = lcm(*(number for _, number in option.multiples))
        self._room: Ints = self._ground.topology.totals(self._ground.room)
        self._inside: dict[int, tuple[list[_Part], list[Bools]]] = {}

    def deal(self, domain: int) -> dict[int, Mix] | None:
        """How many tasks of each shape every row below a domain takes, in the order of filling; None if it cannot."""
        target = self._mixture.counts
        held = int(self._quanta.held[domain])
        if (sum(target) + held) % self._whole:
            return None
        parts, tables = self._add_up(domain, until=target)
        return self._followed(parts, tables, target) if tables[-1][target] else None

    def _add_up(self, domain: int, until: Mix | None = None) -> tuple[list[_Part], list[Bools]]:
        """The parts of a domain in order, and what the first so many of them take together; `until` may end it early.

        Parts in which tasks stand come first: these may have to take some to make a multiple whole.
        """
        parts: list[_Part] = []
        tables = [self._mixture.nothing]
        for number, is_row, bound in self._ordered(domain):
            if until is not None and tables[-1][until] and not bound:
                break
            placements = self._of_row(number) if is_row else self._of_domain(number)
            parts.append(_Part(number, is_row, placements))
            tables.append(self._mixture.sums(tables[-1], placements))
        return parts, tables

    def _ordered(self, domain: int) -> Iterator[tuple[int, bool, bool]]:
        """Parts with room or with tasks of the gang: number, whether a row, and whether such tasks stand there."""
        slot_tree, topology = self._ground, self._ground.topology
        children = np.array(topology.children[domain], dtype=np.int64)
        after = int(topology.end[children[-1]]) if len(children) else int(topology.start[domain])
        direct = np.arange(after, int(topology.end[domain]))
        direct = direct[slot_tree.inside[direct]]
        held = np.concatenate((self._quanta.held[children], slot_tree.standing[direct]))
        room = np.concatenate((self._room[children], slot_tree.room[direct]))
        drawn = np.concatenate((slot_tree.drawn_below[children], slot_tree.drawn[direct]))
        rank = np.concatenate((topology.rank[children], slot_tree.rank[direct]))
        is_row = np.repeat((False, True), (len(children), len(direct)))
        order = np.lexsort((rank, is_row, -room, -drawn, held == 0))
        order = order[(room[order] > 0) | (held[order] > 0)]
        numbers = np.concatenate((children, direct))
        yield from zip(numbers[order].tolist(), is_row[order].tolist(), (held[order] > 0).tolist(), strict=True)

    def _of_row(self, row: int) -> Bools:
        quantum, standing = int(self._quanta.rows[row]), int(self._quanta.standing[row])
        return self._mixture.in_steps(self._mixture.of_row(row), quantum, standing)

    def _of_domain(self, child: int) -> Bools:
        if child not in self._inside:
            self._inside[child] = self._add_up(child)
        quantum, held = int(self._quanta.domains[child]), int(self._quanta.held[child])
        return self._mixture.in_steps(self._inside[child][1][-1], quantum, held)

    def _followed(self, parts: list[_Part], tables: list[Bools], mix: Mix) -> dict[int, Mix]:
        """What each row takes; the last parts take as little as they can."""
        dealt: list[dict[int, Mix]] = []
        for part, before in zip(reversed(parts), reversed(tables[:-1]), strict=True):
            mine = self._share(part.placements, before, mix)
            mix = tuple(a - b for a, b in zip(mix, mine, strict=True))
            if any(mine) and part.is_row:
                dealt.append({part.number: mine})
            elif any(mine):
                dealt.append(self._followed(*self._inside[part.number], mine))
        return {row: numbers for rows in reversed(dealt) for row, numbers in rows.items()}

    def _share(self, placements: Bools, before: Bools, mix: Mix) -> Mix:
        """The least that a part can take of a mixture if the parts before it take the rest."""
        upto = tuple(slice(0, number + 1) for number in mix)
        able = placements[upto] & np.flip(before[upto])
        return self._mixture.least(np.argwhere(able))


def gather_group(
    cycle: Cycle, job: Job, task_group: TaskGroup, *, pools: tuple[Pool, ...] = BOTH
) -> SearchResult | NoPlace:
    """The best place for a task group of a gathered job."""
    classes = _classes(task_group)
    count, cut = sum(c.count for c in classes), cycle.report.search_counts.cut
    for option in cycle.pipeline.gather_options(job, count):
        for pool in pools if cycle.ledger.any_releasing else pools[:1]:
            cycle.report.search_counts.trials += 1
            with cycle.ledger.statement() as statement:
                found = _try(cycle, job, task_group.sub, classes, option, pool)
                if found is not None:
                    statement.keep()
                    return found
    moving = any(cycle.pipeline.moving(c.shape) for c in classes)  # then rows are tried, and not in every way
    return NoPlace.of(bounded=moving or cycle.report.search_counts.cut > cut)


def gather_surplus(cycle: Cycle, job: Job, task_group: TaskGroup) -> list[Placement]:
    """As many tasks of a task group beyond the minimum as may join the others, in whole multiples."""
    shape = task_group.remaining[0].pod_set.shape
    slot_tree = slot_tree_of(cycle, shape, task_group.sub, job, Pool.IDLE)
    widest = cycle.pipeline.gather_options(job, task_group.need)[-1]
    most = slot_tree.most(widest, task_group.need)
    fewest = 0 if cycle.pipeline.moving(shape) else max(most - 1, 0)  # where nodes change, fewer may fit than counted
    for number in range(most, fewest, -1):
        found = gather_group(cycle, job, replace(task_group, need=number), pools=NOW_ONLY)
        if isinstance(found, SearchResult):
            return list(found.placements)
    return []


def slot_tree_of(cycle: Cycle, shape: Shape, sub: SubJob, job: Job, pool: Pool) -> SlotTree:
    """The tree as tasks of one shape see it."""
    return slot_tree_on(cycle, sub, job, cycle.fit_counts.of(shape).rows(pool))


def slot_tree_on(cycle: Cycle, sub: SubJob, job: Job, room: Ints) -> SlotTree:
    """The job's tree as tasks see it that find so much room on each row; its rows are the tree's own (`rows_of`)."""
    nodes = len(cycle.nodes)
    stands = cycle.ledger.placed_rows(sub)
    standing = np.zeros(nodes, dtype=np.int64)
    if stands is not None:
        standing += np.bincount(*stands, minlength=nodes).astype(np.int64)
    drawn = job.gather.drawn if job.gather is not None else np.zeros(0, dtype=np.int64)
    near = np.bincount(drawn, minlength=nodes) + standing
    alternate = cycle.alternate_topology(job)
    if alternate is None:
        return SlotTree(cycle.topology, cycle.nodes.rank, room, near, standing)
    rows = alternate.rows
    return SlotTree(alternate.topology, cycle.nodes.rank[rows], room[rows], near[rows], standing[rows])


def rows_of(cycle: Cycle, job: Job, rows: Ints) -> Ints:
    """Rows of the cluster for rows of the job's tree."""
    alternate = cycle.alternate_topology(job)
    return rows if alternate is None else alternate.rows[rows]


def _domain(cycle: Cycle, job: Job, domain: int, rows: Ints) -> int:
    """The domain that was found: around the rows, where it is one of another tree than the one that rows follow."""
    return domain if cycle.alternate_topology(job) is None else cycle.topology.meet_rows(rows)


class _Class(msgspec.Struct, frozen=True):
    """Tasks of one shape: how many of each remaining tasks."""

    shape: Shape
    parts: tuple[tuple[RemainingTasks, int], ...]

    @property
    def count(self) -> int:
        return sum(number for _, number in self.parts)


def _classes(task_group: TaskGroup) -> list[_Class]:
    """What a task group takes of each remaining tasks, role minimums first, by shape."""
    shapes: dict[int, list[tuple[RemainingTasks, int]]] = {}
    for tasks_left, number in zip(task_group.remaining, counts_by_pod_set(task_group), strict=True):
        if number:
            shapes.setdefault(tasks_left.pod_set.shape.number, []).append((tasks_left, number))
    return [_Class(parts[0][0].pod_set.shape, tuple(parts)) for parts in shapes.values()]


def _try(
    cycle: Cycle, job: Job, sub: SubJob, classes: Sequence[_Class], option: GatherOption, pool: Pool
) -> SearchResult | None:
    count = sum(c.count for c in classes)
    moving = any(cycle.pipeline.moving(c.shape) for c in classes)
    for room in _rooms(cycle, classes, pool, moving=moving):
        slot_tree = slot_tree_on(cycle, sub, job, room)
        each = slot_tree.each(option, count)
        for gathered in cycle.first(each, cycle.budget.gathered_places) if moving else islice(each, 1):
            with cycle.ledger.statement() as statement:
                rows = rows_of(cycle, job, gathered.rows)
                placements = _poured(cycle, job, sub, classes, rows, pool, checked=moving)
                if placements is not None:
                    statement.keep()
                    return SearchResult(_domain(cycle, job, gathered.domain, rows), tuple(placements), 0.0)
    if len(classes) == 1:
        return None
    if not moving and option.pipeline == 1:
        with suppress(OutOfBoundError):
            if fits_bound(cycle, tuple(c.count for c in classes)):
                return _mixed(cycle, job, sub, classes, option, pool)
        cycle.report.search_counts.cut += 1
    return _class_by_class(cycle, job, sub, classes, option, pool) if not option.multiples else None


def _mixed(
    cycle: Cycle, job: Job, sub: SubJob, classes: Sequence[_Class], option: GatherOption, pool: Pool
) -> SearchResult | None:
    """All classes in one domain, each node taking whatever mixture it has room for."""
    requests = np.stack([c.shape.request for c in classes])
    asked = np.flatnonzero(requests.any(axis=0))
    open_to = np.stack([cycle.fit_counts.of(c.shape).why == 0 for c in classes])
    free = cycle.ledger.free(asked, slice(0, len(cycle.nodes)), pool)
    slot_tree = slot_tree_on(cycle, sub, job, np.zeros(len(cycle.nodes), dtype=np.int64))
    counts = tuple(c.count for c in classes)
    every = rows_of(cycle, job, np.arange(len(cycle.nodes)))
    mixture = Mixture(
        slot_tree, counts, requests[:, asked], free[:, every], open_to=open_to[:, every], work=cycle.budget.work
    )
    found = mixture.find(option, lambda each: cycle.first(each, cycle.budget.mixed_places))
    if found is None:
        return None
    placements: list[Placement] = []
    rows = rows_of(cycle, job, found.rows)
    for c, numbers in zip(classes, found.numbers.T, strict=True):
        placements += _poured(cycle, job, sub, [c], np.repeat(rows, numbers), pool, checked=False) or ()
    return SearchResult(_domain(cycle, job, found.domain, rows), tuple(placements), 0.0)


def _rooms(cycle: Cycle, classes: Sequence[_Class], pool: Pool, *, moving: bool) -> Iterator[Ints]:
    """How many tasks each row takes, whichever of them they are; where nodes change, one each is tried first."""
    if len(classes) == 1:
        room = cycle.fit_counts.of(classes[0].shape).rows(pool)
    else:
        request = np.maximum.reduce([c.shape.request for c in classes])
        asked = np.flatnonzero(request)
        free = cycle.ledger.free(asked, slice(0, len(cycle.nodes)), pool)
        room = np.maximum((free // request[asked, None]).min(axis=0), 0)
        for c in classes:
            room[cycle.fit_counts.of(c.shape).why != 0] = 0
    if moving:
        everywhere = slice(0, len(cycle.nodes))
        open_now = np.logical_and.reduce([cycle.allowed(c.shape, everywhere, pool) for c in classes])
        room = np.where(open_now, room, 0)
        yield np.minimum(room, 1)
    yield room


def _poured(
    cycle: Cycle, job: Job, sub: SubJob, classes: Sequence[_Class], rows: Ints, pool: Pool, *, checked: bool
) -> list[Placement] | None:
    """Tasks in rank order onto rows in order; `checked` asks the filters again before each of them."""
    pod_sets = [
        (c.shape, tasks_left.pod_set, number, _next(tasks_left, number))
        for c in classes
        for tasks_left, number in c.parts
    ]
    ranks = np.concatenate([ranks for *_, ranks in pod_sets])
    place = np.empty(len(ranks), dtype=np.int64)
    place[np.argsort(ranks, kind="stable")] = np.arange(len(ranks))
    placements, start = [], 0
    for shape, pod_set, number, _ in pod_sets:
        own = rows[place[start : start + number]]
        start += number
        ask = Ask(shape, sub, job)
        if checked and not _allowed(cycle, ask, own, pool):
            return None
        distinct, counts = np.unique(own, return_counts=True)
        placed = place_tasks(cycle, ask, pod_set, (distinct, counts), pool)
        placements.append(Placement(placed.sub, pod_set, own, pool))  # each task on its own node, in rank order
    return placements


def _next(tasks_left: RemainingTasks, number: int) -> Ints:
    """The ranks of the tasks that are dealt next from remaining tasks."""
    start = len(tasks_left.pod_set.tasks) - tasks_left.left
    return np.array([task.rank for task in tasks_left.pod_set.tasks[start : start + number]])


def _allowed(cycle: Cycle, ask: Ask, rows: Ints, pool: Pool) -> bool:
    """Whether tasks may stand on these rows one after the other."""
    with cycle.ledger.statement():
        for row in rows.tolist():
            if not cycle.fits(ask, slice(row, row + 1), pool)[0]:
                return False
            cycle.ledger.place(ask.shape, np.array([row]), np.array([1]), pool=pool)
    return True


def _class_by_class(
    cycle: Cycle, job: Job, sub: SubJob, classes: Sequence[_Class], option: GatherOption, pool: Pool
) -> SearchResult | None:
    """Each class by itself in the room that the others leave, all in one domain."""
    lead = max(classes, key=lambda c: c.count)
    slot_tree = slot_tree_on(cycle, sub, job, cycle.fit_counts.of(lead.shape).rows(pool))
    for gathered in cycle.first(slot_tree.each(option, lead.count), cycle.budget.gathered_places):
        inside = np.zeros(len(cycle.nodes), dtype=bool)
        span = slot_tree.topology.span(gathered.domain)
        inside[rows_of(cycle, job, np.arange(span.start, span.stop))] = True
        for order in cycle.first(permutations(classes), cycle.budget.class_orders):
            with cycle.ledger.statement() as statement:
                placements = _in_order(cycle, job, sub, order, option, inside, pool)
                if placements is not None:
                    statement.keep()
                    rows = np.concatenate([place_tasks.rows for place_tasks in placements])
                    return SearchResult(_domain(cycle, job, gathered.domain, rows), tuple(placements), 0.0)
    return None


def _in_order(
    cycle: Cycle, job: Job, sub: SubJob, order: Sequence[_Class], option: GatherOption, inside: Bools, pool: Pool
) -> list[Placement] | None:
    placements: list[Placement] = []
    for c in order:
        room = np.where(inside, cycle.fit_counts.of(c.shape).rows(pool), 0)
        gathered = slot_tree_on(cycle, sub, job, room).find(replace(option, pipeline=1), c.count)
        if gathered is None:
            return None
        rows = rows_of(cycle, job, gathered.rows)
        found = _poured(cycle, job, sub, [c], rows, pool, checked=cycle.pipeline.moving(c.shape))
        if found is None:
            return None
        placements += found
    return placements
