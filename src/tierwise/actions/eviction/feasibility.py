"""Would a gang fit in a domain if certain tasks were gone? Asked often, so it is counted wherever counting is exact.

`_Counted` serves demands of one plain shape: fit counts per row with the victims' amounts added, summed over the gang's
domains. `_Mixed` serves those of several plain shapes all of which must be placed, a leader and workers: bounds by
counts first, and a `Mixture` where these say yes. `Tried` serves everything else: evict on the ledger, search, rewind.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from math import prod
from operator import floordiv
from typing import NamedTuple

import numpy as np

from tierwise.actions.placement.bounds import Room, may_hold_all
from tierwise.actions.placement.demand import Demand, TaskGroup
from tierwise.actions.placement.exact import statable, that_must_stay
from tierwise.actions.placement.problem import SearchResult, amounts_of
from tierwise.actions.placement.solve import solve
from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import Preemptor, Purpose
from tierwise.framework.ledger import Pool, job_ready
from tierwise.model.arrays import Bools, Ints, begins, distinct, growth, summed
from tierwise.model.job import Reason, Shape
from tierwise.model.snapshot import Ground

__all__ = ["Feasibility", "Mixture", "Quotas", "Tried", "fits_in", "place_in", "quota_objection"]


_ASKED_ABOUT = 256
"""Of more victims it is not asked who of them must stay."""

_AT_FIRST = 32
"""How many parts from the front are looked at first: mostly few are enough."""


class Feasibility(ABC):
    """Whether the gang fits once some victims (positions in the running table, inside the domain) are gone.

    What is not counted at once is asked by trial: the slow reference, and all that there is where nothing is counted.
    `answers` are those of quotas, by what victims free; None where a trial reads anything.
    """

    answers: dict[bytes, bool] | None = None

    @abstractmethod
    def without(self, victims: Ints) -> bool: ...

    def fewest(self, victims: Ints, start: Ints) -> int | None:
        """How many parts from the front make room; None where all of them make too little.

        Part i is `victims[start[i]:start[i + 1]]`. By bisection, as more victims never make less room.
        """
        return _fewest(self.without, victims, start)

    def needed(self, victims: Ints, start: Ints, fixed: Ints) -> list[int]:
        """Which parts must go beside the fixed victims: in order, each stays where that is possible.

        Runs of increasing length stay at once: parts that can stay together could also stay one by one.
        """
        going: list[int] = []
        gone = np.ones(len(victims), dtype=bool)
        at = 0
        step = 1
        parts = len(start) - 1
        while at < parts:
            trial = gone.copy()
            trial[start[at] : start[min(at + step, parts)]] = False
            if self.without(np.concatenate([fixed, victims[trial]])):
                gone = trial
                at = at + step
                step = step * 2
            elif step > 1:
                step = 1
            else:
                going.append(at)
                at += 1
        return going

    def first_alone(self, victims: Ints, start: Ints, fixed: Ints) -> int | None:
        """The first part that makes room by itself beside the fixed victims; None where no part does."""
        parts = pairwise(start.tolist())
        return next((i for i, (a, b) in enumerate(parts) if self.without(np.concatenate((fixed, victims[a:b])))), None)

    def some_suffice(self, victims: Ints) -> bool:
        """Whether some of these victims could make room; never too strict: rules between pods may want some to stay."""
        return True

    def that_must_stay(self, victims: Ints) -> Bools | None:
        """Of victims who make no room if all of them go, those whom the gang needs to stand where they do."""
        return None


def _fewest(enough: Callable[[Ints], bool], victims: Ints, start: Ints, at_least: int = 0) -> int | None:
    """How many parts from the front are enough, `at_least` or more of them; None where all of them are not."""
    if enough(victims[: start[at_least]]):
        return at_least
    if not enough(victims):
        return None
    low, high = at_least, len(start) - 1  # `low` are too few, `high` are enough
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(victims[: start[middle]]) else (middle, high)
    return high


def _ends(parts: int) -> Iterator[int]:
    """How many parts from the front to look at, and how many next where these were too few; at last all of them."""
    end = _AT_FIRST
    while end < parts:
        yield end
        end *= 4
    yield parts


class Quotas:
    """What queues say of a gang with some victims no longer charged; as long as the ledger stays as it is.

    Where they read amounts alone and all victims are of one queue, a question is asked once, in whichever domains.
    """

    def __init__(self, cycle: Cycle, preemptor: Preemptor) -> None:
        self._cycle = cycle
        self._cause = preemptor
        self._known: dict[bytes, bool] = {}
        within_queue = preemptor.purpose is Purpose.PREEMPT and not preemptor.across
        self.by_amounts = within_queue and cycle.pipeline.limits_by_amounts
        self.silent = cycle.pipeline.quota_exceeded(preemptor.job, preemptor.need) is None

    def allow(self, victims: Ints, answers: dict[bytes, bool]) -> bool:
        """Whether the gang may have its minimum without these victims; an answer that follows from amounts is noted."""
        if self.silent:
            return True
        if not self.by_amounts:
            return quota_objection(self._cycle, self._cause, victims) is None
        freed = self._cause.running.request[:, victims].sum(axis=1).tobytes()
        allowed = answers[freed] = self.allow_without(freed)
        return allowed

    def allow_without(self, freed: bytes) -> bool:
        """Whether quotas allow the gang its minimum, given the amounts that its victims hold together."""
        allowed = self._known.get(freed)
        if allowed is None:
            cycle = self._cycle
            job = self._cause.job
            with cycle.ledger.statement():
                cycle.ledger.charge_queue(job.queue, -np.frombuffer(freed, dtype=np.int64))
                allowed = self._known[freed] = cycle.pipeline.quota_exceeded(job, self._cause.need) is None
        return allowed


def fits_in(cycle: Cycle, preemptor: Preemptor, demand: Demand, domain: int, quotas: Quotas) -> Feasibility:
    """The cheapest exact test for a demand in a domain."""
    sizes = _sizes(demand.task_groups[0])
    inner = None
    if (
        sizes
        and not cycle.beside_gradients(preemptor.job)
        and not (preemptor.job.shape.nested or demand.substitutes)
        and all(_sizes(group) == sizes for group in demand.task_groups)
        and not any(map(cycle.pipeline.moving, sizes))
    ):
        inner = _inner_domains(cycle, preemptor, demand, domain)
    if inner is None:
        return Tried(cycle, preemptor, demand, domain)
    if len(sizes) == 1:
        return _Counted(cycle, preemptor, demand, domain, inner, quotas)
    span = cycle.topology.span(domain)
    deals = Mixture.ways(
        np.array(list(sizes.values())), len(demand.task_groups)
    )  # counting may take longer than a trial
    if demand.alternatives is not None or deals * (span.stop - span.start) > cycle.budget.victim_ways:
        return Tried(cycle, preemptor, demand, domain)
    return _Mixed(cycle, preemptor, demand, domain, inner, quotas)


def _sizes(task_group: TaskGroup) -> Counter[Shape]:
    """How many tasks of each shape a task group places, where there is no choice; nothing where there is."""
    sizes: Counter[Shape] = Counter()
    for shape, number in task_group.firm():
        sizes[shape] += number
    return sizes


def quota_objection(cycle: Cycle, preemptor: Preemptor, victims: Ints) -> Reason | None:
    """Why queues would not let the gang have its minimum even with the victims no longer charged; None if they do."""
    if cycle.pipeline.quota_exceeded(preemptor.job, preemptor.need) is None:
        return None
    running = preemptor.running
    with cycle.ledger.statement():
        if len(victims):
            jobs, owner = np.unique(running.job[victims], return_inverse=True)
            freed = np.stack([summed(owner, request[victims], len(jobs)) for request in running.request])
            cycle.ledger.charge_all([cycle.snapshot.jobs[job] for job in jobs.tolist()], -freed)
        return cycle.pipeline.quota_exceeded(preemptor.job, preemptor.need)


def place_in(cycle: Cycle, preemptor: Preemptor, demand: Demand, domain: int) -> SearchResult | None:
    """Search a place for the demand inside one domain, on the ledger as it is; what is found stays on it."""
    placement = solve(cycle, preemptor.job, demand, within=domain)
    if isinstance(placement, SearchResult) and _as_allowed(cycle, preemptor, placement):
        return placement
    return None


def _as_allowed(cycle: Cycle, preemptor: Preemptor, placement: SearchResult) -> bool:
    """Where tasks differ, others than those that were weighed may find the place: they must be allowed as well."""
    placed_amounts = amounts_of(cycle, placement.placements)
    if (placed_amounts == preemptor.need).all():
        return True
    with cycle.ledger.statement():
        cycle.ledger.charge(preemptor.job, -placed_amounts)  # it is charged already
        if (
            preemptor.purpose is Purpose.RECLAIM
            and cycle.pipeline.may_reclaim(preemptor.job, placed_amounts) is not None
        ):
            return False
        return cycle.pipeline.quota_exceeded(preemptor.job, placed_amounts) is None


def _inner_domains(cycle: Cycle, preemptor: Preemptor, demand: Demand, domain: int) -> tuple[Ints, Ints] | None:
    """Where the domains begin and end, in rows of this one, to one of which each task group is confined.

    It is the domain itself where the job has no sub-groups; None where task groups differ in that, or have tasks that
    are placed already.
    """
    span = cycle.topology.span(domain)
    if not preemptor.job.shape.parted:
        return np.array([0]), np.array([span.stop - span.start])
    if any(cycle.ledger.placed_rows(task_group.sub) is not None for task_group in demand.task_groups):
        return None
    limits = {cycle.pipeline.limit(task_group.sub) for task_group in demand.task_groups}
    limit = next(iter(limits))
    if len(limits) > 1 or limit is None:
        return None
    widest = cycle.topology.outermost(limit, domain)
    if not len(widest):
        return None
    return cycle.topology.start[widest] - span.start, cycle.topology.end[widest] - span.start


class _Ask(NamedTuple):
    """Tasks that ask for so much of some resources: the rows that are open to them, and how many make a group."""

    amounts: tuple[tuple[int, int], ...]  # positions of resources, and how much of each; none is 0
    open: Ints  # 1 or 0 for each row
    size: int


class _Counted(Feasibility):
    """Plain shapes of which every task must be placed: in one task group, or in task groups of the same tasks each of
    which is confined to an inner domain. Exact for one shape, by which all but `_Mixed` goes; never too strict else.
    """

    def __init__(
        self, cycle: Cycle, preemptor: Preemptor, demand: Demand, domain: int, inner: tuple[Ints, Ints], quotas: Quotas
    ) -> None:
        span = cycle.topology.span(domain)
        inside = preemptor.running.inside(span)
        sizes = _sizes(demand.task_groups[0])
        resources = distinct(np.concatenate([shape.asked for shape in sizes]))
        self.answers: dict[bytes, bool] = {}
        self._quotas = quotas
        self._groups = len(demand.task_groups)
        self._free = cycle.ledger.free(resources, span, Pool.FUTURE_IDLE)
        self._first = inside.start
        self._rows = preemptor.running.row[inside] - span.start
        self._amounts = preemptor.running.request[resources, inside]
        self._shift = np.arange(len(resources))[:, None] * (span.stop - span.start)
        self._starts, self._ends = inner
        rows = np.arange(span.stop - span.start)
        self._inner = np.maximum(np.searchsorted(self._starts, rows, side="right") - 1, 0)
        usable = (self._starts[self._inner] <= rows) & (rows < self._ends[self._inner])
        self._open = [(cycle.fit_counts.why(shape)[span] == 0) & usable for shape in sizes]
        self._requests: Ints = np.stack([shape.request[resources] for shape in sizes])
        self._wanted: Ints = self._groups * (np.array(list(sizes.values())) @ self._requests)
        self._asks = [
            self._ask(request, where, size)
            for request, where, size in zip(self._requests, self._open, sizes.values(), strict=True)
        ]

    def _ask(self, request: Ints, where: Bools, size: int) -> _Ask:
        requested = np.flatnonzero(request)
        return _Ask(
            tuple(zip(requested.tolist(), request[requested].tolist(), strict=True)), where.astype(np.int64), size
        )

    @property
    def _only(self) -> _Ask:
        """Where there is one shape, it is enough."""
        return self._asks[0]

    def without(self, victims: Ints) -> bool:
        return self.some_suffice(victims) and self._quotas_allow(victims)

    def some_suffice(self, victims: Ints) -> bool:
        return self._holds(self._freed(victims))  # the more go the better

    def fewest(self, victims: Ints, start: Ints) -> int | None:
        """By room first: quotas, which take longer to ask, mostly allow what makes room."""
        together = len(self._asks) == len(self._starts) == 1
        room = self._fewest_together(victims, start) if together else _fewest(self.some_suffice, victims, start)
        if room is None:
            return None
        return _fewest(self._quotas_allow, victims, start, room)

    def _fewest_together(self, victims: Ints, start: Ints) -> int | None:
        """How many parts from the front are enough for tasks of one shape, wherever they run; None where all are not.

        It adds up by how much the room of each row grows with each part.
        """
        ask = self._only
        missing = ask.size * self._groups - int(self._room(self._free, ask).sum())
        if missing <= 0:
            return 0
        for end in _ends(len(start) - 1):
            part, row, freed = self._cells(victims[: start[end]], start[: end + 1], 0, ask.open > 0)
            order = np.argsort(row, kind="stable")
            growth_by_part = growth(
                row[order], self._free, freed[:, order], lambda free, rows: self._room(free, ask, rows)
            )
            upto = np.cumsum(summed(part[order], growth_by_part, end))
            needed = int(np.searchsorted(upto, missing)) + 1
            if needed <= end:
                return needed
        return None

    def needed(self, victims: Ints, start: Ints, fixed: Ints) -> list[int]:
        free = self._freed(np.concatenate((fixed, victims)))
        at = 0
        if not self._takes_no_more(self._room(free, self._only)):
            at = self._in_front(victims, start, fixed, self.some_suffice)
            free = self._freed(np.concatenate((fixed, victims[start[at] :])))
        going = self._one_by_one(victims, start, at, free)
        if self._quotas.silent:
            return going
        is_evicted = np.zeros(len(start) - 1, dtype=bool)
        is_evicted[going] = True
        evicted = np.concatenate((fixed, victims[np.repeat(is_evicted, np.diff(start))]))
        return going if self._quotas_allow(evicted) else super().needed(victims, start, fixed)

    def first_alone(self, victims: Ints, start: Ints, fixed: Ints) -> int | None:
        """What rows take is counted where some part frees enough by amounts, which most gangs do not."""
        free = self._freed(fixed)
        short = self._wanted - np.maximum(free * np.logical_or.reduce(self._open), 0).sum(axis=1)
        amounts = np.add.reduceat(self._amounts[:, victims - self._first], start[:-1], axis=1)
        if not (amounts >= short[:, None]).all(axis=0).any():
            return None
        able = np.flatnonzero(self._at_most_beside(free, victims, start, sign=1) >= self._groups)
        beside = ((i, victims[start[i] : start[i + 1]]) for i in able.tolist())
        return next((i for i, part in beside if self.without(np.concatenate((fixed, part)))), None)

    def _quotas_allow(self, victims: Ints) -> bool:
        """Whether queues let the gang in; the more victims go, the more they allow."""
        return self._quotas.allow(victims, self.answers)

    def _holds(self, free: Ints) -> bool:
        """Whether there is room for all groups, by the count of each shape."""
        groups_by_domain = np.minimum.reduce([self._sums(self._room(free, ask)) // ask.size for ask in self._asks])
        return int(groups_by_domain.sum()) >= self._groups

    def _sums(self, room: Ints) -> Ints:
        """The room of each inner domain."""
        if len(self._starts) == 1:
            return np.array([room.sum()])
        upto = np.concatenate(([0], np.cumsum(room)))
        sums: Ints = upto[self._ends] - upto[self._starts]
        return sums

    def _takes_no_more(self, room: Ints) -> bool:
        """Whether there is room for what is asked for, in whole groups, and for no task besides."""
        whole_groups, further_tasks = np.divmod(self._sums(room), self._only.size)
        return int(whole_groups.sum()) == self._groups and not further_tasks.any()

    def _in_front(self, victims: Ints, start: Ints, fixed: Ints, enough: Callable[[Ints], bool]) -> int:
        """How many parts from the front need not be evicted, once the fixed victims and all parts behind them are."""
        low, high = 0, len(start)  # `low` can stay, `high` cannot
        while high - low > 1:
            middle = (low + high) // 2
            stay = enough(np.concatenate((fixed, victims[start[middle] :])))
            low, high = (middle, high) if stay else (low, middle)
        return low

    def _one_by_one(self, victims: Ints, start: Ints, at: int, free: Ints) -> list[int]:
        """Which of the parts from `at` on must go, given what is free without them.

        What each of them takes from its rows is counted for all of them at once, and counted again only for parts that
        share a row with one that stays before them. Where no room is left, all parts must go that take any.
        """
        ask = self._only
        size = self._only.size
        room = self._room(free, ask)
        sums = self._sums(room).tolist()
        slack = sum(number // size for number in sums) - self._groups
        if slack < 0:  # all of them together make too little room
            return list(range(at, len(start) - 1))
        part, row, freed = self._cells(victims, start, at, room > 0)  # rows without room have none to lose
        free_without = free[:, row] - freed
        counts = self._room(free_without, ask, row)
        going: list[int] = []
        if self._takes_no_more(room):
            must = np.zeros(len(start), dtype=bool)
            must[part[room[row] > counts]] = True
            going = np.flatnonzero(must).tolist()
            undecided = np.flatnonzero(~must[part])
            if not len(undecided):
                return going
            part = part[undecided]
            row = row[undecided]
            freed = freed[:, undecided]
            free_without = free_without[:, undecided]
            counts = counts[undecided]
        after = counts.tolist()
        requests = [each for _, each in ask.amounts]
        rows = row.tolist()
        amounts = freed.T.tolist()
        lefts = free_without.T.tolist()
        rooms = room[row].tolist()
        inners = self._inner[row].tolist()
        by_row: dict[int, tuple[list[int], int]] = {}  # of rows where a part stays, what is free and for how many
        edges = [*np.flatnonzero(begins(part)).tolist(), len(part)]
        for first_cell, end_cell in pairwise(edges):
            lost: dict[int, int] = {}
            for cell in range(first_cell, end_cell):
                if rows[cell] in by_row:
                    free_here, rooms[cell] = by_row[rows[cell]]
                    lefts[cell] = [a - b for a, b in zip(free_here, amounts[cell], strict=True)]
                    after[cell] = max(min(map(floordiv, lefts[cell], requests)), 0)
                lost[inners[cell]] = lost.get(inners[cell], 0) + rooms[cell] - after[cell]
            groups = sum(sums[i] // size - (sums[i] - number) // size for i, number in lost.items())
            if groups > slack:
                going.append(int(part[first_cell]))
                continue
            slack -= groups
            for cell in range(first_cell, end_cell):
                by_row[rows[cell]] = lefts[cell], after[cell]
            for i, number in lost.items():
                sums[i] -= number
        return sorted(going)

    def _cells(self, victims: Ints, start: Ints, at: int, concerned: Bools) -> tuple[Ints, Ints, Ints]:
        """What the parts from `at` on free on each row that is concerned: part, row, and amounts by resource."""
        positions = victims[start[at] :] - self._first
        part = np.repeat(np.arange(at, len(start) - 1), np.diff(start[at:]))
        is_concerned = concerned[self._rows[positions]]
        positions = positions[is_concerned]
        part = part[is_concerned]
        cells = part * len(concerned) + self._rows[positions]
        order = np.argsort(cells)
        cell_starts = np.flatnonzero(begins(cells[order]))
        cell_examples = order[cell_starts]  # of each cell
        return (
            part[cell_examples],
            self._rows[positions[cell_examples]],
            np.add.reduceat(self._amounts[:, positions[order]], cell_starts, axis=1),
        )

    def _at_most_beside(self, free: Ints, victims: Ints, start: Ints, *, sign: int) -> Ints:
        """How many groups there is room for at most with what each part frees beside what is free, or without it."""
        parts = len(start) - 1
        inner = len(self._starts)
        part, row, freed = self._cells(victims, start, 0, np.logical_or.reduce(self._open))
        beside = free[:, row] + sign * freed
        result = np.full(parts * inner, self._groups)
        for ask in self._asks:
            room = self._room(free, ask)
            sums = np.tile(self._sums(room), parts)
            sums += summed(part * inner + self._inner[row], self._room(beside, ask, row) - room[row], parts * inner)
            np.minimum(result, sums // ask.size, out=result)
        total: Ints = result.reshape(parts, inner).sum(axis=1)
        return total

    def _freed(self, victims: Ints) -> Ints:
        """Free amounts of the requested resources once the victims are gone, (resources x rows)."""
        free = self._free.copy()
        if len(victims):
            positions = victims - self._first
            cells = (self._rows[positions] + self._shift).ravel()  # one count for all resources at once
            np.add.at(free.reshape(-1), cells, self._amounts[:, positions].ravel())
        return free

    def _room(self, free: Ints, ask: _Ask, rows: Ints | slice = slice(None)) -> Ints:
        """How many tasks these rows take."""
        (first_resource, amount), *other_amounts = ask.amounts  # dividing by one number is quicker than by many
        room: Ints = free[first_resource] // amount
        for resource, amount in other_amounts:
            np.minimum(room, free[resource] // amount, out=room)
        np.maximum(room, 0, out=room)
        room *= ask.open[rows]
        return room


class _Mixed(_Counted):
    """Several shapes: a count of each, and of the smallest that any of them asks for, says no to most; where it says
    yes, what rows take is counted together.
    """

    def __init__(
        self, cycle: Cycle, preemptor: Preemptor, demand: Demand, domain: int, inner: tuple[Ints, Ints], quotas: Quotas
    ) -> None:
        super().__init__(cycle, preemptor, demand, domain, inner, quotas)
        sizes = np.array([ask.size for ask in self._asks])
        self._mixture = mixture = Mixture(self._requests, sizes, self._groups)
        self._asks.append(self._ask(mixture.least, np.logical_or.reduce(self._open), int(sizes.sum())))
        self._allowed: Bools = np.stack(self._open)[mixture.order]
        width = 1 << int((self._ends - self._starts).max() - 1).bit_length()
        lines = self._starts[:, None] + np.arange(width)
        self._blocks: Ints = np.where(lines < self._ends[:, None], lines, -1)

    def some_suffice(self, victims: Ints) -> bool:
        free = self._freed(victims)
        if not self._holds(free):
            return False
        together = self._mixture.together(self._mixture.tables(free, self._allowed), self._blocks)
        return int(self._mixture.whole_groups(together).sum()) >= self._groups

    def needed(self, victims: Ints, start: Ints, fixed: Ints) -> list[int]:
        """Those in front that can all stay do; of the others, those that must go by any count are not tried."""
        if not self.without(np.concatenate((fixed, victims))):
            return list(range(len(start) - 1))
        low = self._in_front(victims, start, fixed, self.without)
        behind = victims[start[low] :]
        start = start[low:] - start[low]
        free = self._freed(np.concatenate((fixed, behind)))
        must = self._at_most_beside(free, behind, start, sign=-1) < self._groups
        gone = np.repeat(must, np.diff(start))
        tried = np.flatnonzero(~must)
        starts = np.concatenate(([0], np.cumsum(np.diff(start)[tried])))
        going = Feasibility.needed(self, behind[~gone], starts, np.concatenate((fixed, behind[gone])))
        must[tried[going]] = True
        return (low + np.flatnonzero(must)).tolist()


class Tried(Feasibility):
    """Anything: evict, search, rewind."""

    def __init__(self, cycle: Cycle, preemptor: Preemptor, demand: Demand, domain: int) -> None:
        self._cycle = cycle
        self._cause = preemptor
        self._asked = demand
        self._domain = domain
        gathered = bool(cycle.pipeline.gather_options(preemptor.job, demand.need))
        # Rows do not follow its domains, or it may do with other tasks.
        self._uncounted = (
            gathered or cycle.snapshot.ground(preemptor.job) is Ground.TREES or demand.alternatives is not None
        )

    def without(self, victims: Ints) -> bool:
        cycle = self._cycle
        preemptor = self._cause
        if not self._may_hold(victims) or quota_objection(cycle, preemptor, victims) is not None:
            return False
        with cycle.ledger.statement():
            if len(victims):
                cycle.ledger.evict(preemptor.running, victims)
            placement = place_in(cycle, preemptor, self._asked, self._domain)
            return placement is not None and job_ready(cycle.ledger, preemptor.job, waiting=True)

    def that_must_stay(self, victims: Ints) -> Bools | None:
        cycle = self._cycle
        running = self._cause.running
        moving = any(map(cycle.pipeline.moving, self._asked.shapes))
        if not moving or not 0 < len(victims) <= _ASKED_ABOUT or statable(cycle, self._cause.job) is None:
            return None
        shapes = cycle.snapshot.shapes
        gone = [(shapes[running.shape[victim]], int(running.row[victim])) for victim in victims.tolist()]
        with cycle.ledger.statement():
            cycle.ledger.evict(running, victims)
            return that_must_stay(cycle, self._cause.job, self._asked, self._domain, gone)

    def _may_hold(self, victims: Ints) -> bool:
        """Whether the domain has room once the victims are gone: most trials are of too few, and a look tells that."""
        freed = self._cause.running.freed(victims)
        room = Room(self._cycle, Pool.FUTURE_IDLE, freed=freed)
        return self._uncounted or bool(may_hold_all(room, self._asked, np.array([self._domain]))[0])


# How many groups of tasks of several shapes some rows take, counted for many rows at once.
#
# A group is a leader and its workers, say: so many tasks of each shape. What rows take together is a table: for every
# number of tasks of all shapes but the most numerous one, how many of that one fit beside them. Tables of two sets of
# rows add up by taking the best of all ways to share out the others (a convolution), for as many pairs of sets at
# once as there are, so that many rows need few steps.


_NEVER = -(2**40)
"""In place of a number of tasks: the others do not fit."""


class Mixture:
    """Groups of tasks: `sizes` says how many of each shape a group has, `requests` what a task of each asks for,
    (shapes x resources).
    """

    def __init__(self, requests: Ints, sizes: Ints, groups: int) -> None:
        order = np.argsort(sizes, kind="stable")  # the most numerous is the last
        self.requests = requests[order]
        self.sizes = sizes[order]
        self.groups = groups
        self.order = order
        self.least: Ints = self.requests.min(axis=0)  # what any task asks for
        most_by_shape = self.sizes[:-1] * groups
        cells = prod((most_by_shape + 1).tolist())  # one where there is but one shape
        self._offsets: Ints = (
            np.indices(tuple(most_by_shape + 1)).reshape(len(most_by_shape), cells).T
        )  # (cells x other shapes)
        self._used: Ints = (self._offsets @ self.requests[:-1]).T[:, :, None]
        self._wanted = np.flatnonzero(self.requests[-1])
        stride = np.cumprod(np.concatenate(([1], most_by_shape[:0:-1] + 1)))[::-1]
        self._whole: Ints = np.arange(1, groups + 1) * int((self.sizes[:-1] * stride).sum())  # cells of whole groups
        below = (self._offsets[:, None] <= self._offsets).all(axis=2)  # (cells x cells): which is part of which
        sum_cell, part = np.nonzero(below.T)
        self._left, self._right = part, sum_cell - part  # cells are numbered so that they add up
        self._starts: Ints = np.flatnonzero(np.diff(sum_cell, prepend=-1))

    @staticmethod
    def ways(sizes: Ints, groups: int) -> int:
        """How many ways two sets of rows have to share out the tasks: the cost of a row."""
        numbers = np.sort(sizes)[:-1].tolist()
        return prod((number * groups + 1) * (number * groups + 2) // 2 for number in numbers)

    def tables(self, free: Ints, allowed: Bools) -> Ints:
        """What each row takes, (rows x cells), of which so much is free (resources x rows) for the shapes that are
        allowed there (shapes x rows).
        """
        free_after = free[:, None] - self._used  # (resources x cells x rows)
        fits = ((free_after >= 0) | (self._used == 0)).all(axis=0)
        for shape, number in enumerate(self._offsets.T):
            fits &= allowed[shape] | (number == 0)[:, None]
        last_request = self.requests[-1, self._wanted, None, None]
        last_room = np.maximum((free_after[self._wanted] // last_request).min(axis=0), 0) * allowed[-1]
        result: Ints = np.where(fits, np.minimum(last_room, self.sizes[-1] * self.groups), _NEVER).T
        return result

    def together(self, tables: Ints, blocks: Ints) -> Ints:
        """Largest numbers of tasks that the rows of each block take together, (blocks x cells).

        Each line of `blocks` has the rows of one, as many as a power of two, -1 for none.
        """
        nothing = np.full((1, tables.shape[1]), _NEVER)
        nothing[0, 0] = 0
        result: Ints = np.concatenate((tables, nothing))[blocks]
        while result.shape[1] > 1:
            both = result[:, ::2][..., self._left] + result[:, 1::2][..., self._right]
            result = np.maximum(np.maximum.reduceat(both, self._starts, axis=2), _NEVER)
        return result[:, 0]

    def whole_groups(self, together: Ints) -> Ints:
        """How many whole groups each block takes."""
        number: Ints = (together[:, self._whole] >= np.arange(1, self.groups + 1) * self.sizes[-1]).sum(axis=1)
        return number
