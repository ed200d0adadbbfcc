"""Gangs with rules between pods start exactly when some order of placing their pods exists."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from msgspec.structs import replace
from tests.support.depth import size
from tests.support.draw import allocate
from tests.support.ruled_gangs import Instance, drawn, startable

from tierwise.model.job import Verdict

BATCHES, SIZE = size(2, 40), size(60, 250, quick=20)


@pytest.mark.parametrize("batch", range(BATCHES))
@pytest.mark.parametrize("packed", [False, True])
def test_starts_exactly_when_there_is_a_way(batch: int, packed: bool) -> None:
    """No place is missed and none is made up, and no gang that fits a cleared cluster is told never."""
    wrong = []
    for seed in range(batch * SIZE, (batch + 1) * SIZE):
        instance = drawn(random.Random(seed), packed=packed)
        fault = _fault(instance)
        if fault:
            wrong.append((len(str(instance)), f"{seed}: {fault}\n{instance}"))

    assert [] == [text for _, text in sorted(wrong)][:1], len(wrong)


def test_who_does_not_match_its_own_affinity_founds_no_place() -> None:
    """Leaders and workers look for leaders on their host: a worker stands where a leader does, and not by itself."""
    assert not _fault(drawn(random.Random(2670), packed=False))


def test_who_states_a_rule_twice_founds_no_second_place() -> None:
    """Pods that look for each other on their host need one host for all, however often some of them say so."""
    instance = drawn(random.Random(3958), packed=False)

    assert not startable(instance, cleared=True)
    assert allocate(instance.world(), instance.asked()).report.rejections["default/g"].verdict is Verdict.NEVER


def _fault(instance: Instance) -> str:
    outcome = allocate(instance.world(), instance.asked())
    starts = bool(outcome.bindings)
    if starts != startable(instance):
        return f"missed {outcome.report.rejections}" if not starts else f"made up {outcome.bindings}"
    rejection = outcome.report.rejections.get("default/g")
    if (
        rejection is not None
        and not starts
        and rejection.verdict is Verdict.NEVER
        and startable(instance, cleared=True)
    ):
        return f"a false never: {rejection}"
    return ""


@pytest.mark.parametrize("batch", range(BATCHES))
@pytest.mark.parametrize("packed", [False, True])
def test_leaving_a_rule_out_never_makes_a_gang_wait(batch: int, packed: bool) -> None:
    """What starts with a rule starts without it: a rule may only take places away."""
    for seed in range(batch * SIZE, (batch + 1) * SIZE):
        instance = drawn(random.Random(f"a rule less {seed}"), packed=packed)
        if allocate(instance.world(), instance.asked()).bindings:
            for fewer in _with_a_rule_less(instance):
                assert allocate(fewer.world(), fewer.asked()).bindings, f"{seed}\n{instance}\n{fewer}"


def _with_a_rule_less(instance: Instance) -> Iterator[Instance]:
    """The instance without one rule of one kind of pods of its gang, for each of them."""
    for i, (kind, number) in enumerate(instance.gang):
        for rule in kind.rules:
            bare = replace(kind, rules=tuple(other for other in kind.rules if other is not rule))
            yield replace(instance, gang=(*instance.gang[:i], (bare, number), *instance.gang[i + 1 :]))
