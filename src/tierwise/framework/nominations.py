"""Room that is kept for nominated pods: until they are placed or let go, nobody else is placed into it.

A nomination is written on the pod, so it survives a restart. At the start of a cycle the room of every nominated
pending task is set aside as if it were pipelined; when its job's turn comes the room is given back to be used.
"""

from __future__ import annotations

import numpy as np

from tierwise.framework.ledger import Ledger, Pool
from tierwise.model.arrays import Ints
from tierwise.model.job import Job
from tierwise.model.shape import Shape
from tierwise.model.snapshot import Snapshot

__all__ = ["Nominations"]


class Nominations:
    """What is set aside, by job."""

    def __init__(self, snapshot: Snapshot, ledger: Ledger) -> None:
        self._ledger = ledger
        self._kept: dict[int, list[tuple[Shape, Ints, Ints]]] = {}
        for job in snapshot.jobs:
            for part in (*job.parts(), *(part for _, part in job.effortless)):
                rows = [task.nominated for task in part.tasks if task.nominated >= 0]
                if rows:
                    self._keep(job, part.shape, np.array(rows, dtype=np.int64))

    def _keep(self, job: Job, shape: Shape, rows: Ints) -> None:
        numbers = np.bincount(rows)
        distinct = np.flatnonzero(numbers)
        counts = numbers[distinct]
        self._ledger.any_releasing = True  # so that room now is measured against what is set aside
        self._ledger.take(shape, distinct, counts, pool=Pool.LATER)
        self._kept.setdefault(job.number, []).append((shape, distinct, counts))

    def __len__(self) -> int:
        """How many jobs have room set aside."""
        return len(self._kept)

    def holds(self, job: Job) -> bool:
        return job.number in self._kept

    def release(self, job: Job) -> None:
        """Give a job's room back."""
        for shape, rows, counts in self._kept.pop(job.number, []):
            self._ledger.take(shape, rows, -counts, pool=Pool.LATER)
            self._ledger.releases += 1
