"""The integer program says yes exactly when CP-SAT does, and what it deals out keeps to the question."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest
from msgspec.structs import replace
from tests.support.depth import size

from tierwise.actions.placement.program import Dealt, No, Program, Question, Scope, Unit, Wanted
from tierwise.explain.second_solver import solvable
from tierwise.framework.pod_rules import Apart, AtMost, Charged, Even, Near, PodRule
from tierwise.model.arrays import Ints

BATCHES, SIZE = size(2, 60), size(60, 200, quick=20)


@pytest.mark.parametrize("batch", range(BATCHES))
def test_yes_exactly_when_the_oracle_says_so(batch: int) -> None:
    """Rooms, sub-groups in places of their own, and each kind of rule between pods."""
    answers: Counter[bool] = Counter()
    for seed in range(batch * SIZE, (batch + 1) * SIZE):
        question = _drawn(random.Random(seed))
        dealt = Program(question, firm=True).solve(1000)
        assert dealt is not No.UNKNOWN, seed
        found = isinstance(dealt, list)
        answers[found] += 1

        assert found == solvable(question), seed
        if isinstance(dealt, list):
            _holds(question, dealt)
    assert min(answers[True], answers[False]) > SIZE // 10, answers


@pytest.mark.parametrize("batch", range(BATCHES))
def test_choices_are_the_same_to_both(batch: int) -> None:
    """Some of the units or parts, minimums of roles, and tasks in several domains."""
    answers: Counter[bool] = Counter()
    for seed in range(batch * SIZE, (batch + 1) * SIZE):
        chance = random.Random(f"choices {seed}")
        question = _with_choices(chance, _drawn(chance))
        dealt = Program(question, firm=True).solve(1000)
        assert dealt is not No.UNKNOWN, seed
        answers[isinstance(dealt, list)] += 1

        assert isinstance(dealt, list) == solvable(question), seed
    assert min(answers[True], answers[False]) > SIZE // 10, answers


def test_what_is_looser_is_never_stricter() -> None:
    """What the program finds with all that is sure to be kept, it finds without."""
    for seed in range(SIZE):
        question = _drawn(random.Random(seed))
        if isinstance(Program(question, firm=True).solve(1000), list):
            assert isinstance(Program(question, firm=False).solve(1000), list), seed


def test_rounds_end_a_search_and_are_counted() -> None:
    """With as many as it needs the answer is the same; with one there is no other answer than none."""
    counts: Counter[str] = Counter()
    for seed in range(5 * SIZE):
        question = _drawn(random.Random(seed))
        free = Program(question, firm=True)
        found, needed = free.solve(1000), free.rounds
        counts["answered at once"] += needed == 0
        if needed:
            again, short = Program(question, firm=True), Program(question, firm=True)
            assert str(again.solve(1000, needed + 1)) == str(found), seed
            assert again.rounds == needed
            answer = short.solve(1000, 1)
            assert answer is No.UNKNOWN or str(answer) == str(found), seed
            assert short.rounds <= needed, seed
            counts["cut"] += answer is No.UNKNOWN
    assert counts["answered at once"], counts
    assert counts["cut"], counts


def _drawn(chance: random.Random) -> Question:
    shapes, rows = chance.randint(1, 3), chance.randint(1, 6)
    requests = np.array([[chance.randint(1, 3), chance.randint(0, 2)] for _ in range(shapes)])
    free = np.array([[chance.randint(0, 6) for _ in range(rows)] for _ in range(2)])
    room = np.array(
        [
            [
                min(int(free[r, row]) // int(n) for r, n in enumerate(request) if n) * (chance.random() < 0.9)
                for row in range(rows)
            ]
            for request in requests
        ]
    )
    scopes, units = [Scope(-1, _places(chance, rows) if chance.random() < 0.3 else None)], []
    for _ in range(chance.randint(1, 3)):
        scopes.append(Scope(0, _places(chance, rows) if chance.random() < 0.5 else None))
        left = tuple(
            (s, -1, chance.randint(1, 3)) for s in sorted(chance.sample(range(shapes), chance.randint(1, shapes)))
        )
        total = sum(number for _, _, number in left)
        least = chance.randint(1, total)
        copies = chance.choice((1, 1, 2))
        if copies > 1 and len(left) > 1:
            least = total
        most = least if chance.random() < 0.5 else total
        units.append(Unit(len(scopes) - 1, left, least, most, copies=copies))
    records = tuple(_rule(chance, shapes, rows) for _ in range(chance.choice((0, 1, 1, 2))))
    numbers, order = tuple(range(shapes)), np.arange(rows)
    return Question(numbers, requests, free, room, order, tuple(scopes), tuple(units), records=records)


def _with_choices(chance: random.Random, question: Question) -> Question:
    """The same where some of its units are enough, or those of some parts, with roles, and over several domains."""
    rows = len(question.order)
    scopes = [
        replace(scope, spreads=((_places(chance, rows), chance.choice((1, 2, 2))),)) if chance.random() < 0.4 else scope
        for scope in question.scopes
    ]
    numbers = range(len(question.units))
    units = [
        replace(unit, needed=False, copies=1, left=tuple((s, i % 2, n) for i, (s, _, n) in enumerate(unit.left)))
        for unit in question.units
    ]
    tasks = chance.randint(1, sum(unit.most for unit in units))
    wanted = [
        Wanted(chance.randint(1, len(units)), units=tuple(numbers)),
        Wanted(tasks, units=tuple(numbers), tasks=True, role=chance.choice((None, 0, 1))),
    ]
    parts = chance.choice((0, 1, 2))
    if parts:
        inner: list[tuple[int, ...]] = [tuple(u for u in numbers if u % parts == part) for part in range(parts)]
        each = (Wanted(1, units=some, inside=part) for part, some in enumerate(inner))
        wanted = [Wanted(chance.randint(1, parts), parts=tuple(range(parts))), *each]
        for part, some in enumerate(inner):
            scopes += [replace(scopes[units[u].scope], part=part) for u in some[:1] if chance.random() < 0.5]
    return replace(question, scopes=tuple(scopes), units=tuple(units), wanted=tuple(wanted), parts=parts)


def _places(chance: random.Random, rows: int) -> Ints:
    if chance.random() < 0.3:
        return np.arange(rows)
    return np.array([chance.choice((-1, 0, 0, 1, 2)) for _ in range(rows)])


def _rule(chance: random.Random, shapes: int, rows: int) -> PodRule:
    places = _places(chance, rows)
    some = frozenset(chance.sample(range(shapes), chance.randint(1, shapes)))
    others = frozenset(chance.sample(range(shapes), chance.randint(0, shapes))) - some
    there = np.array([chance.choice((0, 0, 1, 2)) for _ in range(max(rows, 3))])
    kind = chance.randrange(5)
    if kind == 0:
        each = np.array([chance.randint(0, 2) for _ in range(int(places.max(initial=-1)) + 1)])
        return AtMost(some, places, each if len(each) and chance.random() < 0.5 else chance.randint(0, 2))
    if kind == 4:
        charges = {shape: np.array([chance.randint(0, 3) for _ in range(rows)]) for shape in some}
        return Charged(charges, places, np.array([chance.randint(0, 8) for _ in range(max(rows, 3))]))
    if kind == 1:
        return Apart(some, others, places)
    if kind == 2:
        return Near(some, others, places, there > 1, chance.random() < 0.7)
    compared = np.unique(places[places >= 0])
    among = np.array([chance.random() < 0.9 for _ in range(rows)]) & (places >= 0)
    counted = some | others if chance.random() < 0.7 else others
    return Even(some, counted, places, among, there, compared, chance.randint(1, 2), chance.random() < 0.1)


def _holds(question: Question, dealt: Dealt) -> None:
    """What is dealt out takes no more than there is, and each copy stays in its places."""
    used = np.zeros_like(question.room)
    for unit, copies in zip(question.units, dealt, strict=True):
        assert len(copies) == unit.copies
        for copy in copies:
            total = sum(map(len, copy))
            assert unit.least <= total <= unit.most
            for (shape, _, left), rows in zip(unit.left, copy, strict=True):
                assert len(rows) <= left
                np.add.at(used[shape], rows, 1)
            everywhere, scope = np.concatenate(copy), unit.scope
            while scope >= 0:
                place = question.scopes[scope].place
                if place is not None:
                    assert len(np.unique(place[everywhere])) == 1
                    assert (place[everywhere] >= 0).all()
                scope = question.scopes[scope].parent
    assert (used <= question.room).all()
    assert (question.requests.T @ used <= question.free).all()
