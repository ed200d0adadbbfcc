"""No object can stop the loop: whatever layer it makes raise, it is set aside by name, and the others are served."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from msgspec.structs import replace
from tests.contract.fake_api import FakeApi
from tests.contract.manifests import node, pod, pod_group
from tests.contract.turns import World
from tests.contract.waiting import eventually

from tierwise.api.codec import Object
from tierwise.api.core import Pod
from tierwise.api.volcano import PodGroup
from tierwise.kube.auth import Access
from tierwise.kube.cluster import KubeCluster
from tierwise.port import Key, Objects
from tierwise.runtime.profile_run import LoopPass
from tierwise.scheduler.guard import Crash

PAUSE = 31.0
"""Seconds after which an object that was set aside once is tried again."""


class _Trap(dict[str, str]):
    """Labels or annotations that raise as soon as somebody looks for a key."""

    def get(self, key: str, default: Any = None) -> Any:
        raise KeyError(f"somebody asked for {key}")


class _Nothing:
    """Not what a record should hold."""


def _unreadable_spec(record: Object) -> Object:
    assert isinstance(record, Pod)
    return replace(record, spec=replace(record.spec, tolerations=(_Nothing(),)))


def _trapped_labels(record: Object) -> Object:
    return replace(record, metadata=replace(record.metadata, labels=_Trap()))  # type: ignore[type-var]


def _trapped_annotations(record: Object) -> Object:
    return replace(record, metadata=replace(record.metadata, annotations=_Trap()))  # type: ignore[type-var]


def _wrong_conditions(record: Object) -> Object:
    assert isinstance(record, PodGroup)
    return replace(record, status=replace(record.status, conditions=(_Nothing(),)))


def _wrong_number(record: Object) -> Object:
    assert isinstance(record, PodGroup)
    return replace(record, spec=replace(record.spec, min_member="four"))


class _Unranked(int):
    """A priority that can be read, and raises when an action puts jobs into an order."""

    def __neg__(self) -> int:
        raise ArithmeticError("somebody asked who comes first")


def _cursed_priority(record: Object) -> Object:
    assert isinstance(record, Pod)
    return replace(record, spec=replace(record.spec, priority=_Unranked(7)))


class _Poisoned(KubeCluster):
    """A cluster in which one object is not what the codec lets through: it stands for a defect of some layer."""

    key: Key
    poison: Callable[[Object], Object] | None = None

    def read(self) -> Objects:
        objects = super().read()
        record = objects.record(self.key) if self.poison is not None else None
        if record is None or self.poison is None:
            return objects
        return objects.updated({self.key: (self.poison(record), objects.raw(self.key))}, (), objects.version)


class _Watcher:
    def __init__(self) -> None:
        self.crashes: list[Crash] = []

    def saw(self, turn: LoopPass) -> None:
        """Turns are of no interest."""

    def crashed(self, crash: Crash) -> None:
        self.crashes.append(crash)


@pytest.fixture
def world() -> Iterator[World]:
    """Two nodes of eight, and a gang that has done nothing wrong."""
    with FakeApi() as api:
        api.put(node("n0"), node("n1"))
        with _Poisoned(Access(api.url)) as cluster:
            assert cluster.synced(timeout=60)
            yield World(api, cluster)


def _told(api: FakeApi) -> list[str]:
    """Who has an event that says so."""
    return [found["involvedObject"]["name"] for found in api.all("events") if found["reason"] == "SetAside"]


POD = Key("", "Pod", "default", "evil")
GROUP = Key("scheduling.volcano.sh", "PodGroup", "default", "bad")


@pytest.mark.parametrize(
    ("key", "poison"),
    [
        (POD, _unreadable_spec),
        (POD, _trapped_labels),
        (POD, _trapped_annotations),
        (GROUP, _wrong_conditions),
        (GROUP, _wrong_number),
        (GROUP, _trapped_annotations),
    ],
)
def test_the_loop_outlives_it(world: World, key: Key, poison: Callable[[Object], Object]) -> None:
    """Everybody else is bound in the same turn; the culprit gets an event, and is served once it is well."""
    cluster, watcher = world.cluster, _Watcher()
    assert isinstance(cluster, _Poisoned)
    world.loop.observers = (watcher,)
    cluster.key, cluster.poison = key, poison
    good = [pod_group("g", minimum=2), pod("p0", group="g"), pod("p1", group="g")]
    world.put(*good, pod_group("bad", minimum=1), pod("evil", group="bad"))

    world.turn()
    assert {"p0", "p1"} <= {found["metadata"]["name"] for found in world.api.all("pods") if "nodeName" in found["spec"]}
    assert {key} == {crash.key for crash in watcher.crashes}
    assert eventually(cluster, lambda: key.name in _told(world.api))

    cluster.poison = None
    assert 3 == world.turn(after=PAUSE)


def test_job_that_makes_a_plugin_raise_costs_nobody_else_a_turn(world: World) -> None:
    """A plugin that fails on one job in the middle of the cycle is named; the others are placed at once."""
    cluster, watcher = world.cluster, _Watcher()
    assert isinstance(cluster, _Poisoned)
    world.loop.observers = (watcher,)
    cluster.key, cluster.poison = POD, _cursed_priority
    others = [m for i in range(3) for m in (pod_group(f"g{i}"), pod(f"p{i}", cpu="4", group=f"g{i}"))]
    world.put(pod_group("bad"), pod("evil", cpu="8", group="bad"), *others)

    assert 3 == world.turn()
    assert [] == watcher.crashes
    assert eventually(cluster, lambda: any("PluginFailed" == found["reason"] for found in world.api.all("events")))
    [told] = [found["message"] for found in world.api.all("events") if found["reason"] == "PluginFailed"]
    assert "plugin priority failed in job_key" in told


@pytest.mark.parametrize("when", ["listed", "watched"])
def test_object_that_no_decoder_can_read_hides_nobody(when: str) -> None:
    """A podGroup that is nested more deeply than any decoder goes: lists and watches go on behind it."""
    with FakeApi() as api:
        api.texts["deep"] = '{"a":' * 5_000 + "1" + "}" * 5_000
        deep = pod_group("deep")
        deep["spec"]["more"] = "deep"
        good = [pod_group("g", minimum=2), pod("p0", group="g"), pod("p1", group="g")]
        api.put(node("n0"), *((deep, *good) if when == "listed" else ()))
        with KubeCluster(Access(api.url)) as cluster:
            assert cluster.synced(timeout=60)
            api.put(*(() if when == "listed" else (deep, *good)))
            assert eventually(cluster, lambda: ["default/g"] == list(cluster.read().every(PodGroup)))
            assert eventually(cluster, lambda: 2 == len(cluster.read().every(Pod)))

            assert 2 == World(api, cluster).turn()


def test_a_running_pod_that_is_set_aside_still_takes_up_room(world: World) -> None:
    """Nobody is placed into the room of a pod that cannot be read in full."""
    cluster, watcher = world.cluster, _Watcher()
    assert isinstance(cluster, _Poisoned)
    world.loop.observers = (watcher,)
    cluster.key, cluster.poison = POD, _trapped_labels
    standing = pod("evil", cpu="8")
    standing["spec"]["nodeName"], standing["status"] = "n0", {"phase": "Running"}
    world.put(standing, *[pod(f"p{i}", cpu="8") for i in range(2)])

    assert 2 == world.turn()  # the one that stood, and one on the other node
    assert {POD} == {crash.key for crash in watcher.crashes}


def test_what_crashes_again_and_again_is_tried_more_and_more_rarely(world: World) -> None:
    """The pause doubles: thirty seconds, then sixty."""
    cluster, watcher = world.cluster, _Watcher()
    assert isinstance(cluster, _Poisoned)
    world.loop.observers = (watcher,)
    cluster.key, cluster.poison = POD, _unreadable_spec
    world.put(pod("evil"))

    world.turn()
    world.turn(after=1.0)
    assert [1] == [crash.times for crash in watcher.crashes]
    world.turn(after=PAUSE)
    world.turn(after=PAUSE)
    assert [1, 2] == [crash.times for crash in watcher.crashes]
    world.turn(after=PAUSE)
    assert [1, 2, 3] == [crash.times for crash in watcher.crashes]
