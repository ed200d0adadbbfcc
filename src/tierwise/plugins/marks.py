"""marks: pods that are marked as not preemptable stay, as far as their queue's protection reaches.

The scheduler adds it where running pods have such a mark and the profile evicts. Victims are decided in order: each
reduces what its queue still holds beyond the amount up to which marks protect it.
"""

from __future__ import annotations

import numpy as np

from tierwise.framework.declaration import takes_part
from tierwise.framework.extension import Arguments, CycleView, Preemptor, Purpose, VictimFilter
from tierwise.model.arrays import Bools, Ints

__all__ = ["Marks"]


@takes_part(VictimFilter, by_amounts=True)
class Marks:
    """Protects marked tasks; names no victims."""

    answers = frozenset[Purpose]()
    counts = True

    def __init__(self, arguments: Arguments, view: CycleView) -> None:
        pass

    def protect(self, preemptor: Preemptor, victims: Ints) -> Bools:
        return self.protect_whole(preemptor, victims, np.arange(len(victims)))

    def protect_whole(self, preemptor: Preemptor, victims: Ints, bundles: Ints) -> Bools:
        marked = preemptor.running.not_preemptable[victims]
        if preemptor.protection is None or not marked.any():
            return marked
        return marked & ~preemptor.protection.ended(preemptor.running, victims, marked, bundles)

    def protect_alone(self, preemptor: Preemptor, victims: Ints) -> Bools:
        return preemptor.stays[victims]
