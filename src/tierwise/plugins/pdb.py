"""pdb: disruption budgets hold for victims, of preemption and reclaim, of single tasks and whole gangs.

Victims are decided in order. One may be evicted if every budget that covers it still allows a disruption, and uses up
one of each; a protected one uses up none. Tasks without a budget are not filtered.
"""

from __future__ import annotations

import numpy as np

from tierwise.framework.declaration import takes_part
from tierwise.framework.extension import Arguments, CycleView, Preemptor, Purpose, VictimFilter
from tierwise.model.arrays import Bools, Ints

__all__ = ["DisruptionBudgets"]


@takes_part(VictimFilter)
class DisruptionBudgets:
    """Counts disruption budgets down over the victims."""

    answers = frozenset(Purpose)
    counts = True

    def __init__(self, arguments: Arguments, view: CycleView) -> None:
        self._allowed = view.ledger.budgets  # counted down with every eviction of the cycle

    def spare(self, preemptor: Preemptor, victims: Ints) -> Bools:
        result = np.zeros(len(victims), dtype=bool)
        if not len(self._allowed):
            return result
        left = self._allowed.tolist()
        tasks = preemptor.running.tasks
        for i, victim in enumerate(victims.tolist()):
            budgets = tasks[victim].budgets
            if not budgets:
                continue
            if any(left[budget] <= 0 for budget in budgets):
                result[i] = True
                continue
            for budget in budgets:
                left[budget] -= 1
        return result
