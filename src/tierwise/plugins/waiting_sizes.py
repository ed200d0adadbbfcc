"""Which sizes of gangs wait in the queue, counted in units of another gang: what `least-damage` keeps slots for."""

from __future__ import annotations

import numpy as np

from tierwise.framework.extension import CycleView, Units
from tierwise.model.arrays import Ints

__all__ = ["WaitingSizes"]

_MOST = 16
"""So many different sizes count, the most frequent ones."""


class WaitingSizes:
    """The pending gangs of a cycle by what their minimum asks for."""

    def __init__(self, view: CycleView) -> None:
        self._jobs = view.jobs
        self._known: dict[tuple[int, int], dict[int, int]] = {}

    def of(self, units: Units) -> dict[int, int]:
        """Sizes, each with the number of gangs that wait with it; one unit where nobody waits.

        A gang's size is the number of units that ask for as much as it does, of the resource that it needs most of.
        """
        assert units.shape is not None
        key = (units.shape.number, units.size)
        if key not in self._known:
            asked = units.shape.asked
            self._known[key] = self._count(units.shape.request[asked] * units.size, asked)
        return self._known[key]

    def _count(self, unit: Ints, asked: Ints) -> dict[int, int]:
        counts: dict[int, int] = {}
        for job in self._jobs:
            amounts = [part.shape.request[asked] * len(part.tasks) for part in job.parts()]
            if amounts:
                size = int((-(-np.sum(amounts, axis=0) // unit)).max())
                counts[size] = counts.get(size, 0) + 1
        frequent = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_MOST]
        return dict(sorted(frequent)) or {1: 1}
