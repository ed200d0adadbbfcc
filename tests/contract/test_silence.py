"""A server that says nothing any more without closing a connection: nobody waits for it for ever, and health tells."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.contract.fake_api import FakeApi
from tests.contract.manifests import node, pod
from tests.contract.waiting import eventually

from tierwise.api.core import Pod
from tierwise.kube.auth import Access
from tierwise.kube.cluster import KubeCluster
from tierwise.kube.transport import WaitLimits


@pytest.fixture
def api() -> Iterator[FakeApi]:
    """A server with a few objects."""
    with FakeApi() as found:
        found.put(node("n0"), pod("p0"))
        yield found


def test_watch_that_falls_silent_is_begun_again(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    """What happens behind a connection that was lost without a word is known all the same, without another list."""
    with KubeCluster(Access(api.url)) as cluster:
        assert cluster.synced(timeout=60)
        api.put(pod("p1"))
        assert eventually(cluster, lambda: "default/p1" in cluster.read().every(Pod))
    monkeypatch.setattr("tierwise.kube.client._STREAM", WaitLimits(head=60.0, part=0.2))
    with KubeCluster(Access(api.url)) as cluster:
        assert cluster.synced(timeout=60)
        api.put(pod("p2"))
        assert eventually(cluster, lambda: "default/p2" in cluster.read().every(Pod))
        lists = api.requests.count("GET /api/v1/pods")
        api.mute_watches()
        api.put(pod("p3"))

        assert eventually(cluster, lambda: "default/p3" in cluster.read().every(Pod))
        assert lists < api.requests.count("GET /api/v1/pods")


def test_watch_that_is_never_answered_is_begun_again(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    """The head of an answer is waited for with a limit, too."""
    monkeypatch.setattr("tierwise.kube.client._STREAM", WaitLimits(head=0.2, part=60.0))
    api.fail("GET", r"/pods\?.*watch=true", "freeze")
    with KubeCluster(Access(api.url)) as cluster:
        assert cluster.synced(timeout=60)
        assert api.frozen.wait(60)
        api.put(pod("p1"))

        assert eventually(cluster, lambda: "default/p1" in cluster.read().every(Pod))
        api.thaw()


def test_list_that_is_never_answered_is_asked_for_again(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over another connection, long before the time for a whole list is over."""
    monkeypatch.setattr("tierwise.kube.client._PAGE", WaitLimits(head=0.2, part=60.0, whole=600.0))
    api.fail("GET", r"/pods\?limit", "freeze")
    with KubeCluster(Access(api.url)) as cluster:
        assert cluster.synced(timeout=60)

        assert ["default/p0"] == list(cluster.read().every(Pod))
        api.thaw()


def test_deaf_is_who_has_heard_nothing_for_too_long(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    """Health names the kind; a server that refuses is heard, because whoever takes over would hear the same."""
    with KubeCluster(Access(api.url)) as cluster:
        assert cluster.synced(timeout=60)
        assert "" == cluster.deaf()
        monkeypatch.setattr("tierwise.kube.cluster._DEAF", -1.0)

        assert cluster.deaf().startswith("nothing was heard of ")
        monkeypatch.undo()
        assert "" == cluster.deaf()


def test_refusals_are_heard(api: FakeApi) -> None:
    """A kind that may no longer be listed does not make others take over: they may not, either."""
    api.fail("GET", r"/queues\?limit", 403, times=10**9, said={"message": "queues is forbidden"})
    with KubeCluster(Access(api.url)) as cluster:
        assert eventually(cluster, lambda: api.requests.count("GET /apis/scheduling.volcano.sh/v1beta1/queues") > 1)

        assert "" == cluster.deaf()
