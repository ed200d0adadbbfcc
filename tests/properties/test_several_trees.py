"""Tasks on several trees: whatever is found keeps every limit, and what exists is found."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.depth import examples
from tests.support.several_trees import Group, Scope, fits_somehow, kept, problem

from tierwise.actions.placement.cells import Cells
from tierwise.actions.placement.problem import Budget, Limit
from tierwise.actions.placement.program import No, Program, Question, Unit
from tierwise.actions.placement.program import Scope as ProgramScope
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


def _counted(scopes: list[Scope], parts: list[Group], room: Ints) -> list[list[int]] | None:
    """Rows of each group, part by part, by cells; None where these say that there are none."""
    cells = Cells(problem(scopes, parts), room, np.arange(len(room)))
    ways = cells.solutions(Budget(10**6, StepAccount()), 10**6)
    chosen = next(ways, None) is not None
    dealt = cells.deal() if chosen else None
    assert not cells.bounded
    if dealt is None:
        assert not chosen, "what was chosen fits"
        return None
    rows: dict[int, list[list[int]]] = {}
    for leaves, placed, _ in dealt:
        (_, part) = leaves[0].kind or ("", -1)
        assert isinstance(part, int)
        need = parts[part].need
        rows.setdefault(part, []).extend(placed[i * need : (i + 1) * need].tolist() for i in range(len(leaves)))
    return [group for part in range(len(parts)) for group in rows[part]]


def _solved(scopes: list[Scope], parts: list[Group], room: Ints) -> list[list[int]] | None:
    """Rows of each group, part by part, by the integer program; None where it proves that there are none."""
    used = {0, *(number for part in parts for number in (part.scope, scopes[part.scope].parent))}
    stated = [_in_program(s) if i in used else ProgramScope(s.parent) for i, s in enumerate(scopes)]
    units = tuple(Unit(part.scope, ((0, -1, part.need),), part.need, part.need, copies=part.copies) for part in parts)
    nothing, one = np.zeros((1, 0), dtype=np.int64), np.zeros((0, len(room)), dtype=np.int64)
    asked = tuple(scope for scope in stated if scope is not None)
    question = Question((0,), nothing, one, room[None], np.arange(len(room)), asked, units)
    dealt = None if len(asked) < len(stated) else Program(question, firm=True).solve(1000)
    assert dealt is not No.UNKNOWN
    return [rows.tolist() for copies in dealt for (rows,) in copies] if isinstance(dealt, list) else None


def _in_program(scope: Scope) -> ProgramScope | None:
    """A scope in the words of the program; None where what stands is in no one domain."""
    places, spreads = [], []
    for limit in scope.limits:
        own, held = limit.domain_of_row, np.unique(limit.domain_of_row[scope.held])
        if limit.spread:
            held = held[held >= 0]
            spreads.append((np.where(np.isin(own, held), -1, own), limit.spread - len(held)))
        elif len(held) > 1 or -1 in held:
            return None
        else:
            places.append(np.where(own == held[0], own, -1) if len(held) else own)
    place = None
    if places:
        place = np.unique(np.stack(places), axis=1, return_inverse=True)[1].ravel()
        place[(np.stack(places) < 0).any(axis=0)] = -1
    return ProgramScope(scope.parent, place, tuple(spreads))


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
    """Cells and the integer program agree with writing out every way, on every small question."""
    scopes, parts, room = question
    groups = [part for part in parts for _ in range(part.copies)]
    spreads = any(limit.spread for scope in scopes for limit in scope.limits)
    possible = fits_somehow(scopes, parts, room.tolist())
    for search in (_solved,) if spreads else (_solved, _counted):
        found = search(scopes, parts, room)

        assert possible is (found is not None)
        if found is not None:
            assert kept(scopes, groups, found)
            assert [group.need for group in groups] == [len(rows) for rows in found]
            assert (np.bincount(np.concatenate([_rows(*rows) for rows in found]), minlength=ROWS) <= room).all()
