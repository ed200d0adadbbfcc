"""What is kept of the ledger inside a cycle: values that declare how they are made.

What a snapshot keeps is brought up to date when it is read (`snapshot.derive`). A ledger is written far more often than
what is kept of it is asked for, so here a value is brought up to date when it is asked for. Its input is the log of
rows that changed: a function may look at amounts, tallies and followers, which never change without an entry there.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

import numpy as np

from tierwise.model.arrays import Ints, distinct

__all__ = ["KeptOfLedger", "MovedRows"]

V = TypeVar("V")


class MovedRows:
    """The rows of a ledger that changed, in order."""

    def __init__(self, nodes: int) -> None:
        self._nodes = nodes
        self._room = 1024
        self._rows: Ints = np.empty(self._room, dtype=np.int64)
        self.length = 0
        self._last = 0  # where the last change begins
        self._freed = 0  # where the last change ends by which a row may have got more free

    def append(self, rows: Ints, *, only_taken: bool = False) -> None:
        """These rows changed, distinct and ascending; `only_taken` says that tasks took idle resources, and no more."""
        begin = self.length
        end = self.length + len(rows)
        if end > self._room:
            self._room = 2 * end
            longer = np.empty(self._room, dtype=np.int64)
            longer[:begin] = self._rows[:begin]
            self._rows = longer
        self._rows[begin:end] = rows
        self._last = begin
        self.length = end
        if not only_taken:
            self._freed = end

    def since(self, length_read: int) -> Ints:
        """The rows behind the first `length_read` entries, ascending and without repeats."""
        rows = self._rows[length_read : self.length]
        if length_read >= self._last:
            return rows
        if len(rows) > self._nodes // 256:  # to sort more takes longer than to look at all
            named = np.zeros(self._nodes, dtype=bool)
            named[rows] = True
            return named.nonzero()[0]
        return distinct(rows)

    def taken_since(self, length_read: int) -> list[int] | None:
        """The rows behind the first `length_read` entries; None if anything but taken resources changed there."""
        return self._rows[length_read : self.length].tolist() if length_read >= self._freed else None


class KeptOfLedger(Generic[V]):
    """Values by key. `make` makes one as the ledger is; `follow` looks at rows again that have changed since.

    Where none follows, no value is kept beyond the next change. Both are given what is asked, whoever asks among it:
    functions that were bound to their owner would keep it alive in a circle.
    """

    def __init__(self, moved: MovedRows, make: Callable[..., V], follow: Callable[..., V] | None = None) -> None:
        self._moved = moved
        self._make = make
        self._follow = follow
        self._known: dict[Hashable, tuple[int, V]] = {}  # with how much of the log is in each
        self._length = 0  # of the log, when the last value was made

    def last(self, key: Hashable) -> V | None:
        """A value as it was when it was last asked for; None if it never was."""
        entry = self._known.get(key)
        return entry[1] if entry is not None else None

    def of(self, key: Hashable, *arguments: object) -> V:
        """The value of a key as the ledger is; `make(*asked)`, or `follow(*asked, value, rows)`."""
        entry = self._known.get(key)
        length = self._moved.length
        if entry is not None and entry[0] == length:
            return entry[1]
        if entry is not None and self._follow is not None:
            value = self._follow(*arguments, entry[1], self._moved.since(entry[0]))
        else:
            value = self._make(*arguments)
            if self._follow is None and self._length != length:
                self._known.clear()
                self._length = length
        self._known[key] = length, value
        return value
