"""What `kubectl describe` asks for: why pods wait, where they are, and what nodes report of themselves."""

from __future__ import annotations

import pytest
from tests.support.playground import START, Json, Playground, nodes

from tierwise.sim.cluster.pod_behaviour import PodSpeed


def _pod(name: str = "p", cpu: str = "1", **spec: object) -> Json:
    containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": containers, **spec},
    }


def _gang(size: int) -> Json:
    task = {"name": "w", "replicas": size, "template": {"spec": _pod(restartPolicy="Never")["spec"]}}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "g"},
        "spec": {"minAvailable": size, "tasks": [task]},
    }


def _scheduled(pod: Json) -> Json:
    found: Json = next(one for one in pod["status"]["conditions"] if one["type"] == "PodScheduled")
    return found


def _events(ground: Playground, name: str) -> list[tuple[str, str]]:
    listed = ground.list("v1/events")
    return [(one["reason"], one["message"]) for one in listed if one["involvedObject"]["name"] == name]


@pytest.mark.parametrize(
    ("path", "raw", "name"),
    [("v1/pods", _pod(cpu="9"), "p"), ("batch.volcano.sh/v1alpha1/jobs", _gang(5), "g-w-0")],
    ids=["alone", "in a gang"],
)
def test_a_pod_that_waits_is_told_why(path: str, raw: Json, name: str) -> None:
    """By its condition and by an event, once, alone and in a gang; and told otherwise once it has a node."""
    ground = Playground(nodes("n0"))
    ground.create(path, raw)
    ground.live(3)

    told, events = _scheduled(ground.get("v1/pods", name)), _events(ground, name)
    ground.create("v1/nodes", nodes("n1", cpu="16")[0])
    ground.live(3)

    assert ("False", "Unschedulable") == (told["status"], told["reason"])
    assert [("FailedScheduling", told["message"])] == events
    assert "True" == _scheduled(ground.get("v1/pods", name))["status"]
    assert "Scheduled" in [reason for reason, _ in _events(ground, name)]


def test_pods_that_run_have_addresses_of_their_own() -> None:
    """Each another one, kept as long as it lives; one in the network of its node has that of the node."""
    ground = Playground(nodes("n0"))
    for raw in (_pod("a"), _pod("b"), _pod("h", hostNetwork=True)):
        ground.create("v1/pods", raw)
    before = [ground.get("v1/pods", name)["status"].get("podIP") for name in "abh"]
    ground.live()
    a, b, h = (ground.get("v1/pods", name)["status"] for name in "abh")
    ground.patch("v1/pods", "a", {"metadata": {"labels": {"x": "y"}}})
    node = ground.get("v1/nodes", "n0")["status"]["addresses"]

    assert [None] * 3 == before
    assert 3 == len({a["podIP"], b["podIP"], h["podIP"]})
    assert {"type": "InternalIP", "address": h["podIP"]} in node
    assert {a["hostIP"], b["hostIP"]} == {h["podIP"]}
    assert a["podIP"] == ground.get("v1/pods", "a")["status"]["podIP"]


def test_nodes_report_what_they_are_and_that_they_live() -> None:
    """System info, a lease that is renewed, and heartbeats; a node that is not ready renews nothing."""
    lost = nodes("n1")[0]
    lost["status"]["conditions"][0]["status"] = "False"
    ground = Playground([*nodes("n0"), lost])

    due = ground.cluster.beat(START)
    first = ground.get("v1/nodes", "n0")["status"]
    assert START + 1 < due == ground.cluster.beat(START + 1)
    ground.cluster.beat(due)
    second = ground.get("v1/nodes", "n0")["status"]

    assert ["n0"] == [
        one["metadata"]["name"] for one in ground.list("coordination.k8s.io/v1/leases", "kube-node-lease")
    ]
    assert "linux" == first["nodeInfo"]["operatingSystem"]
    assert first["conditions"][0]["lastHeartbeatTime"] < second["conditions"][0]["lastHeartbeatTime"]
    assert first["conditions"][0]["lastTransitionTime"] == second["conditions"][0]["lastTransitionTime"]


def test_pods_that_are_meant_to_end_do_so() -> None:
    """After the time that the cluster has for them; others run on."""
    ground = Playground(nodes("n0"), timing=PodSpeed(run=20))
    ground.create("v1/pods", _pod("ends", restartPolicy="Never"))
    ground.create("v1/pods", _pod("stays"))
    ground.live(30)

    assert ["Succeeded", "Running"] == [ground.get("v1/pods", name)["status"]["phase"] for name in ("ends", "stays")]


def test_what_keeps_a_pod_waiting_is_told_when_it_is_made() -> None:
    """As a warning, for a pod is nobody's to refuse; one that is as usual gets none."""
    ground = Playground(nodes("n0"))
    doubtful = {**_pod(), "metadata": {"name": "p", "annotations": {"tierwise.io/topology-ladder": "soon"}}}

    (told,) = ground.answer("v1/pods", doubtful).warnings
    assert told.startswith("metadata.annotations[tierwise.io/topology-ladder]: ")
    assert () == tuple(ground.answer("v1/pods", _pod("q")).warnings)
