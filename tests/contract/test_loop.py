"""The whole loop over an API server: gangs come up whole, are mended after failures, or are released."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.contract.fake_api import FakeApi, Json
from tests.contract.manifests import node, pod, pod_group
from tests.contract.turns import WrittenLoop
from tests.contract.waiting import eventually

from tierwise.api.core import Node, Pod
from tierwise.api.volcano import PodGroup
from tierwise.config.profile import DEFAULT
from tierwise.kube.auth import Access
from tierwise.kube.cluster import KubeCluster
from tierwise.runtime.profile_run import SchedulerProfile
from tierwise.scheduler.partial_gangs import PARTIAL, PATIENCE

START = 1_800_000_000.0


class _World:
    """A server, a client of it, and a loop whose time is ours."""

    def __init__(self, api: FakeApi, cluster: KubeCluster) -> None:
        self.api = api
        self.cluster = cluster
        self.now = START
        scheduler = SchedulerProfile(frozenset({"tierwise"}), DEFAULT)
        self.loop = WrittenLoop(cluster, [scheduler], clock=lambda: self.now, ticks=lambda: self.now)

    def put(self, *manifests: Json) -> None:
        """Objects that the client knows of when this returns."""
        self.api.put(*manifests)
        names = {m["metadata"]["name"] for m in manifests}
        kinds = (Node, Pod, PodGroup)
        assert eventually(self.cluster, lambda: names <= {r.metadata.name for k in kinds for r in self._every(k)})

    def _every(self, kind: type[Node] | type[Pod] | type[PodGroup]) -> list[Node | Pod | PodGroup]:
        return list(self.cluster.read().every(kind).values())

    def nodes(self) -> list[str]:
        return [found["spec"].get("nodeName", "") for found in self.api.all("pods")]

    def group(self) -> Json:
        return self.api.get("podgroups", "g")


@pytest.fixture
def world() -> Iterator[_World]:
    """Two nodes of eight."""
    with FakeApi() as api:
        api.put(node("n0"), node("n1"))
        with KubeCluster(Access(api.url)) as cluster:
            assert cluster.synced(timeout=60)
            yield _World(api, cluster)


def _gang(size: int, *, cpu: str = "4", owned: bool = True) -> list[Json]:
    pods = [pod(f"p{i}", cpu=cpu, group="g") for i in range(size)]
    if owned:
        for found in pods:
            _own(found)
    return [pod_group("g", minimum=size), *pods]


def _own(found: Json) -> None:
    owner = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "j", "uid": "u"}
    found["metadata"]["ownerReferences"] = [{**owner, "controller": True}]


def test_gang_is_bound_and_said_to_run(world: _World) -> None:
    """Pods have nodes, the group is Running, and the next turn writes nothing."""
    world.put(*_gang(4))
    world.loop.run_once()
    assert ["n0", "n0", "n1", "n1"] == sorted(world.nodes())
    assert "Running" == world.group()["status"]["phase"]

    world.loop.run_once()
    writes = [r for r in world.api.requests if not r.startswith("GET") and "/events" not in r]
    world.loop.run_once()
    assert writes == [r for r in world.api.requests if not r.startswith("GET") and "/events" not in r]


def test_gang_without_room_is_told_why_once(world: _World) -> None:
    """The group has the whole reason, its pods a short one, and neither is written again while it stays the same."""
    world.put(*_gang(5))
    world.loop.run_once()
    conditions = world.group()["status"]["conditions"]
    assert ["Unschedulable"] == [c["type"] for c in conditions]
    told = world.api.get("pods", "p0")["status"]["conditions"][0]
    assert ("PodScheduled", "False", "Unschedulable") == (told["type"], told["status"], told["reason"])
    assert told["message"].startswith("podGroup default/g waits, never: needs ")

    writes = sum(r.startswith("PATCH") for r in world.api.requests)
    world.loop.run_once()
    assert writes == sum(r.startswith("PATCH") for r in world.api.requests)


def test_group_that_comes_after_its_pod_is_waited_for(world: _World) -> None:
    """Pods and groups are watched apart: a pod that is seen first is told the true reason, once."""
    alone = pod("p0", cpu="9", group="g")
    world.put(alone)
    world.loop.run_once()
    assert [] == world.api.get("pods", "p0")["status"].get("conditions", [])
    world.put(pod_group("g", 1))
    world.now += 1.0
    world.loop.run_once()

    (told,) = world.api.get("pods", "p0")["status"]["conditions"]
    assert "short of cpu" in told["message"]
    patches = [r for r in world.api.requests if r.startswith("PATCH") and "/pods/" in r]
    assert 1 == len(patches)


def test_group_that_stays_away_is_told_of(world: _World) -> None:
    """A name that nobody bears is said to be one, after a moment."""
    world.put(pod("p0", group="nobody"))
    world.loop.run_once()
    world.now += 5.0
    world.loop.run_once()

    (told,) = world.api.get("pods", "p0")["status"]["conditions"]
    assert "podGroup default/nobody does not exist" == told["message"]


def test_group_of_a_plain_pod_is_written_once(world: _World) -> None:
    """What the server leaves out of a manifest because it is empty is not put back for ever."""
    world.put(pod("plain"))
    world.loop.run_once()
    world.loop.run_once()

    writes = [r for r in world.api.requests if "/podgroups" in r and not r.startswith("GET")]
    assert (1, 0) == (sum(r.startswith("POST") for r in writes), sum(r.startswith("PUT") for r in writes))


def test_partly_bound_gang_is_mended(world: _World) -> None:
    """A bind that fails leaves a gang below its minimum for as long as it takes to try again."""
    world.put(*_gang(4))
    world.api.fail("POST", "/p3/binding", 403, said={"message": "not today"})
    world.loop.run_once()
    assert 4 != sum(map(bool, world.nodes()))
    assert "Running" != world.group()["status"]["phase"]

    world.now += 1.0
    world.loop.run_once()
    assert 4 == sum(map(bool, world.nodes()))
    assert "Running" == world.group()["status"]["phase"]
    world.loop.run_once()
    assert "" == world.group()["metadata"].get("annotations", {}).get(PARTIAL, "")


def test_part_that_cannot_be_mended_is_released(world: _World) -> None:
    """A part of a gang that was never whole, and whose rest finds no place in time, gives its room back."""
    group, *pods = _gang(5)
    pods[0]["spec"]["nodeName"] = "n0"  # a process that died half-way has bound this one
    world.put(group, *pods)
    world.loop.run_once()
    assert world.group()["metadata"]["annotations"][PARTIAL]
    assert 1 == sum(map(bool, world.nodes()))

    world.now += PATIENCE
    world.loop.run_once()
    assert 0 == sum(map(bool, world.nodes()))
    assert 4 == len(world.nodes())  # gone; whoever owns it makes another


def test_part_of_a_gang_without_owner_stays_and_is_told(world: _World) -> None:
    """A pod that nobody would make anew is not taken away, but people hear of it."""
    group, *pods = _gang(5, owned=False)
    pods[0]["spec"]["nodeName"] = "n0"
    world.put(group, *pods)
    world.loop.run_once()
    world.now += PATIENCE
    world.loop.run_once()

    assert 1 == sum(map(bool, world.nodes()))


def test_gang_that_was_whole_keeps_its_pods(world: _World) -> None:
    """A gang that ran and has lost pods is for its policies: nothing of it is released."""
    group, *pods = _gang(5)
    group["status"] = {"phase": "Running"}
    pods[0]["spec"]["nodeName"] = "n0"
    world.put(group, *pods)
    world.loop.run_once()
    world.now += PATIENCE
    world.loop.run_once()

    assert 1 == sum(map(bool, world.nodes()))


def test_pods_of_other_schedulers_take_up_room(world: _World) -> None:
    """They are not placed, and where they run there is less room."""
    theirs = pod("theirs", cpu="8", on="n0")
    waiting = pod("waiting")
    for found in (theirs, waiting):
        found["spec"]["schedulerName"] = "default-scheduler"
    world.put(theirs, waiting, *_gang(2))
    world.loop.run_once()

    assert {"theirs": "n0", "waiting": "", "p0": "n1", "p1": "n1"} == {
        found["metadata"]["name"]: found["spec"].get("nodeName", "") for found in world.api.all("pods")
    }
