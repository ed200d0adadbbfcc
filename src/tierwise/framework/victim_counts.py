"""Which of an ordered list of victims may be evicted, where each eviction reduces what its accounts hold for the next.

Shared by the victim filters that count (proportion, capacity, drf): cumulative sums instead of one step per victim.
Pure functions over arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from tierwise.model.arrays import Bools, Ints

__all__ = ["sums_before", "who_goes"]


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


def who_goes(holdings: Ints, requests: Ints, accounts: Ints, may_lose: MayLose, bundles: Ints | None = None) -> Bools:
    """Decide victims in order, each against what its accounts hold by then; accepted victims are subtracted from them.

    `holdings` is (resources x accounts), `requests` (resources x n); `accounts` is (levels x n): the accounts that
    lose the victim, all different, and -1 for unused levels. One account may be at different levels for different
    victims. A victim is accepted if all of its accounts may lose it, and all of its bundle go with it; the numbers in
    `bundles` ascend, and without them each victim is one of its own.
    """
    goes = np.zeros(requests.shape[1], dtype=bool)
    holdings = holdings.copy()
    bundles = np.arange(len(goes)) if bundles is None else bundles - bundles.min(initial=0)
    crowd = _crowds(accounts, holdings.shape[1], bundles)
    within = _lost_before(requests, accounts, bundles)
    undecided = np.arange(len(goes))
    while len(undecided):
        alone = _allowed(holdings, accounts, may_lose, undecided, within[:, undecided])
        undecided = undecided[_all_of_them(alone, bundles[undecided])]  # the others never can
        fine = _allowed(
            holdings, accounts, may_lose, undecided, _lost_before(requests[:, undecided], accounts[:, undecided])
        )
        refused = (~fine).astype(np.int64)[None, :]
        before = (refused + sums_before(refused, crowd[undecided]))[
            0
        ] == 0  # all those before, where it matters, go too
        certain = _all_of_them(before, bundles[undecided])
        going = undecided[certain]
        undecided = undecided[~certain]
        goes[going] = True
        for level in accounts:
            concerned = going[level[going] >= 0]
            np.subtract.at(holdings.T, level[concerned], requests[:, concerned].T)
    return goes


def _all_of_them(flags: Bools, bundles: Ints) -> Bools:
    """Whether a flag is true for all of a victim's bundle."""
    missing = np.zeros(int(bundles.max(initial=0)) + 1, dtype=bool)
    missing[bundles[~flags]] = True
    return ~missing[bundles]


def _crowds(accounts: Ints, count: int, bundles: Ints) -> Ints:
    """Numbers such that victims with different ones share neither account nor bundle, directly or through others."""
    accounts = np.concatenate((count + bundles[None, :], accounts))
    label = np.arange(count + int(bundles.max(initial=0)) + 1)
    changed = True
    while changed:
        before = label.copy()
        for accounts_of_level, accounts_of_next in pairwise(accounts):
            both = (accounts_of_level >= 0) & (accounts_of_next >= 0)
            smallest = np.minimum(label[accounts_of_level[both]], label[accounts_of_next[both]])
            np.minimum.at(label, accounts_of_level[both], smallest)
            np.minimum.at(label, accounts_of_next[both], smallest)
        changed = not np.array_equal(before, label)
    result: Ints = label[accounts[0]]
    return result


def _lost_before(requests: Ints, accounts: Ints, bundles: Ints | None = None) -> Ints:
    """What each victim's accounts lose to the preceding victims (of its bundle) if these all go.

    (resources x victims x levels)
    """
    levels, count = accounts.shape
    if bundles is not None:
        accounts = accounts + bundles * (int(accounts.max(initial=0)) + 2)
    entries = sums_before(np.repeat(requests, levels, axis=1), accounts.T.ravel())  # victim by victim, all its levels
    return entries.reshape(len(requests), count, levels)


def _allowed(holdings: Ints, accounts: Ints, may_lose: MayLose, undecided: Ints, lost: Ints) -> Bools:
    """Which of `undecided` may be evicted after `lost` was subtracted from current holdings."""
    result = np.ones(len(undecided), dtype=bool)
    for level, row in enumerate(accounts):
        has_account = np.flatnonzero(row[undecided] >= 0)
        if not len(has_account):
            continue
        victims = undecided[has_account]
        holding = holdings[:, row[victims]] - lost[:, has_account, level]
        result[has_account] &= may_lose(level, holding, row[victims], victims)
    return result
