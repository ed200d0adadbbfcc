"""Rights that are taken away are named in the log, one by one, and everything else goes on."""

from __future__ import annotations

import logging

import pytest
from tests.contract.fake_api import FakeApi
from tests.contract.manifests import pod, pod_group
from tests.contract.turns import World

from tierwise.kube.auth import Access
from tierwise.kube.cluster import KubeCluster

BESIDE = [pod_group("h", 1), pod("beside", group="h")]


@pytest.mark.parametrize(
    ("method", "path", "said"),
    [
        ("PATCH", "/podgroups/g", "PodGroup default/g"),
        ("PATCH", "/pods/huge", "Pod default/huge"),
        ("POST", "/pods/g0/binding", "Bind Pod default/g0"),
        ("POST", "/events", "an event is lost"),
        ("POST", r"/podgroups\?timeout", "Create PodGroup"),
    ],
)
def test_what_may_not_be_written_is_named(
    world: World, caplog: pytest.LogCaptureFixture, method: str, path: str, said: str
) -> None:
    """The object, and what the server says about the right; a pod that is not concerned is bound."""
    caplog.set_level(logging.WARNING)
    refusal = f"User tierwise may not {method} {path}"
    world.api.fail(method, path, 403, times=10**9, said={"reason": "Forbidden", "message": refusal})
    world.put(pod_group("g", 1), pod("g0", group="g"), pod("huge", cpu="99"), *BESIDE)
    world.turn()
    world.turn()

    assert [] != [record for record in caplog.messages if said in record and refusal in record]
    assert world.api.get("pods", "beside")["spec"].get("nodeName")


@pytest.mark.parametrize("verb", [r"\?limit", r"watch=true"])
def test_what_may_no_longer_be_read_is_named(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    """The kind, and what the server says about the right."""
    monkeypatch.setattr("tierwise.kube.reflector.pause", lambda *_, **__: 0.01)
    caplog.set_level(logging.WARNING)
    with FakeApi() as api:
        refusal = {"reason": "Forbidden", "message": "User tierwise may not read queues"}
        api.fail("GET", f"/queues.*{verb}", 403, times=3, said=refusal)
        with KubeCluster(Access(api.url)) as cluster:
            assert cluster.synced(timeout=60)
            while api.requests.count("GET /apis/scheduling.volcano.sh/v1beta1/queues") < 5:
                cluster.wait(cluster.read().version, 0.05)

    assert [] != [said for said in caplog.messages if said.startswith("queues: cannot be") and "may not read" in said]
