"""Where tasks of each kind stand: how many at each spot, and on which rows. Follows every placement and rewind.

A kind is whatever a plugin tells shapes apart by; a spot is a bucket of rows. The histogram of spots costs the same
to read however many tasks stand there.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tierwise.framework.ledger import Ledger
from tierwise.model.arrays import Ints
from tierwise.model.shape import Shape

__all__ = ["Census"]

_NONE: Ints = np.zeros(0, dtype=np.int64)


class Census:
    """Counts by kind and spot, from what stands at the start of a cycle onwards."""

    def __init__(self, ledger: Ledger, kind: Mapping[int, int], kinds: int, spot: Ints, spots: int) -> None:
        """`kind` gives shapes by number; those it leaves out are not counted. `spot` gives every row."""
        self.spots: Ints = np.zeros((kinds, spots), dtype=np.int64)
        self._kind = kind
        self._spot = spot
        self._stands: list[list[tuple[Ints, Ints]]] = [[] for _ in range(kinds)]
        for number, rows in ledger.held.items():
            if number in kind:
                self.spots[kind[number]] += np.bincount(spot[rows], minlength=spots)
                self._stands[kind[number]].append((rows, np.ones(len(rows), dtype=np.int64)))
        ledger.follow(self)

    def count(self, ledger: Ledger, shape: Shape, rows: Ints, counts: Ints) -> None:
        kind = self._kind.get(shape.number)
        if kind is None:
            return
        spots = self._spot[rows]
        ledger.note(self.spots, (kind, spots))
        np.add.at(self.spots[kind], spots, counts)
        ledger.append(self._stands[kind], (rows, counts))

    def at(self, kinds: Ints, times: Ints) -> Ints:
        """Tasks of some kinds per spot, each counted so many times."""
        result: Ints = times @ self.spots[kinds]
        return result

    def rows(self, kinds: Ints, times: Ints) -> tuple[Ints, Ints]:
        """The rows of these tasks and how many each holds; rows may repeat."""
        stands = [
            (rows, n * counts) for k, n in zip(kinds.tolist(), times, strict=True) for rows, counts in self._stands[k]
        ]
        if not stands:
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        return np.concatenate([rows for rows, _ in stands]), np.concatenate([counts for _, counts in stands])
