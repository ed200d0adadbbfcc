"""Which of an ordered list of victims may be evicted, where each eviction reduces what its accounts hold for the next.

Shared by the victim filters that count (proportion, capacity, drf): cumulative sums instead of one step per victim.
Pure functions over arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from tierwise.model.arrays import Bools, Ints

__all__ = ["MayLose", "sums_before", "who_goes"]


MayLose = Callable[[int, Ints, Ints, Ints], Bools]
"""Whether an account may lose a victim, given what it holds at that moment: (level, held, accounts, victims).

Called for many victims at once: `held` is (resources x k), `accounts` and `victims` give the account and the victim of
each column, `level` is their row in `who_goes`' accounts. It must be monotone: a no at some holding is a no at every
smaller one, so a rejected victim need not be asked about again.
"""


def sums_before(amounts: Ints, groups: Ints) -> Ints:
    """Per column of `amounts` (resources x n), the sum of the preceding columns of its group."""
    order = np.argsort(groups, kind="stable")
    ranked = groups[order]
    ordered = amounts[:, order]
    before = np.cumsum(ordered, axis=1) - ordered
    before -= before[:, np.searchsorted(ranked, ranked)]
    result = np.empty_like(amounts)
    result[:, order] = before
    return result


def who_goes(holdings: Ints, requests: Ints, accounts: Ints, may_lose: MayLose) -> Bools:
    """Decide victims in order, each against what its accounts hold by then; accepted victims are subtracted from them.

    `holdings` is (resources x accounts), `requests` (resources x n); `accounts` is (levels x n): the accounts that
    lose the victim, all different, and -1 for unused levels. One account may be at different levels for different
    victims. A victim is accepted if all of its accounts may lose it.
    """
    goes = np.zeros(requests.shape[1], dtype=bool)
    holdings = holdings.copy()
    crowd = _crowds(accounts, holdings.shape[1])
    left = np.arange(requests.shape[1])
    while len(left):
        left = left[_allowed(holdings, accounts, may_lose, left, None)]  # the others never can
        fine = _allowed(holdings, accounts, may_lose, left, _lost_before(requests[:, left], accounts[:, left]))
        refused = (~fine).astype(np.int64)[None, :]
        certain = (refused + sums_before(refused, crowd[left]))[0] == 0  # all those before, where it matters, go too
        going, left = left[certain], left[~certain]
        goes[going] = True
        for level in accounts:
            concerned = going[level[going] >= 0]
            np.subtract.at(holdings.T, level[concerned], requests[:, concerned].T)
    return goes


def _crowds(accounts: Ints, count: int) -> Ints:
    """Numbers such that victims with different ones share no account, neither directly nor through others."""
    label = np.arange(count + 1)  # the last one for those that have no account
    changed = True
    while changed:
        before = label.copy()
        for one, other in pairwise(accounts):
            both = (one >= 0) & (other >= 0)
            least = np.minimum(label[one[both]], label[other[both]])
            np.minimum.at(label, one[both], least)
            np.minimum.at(label, other[both], least)
        changed = not np.array_equal(before, label)
    result: Ints = label[accounts.max(axis=0, initial=-1)]
    return result


def _lost_before(requests: Ints, accounts: Ints) -> Ints:
    """What each victim's accounts lose to the preceding victims if these all go, (resources x victims x levels)."""
    levels, count = accounts.shape
    entries = sums_before(np.repeat(requests, levels, axis=1), accounts.T.ravel())  # victim by victim, all its levels
    return entries.reshape(len(requests), count, levels)


def _allowed(holdings: Ints, accounts: Ints, may_lose: MayLose, left: Ints, lost: Ints | None) -> Bools:
    """Which of `left` may be evicted, with current holdings or after `lost` was subtracted."""
    result = np.ones(len(left), dtype=bool)
    for level, row in enumerate(accounts):
        there = np.flatnonzero(row[left] >= 0)
        if not len(there):
            continue
        victims = left[there]
        held = holdings[:, row[victims]]
        if lost is not None:
            held = held - lost[:, there, level]
        result[there] &= may_lose(level, held, row[victims], victims)
    return result
