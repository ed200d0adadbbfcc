"""The one fuzzer in every run: a few hundred cycles, everything drawn, and every broken rule noticed."""

from __future__ import annotations

import secrets
import subprocess
import sys
from collections.abc import Callable
from random import Random

import pytest
from tests.fuzz.broken import ROOT, breaks
from tests.fuzz.drawn_world import LANGUAGES, NOT_DRAWN_KEYS, NOT_DRAWN_KINDS, Manifest, World
from tests.fuzz.fuzz_everything import Total, configuration, fuzz, history, ruled
from tests.support.depth import DEEP, ROTATION, size

from tierwise.api import codec
from tierwise.api.own_keys import own_keys
from tierwise.config.actions import ACTIONS

WORLDS = 150
"""Drawn to see what is drawn; nothing is scheduled in them."""
LEAST = {
    "evictions": 5,
    "reclaims": 1,
    "repairs": 1,
    "nominations": 5,
    "half_gangs": 10,
    "ruled_cycles": 100,
    "ruled_later": 50,
    "restarts": 5,
    "read_anew": 8,
    "quiet_cycles": 100,
}
"""What histories must have seen, how often."""
PARTS = 2
"""In so many processes rules are broken, a part of the list in each."""


@pytest.mark.parametrize("part", range(size(4, 8)))
def test_histories_without_fault(part: int, record_property: Callable[[str, object], None]) -> None:
    """No rule is broken in the histories of this rotation, and they saw what the rules are about.

    A deep run has 100,000 cycles, other ones each time; it says from which seed on, and what they saw.
    """
    first = secrets.randbelow(10**9) if DEEP else Random(f"{ROTATION} {part}").randrange(10**6)
    total = fuzz(cycles=size(400, 12_500, quick=75), seed=first, least=LEAST)
    if DEEP:
        record_property("drawn", f"histories from seed {first} on: {vars(total.seen)}")

    assert [] == [str(fault) for fault in total.faults]
    assert {} == total.seen.lacks(LEAST)


def test_histories_with_windows_without_fault() -> None:
    """Nodes are closed for a time and open again; nobody is bound to one while it is closed."""
    total = Total()
    for seed in range(8):
        history(seed, total, ("windows",))

    assert [] == [str(fault) for fault in total.faults]
    assert total.seen.binds > 0


def test_the_fuzzer_draws_every_kind_key_and_action() -> None:
    """A new kind of object, annotation or action that no world has must be drawn, or be listed with a reason."""
    kinds, keys, actions = set[tuple[str, str]](), set[str](), set[str]()
    for seed in range(WORLDS):
        pick = Random(seed)
        world = World(pick)
        actions.update(configuration(pick, world.has).get("actions", "").split(", "))
        drawn = world.cluster()
        for language in LANGUAGES:
            drawn += world.gang(language, low=True)
        for raw in drawn:
            kinds.add((codec.api_group(raw["apiVersion"]), raw["kind"]))
            marks = {**(raw["metadata"].get("labels") or {}), **(raw["metadata"].get("annotations") or {})}
            keys.update(key for key in marks if key in own_keys())

    assert set(codec.KINDS) == kinds | set(NOT_DRAWN_KINDS)
    assert set() == kinds & set(NOT_DRAWN_KINDS)
    assert set(own_keys()) == keys | {f"tierwise.io/{name}" for name in NOT_DRAWN_KEYS}
    assert set(ACTIONS) <= actions


def test_half_of_all_worlds_have_rules_between_pods() -> None:
    """And in half of those such pods stand when others come: the first wave of gangs has them."""
    waiting, standing = 0, 0
    for seed in range(WORLDS):
        pick = Random(seed)
        world = World(pick)
        world.cluster()
        first, later = (_has_ruled(world.arrivals(6, low=low)) for low in (True, False))
        waiting += first or later
        standing += first

    assert 2 * waiting >= WORLDS
    assert 2 * standing >= waiting


def _has_ruled(manifests: list[Manifest]) -> bool:
    jobs = (raw["spec"]["tasks"] for raw in manifests if raw["kind"] == "Job")
    templates = [{"kind": "Pod", **task["template"]} for tasks in jobs for task in tasks]
    return any(map(ruled, (*manifests, *templates)))


@pytest.mark.parametrize("part", range(1, PARTS + 1))
def test_every_broken_rule_is_noticed(part: int) -> None:
    """The fuzzer shows each break with the fault that names the rule; what it says of each is printed."""
    command = [sys.executable, "-m", "tests.fuzz.broken", "--part", f"{part}/{PARTS}"]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    lines = told.stdout.splitlines()

    assert (0, []) == (told.returncode, [line for line in lines if "NOT NOTICED" in line]), told.stderr[-2000:]
    assert len(breaks()[part - 1 :: PARTS]) == len(lines) - 1


def test_a_fault_is_minimised_to_what_it_needs() -> None:
    """Objects that have nothing to do with a fault are left out of its file."""
    broken = next(one for one in breaks() if one.name == "cordoned nodes are open")
    command = [sys.executable, "-m", "tests.fuzz.broken", broken.name, "--objects"]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    before, after = map(int, told.stdout.split()[-2:])

    assert 3 * after < before
