"""How many rings pass the uplink of each leaf, those of gangs that were placed in this cycle included."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tierwise.framework.extension import CycleView
from tierwise.model.arrays import EMPTY, Ints
from tierwise.model.job import Job
from tierwise.model.rings import uplinks

__all__ = ["Uplinks"]


class Uplinks:
    """The rings of a cycle. Gangs that a plugin lets start are noted, as no snapshot has them."""

    def __init__(self, view: CycleView) -> None:
        self._view, self._leaf = view, view.topology.leaf
        self._running: Ints | None = None
        self._begun: dict[int, Job] = {}  # gangs that were let start, of which some may have been taken back

    def note(self, job: Job) -> None:
        """A gang may start where it is on the ledger."""
        self._begun[job.number] = job

    def over(self, job: Job, rows: Ints, budget: int) -> list[int]:
        """The leaves with more rings than the budget allows once a gang stands on these rows, that of it included."""
        own_leaves = uplinks(self._leaf, self._parts(job) or [rows])
        if not len(own_leaves):
            return []
        numbers = self._others(job)
        np.add.at(numbers, own_leaves, 1)
        return [leaf for leaf in np.unique(own_leaves).tolist() if numbers[leaf] > budget]

    def _others(self, job: Job) -> Ints:
        """Rings by leaf, without those of a job."""
        if self._running is None:
            snapshot = self._view.snapshot
            every = (*snapshot.jobs, *snapshot.standing_jobs)
            self._running = self._counted(self._standing_parts(other_job) for other_job in every)
        begun = (self._parts(other_job) for other_job in self._begun.values() if other_job is not job)
        return self._running + self._counted(begun)

    def _counted(self, gangs: Iterator[Sequence[Ints]]) -> Ints:
        passed = [uplinks(self._leaf, parts) for parts in gangs]
        return np.bincount(np.concatenate((EMPTY, *passed)), minlength=len(self._view.topology.tier))

    def _standing_parts(self, job: Job) -> list[Ints]:
        """The rows of each sub-group when the cycle began."""
        return [self._view.nodes.rows[sub.held] for sub in job.subs if len(sub.held)]

    def _parts(self, job: Job) -> list[Ints]:
        """The rows of each sub-group on the ledger."""
        placed = (self._view.ledger.placed_rows(sub) for sub in job.subs)
        return [rows_and_counts[0] for rows_and_counts in placed if rows_and_counts is not None]
