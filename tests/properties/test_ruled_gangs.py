"""Gangs with rules between pods start exactly when some order of placing their pods exists."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from msgspec.structs import replace
from tests.support.depth import size
from tests.support.draw import allocate
from tests.support.ruled_gangs import RECORDS, Instance, drawn, drawn_with, order_decides, records, startable

from tierwise.model.job import Verdict

BATCHES, SIZE = size(2, 40), size(60, 250, quick=20)
EACH = size(100, 5000, quick=10)


@pytest.mark.parametrize("batch", range(BATCHES))
@pytest.mark.parametrize("packed", [False, True])
def test_starts_exactly_when_there_is_a_way(batch: int, packed: bool) -> None:
    """No place is missed but of the kinds that decision 0375 lists, none is made up, and no gang that fits a cleared
    cluster is told never.
    """
    wrong = []
    for seed in range(batch * SIZE, (batch + 1) * SIZE):
        instance = drawn(random.Random(seed), packed=packed)
        fault = _fault(instance)
        if fault and not (fault.startswith("missed") and order_decides(instance)):
            wrong.append((len(str(instance)), f"{seed}: {fault}\n{instance}"))

    assert [] == [text for _, text in sorted(wrong)][:1], len(wrong)


@pytest.mark.parametrize("record", RECORDS)
def test_each_record_beside_brute_force(record: str, record_property: Callable[[str, object], None]) -> None:
    """Whatever a rule becomes: no place is missed or made up, and never is told of no gang that fits when cleared.

    Missed may be what only some orders of its pods find (decision 0375), and of these few are.
    """
    seen, wrong = Counter[str](), []
    for seed in range(EACH):
        instance = drawn_with(random.Random(f"{record} {seed}"), record, packed=seed % 2 == 1)
        assert record in records(instance), seed
        seen["starts"] += startable(instance)
        fault = _fault(instance)
        known = fault.startswith("missed") and order_decides(instance)
        seen["known to be missed"] += known
        if fault and not known:
            wrong.append(f"{seed}: {fault}\n{instance}")
    record_property("drawn", f"{EACH} with {record}: {dict(seen)}")

    assert [] == wrong[:1], len(wrong)
    assert seen["starts"] > EACH // 20
    assert seen["known to be missed"] <= EACH // 50


def test_the_first_of_some_pods_leave_room_for_a_role() -> None:
    """What is found with the pods first that others look for is no place where a role is missing in it."""
    assert not _fault(drawn_with(random.Random("apart 1976"), "apart", packed=False))


def test_what_the_solver_cannot_undo_is_solved_as_it_was_stated() -> None:
    """HiGHS 1.14.0 makes the program of this gang simpler, and what it finds does not hold for what it was given."""
    assert not _fault(drawn_with(random.Random("near its own 3924"), "near its own", packed=False))


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
    if startable(instance) and not starts:
        return f"missed {outcome.report.rejections}"
    if starts and not any(startable(more) for more in _with_more_pods(instance)):
        return f"made up {outcome.bindings}"
    rejection = outcome.report.rejections.get("default/g")
    if (
        rejection is not None
        and not starts
        and rejection.verdict is Verdict.NEVER
        and startable(instance, cleared=True)
    ):
        return f"a false never: {rejection}"
    return ""


def _with_more_pods(instance: Instance) -> Iterator[Instance]:
    """The instance with each minimum up to all pods: those of a role may need others beside them."""
    for minimum in range(instance.minimum, sum(number for _, number in instance.gang) + 1):
        yield replace(instance, minimum=minimum)


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
