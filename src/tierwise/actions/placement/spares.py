"""Spares: room that is kept free for gangs that run and may lose nodes.

A job declares how many places for its pods it wants to be kept where it runs. They are set aside on the ledger as those
of nominated pods are, and are open while their owner is served, and while a job is that says it may borrow them. What
borrowers hold counts as kept: the owner takes it back when it needs it (`actions.eviction.repair`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import numpy as np

from tierwise.actions.placement.fit import fit_counts_without
from tierwise.actions.placement.search import current_domain
from tierwise.api.repair import SPARES
from tierwise.framework.cycle import Cycle
from tierwise.framework.ledger import Pool
from tierwise.model.arrays import Bools, Ints
from tierwise.model.job import Job, Status, Task
from tierwise.model.reason import Reason
from tierwise.model.shape import Shape
from tierwise.model.topology import ROOT

__all__ = ["Spares", "like_nodes"]

_NOBODY: Ints = np.zeros(0, dtype=np.int64)
_UNKNOWN = "annotation {key}: no tier is called {tier}, so no spares are kept for it"


def like_nodes(cycle: Cycle, job: Job) -> Bools:
    """Rows with taints that running tasks of a job put up with: what else these say of nodes is not known any more."""
    running = [task.node for task in job.tasks if task.status is Status.RUNNING and task.node >= 0]
    rows = cycle.nodes.rows[running]
    return np.isin(cycle.nodes.taint_set, cycle.nodes.taint_set[rows])


class Spares:
    """The spares of one cycle, by the job that owns them."""

    def __init__(self, cycle: Cycle) -> None:
        self._cycle = cycle
        self._kept: dict[int, tuple[Shape, Ints, Ints]] = {}
        declared = (job for job in cycle.snapshot.jobs if job.repair is not None and job.repair.spares)
        self._owners = [job for job in declared if any(t.status is Status.RUNNING and t.node >= 0 for t in job.tasks)]
        self.complaints: tuple[tuple[Task, Reason], ...] = ()
        borrow = np.array([job.repair is not None and job.repair.borrows for job in cycle.snapshot.jobs], dtype=bool)
        self._lent: Ints = np.flatnonzero(borrow[cycle.running.job]) if self._owners and borrow.any() else _NOBODY
        self._seen = 0  # evictions that `_lent` is without
        self._like = {job.number: like_nodes(cycle, job) for job in self._owners}
        for job in self._owners:
            self._keep(job)

    @contextmanager
    def serving(self, job: Job) -> Iterator[None]:
        """Open them to a job that owns or borrows them for as long as it is served."""
        terms = job.repair
        open_ = [own for own in self._owners if own is job or (terms is not None and terms.borrows)]
        for owner in open_:
            self._give_back(owner)
        yield
        for owner in open_:
            self._keep(owner)

    def kept(self) -> dict[str, int]:
        """How many are kept free now, by the key of their owner."""
        jobs = self._cycle.snapshot.jobs
        return {jobs[number].key: int(counts.sum()) for number, (_, _, counts) in self._kept.items()}

    def places(self) -> Iterable[tuple[Shape, Ints, Ints]]:
        """What is kept free now: shapes, rows, and how many of the shape on each."""
        return self._kept.values()

    def open_all(self) -> None:
        """Open all of them, inside a statement that is undone."""
        for shape, rows, counts in self._kept.values():
            self._cycle.ledger.set_aside(shape, rows, -counts)

    def lent(self) -> Ints:
        """The running tasks of borrowers that are not evicted yet, by position."""
        cycle = self._cycle
        evictions = cycle.report.evictions
        if len(evictions) != self._seen:
            gone = [cycle.running.position.get(eviction.task.key, -1) for eviction in evictions[self._seen :]]
            self._lent, self._seen = np.setdiff1d(self._lent, gone), len(evictions)
        return self._lent

    def _give_back(self, job: Job) -> None:
        found = self._kept.pop(job.number, None)
        if found is not None:
            shape, rows, counts = found
            self._cycle.ledger.set_aside(shape, rows, -counts)

    def _keep(self, job: Job) -> None:
        """Set aside what is free of a job's spares, on the fullest nodes that have room."""
        cycle, terms = self._cycle, job.repair
        assert terms is not None
        shapes = Counter(task.shape for task in job.tasks if task.status is Status.RUNNING and task.node >= 0)
        shape = min(shapes, key=lambda one: (-shapes[one], one.number))
        like, lent = self._like[job.number], self.lent()
        free = np.where(like, cycle.fit_counts.of(shape).rows(Pool.FUTURE_IDLE), 0)
        without = free
        if len(lent):
            freed = cycle.running.freed(lent, len(cycle.nodes))
            without = np.where(like, fit_counts_without(cycle, shape, freed), 0)
        counts = np.zeros(len(cycle.nodes), dtype=np.int64)
        for domain in self._domains(job):
            span = cycle.topology.span(domain)
            missing = terms.spares - int((without[span] - free[span]).sum())
            rows = np.flatnonzero(free[span]) + span.start
            rows = rows[np.lexsort((cycle.nodes.rank[rows], free[rows]))]
            before = np.cumsum(free[rows]) - free[rows]
            counts[rows] = np.clip(missing - before, 0, free[rows])
        rows = np.flatnonzero(counts)
        if len(rows):
            cycle.ledger.set_aside(shape, rows, counts[rows])
            self._kept[job.number] = shape, rows, counts[rows]

    def _domains(self, job: Job) -> list[int]:
        """Where the spares of a job are: in each domain of a tier that it runs in, or in the one that it may not leave,
        else the innermost one around it.
        """
        topology, terms = self._cycle.topology, job.repair
        assert terms is not None
        if not terms.spares_tier:
            here, limit = current_domain(self._cycle, job), self._cycle.pipeline.limit(job)
            here = ROOT if here is None else here
            return [here if limit is None else topology.highest(here, limit) or here]
        tier = topology.tier_names.get(terms.spares_tier)
        if tier is None and terms.spares_tier.isdecimal():
            tier = int(terms.spares_tier)
        if tier not in topology.at_tier:
            text = _UNKNOWN.format(key=SPARES, tier=terms.spares_tier)
            complaint = (job.tasks[0], Reason("UnknownTier", "repair", text))
            self.complaints = tuple(dict.fromkeys((*self.complaints, complaint)))
            return []
        held = [task.node for task in job.tasks if task.status is Status.RUNNING and task.node >= 0]
        chains = (topology.ancestors(int(topology.leaf[row])) for row in self._cycle.nodes.rows[held].tolist())
        return sorted({domain for chain in chains for domain in chain if topology.tier[domain] == tier})
