"""No gang stays half while a place exists: binds fail and answers get lost at every step, processes die, pods go."""

from __future__ import annotations

from itertools import count, islice

import pytest
from tests.support.depth import size
from tests.support.half_gangs import FAULTS, LANGUAGES, ShakyWorld, drawn

from tierwise.port import key_of
from tierwise.scheduler.partial_gangs import PATIENCE

WORLDS = size(3, 40, quick=2)
STEPS = 7


def _turn_and_check(world: ShakyWorld) -> int:
    """A turn in which nothing goes wrong; how many gangs it found half.

    Each of them that had room beside its pods is whole afterwards, or another one that was half took it.
    """
    half = {name: world.rooms(name) for name in world.half()}
    missing = {name: world.gangs[name].size - len(world.standing(name)) for name in half}
    world.turn()
    now = set(world.half())
    mended = [name for name in half if name not in now]
    for name in now & half.keys():
        left = len(half[name]) - sum(missing[other] for other in mended if set(half[other]) & set(half[name]))
        assert left < missing[name], f"{name} is half, and {half[name]} were free"
    return len(half)


def _settle(world: ShakyWorld) -> int:
    """Turns until all times have run out; how many half gangs they saw. None that was never whole is half then."""
    world.heal()
    seen = sum(_turn_and_check(world) for _ in range(3))
    for _ in range(3):
        world.turn(after=PATIENCE + 1)
    return seen + sum(_turn_and_check(world) for _ in range(2))


@pytest.mark.parametrize("racks", [False, True])
@pytest.mark.parametrize("fault", FAULTS)
def test_no_gang_stays_half_whatever_fails(fault: str, racks: bool) -> None:
    """At each bind something goes wrong while older gangs come: what is half is mended, or released after its time."""
    seen = 0
    for seed in range(WORLDS):
        for step in range(STEPS):
            _, first, older = drawn(seed)
            world = ShakyWorld("volcano", first, racks=racks)
            world.crash_after({step: fault, step + 2: FAULTS[(step + seed) % 4]}, most=(None, 1, 3)[step % 3])
            world.turn()
            world.join(*older)
            for _ in range(step % 2):
                seen += len(world.half())
                world.turn()
            seen += _settle(world)
            assert [] == world.half()

    assert seen >= WORLDS * 3


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_gang_stays_half_in_any_language(language: str) -> None:
    """The same wherever the gang is written, with every kind of fault."""
    seen = 0
    every = zip(count(), [*range(STEPS)] * len(FAULTS), [*FAULTS] * STEPS, strict=False)
    for seed, step, fault in islice(every, size(12, STEPS * len(FAULTS), quick=6)):
        _, first, older = drawn(seed % WORLDS)
        world = ShakyWorld(language, first)
        world.crash_after({step: fault})
        world.turn()
        world.join(*older)
        seen += _settle(world)
        assert [] == world.half()

    assert seen >= 3


@pytest.mark.parametrize("language", LANGUAGES)
def test_lost_pods_are_replaced_before_older_gangs_start(language: str) -> None:
    """One pod after the other is evicted while older gangs come: its gang gets its room back at once."""
    seen = 0
    for seed in range(2 * WORLDS):
        chance, first, older = drawn(seed)
        world = ShakyWorld(language, first)
        world.turn()
        for late in older:
            stands = [pod for gang in first for pod in world.pods(gang.name) if pod.spec.node_name]
            if stands:
                world.cluster.lose(key_of(chance.choice(stands)))
            world.join(late)
            seen += _turn_and_check(world)

    assert seen >= WORLDS


@pytest.mark.parametrize("fault", FAULTS)
def test_best_effort_gangs_do_not_stay_half(fault: str) -> None:
    """Pods that ask for nothing are bound and mended like all others."""
    seen = 0
    for step in range(STEPS):
        _, first, older = drawn(step)
        world = ShakyWorld("volcano", [type(g)(g.name, g.size, g.age, asks=False) for g in first])
        world.crash_after({step: fault})
        world.turn()
        world.join(*older)
        seen += len(world.half())
        world.heal()
        world.turn()
        assert [] == world.half()

    assert seen >= 2
