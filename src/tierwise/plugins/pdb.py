"""pdb: disruption budgets hold for victims, of preemption and reclaim, of single tasks and whole gangs.

Victims are decided in order. One may be evicted if every budget that covers it still allows a disruption, and uses up
one of each; a protected one uses up none. Tasks without a budget are not filtered. Tasks under two budgets are
protected, since the Eviction API refuses them. Where the preemptor's `protection` says that it has ended, budgets
protect no more.
"""

from __future__ import annotations

import numpy as np

from tierwise.framework.declaration import takes_part
from tierwise.framework.extension import Arguments, CycleView, Preemptor, Purpose, VictimFilter
from tierwise.framework.victim_counts import who_goes
from tierwise.model.arrays import Bools, Ints

__all__ = ["DisruptionBudgets", "KeptBudgets"]


@takes_part(VictimFilter, by_amounts=True)
class DisruptionBudgets:
    """Counts disruption budgets down over the victims."""

    answers = frozenset(Purpose)
    counts = True

    def __init__(self, arguments: Arguments, view: CycleView) -> None:
        self._allowed = view.ledger.budgets  # counted down with every eviction of the cycle

    def protect(self, preemptor: Preemptor, victims: Ints) -> Bools:
        return self.protect_whole(preemptor, victims, np.arange(len(victims)))

    def protect_whole(self, preemptor: Preemptor, victims: Ints, bundles: Ints) -> Bools:
        budgets = _budgets(preemptor.running.covered, victims)
        if not len(budgets):
            return np.zeros(len(victims), dtype=bool)
        disruptions = np.ones((1, len(victims)), dtype=np.int64)
        ended = np.zeros(len(victims), dtype=bool)
        if preemptor.protection is not None:
            ended = preemptor.protection.ended(
                preemptor.running, victims, np.asarray((budgets >= 0).any(axis=0)), bundles
            )
        single = (budgets >= 0).sum(axis=0) < 2

        def may_lose(_level: int, allowance: Ints, _budgets: Ints, which: Ints) -> Bools:
            allowed: Bools = (allowance[0] > 0) & single[which] | ended[which]
            return allowed

        return ~who_goes(self._allowed[None], disruptions, budgets, may_lose, bundles)

    def protect_alone(self, preemptor: Preemptor, victims: Ints) -> Bools:
        """Tasks that a budget covers which allows no disruption, and tasks under two budgets."""
        task, budget = preemptor.running.covered
        covered = np.bincount(task, minlength=len(preemptor.running)) > 1
        covered[task[self._allowed[budget] <= 0]] = True
        if preemptor.protection is not None:
            covered &= ~preemptor.protection.ended_alone(preemptor.running)
        return covered[victims]


@takes_part(VictimFilter, by_amounts=True)
class KeptBudgets(DisruptionBudgets):
    """Where the profile does not list the plugin: budgets hold all the same, and it names no victims."""

    answers = frozenset[Purpose]()


def _budgets(covered: Ints, victims: Ints) -> Ints:
    """The budgets that cover each victim, (most that cover one x victims); -1 below the last of them."""
    starts, stops = (np.searchsorted(covered[0], victims, side=side) for side in ("left", "right"))
    level = np.arange((stops - starts).max(initial=0))[:, None]
    at = np.minimum(starts + level, covered.shape[1] - 1)
    return np.where(level < stops - starts, covered[1, at], -1)
