"""A cycle that does not end: who was asked about what is read from the stack, remembered, and left out in the end."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from msgspec.structs import replace
from tests.support.draw import draw, gang, objects_of
from tests.support.faulty import faulty

from tierwise.config.profile import DEFAULT, PluginChoice
from tierwise.framework.extension import Ask
from tierwise.plugins import PLUGINS
from tierwise.port import Key
from tierwise.runtime.watchdog import LEFT_OUT, Caught, Recollection, Watchdog, overdue, recalled
from tierwise.scheduler import cycle
from tierwise.snapshot.builder import build

OTHERS = tuple(PluginChoice(name) for name in ("gang", "predicates"))
GROUP = Key("scheduling.volcano.sh", "PodGroup", "default", "train")
FOREIGN = Caught("scheduling", action="allocate", plugin="theirs", method="score", about="job a/b", at=100.0)
OWN = Caught("scheduling", plugin="predicates", method="why_not", about="job default/train", key=GROUP, at=100.0)


def _caught(name: str) -> Caught:
    """What a watchdog says of a cycle that a plugin of this name keeps until it is caught."""
    found: list[Caught] = []
    entered, seen = threading.Event(), threading.Event()

    def keep(ask: Ask, span: slice, fits: object) -> object:
        entered.set()
        assert seen.wait(60)
        return np.zeros(span.stop - span.start)

    def note(caught: Caught, _: float) -> None:
        found.append(caught)
        seen.set()

    profile = replace(DEFAULT, tiers=((PluginChoice(name),), OTHERS))
    snapshot = build(objects_of(draw("r0[n0 n1]"), gang("train", tasks=2, each="cpu=1")), now=0.0)
    begun = lambda: ("scheduling", 0.0) if entered.is_set() else None  # noqa: E731 - a name for a function
    with Watchdog(begun, ticks=lambda: 99.0, limit=0.5, caught=note):
        cycle(snapshot, profile, plugins={**PLUGINS, name: faulty("score", keep)})
    return found[0]


def test_the_stack_says_who_was_asked_about_what() -> None:
    """Plugin and method, action, and the job in question."""
    caught = _caught("theirs")

    assert ("theirs", "allocate", "job default/train") == (caught.plugin, caught.action, caught.about)
    assert caught.foreign
    assert "plugin theirs" in caught.said


def test_a_plugin_of_our_own_points_at_the_object() -> None:
    """Pods would be bound against its rules without it: the job goes, and not the plugin."""
    caught = _caught("binpack")

    assert not caught.foreign
    assert ("object", str(GROUP)) == caught.culprit


@pytest.mark.parametrize(
    ("before", "times"),
    [
        (None, 1),
        (FOREIGN, 2),
        (replace(FOREIGN, method="other", about="job c/d", times=2), 3),
        (replace(FOREIGN, plugin="another"), 1),
        (OWN, 1),
    ],
)
def test_catches_count_in_a_row(before: Caught | None, times: int) -> None:
    """The same plugin again, whatever it was asked about; another one begins anew."""
    assert times == FOREIGN.after(before).times


def test_who_is_caught_twice_is_left_out_for_a_while() -> None:
    """Not after the first time, and not for ever; where nobody is known there is nobody to leave out."""
    twice = FOREIGN.after(FOREIGN)
    nobody = Caught("scheduling", at=100.0)

    assert [0.0, LEFT_OUT - 1.0] == [FOREIGN.left_out(101.0), twice.left_out(101.0)]
    assert [1.0, 0.0] == [twice.left_out(99.0 + LEFT_OUT), twice.left_out(100.0 + LEFT_OUT)]
    assert OWN.after(OWN).left_out(101.0)
    assert not nobody.after(nobody).left_out(101.0)


@pytest.mark.parametrize("caught", [FOREIGN, OWN.after(OWN)])
def test_what_was_caught_is_remembered_as_a_text(caught: Caught) -> None:
    """And read back by the next process; what somebody else wrote is nothing."""
    assert caught == recalled(caught.text)
    assert [None, None, None] == [recalled(""), recalled("{"), recalled('{"stage": 7}')]


def test_one_catch_is_forgotten_after_a_good_cycle() -> None:
    """It was no rule."""
    memory = Recollection()
    memory.recall(FOREIGN.text)

    assert [True, False] == [memory.forgets(101.0), memory.forgets(102.0)]
    assert memory.before is None


@pytest.mark.parametrize("caught", [FOREIGN.after(FOREIGN), OWN.after(OWN)])
def test_who_was_left_out_is_forgotten_after_a_good_cycle_with_it(caught: Caught) -> None:
    """Cycles without it prove nothing: until one with it has ended, one more catch is enough."""
    memory = Recollection()
    memory.recall(caught.text)
    over = 100.0 + LEFT_OUT

    assert [False, False] == [memory.forgets(101.0), memory.forgets(over - 1.0)]
    assert not memory.forgets(over)  # it began before the hour was over
    assert caught.after(memory.before).left_out(101.0)
    assert memory.forgets(over + 1.0)


@pytest.mark.parametrize(
    ("computing", "expected"),
    [(None, 0.0), (("scheduling", 100.0), 121.0), (("scheduling", 101.0), 0.0)],
)
def test_a_stage_is_overdue_after_its_limit(computing: tuple[str, float] | None, expected: float) -> None:
    """Not while it has time left, and not while nothing is computed."""
    assert expected == overdue(computing, 221.0, 120.0)
