"""Would a gang fit in a domain if certain tasks were gone? Asked often, so it is counted wherever counting is exact.

`_Counted` serves demands of one plain shape: fit counts per row with the victims' amounts added, summed over the gang's
domains. `_Mixed` serves those of several plain shapes all of which must be placed, a leader and workers: bounds by
counts first, and `mixtures` where these say yes. `_Tried` serves everything else: evict on the ledger, search, rewind.
"""

from __future__ import annotations

from itertools import pairwise
from operator import floordiv
from typing import Protocol

import numpy as np

from tierwise.actions.eviction.mixtures import Mixture
from tierwise.actions.placement.bounds import Room
from tierwise.actions.placement.demand import Demand, TaskGroup
from tierwise.actions.placement.problem import SearchResult
from tierwise.actions.placement.solve import solve
from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import Preemptor, Purpose
from tierwise.framework.ledger import Pool, job_ready
from tierwise.model.arrays import Bools, Ints, growth_in_turn, summed
from tierwise.model.reason import Reason
from tierwise.model.shape import Shape

__all__ = [
    "Feasibility",
    "fewest_by_trial",
    "first_alone_by_trial",
    "fits_in",
    "needed_by_trial",
    "place_in",
    "quota_allows",
    "quota_objection",
]


class Feasibility(Protocol):
    """Whether the gang fits once some victims (positions in the running table, inside the domain) are gone."""

    def without(self, victims: Ints) -> bool: ...

    def fewest(self, victims: Ints, start: Ints) -> int | None:
        """How many parts from the front make room; None where all of them make too little.

        Part i is `victims[start[i]:start[i + 1]]`.
        """

    def needed(self, victims: Ints, start: Ints, fixed: Ints) -> list[int]:
        """Which parts must go beside the fixed victims: in order, each is spared where that is possible."""

    def first_alone(self, victims: Ints, start: Ints, fixed: Ints) -> int | None:
        """The first part that makes room by itself beside the fixed victims; None where no part does."""

    def some_suffice(self, victims: Ints) -> bool:
        """Whether some of these victims could make room; never too strict."""


def fewest_by_trial(fits: Feasibility, victims: Ints, start: Ints) -> int | None:
    """By bisection, as more victims never make less room: the slow reference, as below."""
    if fits.without(victims[:0]):
        return 0
    if not fits.without(victims):
        return None
    low, high = 0, len(start) - 1  # `low` are too few, `high` are enough
    while high - low > 1:
        middle = (low + high) // 2
        if fits.without(victims[: start[middle]]):
            high = middle
        else:
            low = middle
    return high


def needed_by_trial(fits: Feasibility, victims: Ints, start: Ints, fixed: Ints) -> list[int]:
    """Every trial asks anew: the slow reference, and all that there is where nothing can be counted.

    Runs of increasing length are spared at once: parts that can be spared together could also be spared one by one.
    """
    going: list[int] = []
    gone = np.ones(len(victims), dtype=bool)
    at, step, parts = 0, 1, len(start) - 1
    while at < parts:
        left = gone.copy()
        left[start[at] : start[min(at + step, parts)]] = False
        if fits.without(np.concatenate([fixed, victims[left]])):
            gone = left
            at, step = at + step, step * 2
        elif step > 1:
            step = 1
        else:
            going.append(at)
            at += 1
    return going


def first_alone_by_trial(fits: Feasibility, victims: Ints, start: Ints, fixed: Ints) -> int | None:
    """One after the other: the slow reference, as above."""
    parts = pairwise(start.tolist())
    return next((i for i, (a, b) in enumerate(parts) if fits.without(np.concatenate((fixed, victims[a:b])))), None)


def fits_in(cycle: Cycle, preemptor: Preemptor, asked: Demand, domain: int) -> Feasibility:
    """The cheapest exact test for a demand in a domain."""
    counted: Feasibility | None = None
    if not cycle.gathered(preemptor.job):
        counted = _Counted.of(cycle, preemptor, asked, domain) or _Mixed.of(cycle, preemptor, asked, domain)
    return counted if counted is not None else _Tried(cycle, preemptor, asked, domain)


