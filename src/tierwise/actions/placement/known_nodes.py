"""Nodes that have failed a gang, or several owners: they are left out first, and used where nothing else has room.

So a gang never waits because of them. Closed rows are asked for by every count and search, so whatever is looked for
inside `without_failed` goes elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import numpy as np

from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import CycleView
from tierwise.model.arrays import Why
from tierwise.model.failed_starts import FailedStarts
from tierwise.model.job import Job, Reason
from tierwise.model.snapshot import Snapshot
from tierwise.model.topology import Topology

__all__ = ["KnownNodes"]

T = TypeVar("T")
_FAILED = Reason("FailedHere", "failed-starts", "have failed to start pods of the gang")
_SUSPECTED = Reason("NodeSuspected", "failed-starts", "are suspected: they have failed to start pods of several owners")


class KnownNodes:
    """The nodes that jobs of one cycle leave out first."""

    def __init__(self, snapshot: Snapshot, view: CycleView) -> None:
        memory = snapshot.start_memory
        self.starts = memory.at(snapshot.jobs, snapshot.now) if memory is not None else FailedStarts()
        self._rows, self._view = snapshot.nodes.row, view
        self._suspected = self._spread(snapshot.topology) if self.starts else []
        self._on = True

    def concerns(self, job: Job) -> bool:
        """Whether a job avoids a node."""
        return self._on and bool(self._suspected or self._avoided(job))

    def _avoided(self, job: Job) -> list[int]:
        """The rows of the nodes that a gang avoids; nodes that are gone have none."""
        return [self._rows[node] for node in self.starts.avoided(job) if node in self._rows]

    def _spread(self, topology: Topology) -> list[int]:
        """The rows of suspected nodes; of an innermost domain at most half of its nodes."""
        allowance: dict[int, int] = {}
        rows = []
        for node in self.starts.suspected:
            row = self._rows.get(node, -1)
            if row < 0:
                continue
            leaf = int(topology.leaf[row])
            size = int(np.count_nonzero(topology.leaf == leaf))
            if allowance.setdefault(leaf, size // 2):
                allowance[leaf] -= 1
                rows.append(row)
        return rows

    def closed(self, job: Job) -> Why | None:
        """By row, the number of the reason why a job would rather not stand there."""
        if not self.concerns(job):
            return None
        why: Why = np.zeros(len(self._rows), dtype=np.uint16)
        why[self._suspected] = self._view.reasons.number(_SUSPECTED)
        why[self._avoided(job)] = self._view.reasons.number(_FAILED)
        return why if why.any() else None

    def in_turn(self, cycle: Cycle, job: Job, search: Callable[[], T], is_place: Callable[[T], bool]) -> T:
        """Search without these nodes, and with them where that finds nothing."""
        why = self.closed(job)
        if why is None:
            return search()
        with cycle.ledger.statement() as statement, cycle.fit_counts.closed_too(why), self._looked():
            place = search()
            if is_place(place):
                statement.keep()
                return place
        with self._looked():
            return search()

    @contextmanager
    def _looked(self) -> Iterator[None]:
        """Inside, nothing is left out once more."""
        before, self._on = self._on, False
        try:
            yield
        finally:
            self._on = before
