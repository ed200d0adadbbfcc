"""Pods that the API server refuses a job's controller: the job and its group say why, and go on when it takes them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.contract.fake_api import FakeApi, Json
from tests.contract.manifests import node
from tests.contract.turns import World

from tierwise.kube.auth import Access
from tierwise.kube.cluster import KubeCluster

QUOTA = 'pods "train-worker-0" is forbidden: exceeded quota: small, requested: pods=1, used: pods=5, limited: pods=5'


@pytest.fixture
def world() -> Iterator[World]:
    """A node of eight, and a job of two."""
    with FakeApi() as api:
        api.put(node("n0"))
        with KubeCluster(Access(api.url)) as cluster:
            assert cluster.synced(timeout=60)
            yield World(api, cluster)


def _job() -> Json:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"containers": [container]}}
    task = {"name": "worker", "replicas": 2, "template": template}
    meta = {"name": "train", "namespace": "default", "uid": "u-train"}
    spec = {"schedulerName": "tierwise", "minAvailable": 2, "tasks": [task]}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": meta, "spec": spec}


def _told(world: World) -> list[tuple[str, str]]:
    events = (event for event in world.api.all("events") if event["reason"] == "FailedCreate")
    return sorted((event["involvedObject"]["kind"], event["message"]) for event in events)


def test_a_quota_that_refuses_the_pods_is_told_once_on_the_job_and_its_group(world: World) -> None:
    """With the server's own words; when the quota grows the pods come, and what refuses them next is told again."""
    world.api.fail("POST", r"/pods\?", 403, times=10**6, said={"reason": "Forbidden", "message": QUOTA})
    world.put(_job())
    for _ in range(6):
        world.turn(after=1.0)
        world.catch_up()
    text = f"the API server refuses pods of train: {QUOTA}"
    assert [("Job", text), ("PodGroup", text)] == _told(world)
    assert not world.api.all("pods")

    world.api.heal()
    bound = 0
    for _ in range(6):
        bound = world.turn(after=1.0)
        world.catch_up()
    assert 2 == bound
