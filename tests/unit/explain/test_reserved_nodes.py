"""Whether `explain` and the cycle agree about nodes that nominated pods have reserved, or leaving pods still use."""

from __future__ import annotations

import pytest
from tests.support.services import Raw, objects

from tierwise.config.kube import read_kube
from tierwise.config.profile import DEFAULT, Profile
from tierwise.sim.cluster.rounds import look, schedule

KUBE = read_kube({"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"})
NODE: Raw = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}}
NODE |= {"status": {"allocatable": {"cpu": "2", "pods": "110"}}}


def _pod(name: str, priority: int = 0, *, nominated: str = "", on: str = "", leaving: bool = False) -> Raw:
    meta: Raw = {"name": name, "namespace": "default", "uid": name}
    if leaving:
        meta["deletionTimestamp"] = "2026-01-01T02:00:00Z"
    resources = {"requests": {"cpu": "2"}}
    spec: Raw = {"priority": priority, "containers": [{"name": "c", "image": "i", "resources": resources}]}
    status: Raw = {"phase": "Pending", "nominatedNodeName": nominated} if not on else {"phase": "Running"}
    if on:
        spec["nodeName"] = on
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": status}


def _seen(profile: Profile, *pods: Raw) -> tuple[bool, bool]:
    """Whether the node takes the pod p, and whether now."""
    inspection, _ = look(objects(NODE, *pods), profile, "default/p", now=0.0)
    assert inspection is not None
    (node,) = inspection.nodes
    return node.feasible, node.now


@pytest.mark.parametrize(
    ("profile", "other", "expected"),
    [
        (KUBE, 0, (True, True)),
        (KUBE, 50, (False, False)),
        (KUBE, 100, (False, False)),
        (DEFAULT, 0, (False, False)),
    ],
)
def test_a_node_of_a_nominated_pod_is_shown_as_it_is_given(
    profile: Profile, other: int, expected: tuple[bool, bool]
) -> None:
    """Only the more important pod of a profile that preempts at once may have it, and `explain` says the same."""
    pods = [_pod("nominated", other, nominated="a"), _pod("p", 50)]
    bound = schedule(objects(NODE, *pods), profile, now=0.0, cycles=1).bindings

    assert expected == _seen(profile, *pods)
    assert expected[1] == ("default/p" in bound)


@pytest.mark.parametrize("profile", [KUBE, DEFAULT])
def test_a_nominated_pod_sees_its_own_node_free(profile: Profile) -> None:
    """What is reserved for it is not in its way."""
    pods = [_pod("p", 0, nominated="a")]

    assert (True, True) == _seen(profile, *pods)
    assert {"default/p": "a"} == schedule(objects(NODE, *pods), profile, now=0.0, cycles=1).bindings


@pytest.mark.parametrize("profile", [KUBE, DEFAULT])
def test_a_node_of_a_leaving_pod_is_taken_later(profile: Profile) -> None:
    """The pod is nominated at most, so the node takes it, and not now."""
    pods = [_pod("old", 0, on="a", leaving=True), _pod("p", 0)]

    assert (True, False) == _seen(profile, *pods)
    assert {} == schedule(objects(NODE, *pods), profile, now=0.0, cycles=1).bindings
