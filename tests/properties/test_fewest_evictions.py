"""The choice of victims that fall one by one: no other choice has fewer, or cheaper ones."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.support.depth import examples

from tierwise.actions.eviction.by_pod import at_least, fewest, fewest_in_multiples, rates
from tierwise.actions.eviction.node_costs import NodeCosts
from tierwise.actions.placement.slots import Quanta, SlotTree
from tierwise.framework.extension import GatherOption
from tierwise.model.arrays import Ints
from tierwise.model.tree import Declared, build_tree

MOST = 4
DEARER = 1000
"""What one more victim costs, in units of cost."""


@st.composite
def priced(draw: st.DrawFn) -> NodeCosts:
    """A few rows, each with free room, more room, and prices that rise with the number of tasks beyond what is free."""
    rows = draw(st.integers(1, 4))
    free = [draw(st.integers(0, 2)) for _ in range(rows)]
    room = [f + draw(st.integers(0, MOST - 2)) for f in free]
    victims, cost = np.zeros((MOST + 1, rows), dtype=np.int64), np.zeros((MOST + 1, rows), dtype=np.int64)
    for row in range(rows):
        for number in range(free[row] + 1, MOST + 1):
            victims[number, row] = victims[number - 1, row] + draw(st.integers(0, 2))
            cost[number, row] = cost[number - 1, row] + draw(st.integers(0, 2))
    nobody = np.zeros(0, dtype=np.int64)
    gone = np.zeros((MOST + 1, 0), dtype=bool)
    return NodeCosts(np.array(free), np.array(room), victims * DEARER + cost, nobody, nobody, gone, (DEARER, 1))


def priced_at(prices: NodeCosts, numbers: Ints) -> tuple[int, int]:
    """How many go, and what they cost."""
    return divmod(int(prices.price[numbers, np.arange(len(numbers))].sum()), DEARER)


def choices(prices: NodeCosts, count: int) -> Iterator[Ints]:
    """Every way to deal so many tasks."""
    for numbers in product(*(range(int(room) + 1) for room in prices.room)):
        if sum(numbers) == count:
            yield np.array(numbers)


@given(priced(), st.integers(1, 8))
@examples(100)
def test_no_choice_is_cheaper(prices: NodeCosts, count: int) -> None:
    """As many tasks as are asked for, or proof that there is no room."""
    rank, everywhere = np.arange(len(prices.free)), slice(0, len(prices.free))
    found = fewest(prices, rank, everywhere, count)
    least = at_least(prices, rates(prices), everywhere, count)
    best = min((priced_at(prices, numbers) for numbers in choices(prices, count)), default=None)

    if best is None:
        assert found is None
        assert least is None
    elif int(prices.free.sum()) >= count:
        assert found is not None
        assert (0, 0) == best == priced_at(prices, found)
        assert 0 == least
    else:
        assert found is not None
        assert best == priced_at(prices, found)
        assert least is not None
        assert prices.told(least) <= best
        assert count == int(found.sum())
        assert (found <= prices.room).all()


@given(priced(), st.integers(1, 8), st.integers(1, 3), st.integers(1, 2), st.data())
@examples(100)
def test_no_choice_in_multiples_is_cheaper(
    prices: NodeCosts, count: int, block: int, node: int, data: st.DataObject
) -> None:
    """The same where blocks and nodes take tasks in multiples."""
    rows = len(prices.free)
    names = [f"n{i}" for i in range(rows)]
    cut = data.draw(st.integers(0, rows))
    halves = [half for half in (names[:cut], names[cut:]) if half]
    topology, order = build_tree([Declared(f"b{i}", 1, nodes=frozenset(half)) for i, half in enumerate(halves)], names)
    assert list(range(rows)) == list(order)
    nothing = np.zeros(rows, dtype=np.int64)
    tree = SlotTree(topology, np.arange(rows), prices.room, nothing, nothing, np.arange(rows))
    quanta = Quanta(tree, GatherOption(int(topology.tier[0]), ((0, node), (1, block))))
    found = fewest_in_multiples(prices, 0, count, quanta)
    allowed = [
        numbers
        for numbers in choices(prices, count)
        if (numbers % node == 0).all() and all(numbers[_rows(half)].sum() % np.lcm(block, node) == 0 for half in halves)
    ]
    best = min((priced_at(prices, numbers) for numbers in allowed), default=None)

    assert (best is None) == (found is None)
    if found is not None:
        assert best == priced_at(prices, found)
        assert any((found == numbers).all() for numbers in allowed)


def _rows(names: list[str]) -> list[int]:
    return [int(name[1:]) for name in names]


@given(priced(), st.integers(1, 8))
def test_the_first_by_name_take_the_most(prices: NodeCosts, count: int) -> None:
    """Of equal choices the one that comes first: more tasks on earlier rows."""
    found = fewest(prices, np.arange(len(prices.free)), slice(0, len(prices.free)), count)
    if found is None or int(prices.free.sum()) >= count:
        return
    equal = [
        n
        for n in choices(prices, count)
        if priced_at(prices, n) == priced_at(prices, found) and (n >= prices.free).all()
    ]
    assert max(tuple(n.tolist()) for n in equal) == tuple(found.tolist())
