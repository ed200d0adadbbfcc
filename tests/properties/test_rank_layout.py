"""Ranks are laid out for their pattern as well as rows allow: few edges are cut, and groups are narrow."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from tests.support.depth import size
from tests.support.grids import drawn_racks, narrowest
from tests.support.split_optimum import tree_of
from tests.support.strategies import trees

from tierwise.api.pattern import Pattern
from tierwise.model.arrays import Ints
from tierwise.model.ranks import crossing, laid_out, spreads
from tierwise.model.topology import Topology

Stand = tuple[Topology, Ints, Pattern]


@st.composite
def _stands(draw: DrawFn, grid: bool) -> Stand:
    """Rows of a tree, some of them several times, as many as a grid has places."""
    topology = tree_of(draw(trees()))
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)) if grid else [draw(st.integers(1, 16))]
    number = int(np.prod(sizes))
    rows = draw(st.lists(st.integers(0, len(topology.leaf) - 1), min_size=number, max_size=number))
    names = tuple(zip(("a", "b", "c"), sizes, strict=False))
    return topology, np.array(rows, dtype=np.int64), Pattern("grid", names) if grid else Pattern("ring")


@given(_stands(grid=True))
def test_a_layout_is_a_permutation(stand: Stand) -> None:
    """Every rank gets one of the rows, each used as often as it was given, in whatever order."""
    topology, rows, pattern = stand
    found = laid_out(topology, rows, pattern)

    assert sorted(rows.tolist()) == sorted(found.tolist())
    assert found.tolist() == laid_out(topology, rows[::-1], pattern).tolist()


@given(_stands(grid=False))
def test_a_ring_is_cut_as_seldom_as_possible(stand: Stand) -> None:
    """On every tier, as many edges are cut as domains are touched, and none where it is one: no ring can do better."""
    topology, rows, pattern = stand
    found = laid_out(topology, rows, pattern)

    for tier in topology.at_tier:
        touched = {topology.highest(leaf, tier) or -1 - leaf for leaf in topology.leaf[rows].tolist()}
        inside = {0 if tier == topology.tier[0] else d for d in touched}
        assert crossing(topology, found, pattern, tier) == (len(inside) if len(inside) > 1 else 0)


@given(_stands(grid=True))
def test_no_group_is_wider_than_in_the_order_of_the_tree(stand: Stand) -> None:
    """On nodes, then on leaves, the widest group of the innermost dimension, then how many groups are cut."""
    topology, rows, pattern = stand
    found = laid_out(topology, rows, pattern)

    assert _widest(topology, found, pattern) <= _widest(topology, np.sort(rows), pattern)


def _widest(topology: Topology, rows: Ints, pattern: Pattern) -> list[int]:
    size = pattern.factors[0] if pattern.factors else 1
    return [number for where in (rows, topology.leaf[rows]) for number in _widths(where.reshape(-1, size))]


def _widths(groups: Ints) -> tuple[int, int]:
    widths = [len(set(group)) for group in groups.tolist()]
    return max(widths), sum(width > 1 for width in widths)


@pytest.mark.parametrize("seed", range(size(12, 300, quick=5)))
def test_the_widest_group_is_as_narrow_as_can_be(seed: int) -> None:
    """Drawn racks beside an exact solver: the widest group is at most one rack wider, and mostly as narrow."""
    drawn = drawn_racks(seed)
    found = laid_out(drawn.topology, drawn.rows, drawn.pattern)
    widest, _ = _widths(drawn.topology.leaf[found].reshape(-1, drawn.pattern.factors[0]))

    assert widest - narrowest(drawn)[0] in (0, 1)


def test_the_widest_group_counts_before_the_number_of_cut_ones() -> None:
    """Racks with 6, 5 and 5 rows: one block of four in three racks, or two of them in two racks each."""
    topology = tree_of("s0[r0[n0..5] r1[n6..10] r2[n11..15]]")
    found = laid_out(topology, np.arange(16), Pattern("grid", (("dp", 4), ("tp", 4))))

    assert (2, 2) == _widths(topology.leaf[found].reshape(4, 4))


def test_racks_are_ordered_so_that_few_blocks_are_cut() -> None:
    """Racks with 5, 4 and 3 rows: behind each other they cut two blocks of four, and with the last first one."""
    topology = tree_of("s0[r0[n0..4] r1[n5..8] r2[n9..11]]")
    rows, grid = np.arange(12), Pattern("grid", (("dp", 3), ("tp", 4)))
    leaves = [topology.leaf[order].reshape(3, 4) for order in (rows, laid_out(topology, rows, grid))]

    assert [(2, 2), (2, 1)] == [_widths(groups) for groups in leaves]


def test_volumes_say_which_groups_are_near() -> None:
    """Two racks of two: with the larger volume between dp ranks these share a rack, and pp ranks do not."""
    topology = tree_of("s0[r0[n0 n1] r1[n2 n3]]")
    sizes = (("dp", 2), ("pp", 2))
    given = [laid_out(topology, np.arange(4), Pattern("grid", sizes, volumes)) for volumes in ((1, 9), (9, 1))]

    assert [[("dp", 2, 2), ("pp", 1, 0)], [("dp", 1, 0), ("pp", 2, 2)]] == [
        spreads(topology, rows, Pattern("grid", sizes)) for rows in given
    ]
