"""The guard by a clock that the test moves: who is set aside, for how long, and what is left of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.contract.manifests import node, pod, pod_group
from tests.support.manifests import queue

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.api.core import Pod
from tierwise.port import Key, Objects
from tierwise.scheduler.guard import Crash, Guard

EVIL = Key("", "Pod", "default", "evil")


class _Stage:
    """A stage that some objects make raise; it remembers which pods it was shown."""

    def __init__(self, *names: str) -> None:
        self._names = set(names)
        self.shown: list[str] = []

    def __call__(self, objects: Objects) -> int:
        self.shown = [key.name for key in objects]
        if self._names & set(self.shown):
            raise ValueError("of no use")
        return len(self.shown)


class _Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def _objects(*manifests: Raw) -> Objects:
    return Objects.of((codec.decode(m), m) for m in manifests)


def _pods(*names: str) -> Objects:
    return _objects(*(pod(name) for name in names))


def test_pauses_double_up_to_half_an_hour() -> None:
    """Thirty seconds, a minute, two; never more than half an hour, and over at their very end."""
    clock, crashes, pauses = _Clock(), list[Crash](), list[float]()
    guard, stage, objects = Guard(clock, crashes.append), _Stage("evil"), _pods("evil", "good")
    for _ in range(12):
        begun = clock.now
        assert 1 == guard.run("test", objects, stage)
        while EVIL not in guard.over(objects):
            clock.now += 29.5
            assert EVIL not in guard.over(objects)
            clock.now += 0.5
        pauses.append(clock.now - begun)

    assert [30.0, 60.0, 120.0, 240.0, 480.0, 960.0, *[1800.0] * 6] == pauses
    assert list(range(1, 13)) == [crash.times for crash in crashes]


def test_all_culprits_go_in_one_run() -> None:
    """Several objects that make a stage raise are found one after the other, and everybody else is served."""
    guard = Guard(_Clock())
    evil = [f"evil{i}" for i in range(20)]

    assert 3 == guard.run("test", _pods("a", *evil, "b", "c"), _Stage(*evil))
    assert set(evil) == {crash.key.name for crash in guard.crashes if crash.key is not None}


def test_tenants_are_suspected_before_the_cluster() -> None:
    """Where two objects only together make a stage raise, the one that anybody may create is set aside."""

    def stage(objects: Objects) -> int:
        kinds = {key.kind for key in objects}
        if {"Queue", "Pod"} <= kinds or {"Queue", "PodGroup"} <= kinds:
            raise ValueError("they do not go together")
        return len(kinds)

    guard = Guard(_Clock())
    guard.run("test", _objects(pod("p0"), pod_group("g"), queue("q")), stage)

    assert {"PodGroup", "Pod"} == {crash.key.kind for crash in guard.crashes if crash.key is not None}


def test_pod_of_which_even_the_room_cannot_be_read_is_left_out() -> None:
    """First it is read as what takes up room on its node; where that raises as well, the stage runs without it."""
    clock = _Clock()
    guard, stage = Guard(clock), _Stage("evil")

    assert 1 == guard.run("test", _objects(node("n0"), pod("evil", on="n0")), stage)
    assert ["n0"] == stage.shown


def test_what_takes_up_room_is_all_that_is_left_of_a_running_pod() -> None:
    """Its node and its requests stay; labels, group and scheduler do not."""
    guard = Guard(_Clock())

    def stage(objects: Objects) -> Pod | None:
        found = objects.every(Pod).get("default/evil")
        if found is not None and found.metadata.annotations:
            raise ValueError("of no use")
        return found

    left = guard.run("test", _objects(pod("evil", cpu="3", on="n0", group="g")), stage)
    assert left is not None
    assert ("n0", "set-aside") == (left.spec.node_name, left.spec.scheduler_name)
    assert {"cpu": "3"} == dict(left.spec.containers[0].resources.requests)


def test_what_is_made_anew_begins_anew() -> None:
    """An object that was gone meanwhile is no longer set aside, and its next crash is a first one."""
    clock, crashes = _Clock(), list[Crash]()
    guard, stage = Guard(clock, crashes.append), _Stage("evil")
    guard.run("test", _pods("evil"), stage)
    guard.over(_pods("good"))
    guard.run("test", _pods("evil"), stage)

    assert [(EVIL, 1), (EVIL, 1)] == [(crash.key, crash.times) for crash in crashes]


def _broken(_: Objects) -> None:
    raise RuntimeError("whatever there is")


def test_what_is_no_objects_fault_is_told_and_passes() -> None:
    """A live loop goes on without the stage, and says how often that has happened."""
    crashes: list[Crash] = []
    guard = Guard(_Clock(), crashes.append)

    assert [None, None] == [guard.run("test", _pods("good"), _broken) for _ in range(2)]
    assert [(None, 1), (None, 2)] == [(crash.key, crash.times) for crash in crashes]
    assert crashes[0].event is None
    assert ["good"] == [key.name for key in guard.over(_pods("good"))]


def test_what_is_no_objects_fault_ends_a_command() -> None:
    """Without a clock there is no better moment to wait for: it is raised, and nobody sees an empty answer."""
    with pytest.raises(RuntimeError, match="whatever there is"):
        Guard().run("test", _pods("good"), _broken)


def test_culprit_is_searched_without_effects() -> None:
    """What a stage does is not done again while the culprit is looked for."""
    done: list[int] = []
    stage = _Stage("evil")

    def act(objects: Objects) -> int:
        done.append(len(objects))
        return stage(objects)

    rehearse: Callable[[Objects], object] = stage
    assert 9 == Guard(_Clock()).run("test", _pods("evil", *(f"p{i}" for i in range(9))), act, rehearse)
    assert [10, 9] == done
