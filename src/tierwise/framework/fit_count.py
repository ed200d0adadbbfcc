"""How many more tasks of a shape every node and every domain takes, kept current at the price of what changed.

`FitCounts` holds one `FitCount` per shape that was asked for. A room reads the ledger's list of touched rows from where
it stood last, recomputes those rows, and adds the differences to the domains above them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tierwise.framework.ledger import Ledger, Pool
from tierwise.model.arrays import Ints, Why
from tierwise.model.shape import Shape
from tierwise.model.topology import Topology

__all__ = ["FitCount", "FitCounts"]

WhyNot = Callable[[Shape], Why]


class FitCount:
    """The room for one shape: per row and per domain, now and later."""

    def __init__(self, shape: Shape, why: Why, ledger: Ledger, topology: Topology) -> None:
        self.why = why  # static objections per row; 0 where none
        self._shape = shape
        self._open = why == 0
        self._ledger = ledger
        self._topology = topology
        self._read = len(ledger.moved)
        self._rows: dict[Pool, Ints] = {}
        self._domains: dict[Pool, Ints] = {}
        self._open_pools()

    def _open_pools(self) -> None:
        """LATER is worth its price only once something is being released."""
        for pool in (Pool.IDLE, Pool.FUTURE_IDLE) if self._ledger.any_releasing else (Pool.IDLE,):
            self._rows[pool] = self._measure(slice(None), pool)
            self._domains[pool] = self._topology.totals(self._rows[pool])

    def rows(self, pool: Pool) -> Ints:
        """Room per row. Read it; never write it."""
        return self._rows[pool if pool in self._rows else Pool.IDLE]

    def domains(self, pool: Pool) -> Ints:
        """Room per domain: the sum over its rows."""
        return self._domains[pool if pool in self._domains else Pool.IDLE]

    def _measure(self, rows: Ints | slice, pool: Pool) -> Ints:
        room = self._shape.max_tasks(self._ledger.free(self._shape.asked, rows, pool))
        room[~self._open[rows]] = 0
        return room

    def refresh(self) -> FitCount:
        """Catch up with the ledger."""
        moved = self._ledger.moved
        if self._ledger.any_releasing and Pool.FUTURE_IDLE not in self._rows:
            self._read = len(moved)
            self._open_pools()
        elif self._read < len(moved):
            rows = moved[self._read] if len(moved) == self._read + 1 else np.concatenate(moved[self._read :])
            self._read = len(moved)
            self._update(_distinct(rows))
        return self

    def _update(self, rows: Ints) -> None:
        for pool in self._rows:
            before = self._rows[pool]
            after = self._measure(rows, pool)
            change = after - before[rows]
            changed = np.flatnonzero(change)
            if len(changed):
                before[rows] = after
                domains, numbers = self._topology.touched(rows[changed], change[changed])
                self._domains[pool][domains] += numbers


def _distinct(rows: Ints) -> Ints:
    """Sorted without repeats (np.unique costs ten times as much on short arrays)."""
    rows = np.sort(rows)
    keep = np.ones(len(rows), dtype=bool)
    np.not_equal(rows[1:], rows[:-1], out=keep[1:])
    return rows[keep]


class FitCounts:
    """The rooms of a cycle, by shape, made when first asked for."""

    def __init__(self, ledger: Ledger, topology: Topology, why_not: WhyNot) -> None:
        self._ledger = ledger
        self._topology = topology
        self._why_not = why_not
        self._rooms: dict[int, FitCount] = {}

    def of(self, shape: Shape) -> FitCount:
        room = self._rooms.get(shape.number)
        if room is None:
            room = FitCount(shape, self._why_not(shape), self._ledger, self._topology)
            self._rooms[shape.number] = room
            return room
        return room.refresh()
