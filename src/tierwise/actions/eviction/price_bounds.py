"""What making room in a domain costs at least, counted for all domains at once.

A domain must get back what the demand asks for beyond what is free there, of every resource. Safe tasks give some of it
for nothing; for the rest gangs are broken. What that costs at least is no more than any plan costs, so plans are made
for the most promising domains first, and not at all where the bound of a domain exceeds the price of a plan that is
made already. There are three bounds, each higher and dearer than the one before: by amounts, as if all of them were
freed by the gang that frees the most for its cost; by the priority up to which gangs must go for every task to find a
row; and by the cheapest rows up to this priority, as if gangs could be broken in part.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise

import msgspec
import numpy as np

from tierwise.actions.placement.demand import Demand
from tierwise.actions.placement.fit import fit_counts_without
from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import Preemptor, Purpose
from tierwise.framework.ledger import Pool
from tierwise.model.arrays import Bools, Floats, Ints, stable_order, summed
from tierwise.model.running import RunningTable
from tierwise.model.shape import Shape
from tierwise.model.topology import Topology

__all__ = ["NONE_BROKEN", "DomainBounds", "Price", "StandingTasks"]

NONE_BROKEN = -(2**40)
"""The highest priority among broken gangs where none is broken."""

_ROUNDING = 1e-14
"""By how much sums of the same shares may differ, as a share of all that was added up."""

Price = tuple[float, ...]


class Segments(msgspec.Struct, frozen=True):
    """The running tasks of one tier, by domain and job: segment i begins at `order[first[i]]`, and none is empty."""

    domains: Ints  # of the tier
    order: Ints
    first: Ints
    place: Ints  # of each segment's domain among `domains`
    job: Ints


class StandingTasks:
    """Which running tasks stand where, sorted once for all preemptors."""

    def __init__(self, topology: Topology, running: RunningTable) -> None:
        self._topology = topology
        self._running = running
        self._segments: dict[int, Segments] = {}
        self.samples: Ints = np.unique(running.shape, return_index=True)[1]  # a task of each shape

    def in_tier(self, tier: int) -> Segments:
        """The segments of one tier."""
        found = self._segments.get(tier)
        if found is None:
            topology, running = self._topology, self._running
            domains = topology.at_tier[tier]
            place = np.searchsorted(topology.start[domains], running.row, side="right") - 1
            inside = np.flatnonzero((place >= 0) & (running.row < topology.end[domains[place]]))
            order = inside[np.lexsort((running.job[inside], place[inside]))]
            place, job = place[order], running.job[order]
            new = np.append(True, (place[1:] != place[:-1]) | (job[1:] != job[:-1])) if len(order) else order > 0
            first = np.flatnonzero(new)
            found = self._segments[tier] = Segments(domains, order, first, place[first], job[first])
        return found


class DomainBounds:
    """What any plan for one preemptor costs at least in a domain, as `victims` writes prices.

    `eligible` are the running tasks that the purpose lets go, `breakable` the jobs that may be broken. The bounds hold
    as long as the ledger stays as it is.
    """

    def __init__(
        self,
        cycle: Cycle,
        standing: StandingTasks,
        preemptor: Preemptor,
        asked: Demand,
        eligible: Bools,
        breakable: Bools,
    ) -> None:
        running, weighed = preemptor.running, preemptor.weighed
        self._cycle = cycle
        self._standing = standing
        self._cause = preemptor
        self._asked = asked
        self._breakable = breakable
        self._surplus = running.jobs.surplus(cycle.ledger.ready)
        self._used: Floats = (cycle.ledger.job_used[weighed] / preemptor.need[weighed, None]).sum(axis=0)
        self._going: Ints = np.flatnonzero(eligible & ~running.not_preemptable)
        self._fit_counts: dict[int, Ints] = {}
        self._known = self._countable()
        if self._known:
            self._rows, self._gone = self._useful()

    def fit_counts(self, shape: Shape) -> Ints:
        """How many tasks of a shape each row takes once all are gone who may go."""
        found = self._fit_counts.get(shape.number)
        if found is None:
            found = fit_counts_without(self._cycle, shape, self._cause.running, self._going)
            self._fit_counts[shape.number] = found
        return found

    def _countable(self) -> bool:
        """Whether it is known what must be placed, and tasks free what they ask for and no more."""
        asked = self._asked
        moving = any(self._cycle.pipeline.moving(shape) for shape in _shapes(asked))
        return not (asked.spares or asked.alternatives is not None or moving)

    def _useful(self) -> tuple[Bools, Ints]:
        """The rows that take a task of the demand once all are gone who may go, and who could go from there."""
        rows = np.zeros(len(self._cycle.nodes), dtype=bool)
        for shape in _shapes(self._asked):
            rows |= self.fit_counts(shape) > 0
        gone = self._going[rows[self._cause.running.row[self._going]]]
        return rows, gone[self._cycle.pipeline.alone(self._cause, gone)]

    def by_amounts(self, domains: Ints) -> dict[int, Price]:
        """The bounds of these domains, all at once; none where no plan can be made."""
        topology = self._cycle.topology
        least = np.zeros((3, len(domains)))  # highest priority broken, what broken gangs held, what is evicted
        least[0] = NONE_BROKEN
        if self._known:
            self._raise_by_amounts(least, domains)
        if self._cause.purpose is not Purpose.PREEMPT:
            least[0] = 0
        columns = (*least, topology.tier[domains].astype(np.float64), topology.rank[domains].astype(np.float64))
        prices = zip(*(column.tolist() for column in columns), strict=True)
        return {d: price for d, price in zip(domains.tolist(), prices, strict=True) if price[1] < math.inf}

    def _raise_by_amounts(self, least: Floats, domains: Ints) -> None:
        """Raise the first three numbers of the price; gangs are counted by the resource of which most is missing."""
        running, weighed, topology = self._cause.running, self._cause.weighed, self._cycle.topology
        free = self._cycle.ledger.free(weighed, slice(0, len(self._rows)), Pool.FUTURE_IDLE)
        there = np.stack([topology.totals(amounts)[domains] for amounts in np.maximum(free, 0) * self._rows])
        missing = np.array([[_least(self._asked, r)] for r in weighed.tolist()]) - there
        scarcest = np.argmax(missing / self._cause.need[weighed, None], axis=0)
        for i, r in enumerate(weighed.tolist()):
            lacking = (missing[i] > 0) & (scarcest == i)
            freed = np.zeros(len(running), dtype=np.int64)
            freed[self._gone] = running.request[r, self._gone]
            for tier in np.unique(topology.tier[domains[lacking]]).tolist():
                here = np.flatnonzero((topology.tier[domains] == tier) & lacking)
                least[:2, here] = self._in_tier(freed, self._standing.in_tier(tier), domains[here], missing[i, here])
            rate = self._rates(r, self._standing.samples).min(initial=math.inf)
            if rate < math.inf:
                least[2] = np.maximum(least[2], _lowered(np.maximum(missing[i], 0) * rate, 0.0))

    def _in_tier(self, freed: Ints, segments: Segments, domains: Ints, missing: Ints) -> Floats:
        """The first two numbers of the price for domains of one tier where so much of a resource is missing."""
        if not len(segments.first):
            return np.full((2, len(domains)), math.inf)
        places = np.searchsorted(segments.domains, domains)
        freed = freed[segments.order]
        total = np.add.reduceat(freed, segments.first)
        surplus = self._surplus[segments.job]
        most = surplus * np.maximum.reduceat(freed, segments.first)
        safe = np.where(surplus < 0, total, np.minimum(total, most))
        core = np.where(self._breakable[segments.job], total - safe, 0)
        left = missing - summed(segments.place, safe, len(segments.domains))[places]
        rate = np.where(core > 0, self._used[segments.job] / np.maximum(core, 1), math.inf)
        cheapest = np.full(len(segments.domains), math.inf)
        begins = np.flatnonzero(np.diff(segments.place, prepend=-1))
        cheapest[segments.place[begins]] = np.minimum.reduceat(rate, begins)
        broken, lacking = np.zeros(len(domains)), left > 0
        broken[lacking] = _lowered(left[lacking] * cheapest[places[lacking]], 0.0)
        broken[left > summed(segments.place, core, len(segments.domains))[places]] = math.inf
        lowest = self._cause.running.jobs.priority[segments.job[core > 0]].min(initial=2**40)
        return np.stack((np.where(left > 0, lowest, NONE_BROKEN), broken))

    def _rates(self, resource: int, tasks: Ints) -> Floats:
        """What is evicted with each unit of a resource that some tasks free; infinite where they free none."""
        request, weighed = self._cause.running.request[:, tasks], self._cause.weighed
        shares = (request[weighed] / self._cause.need[weighed, None]).sum(axis=0)
        return np.where(request[resource] > 0, shares / np.maximum(request[resource], 1), math.inf)

    def by_levels(self, bounds: Mapping[int, Price]) -> dict[int, Price]:
        """The bounds of domains with the lowest priority up to which gangs must go for each task to find a row.

        No less than those that are given. Tasks of gangs that can spare some go whatever their priority.
        """
        if not self._known or self._cause.purpose is not Purpose.PREEMPT:
            return dict(bounds)
        rows = self._side_by_side(bounds, math.inf)
        tight, priority = self._surplus[rows.job] == 0, self._cause.running.jobs.priority[rows.job]
        levels = rows.level(np.where(tight, priority, NONE_BROKEN)).tolist()
        raised = zip(bounds.items(), levels, strict=True)
        return {domain: (max(bound[0], level), *bound[1:]) for (domain, bound), level in raised if level < math.inf}

    def by_rows(self, bounds: Mapping[int, Price]) -> dict[int, Price]:
        """The bounds of domains if each task must find all that it asks for on one row; none where no plan can be made.

        No less than the bounds by levels, which are given. Tasks of gangs that can spare some cost nothing here. Of
        other gangs each task carries its share of what its gang held, by what it frees in the domain, and those above
        the level stay: a plan in which one of them goes has a higher price anyway.
        """
        if not self._known:
            return dict(bounds)
        rows = self._side_by_side(bounds, np.array([bound[0] for bound in bounds.values()]))
        tight, shape = self._surplus[rows.job] == 0, self._cause.running.shape
        least = np.array([bound[1:3] for bound in bounds.values()]).T
        for i, r in enumerate(rows.resources.tolist()):
            broken = rows.cost(i, np.where(tight, self._used[rows.job], 0.0))
            samples = self._standing.samples
            by_shape = np.full(int(shape[samples].max(initial=0)) + 1, math.inf)
            by_shape[shape[samples]] = self._rates(r, samples)
            evicted = rows.amount(i, _least(self._asked, r), by_shape[shape[rows.task]])
            least = np.maximum(least, (broken, evicted))
        prices = zip(bounds.items(), least.T.tolist(), strict=True)
        return {d: (bound[0], *dear, *bound[3:]) for (d, bound), dear in prices if max(dear) < math.inf}

    def _side_by_side(self, bounds: Mapping[int, Price], levels: float | Floats) -> _Rows:
        """The rows of some domains one after the other, even where one domain is inside another.

        Gangs that are broken by any loss stay above the level of the domain.
        """
        topology, running, gone = self._cycle.topology, self._cause.running, self._gone
        domains, weighed = np.array(list(bounds), dtype=np.int64), self._cause.weighed
        each = np.array([min(int(shape.request[r]) for shape in _shapes(self._asked)) for r in weighed.tolist()])
        resources = weighed[each > 0]
        place, row = _ranges(topology.start[domains], topology.end[domains])
        at = np.searchsorted(running.row[gone], [topology.start[domains], topology.end[domains]])
        owner, index = _ranges(at[0], at[1])
        task = gone[index]
        job = running.job[task]
        tight = self._surplus[job] == 0
        going = ~tight | self._breakable[job]
        if self._cause.purpose is Purpose.PREEMPT:
            going &= ~tight | (running.jobs.priority[job] <= np.broadcast_to(levels, domains.shape)[owner])
        task, owner = task[going], owner[going]
        first = np.searchsorted(place, np.arange(len(domains)))
        return _Rows(
            resources=resources,
            place=place,
            open=self._rows[row],
            free=self._cycle.ledger.free(resources, row, Pool.FUTURE_IDLE),
            each=each[each > 0],
            need=self._asked.tasks,
            task=task,
            row=running.row[task] + (first - topology.start[domains])[owner],
            job=running.job[task],
            freed=running.request[np.ix_(resources, task)],
        )


class _Rows(msgspec.Struct, frozen=True):
    """Rows of some domains, what `need` tasks that take at least `each` find there, and what tasks that go free."""

    resources: Ints
    place: Ints  # of each row, the place of its domain
    open: Bools  # by row: whether it takes any task
    free: Ints  # (resources x rows)
    each: Ints  # by resource
    need: int
    task: Ints  # that goes
    row: Ints  # of each of them
    job: Ints
    freed: Ints  # (resources x tasks that go)

    def level(self, levels: Ints) -> Floats:
        """For each domain the lowest level such that there is room once all tasks up to it are gone; or infinity."""
        known, level = np.unique(np.append(levels, NONE_BROKEN), return_inverse=True)
        place = self.place[self.row]
        domains = int(self.place[-1]) + 1
        low, high = np.full(domains, -1), np.full(domains, len(known))  # `low` is too low, `high` is enough
        while (high - low > 1).any():
            middle = (low + high) // 2
            enough = self._room(level[:-1] <= middle[place]) >= self.need
            high, low = np.where(enough & (high - low > 1), middle, high), np.where(enough, low, middle)
        result: Floats = np.append(known.astype(np.float64), math.inf)[high]
        return result

    def _room(self, gone: Bools) -> Ints:
        """How many tasks each domain takes without these."""
        free = self.free.copy()
        for amounts, freed in zip(free, self.freed, strict=True):
            amounts += summed(self.row[gone], freed[gone], len(amounts))
        room = np.maximum((free // self.each[:, None]).min(axis=0, initial=self.need), 0) * self.open
        return summed(self.place, room, int(self.place[-1]) + 1)

    def amount(self, resource: int, least: int, rates: Floats) -> Floats:
        """For each domain the least that goes where so much of one resource is asked for, at a rate for each task."""
        domains = np.arange(int(self.place[-1]) + 1)
        free = summed(self.place, np.maximum(self.free[resource], 0) * self.open, len(domains))
        if len(rates) and rates.min() == rates.max() < math.inf:
            return _lowered(np.maximum(least - free, 0) * rates[0], 0.0)
        return _spent(self.place[self.row], self.freed[resource], rates, domains, least - free)

    def cost(self, resource: int, held: Floats) -> Floats:
        """For each domain the least that tasks cost that free rows for the need, of one resource, if each went in part.

        `held` is what the gang of each task costs, of which the task carries a share by what it frees.
        """
        free, each = self.free[resource], int(self.each[resource])
        some = np.flatnonzero(self.freed[resource] > 0)
        freed, row, job = self.freed[resource, some], self.row[some], self.job[some]
        _, gang = np.unique(self.place[row] * (int(job.max(initial=0)) + 1) + job, return_inverse=True)
        rate = held[some] / summed(gang, freed, len(gang))[gang]
        order = np.argsort(rate, kind="stable")
        order = order[stable_order(row[order], len(free))]
        freed, row, rate = freed[order], row[order], rate[order]
        upto = np.concatenate(([0], np.cumsum(freed)))
        first = np.searchsorted(row, np.arange(len(free) + 1))
        had = np.maximum(free // each, 0) * self.open
        edges = np.searchsorted(self.place, np.arange(int(self.place[-1]) + 2))
        missing = np.maximum(self.need - np.add.reduceat(had, edges[:-1]), 0)
        most = np.maximum((free + upto[first[1:]] - upto[first[:-1]]) // each, 0) * self.open
        more = np.minimum(most - had, missing[self.place])  # so many further tasks of each row are looked at
        at_row = np.repeat(np.arange(len(free)), more)
        number = had[at_row] + np.arange(len(at_row)) - np.repeat(np.cumsum(more) - more, more)
        ends = np.cumsum(more)[edges[1:] - 1]
        spent = np.zeros(len(freed) + 1)  # what the tasks of its domain cost up to each
        for a, b in pairwise(first[edges].tolist()):
            np.cumsum(rate[a:b] * freed[a:b], out=spent[a:b])
        before = spent[:-1] - rate * freed

        def price(number: Ints) -> Floats:
            """What so many tasks on each of these rows cost."""
            target = upto[first[at_row]] + np.maximum(number * each - free[at_row], 0)
            at = np.maximum(np.searchsorted(upto, target) - 1, first[at_row])
            result: Floats = before[at] - before[first[at_row]] + rate[at] * (target - upto[at])
            return result

        further = price(number + 1) - price(number)
        result = np.zeros(len(missing))
        totals = spent[first[edges[1:]] - 1]
        for i, (a, b, n) in enumerate(zip([0, *ends.tolist()], ends.tolist(), missing.tolist(), strict=False)):
            if b - a < n:
                result[i] = math.inf
            elif n:
                result[i] = np.partition(further[a:b], n - 1)[:n].sum()
        return _lowered(result, totals * missing)


def _ranges(start: Ints, end: Ints) -> tuple[Ints, Ints]:
    """The numbers of some ranges one after the other: of each, whose it is, and the number itself."""
    sizes = end - start
    owner = np.repeat(np.arange(len(sizes)), sizes)
    return owner, np.arange(len(owner)) + np.repeat(start - (np.cumsum(sizes) - sizes), sizes)


def _shapes(asked: Demand) -> tuple[Shape, ...]:
    """The distinct shapes of a demand."""
    return tuple({t.pod_set.shape: None for task_group in asked.task_groups for t in task_group.remaining})


def _least(asked: Demand, resource: int) -> int:
    """The least of a resource that a demand takes, whichever of its tasks are placed."""
    least = 0
    for task_group in asked.task_groups:
        left = task_group.need
        for request, number in sorted((int(t.pod_set.shape.request[resource]), t.left) for t in task_group.remaining):
            least += request * min(left, number)
            left -= min(left, number)
    return least


def _spent(place: Ints, freed: Ints, rate: Floats, places: Ints, missing: Ints) -> Floats:
    """The least that freeing what is missing costs in some places, where segments free so much at a rate, in part or
    whole; infinite where all of them free too little.
    """
    lacking = np.zeros(int(place.max(initial=0)) + 1, dtype=bool)
    lacking[places[missing > 0]] = True
    order = np.flatnonzero((freed > 0) & lacking[place])
    order = order[np.argsort(rate[order])]
    order = order[stable_order(place[order], len(lacking))]
    upto = np.concatenate(([0], np.cumsum(freed[order])))
    spent = np.concatenate(([0.0], np.cumsum(rate[order] * freed[order])))
    first, last = (np.searchsorted(place[order], places, side=side) for side in ("left", "right"))
    target = upto[first] + missing
    found = np.where(missing > 0, math.inf, 0.0)
    some = (missing > 0) & (upto[last] >= target)
    at = np.searchsorted(upto, target[some]) - 1  # the segment with which what is missing is freed
    found[some] = spent[at] - spent[first[some]] + rate[order[at]] * (target[some] - upto[at])
    return _lowered(found, float(spent[-1]))


def _lowered(found: Floats, added: float | Floats) -> Floats:
    """Rounded as prices are, and no more than they are, where so much was added up."""
    slack = _ROUNDING * (added + 100)
    result: Floats = np.maximum(found - slack, 0.0).round(9)
    return result
