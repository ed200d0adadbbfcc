"""The engine starts a gang of two or three pod sizes exactly when an exact search finds a way to."""

from __future__ import annotations

import random

import pytest
from tests.support.depth import size
from tests.support.draw import Gang, Outcome, allocate
from tests.support.oracle import Puzzle, puzzle_of
from tests.support.reference import Judge
from tests.support.shapes_oracle import random_mixture, tightest

BATCHES, SIZE = size(2, 40), size(28, 100, quick=10)
KINDS = ("one-level", "alike", "bundles", "unlike", "running", "elastic")


@pytest.mark.parametrize("batch", range(BATCHES))
@pytest.mark.parametrize("kind", KINDS)
def test_yes_exactly_when_there_is_a_way(kind: str, batch: int) -> None:
    """No place is missed or invented, what is placed keeps every rule, and a whole gang stands as tightly as it can."""
    wrong = []
    for seed in range(batch * SIZE, (batch + 1) * SIZE):
        instance = random_mixture(random.Random(seed), kind)
        puzzle = puzzle_of(instance.objects)
        if puzzle.ready((0,) * len(puzzle.subs)):
            continue  # it has started already
        outcome = allocate(instance.world, instance.gang)
        judge = Judge(instance.objects, outcome.bindings)
        faults = [*judge.overfull(), *judge.halves(), *judge.too_wide()]
        best = tightest(instance.objects)
        if best is None or not outcome.bindings:
            faults += ["missed" if best is not None else "invented"] * ((best is not None) != bool(outcome.bindings))
        elif kind != "running" and _whole_and_close(instance.gang) and _width(puzzle, outcome) > best:
            faults.append(f"tier {_width(puzzle, outcome)} although tier {best} holds it")
        if faults:
            wrong.append((len(str(instance)), f"{kind} {seed}: {outcome.bindings}, {faults}\n{instance}"))

    assert [] == [text for _, text in sorted(wrong)][:1], len(wrong)


def _whole_and_close(gang: Gang) -> bool:
    """Whether all of a gang starts at once, and as tightly as it can."""
    return gang.minimum is None and (gang.soft or gang.within is not None)


def _width(puzzle: Puzzle, outcome: Outcome) -> int:
    """The tier of the innermost domain that holds what was placed."""
    return min(tier for tier, nodes in puzzle.domains if set(outcome.bindings.values()) <= nodes)
