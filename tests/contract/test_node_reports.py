"""Programs on nodes over an API server: they write their own entries, and what fails is said and tried again."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.contract.fake_api import FakeApi, Json
from tests.contract.waiting import eventually
from tests.support.commands import run

from tierwise.api.core import ConfigMap
from tierwise.daemons.link_speed import RESOURCE
from tierwise.daemons.round_trip import Answerer
from tierwise.kube import node_reports
from tierwise.kube.auth import Access
from tierwise.kube.cluster import KubeCluster
from tierwise.kube.node_reports import NodeView, report
from tierwise.port import Effect, Key, Objects, Update

MAP = "netperf-metrics"
OTHERS = "netperf.p90.latency.milliseconds.origin.{}.destination.n1"


@pytest.fixture(name="api")
def _api(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeApi]:
    """Three nodes on this machine, each in a zone of its own."""
    monkeypatch.setattr(node_reports, "pause", lambda attempt: 0.0)
    monkeypatch.setattr("tierwise.kube.client.pause", lambda attempt: 0.0)
    with FakeApi() as api:
        api.put(*(_node(f"n{i}", f"z{i}") for i in (1, 2, 3)))
        yield api


@pytest.fixture(name="port")
def _port() -> Iterator[int]:
    """Somebody who answers for every node."""
    answerer = Answerer("127.0.0.1", 0)
    thread = threading.Thread(target=answerer.run)
    thread.start()
    yield answerer.port
    answerer.close()
    thread.join()


@pytest.fixture(name="kubeconfig")
def _kubeconfig(api: FakeApi, tmp_path: Path) -> Path:
    file = tmp_path / "kubeconfig"
    described = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": api.url}}],
        "users": [{"name": "u", "user": {}}],
    }
    file.write_text(json.dumps(described))
    return file


def _node(name: str, zone: str) -> Json:
    labels = {"topology.kubernetes.io/region": "r", "topology.kubernetes.io/zone": zone}
    amounts = {"cpu": "8", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def _map(**data: str) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": MAP}, "data": data}


def _probe(kubeconfig: Path, port: int, node: str = "n1") -> tuple[int, str]:
    words = ("--port", port, "--count", 5, "--timeout", 2, "--once")
    result = run("probe", "--kubeconfig", kubeconfig, "--node", node, *words)
    assert "" == result.stdout
    return result.exit_code, result.stderr


def _writes(api: FakeApi) -> list[str]:
    return [request for request in api.requests if not request.startswith("GET")]


def test_measurements_go_into_the_config_map(api: FakeApi, port: int, kubeconfig: Path) -> None:
    """The first node makes it, the second adds to it, and neither reads more than it needs."""
    assert (0, "") == _probe(kubeconfig, port)
    first = api.get("configmaps", MAP)["data"]
    assert (0, "") == _probe(kubeconfig, port, "n2")
    both = api.get("configmaps", MAP)["data"]

    assert {"n1"} == {key.split(".")[5] for key in first}
    assert first.items() <= both.items()
    assert {"n1", "n2"} == {key.split(".")[5] for key in both}
    assert {"/api/v1/nodes", f"/api/v1/namespaces/default/configmaps/{MAP}"} == {
        request.split()[1] for request in api.requests if request.startswith("GET")
    }
    assert ["POST", "PATCH"] == [request.split()[0] for request in _writes(api)]


def test_entries_of_other_nodes_stay_and_those_about_nodes_that_are_gone_go(
    api: FakeApi, port: int, kubeconfig: Path
) -> None:
    """Whatever else people keep in the map stays as well."""
    stale = {key.format(name): "9" for key in (OTHERS,) for name in ("n1", "n9")}
    api.put(_map(note="mine", **stale, **{OTHERS.format("n3"): "7"}))

    assert (0, "") == _probe(kubeconfig, port)
    data = api.get("configmaps", MAP)["data"]
    assert ("mine", "7") == (data["note"], data[OTHERS.format("n3")])
    assert not stale.keys() & data.keys()


def test_a_node_that_measures_nothing_writes_nothing(api: FakeApi, port: int, kubeconfig: Path) -> None:
    """Only one node speaks for each zone."""
    api.put(_node("n1a", "z1"))
    assert (0, "") == _probe(kubeconfig, port, "n1a")
    assert [] == _writes(api)


def test_whoever_is_slower_reads_again(api: FakeApi) -> None:
    """An entry that appears between look and write is not lost, and nothing is found out twice."""
    api.put(_map(a="1"))
    key, found = Key("", "ConfigMap", "default", MAP), []

    def find(objects: Objects) -> str:
        found.append(objects)
        api.put(_map(a="1", b="2"))
        return "3"

    def wanted(objects: Objects, value: str) -> list[Effect]:
        raw = objects.raw(key)
        assert raw is not None
        data = raw["data"]
        assert isinstance(data, dict)
        return [Update(key, {**raw, "data": {**data, "c": value}})]

    asyncio.run(report(Access(api.url), NodeView(config_map=key), find, wanted))

    assert 1 == len(found)
    assert {"a": "1", "b": "2", "c": "3"} == api.get("configmaps", MAP)["data"]
    assert 2 == len(_writes(api))


@pytest.mark.parametrize(
    ("status", "said"), [(403, "not today"), (409, "not today"), (500, "not today"), ("drop", "cannot be reached")]
)
def test_failures_are_said_and_end_with_status_1(
    api: FakeApi, port: int, kubeconfig: Path, status: int | str, said: str
) -> None:
    """In one line, and the next time it works."""
    api.fail("POST", "/configmaps", status, times=20 if status != "drop" else 1, said={"message": "not today"})
    code, told = _probe(kubeconfig, port)

    assert (1, 1) == (code, told.count("\n"))
    assert said in told
    api.heal()
    assert (0, "") == _probe(kubeconfig, port)


def test_what_failed_is_tried_again_after_the_interval(
    api: FakeApi, kubeconfig: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program goes on, and says so once."""
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", sleep)
    api.fail("PATCH", "/nodes/n1/status", 403, said={"message": "not today"})
    result = run("advertise-bandwidth", "--kubeconfig", kubeconfig, "--node", "n1", "--speed", "1G", "--interval", 60)

    assert (130, "tierwise: not today\n") == (result.exit_code, result.stderr)
    assert "1000000000" == api.get("nodes", "n1", "")["status"]["capacity"][RESOURCE]
    assert all(54 <= wait <= 66 for wait in waits)