def quota_allows(cycle: Cycle, preemptor: Preemptor, victims: Ints) -> bool:
    """Whether the queues let the gang have its minimum once the victims count for nobody."""
    return quota_objection(cycle, preemptor, victims) is None


def quota_objection(cycle: Cycle, preemptor: Preemptor, victims: Ints) -> Reason | None:
    """Why they do not."""
    if cycle.pipeline.quota_exceeded(preemptor.job, preemptor.need) is None:
        return None
    running = preemptor.running
    with cycle.ledger.statement():
        if len(victims):
            jobs, owner = np.unique(running.job[victims], return_inverse=True)
            freed = np.stack([summed(owner, request[victims], len(jobs)) for request in running.request])
            cycle.ledger.charge_all([cycle.snapshot.jobs[job] for job in jobs.tolist()], -freed)
        return cycle.pipeline.quota_exceeded(preemptor.job, preemptor.need)


def place_in(cycle: Cycle, preemptor: Preemptor, asked: Demand, domain: int) -> SearchResult | None:
    """Search a place for the demand inside one domain, on the ledger as it is; what is found stays on it."""
    found = solve(cycle, preemptor.job, asked, within=domain)
    return found if isinstance(found, SearchResult) and _as_allowed(cycle, preemptor, found) else None


def _as_allowed(cycle: Cycle, preemptor: Preemptor, found: SearchResult) -> bool:
    """Where tasks differ, others than those that were weighed may find the place: they must be allowed as well."""
    given = np.zeros_like(preemptor.need)
    for placement in found.placements:
        given += placement.pod_set.shape.request * len(placement.rows)
    if (given == preemptor.need).all():
        return True
    with cycle.ledger.statement():
        cycle.ledger.charge(preemptor.job, -given)  # it is charged already
        if preemptor.purpose is Purpose.RECLAIM and cycle.pipeline.may_reclaim(preemptor.job, given) is not None:
            return False
        return cycle.pipeline.quota_exceeded(preemptor.job, given) is None


def _inner_domains(cycle: Cycle, preemptor: Preemptor, asked: Demand, domain: int) -> tuple[Ints, Ints] | None:
    """Where the domains begin and end, in rows of this one, to one of which each task group is confined.

    It is the domain itself where the job has no sub-groups; None where task groups differ in that, or have tasks that
    are placed already.
    """
    span = cycle.topology.span(domain)
    if not preemptor.job.policies:
        return np.array([0]), np.array([span.stop - span.start])
    if any(cycle.ledger.placed_rows(task_group.sub) is not None for task_group in asked.task_groups):
        return None
    limits = {cycle.pipeline.limit(task_group.sub) for task_group in asked.task_groups}
    limit = next(iter(limits))
    if len(limits) > 1 or limit is None:
        return None
    inside = np.arange(domain, int(cycle.topology.last[domain]))
    inside = inside[cycle.topology.tier[inside] <= limit]
    widest = inside[~np.isin(cycle.topology.parent[inside], inside)]
    if not len(widest):
        return None
    return cycle.topology.start[widest] - span.start, cycle.topology.end[widest] - span.start


