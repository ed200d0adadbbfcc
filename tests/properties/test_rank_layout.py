"""Ranks are laid out for their pattern as well as the rows allow: edges and blocks are cut as seldom as can be."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from tests.support.split_optimum import tree_of
from tests.support.strategies import trees

from tierwise.api.pattern import Pattern
from tierwise.model.arrays import Ints
from tierwise.model.ranks import crossing, laid_out
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
def test_domains_hold_as_many_whole_blocks_as_they_can(stand: Stand) -> None:
    """Of the innermost dimension every domain, and every node, holds as many whole blocks as it has rows for."""
    topology, rows, pattern = stand
    block = pattern.factors[0] if pattern.factors else 1
    found = laid_out(topology, rows, pattern).reshape(-1, block)

    for start, end in zip(topology.start.tolist(), topology.end.tolist(), strict=True):
        inside = (found >= start) & (found < end)
        assert int(inside.all(axis=1).sum()) == int(inside.sum()) // block
    for row in set(rows.tolist()):
        assert int((found == row).all(axis=1).sum()) == int((rows == row).sum()) // block


@given(_stands(grid=True))
def test_blocks_of_blocks_are_whole_too(stand: Stand) -> None:
    """Of two inner dimensions together, domains hold as many whole blocks as they have whole ones of the innermost."""
    topology, rows, pattern = stand
    if len(pattern.factors) == 2:
        inner, outer = pattern.factors
        found = laid_out(topology, rows, pattern).reshape(-1, outer, inner)
        for start, end in zip(topology.start.tolist(), topology.end.tolist(), strict=True):
            inside = ((found >= start) & (found < end)).all(axis=2)
            assert int(inside.all(axis=1).sum()) == int(inside.sum()) // outer


def test_a_grid_beats_consecutive_ranks() -> None:
    """Racks with 6, 5 and 5 rows: consecutive blocks of four would be cut twice, and need be cut once."""
    topology = tree_of("s0[r0[n0..5] r1[n6..10] r2[n11..15]]")
    rows, grid = np.arange(16), Pattern("grid", (("dp", 4), ("tp", 4)))
    blocks = [topology.leaf[order].reshape(4, 4) for order in (rows, laid_out(topology, rows, grid))]

    assert [2, 1] == [sum(len(set(block)) > 1 for block in leaves.tolist()) for leaves in blocks]
