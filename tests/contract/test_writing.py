"""What a write does on the API server, and what becomes of it when answers are lost or refused."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import pytest
from tests.contract.fake_api import FakeApi, Json
from tests.contract.manifests import node, pod, pod_group
from tests.contract.waiting import eventually

from tierwise.api.core import Pod
from tierwise.api.volcano import PodGroup
from tierwise.kube.auth import Access
from tierwise.kube.cluster import KubeCluster
from tierwise.kube.errors import ApiError
from tierwise.port import Create, Delete, Effect, Evict, Key, Nominate, PatchStatus, RecordEvent

GROUP = Key("scheduling.volcano.sh", "PodGroup", "default", "g")
POD = Key("", "Pod", "default", "p0")


@pytest.fixture
def api() -> Iterator[FakeApi]:
    """A server with a pod that runs and a group."""
    with FakeApi() as found:
        status = {"phase": "Running", "counts": {"worker": 1, "gone": 2}}
        found.put(node("n0"), pod("p0", on="n0"), pod_group("g", 1, status))
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


def test_conditions_of_others_stay(api: FakeApi, cluster: KubeCluster) -> None:
    """Kubelets write conditions of a pod as well: ours comes beside theirs, or in place of our own."""
    ready = {"type": "Ready", "status": "True"}
    api.put({**api.get("pods", "p0"), "status": {"phase": "Running", "conditions": [ready]}})
    for word in ("first", "second"):
        told = {"type": "PodScheduled", "status": "False", "message": word}
        [outcome] = cluster.apply([PatchStatus(POD, {"conditions": [told]})])

        assert outcome.ok
        assert [ready, told] == api.get("pods", "p0")["status"]["conditions"]


def _deaf(api: FakeApi) -> None:
    """No watch tells anything from here on."""
    api.break_watches()
    api.fail("GET", "watch=true", "drop", times=100_000)


def test_what_was_written_is_read_at_once(api: FakeApi, cluster: KubeCluster) -> None:
    """Whoever reads after a write sees it, however far the watch is behind."""
    _deaf(api)
    cluster.apply([PatchStatus(GROUP, {"phase": "Inqueue"}), Create(pod_group("made", 1))])
    groups = cluster.read().every(PodGroup)

    assert ("Inqueue", True) == (groups["default/g"].status.phase, "default/made" in groups)


def test_deleted_pod_is_leaving_before_the_watch_says_so(api: FakeApi, cluster: KubeCluster) -> None:
    """As an evicted one is: its room is not given away a second time, and nobody deletes it again."""
    api.kubelet = False
    _deaf(api)
    cluster.apply([Delete(POD)])

    assert cluster.read().every(Pod)["default/p0"].metadata.deletion_timestamp


def test_nomination_is_taken_back_whatever_became_of_evictions(api: FakeApi, cluster: KubeCluster) -> None:
    """The field is gone on the server; only room that will not come is withheld, not its being given up."""
    api.put(pod("p1", nominated="n0"), pod("p2"))
    assert eventually(cluster, lambda: "default/p2" in cluster.read().every(Pod))
    api.fail("POST", "/eviction", 403)
    first, second = (Key("", "Pod", "default", name) for name in ("p1", "p2"))
    gang = "default/g"
    asked: list[Effect] = [
        Evict(POD, "preempted", gang, "preempt"),
        Nominate(first, "", gang=gang),
        Nominate(second, "n0", gang=gang),
    ]

    assert [False, True, False] == [outcome.ok for outcome in cluster.apply(asked)]
    assert [False, False] == ["nominatedNodeName" in api.get("pods", name)["status"] for name in ("p1", "p2")]


def test_secret_is_asked_for_again_while_the_refusal_may_pass(api: FakeApi, cluster: KubeCluster) -> None:
    """Its entries are decoded, and the line end that editors leave is no part of them."""
    api.put(_secret("default", "login", b"user\n"))
    api.fail("GET", "/secrets/login", 503, times=2, headers={"Retry-After": "0"})

    assert {"name": "user"} == cluster.secret("default", "login")


def test_name_of_a_secret_leads_nowhere_else(api: FakeApi, cluster: KubeCluster) -> None:
    """What somebody has written into a configuration is a name, and no path."""
    api.put(_secret("kube-system", "root", b"secret"))

    for namespace, name in (
        ("default", "../../kube-system/secrets/root"),
        ("default/../kube-system", "root"),
        ("kube-system/secrets/root?", "own"),
        ("kube-system", "root?own"),
    ):
        with pytest.raises(ApiError):
            cluster.secret(namespace, name)


def _secret(namespace: str, name: str, value: bytes) -> Json:
    data = {"name": base64.b64encode(value).decode()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": namespace}, "data": data}


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
        assert cluster.synced(timeout=60)
        tokens.append("Bearer new")
        api.fail("PATCH", "/podgroups/", 401, times=100, who="Bearer old")
        asked: list[Effect] = [PatchStatus(GROUP, {"phase": "Inqueue"})]

        assert [False, True] == [outcome.ok for _ in range(2) for outcome in cluster.apply(asked)]


def test_event_names_the_very_object(api: FakeApi, cluster: KubeCluster) -> None:
    """With its uid, so that `kubectl describe` finds it; what has no namespace is told of in the default one."""
    about = (POD, Key("", "Node", "", "n0"))
    cluster.apply([RecordEvent(key, "Normal", "Seen", "it was seen") for key in about])
    assert eventually(cluster, lambda: len(api.all("events")) == len(about))

    told = {event["involvedObject"]["kind"]: event for event in api.all("events")}
    uids = {"Pod": api.get("pods", "p0"), "Node": api.get("nodes", "n0", "")}
    assert {kind: raw["metadata"]["uid"] for kind, raw in uids.items()} == {
        kind: event["involvedObject"]["uid"] for kind, event in told.items()
    }
    assert {"default"} == {event["metadata"]["namespace"] for event in told.values()}
    assert "namespace" not in told["Node"]["involvedObject"]


def test_what_ends_the_connection_is_told_to_whoever_asks(api: FakeApi) -> None:
    """A defect in a thread of its own must not look like a cluster in which nothing happens."""

    def token() -> str:
        raise ArithmeticError("a defect")

    with KubeCluster(Access(api.url, token=token)) as cluster, pytest.raises(ArithmeticError, match="a defect"):
        cluster.synced(timeout=60)


def test_event_keeps_to_its_length(api: FakeApi, cluster: KubeCluster) -> None:
    """A long message is cut, and the decision that it ends with is still there."""
    cluster.apply([RecordEvent(POD, "Warning", "Unschedulable", "no room; " * 5_000, "d-1")])
    assert eventually(cluster, lambda: bool(api.all("events")))

    [event] = api.all("events")
    assert 8_000 < len(event["message"]) < 8_100
    assert event["message"].endswith(" (decision d-1)")