class _Counted:
    """One plain shape, in one task group or in task groups of which each is confined to an inner domain."""

    def __init__(
        self, cycle: Cycle, preemptor: Preemptor, asked: Demand, domain: int, inner: tuple[Ints, Ints, int]
    ) -> None:
        shape = asked.task_groups[0].remaining[0].pod_set.shape
        span = cycle.topology.span(domain)
        inside = preemptor.running.inside(span)
        self._cycle = cycle
        self._cause = preemptor
        self._free = cycle.ledger.free(shape.asked, span, Pool.FUTURE_IDLE)
        self._asked = shape.request[shape.asked, None]
        self._open = (cycle.fit_counts.of(shape).why[span] == 0).astype(np.int64)
        self._first = inside.start
        self._rows = preemptor.running.row[inside] - span.start
        self._amounts = preemptor.running.request[shape.asked, inside]
        self._shift = np.arange(len(shape.asked))[:, None] * (span.stop - span.start)
        self._starts, self._ends, self._size = inner
        rows = np.arange(span.stop - span.start)
        self._inner = np.maximum(np.searchsorted(self._starts, rows, side="right") - 1, 0)
        self._open &= (self._starts[self._inner] <= rows) & (rows < self._ends[self._inner])
        self._groups = asked.tasks // self._size
        self._free_of_quotas = cycle.pipeline.quota_exceeded(preemptor.job, preemptor.need) is None

    @classmethod
    def of(cls, cycle: Cycle, preemptor: Preemptor, asked: Demand, domain: int) -> _Counted | None:
        """None where counting would not be exact."""
        first = asked.task_groups[0]
        if (
            preemptor.job.inner_groups
            or asked.spares
            or any(
                len(task_group.remaining) != 1 or task_group.roles or task_group.need != first.need
                for task_group in asked.task_groups
            )
        ):
            return None
        shape = first.remaining[0].pod_set.shape
        if any(
            task_group.remaining[0].pod_set.shape is not shape for task_group in asked.task_groups
        ) or cycle.pipeline.moving(shape):
            return None
        inner = _inner_domains(cycle, preemptor, asked, domain)
        return None if inner is None else cls(cycle, preemptor, asked, domain, (*inner, first.need))

    def without(self, victims: Ints) -> bool:
        enough = self._holds(self._room(self._freed(victims)))
        return enough and self._quotas_allow(victims)

    def fewest(self, victims: Ints, start: Ints) -> int | None:
        number = self._enough(self._free, victims)
        if number is None:
            return None
        parts = int(np.searchsorted(start, number))
        return parts if self._quotas_allow(victims[: start[parts]]) else fewest_by_trial(self, victims, start)

    def needed(self, victims: Ints, start: Ints, fixed: Ints) -> list[int]:
        free, at = self._freed(np.concatenate((fixed, victims))), 0
        if not self._takes_no_more(self._room(free)):
            number = self._enough(self._freed(fixed), victims[::-1])  # without them nothing in front of them need go
            at = 0 if number is None else int(np.searchsorted(start, len(victims) - number, side="right")) - 1
            free = self._freed(np.concatenate((fixed, victims[start[at] :])))
        going = self._one_by_one(victims, start, at, free)
        if self._free_of_quotas:
            return going
        left = np.zeros(len(start) - 1, dtype=bool)
        left[going] = True
        chosen = np.concatenate((fixed, victims[np.repeat(left, np.diff(start))]))
        return going if self._quotas_allow(chosen) else needed_by_trial(self, victims, start, fixed)

    def _quotas_allow(self, victims: Ints) -> bool:
        """Whether queues let the gang in; the more victims go, the more they allow."""
        return self._free_of_quotas or quota_allows(self._cycle, self._cause, victims)

    def _takes_no_more(self, room: Ints) -> bool:
        """Whether there is room for what is asked for, in whole groups, and for no task besides."""
        sums = summed(self._inner, room, len(self._starts))
        return int((sums // self._size).sum()) == self._groups and not (sums % self._size).any()

    def _enough(self, free: Ints, victims: Ints) -> int | None:
        """How many victims from the front make room beside what is `free`; None where all of them make too little."""
        here = victims - self._first
        turn = np.flatnonzero(self._open[self._rows[here]])
        here = here[turn]
        room, rows = self._room(free), self._rows[here]
        grown = growth_in_turn(rows, free, np.take(self._amounts, here, axis=1), self._room)
        if len(self._starts) == 1:
            upto, enough = int(room.sum()) + np.concatenate(([0], np.cumsum(grown))), self._groups * self._size
        else:
            turn, rows, grown = turn[grown > 0], rows[grown > 0], grown[grown > 0]
            sums = summed(self._inner, room, len(self._starts))
            groups = growth_in_turn(self._inner[rows], sums[None], grown[None], lambda sums, _: sums[0] // self._size)
            upto, enough = int((sums // self._size).sum()) + np.concatenate(([0], np.cumsum(groups))), self._groups
        number = int(np.searchsorted(upto, enough))
        return None if number == len(upto) else int(turn[number - 1]) + 1 if number else 0

    def _one_by_one(self, victims: Ints, start: Ints, at: int, free: Ints) -> list[int]:
        """Which of the parts from `at` on must go, given what is free without them.

        What each of them takes from its rows is counted for all of them at once, and counted again only for parts that
        share a row with one that was spared before them. Where no room is to spare, all parts must go that take any.
        """
        room = self._room(free)
        sums = summed(self._inner, room, len(self._starts)).tolist()
        slack = sum(number // self._size for number in sums) - self._groups
        if slack < 0:  # all of them together make too little room
            return list(range(at, len(start) - 1))
        part, row, freed = self._cells(victims, start, at, room > 0)  # rows without room have none to lose
        left = free[:, row] - freed
        counts = self._room(left, row)
        going: list[int] = []
        if self._takes_no_more(room):
            must = np.zeros(len(start), dtype=bool)
            must[part[room[row] > counts]] = True
            going = np.flatnonzero(must).tolist()
            rest = np.flatnonzero(~must[part])
            part, row, freed, left, counts = part[rest], row[rest], freed[:, rest], left[:, rest], counts[rest]
        after, asked = counts.tolist(), self._asked[:, 0].tolist()
        rows, amounts, lefts = row.tolist(), freed.T.tolist(), left.T.tolist()
        rooms, inners = room[row].tolist(), self._inner[row].tolist()
        by_row: dict[int, tuple[list[int], int]] = {}  # of rows where a part was spared, what is free and for how many
        edges = np.flatnonzero(np.diff(part, prepend=-1, append=-1)).tolist()
        for first, last in pairwise(edges):
            lost: dict[int, int] = {}
            for cell in range(first, last):
                if rows[cell] in by_row:
                    free_here, rooms[cell] = by_row[rows[cell]]
                    lefts[cell] = [a - b for a, b in zip(free_here, amounts[cell], strict=True)]
                    after[cell] = max(min(map(floordiv, lefts[cell], asked)), 0)
                lost[inners[cell]] = lost.get(inners[cell], 0) + rooms[cell] - after[cell]
            groups = sum(sums[i] // self._size - (sums[i] - number) // self._size for i, number in lost.items())
            if groups > slack:
                going.append(int(part[first]))
                continue
            slack -= groups
            for cell in range(first, last):
                by_row[rows[cell]] = lefts[cell], after[cell]
            for i, number in lost.items():
                sums[i] -= number
        return sorted(going)

    def _cells(self, victims: Ints, start: Ints, at: int, concerned: Bools) -> tuple[Ints, Ints, Ints]:
        """What the parts from `at` on free on each row that is concerned: part, row, and amounts by resource."""
        here = victims[start[at] :] - self._first
        part = np.repeat(np.arange(at, len(start) - 1), np.diff(start[at:]))
        some = concerned[self._rows[here]]
        here, part = here[some], part[some]
        cells = part * len(concerned) + self._rows[here]
        order = np.argsort(cells)
        first = np.flatnonzero(np.diff(cells[order], prepend=-1))
        one = order[first]  # of each cell
        return part[one], self._rows[here[one]], np.add.reduceat(self._amounts[:, here[order]], first, axis=1)

    def some_suffice(self, victims: Ints) -> bool:
        return self._holds(self._room(self._freed(victims)))  # the more go the better

    def first_alone(self, victims: Ints, start: Ints, fixed: Ints) -> int | None:
        free = self._freed(fixed)
        room, parts, inner = self._room(free), len(start) - 1, len(self._starts)
        part, row, freed = self._cells(victims, start, 0, self._open > 0)
        grown = self._room(free[:, row] + freed, row) - room[row]
        sums = np.tile(summed(self._inner, room, inner), parts)
        sums += summed(part * inner + self._inner[row], grown, parts * inner)
        enough = np.flatnonzero((sums // self._size).reshape(parts, inner).sum(axis=1) >= self._groups)
        beside = ((i, victims[start[i] : start[i + 1]]) for i in enough.tolist())
        return next((i for i, part in beside if self._quotas_allow(np.concatenate((fixed, part)))), None)

    def _freed(self, victims: Ints) -> Ints:
        """What is free of what is asked for, (resources x rows), once the victims are gone."""
        free = self._free.copy()
        if len(victims):
            here = victims - self._first
            cells = (self._rows[here] + self._shift).ravel()  # one count for all resources at once
            free += summed(cells, self._amounts[:, here].ravel(), free.size).reshape(free.shape)
        return free

    def _room(self, free: Ints, rows: Ints | slice = slice(None)) -> Ints:
        """How many tasks these rows take."""
        first, *others = self._asked[:, 0].tolist()  # dividing by one number is quicker than by many
        room: Ints = free[0] // first
        for amounts, each in zip(free[1:], others, strict=True):
            np.minimum(room, amounts // each, out=room)
        np.maximum(room, 0, out=room)
        room *= self._open[rows]
        return room

    def _holds(self, room: Ints) -> bool:
        if len(self._starts) == 1:
            return int(room[self._starts[0] : self._ends[0]].sum()) // self._size >= self._groups
        upto = np.concatenate(([0], np.cumsum(room)))
        return int(((upto[self._ends] - upto[self._starts]) // self._size).sum()) >= self._groups


class _Mixed:
    """Several plain shapes of which every task must be placed: in one task group, or in task groups of the same tasks
    each of which is confined to an inner domain.

    Whether so many tasks fit by the counts of each shape, and of the smallest that any of them asks for, is never too
    strict and says no to most; where it says yes, what rows take is counted together.
    """

    def __init__(
        self, cycle: Cycle, preemptor: Preemptor, asked: Demand, domain: int, inner: tuple[Ints, Ints]
    ) -> None:
        span = cycle.topology.span(domain)
        inside = preemptor.running.inside(span)
        sizes = _sizes(asked.task_groups[0])
        shapes = list(sizes)
        resources = np.unique(np.concatenate([shape.asked for shape in shapes]))
        requests = np.stack([shape.request[resources] for shape in shapes])
        self._cycle = cycle
        self._cause = preemptor
        self._mixture = Mixture(requests, np.array(list(sizes.values())), len(asked.task_groups))
        self._free = cycle.ledger.free(resources, span, Pool.FUTURE_IDLE)
        self._first = inside.start
        self._rows = preemptor.running.row[inside] - span.start
        self._amounts = preemptor.running.request[resources, inside]
        starts, ends = inner
        length = span.stop - span.start
        rows = np.arange(length)
        self._inner = np.maximum(np.searchsorted(starts, rows, side="right") - 1, 0)
        usable = (starts[self._inner] <= rows) & (rows < ends[self._inner])
        allowed = np.stack([(cycle.fit_counts.of(shape).why[span] == 0) & usable for shape in shapes])
        self._allowed: Bools = allowed[self._mixture.order]
        self._any: Bools = np.logical_or.reduce(allowed)
        width = 1 << int((ends - starts).max() - 1).bit_length()
        lines = starts[:, None] + np.arange(width)
        self._blocks: Ints = np.where(lines < ends[:, None], lines, -1)
        mixture = self._mixture
        self._counts = [  # what is asked for, where, and how many of it make a group
            *zip(mixture.requests, self._allowed, mixture.sizes.tolist(), strict=True),
            (mixture.least, self._any, int(mixture.sizes.sum())),
        ]

    @classmethod
    def of(cls, cycle: Cycle, preemptor: Preemptor, asked: Demand, domain: int) -> _Mixed | None:
        """None where counting would not be exact, or would take longer than a trial."""
        job, first = preemptor.job, asked.task_groups[0]
        sizes = _sizes(first)
        if (
            job.inner_groups
            or asked.spares
            or asked.alternatives is not None
            or sum(sizes.values()) != first.need
            or any(_sizes(group) != sizes or group.need != first.need for group in asked.task_groups[1:])
            or any(cycle.pipeline.moving(shape) for shape in sizes)
        ):
            return None
        inner = _inner_domains(cycle, preemptor, asked, domain)
        ways = Mixture.ways(np.array(list(sizes.values())), len(asked.task_groups))
        span = cycle.topology.span(domain)
        if inner is None or ways * (span.stop - span.start) > cycle.budget.victim_ways:
            return None
        return cls(cycle, preemptor, asked, domain, inner)

    def without(self, victims: Ints) -> bool:
        return self.some_suffice(victims) and quota_allows(self._cycle, self._cause, victims)

    def some_suffice(self, victims: Ints) -> bool:
        free = self._freed(victims)
        if int(self._at_most(free).sum()) < self._mixture.groups:
            return False
        together = self._mixture.together(self._mixture.tables(free, self._allowed), self._blocks)
        return int(self._mixture.whole_groups(together).sum()) >= self._mixture.groups

    def fewest(self, victims: Ints, start: Ints) -> int | None:
        return fewest_by_trial(self, victims, start)

    def needed(self, victims: Ints, start: Ints, fixed: Ints) -> list[int]:
        """Those in front that can all be spared are; of the others, those that no count can spare are not tried."""
        parts = len(start) - 1
        if not self.without(np.concatenate((fixed, victims))):
            return list(range(parts))
        low, high = 0, parts + 1  # `low` can be spared, `high` cannot
        while high - low > 1:
            middle = (low + high) // 2
            if self.without(np.concatenate((fixed, victims[start[middle] :]))):
                low = middle
            else:
                high = middle
        behind, start = victims[start[low] :], start[low:] - start[low]
        free = self._freed(np.concatenate((fixed, behind)))
        must = self._at_most_beside(free, behind, start, sign=-1) < self._mixture.groups
        gone = np.repeat(must, np.diff(start))
        tried = np.flatnonzero(~must)
        sizes = np.diff(start)[tried]
        fixed = np.concatenate((fixed, behind[gone]))
        going = needed_by_trial(self, behind[~gone], np.concatenate(([0], np.cumsum(sizes))), fixed)
        must[tried[going]] = True
        return (low + np.flatnonzero(must)).tolist()

    def first_alone(self, victims: Ints, start: Ints, fixed: Ints) -> int | None:
        able = np.flatnonzero(self._at_most_beside(self._freed(fixed), victims, start, sign=1) >= self._mixture.groups)
        beside = ((i, victims[start[i] : start[i + 1]]) for i in able.tolist())
        return next((i for i, part in beside if self.without(np.concatenate((fixed, part)))), None)

    def _freed(self, victims: Ints) -> Ints:
        """What is free of what is asked for, (resources x rows), once the victims are gone."""
        free = self._free.copy()
        here = victims - self._first
        for amounts, each in zip(free, self._amounts, strict=True):
            np.add.at(amounts, self._rows[here], each[here])
        return free

    def _at_most(self, free: Ints) -> Ints:
        """How many groups each inner domain takes at most."""
        inner = len(self._blocks)
        counts = (summed(self._inner, _room(free, ask, where), inner) // size for ask, where, size in self._counts)
        most: Ints = np.minimum.reduce(list(counts))
        return most

    def _at_most_beside(self, free: Ints, victims: Ints, start: Ints, *, sign: int) -> Ints:
        """How many groups there is room for at most with what each part frees beside what is free, or without it."""
        parts, inner = len(start) - 1, len(self._blocks)
        here = victims - self._first
        part = np.repeat(np.arange(parts), np.diff(start))
        some = self._any[self._rows[here]]
        here, part = here[some], part[some]
        cells, cell = np.unique(part * len(self._any) + self._rows[here], return_inverse=True)
        part, row = np.divmod(cells, len(self._any))
        freed = np.stack([summed(cell, amounts[here], len(cells)) for amounts in self._amounts])
        beside = free[:, row] + sign * freed
        result = np.full(parts * inner, self._mixture.groups)
        for ask, where, size in self._counts:
            room = _room(free, ask, where)
            sums = np.tile(summed(self._inner, room, inner), parts)
            sums += summed(part * inner + self._inner[row], _room(beside, ask, where[row]) - room[row], parts * inner)
            np.minimum(result, sums // size, out=result)
        total: Ints = result.reshape(parts, inner).sum(axis=1)
        return total


def _sizes(task_group: TaskGroup) -> dict[Shape, int]:
    """How many tasks of each shape are left of a task group."""
    sizes: dict[Shape, int] = {}
    for tasks_left in task_group.remaining:
        shape = tasks_left.pod_set.shape
        sizes[shape] = sizes.get(shape, 0) + tasks_left.left
    return sizes


def _room(free: Ints, each: Ints, allowed: Bools) -> Ints:
    """How many tasks that ask for `each` the columns of `free`, (resources x rows), take where they are allowed."""
    asked = np.flatnonzero(each)
    room: Ints = np.maximum((free[asked] // each[asked, None]).min(axis=0), 0) * allowed
    return room


class _Tried:
    """Anything: evict, search, rewind."""

    def __init__(self, cycle: Cycle, preemptor: Preemptor, asked: Demand, domain: int) -> None:
        self._cycle = cycle
        self._cause = preemptor
        self._asked = asked
        self._domain = domain
        gathered = bool(cycle.pipeline.gather_options(preemptor.job, asked.tasks))
        # Rows do not follow its domains, or it may do with other tasks.
        self._uncounted = gathered or cycle.snapshot.on_several_trees(preemptor.job)
        self._uncounted |= bool(asked.spares) or asked.alternatives is not None

    def without(self, victims: Ints) -> bool:
        cycle, preemptor = self._cycle, self._cause
        if not self._may_hold(victims) or not quota_allows(cycle, preemptor, victims):
            return False
        with cycle.ledger.statement():
            if len(victims):
                cycle.ledger.evict(preemptor.running, victims, cycle.snapshot.jobs)
            found = place_in(cycle, preemptor, self._asked, self._domain)
            return found is not None and job_ready(cycle.ledger, preemptor.job, waiting=True)

    def _may_hold(self, victims: Ints) -> bool:
        """Whether the domain has room by amounts, once the victims are gone: never too strict.

        Most trials are of too few victims, and a look tells as much as a search does. Each task group is counted on its
        own, and all that must be placed together against what is free on nodes that take any of it.
        """
        shapes = {r.pod_set.shape.number: r.pod_set.shape for group in self._asked.task_groups for r in group.remaining}
        if self._uncounted or not shapes:
            return True
        cycle, running, span = self._cycle, self._cause.running, self._cycle.topology.span(self._domain)
        asked = np.unique(np.concatenate([shape.asked for shape in shapes.values()]))
        rows = running.row[victims]
        inside = victims[(rows >= span.start) & (rows < span.stop)]
        freed = np.zeros((len(running.request), span.stop - span.start), dtype=np.int64)
        for resource in asked.tolist():
            amounts = running.request[resource, inside]
            freed[resource] = summed(running.row[inside] - span.start, amounts, span.stop - span.start)
        there = Room(cycle, Pool.FUTURE_IDLE, freed=freed, span=span)
        room = {number: there.rows(shape) for number, shape in shapes.items()}
        free = there.free(asked)
        needed = np.zeros(len(asked), dtype=np.int64)
        for group in self._asked.task_groups:
            left = [(r.pod_set.shape, r.left) for r in group.remaining]
            if sum(min(int(room[shape.number].sum()), most) for shape, most in left) < group.need:
                return False
            if sum(most for _, most in left) == group.need:
                needed += sum(shape.request[asked] * most for shape, most in left)
        useful = np.logical_or.reduce([counts > 0 for counts in room.values()])
        return bool((np.maximum(free[:, useful], 0).sum(axis=1) >= needed).all())

    def fewest(self, victims: Ints, start: Ints) -> int | None:
        return fewest_by_trial(self, victims, start)

    def needed(self, victims: Ints, start: Ints, fixed: Ints) -> list[int]:
        return needed_by_trial(self, victims, start, fixed)

    def some_suffice(self, victims: Ints) -> bool:
        return True  # rules between pods may want some of them to stay

    def first_alone(self, victims: Ints, start: Ints, fixed: Ints) -> int | None:
        return first_alone_by_trial(self, victims, start, fixed)
