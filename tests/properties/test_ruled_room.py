"""Rules between pods bound what domains take: by counting as much, or more, as by placing pod by pod."""

from __future__ import annotations

from functools import partial
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from tests.support.depth import examples, seeds, size
from tests.support.draw import allocate
from tests.support.ruled_gangs import drawn

from tierwise.actions.placement.bounds import Room
from tierwise.actions.placement.ruled_room import RuledRoom
from tierwise.framework.ledger import Pool
from tierwise.framework.pod_rules import AtMost, Even, Near, PodRule, PodRules
from tierwise.framework.steps import StepAccount
from tierwise.model.arrays import Ints
from tierwise.model.job import plain_shape
from tierwise.model.topology import Topology

SHAPE = plain_shape(0, np.array([1]), namespace="default")
OWN = frozenset({0})


def counted(room: Ints, rules: tuple[PodRule, ...], start: Ints, end: Ints, need: int) -> list[int]:
    """How many tasks each domain takes by counting."""
    topology: Any = SimpleNamespace(start=start, end=end)
    topology.totals = partial(Topology.totals, topology)
    fits = SimpleNamespace(rows=lambda _: room, domains=lambda _: topology.totals(room))
    cycle: Any = SimpleNamespace(
        topology=topology, fit_counts=SimpleNamespace(of=lambda _: fits), steps=StepAccount(), nodes=room
    )
    ruled = RuledRoom(cycle, Pool.IDLE, PodRules(records=rules))
    found: list[int] = ruled.held(SHAPE, np.arange(len(start)), need).tolist()
    return found


def reached(room: Ints, rules: tuple[PodRule, ...], first: int, end: int, need: int) -> int:
    """How many tasks can be placed on the rows of a domain, one after the other, where each is let."""
    nothing = (0,) * len(room)
    seen, stack, most = {nothing}, [nothing], 0
    while stack:
        taken = stack.pop()
        most = max(most, sum(taken))
        for row in range(first, end) if sum(taken) < need else ():
            after = (*taken[:row], taken[row] + 1, *taken[row + 1 :])
            if after not in seen and after[row] <= room[row] and all(lets(rule, taken, row) for rule in rules):
                seen.add(after)
                stack.append(after)
    return most


def lets(rule: PodRule, taken: tuple[int, ...], row: int) -> bool:
    """Whether one more task may stand on a row, as a filter says it."""
    place = int(rule.places[row])
    if isinstance(rule, AtMost):
        here = sum(n for n, other in zip(taken, rule.places.tolist(), strict=True) if other == place)
        return place < 0 or bool(here < rule.left)
    if isinstance(rule, Near):
        places = {int(other) for n, other in zip(taken, rule.places, strict=True) if n}
        return place >= 0 and (bool(rule.there[place]) or place in places or (rule.found and not places))
    assert isinstance(rule, Even)
    value = rule.there.copy()
    for number, other, counts in zip(taken, rule.places, rule.among, strict=True):
        value[other] += number if counts else 0
    lowest = 0 if rule.few or not len(rule.compared) else value[rule.compared].min()
    return bool(value[place] + 1 <= rule.above + lowest)


def drawn_rule(chance: Random, rows: int) -> PodRule:
    """A rule over up to three places, of which some nodes may have none."""
    kind, number = chance.choice((AtMost, Near, Even, Even, Even)), chance.randint(1, 3)
    places = np.array([chance.randrange(number) for _ in range(rows)])
    if kind is Even:
        among = np.array([chance.random() < 0.9 for _ in range(rows)])
        compared = np.flatnonzero(np.bincount(places[among], minlength=number))
        there = np.array([chance.choice((0, 0, 1, 2)) for _ in range(number)])
        return Even(OWN, OWN, places, among, there, compared, chance.randint(1, 2), chance.random() < 0.1)
    places[[chance.random() < 0.1 for _ in range(rows)]] = -1
    if kind is AtMost:
        return AtMost(OWN, places, chance.randint(0, 2))
    there = np.array([chance.random() < 0.3 for _ in range(number)])
    places[[chance.random() < 0.1 for _ in range(rows)]] = -1
    return Near(OWN, frozenset(), places, there, found=not there.any())


@given(seeds())
@examples(600)
def test_counts_never_say_too_little(chance: Random) -> None:
    """One rule alone is counted exactly, up to pods that a spread does not count; several are a bound."""
    rows = chance.randint(1, 5)
    room = np.array([chance.randint(0, 2) for _ in range(rows)])
    rules = tuple(drawn_rule(chance, rows) for _ in range(chance.choice((1, 1, 1, 2))))
    for rule in rules:
        room[rule.places < 0] *= isinstance(rule, AtMost)  # such rows are closed
    spans = [(first, end) for first in range(rows) for end in range(first + 1, rows + 1)]
    start, end = np.array(spans).T
    need = chance.randint(1, 5)
    found = counted(room, rules, start, end, need)
    truly = [reached(room, rules, first, last, need) for first, last in spans]

    assert all(bound >= most for bound, most in zip(found, truly, strict=True)), (found, truly, rules)
    if len(rules) == 1 and (not isinstance(rules[0], Even) or rules[0].among.all()):
        assert [bound >= need for bound in found] == [most >= need for most in truly], rules


def test_a_spread_over_racks_rules_out_every_rack() -> None:
    """With a hundred empty racks, one task goes to each: a domain of three racks takes three."""
    places = np.arange(200) // 2
    even = Even(OWN, OWN, places, np.ones(200, dtype=bool), np.zeros(100, dtype=np.int64), np.arange(100), 1, few=False)
    start, end = np.array([0, 0, 10]), np.array([2, 6, 200])

    assert counted(np.full(200, 5), (even,), start, end, 8) == [1, 3, 8]


@pytest.mark.parametrize("batch", range(size(2, 40)))
@pytest.mark.parametrize("packed", [False, True])
def test_decisions_are_those_of_trials_alone(batch: int, packed: bool) -> None:
    """Trying every domain that has room starts the same gangs on the same nodes."""
    number = size(60, 250, quick=20)
    for seed in range(batch * number, (batch + 1) * number):
        instance = drawn(Random(f"by counting {seed}"), packed=packed)
        quick = allocate(instance.world(), instance.asked())
        with patch.object(RuledRoom, "held", Room.held):
            slow = allocate(instance.world(), instance.asked())

        assert quick.bindings == slow.bindings, seed
        assert quick.report.rejections.keys() == slow.report.rejections.keys()
        for key, rejection in quick.report.rejections.items():
            assert rejection.verdict is slow.report.rejections[key].verdict, seed
