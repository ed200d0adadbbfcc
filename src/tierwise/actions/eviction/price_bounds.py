"""What making room in a domain costs at least, counted for all domains at once.

A domain must get back what the demand asks for beyond what is free there, of every resource. Safe tasks give some of it
for nothing; for the rest gangs are broken. What that costs at least is no more than any plan costs, so plans are made
for the most promising domains first, and not at all where the bound of a domain exceeds the price of a plan that is
made already. The bound says up to which priority gangs must go for every task to find a row, how much they must free
there, and what the gang costs that frees the most for its cost.
"""

from __future__ import annotations

import math

import msgspec
import numpy as np

from tierwise.actions.placement.bounds import Room
from tierwise.actions.placement.demand import Demand, least_needs
from tierwise.framework.extension import Preemptor, Purpose
from tierwise.framework.ledger import Pool
from tierwise.model.arrays import Bools, Floats, Ints, begins, distinct, growth, stable_order, summed
from tierwise.model.running import RunningTable
from tierwise.model.topology import Topology

__all__ = ["NONE_BROKEN", "DomainBounds", "Price", "StandingTasks"]

NONE_BROKEN = -(2**40)
"""The highest priority among broken gangs where none is broken."""

_ROUNDING = 1e-14
"""By how much sums of the same shares may differ, as a share of all that was added up."""

Price = tuple[float, ...]


class Segments(msgspec.Struct, frozen=True):
    """The running tasks of one tier, by domain and job: segment i is `order[first[i]:first[i + 1]]`, none is empty."""

    domains: Ints  # of the tier
    order: Ints
    first: Ints
    place: Ints  # of each segment's domain among `domains`
    begins: Ints  # where segments of another domain begin
    job: Ints

    def sums(self, values: Ints) -> Ints:
        """The sum of the values of its segments for each domain."""
        result = np.zeros(len(self.domains), dtype=np.int64)
        result[self.place[self.begins]] = np.add.reduceat(values, self.begins)
        return result

    def least(self, values: Floats) -> Floats:
        """The least of the values of its segments for each domain; infinite where it has none."""
        result = np.full(len(self.domains), math.inf)
        result[self.place[self.begins]] = np.minimum.reduceat(values, self.begins)
        return result


class StandingTasks:
    """Which running tasks stand where, sorted once for all preemptors."""

    def __init__(self, topology: Topology, running: RunningTable) -> None:
        self._topology = topology
        self._running = running
        self._segments: dict[int, Segments] = {}
        self.samples: Ints = np.unique(running.shape, return_index=True)[1]  # a task of each shape
        priority = running.jobs.priority[running.job]
        self._order = np.lexsort((priority, running.row))  # cell by cell: by row and priority of their jobs
        self._begins = np.flatnonzero(begins(running.row[self._order], priority[self._order]))
        self.cell_row: Ints = running.row[self._order[self._begins]]
        self.cell_priority: Ints = priority[self._order[self._begins]]

    def by_cell(self, amounts: Ints) -> Ints:
        """The sums of some amounts of the tasks of each cell, (resources x cells)."""
        result: Ints = np.add.reduceat(amounts.take(self._order, axis=1), self._begins, axis=1)
        return result

    def in_tier(self, tier: int) -> Segments:
        """The segments of one tier."""
        segments = self._segments.get(tier)
        if segments is None:
            topology = self._topology
            running = self._running
            domains = topology.at_tier[tier]
            place = np.searchsorted(topology.start[domains], running.row, side="right") - 1
            inside = np.flatnonzero((place >= 0) & (running.row < topology.end[domains[place]]))
            order = inside[np.lexsort((running.job[inside], place[inside]))]
            place = place[order]
            job = running.job[order]
            job_starts = np.flatnonzero(begins(place, job))
            of_others = np.flatnonzero(begins(place[job_starts]))
            ends = np.append(job_starts, len(order))
            segments = self._segments[tier] = Segments(
                domains, order, ends, place[job_starts], of_others, job[job_starts]
            )
        return segments


