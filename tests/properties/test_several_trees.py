"""Tasks on several trees: whatever is found keeps every limit, and what exists is found."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.depth import examples
from tests.support.several_trees import Group, Scope, fits_somehow, kept, problem

from tierwise.actions.placement.cells import Cells
from tierwise.actions.placement.problem import Budget, Limit
from tierwise.framework.steps import StepAccount
from tierwise.model.arrays import Ints

ROWS = 6


def _rows(*numbers: int) -> Ints:
    return np.array(numbers, dtype=np.int64)


@st.composite
def _limits(draw: st.DrawFn) -> tuple[Limit, ...]:
    """None, one or two limits; two are on two trees with nothing in common."""
    domains = st.lists(st.integers(-1, 2), min_size=ROWS, max_size=ROWS).map(lambda found: _rows(*found))
    limit = st.builds(Limit, domains, st.sampled_from([0, 0, 0, 2, 3]))
    return tuple(draw(st.lists(limit, max_size=2)))


@st.composite
def questions(draw: st.DrawFn) -> tuple[list[Scope], list[Group], Ints]:
    """A job of a few tasks on a few rows: nested or flat, with and without tasks that stand already."""
    room = _rows(*draw(st.lists(st.integers(0, 2), min_size=ROWS, max_size=ROWS)))
    held = st.one_of(st.just(_rows()), st.integers(0, ROWS - 1).map(_rows))
    scopes = [Scope(-1, draw(_limits()), draw(held))]
    if draw(st.booleans()):
        scopes.append(Scope(0, draw(_limits()), _rows()))
    outer = len(scopes)
    parts = []
    for _ in range(draw(st.integers(1, 3))):
        own = draw(_limits())
        spread = any(limit.spread for limit in own)
        stands = draw(held) if draw(st.integers(0, 5)) == 0 else _rows()
        copies = 1 if spread or len(stands) else draw(st.integers(1, 2))
        parts.append(Group(len(scopes), draw(st.integers(1, 2)), copies))
        scopes.append(Scope(draw(st.integers(0, outer - 1)), own, stands))
    return scopes, parts, room


def _found(scopes: list[Scope], parts: list[Group], room: Ints) -> list[list[int]] | None:
    """Rows of each group, part by part; None where the search says that there are none."""
    cells = Cells(problem(scopes, parts), room, np.arange(len(room)))
    budget = Budget(10**6, StepAccount())
    ways = cells.solutions(budget, 10**6)
    dealt = next((found for _ in ways if (found := cells.deal()) is not None), None)
    assert not cells.bounded
    if dealt is None:
        return None
    rows: dict[int, list[list[int]]] = {}
    for leaves, placed, _ in dealt:
        (_, part) = leaves[0].kind or ("", -1)
        assert isinstance(part, int)
        need = parts[part].need
        rows.setdefault(part, []).extend(placed[i * need : (i + 1) * need].tolist() for i in range(len(leaves)))
    return [group for part in range(len(parts)) for group in rows[part]]


@examples(150)
@given(questions())
@example(  # two groups on two trees that cross: the first must leave the row that the second needs
    (
        [
            Scope(-1, (), _rows()),
            Scope(0, (Limit(_rows(0, 0, 1, 1, -1, -1)),), _rows()),
            Scope(0, (Limit(_rows(-1, 0, 0, -1, -1, -1)),), _rows()),
        ],
        [Group(1, 1), Group(2, 2)],
        _rows(1, 1, 1, 0, 0, 0),
    )
)
@example(  # nodes outside of a tree are no domain of it
    (
        [Scope(-1, (Limit(_rows(-1, -1, -1, -1, -1, -1)),), _rows()), Scope(0, (), _rows())],
        [Group(1, 2)],
        _rows(1, 1, 0, 0, 0, 0),
    )
)
@example(  # three groups in a ring: the third finds its place only if the first makes way
    (
        [
            Scope(-1, (), _rows()),
            Scope(0, (Limit(_rows(0, 0, -1, -1, -1, -1)),), _rows()),
            Scope(0, (Limit(_rows(0, -1, 0, -1, -1, -1)),), _rows()),
            Scope(0, (Limit(_rows(-1, 0, 0, -1, -1, -1)),), _rows()),
        ],
        [Group(1, 1), Group(2, 1), Group(3, 1)],
        _rows(1, 1, 1, 0, 0, 0),
    )
)
@example(  # a task that stands on one feed and a new one on the other are on two
    (
        [Scope(-1, (Limit(_rows(0, 0, 0, 1, 1, 1), 2),), _rows(0)), Scope(0, (), _rows())],
        [Group(1, 1)],
        _rows(0, 0, 0, 1, 0, 0),
    )
)
def test_what_exists_is_found_and_what_is_found_keeps_every_limit(
    question: tuple[list[Scope], list[Group], Ints],
) -> None:
    """The search agrees with writing out every way, on every small question."""
    scopes, parts, room = question
    groups = [part for part in parts for _ in range(part.copies)]
    found = _found(scopes, parts, room)

    assert fits_somehow(scopes, parts, room.tolist()) is (found is not None)
    if found is not None:
        assert kept(scopes, groups, found)
        assert [group.need for group in groups] == [len(rows) for rows in found]
        assert (np.bincount(np.concatenate([_rows(*rows) for rows in found]), minlength=ROWS) <= room).all()
