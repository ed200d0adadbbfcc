"""The array types of the core: one name for each meaning, so that signatures are readable."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Bools",
    "Floats",
    "Ints",
    "Rows",
    "Why",
    "begins",
    "growth",
    "least_amounts",
    "length",
    "of_rows",
    "order_by",
    "ordinals",
    "ranks",
    "seal",
    "stable_order",
    "summed",
]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Why = NDArray[np.uint16]
"""Reason numbers of a `ReasonBook`, one per row; 0 means "no objection"."""
_TRUE = np.ones(1, dtype=bool)


Rows = Ints | slice
"""Which rows: by number, or all between two of them."""


def of_rows(amounts: Ints, resources: Ints, rows: Rows) -> Ints:
    """The amounts of some resources on some rows, as a new (resources x rows) array."""
    chosen: Ints = amounts[(resources, rows) if isinstance(rows, slice) else (resources[:, None], rows)]
    return chosen


def length(rows: Rows) -> int:
    """How many rows these are."""
    return rows.stop - rows.start if isinstance(rows, slice) else len(rows)


def seal(*arrays: NDArray[Any] | None) -> None:
    """Make these read-only: plugins are given them."""
    for array in arrays:
        if array is not None:
            array.setflags(write=False)


def begins(*columns: Ints | Floats | Bools) -> Bools:
    """Which entries begin a run: they differ from the one before them in some column."""
    found = np.zeros(len(columns[0]), dtype=bool)
    found[:1] = True
    for column in columns:
        found[1:] |= column[1:] != column[:-1]
    return found


def ordinals(groups: Ints) -> Ints:
    """How many entries of the same group precede each entry."""
    order = np.argsort(groups, kind="stable")
    ranked = groups[order]
    result = np.empty(len(groups), dtype=np.int64)
    result[order] = np.arange(len(groups)) - np.searchsorted(ranked, ranked)
    return result


def ranks(order: list[int]) -> Ints:
    """Turn "positions in order" into "rank of each position": the inverse permutation."""
    result = np.empty(len(order), dtype=np.int64)
    result[order] = np.arange(len(order))
    return result


def stable_order(keys: Ints, size: int) -> Ints:
    """The order of keys below `size`, equal ones as they are. Narrow keys are sorted by counting, ten times as fast."""
    return np.argsort(keys.astype(np.min_scalar_type(size)), kind="stable")


def order_by(*keys: Ints | Floats | Bools) -> Ints:
    """The order by the first key, then by the next, equal ones as they are; keys that are all the same cost little."""
    telling = [key for key in keys[::-1] if (key[1:] != key[:1]).any()]
    return np.lexsort(telling) if telling else np.arange(len(keys[0]))


def summed(where: Ints, amounts: Ints | Bools, size: int) -> Ints:
    """Add up amounts by position, exactly: `np.bincount` weighs in floats, which lose units beyond 2^53."""
    result = np.zeros(size, dtype=np.int64)
    np.add.at(result, where, amounts)
    return result


def least_amounts(requests: Ints, counts: Ints, number: int) -> Ints:
    """The least of each resource that so many tasks ask for, of kinds with these requests (kinds x resources), of each
    of which there are so many.
    """
    order = np.argsort(requests, axis=0, kind="stable")
    before = np.cumsum(counts[order], axis=0) - counts[order]
    taken = np.clip(number - before, 0, counts[order])
    least: Ints = (np.take_along_axis(requests, order, axis=0) * taken).sum(axis=0)
    return least


def growth(keys: Ints, before: Ints, amounts: Ints, counted: Callable[[Ints, Ints], Ints]) -> Ints:
    """The same where items are sorted by their keys."""
    if not len(keys):
        return np.zeros(0, dtype=np.int64)
    first = np.flatnonzero(np.concatenate((_TRUE, keys[1:] != keys[:-1])))
    at_first = before[:, keys[first]]
    upto = np.cumsum(amounts, axis=1)
    base = at_first - upto[:, first] + amounts[:, first]
    sizes = np.diff(first, append=len(keys))
    after = counted(upto + np.repeat(base, sizes, axis=1), keys)
    earlier = np.empty_like(after)
    earlier[1:] = after[:-1]
    earlier[first] = counted(at_first, keys[first])
    return after - earlier
