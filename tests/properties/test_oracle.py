"""The engine starts a gang of one pod class exactly when an exact search finds a way to."""

from __future__ import annotations

import random

import pytest
from tests.support.depth import size
from tests.support.draw import allocate
from tests.support.oracle import feasible, puzzle_of, random_instance, solvable
from tests.support.reference import Judge

BATCHES, SIZE = size(3, 40), size(60, 250, quick=20)
KINDS = ("one-level", "alike", "unlike", "running", "elastic")


@pytest.mark.parametrize("batch", range(BATCHES))
@pytest.mark.parametrize("kind", KINDS)
def test_yes_exactly_when_there_is_a_way(kind: str, batch: int) -> None:
    """Neither a place is missed nor one invented, and what is placed keeps every rule."""
    wrong = []
    for seed in range(batch * SIZE, (batch + 1) * SIZE):
        instance = random_instance(random.Random(seed), kind)
        puzzle = puzzle_of(instance.objects)
        if puzzle.ready((0,) * len(puzzle.subs)):
            continue  # it has started already
        bindings = allocate(instance.world, instance.gang).bindings
        judge = Judge(instance.objects, bindings)
        faults = [*judge.overfull(), *judge.halves(), *judge.too_wide()]
        if feasible(puzzle) != bool(bindings) or faults:
            wrong.append((len(str(instance)), f"{kind} {seed}: placed {bindings}, {faults}\n{instance}"))

    assert [] == [text for _, text in sorted(wrong)][:1]


@pytest.mark.parametrize("kind", KINDS)
def test_the_oracle_agrees_with_a_solver(kind: str) -> None:
    """Counting per domain says the same as tasks on single nodes."""
    puzzles = [puzzle_of(random_instance(random.Random(seed), kind).objects) for seed in range(1000, 1015)]

    assert [solvable(puzzle) for puzzle in puzzles] == [feasible(puzzle) for puzzle in puzzles]
