"""How far apart the pods of a gang are, and how much of its traffic leaves a switch.

A gang is one communicating group. Traffic is counted in buffers per step: the buffer is what every pod reduces, or
exchanges, in a step, whatever its size. docs/reference/simulation-metrics.md has the formulas with an example.
"""

from __future__ import annotations

import msgspec
import numpy as np

from tierwise.model.arrays import Ints, distinct
from tierwise_lab.replay.traces.fabric import Fabric
from tierwise_lab.replay.traces.trace import slots

__all__ = ["FIGURES", "Spreads"]

FIGURES = ("leaves", "tier", "ring_leaf", "ring_spine", "all_leaf", "all_spine")
"""What is known of a placement, in the order of `Spreads.of`."""

_LEAF, _SPINE = 1, 2


class Spreads(msgspec.Struct, frozen=True):
    """The domains of two tiers row by row: leaves, and the spines above them."""

    fabric: Fabric
    leaf: Ints
    spine: Ints

    @classmethod
    def over(cls, fabric: Fabric) -> Spreads:
        return cls(fabric, fabric.domains(_LEAF), fabric.domains(_SPINE))

    def fewest(self, sizes: tuple[int, ...]) -> int:
        """The fewest leaves that could hold pods with so many GPUs each, were the fabric empty."""
        _, leaf = np.unique(self.leaf, return_inverse=True)
        needed = 1
        for size, number in slots(sizes):
            room = np.sort(np.bincount(leaf, self.fabric.host_gpus // size))[::-1]
            needed = max(needed, 1 + int(np.searchsorted(np.cumsum(room), number)))
        return needed

    def of(self, rows: Ints) -> tuple[float, ...]:
        """The figures of a gang whose pods stand on these rows, in the order of their ranks."""
        leaf = self.leaf[rows]
        spine = self.spine[rows]
        tier = float(self.fabric.topology.tier[self.fabric.topology.meet_rows(rows)])
        return (float(len(distinct(leaf))), tier, _ring(leaf), _ring(spine), _all(leaf), _all(spine))


def _ring(domain: Ints) -> float:
    """All-reduce in a ring: each of n hops carries 2(n-1)/n buffers; those between unlike domains count."""
    pods = len(domain)
    return float((domain != np.roll(domain, 1)).sum()) * 2 * (pods - 1) / pods


def _all(domain: Ints) -> float:
    """All-to-all: each pod sends an n-th of its buffer to every other; what goes to unlike domains counts."""
    _, counts = np.unique(domain, return_counts=True)
    return float(len(domain) ** 2 - (counts**2).sum()) / len(domain)
