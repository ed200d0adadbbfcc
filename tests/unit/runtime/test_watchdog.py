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
from tierwise.runtime.watchdog import LEFT_OUT, REMEMBERED, Caught, Memory, Watchdog, blamed, overdue
from tierwise.scheduler import cycle
from tierwise.snapshot.builder import build

OTHERS = tuple(PluginChoice(name) for name in ("gang", "predicates"))
GROUP = Key("scheduling.volcano.sh", "PodGroup", "default", "train")
FOREIGN = Caught(
    "scheduling", action="allocate", plugin="theirs", method="score", about="job a/b", at=100.0, looks=20, share=1.0
)
OWN = Caught(
    "scheduling",
    plugin="predicates",
    method="why_not",
    about="job default/train",
    key=GROUP,
    at=100.0,
    looks=20,
    share=0.9,
)


def _group(namespace: str, name: str) -> Key:
    return Key("scheduling.volcano.sh", "PodGroup", namespace, name)


def _seen(namespace: str, name: str, steps: int = 0) -> Caught:
    """What one look sees."""
    return Caught("scheduling", about=f"job {namespace}/{name}", key=_group(namespace, name), steps=steps)


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
    with Watchdog(begun, ticks=map(float, range(100)).__next__, limit=5.0, caught=note):
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
    assert ("namespace", "default") == caught.culprit
    assert caught.key == GROUP


def test_blamed_is_who_was_seen_most() -> None:
    """By namespace, and of its objects the one that was seen most; who is served in the end has used no time."""
    looks = [*[_seen("evil", "a")] * 4, *[_seen("evil", "b", 900)] * 9, *[_seen("good", "c")] * 3]

    found = blamed(looks)

    assert ("namespace", "evil") == found.culprit
    assert (_group("evil", "b"), 16, 13 / 16, 900) == (found.key, found.looks, found.share, found.steps)
    assert "namespace evil had 81 % of the time, and used 900 steps of search" == found.whose


@pytest.mark.parametrize(
    "looks",
    [
        [*[_seen("a", "x")] * 5, *[_seen("b", "y")] * 5],
        [*[_seen("a", "x")] * 3, *[_seen("b", "y")] * 3, *[_seen("c", "z")] * 2],
        [_seen("a", "x")] * 2,
        [*[_seen("a", "x")] * 3, *[Caught("scheduling")] * 4],
    ],
)
def test_nobody_is_blamed_for_the_time_of_others(looks: list[Caught]) -> None:
    """Without most of the time, and where too little was seen: then nobody is left out, however often it happens."""
    found = blamed(looks)
    memory = Memory()
    for at in (100.0, 200.0, 300.0):
        memory = memory.after(replace(found, at=at))

    assert ("", "") == found.culprit
    assert [] == list(memory.left_out(301.0))


def test_who_is_caught_twice_is_left_out_for_a_while() -> None:
    """Not after the first time, and not for ever; whatever a plugin was asked about."""
    once = Memory().after(FOREIGN)
    twice = once.after(replace(FOREIGN, method="other", about="job c/d", at=200.0))

    assert [] == list(once.left_out(201.0))
    assert [("theirs", 2, LEFT_OUT - 1.0)] == [(one.plugin, n, left) for one, n, left in twice.left_out(201.0)]
    assert [] == list(twice.left_out(200.0 + LEFT_OUT))


def test_it_is_tried_again_and_one_more_catch_is_enough() -> None:
    """What was caught counts for two hours."""
    twice = Memory().after(OWN).after(replace(OWN, at=200.0))
    again = twice.after(replace(OWN, at=250.0 + LEFT_OUT))
    late = twice.after(replace(OWN, at=250.0 + REMEMBERED))

    assert [3] == [times for _, times, _ in again.left_out(260.0 + LEFT_OUT)]
    assert [] == list(late.left_out(260.0 + REMEMBERED))


def test_jobs_of_one_namespace_that_alternate_are_all_left_out() -> None:
    """The namespace is judged: another name each time is no way to stay. Others in between change nothing."""
    memory = Memory()
    for at, namespace, name in ((1.0, "evil", "a"), (2.0, "good", "x"), (3.0, "evil", "b"), (4.0, "other", "y")):
        memory = memory.after(replace(OWN, key=_group(namespace, name), at=at))

    out = {one.key for one, _, _ in memory.left_out(5.0)}

    assert {_group("evil", "a"), _group("evil", "b")} == out


def test_the_list_is_bounded() -> None:
    """Of each culprit, so that none crowds out another, and in all."""
    memory = Memory().after(FOREIGN).after(FOREIGN)
    for i in range(50):
        memory = memory.after(replace(OWN, key=_group("evil", f"j{i}"), at=200.0 + i))

    assert 6 == len(memory.catches)
    assert [2] == [times for one, times, _ in memory.left_out(300.0) if one.foreign]
    for i in range(50):
        memory = memory.after(replace(OWN, key=_group(f"ns-{i}", "j"), at=300.0 + i))
    assert 16 == len(memory.catches)


def test_what_was_caught_is_remembered_as_a_text() -> None:
    """And read back by the next process; what somebody else wrote is nothing."""
    memory = Memory().after(FOREIGN).after(OWN)

    assert memory == Memory.of(memory.text)
    assert [Memory()] * 4 == [Memory.of(text) for text in ("", "{", '[{"stage": 7}]', '{"stage": "scheduling"}')]


@pytest.mark.parametrize(
    ("computing", "expected"),
    [(None, 0.0), (("scheduling", 100.0), 121.0), (("scheduling", 101.0), 0.0)],
)
def test_a_stage_is_overdue_after_its_limit(computing: tuple[str, float] | None, expected: float) -> None:
    """Not while it has time left, and not while nothing is computed."""
    assert expected == overdue(computing, 221.0, 120.0)
