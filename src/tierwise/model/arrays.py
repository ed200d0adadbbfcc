"""The array types of the core, one name for each meaning, so that signatures can be read; and the axis of resources."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any, TypeVar

import msgspec
import numpy as np

__all__ = [
    "CPU",
    "EMPTY",
    "MEMORY",
    "MOST",
    "POD_SLOTS",
    "UNOFFERED",
    "Axis",
    "Bools",
    "Floats",
    "Ints",
    "NDArray",
    "Rows",
    "Why",
    "begins",
    "beyond",
    "ceiling",
    "distinct",
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


A = TypeVar("A", bound=np.generic)
NDArray = np.ndarray[tuple[Any, ...], np.dtype[A]]
"""As in `numpy.typing`, without importing that."""
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Why = NDArray[np.uint16]
"""Reason numbers of a `ReasonBook`, one per row; 0 means "no objection"."""
EMPTY: Ints = np.zeros(0, dtype=np.int64)
"""No rows, tasks or amounts at all."""
_TRUE = np.ones(1, dtype=bool)


Rows = Ints | slice
"""Which rows: by number, or all between two of them."""


def of_rows(amounts: Ints, resources: Ints, rows: Rows) -> Ints:
    """The amounts of some resources on some rows, as a new (resources x rows) array."""
    if isinstance(rows, slice):
        return amounts[:, rows].take(resources, axis=0)
    chosen: Ints = amounts[resources[:, None], rows]
    return chosen


def length(rows: Rows) -> int:
    """How many rows these are."""
    return rows.stop - rows.start if isinstance(rows, slice) else len(rows)


def seal(*arrays: NDArray[Any] | None) -> None:
    """Make these read-only: plugins are given them."""
    for array in arrays:
        if array is not None:
            array.setflags(write=False)


def distinct(values: Ints) -> Ints:
    """The values in ascending order, each once.

    `np.unique` does the same in ten times the time on short arrays, and imports masked arrays when it is called first,
    which takes longer than a small cycle.
    """
    ordered = values.copy()
    ordered.sort()
    return ordered[begins(ordered)]


def begins(*columns: Ints | Floats | Bools) -> Bools:
    """Which entries begin a run: they differ from the one before them in some column."""
    found = np.zeros(len(columns[0]), dtype=bool)
    found[:1] = True
    for column in columns:
        found[1:] |= column[1:] != column[:-1]
    return found


def ordinals(groups: Ints | NDArray[np.complex128]) -> Ints:
    """How many entries of the same group precede each entry."""
    order = groups.argsort(kind="stable")
    ranked = groups[order]
    result = np.empty(len(groups), dtype=np.int64)
    result[order] = np.arange(len(groups)) - ranked.searchsorted(ranked)
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
    """How much `counted` grows with each item, where items are sorted by their keys."""
    if not len(keys):
        return EMPTY
    first = np.flatnonzero(np.concatenate((_TRUE, keys[1:] != keys[:-1])))
    at_first = before[:, keys[first]]
    upto = np.cumsum(amounts, axis=1)
    base = at_first - upto[:, first] + amounts[:, first]
    sizes = np.append(first[1:], len(keys)) - first
    after = counted(upto + np.repeat(base, sizes, axis=1), keys)
    earlier = np.empty_like(after)
    earlier[1:] = after[:-1]
    earlier[first] = counted(at_first, keys[first])
    return after - earlier


# Resources as array rows: the index of each resource, and amounts as exact integers.
#
# An `Axis` is fixed for one cycle.
# Amounts count the smallest unit that Kubernetes keeps: milli for cpu, whole units for everything else.
# No sum of them wraps: what a node has and what a pod asks for are bounded where they are read, so that all nodes
# together, all pods together and all queues together stay below `MOST`, and two such sums below 63 bits.
# Pod slots and host ports are resources like any other, so that one comparison covers every countable limit.


CPU = "cpu"
MEMORY = "memory"
POD_SLOTS = "pods"
UNOFFERED = "//unoffered"
"""One index of the axis for all resources that no node has; a request for any of them is a request for this one.

A tenant may make up any number of names: they cost nothing for each node.
"""

MOST = 2**61
"""The largest sum, and what means "no limit": two of them still add up inside 64 bits."""

_FIRST = (CPU, MEMORY, POD_SLOTS)


def ceiling(nodes: int) -> int:
    """The largest amount that one node may have so that a sum over all nodes stays below half of `MOST`."""
    return MOST // 2 // max(1, nodes)


def beyond(largest: int) -> int:
    """What replaces every amount that is more than the largest node has: it fits nowhere, and can be added up.

    A power of two, so that it seldom changes when nodes come and go.
    """
    return 1 << max(largest, 0).bit_length()


class Axis(msgspec.Struct, frozen=True, dict=True):
    """The resources of a cycle in a fixed order: cpu, memory and pod slots first, the rest by name."""

    names: tuple[str, ...]
    index: dict[str, int]

    @classmethod
    def of(cls, names: Iterable[str]) -> Axis:
        rest = sorted(set(names) - set(_FIRST))
        ordered = (*_FIRST, *rest)
        return cls(ordered, {name: i for i, name in enumerate(ordered)})

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def devices(self) -> Ints:
        """The columns of devices and other extended resources, of which gangs need whole hosts."""
        return np.array([i for i, name in enumerate(self.names) if "/" in name and name != UNOFFERED], dtype=np.int64)

    def vector(self, amounts: Mapping[str, int]) -> Ints:
        """Amounts by name as a column; names that the axis lacks must not occur."""
        result = np.zeros(len(self.names), dtype=np.int64)
        for name, amount in amounts.items():
            result[self.index[name]] = amount
        return result
