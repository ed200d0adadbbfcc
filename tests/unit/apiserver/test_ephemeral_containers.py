"""Ephemeral containers: what `kubectl debug` adds to a pod that is there."""

from __future__ import annotations

import pytest
from tests.support.playground import Json, Playground, nodes

from tierwise.apiserver.failures import ApiFailure
from tierwise.apiserver.objects import ObjectApi

POD: Json = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}


@pytest.fixture
def ground() -> Playground:
    """A pod that runs."""
    found = Playground(nodes("n0"))
    found.create("v1/pods", POD)
    found.live()
    return found


def _debug(ground: Playground, *containers: Json) -> Json:
    patch = {"spec": {"ephemeralContainers": list(containers)}}
    place = ground.place("v1/pods", "p")
    return ground.api.debug_patch(place, patch, ObjectApi.STRATEGIC_PATCH, {"fieldManager": "kubectl-debug"}).body


def test_a_container_is_added_and_runs(ground: Playground) -> None:
    """A second one is added beside it, and the pod runs as before; both are gone with the pod alone."""
    _debug(ground, {"name": "look", "image": "busybox"})
    _debug(ground, {"name": "again", "image": "busybox", "targetContainerName": "c"})
    ground.live()
    pod = ground.get("v1/pods", "p")

    assert ["look", "again"] == [one["name"] for one in pod["spec"]["ephemeralContainers"]]
    shown = pod["status"]["ephemeralContainerStatuses"]
    assert ["look", "again"] == [one["name"] for one in shown]
    assert ["running"] == list(shown[0]["state"])
    assert "Running" == pod["status"]["phase"]


@pytest.mark.parametrize(
    ("container", "said"),
    [
        ({"name": "c", "image": "busybox"}, 'there is another container "c"'),
        (
            {"name": "x", "image": "b", "resources": {"limits": {"cpu": "1"}}},
            "cannot be set for an Ephemeral Container",
        ),
        ({"name": "x", "image": "b", "ports": [{"containerPort": 1}]}, "cannot be set for an Ephemeral Container"),
        ({"name": "look", "image": "other"}, "may not be removed or changed"),
    ],
)
def test_what_kubernetes_refuses_is_refused(ground: Playground, container: Json, said: str) -> None:
    """A name that is taken, room of its own, and another image for one that runs."""
    _debug(ground, {"name": "look", "image": "busybox"})

    with pytest.raises(ApiFailure) as refused:
        _debug(ground, container)
    assert 422 == refused.value.code
    assert said in f"{refused.value.message} {refused.value.details}"


def test_they_come_by_their_own_path_alone(ground: Playground) -> None:
    """A change of the pod itself may not bring them, and at their path nothing else is changed."""
    patch = {"spec": {"ephemeralContainers": [{"name": "look", "image": "b"}]}}
    with pytest.raises(ApiFailure, match="may not change fields"):
        ground.patch("v1/pods", "p", patch, ObjectApi.STRATEGIC_PATCH)

    place = ground.place("v1/pods", "p")
    both = {**patch, "metadata": {"labels": {"a": "b"}}}
    changed = ground.api.debug_patch(place, both, ObjectApi.STRATEGIC_PATCH, {}).body
    assert ground.get("v1/pods", "p")["metadata"].get("labels") is None
    assert [{"name": "look", "image": "b"}] == changed["spec"]["ephemeralContainers"]  # type: ignore[index]
