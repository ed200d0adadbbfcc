"""Nested gangs on two fabrics, with whatever rules between pods may say, start exactly when some order of pods does."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from tests.support.depth import size
from tests.support.draw import World, allocate
from tests.support.wide_gangs import Instance, about_itself, drawn, order_decides, possible, startable

from tierwise.model.job import Verdict

BATCHES, SIZE = size(4, 40), size(60, 500, quick=15)


@pytest.mark.parametrize("batch", range(BATCHES))
def test_starts_exactly_when_there_is_a_way(batch: int) -> None:
    """Nothing is missed but of the kinds of decision 0375, nothing is made up, and never is told where it is true."""
    seen = Counter[str]()
    wrong = []
    for seed in range(batch * SIZE, (batch + 1) * SIZE):
        instance = drawn(random.Random(f"wide {seed}"))
        fault = _fault(instance, seen)
        if fault:
            wrong.append((len(str(instance)), f"{seed}: {fault}\n{instance}"))

    assert [] == [text for _, text in sorted(wrong)][:1], len(wrong)
    assert seen["starts"] > SIZE // 10, seen
    assert seen["never"] > SIZE // 20, seen


@pytest.mark.parametrize(
    "seed",
    [
        1663,  # two alike parts of a group whose rack they share, beside a spread over feeds
        1946,  # a group beyond the minimum, in a gang that has to stay in one domain of a second tree
        2103,
        2709,
    ],
)
def test_no_domain_is_left(seed: int) -> None:
    """Neither by alike parts of a group that has one domain for all of them, nor by groups beyond the minimum."""
    assert not _fault(drawn(random.Random(f"wide {seed}")), Counter())


def _fault(instance: Instance, seen: Counter[str]) -> str:
    outcome = allocate(World(tuple(instance.manifests()), ""))
    if outcome.bindings:
        seen["starts"] += 1
        return "" if possible(instance, outcome.bindings) else f"made up {outcome.bindings}"
    rejection = outcome.report.rejections.get("default/g")
    told = rejection is not None and rejection.verdict is Verdict.NEVER
    seen["never"] += told
    greedy = order_decides(instance)
    if startable(instance) and not greedy:
        return f"missed: {rejection}"
    ever = startable(instance, cleared=True)
    if told and ever:
        return f"a false never: {rejection}"
    if not (told or ever or greedy) and about_itself(instance):
        return f"a never that is not told: {rejection}"
    return ""
