"""Gathering by counting says what looking at every distribution says."""

from __future__ import annotations

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from tests.support.depth import examples
from tests.support.draw import draw, objects_of
from tests.support.gather_reference import best_place, boxes, distribution, mixtures
from tests.support.strategies import trees

from tierwise.actions.placement.gather import Mixture
from tierwise.framework.gathering import GatherOption, SlotTree
from tierwise.model.topology import ROOT
from tierwise.snapshot.builder import build

MOST = 5


@st.composite
def grounds(draw_: DrawFn, *, standing: bool = False) -> SlotTree:
    """A small tree of any depth, what its nodes take, and who stands there."""
    world = draw(draw_(trees(deepest=3)), node="cpu=1")
    snapshot = build(objects_of(world), now=0.0)
    nodes = len(snapshot.nodes)
    assume(nodes <= MOST)

    def per_row(most: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return np.array(draw_(st.lists(st.integers(0, most), min_size=nodes, max_size=nodes)), dtype=np.int64)

    nothing = np.zeros(nodes, dtype=np.int64)
    held = per_row(2) if standing else nothing
    return SlotTree(snapshot.topology, snapshot.nodes.rank, per_row(2), per_row(1), held)


@st.composite
def ways(draw_: DrawFn) -> GatherOption:
    """One domain of some tier, with multiples in up to two of them."""
    tiers = st.integers(0, 5)
    multiples = draw_(st.dictionaries(tiers, st.sampled_from((2, 3, 4)), max_size=2))
    return GatherOption(
        draw_(tiers), tuple(multiples.items()), tuple(draw_(st.lists(tiers, max_size=2))), by_name=draw_(st.booleans())
    )


@examples(60)
@given(slot_tree=grounds(), option=ways(), count=st.integers(1, 7))
def test_counting_equals_trying_everything(slot_tree: SlotTree, option: GatherOption, count: int) -> None:
    """The place, and how many tasks each node of it takes, are those of the plain rule."""
    _compare(slot_tree, option, count)


@examples(35)
@given(slot_tree=grounds(standing=True), option=ways(), count=st.integers(1, 5))
def test_what_stands_already_counts_towards_the_multiples(
    slot_tree: SlotTree, option: GatherOption, count: int
) -> None:
    """Late tasks make broken multiples whole again, near those that stand."""
    _compare(slot_tree, option, count)


@examples(35)
@given(slot_tree=grounds(), lower=st.integers(1, 3), size=st.integers(2, 3), number=st.integers(1, 2))
def test_pipelines_stay_together(slot_tree: SlotTree, lower: int, size: int, number: int) -> None:
    """Each run of ranks stands in one domain of the lower tier, and no node is overfilled."""
    widest = int(slot_tree.topology.tier[ROOT])
    found = slot_tree.find(GatherOption(widest, ((lower, size),), pipeline=size, by_name=True), size * number)
    rows = found.rows if found is not None else np.zeros(0, dtype=np.int64)

    box = boxes(slot_tree, lower)
    runs = [rows[i : i + size].tolist() for i in range(0, len(rows), size)]
    assert all(len({box[row] for row in run}) == 1 for run in runs)
    assert (np.bincount(rows, minlength=len(slot_tree.room)) <= slot_tree.room).all()


@examples(30)
@given(slot_tree=grounds(standing=True), option=ways(), count=st.integers(1, 6))
def test_the_most_is_what_the_best_domain_takes(slot_tree: SlotTree, option: GatherOption, count: int) -> None:
    """As many as may join, and not one more."""
    fitting = [n for n in range(1, count + 1) if best_place(slot_tree, option, n) is not None]

    assert max(fitting, default=0) == slot_tree.most(option, count)


def _compare(slot_tree: SlotTree, option: GatherOption, count: int) -> None:
    expected = best_place(slot_tree, option, count)

    found = slot_tree.find(option, count)

    assert (expected is None) == (found is None)
    if expected is not None and found is not None:
        numbers = np.bincount(found.rows, minlength=len(slot_tree.room)).tolist()
        assert list(distribution(slot_tree, option, expected, count)) == numbers


@examples(60)
@given(
    slot_tree=st.booleans().flatmap(lambda standing: grounds(standing=standing)),
    option=ways(),
    counts=st.tuples(st.integers(1, 3), st.integers(1, 2)),
    data=st.data(),
)
def test_mixtures_are_found_where_there_are_any(
    slot_tree: SlotTree, option: GatherOption, counts: tuple[int, int], data: st.DataObject
) -> None:
    """Tasks of two sizes: whatever is found is a solution, and nothing is found where there is none."""
    rows = len(slot_tree.room)
    free = data.draw(st.lists(st.integers(0, 4), min_size=rows, max_size=rows))
    requests, open_to = np.array([[1], [2]]), np.ones((2, rows), dtype=bool)
    found = Mixture(slot_tree, counts, requests, np.array([free]), open_to=open_to).find(option, iter)
    solutions = list(mixtures(slot_tree, option, free, counts))

    assert (found is not None) == bool(solutions)
    if found is not None:
        numbers = np.zeros(rows, dtype=np.int64)
        numbers[found.rows] = found.numbers.sum(axis=1)
        assert counts == tuple(found.numbers.sum(axis=0).tolist())
        assert (found.numbers @ requests[:, 0] <= np.array(free)[found.rows]).all()
        assert numbers.tolist() in [dealt for _, dealt in solutions]
