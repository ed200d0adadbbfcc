"""Pods are evicted for gangs with rules between pods exactly where some choice of victims makes room."""

from __future__ import annotations

import random
from itertools import combinations

import pytest
from msgspec.structs import replace
from tests.support.depth import size
from tests.support.draw import allocate
from tests.support.ruled_gangs import Instance, drawn, startable
from tests.support.ruled_victims import crowded, important, victims

from tierwise.config.profile import DEFAULT

BATCHES, SIZE = size(2, 40), size(60, 250, quick=20)
MOST = 6


@pytest.mark.parametrize("batch", range(BATCHES))
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("action", ["gangpreempt", "jobpreempt"])
def test_victims_go_exactly_where_that_makes_room(batch: int, packed: bool, action: str) -> None:
    """No plan is missed, nobody goes for nothing, and nobody goes where idle room does."""
    profile = replace(DEFAULT, actions=("enqueue", "allocate", action))
    wrong = []
    for seed in range(batch * SIZE, (batch + 1) * SIZE):
        chance = random.Random(f"evictions {seed}")
        instance = crowded(chance, drawn(chance, packed=packed))
        if len(instance.standing) <= MOST:
            outcome = allocate(victims(instance), important(instance), profile=profile)
            went, should = bool(outcome.report.evictions), not startable(instance) and _some_plan(instance)
            if went != should:
                wrong.append((len(str(instance)), f"{seed}: {'missed' if should else 'needless'}\n{instance}"))

    assert [] == [text for _, text in sorted(wrong)][:1], len(wrong)


def _some_plan(instance: Instance) -> bool:
    """Whether the gang could start if some of the pods were gone, whichever these are."""
    every = instance.standing
    return any(
        startable(replace(instance, standing=staying))
        for number in range(len(every))
        for staying in combinations(every, number)
    )
