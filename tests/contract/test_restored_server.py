"""A server that is restored from a backup: versions go back, objects vanish, and what it says is so."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.contract.fake_api import FakeApi
from tests.contract.manifests import node, pod, pod_group
from tests.contract.turns import World
from tests.contract.waiting import eventually

from tierwise.api.core import Pod
from tierwise.kube.auth import Access
from tierwise.kube.cluster import ClusterOptions, KubeCluster
from tierwise.port import Bind, Key, PatchStatus

GROUP = Key("scheduling.volcano.sh", "PodGroup", "default", "g")
PLACES = {"kept": "n0", "late": "n0"}


@pytest.fixture(params=["expired", "silent"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """A node of eight, and a server that refuses to watch from a version ahead of it, or says nothing to that."""
    with FakeApi() as api:
        api.patient = request.param == "silent"
        api.put(node("n0"), pod("kept", cpu="4"), pod_group("g", 1, {"phase": "Inqueue"}))
        with KubeCluster(Access(api.url), ClusterOptions(check_every=0.05)) as cluster:
            assert cluster.synced(timeout=60)
            yield World(api, cluster)


def _places(cluster: KubeCluster) -> dict[str, str]:
    return {pod.metadata.name: pod.spec.node_name for pod in cluster.read().every(Pod).values()}


def _restored(world: World) -> None:
    """What has happened since the backup has not: a bind, a pod that came and was bound, a status."""
    saved = world.api.backup()
    world.put(pod("late", cpu="4"))
    binds = [Bind(Key("", "Pod", "default", name), node) for name, node in PLACES.items()]
    outcomes = world.cluster.apply([*binds, PatchStatus(GROUP, {"phase": "Running"})])
    assert [True, True, True] == [outcome.ok for outcome in outcomes]
    for number in range(20):  # versions that the restored server comes to much later
        world.put(pod(f"more{number}", cpu="1"))
    world.api.restore(saved)


def test_what_the_server_no_longer_knows_is_gone(world: World) -> None:
    """Pods that came after the backup hold no room, and those that were bound after it wait again."""
    _restored(world)

    assert eventually(world.cluster, lambda: {"kept": ""} == _places(world.cluster)), _places(world.cluster)


def test_what_happens_after_it_is_heard(world: World) -> None:
    """Versions that were used before count again: pods come, are bound, and are read as they are."""
    _restored(world)
    assert eventually(world.cluster, lambda: {"kept": ""} == _places(world.cluster))
    world.put(pod("next", cpu="4"))

    assert 2 == world.turn()
    assert {"kept": "n0", "next": "n0"} == _places(world.cluster)
    world.put(pod("last", cpu="4"))
    assert 2 == world.turn()


def test_nobody_watches_from_a_version_that_is_yet_to_come(world: World) -> None:
    """What changes is heard when it changes, and not with the next whole list alone."""
    before = world.api.backup()[0]
    _restored(world)

    assert eventually(world.cluster, lambda: world.api.since.get("pods", before + 1) <= before)


def test_a_server_that_was_away_is_listed_again() -> None:
    """It says nothing to watches from a version ahead of it, and no regular check is due: the outage is the sign."""
    with FakeApi() as api:
        api.put(node("n0"), pod("kept", cpu="4"), pod_group("g", 1, {"phase": "Inqueue"}))
        with KubeCluster(Access(api.url), ClusterOptions(check_every=1e6)) as cluster:
            assert cluster.synced(timeout=60)
            world = World(api, cluster)
            saved = api.backup()
            world.put(pod("late", cpu="4"))
            assert cluster.apply([Bind(Key("", "Pod", "default", "late"), "n0")])[0].ok
            for number in range(20):
                world.put(pod(f"more{number}", cpu="1"))
            api.fail("GET", "watch=true", "drop", times=10**6)
            asked = len(api.requests)
            api.restore(saved)
            assert eventually(cluster, lambda: "GET /api/v1/pods" in api.requests[asked:])
            api.heal()

            assert eventually(cluster, lambda: {"kept": ""} == _places(cluster)), _places(cluster)
