"""Choose how many tasks each row of a domain takes, at the lowest total cost: an exact knapsack over the rows.

Without multiples, free capacity is used first, and of rows with equal prices only as many as could be needed are
considered, the first by name; so the work follows what is missing, not the size of the cluster. With multiples (each
domain of a tier takes a multiple of a number) there is one knapsack inside the other, from the rows up. Among equal
choices the first parts by name take the most.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from tierwise.actions.eviction.node_costs import NodeCosts
from tierwise.actions.placement.quanta import Quanta
from tierwise.model.arrays import Ints

__all__ = ["at_least", "fewest", "fewest_in_multiples", "rates"]

_NEVER = 2**60
"""The price of what cannot be: two of them still add up inside 64 bits."""


def fewest(prices: NodeCosts, rank: Ints, span: slice, count: int) -> Ints | None:
    """The number of tasks of each row (of all rows of the cluster); None where the span cannot hold so many."""
    rows = np.arange(span.start, span.stop)
    rows = rows[prices.room[rows] > 0]
    free = prices.free[rows]
    missing = count - int(free.sum())
    numbers = np.zeros(len(prices.free), dtype=np.int64)
    if missing <= 0:
        return numbers  # the placement chooses among the free rows
    numbers[rows] = free
    more = prices.room[rows] > free
    rows = rows[more][np.argsort(rank[rows[more]], kind="stable")]
    table = _table(prices, rows, missing)
    kept = _first_of_each(table, missing)
    dealt = _deal([_trimmed(table[:, i]) for i in kept.tolist()], missing)
    if dealt is None:
        return None
    numbers[rows[kept]] += np.array(dealt, dtype=np.int64)
    return numbers


def rates(prices: NodeCosts) -> Ints:
    """What a task beyond what is free costs at least on each row, whatever number of them it takes."""
    rows, most = np.arange(len(prices.free)), len(prices.price) - 1
    table = _table(prices, rows, most)[1:]
    result: Ints = (table // np.arange(1, most + 1)[:, None]).min(axis=0, initial=_NEVER)
    return result


def at_least(prices: NodeCosts, each: Ints, span: slice, count: int) -> int | None:
    """What `fewest` costs at least, given the `rates` of rows; None where the span cannot hold so many."""
    free, room = prices.free[span], prices.room[span]
    missing = count - int(free.sum())
    if int(room.sum()) < count:
        return None
    if missing <= 0:
        return 0
    further = np.repeat(each[span], np.minimum(room - free, missing))
    return int(np.partition(further, missing - 1)[:missing].sum())


def fewest_in_multiples(prices: NodeCosts, domain: int, count: int, quanta: Quanta) -> Ints | None:
    """The same below a domain where tasks come in multiples."""
    return _Nested(prices, quanta, count).deal(domain)


def _table(prices: NodeCosts, rows: Ints, missing: int) -> Ints:
    """The price of each number of tasks beyond what is free, (numbers x rows)."""
    most = min(missing, len(prices.price) - 1)
    numbers = prices.free[rows] + np.arange(most + 1)[:, None]
    there = np.minimum(numbers, len(prices.price) - 1)
    table = prices.price[there, rows]
    table[numbers > prices.room[rows]] = _NEVER
    result: Ints = table
    return result


def _first_of_each(table: Ints, most: int) -> Ints:
    """Of the columns that are equal, the first so many; in their order."""
    if not table.shape[1]:
        return np.zeros(0, dtype=np.int64)
    _, kind = np.unique(table, axis=1, return_inverse=True)
    order = np.argsort(kind.ravel(), kind="stable")
    ranked = kind.ravel()[order]
    turn = np.arange(len(ranked)) - np.searchsorted(ranked, ranked)
    result: Ints = np.sort(order[turn < most])
    return result


def _trimmed(prices: Ints) -> Ints:
    """Without the numbers at the end that cannot be."""
    possible = np.flatnonzero(prices < _NEVER)
    return prices[: int(possible[-1]) + 1] if len(possible) else prices[:0]


def _tables(parts: Sequence[Ints], count: int) -> list[Ints]:
    """For each part, the least price of every number of tasks that it and the parts after it take together."""
    after = np.full(count + 1, _NEVER, dtype=np.int64)
    after[0] = 0
    tables = [after]
    for part in reversed(parts):
        best = np.full(count + 1, _NEVER, dtype=np.int64)
        for number, price in enumerate(part[: count + 1].tolist()):
            if price < _NEVER:
                np.minimum(best[number:], after[: count + 1 - number] + price, out=best[number:])
        after = np.minimum(best, _NEVER)
        tables.append(after)
    return tables[::-1]


def _deal(parts: Sequence[Ints], count: int) -> list[int] | None:
    """The number of each part, the first taking the most among equal choices."""
    tables = _tables(parts, count)
    if tables[0][count] >= _NEVER:
        return None
    return _followed(parts, tables, count)


def _followed(parts: Sequence[Ints], tables: Sequence[Ints], count: int) -> list[int]:
    numbers = []
    for part, table, after in zip(parts, tables, tables[1:], strict=False):
        most = min(count, len(part) - 1)
        totals = part[: most + 1] + after[count - most : count + 1][::-1]
        number = int(np.flatnonzero(totals == table[count])[-1])
        numbers.append(number)
        count -= number
    return numbers


class _Inside(msgspec.Struct, frozen=True):
    """A domain taken apart: its children and its own rows, what each costs, and the least price of all numbers."""

    children: tuple[int, ...]
    rows: tuple[int, ...]
    parts: list[Ints]
    tables: list[Ints]


class _Nested:
    """Knapsacks inside each other: a domain takes what its parts take, in whole multiples."""

    def __init__(self, prices: NodeCosts, quanta: Quanta, count: int) -> None:
        self._prices = prices
        self._tree = quanta.tree
        self._quanta = quanta
        self._count = count
        self._inside: dict[int, _Inside] = {}

    def deal(self, domain: int) -> Ints | None:
        whole = self._take_apart(domain)
        if whole.tables[0][self._count] >= _NEVER:
            return None
        numbers = np.zeros(len(self._prices.free), dtype=np.int64)
        pending = [(domain, self._count)]
        while pending:
            current, count = pending.pop()
            inside = self._inside[current]
            dealt = _followed(inside.parts, inside.tables, count)
            pending += zip(inside.children, dealt, strict=False)
            numbers[list(inside.rows)] = dealt[len(inside.children) :]
        return numbers

    def _take_apart(self, domain: int) -> _Inside:
        topology = self._tree.topology
        children = sorted(topology.children[domain], key=lambda child: int(topology.rank[child]))
        own = topology.own_span(domain)
        direct = own.start + np.flatnonzero(self._prices.room[own] > 0)
        direct = direct[np.argsort(self._tree.rank[direct], kind="stable")]
        parts = [self._of_domain(child) for child in children] + [self._of_row(row) for row in direct.tolist()]
        self._inside[domain] = _Inside(tuple(children), tuple(direct.tolist()), parts, _tables(parts, self._count))
        return self._inside[domain]

    def _of_domain(self, child: int) -> Ints:
        price = self._take_apart(child).tables[0].copy()
        return self._in_steps(price, child)

    def _of_row(self, row: int) -> Ints:
        most = min(self._count, int(self._prices.room[row]))
        price = self._prices.price[: most + 1, row].copy()
        return self._in_steps(price, len(self._tree.topology) + row)

    def _in_steps(self, price: Ints, place: int) -> Ints:
        """Only numbers that make a whole multiple together with what is held."""
        price[(np.arange(len(price)) + self._tree.held[place]) % self._quanta.quantum[place] != 0] = _NEVER
        return _trimmed(price)
