"""What a store knows follows the API server, whatever happens to lists and watches."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from tests.contract.fake_api import FakeApi
from tests.contract.manifests import node, pod, pod_group
from tests.contract.waiting import eventually

from tierwise.api.codec import Raw
from tierwise.api.core import ConfigMap, Node, Pod
from tierwise.api.volcano import Queue
from tierwise.kube.auth import Access
from tierwise.kube.cluster import ClusterOptions, KubeCluster
from tierwise.port import Key, PatchStatus


@pytest.fixture
def api() -> Iterator[FakeApi]:
    """A server with a few objects."""
    with FakeApi() as found:
        found.put(node("n0"), pod("p0"))
        yield found


def _pods(cluster: KubeCluster) -> list[str]:
    return [path.removeprefix("default/") for path in cluster.read().every(Pod)]


def test_events_reach_readers(api: FakeApi, cluster: KubeCluster) -> None:
    """What others create, change and delete is known a moment later."""
    api.put(pod("p1"), node("n1"))
    assert eventually(cluster, lambda: _pods(cluster) == ["p0", "p1"] and "n1" in cluster.read().every(Node))
    api.put(pod("p1", on="n1"))
    assert eventually(cluster, lambda: cluster.read().every(Pod)["default/p1"].spec.node_name == "n1")
    api.remove("pods", "p0", "default")
    assert eventually(cluster, lambda: _pods(cluster) == ["p1"])


def test_lists_come_in_pages(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list that does not fit a page is put together from several."""
    monkeypatch.setattr("tierwise.kube.reflector._PAGE", "2")
    api.put(*(pod(f"q{i}") for i in range(6)))
    with KubeCluster(Access(api.url)) as cluster:
        assert cluster.synced(timeout=60)

        assert 7 == len(_pods(cluster))


def test_broken_watch_goes_on_where_it_was(api: FakeApi, cluster: KubeCluster) -> None:
    """After a broken connection nothing is listed again, and nothing is missed."""
    lists = sum(request == "GET /api/v1/pods" for request in api.requests)
    api.break_watches()
    api.put(pod("p1"))

    assert eventually(cluster, lambda: _pods(cluster) == ["p0", "p1"])
    watches = sum(request == "GET /api/v1/pods" for request in api.requests) - lists
    assert watches <= 2  # one more watch, no list


def test_old_version_is_listed_again_by_difference(api: FakeApi, cluster: KubeCluster) -> None:
    """410: everything is listed anew, what is gone goes, and what is the same stays the same record."""
    before = cluster.read().every(Node)["n0"]
    api.silently(pod("p1"))
    api._objects.pop(("pods", "default", "p0"))
    api.forget_history()
    api.break_watches()

    assert eventually(cluster, lambda: _pods(cluster) == ["p1"])
    assert before is cluster.read().every(Node)["n0"]


def test_bookmarks_keep_a_quiet_watch_from_growing_old(api: FakeApi, cluster: KubeCluster) -> None:
    """Of a kind that nobody changes, a watch goes on from the last bookmark: no list, though its history is gone."""
    api.put(pod("p1"))
    api.forget_history()
    begun = time.monotonic()
    api.bookmark()
    assert eventually(cluster, lambda: time.monotonic() - cluster.figures().lag["Node"] >= begun)
    asked = api.requests.count("GET /api/v1/nodes")
    api.break_watches()
    api.put(node("n1"))
    assert eventually(cluster, lambda: "n1" in cluster.read().every(Node))

    assert 1 == api.requests.count("GET /api/v1/nodes") - asked  # one more watch, no list


def test_server_without_an_answer_is_waited_for(api: FakeApi) -> None:
    """Refusals, dropped connections and half answers while starting are waited out."""
    api.fail("GET", "^/api/v1$", 503, headers={"Retry-After": "0"})
    api.fail("GET", "/api/v1/pods", 429, headers={"Retry-After": "0"})
    api.fail("GET", "/api/v1/pods", "half")
    api.fail("GET", "/api/v1/nodes", "drop")
    api.fail("GET", "/podgroups", 500)
    with KubeCluster(Access(api.url)) as cluster:
        assert cluster.synced(timeout=60)

        assert ["p0"] == _pods(cluster)


def test_line_that_comes_in_pieces_is_one(api: FakeApi, cluster: KubeCluster) -> None:
    """An event larger than what is read at once is put together, and so is what comes after it."""
    long = pod("long")
    long["metadata"]["annotations"] = {"note": "x" * 1_000_000}
    api.put(long)
    api.put(pod("short"))

    assert eventually(cluster, lambda: _pods(cluster) == ["long", "p0", "short"])


