"""How many more tasks of a shape each node and each domain takes, updated incrementally.

`FitCounts` holds one `FitCount` for each shape that was asked for. A `FitCount` reads the rows that changed on the
ledger since its last update, recomputes those rows only, and adds the differences to the domains above them. Called by
placement, eviction and diagnosis; it never writes to the ledger.
"""

from __future__ import annotations

from collections.abc import Callable

from tierwise.framework.ledger import Ledger, Pool
from tierwise.model.arrays import Ints, Why
from tierwise.model.shape import Shape
from tierwise.model.topology import Topology

__all__ = ["FitCount", "FitCounts"]

WhyNot = Callable[[Shape], Why]


class FitCount:
    """How many more tasks of one shape each row and each domain takes, on idle and on future idle resources."""

    def __init__(self, shape: Shape, why: Why, ledger: Ledger, topology: Topology) -> None:
        self.why = why  # number of the first static objection per row; 0 for none
        self._shape = shape
        self._open = why == 0
        self._ledger = ledger
        self._topology = topology
        self._read = ledger.moved.length
        self._idle = self._count_all(Pool.IDLE)
        self._future = self._count_all(Pool.FUTURE_IDLE) if ledger.any_releasing else None

    def _count_all(self, pool: Pool) -> tuple[Ints, Ints]:
        rows = self._measure(slice(None), pool)
        return rows, self._topology.totals(rows)

    def _of(self, pool: Pool) -> tuple[Ints, Ints]:
        """Counts by row and by domain. Future idle is counted only once something is being released."""
        return self._idle if pool is Pool.IDLE or self._future is None else self._future

    def rows(self, pool: Pool) -> Ints:
        """The count of each row; callers must not write to it."""
        return self._of(pool)[0]

    def domains(self, pool: Pool) -> Ints:
        """The count of each domain: the sum over its rows."""
        return self._of(pool)[1]

    def _measure(self, rows: Ints | slice, pool: Pool) -> Ints:
        room = self._shape.max_tasks(self._ledger.free(self._shape.asked, rows, pool))
        room[~self._open[rows]] = 0
        return room

    def refresh(self) -> FitCount:
        """Recompute the rows that changed on the ledger."""
        moved, length = self._ledger.moved, self._ledger.moved.length
        if self._ledger.any_releasing and self._future is None:
            self._read = length
            self._idle, self._future = self._count_all(Pool.IDLE), self._count_all(Pool.FUTURE_IDLE)
        elif self._read < length:
            rows = moved.since(self._read, len(self.why))
            self._read = length
            self._update(rows)
        return self

    def _update(self, rows: Ints) -> None:
        for pool in (Pool.IDLE, Pool.FUTURE_IDLE) if self._future is not None else (Pool.IDLE,):
            before, domains = self._of(pool)
            after = self._measure(rows, pool)
            change = after - before[rows]
            changed = change.nonzero()[0]
            if len(changed):
                before[rows] = after
                touched, numbers = self._topology.touched(rows[changed], change[changed])
                domains[touched] += numbers


class FitCounts:
    """The fit counts of a cycle by shape, created on first use."""

    def __init__(self, ledger: Ledger, topology: Topology, why_not: WhyNot) -> None:
        self._ledger = ledger
        self._topology = topology
        self._why_not = why_not
        self._by_shape: dict[int, FitCount] = {}

    def of(self, shape: Shape) -> FitCount:
        count = self._by_shape.get(shape.number)
        if count is None:
            count = FitCount(shape, self._why_not(shape), self._ledger, self._topology)
            self._by_shape[shape.number] = count
            return count
        return count.refresh()
