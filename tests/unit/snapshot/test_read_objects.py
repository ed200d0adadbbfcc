"""What is read of nodes and pods, where their manifests can be understood in two ways."""

from __future__ import annotations

from typing import Any

import pytest

from tierwise.api import codec
from tierwise.api.core import format_time
from tierwise.model.job import Status, Task
from tierwise.port import Objects
from tierwise.snapshot.builder import build

NOW = 100_000.0
POD: Any = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "namespace": "default", "creationTimestamp": format_time(NOW - 50)},
    "spec": {"schedulerName": "tierwise", "containers": [{"name": "c"}]},
}


def _node(**status: Any) -> Any:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n0"}, "status": status}


def _tasks(metadata: Any = None, spec: Any = None, status: Any = None) -> list[Task]:
    """The tasks of the cluster where a pod has these fields besides."""
    parts = {"metadata": metadata, "spec": spec, "status": status}
    raw = {**POD, **{name: {**POD.get(name, {}), **(fields or {})} for name, fields in parts.items()}}
    node = _node(allocatable={"cpu": "4", "pods": "10"})
    snapshot = build(Objects.of((codec.decode(one), one) for one in (node, raw)), NOW)
    return [*(task for job in snapshot.jobs for task in job.tasks), *snapshot.others]


@pytest.mark.parametrize(
    ("status", "cpus"),
    [
        ({"allocatable": {"cpu": "3"}, "capacity": {"cpu": "4"}}, 3000),
        ({"capacity": {"cpu": "4"}}, 4000),
        ({"allocatable": {"cpu": "3"}}, 3000),
    ],
)
def test_what_is_kept_for_the_system_is_not_given_away(status: Any, cpus: int) -> None:
    """A node has what can be allocated; only where it does not say so, all that it has."""
    node = _node(**status)
    snapshot = build(Objects.of([(codec.decode(node), node)]), NOW)

    assert [cpus] == snapshot.nodes.allocatable[snapshot.axis.index["cpu"]].tolist()


@pytest.mark.parametrize(("status", "since"), [({"startTime": format_time(NOW - 9)}, NOW - 9), ({}, NOW - 50)])
def test_a_pod_runs_since_its_start_or_else_since_it_was_made(status: Any, since: float) -> None:
    """A pod that a kubelet has not told about yet has not run since the beginning of time."""
    (task,) = _tasks(spec={"nodeName": "n0"}, status={"phase": "Running", **status})

    assert since == task.started


@pytest.mark.parametrize(("spec", "grace"), [({}, 30), ({"terminationGracePeriodSeconds": 0}, 0)])
def test_a_deletion_was_asked_for_its_grace_before_its_time(spec: Any, grace: int) -> None:
    """Of half a minute where the pod does not say, and of none where it says so."""
    leaving = {"deletionTimestamp": format_time(NOW)}
    (task,) = _tasks(leaving, {"nodeName": "n0", **spec}, {"phase": "Running"})

    assert (Status.RELEASING, NOW - grace) == (task.status, task.deleted)


def test_a_pod_that_goes_before_it_had_a_node_is_no_task() -> None:
    """Nobody places it, and no gang waits for it."""
    leaving = {"deletionTimestamp": format_time(NOW)}

    assert [Status.PENDING] == [task.status for task in _tasks()]
    assert [] == _tasks(leaving)
    assert [] == _tasks(leaving, {"schedulingGates": [{"name": "later"}]})
