"""Find a place for a gathered job: the ways that its plugin names, one after the other, on the room that there is.

Tasks of one plain shape are counted (`framework.gathering`), which is exact. Several plain shapes are counted as if
each were as large as the largest, which keeps ranks together, and where that fails as the mixtures that nodes take
(`framework.mixing`), which is exact too. Demands too large for that, and shapes whose nodes change as they are placed,
are tried on the ledger class by class, in every order of the classes while these are few.
What is found stands on the ledger on return; what is not found leaves no trace.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, permutations

import msgspec
import numpy as np
from msgspec.structs import replace

from tierwise.actions.demand import Lot, Portion
from tierwise.actions.fit import Take, take
from tierwise.actions.search import BOTH, NOW_ONLY, Found
from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import Ask
from tierwise.framework.gathering import Ground, Way
from tierwise.framework.ledger import Pool
from tierwise.framework.mixing import Mixture, fits_bound
from tierwise.model.arrays import Bools, Ints
from tierwise.model.job import Job, SubJob
from tierwise.model.shape import Shape

__all__ = ["everything", "gather_lot", "gather_surplus", "ground_of", "ground_on", "rows_of"]

_ORDERS = 24
"""How many orders of classes are tried; more than four classes are not tried in every order."""
_PLACES = 64
"""How many domains of a tier are tried where counting alone does not tell."""


def gather_lot(cycle: Cycle, job: Job, lot: Lot, *, pools: tuple[Pool, ...] = BOTH) -> Found | None:
    """The best place for a lot of a gathered job."""
    classes = _classes(lot)
    count = sum(c.count for c in classes)
    for way in cycle.pipeline.ways(job, count):
        for pool in pools if cycle.ledger.any_releasing else pools[:1]:
            cycle.report.work.trials += 1
            with cycle.ledger.statement() as statement:
                found = _try(cycle, job, lot.sub, classes, way, pool)
                if found is not None:
                    statement.keep()
                    return found
    return None


def gather_surplus(cycle: Cycle, job: Job, lot: Lot) -> list[Take]:
    """As many tasks of a lot beyond the minimum as may join the others, in whole multiples."""
    shape = lot.portions[0].part.shape
    ground = ground_of(cycle, shape, lot.sub, job, Pool.NOW)
    widest = cycle.pipeline.ways(job, lot.need)[-1]
    most = ground.most(widest, lot.need)
    fewest = 0 if cycle.pipeline.moving(shape) else max(most - 1, 0)  # where nodes change, fewer may fit than counted
    for number in range(most, fewest, -1):
        found = gather_lot(cycle, job, replace(lot, need=number), pools=NOW_ONLY)
        if found is not None:
            return list(found.takes)
    return []


def everything(lot: Lot) -> Lot:
    """A lot of all that is left, not only of what the minimum needs."""
    return replace(lot, need=sum(portion.left for portion in lot.portions))


def ground_of(cycle: Cycle, shape: Shape, sub: SubJob, job: Job, pool: Pool) -> Ground:
    """The tree as tasks of one shape see it."""
    return ground_on(cycle, sub, job, cycle.rooms.of(shape).rows(pool))


def ground_on(cycle: Cycle, sub: SubJob, job: Job, room: Ints) -> Ground:
    """The job's tree as tasks see it that find so much room on each row; its rows are the tree's own (`rows_of`)."""
    nodes = len(cycle.nodes)
    stands = cycle.ledger.stands(sub)
    standing = np.zeros(nodes, dtype=np.int64)
    if stands is not None:
        standing += np.bincount(*stands, minlength=nodes).astype(np.int64)
    drawn = job.gather.drawn if job.gather is not None else np.zeros(0, dtype=np.int64)
    near = np.bincount(drawn, minlength=nodes) + standing
    fabric = cycle.fabric(job)
    if fabric is None:
        return Ground(cycle.topology, cycle.nodes.rank, room, near, standing)
    rows = fabric.rows
    return Ground(fabric.topology, cycle.nodes.rank[rows], room[rows], near[rows], standing[rows])


def rows_of(cycle: Cycle, job: Job, rows: Ints) -> Ints:
    """Rows of the cluster for rows of the job's tree."""
    fabric = cycle.fabric(job)
    return rows if fabric is None else fabric.rows[rows]