def test_the_node_gets_its_bandwidth_and_nothing_else_changes(api: FakeApi, kubeconfig: Path) -> None:
    """Other amounts may have changed since they were read; the second time there is nothing to write."""
    words = ("--kubeconfig", kubeconfig, "--node", "n2", "--speed", "10G", "--once")
    first = run("advertise-bandwidth", *words)
    run("advertise-bandwidth", *words)

    assert (0, "", "") == (first.exit_code, first.stdout, first.stderr)
    status = api.get("nodes", "n2", "")["status"]
    expected = {"cpu": "8", "pods": "110", RESOURCE: "10000000000"}
    assert expected == status["capacity"] == status["allocatable"]
    assert ["PATCH /api/v1/nodes/n2/status"] == _writes(api)
    assert [{"status": {field: {RESOURCE: "10000000000"} for field in ("capacity", "allocatable")}}] == api.bodies
    assert {"/api/v1/nodes/n2", "/api/v1/nodes/n2/status"} == {request.split()[1] for request in api.requests}


def test_a_node_that_does_not_exist_may_still_come(kubeconfig: Path) -> None:
    """No mistake of the command, hence status 1."""
    result = run("advertise-bandwidth", "--kubeconfig", kubeconfig, "--node", "n9", "--speed", "1G", "--once")

    assert (1, "tierwise: Node n9: there is no such node\n") == (result.exit_code, result.stderr)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--in-cluster", "--print"], "do not go with one"),
        (["--kubeconfig", "k", "-f", "nodes.yaml"], "do not go with one"),
        (["--kubeconfig", "/nowhere/kubeconfig"], "/nowhere/kubeconfig"),
        ([], "Say which cluster"),
    ],
)
def test_one_way_at_a_time(words: list[str], said: str) -> None:
    """Files and print, or a cluster that was asked for."""
    result = run("advertise-bandwidth", "--node", "n1", "--speed", "1G", "--once", *words)

    assert 2 == result.exit_code
    assert said in result.stderr


def test_measurements_reach_the_controllers(api: FakeApi) -> None:
    """Of the many ConfigMaps of a cluster the informers keep few, and these are among them."""
    with KubeCluster(Access(api.url)) as cluster:
        assert cluster.synced(timeout=60)
        api.put(_map(**{OTHERS.format("n2"): "7"}), _map(x="y") | {"metadata": {"name": "other"}})
        assert eventually(cluster, lambda: [MAP] == [c.metadata.name for c in cluster.read().every(ConfigMap).values()])
