"""What making room in a domain costs at least, counted for all domains at once.

A domain must get back what the demand asks for beyond what is free there, of every resource. Safe tasks give some of it
for nothing; for the rest gangs are broken, and if they could be broken in part, those that free the most for their cost
would be the cheapest. What that costs is no more than any plan costs, so plans are made for the most promising domains
first, and not at all where the bound of a domain exceeds the price of a plan that is made already.
"""

from __future__ import annotations

import math

import msgspec
import numpy as np

from tierwise.actions.placement.demand import Demand
from tierwise.actions.placement.fit import fit_counts_without
from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import Preemptor, Purpose
from tierwise.framework.ledger import Pool
from tierwise.model.arrays import Bools, Floats, Ints, summed
from tierwise.model.running import RunningTable

__all__ = ["NONE_BROKEN", "PriceBounds"]

NONE_BROKEN = -(2**40)
"""The highest priority among broken gangs where none is broken."""

_ROUNDING = 1e-14
"""By how much sums of the same shares may differ, as a share of all that was added up."""

Price = tuple[float, ...]


class _Segments(msgspec.Struct, frozen=True):
    """The running tasks of one tier, by domain and job: segment i begins at `order[first[i]]`, and none is empty."""

    domains: Ints  # of the tier
    order: Ints
    first: Ints
    place: Ints  # of each segment's domain among `domains`
    job: Ints


