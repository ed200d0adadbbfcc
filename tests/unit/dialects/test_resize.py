"""Pods that are resized in place are counted as Kubernetes counts them."""

from __future__ import annotations

from typing import Any

import pytest

from tierwise.api import codec
from tierwise.api.core import Pod
from tierwise.dialects.kubernetes.requests import counted, effective_request
from tierwise.port import Objects
from tierwise.snapshot.builder import Reader, build


def _raw(asked: str, given: str, has: str, *, reason: str = "", sidecar: bool = False) -> codec.Raw:
    container: dict[str, Any] = {"name": "c", "resources": {"requests": {"cpu": asked}}}
    status = {"name": "c", "allocatedResources": {"cpu": given}, "resources": {"requests": {"cpu": has}}}
    spec: dict[str, Any] = {"nodeName": "n0", "containers": [container]}
    if sidecar:
        spec = {"nodeName": "n0", "initContainers": [container | {"restartPolicy": "Always"}]}
    conditions = [{"type": "PodResizePending", "status": "True", "reason": reason}] if reason else []
    statuses = {"initContainerStatuses" if sidecar else "containerStatuses": [status]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": spec,
        "status": {"phase": "Running", "conditions": conditions, **statuses},
    }


@pytest.mark.parametrize("sidecar", [False, True])
@pytest.mark.parametrize(
    ("asked", "given", "has", "reason", "cpu"),
    [
        ("1", "3", "3", "", 3000),  # shrinks
        ("3", "1", "1", "", 3000),  # grows
        ("3", "1", "1", "Deferred", 3000),
        ("1", "1", "2", "", 2000),
        ("100", "1", "1", "Infeasible", 1000),
        ("100", "1", "2", "Infeasible", 2000),
        ("1", "1", "1000m", "", 1000),
    ],
)
def test_the_most_of_asked_allocated_and_actual_counts(
    asked: str, given: str, has: str, reason: str, cpu: int, *, sidecar: bool
) -> None:
    """What can never be given does not count."""
    pod: Pod = codec.decode(_raw(asked, given, has, reason=reason, sidecar=sidecar))

    assert {"cpu": cpu} == effective_request(counted(pod))


def test_a_pod_that_has_what_it_asks_for_keeps_its_record() -> None:
    """So do pods without a status, and most others."""
    pod: Pod = codec.decode(_raw("1", "1", "1"))

    assert counted(pod) is pod.spec


def test_the_whole_pod_is_counted_likewise() -> None:
    """Its status says what the node gives it."""
    raw = _raw("1", "1", "1")
    raw["spec"] = {"nodeName": "n0", "containers": [], "resources": {"requests": {"cpu": "1"}}}
    raw["status"] = {"resources": {"requests": {"cpu": "4"}}, "allocatedResources": {"cpu": "3"}}

    assert {"cpu": 4000} == effective_request(counted(codec.decode(raw)))


def test_a_reader_follows_a_resize() -> None:
    """What a pod holds changes with its status alone."""
    node: codec.Raw = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n0"}}
    node["status"] = {"allocatable": {"cpu": "8", "pods": "9"}}
    reader = Reader()
    for given in ("1", "3", "2", "1"):
        objects = Objects.of((codec.decode(raw), raw) for raw in (node, _raw("1", given, given)))
        held = reader.read(objects, 0.0).others[0].shape.request[0]

        assert 1000 * int(given) == held == build(objects, 0.0).others[0].shape.request[0]
