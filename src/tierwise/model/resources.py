"""Resources as array rows: the index of each resource, and amounts as exact integers.

An `Axis` is fixed for one cycle.
Amounts count the smallest unit that Kubernetes keeps: milli for cpu, whole units for everything else.
No sum of them wraps: what a node has and what a pod asks for are bounded where they are read, so that all nodes
together, all pods together and all queues together stay below `MOST`, and two such sums below 63 bits.
Pod slots and host ports are resources like any other, so that one comparison covers every countable limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
import numpy as np

from tierwise.model.arrays import Ints

__all__ = ["CPU", "MEMORY", "MOST", "POD_SLOTS", "UNOFFERED", "Axis", "beyond", "ceiling"]

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


class Axis(msgspec.Struct, frozen=True):
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

    def devices(self) -> Ints:
        """The columns of devices and other extended resources, of which gangs need whole hosts."""
        return np.array([i for i, name in enumerate(self.names) if "/" in name and name != UNOFFERED], dtype=np.int64)

    def vector(self, amounts: Mapping[str, int]) -> Ints:
        """Amounts by name as a column; names that the axis lacks must not occur."""
        result = np.zeros(len(self.names), dtype=np.int64)
        for name, amount in amounts.items():
            result[self.index[name]] = amount
        return result