def test_watch_that_has_shown_something_rests(
    api: FakeApi, cluster: KubeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes meanwhile is taken up together, and watches of other kinds do not wait for it."""
    monkeypatch.setattr("tierwise.kube.reflector._REST", 3600.0)
    api.put(pod("p1"))
    assert eventually(cluster, lambda: _pods(cluster) == ["p0", "p1"])
    api.put(pod("p2"))
    api.put(node("n1"))
    assert eventually(cluster, lambda: "n1" in cluster.read().every(Node))

    assert ["p0", "p1"] == _pods(cluster)


def test_watch_that_is_refused_again_and_again_is_begun_ever_later(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Something refuses it again and again: the pauses count up, and the last attempt goes on where the first was."""
    attempts: list[int] = []

    def pause(attempt: int, **_: float) -> float:
        attempts.append(attempt)
        return 0.0

    monkeypatch.setattr("tierwise.kube.reflector.pause", pause)
    monkeypatch.setattr("tierwise.kube.reflector._SHORTEST", 1e9)  # however slow this machine is
    api.fail("GET", r"/pods\?.*watch=true", 500, times=5)
    with KubeCluster(Access(api.url)) as cluster:
        assert cluster.synced(timeout=60)
        api.put(pod("p1"))

        assert eventually(cluster, lambda: _pods(cluster) == ["p0", "p1"])
        assert [1, 2, 3, 4, 5] == attempts


def test_kind_that_is_installed_later_is_followed(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    """Definitions may come after the scheduler."""
    monkeypatch.setattr("tierwise.kube.cluster._LATE", 0.05)
    api.unserved.add("queues")
    with KubeCluster(Access(api.url)) as cluster:
        assert cluster.synced(timeout=60)
        api.put({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "q"}})
        assert not cluster.read().every(Queue)
        api.unserved.clear()

        assert eventually(cluster, lambda: "q" in cluster.read().every(Queue))


@pytest.mark.parametrize("first", [set[str](), {"podgroups"}], ids=["loses", "gains"])
def test_statuses_follow_a_definition_that_changes(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch, first: set[str]
) -> None:
    """A status path that comes or goes under us: statuses are written where the server keeps them now."""
    monkeypatch.setattr("tierwise.kube.cluster._LATE", 0.05)
    api.plain |= first
    api.put(pod_group("g", 1))
    key = Key("scheduling.volcano.sh", "PodGroup", "default", "g")
    with KubeCluster(Access(api.url)) as cluster:
        assert cluster.synced(timeout=60)
        assert cluster.apply([PatchStatus(key, {"phase": "Pending"})])[0].ok
        assert "Pending" == api.get("podgroups", "g")["status"]["phase"]
        api.plain ^= {"podgroups"}

        def written() -> bool:
            cluster.apply([PatchStatus(key, {"phase": "Running"})])
            return bool("Running" == api.get("podgroups", "g")["status"]["phase"])

        assert eventually(cluster, written)


def test_lists_after_410_are_paced(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that forgets at once what it has just said is asked for lists with growing pauses."""
    attempts: list[int] = []

    def pause(attempt: int, **_: float) -> float:
        attempts.append(attempt)
        return 0.0

    monkeypatch.setattr("tierwise.kube.reflector.pause", pause)
    api.fail("GET", r"/pods\?.*watch=true", 410, times=5)
    with KubeCluster(Access(api.url)) as cluster:
        assert cluster.synced(timeout=60)
        api.put(pod("p1"))

        assert eventually(cluster, lambda: [0, 1, 2, 3, 4] == attempts), attempts
        assert eventually(cluster, lambda: _pods(cluster) == ["p0", "p1"])


def test_check_finds_what_the_watch_missed(api: FakeApi) -> None:
    """A change of which no event came is found by the next check, and counted."""
    with KubeCluster(Access(api.url), ClusterOptions(check_every=0.05)) as cluster:
        assert cluster.synced(timeout=60)
        api.silently(pod("p1"))
        api.put(node("n1"))
        api.put(pod("p2"))

        assert eventually(cluster, lambda: _pods(cluster) == ["p0", "p1", "p2"])


def test_objects_that_cannot_be_read_are_left_out(api: FakeApi) -> None:
    """One broken object does not keep the others from being seen."""
    broken = pod("bad")
    broken["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "many"
    api.put(broken)
    with KubeCluster(Access(api.url)) as cluster:
        assert cluster.synced(timeout=60)

        assert ["p0"] == _pods(cluster)


def test_the_network_is_described_in_trusted_namespaces_alone(api: FakeApi) -> None:
    """Whoever may write ConfigMaps elsewhere does not shape the tree; measurements are taken from anywhere."""
    api.put(_described("x-controller-configmap", "tierwise"), _described("x-controller-configmap", "somebody"))
    api.put(_described("measured", "somebody", entry="netperf.p50"))
    with KubeCluster(Access(api.url), ClusterOptions(trusted=frozenset({"tierwise"}))) as cluster:
        assert cluster.synced(timeout=60)
        kept = set(cluster.read().every(ConfigMap))

    assert {"tierwise/x-controller-configmap", "somebody/measured"} == kept


def test_what_is_no_longer_of_interest_goes(api: FakeApi, cluster: KubeCluster) -> None:
    """A ConfigMap that held measurements and holds none any more is not kept as it was."""
    api.put(_described("measured", "somebody", entry="netperf.p50"))
    assert eventually(cluster, lambda: "somebody/measured" in cluster.read().every(ConfigMap))
    api.put(_described("measured", "somebody", entry="other"))

    assert eventually(cluster, lambda: "somebody/measured" not in cluster.read().every(ConfigMap))


def _described(name: str, namespace: str, entry: str = "volcano-controller.conf") -> Raw:
    meta = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {entry: "x"}}
