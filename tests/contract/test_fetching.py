"""Discovery sources on a cluster: fetched beside the loop when they are due, recorded, and made into hyperNodes."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.contract.fake_api import FakeApi, Json
from tests.contract.manifests import node
from tests.contract.waiting import eventually
from tests.support.fabric_manager import FabricManager, ports

from tierwise.api.core import ConfigMap
from tierwise.kube.auth import Access
from tierwise.kube.cluster import KubeCluster
from tierwise.runtime.loop import Loop
from tierwise.runtime.topology_sources import Fetching

START = 1_800_000_000.0
NAMESPACE = "volcano-system"
RECORD = "tierwise-discovery-ufm"
LINKS = ("n0-l0", "n1-l1", "l0=s0", "l1=s0")


class _World:
    """A server, a client of it, a fabric manager, and a loop whose time is ours."""

    def __init__(self, api: FakeApi, cluster: KubeCluster, manager: FabricManager, files: Path) -> None:
        self.api, self.cluster, self.manager, self.files = api, cluster, manager, files
        self.now = START
        self.leading = True
        fetching = Fetching(cluster.secret, clock=lambda: self.now, wake=cluster.wake, files=files)
        self.loop = Loop(cluster, [], clock=lambda: self.now, ticks=lambda: self.now, fetching=fetching)

    def configure(self, *, secret: str = "", namespace: str = NAMESPACE, endpoint: str = "") -> None:
        """UFM as the source, with credentials from a Secret where one is named."""
        source: Json = {"source": "ufm", "enabled": True, "interval": "10m"}
        source["config"] = {"endpoint": endpoint or self.manager.address}
        if secret:
            source["credentials"] = {"secretRef": {"name": secret, "namespace": namespace}}
        self.discover(source)

    def discover(self, source: Json) -> None:
        """By a source of any kind."""
        text = json.dumps({"networkTopologyDiscovery": [source]})
        self.api.put(_config_map("x-controller-configmap", {"volcano-controller.conf": text}))
        assert eventually(self.cluster, lambda: text in str(self.cluster.read().every(ConfigMap)))

    def turns(self, tried: float, name: str = RECORD) -> Json:
        """Turn until a try of that time is recorded; the record."""
        stamp = f":{int(tried) % 60:02d}Z"

        def recorded() -> bool:
            self.loop.run_once()
            return any(
                found["metadata"]["name"] == name and found["data"]["triedAt"].endswith(stamp)
                for found in self.api.all("configmaps")
            )

        assert eventually(self.cluster, recorded)
        data: Json = self.api.get("configmaps", name, NAMESPACE)["data"]
        return data

    def hypernodes(self) -> list[str]:
        return sorted(found["metadata"]["name"] for found in self.api.all("hypernodes"))

    def told(self, name: str) -> list[str]:
        """What is wrong, according to a hyperNode."""
        status = self.api.get("hypernodes", name, "").get("status", {})
        return [condition["message"] for condition in status.get("conditions", [])]


@pytest.fixture(name="world")
def _world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[_World]:
    """Two nodes on two leaves."""
    monkeypatch.setattr("tierwise.kube.client.pause", lambda attempt: 0.0)
    with FakeApi() as api, FabricManager({"resources/ports": ports(*LINKS)}) as manager:
        api.put(node("n0"), node("n1"))
        with KubeCluster(Access(api.url)) as cluster:
            assert cluster.synced(timeout=60)
            yield _World(api, cluster, manager, tmp_path)


def _config_map(name: str, data: dict[str, str]) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": NAMESPACE}, "data": data}


def _secret(name: str, **entries: str) -> Json:
    data = {key: base64.b64encode(value.encode()).decode() for key, value in entries.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": NAMESPACE}, "data": data}


def test_a_source_is_fetched_fails_and_recovers(world: _World) -> None:
    """HyperNodes come with the first tree, stay through failures, which are tried again in time, and then follow."""
    world.configure()
    assert "0" == world.turns(START)["failures"]
    assert ["l0", "l1", "s0"] == world.hypernodes()
    asked = len(world.manager.asked)
    world.now += 599
    world.loop.run_once()
    assert asked == len(world.manager.asked)

    world.manager.status = 500
    world.now = START + 601
    failed = world.turns(world.now)
    assert ("1", True) == (failed["failures"], "HTTP 500" in failed["error"])
    world.loop.run_once()
    assert ["l0", "l1", "s0"] == world.hypernodes()
    assert "HTTP 500 Internal Server Error; 1 failure" in world.told("s0")[0]

    world.manager.status = 200
    world.manager.answers["resources/ports"] = ports("n0-l0", "n1-l2", "l0=s0", "l2=s0")
    world.now += 32
    assert ("0", "") == tuple(world.turns(world.now)[key] for key in ("failures", "error"))
    world.loop.run_once()
    assert ["l0", "l2", "s0"] == world.hypernodes()
    assert [] == world.told("s0")


def test_credentials_are_those_of_the_secret(world: _World) -> None:
    """Read when they are needed, by name, and told to nobody."""
    world.api.put(_secret("creds", username="admin", password="hidden\n"))
    world.configure(secret="creds")
    data = world.turns(START)

    expected = "Basic " + base64.b64encode(b"admin:hidden").decode()
    assert {expected} == {header for _, header in world.manager.asked}
    assert "hidden" not in str(data)
    secrets = [request for request in world.api.requests if "/secrets" in request]
    assert [f"GET /api/v1/namespaces/{NAMESPACE}/secrets/creds"] == secrets


def test_a_secret_that_may_not_be_read_is_a_failure(world: _World) -> None:
    """And is tried again like any other."""
    world.api.put(_secret("creds", token="abc"))
    world.api.fail("GET", "/secrets/creds", 403, said={"message": "secrets is forbidden"})
    world.configure(secret="creds")
    assert f"Secret {NAMESPACE}/creds: secrets is forbidden" == world.turns(START)["error"]
    assert [] == world.manager.asked

    world.now += 31
    assert "0" == world.turns(world.now)["failures"]


def test_a_secret_of_another_namespace_is_not_sent_anywhere(world: _World) -> None:
    """Whoever may write a ConfigMap need not be one who may read the Secret."""
    world.configure(secret="creds", namespace="kube-system")

    assert "must be in the configuration's namespace" in world.turns(START)["error"]
    assert not any("/secrets" in request for request in world.api.requests)


def test_the_name_of_a_secret_is_no_way_to_another_namespace(world: _World) -> None:
    """Steps upwards in it are letters like any others."""
    world.api.put(_secret("creds", token="abc") | {"metadata": {"name": "creds", "namespace": "kube-system"}})
    world.configure(secret="../../kube-system/secrets/creds")

    assert world.turns(START)["error"].startswith(f"Secret {NAMESPACE}/../../kube-system/secrets/creds:")
    assert not any("/namespaces/kube-system/" in request for request in world.api.requests)
    assert [] == world.manager.asked


def test_a_new_configuration_is_tried_at_once(world: _World) -> None:
    """The wait after failures was for the old one."""
    world.configure(endpoint="http://127.0.0.1:1")
    assert "1" == world.turns(START)["failures"]
    world.now += 1
    world.configure()
    assert "0" == world.turns(world.now)["failures"]


def test_the_loop_does_not_wait_for_a_server_that_is_silent(world: _World) -> None:
    """Turns go on, one fetch is under way and no second one begins."""
    world.manager.silent.set()
    world.configure()
    for _ in range(3):
        world.loop.run_once()
        world.now += 3600

    assert eventually(world.cluster, lambda: 1 == len(world.manager.asked))
    assert [] == [c for c in world.api.all("configmaps") if c["metadata"]["name"] == RECORD]


def test_a_record_that_cannot_be_written_is_written_later(world: _World) -> None:
    """The answer of the server is not asked for twice."""
    world.api.fail("POST", "/configmaps", 403, said={"message": "not today"})
    world.configure()
    world.turns(START)

    assert 2 == len(world.manager.asked)  # ports and systems, once
    assert 2 == sum(request.endswith("/configmaps") for request in world.api.requests if request.startswith("POST"))


def test_who_does_not_lead_fetches_nothing(world: _World) -> None:
    """Only a turn fetches, and only the leader turns."""
    world.configure()
    rounds = iter([False, False, True, True])
    world.loop.run(period=0.01, pause=0.0, stopping=lambda: next(rounds, True), may=lambda: False)

    assert [] == world.manager.asked


def test_files_are_those_of_one_folder(world: _World) -> None:
    """What a configuration names elsewhere is refused, and nothing of it is told."""
    (world.files / "hosts.csv").write_text("host,rack\nn0,r0\nn1,r1\n")
    source: Json = {"source": "csv", "enabled": True, "config": {"path": "/etc/passwd"}}
    world.discover(source)
    refused = world.turns(START, "tierwise-discovery-csv")
    world.now += 1
    world.discover(source | {"config": {"path": str(world.files / "hosts.csv")}})
    world.turns(world.now, "tierwise-discovery-csv")
    world.loop.run_once()

    assert f"config.path: /etc/passwd is not below {world.files}, and files elsewhere are not read" == refused["error"]
    assert ["r0", "r1"] == world.hypernodes()
