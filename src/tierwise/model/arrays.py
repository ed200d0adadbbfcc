"""The array types of the core: one name for each meaning, so that signatures are readable."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["Bools", "Floats", "Ints", "Rows", "Why", "length", "of_rows", "ranks", "stable_order", "summed"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Why = NDArray[np.uint16]
"""Reason numbers of a `ReasonBook`, one per row; 0 means "no objection"."""


Rows = Ints | slice
"""Which rows: by number, or all between two of them."""


def of_rows(amounts: Ints, resources: Ints, rows: Rows) -> Ints:
    """The amounts of some resources on some rows, as a new (resources x rows) array."""
    chosen: Ints = amounts[(resources, rows) if isinstance(rows, slice) else (resources[:, None], rows)]
    return chosen


def length(rows: Rows) -> int:
    """How many rows these are."""
    return rows.stop - rows.start if isinstance(rows, slice) else len(rows)


def ranks(order: list[int]) -> Ints:
    """Turn "positions in order" into "rank of each position": the inverse permutation."""
    result = np.empty(len(order), dtype=np.int64)
    result[order] = np.arange(len(order))
    return result


def stable_order(keys: Ints, size: int) -> Ints:
    """The order of keys below `size`, equal ones as they are. Narrow keys are sorted by counting, ten times as fast."""
    return np.argsort(keys.astype(np.min_scalar_type(size)), kind="stable")


def summed(where: Ints, amounts: Ints | Bools, size: int) -> Ints:
    """Add up amounts by position, exactly: `np.bincount` weighs in floats, which lose units beyond 2^53."""
    result = np.zeros(size, dtype=np.int64)
    np.add.at(result, where, amounts)
    return result
