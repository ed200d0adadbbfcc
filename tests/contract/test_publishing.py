"""Statuses and events are behind binds, and never in the way of the next cycle."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.contract.fake_api import FakeApi, Json
from tests.contract.manifests import node, pod, pod_group
from tests.contract.turns import START, World
from tests.contract.waiting import eventually

from tierwise.api.core import Pod
from tierwise.config.profile import DEFAULT
from tierwise.kube.auth import Access
from tierwise.kube.cluster import KubeCluster
from tierwise.runtime.loop import Loop
from tierwise.runtime.profile_run import SchedulerProfile


class _Hasty(World):
    """Turns that end without waiting for what they told."""

    def __init__(self, api: FakeApi, cluster: KubeCluster) -> None:
        super().__init__(api, cluster)
        own = SchedulerProfile(frozenset({"tierwise"}), DEFAULT)
        self.loop = Loop(  # type: ignore[assignment]
            cluster, [own], clock=lambda: self.now, ticks=lambda: self.now, with_controllers=False
        )


@pytest.fixture
def world() -> Iterator[_Hasty]:
    """Two nodes of eight."""
    with FakeApi() as api:
        api.put(node("n0"), node("n1"))
        with KubeCluster(Access(api.url)) as cluster:
            assert cluster.synced(timeout=60)
            yield _Hasty(api, cluster)


def _gang(name: str, size: int = 2) -> list[Json]:
    return [pod_group(name, size), *(pod(f"{name}{i}", cpu="2", group=name) for i in range(size))]


@pytest.mark.parametrize("path", ["/podgroups", "/events", "/pods/huge"])
def test_cycles_go_on_while_the_server_is_slow_to_write(world: _Hasty, path: str) -> None:
    """Writes about one gang hang for as long as they may: the next gangs are bound all the same."""
    world.put(*_gang("a"), pod("huge", cpu="99"))
    for method in ("PATCH", "POST"):
        world.api.fail(method, path, "freeze", times=10**9)
    assert 2 == world.turn()
    world.put(*_gang("b"))
    assert 4 == world.turn()
    world.put(*_gang("c"))

    assert 6 == world.turn()
    world.api.heal()
    world.api.thaw()


def test_what_could_not_be_written_is_told_by_the_next_turn(world: _Hasty) -> None:
    """A status that was refused is not forgotten."""
    world.put(*_gang("a"))
    world.api.fail("PATCH", "/podgroups/a", 403, times=1, said={"message": "not today"})
    world.turn()
    assert world.cluster.flush(60.0)
    assert "Running" != world.api.get("podgroups", "a")["status"]["phase"]
    world.turn()
    assert world.cluster.flush(60.0)

    assert "Running" == world.api.get("podgroups", "a")["status"]["phase"]


def test_a_gang_that_comes_up_is_not_told_that_it_is_too_small(world: _Hasty) -> None:
    """Its pods come one by one, and a turn after each: one status is written, which is the last."""
    group, *pods = _gang("a", 3)
    world.put(group)
    for found in pods:
        world.turn(after=0.5)
        world.put(found)
    assert 3 == world.turn(after=0.5)
    assert world.cluster.flush(60.0)

    told = [body["status"] for body in world.api.bodies if "status" in body]
    assert ["Running"] == [status["phase"] for status in told]


def test_a_gang_that_stays_too_small_is_told_in_time(world: _Hasty) -> None:
    """The loop turns for that alone, at the moment at which it is due."""
    group, *pods = _gang("a", 3)
    world.put(group, *pods[:2])
    world.turn()
    assert world.cluster.flush(60.0)
    assert [] == world.api.get("podgroups", "a")["status"].get("conditions", [])
    world.turn(after=2.5)
    assert world.cluster.flush(60.0)

    (told,) = world.api.get("podgroups", "a")["status"]["conditions"]
    assert "Unschedulable" == told["type"]


def test_flush_says_what_is_left(world: _Hasty) -> None:
    """Who waits for what was told learns where it is not written in time."""
    world.put(*_gang("a"))
    world.api.fail("PATCH", "/podgroups/a", "freeze")
    world.turn()
    assert world.api.frozen.wait(60)
    assert not world.cluster.flush(0.0)
    world.api.thaw()
    world.turn()

    assert world.cluster.flush(60.0)
    assert eventually(world.cluster, lambda: len(world.cluster.read().every(Pod)) == 2)
    assert START == world.now
