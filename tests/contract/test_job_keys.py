"""Keys of Volcano Jobs on a live cluster: a Secret that is created, and neither read nor replaced."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import pytest
from tests.contract.turns import START, WrittenLoop
from tests.contract.waiting import eventually
from tests.support.manifests import job, task
from tests.support.playground import Json, Playground, nodes
from tests.support.served_playground import served

from tierwise.api.volcano import Job
from tierwise.config.profile import DEFAULT
from tierwise.kube.auth import Access
from tierwise.kube.cluster import KubeCluster
from tierwise.runtime.profile_run import SchedulerProfile


class _Live:
    """Controllers before the API server of an embedded cluster, in which nothing else acts."""

    def __init__(self, ground: Playground, cluster: KubeCluster) -> None:
        self.ground, self.cluster, self.now = ground, cluster, START
        schedulers = [SchedulerProfile(frozenset({"volcano"}), DEFAULT)]
        self.loop = WrittenLoop(
            cluster, schedulers, clock=lambda: self.now, ticks=lambda: self.now, keys=lambda _: ("mine", "public")
        )

    def apply(self, raw: Json) -> None:
        """Let a job come, and the controllers act on it."""
        self.ground.create("batch.volcano.sh/v1alpha1/jobs", raw)
        assert eventually(self.cluster, lambda: bool(self.cluster.read().every(Job)))
        for _ in range(6):
            self.now += 1.0
            self.loop.run_once()

    def key(self) -> str:
        data = self.ground.get("v1/secrets", "train-ssh")["data"]
        return base64.b64decode(data["id_rsa"]).decode()

    def pods(self) -> list[str]:
        return sorted(self.ground.names("v1/pods"))


@pytest.fixture
def live() -> Iterator[_Live]:
    """Controllers that make keys, before a server of one node."""
    ground = Playground(nodes("n0", cpu="16"))
    with served(ground) as url, KubeCluster(Access(url)) as cluster:
        assert cluster.synced(timeout=60)
        yield _Live(ground, cluster)


def _job() -> Json:
    raw = job("train", task("master", 1), task("worker", 1), plugins={"mpi": []})
    return {**raw, "metadata": {"name": "train", "namespace": "default"}}


def test_a_job_gets_its_key_before_its_pods(live: _Live) -> None:
    """The Secret belongs to the job, whose status says that it is there; no Secret is ever asked for."""
    live.apply(_job())

    assert "mine" == live.key()
    status = live.ground.get("batch.volcano.sh/v1alpha1/jobs", "train")["status"]
    assert "ssh" == status["controlledResources"]["plugin-ssh"]
    assert ["train-master-0", "train-worker-0"] == live.pods()
    assert all(key.kind != "Secret" for key in live.cluster.read())


def test_a_secret_that_is_there_stays(live: _Live) -> None:
    """Whoever made it: a job whose status was lost finds its own there, and that of others is not replaced."""
    data = {"id_rsa": base64.b64encode(b"theirs").decode()}
    live.ground.create("v1/secrets", {"metadata": {"name": "train-ssh"}, "data": data})
    live.apply(_job())

    assert ("theirs", ["train-master-0", "train-worker-0"]) == (live.key(), live.pods())
