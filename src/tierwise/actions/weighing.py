"""How victims that fall one by one are weighed: who comes back first, and which of several choices is the cheapest.

A `Manner` is one of the customs that users of an action know. Disruption budgets are never a veto here (plugin `pdb` is
one, where a profile has it): to go beyond them is a price. `reprieve` and `single_plans` ask; nothing is changed here.
"""

from __future__ import annotations

import enum

import numpy as np

from tierwise.framework.cycle import Cycle
from tierwise.model.arrays import Bools, Floats, Ints
from tierwise.model.running import RunningTable

__all__ = ["Manner", "beyond_budgets", "by_importance", "cost_of", "node_keys", "price_of"]

_FLOOR = 2**31
"""Added to every priority, as Kubernetes does, so that each further victim makes a sum larger."""


class Manner(enum.Enum):
    """Whose customs hold."""

    JOB = "job"  # Koordinator's for whole jobs: fewest evictions, then the least important; budgets decide ties
    QUOTA = "quota"  # the same within a quota, where budgets come first
    POD = "pod"  # Kubernetes': budgets, then the highest priority, the sum of them, their number, their age

    @property
    def budgets_first(self) -> bool:
        return self is not Manner.JOB


def by_importance(running: RunningTable, tasks: Ints, manner: Manner) -> tuple[Ints, ...]:
    """Keys for `lexsort`, the least significant first: the most important task stands in front."""
    if manner is Manner.POD:  # the longer it runs, the more is lost
        return running.rank[tasks], running.created[tasks], -running.priority[tasks]  # type: ignore[return-value]
    return running.rank[tasks], running.kin[tasks], -running.priority[tasks]


def beyond_budgets(cycle: Cycle, running: RunningTable, tasks: Ints, rows: Ints | None = None) -> Bools:
    """Which tasks find one of their budgets used up by those in front of them; `rows` count each by itself."""
    result = np.zeros(len(tasks), dtype=bool)
    if not running.covered.shape[1] or not len(tasks):
        return result
    place = np.full(len(running), -1)
    place[tasks] = np.arange(len(tasks))
    at, budget = place[running.covered[0]], running.covered[1]
    at, budget = at[at >= 0], budget[at >= 0]
    group = budget if rows is None else rows[at] * len(cycle.ledger.budgets) + budget
    order = np.lexsort((at, group))
    ranked = group[order]
    turn = np.arange(len(ranked)) - np.searchsorted(ranked, ranked)
    result[at[order[turn >= cycle.ledger.budgets[budget[order]]]]] = True
    return result


def cost_of(running: RunningTable, victims: Ints, priorities: Ints) -> int:
    """The rank of the most important victim of each owner on each row, added up; `priorities` are all that occur."""
    ranks = np.searchsorted(priorities, running.priority[victims])
    owners = np.stack((running.row[victims], running.kin[victims]))
    _, owner = np.unique(owners, axis=1, return_inverse=True)
    dearest = np.zeros(len(victims), dtype=np.int64)
    np.maximum.at(dearest, owner.ravel(), ranks)
    return int(dearest.sum())


def price_of(
    cycle: Cycle, running: RunningTable, victims: Ints, manner: Manner, *, tasks: int, priorities: Ints
) -> tuple[float, ...]:
    """What victims cost who make room for so many tasks; the smallest price wins."""
    ordered = victims[np.lexsort(by_importance(running, victims, manner))]
    if manner is Manner.POD and tasks == 1:
        return tuple(float(key[0]) for key in node_keys(cycle, running, ordered, np.zeros_like(ordered), 1))
    beyond = float(beyond_budgets(cycle, running, ordered).sum())
    fewest = (float(len(victims)), float(cost_of(running, victims, priorities)))
    return (beyond, *fewest) if manner.budgets_first else (*fewest, beyond)


def node_keys(cycle: Cycle, running: RunningTable, victims: Ints, rows: Ints, size: int) -> tuple[Floats, ...]:
    """What Kubernetes compares nodes by, the most telling first, given who must go from each; rows are below `size`.

    Victims beyond a budget, the highest priority, the sum of priorities, their number, and of those with the highest
    priority the one that has run longest: the later it started, the better.
    """
    priority, created = running.priority[victims].astype(np.float64), running.created[victims]
    highest = np.full(size, -np.inf)
    np.maximum.at(highest, rows, priority)
    first = np.full(size, np.inf)
    top = priority == highest[rows]
    np.minimum.at(first, rows[top], created[top])
    beyond = beyond_budgets(cycle, running, victims, rows)
    worse: Floats = np.bincount(rows, weights=beyond, minlength=size).astype(np.float64)
    total: Floats = np.bincount(rows, weights=priority + _FLOOR, minlength=size).astype(np.float64)
    number: Floats = np.bincount(rows, minlength=size).astype(np.float64)
    return worse, highest, total, number, -first