def _domain(cycle: Cycle, job: Job, domain: int, rows: Ints) -> int:
    """The domain that was found: around the rows, where it is one of another tree than the one that rows follow."""
    return domain if cycle.fabric(job) is None else cycle.topology.meet_rows(rows)


class _Class(msgspec.Struct, frozen=True):
    """Tasks of one shape: how many of each portion."""

    shape: Shape
    parts: tuple[tuple[Portion, int], ...]

    @property
    def count(self) -> int:
        return sum(number for _, number in self.parts)


def _classes(lot: Lot) -> list[_Class]:
    """What a lot takes of each portion, role minimums first, by shape."""
    roles, left = dict(lot.roles), lot.need
    numbers = []
    for portion in lot.portions:
        number = min(portion.left, roles.get(portion.part.role_number, 0))
        roles[portion.part.role_number] = roles.get(portion.part.role_number, 0) - number
        numbers.append(number)
        left -= number
    shapes: dict[int, list[tuple[Portion, int]]] = {}
    for portion, number in zip(lot.portions, numbers, strict=True):
        more = min(portion.left - number, max(left, 0))
        left -= more
        if number + more:
            shapes.setdefault(portion.part.shape.number, []).append((portion, number + more))
    return [_Class(parts[0][0].part.shape, tuple(parts)) for parts in shapes.values()]


def _try(cycle: Cycle, job: Job, sub: SubJob, classes: Sequence[_Class], way: Way, pool: Pool) -> Found | None:
    count = sum(c.count for c in classes)
    moving = any(cycle.pipeline.moving(c.shape) for c in classes)
    for room in _rooms(cycle, classes, pool, moving=moving):
        ground = ground_on(cycle, sub, job, room)
        for gathered in islice(ground.each(way, count), _PLACES if moving else 1):
            with cycle.ledger.statement() as statement:
                rows = rows_of(cycle, job, gathered.rows)
                takes = _poured(cycle, job, sub, classes, rows, pool, checked=moving)
                if takes is not None:
                    statement.keep()
                    return Found(_domain(cycle, job, gathered.domain, rows), tuple(takes), 0.0)
    if len(classes) == 1:
        return None
    if not moving and way.pipeline == 1 and fits_bound(tuple(c.count for c in classes)):
        return _mixed(cycle, job, sub, classes, way, pool)
    return _class_by_class(cycle, job, sub, classes, way, pool) if not way.multiples else None


def _mixed(cycle: Cycle, job: Job, sub: SubJob, classes: Sequence[_Class], way: Way, pool: Pool) -> Found | None:
    """All classes in one domain, each node taking whatever mixture it has room for."""
    requests = np.stack([c.shape.request for c in classes])
    asked = np.flatnonzero(requests.any(axis=0))
    open_to = np.stack([cycle.rooms.of(c.shape).why == 0 for c in classes])
    free = cycle.ledger.free(asked, slice(0, len(cycle.nodes)), pool)
    ground = ground_on(cycle, sub, job, np.zeros(len(cycle.nodes), dtype=np.int64))
    counts = tuple(c.count for c in classes)
    every = rows_of(cycle, job, np.arange(len(cycle.nodes)))
    found = Mixture(ground, counts, requests[:, asked], free[:, every], open_to=open_to[:, every]).find(way)
    if found is None:
        return None
    takes: list[Take] = []
    rows = rows_of(cycle, job, found.rows)
    for c, numbers in zip(classes, found.numbers.T, strict=True):
        takes += _poured(cycle, job, sub, [c], np.repeat(rows, numbers), pool, checked=False) or ()
    return Found(_domain(cycle, job, found.domain, rows), tuple(takes), 0.0)


