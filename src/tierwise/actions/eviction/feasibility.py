"""Would a gang fit in a domain if certain tasks were gone? Asked often, so it is counted wherever counting is exact.

`_Counted` serves demands of one plain shape: fit counts per row with the victims' amounts added, summed over the gang's
domains. `_Tried` serves everything else: evict on the ledger, search, rewind.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from tierwise.actions.placement.demand import Demand
from tierwise.actions.placement.gather import gather_group
from tierwise.actions.placement.search import SearchResult, search_group
from tierwise.actions.placement.sub_groups import search_job
from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import Preemptor, Purpose
from tierwise.framework.ledger import Pool, job_ready
from tierwise.model.arrays import Ints, summed
from tierwise.model.reason import Reason

__all__ = ["Feasibility", "fits_in", "place_in", "quota_allows", "quota_objection"]


class Feasibility(Protocol):
    """Whether the gang fits once some victims (positions in the running table) are gone."""

    def without(self, victims: Ints) -> bool: ...


def fits_in(cycle: Cycle, preemptor: Preemptor, asked: Demand, domain: int) -> Feasibility:
    """The cheapest exact test for a demand in a domain."""
    gathered = cycle.pipeline.gather_options(preemptor.job, asked.tasks)
    counted = _Counted.of(cycle, preemptor, asked, domain) if not gathered else None
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
        for job in dict.fromkeys(running.job[victims].tolist()):
            freed = running.request[:, victims[running.job[victims] == job]].sum(axis=1)
            cycle.ledger.charge(cycle.snapshot.jobs[job], -freed)
        return cycle.pipeline.quota_exceeded(preemptor.job, preemptor.need)


def place_in(cycle: Cycle, preemptor: Preemptor, asked: Demand, domain: int) -> SearchResult | None:
    """Search a place for the demand inside one domain, on the ledger as it is; what is found stays on it."""
    job = preemptor.job
    if cycle.pipeline.gather_options(job, asked.tasks):
        found = gather_group(cycle, job, asked.task_groups[0])
        inside = found is not None and domain <= found.domain < int(cycle.topology.last[domain])
        return found if inside else None
    if job.policies:
        searched = search_job(cycle, job, asked, within=domain)
    else:
        searched = search_group(cycle, job, asked.task_groups[0], within=domain)
    return searched if isinstance(searched, SearchResult) and _as_allowed(cycle, preemptor, searched) else None


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
        self._groups = asked.tasks // self._size

    @classmethod
    def of(cls, cycle: Cycle, preemptor: Preemptor, asked: Demand, domain: int) -> _Counted | None:
        """None where counting would not be exact."""
        first = asked.task_groups[0]
        if asked.spares or any(
            len(task_group.remaining) != 1 or task_group.roles or task_group.need != first.need
            for task_group in asked.task_groups
        ):
            return None
        shape = first.remaining[0].pod_set.shape
        if any(
            task_group.remaining[0].pod_set.shape is not shape for task_group in asked.task_groups
        ) or cycle.pipeline.moving(shape):
            return None
        span = cycle.topology.span(domain)
        if not preemptor.job.policies:
            return cls(cycle, preemptor, asked, domain, (np.array([0]), np.array([span.stop - span.start]), first.need))
        if any(cycle.ledger.placed_rows(task_group.sub) is not None for task_group in asked.task_groups):
            return None
        limits = {cycle.pipeline.limit(task_group.sub) for task_group in asked.task_groups}
        limit = next(iter(limits))
        if len(limits) > 1 or limit is None:
            return None
        inside = np.arange(domain, int(cycle.topology.last[domain]))
        inside = inside[cycle.topology.tier[inside] <= limit]
        widest = inside[~np.isin(cycle.topology.parent[inside], inside)]
        starts, ends = cycle.topology.start[widest] - span.start, cycle.topology.end[widest] - span.start
        return cls(cycle, preemptor, asked, domain, (starts, ends, first.need))

    def without(self, victims: Ints) -> bool:
        free = self._free.copy()
        if len(victims):
            here = victims - self._first
            cells = (self._rows[here] + self._shift).ravel()  # one count for all resources at once
            free += summed(cells, self._amounts[:, here].ravel(), free.size).reshape(free.shape)
        free //= self._asked
        room = np.maximum(free.min(axis=0), 0) * self._open
        if len(self._starts) == 1:
            groups = int(room[self._starts[0] : self._ends[0]].sum()) // self._size
        else:
            upto = np.concatenate(([0], np.cumsum(room)))
            groups = int(((upto[self._ends] - upto[self._starts]) // self._size).sum())
        return groups >= self._groups and quota_allows(self._cycle, self._cause, victims)


class _Tried:
    """Anything: evict, search, rewind."""

    def __init__(self, cycle: Cycle, preemptor: Preemptor, asked: Demand, domain: int) -> None:
        self._cycle = cycle
        self._cause = preemptor
        self._asked = asked
        self._domain = domain

    def without(self, victims: Ints) -> bool:
        cycle, preemptor = self._cycle, self._cause
        if not quota_allows(cycle, preemptor, victims):
            return False
        with cycle.ledger.statement():
            if len(victims):
                cycle.ledger.evict(preemptor.running, victims, cycle.snapshot.jobs)
            found = place_in(cycle, preemptor, self._asked, self._domain)
            return found is not None and job_ready(cycle.ledger, preemptor.job, waiting=True)
