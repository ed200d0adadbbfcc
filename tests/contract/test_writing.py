"""What a write does on the API server, and what becomes of it when answers are lost or refused."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.contract.fake_api import FakeApi
from tests.contract.manifests import node, pod, pod_group
from tests.contract.waiting import eventually

from tierwise.kube.auth import Access
from tierwise.kube.cluster import KubeCluster
from tierwise.port import Create, Delete, Effect, Evict, Key, PatchStatus, RecordEvent

GROUP = Key("scheduling.volcano.sh", "PodGroup", "default", "g")
POD = Key("", "Pod", "default", "p0")


@pytest.fixture
def api() -> Iterator[FakeApi]:
    """A server with a pod that runs and a group."""
    with FakeApi() as found:
        status = {"phase": "Running", "counts": {"worker": 1, "gone": 2}}
        found.put(node("n0"), pod("p0", on="n0"), pod_group("g", 1, status))
        yield found


@pytest.fixture
def cluster(api: FakeApi) -> Iterator[KubeCluster]:
    """A client of it that knows them."""
    with KubeCluster(Access(api.url)) as found:
        assert found.synced(timeout=10)
        yield found


@pytest.mark.parametrize("effect", [Evict(POD, "preempted", "default/g", "preempt"), Delete(POD)])
def test_who_goes_is_that_very_pod(api: FakeApi, cluster: KubeCluster, effect: Effect) -> None:
    """A pod that was made anew under the name of a victim stays."""
    made_anew = api.get("pods", "p0")
    api.silently({**made_anew, "metadata": {**made_anew["metadata"], "uid": "another"}})
    [outcome] = cluster.apply([effect])

    assert (False, "another") == (outcome.ok, api.get("pods", "p0")["metadata"]["uid"])


def test_field_of_a_status_is_replaced(api: FakeApi, cluster: KubeCluster) -> None:
    """What a field no longer holds is gone on the server as well, and other fields stay."""
    [outcome] = cluster.apply([PatchStatus(GROUP, {"counts": {"worker": 3}})])

    assert outcome.ok
    assert {"phase": "Running", "counts": {"worker": 3}} == api.get("podgroups", "g")["status"]


def test_creation_whose_answer_was_lost_has_happened(api: FakeApi, cluster: KubeCluster) -> None:
    """The second attempt meets the object of the first: that is a yes."""
    api.fail("POST", "/podgroups", "lose")
    [outcome] = cluster.apply([Create(pod_group("made", 1))])

    assert (True, 2) == (outcome.ok, len(api.all("podgroups")))


def test_object_of_somebody_else_is_not_created(api: FakeApi, cluster: KubeCluster) -> None:
    """Where the first answer says that the name is taken, it was taken by somebody else."""
    api.silently(pod_group("made", 7))
    [outcome] = cluster.apply([Create(pod_group("made", 1))])

    assert (False, 7) == (outcome.ok, api.get("podgroups", "made")["spec"]["minMember"])


def test_token_that_is_refused_is_asked_for_anew(api: FakeApi) -> None:
    """After a 401 the next request shows a fresh token, however young the old one is."""
    tokens = ["Bearer old"]
    with KubeCluster(Access(api.url, token=lambda: tokens[-1])) as cluster:
        assert cluster.synced(timeout=10)
        tokens.append("Bearer new")
        api.fail("PATCH", "/podgroups/", 401, times=100, who="Bearer old")
        asked: list[Effect] = [PatchStatus(GROUP, {"phase": "Inqueue"})]

        assert [False, True] == [outcome.ok for _ in range(2) for outcome in cluster.apply(asked)]


def test_event_keeps_to_its_length(api: FakeApi, cluster: KubeCluster) -> None:
    """A long message is cut, and the decision that it ends with is still there."""
    cluster.apply([RecordEvent(POD, "Warning", "Unschedulable", "no room; " * 5_000, "d-1")])
    assert eventually(cluster, lambda: bool(api.all("events")))

    [event] = api.all("events")
    assert 8_000 < len(event["message"]) < 8_100
    assert event["message"].endswith(" (decision d-1)")