class DomainBounds:
    """What any plan for one preemptor costs at least in a domain, as `victims` writes prices.

    `room` is that once all are gone who may go, `breakable` are the jobs that may be broken. The bounds hold as long as
    the ledger stays as it is.
    """

    def __init__(
        self, room: Room, running_tasks: StandingTasks, preemptor: Preemptor, demand: Demand, breakable: Bools
    ) -> None:
        cycle = room.cycle
        running = preemptor.running
        weighed = preemptor.weighed
        self._cycle = cycle
        self._room = room
        self._standing = running_tasks
        self._cause = preemptor
        self._asked = demand
        self._breakable = breakable
        self._surplus: Ints = running.jobs.surplus(cycle.ledger.ready)  # by job: below 0 it is broken already
        used_by_job = cycle.ledger.job_used[weighed] / (preemptor.need[weighed, None] / demand.need)
        self._used: Floats = used_by_job.sum(axis=0)  # by job, in tasks of the demand
        self._shapes = demand.shapes

    def _countable(self) -> bool:
        """Whether it is known what must be placed, and tasks free what they ask for and no more."""
        moving = any(map(self._cycle.pipeline.moving, self._shapes))
        return not (self._asked.substitutes or self._asked.alternatives is not None or moving)

    def at_once(self, eligible: Bools, domains: Ints) -> dict[int, Price]:
        """The bounds of these domains, all at once; none where no plan can be made.

        `eligible` are the running tasks that the purpose lets go.
        """
        topology = self._cycle.topology
        bounds = np.zeros((3, len(domains)))  # highest priority broken, what broken gangs held, what is evicted
        bounds[0] = NONE_BROKEN
        if self._countable():
            self._raise(bounds, eligible, domains)
        if self._cause.purpose is not Purpose.PREEMPT:
            bounds[0] = np.where(bounds[0] < math.inf, 0, math.inf)
        columns = (*bounds, topology.tier[domains].astype(np.float64), topology.rank[domains].astype(np.float64))
        prices = zip(*(column.tolist() for column in columns), strict=True)
        return {d: price for d, price in zip(domains.tolist(), prices, strict=True) if max(price[:2]) < math.inf}

    def _raise(self, bounds: Floats, eligible: Bools, domains: Ints) -> None:
        """Raise the first three numbers of the price; gangs are counted by the resource of which most is missing."""
        cause = self._cause
        weighed = self._cause.weighed
        topology = self._cycle.topology
        useful: Bools = np.logical_or.reduce([self._room.rows(shape) > 0 for shape in self._shapes])
        gone = np.flatnonzero(eligible & ~cause.stays & useful[cause.running.row])
        goes = np.zeros(len(cause.running), dtype=bool)
        goes[gone[self._cycle.pipeline.alone(cause, gone)]] = True
        rows = self._growth(useful, goes)
        missing = self._asked.need - topology.totals(rows.had)[domains]
        bounds[0] = rows.level(topology, domains, missing)
        free = self._cycle.ledger.free(weighed, slice(0, len(useful)), Pool.FUTURE_IDLE)
        free_by_domain = np.stack([topology.totals(amounts)[domains] for amounts in np.maximum(free, 0) * useful])
        lacking = least_needs(self._asked)[weighed, None] - free_by_domain
        scarcest = np.argmax(lacking / cause.need[weighed, None], axis=0)
        possible = bounds[0] < math.inf
        request = cause.running.request[:, self._standing.samples]
        shares = (request[weighed] / cause.need[weighed, None]).sum(axis=0)
        for i, r in enumerate(weighed.tolist()):
            short_domains = np.flatnonzero((scarcest == i) & possible & ((lacking[i] > 0) | (missing > 0)))
            units = (
                rows.units(r, topology, domains[short_domains], missing[short_domains])
                if len(short_domains)
                else short_domains
            )
            for tier in distinct(topology.tier[domains[short_domains]]).tolist():
                of_tier = topology.tier[domains[short_domains]] == tier
                short_of_tier = short_domains[of_tier]
                freed = cause.running.request[r] * goes
                raised = self._in_tier(tier, freed, domains[short_of_tier], lacking[i, short_of_tier], units[of_tier])
                bounds[:2, short_of_tier] = np.maximum(bounds[:2, short_of_tier], raised)
            frees = request[r] > 0
            if frees.any():  # what is evicted with each unit of a resource
                rate = (shares[frees] / request[r, frees]).min()
                bounds[2] = np.maximum(bounds[2], _lowered(np.maximum(lacking[i], 0) * rate, 0.0))

    def _growth(self, useful: Bools, goes: Bools) -> _Growth:
        """How the room of useful rows grows as gangs without surplus go, the lowest priority first.

        Counted by the resources that every task of the demand takes some of.
        """
        running = self._cause.running
        running_tasks = self._standing
        weighed = self._cause.weighed
        sizes = np.array([min(int(shape.request[r]) for shape in self._shapes) for r in weighed.tolist()])
        resources = weighed[sizes > 0]
        sizes = sizes[sizes > 0]
        tight = (self._surplus == 0) & self._breakable
        loose, tight = (goes & who[running.job] for who in (self._surplus != 0, tight))
        base = self._cycle.ledger.free(resources, slice(0, len(useful)), Pool.FUTURE_IDLE)

        def room(free: Ints, rows: Ints | slice = slice(None)) -> Ints:
            count = np.full(free.shape[1], self._asked.need)
            for amounts, size in zip(free, sizes.tolist(), strict=True):
                np.minimum(count, amounts // size, out=count)
            result: Ints = np.maximum(count, 0) * useful[rows]
            return result

        loosely, tightly = (running_tasks.by_cell(running.request[resources] * who) for who in (loose, tight))
        for amounts, freed in zip(base, loosely, strict=True):
            np.add.at(amounts, running_tasks.cell_row, freed)
        growth_by_cell = growth(running_tasks.cell_row, base, tightly, room)
        growing = np.flatnonzero(growth_by_cell)
        return _Growth(
            had=room(base),
            sizes=dict(zip(resources.tolist(), zip(sizes.tolist(), base, strict=True), strict=True)),
            row=running_tasks.cell_row[growing],
            priority=running_tasks.cell_priority[growing],
            more=growth_by_cell[growing],
        )

    def _in_tier(self, tier: int, freed: Ints, domains: Ints, missing: Ints, units: Ints) -> tuple[Floats, Floats]:
        """The first two numbers of the price for domains of one tier where so much of a resource is missing.

        `units` of it must come from gangs without surplus.
        """
        segments = self._standing.in_tier(tier)
        if not len(segments.job):
            return np.full(len(domains), math.inf), np.full(len(domains), math.inf)
        # What each segment frees at no cost, and by breaking the gang; what that costs for each unit, infinite where it
        # frees nothing; and the same of gangs without surplus alone.
        job = segments.job
        amounts = freed[segments.order]
        begin = segments.first[:-1]
        total = np.add.reduceat(amounts, begin)
        largest = np.maximum.reduceat(amounts, begin)
        surplus = self._surplus[job]
        safe = np.where(surplus < 0, total, np.minimum(total, surplus * largest))
        core = np.where(self._breakable[job], total - safe, 0)
        rate = np.where(core > 0, self._used[job] / np.maximum(core, 1), math.inf)
        tight = np.where(surplus == 0, rate, math.inf)
        places = np.searchsorted(segments.domains, domains)
        still_missing = missing - segments.sums(safe)[places]
        broken = np.zeros(len(domains))
        for amount, shares in (still_missing, rate), (units, tight):
            missing_anything = np.flatnonzero(amount > 0)
            shares_lost = amount[missing_anything] * segments.least(shares)[places[missing_anything]] / self._asked.need
            broken[missing_anything] = np.maximum(broken[missing_anything], _lowered(shares_lost, shares_lost))
        broken[still_missing > segments.sums(core)[places]] = math.inf
        holds = self._breakable & (self._used > 0)
        lowest = self._cause.running.jobs.priority[holds].min(initial=2**40)
        return np.where(still_missing > 0, lowest, NONE_BROKEN), broken


class _Growth(msgspec.Struct, frozen=True):
    """By how many tasks rows take more as gangs without surplus go, in the order of rows and of priorities."""

    had: Ints  # by row: how many tasks it takes before
    sizes: dict[int, tuple[int, Ints]]  # by resource: what each task takes at least, and what rows have before
    row: Ints
    priority: Ints  # up to which gangs have gone by then
    more: Ints

    def level(self, topology: Topology, domains: Ints, missing: Ints) -> Floats:
        """For each domain the lowest priority up to which gangs must go for so many more tasks; or infinity."""
        starts, stops = np.searchsorted(self.row, [topology.start[domains], topology.end[domains]])
        owner, index = _ranges(starts, stops)
        index = index[np.lexsort((self.priority[index], owner))]
        upto = np.concatenate(([0], np.cumsum(self.more[index])))
        ends = np.cumsum(stops - starts)
        target = upto[ends - (stops - starts)] + missing
        enough = (missing > 0) & (upto[ends] >= target)
        result = np.where(missing > 0, math.inf, NONE_BROKEN)
        result[enough] = self.priority[index[np.searchsorted(upto, target[enough]) - 1]]
        return result

    def units(self, resource: int, topology: Topology, domains: Ints, missing: Ints) -> Ints:
        """How much of a resource must be freed in each domain for so many more tasks, at least."""
        if resource not in self.sizes:
            return np.zeros(len(domains), dtype=np.int64)
        size, base = self.sizes[resource]
        added = np.minimum(summed(self.row, self.more, len(base)), missing.max(initial=0))
        row = np.repeat(np.arange(len(base)), added)
        number = self.had[row] + np.arange(len(row)) - np.repeat(np.cumsum(added) - added, added)
        short = [np.maximum(count * size - base[row], 0) for count in (number, number + 1)]
        unit = short[1] - short[0]
        starts, stops = np.searchsorted(row, [topology.start[domains], topology.end[domains]])
        owner, index = _ranges(starts, stops)
        unit = unit[index]
        order = np.argsort(unit)
        order = order[stable_order(owner[order], len(domains))]
        upto = np.concatenate(([0], np.cumsum(unit[order])))
        begins = np.cumsum(stops - starts) - (stops - starts)
        result: Ints = upto[begins + np.clip(missing, 0, stops - starts)] - upto[begins]
        return result


def _ranges(start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """The numbers of some ranges one after the other: of each, whose it is, and the number itself."""
    sizes = end - start
    owner = np.repeat(np.arange(len(sizes)), sizes)
    return owner, np.arange(len(owner)) + np.repeat(start - (np.cumsum(sizes) - sizes), sizes)


def _lowered(prices: Floats, added: float | Floats) -> Floats:
    """Rounded as prices are, and no more than they are, where so much was added up."""
    slack = _ROUNDING * (np.minimum(added, 1 / _ROUNDING) + 100)  # also of what is infinite
    result: Floats = np.maximum(prices - slack, 0.0).round(9)
    return result
