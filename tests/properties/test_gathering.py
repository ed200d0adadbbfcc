"""Gathering by counting says what looking at every distribution says."""

from __future__ import annotations

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from msgspec.structs import replace
from tests.support.depth import examples
from tests.support.draw import draw, gang, objects_of, role
from tests.support.gather_reference import best_place, boxes, distribution, mixtures
from tests.support.strategies import trees

from tierwise.actions.placement.program import Program, Question, Scope, Unit
from tierwise.actions.placement.slots import Quanta, SlotTree, gathering_on
from tierwise.config.profile import DEFAULT
from tierwise.explain.second_solver import solvable
from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import GatherOption
from tierwise.model.topology import ROOT
from tierwise.scheduler import open_cycle
from tierwise.snapshot.builder import build

MOST = 5


@st.composite
def cycles(draw_: DrawFn) -> Cycle:
    """A small tree of any depth, nodes of four slots, and a gang of tasks that take one and two of them."""
    world = draw(draw_(trees(deepest=3)), node="cpu=4 pods=9")
    two_sizes = gang("g", roles=(role("one", 3, each="cpu=1"), role("two", 2, each="cpu=2")))
    cycle = open_cycle(build(objects_of(world, two_sizes), now=0.0), DEFAULT)
    assume(len(cycle.nodes) <= MOST)
    return cycle


@st.composite
def grounds(draw_: DrawFn, *, standing: bool = False, cycle: Cycle | None = None) -> SlotTree:
    """A small tree of any depth, what its nodes take, and who stands there."""
    snapshot = (draw_(cycles()) if cycle is None else cycle).snapshot
    nodes = len(snapshot.nodes)

    def per_row(most: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return np.array(draw_(st.lists(st.integers(0, most), min_size=nodes, max_size=nodes)), dtype=np.int64)

    nothing = np.zeros(nodes, dtype=np.int64)
    held = per_row(2) if standing else nothing
    return SlotTree(snapshot.topology, snapshot.nodes.rank, per_row(2), per_row(1), held, np.arange(nodes))


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
    option = GatherOption(widest, ((lower, size),), pipeline=size, by_name=True)
    rows = next(Quanta(slot_tree, option).each(size * number), np.zeros(0, dtype=np.int64))

    box = boxes(slot_tree, lower)
    runs = [rows[i : i + size].tolist() for i in range(0, len(rows), size)]
    assert all(len({box[row] for row in run}) == 1 for run in runs)
    assert (np.bincount(rows, minlength=len(slot_tree.room)) <= slot_tree.room).all()


@examples(30)
@given(slot_tree=grounds(standing=True), option=ways(), count=st.integers(1, 6))
def test_the_most_is_what_the_best_domain_takes(slot_tree: SlotTree, option: GatherOption, count: int) -> None:
    """As many as may join, and not one more."""
    fitting = [n for n in range(1, count + 1) if best_place(slot_tree, option, n) is not None]

    assert max(fitting, default=0) == Quanta(slot_tree, option).most(count)


def _compare(slot_tree: SlotTree, option: GatherOption, count: int) -> None:
    expected = best_place(slot_tree, option, count)

    found = next(Quanta(slot_tree, option).each(count), None)

    assert (expected is None) == (found is None)
    if expected is not None and found is not None:
        numbers = np.bincount(found, minlength=len(slot_tree.room)).tolist()
        assert list(distribution(slot_tree, option, expected, count)) == numbers


@examples(60)
@given(
    cycle=cycles(),
    option=ways(),
    counts=st.tuples(st.integers(1, 3), st.integers(1, 2)),
    standing=st.booleans(),
    data=st.data(),
)
def test_mixtures_are_found_where_there_are_any(
    cycle: Cycle, option: GatherOption, counts: tuple[int, int], standing: bool, data: st.DataObject
) -> None:
    """Tasks of two sizes: what the program finds is a solution, and it finds one where there is one."""
    slot_tree = data.draw(grounds(standing=standing, cycle=cycle))
    rows = len(slot_tree.room)
    free = data.draw(st.lists(st.integers(0, 4), min_size=rows, max_size=rows))
    room = np.stack((np.minimum(free, counts[0]), np.minimum(np.array(free) // 2, counts[1])))
    slot_tree = replace(slot_tree, room=room.sum(axis=0))
    gathering = gathering_on(cycle, slot_tree, option, sum(counts))
    unit = Unit(0, ((0, -1, counts[0]), (1, -1, counts[1])), sum(counts), sum(counts))
    question = Question(
        numbers=(0, 1),
        requests=np.array([[1], [2]]),
        free=np.array([free]),
        room=room,
        order=np.arange(rows),
        scopes=(Scope(-1, gathering.homes),),
        units=(unit,),
        multiples=gathering.multiples,
    )
    dealt = Program(question, firm=True).solve(1000)
    solutions = list(mixtures(slot_tree, option, free, counts))

    assert bool(solutions) == isinstance(dealt, list) == solvable(question)
    if isinstance(dealt, list):
        mixes = np.stack([np.bincount(tasks, minlength=rows) for tasks in dealt[0][0]], axis=1)
        assert counts == tuple(mixes.sum(axis=0).tolist())
        assert (mixes @ [1, 2] <= free).all()
        assert mixes.sum(axis=1).tolist() in [numbers for _, numbers in solutions]