def _rooms(cycle: Cycle, classes: Sequence[_Class], pool: Pool, *, moving: bool) -> Iterator[Ints]:
    """How many tasks each row takes, whichever of them they are; where nodes change, one each is tried first."""
    if len(classes) == 1:
        room = cycle.rooms.of(classes[0].shape).rows(pool)
    else:
        request = np.maximum.reduce([c.shape.request for c in classes])
        asked = np.flatnonzero(request)
        free = cycle.ledger.free(asked, slice(0, len(cycle.nodes)), pool)
        room = np.maximum((free // request[asked, None]).min(axis=0), 0)
        for c in classes:
            room[cycle.rooms.of(c.shape).why != 0] = 0
    if moving:
        everywhere = slice(0, len(cycle.nodes))
        open_now = np.logical_and.reduce([cycle.pipeline.why_not_now(c.shape, everywhere) == 0 for c in classes])
        room = np.where(open_now, room, 0)
        yield np.minimum(room, 1)
    yield room


def _poured(
    cycle: Cycle, job: Job, sub: SubJob, classes: Sequence[_Class], rows: Ints, pool: Pool, *, checked: bool
) -> list[Take] | None:
    """Tasks in rank order onto rows in order; `checked` asks the filters again before each of them."""
    parts = [(c.shape, portion.part, number, _next(portion, number)) for c in classes for portion, number in c.parts]
    ranks = np.concatenate([ranks for *_, ranks in parts])
    place = np.empty(len(ranks), dtype=np.int64)
    place[np.argsort(ranks, kind="stable")] = np.arange(len(ranks))
    takes, start = [], 0
    for shape, part, number, _ in parts:
        own = rows[place[start : start + number]]
        start += number
        ask = Ask(shape, sub, job)
        if checked and not _allowed(cycle, ask, own, pool):
            return None
        distinct, counts = np.unique(own, return_counts=True)
        placed = take(cycle, ask, part, (distinct, counts), pool)
        takes.append(Take(placed.sub, part, own, pool))  # each task on its own node, in rank order
    return takes


def _next(portion: Portion, number: int) -> Ints:
    """The ranks of the tasks that are dealt next from a portion."""
    start = len(portion.part.tasks) - portion.left
    return np.array([task.rank for task in portion.part.tasks[start : start + number]])


def _allowed(cycle: Cycle, ask: Ask, rows: Ints, pool: Pool) -> bool:
    """Whether tasks may stand on these rows one after the other."""
    with cycle.ledger.statement():
        for row in rows.tolist():
            if not cycle.fits(ask, slice(row, row + 1), pool)[0]:
                return False
            cycle.ledger.take(ask.shape, np.array([row]), np.array([1]), pool=pool)
    return True


def _class_by_class(
    cycle: Cycle, job: Job, sub: SubJob, classes: Sequence[_Class], way: Way, pool: Pool
) -> Found | None:
    """Each class by itself in the room that the others leave, all in one domain."""
    lead = max(classes, key=lambda c: c.count)
    ground = ground_on(cycle, sub, job, cycle.rooms.of(lead.shape).rows(pool))
    for gathered in islice(ground.each(way, lead.count), _PLACES):
        inside = np.zeros(len(cycle.nodes), dtype=bool)
        span = ground.topology.span(gathered.domain)
        inside[rows_of(cycle, job, np.arange(span.start, span.stop))] = True
        for order in islice(permutations(classes), _ORDERS):
            with cycle.ledger.statement() as statement:
                takes = _in_order(cycle, job, sub, order, way, inside, pool)
                if takes is not None:
                    statement.keep()
                    rows = np.concatenate([take.rows for take in takes])
                    return Found(_domain(cycle, job, gathered.domain, rows), tuple(takes), 0.0)
    return None


def _in_order(
    cycle: Cycle, job: Job, sub: SubJob, order: Sequence[_Class], way: Way, inside: Bools, pool: Pool
) -> list[Take] | None:
    takes: list[Take] = []
    for c in order:
        room = np.where(inside, cycle.rooms.of(c.shape).rows(pool), 0)
        gathered = ground_on(cycle, sub, job, room).find(replace(way, pipeline=1), c.count)
        if gathered is None:
            return None
        rows = rows_of(cycle, job, gathered.rows)
        found = _poured(cycle, job, sub, [c], rows, pool, checked=cycle.pipeline.moving(c.shape))
        if found is None:
            return None
        takes += found
    return takes
