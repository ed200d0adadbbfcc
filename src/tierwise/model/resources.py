"""Resources as array rows: which resource stands at which index, and amounts as exact integers.

An `Axis` is fixed for one cycle.
Amounts count the smallest unit that Kubernetes keeps: milli for cpu, whole units for everything else.
Pod slots and host ports are resources like any other, so that one comparison covers every countable limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
import numpy as np

from tierwise.model.arrays import Ints

__all__ = ["CPU", "MEMORY", "POD_SLOTS", "Axis", "ceiling"]

CPU = "cpu"
MEMORY = "memory"
POD_SLOTS = "pods"
_FIRST = (CPU, MEMORY, POD_SLOTS)


def ceiling(nodes: int) -> int:
    """The largest amount that one node may have so that a sum over all nodes stays inside 64 bits."""
    return 2**62 // max(1, nodes)


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

    def vector(self, amounts: Mapping[str, int]) -> Ints:
        """Amounts by name as a column; names that the axis lacks must not occur."""
        result = np.zeros(len(self.names), dtype=np.int64)
        for name, amount in amounts.items():
            result[self.index[name]] = amount
        return result