class PriceBounds:
    """Bounds for one preemptor after the other; which tasks stand where is sorted once."""

    def __init__(self, cycle: Cycle, running: RunningTable) -> None:
        self._cycle = cycle
        self._running = running
        self._segments: dict[int, _Segments] = {}

    def of(
        self, preemptor: Preemptor, asked: Demand, domains: Ints, eligible: Bools, breakable: Bools
    ) -> dict[int, Price]:
        """The least price of a plan in each of these domains, as `victims` writes prices; none where none can be made.

        `eligible` are the running tasks that the purpose lets go, `breakable` the jobs that may be broken.
        """
        topology = self._cycle.topology
        tier, rank = topology.tier[domains], topology.rank[domains]
        least = np.zeros((3, len(domains)))  # highest priority broken, what broken gangs held, what is evicted
        if preemptor.purpose is Purpose.PREEMPT:
            least[0] = NONE_BROKEN
        if self._countable(asked):
            rows, gone = self._useful(asked, np.flatnonzero(eligible & ~self._running.not_preemptable))
            for r in preemptor.weighed.tolist():
                free = self._cycle.ledger.free(np.array([r]), slice(0, len(rows)), Pool.FUTURE_IDLE)[0]
                missing = _least(asked, r) - topology.totals(np.maximum(free, 0) * rows)[domains]
                offer = self._offer(preemptor, r, gone)
                for group in np.unique(tier[missing > 0]).tolist():
                    here = np.flatnonzero((tier == group) & (missing > 0))
                    found = self._in_tier(preemptor, offer, breakable, domains[here], missing[here])
                    least[:, here] = np.maximum(least[:, here], found)
            if preemptor.purpose is not Purpose.PREEMPT:
                least[0] = 0
        columns = (*least, tier.astype(np.float64), rank.astype(np.float64))
        prices = zip(*(column.tolist() for column in columns), strict=True)
        return {d: price for d, price in zip(domains.tolist(), prices, strict=True) if price[1] < math.inf}

    def _countable(self, asked: Demand) -> bool:
        """Whether it is known what must be placed, and tasks free what they ask for and no more."""
        shapes = (t.pod_set.shape for task_group in asked.task_groups for t in task_group.remaining)
        moving = any(self._cycle.pipeline.moving(shape) for shape in shapes)
        return not (asked.spares or asked.alternatives is not None or moving)

    def _useful(self, asked: Demand, gone: Ints) -> tuple[Bools, Ints]:
        """The rows that take a task of the demand once all of the `gone` are gone, and who of these stand there."""
        rows = np.zeros(len(self._cycle.nodes), dtype=bool)
        for shape in {t.pod_set.shape for task_group in asked.task_groups for t in task_group.remaining}:
            rows |= fit_counts_without(self._cycle, shape, self._running, gone) > 0
        return rows, gone[rows[self._running.row[gone]]]

    def _offer(self, preemptor: Preemptor, resource: int, gone: Ints) -> tuple[Ints, Floats]:
        """How much of a resource each running task frees if it goes, and what a unit of it costs."""
        running, weighed = self._running, preemptor.weighed
        freed, rate = np.zeros(len(running), dtype=np.int64), np.full(len(running), math.inf)
        freed[gone] = running.request[resource, gone]
        giving = gone[freed[gone] > 0]
        shares = running.request[np.ix_(weighed, giving)] / preemptor.need[weighed, None]
        rate[giving] = shares.sum(axis=0) / freed[giving]
        return freed, rate

    def _in_tier(
        self, preemptor: Preemptor, offer: tuple[Ints, Floats], breakable: Bools, domains: Ints, missing: Ints
    ) -> Floats:
        """The first three numbers of the price for domains of one tier where so much of a resource is missing."""
        jobs, weighed = self._running.jobs, preemptor.weighed
        segments = self._tier(int(self._cycle.topology.tier[domains[0]]))
        if not len(segments.first):
            return np.full((3, len(domains)), math.inf)
        places = np.searchsorted(segments.domains, domains)
        freed, rate = (column[segments.order] for column in offer)
        total = np.add.reduceat(freed, segments.first)
        surplus = jobs.surplus(self._cycle.ledger.ready)[segments.job]
        most = surplus * np.maximum.reduceat(freed, segments.first)
        safe = np.where(surplus < 0, total, np.minimum(total, most))
        core = np.where(breakable[segments.job], total - safe, 0)
        used = (self._cycle.ledger.job_used[weighed] / preemptor.need[weighed, None]).sum(axis=0)[segments.job]
        evicted = _spent(segments.place, total, np.minimum.reduceat(rate, segments.first), places, missing)
        left = missing - summed(segments.place, safe, len(segments.domains))[places]
        broken = _spent(segments.place, core, used / np.maximum(core, 1), places, left)
        highest = _reached(segments.place, core, jobs.priority[segments.job], places, left)
        return np.stack((highest, broken, evicted))

    def _tier(self, tier: int) -> _Segments:
        found = self._segments.get(tier)
        if found is None:
            topology, running = self._cycle.topology, self._running
            domains = topology.at_tier[tier]
            place = np.searchsorted(topology.start[domains], running.row, side="right") - 1
            inside = np.flatnonzero((place >= 0) & (running.row < topology.end[domains[place]]))
            order = inside[np.lexsort((running.job[inside], place[inside]))]
            place, job = place[order], running.job[order]
            new = np.append(True, (place[1:] != place[:-1]) | (job[1:] != job[:-1])) if len(order) else order > 0
            first = np.flatnonzero(new)
            found = self._segments[tier] = _Segments(domains, order, first, place[first], job[first])
        return found


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
    order, upto, first, at = _filled(place, freed, rate, places, missing)
    spent = np.concatenate(([0.0], np.cumsum(rate[order] * freed[order])))
    found = np.zeros(len(places))
    some = at >= 0
    part = missing[some] - (upto[at[some]] - upto[first[some]])
    found[some] = spent[at[some]] - spent[first[some]] + rate[order[at[some]]] * part
    found = np.where((missing > 0) & ~some, math.inf, found)
    result: Floats = np.round(np.maximum(found - _ROUNDING * (spent[-1] + 100), 0), 9)
    return result


def _reached(place: Ints, freed: Ints, key: Ints, places: Ints, missing: Ints) -> Floats:
    """The key of the last segment that is needed where those of the lowest keys are taken first."""
    order, _, _, at = _filled(place, freed, key, places, missing)
    found = np.full(len(places), float(NONE_BROKEN))
    some = at >= 0
    found[some] = key[order[at[some]]]
    return found


def _filled(place: Ints, freed: Ints, key: Ints | Floats, places: Ints, missing: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """Segments that free anything by place and key, what is freed up to each, where places begin, and the segment with
    which what is missing is freed: -1 where nothing is missing, or where there is none.
    """
    some = np.flatnonzero(freed > 0)
    order = some[np.lexsort((key[some], place[some]))]
    upto = np.concatenate(([0], np.cumsum(freed[order])))
    first, last = (np.searchsorted(place[order], places, side=side) for side in ("left", "right"))
    target = upto[first] + missing
    at = np.searchsorted(upto, target, side="left") - 1
    return order, upto, first, np.where((missing > 0) & (upto[last] >= target), at, -1)
