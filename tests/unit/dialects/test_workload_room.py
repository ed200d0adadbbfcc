"""How many pods of a namespace controllers make before some of them have started."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.support.koordinator import objects_of
from tests.support.languages import nodes, pod
from tests.support.workloads_of_v import PODS, WORKLOADS, workload

from tierwise.api import limits
from tierwise.api.codec import Raw
from tierwise.api.core import Pod
from tierwise.config.profile import DEFAULT
from tierwise.controllers import job as job_controller
from tierwise.controllers.job import pods
from tierwise.dialects.workloads import room
from tierwise.sim.cluster import rounds

SIX, TWO = (nodes({"s0": {"r0": "n0"}}, cpu=cpu) for cpu in (6, 2))
GANGS = set(WORKLOADS) - {"Deployment", "ReplicaSet", "StatefulSet", "ReplicationController", "Job", "JobSet"}


@pytest.fixture(autouse=True)
def _four(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four pods of a namespace wait at most."""
    for module in (room, job_controller, pods, limits):
        monkeypatch.setattr(module, "WAITING", 4)


def _many(kind: str, number: int) -> Raw:
    found = workload(kind)
    found["spec"] |= {"replicas": number}  # type: ignore[operator]
    return found


def _volcano_job(number: int, least: int = 1) -> Raw:
    task = {"name": "w", "replicas": number, "template": PODS}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "v", "namespace": "default", "uid": "v"},
        "spec": {"minAvailable": least, "tasks": [task]},
    }


def _end(*raws: Raw, cycles: int | None = None) -> tuple[Counter[str], list[str]]:
    """How many pods there are by phase, and what is told."""
    history = rounds.schedule(objects_of(list(raws)), DEFAULT, now=0.0, cycles=cycles)
    pods = history.cluster.read().every(Pod).values()
    return Counter(one.status.phase or "Pending" for one in pods), [fault.code for fault in history.complaints()]


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet", "ReplicationController"])
def test_further_pods_are_made_as_these_start(kind: str) -> None:
    """Two run in the end, and four wait for room; it is told."""
    assert ({"Running": 2, "Pending": 4}, ["TooManyWaitingPods"]) == _end(*TWO, _many(kind, 9))


@pytest.mark.parametrize(
    ("version", "spec"),
    [
        (
            "workloads.x-k8s.io/v1alpha2 RoleBasedGroup",
            {"roles": [{"name": "w", "replicas": 9, "standalonePattern": {"template": PODS}}]},
        ),
        (
            "workload.serving.volcano.sh/v1alpha1 ModelServing",
            {
                "schedulerName": "default-scheduler",
                "template": {"roles": [{"name": "w", "replicas": 9, "entryTemplate": PODS}]},
            },
        ),
        ("orchestration.aibrix.ai/v1alpha1 RoleSet", {"roles": [{"name": "w", "replicas": 9, "template": PODS}]}),
        (
            "nvidia.com/v1beta1 DynamoGraphDeployment",
            {"components": [{"name": "w", "replicas": 9, "podTemplate": PODS}]},
        ),
    ],
    ids=lambda value: value.rpartition(" ")[2] if isinstance(value, str) else "",
)
def test_further_pods_of_a_graph_are_made_as_these_start(version: str, spec: Raw) -> None:
    """Kinds of inference projects are charged as Kubernetes' own are."""
    api_version, _, kind = version.rpartition(" ")
    meta: Raw = {"name": "v", "namespace": "default", "uid": "v"}
    given: Raw = {"apiVersion": api_version, "kind": kind, "metadata": meta, "spec": spec}

    assert ({"Running": 2, "Pending": 4}, ["TooManyWaitingPods"]) == _end(*TWO, given)


@pytest.mark.parametrize(
    ("version", "spec"),
    [
        (
            "nvidia.com/v1beta1 DynamoGraphDeployment",
            {"components": [{"name": name, "replicas": 9, "podTemplate": PODS} for name in "ab"]},
        ),
        (
            "workload.serving.volcano.sh/v1alpha1 ModelServing",
            {
                "template": {
                    "gangPolicy": {"minRoleReplicas": {"a": 1, "b": 1}},
                    "roles": [{"name": name, "replicas": 9, "entryTemplate": PODS} for name in "ab"],
                }
            },
        ),
    ],
    ids=["DynamoGraphDeployment", "ModelServing"],
)
def test_what_a_graph_needs_is_made_before_the_rest(version: str, spec: Raw) -> None:
    """One of each component, and not as many of the first as may wait."""
    api_version, _, kind = version.rpartition(" ")
    meta: Raw = {"name": "v", "namespace": "default", "uid": "v"}
    found, told = _end(*TWO, {"apiVersion": api_version, "kind": kind, "metadata": meta, "spec": spec})

    assert ({"Running": 2, "Pending": 4}, ["TooManyWaitingPods"]) == (found, told)


def test_the_same_with_a_job_of_volcano() -> None:
    """Whose controller is tierwise's own."""
    assert ({"Running": 2, "Pending": 4}, ["TooManyWaitingPods"]) == _end(*TWO, _volcano_job(9))


def test_all_of_them_run_where_there_is_room() -> None:
    """They come four at a time."""
    assert {"Running": 6} == _end(*SIX, _many("Deployment", 6))[0]
    assert {"Running": 6} == _end(*SIX, _volcano_job(6))[0]


def test_what_a_gang_needs_to_start_is_made() -> None:
    """Six at once, though four may wait."""
    assert {"Running": 6} == _end(*SIX, _volcano_job(6, least=6))[0]


def test_the_minimum_of_a_gang_is_counted_before_its_pods_are_made() -> None:
    """Four may wait, and four more to complete a gang: of one of nine, and of a second one of four, none is made."""
    assert {"Pending": 8} == _end(*TWO, _volcano_job(8, least=8))[0]
    assert ({}, ["TooManyWaitingPods"]) == _end(*TWO, _volcano_job(9, least=9))
    crowd = [pod(f"c{i}", cpu=99) for i in range(5)]
    assert ({"Pending": 5}, ["TooManyWaitingPods"]) == _end(*TWO, *crowd, _volcano_job(4, least=4))
    assert {"Pending": 8} == _end(*TWO, *crowd, _volcano_job(3, least=3))[0]


def _grove(size: int, least: int, **template: object) -> Raw:
    clique = {"name": "w", "spec": {"replicas": size, "minAvailable": least, "podSpec": PODS["spec"]}}
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": "v", "namespace": "default", "uid": "v"},
        "spec": {"replicas": 2, "template": {"cliques": [clique], **template}},
    }


def test_every_replica_of_a_set_is_made_whole() -> None:
    """Each one has a gang that needs more pods than may wait, and room comes for the second as the first starts."""
    twelve = nodes({"s0": {"r0": "n0"}}, cpu=12)

    assert {"Running": 12} == _end(*twelve, _grove(6, least=6))[0]
    assert {"Running": 6} == _end(*SIX, _grove(3, least=3))[0]
    groups = [{"name": "g", "cliqueNames": ["w"], "replicas": 2, "minAvailable": 1}]
    assert {"Running": 20} == _end(
        *nodes({"s0": {"r0": "n0"}}, cpu=20), _grove(5, least=5, podCliqueScalingGroups=groups)
    )[0]


def test_further_pods_of_a_replica_keep_no_other_one_waiting() -> None:
    """Four of the first wait, one more than it needs; the three that the second needs are made beside them."""
    assert ({"Pending": 7}, ["TooManyWaitingPods"]) == _end(*TWO, _grove(9, least=3))


@pytest.mark.parametrize("number", [2, 5])
def test_so_is_that_of_an_operators_gang(number: int) -> None:
    """Beside seven pods that wait a gang of two is not made, however often it is declared."""
    crowd = [pod(f"c{i}", cpu=99) for i in range(7)]
    gangs = [workload("RayCluster") | {"metadata": {"name": f"g{i}", "namespace": "default"}} for i in range(number)]

    assert ({"Pending": 7}, ["TooManyWaitingPods"] * number) == _end(*SIX, *crowd, *gangs)


@pytest.mark.parametrize("kind", sorted(GANGS))
def test_gangs_of_operators_are_made_beside_a_crowd(kind: str) -> None:
    """Four pods wait that fit nowhere, and a gang starts beside them."""
    crowd = [pod(f"c{i}", cpu=99) for i in range(4)]

    assert 2 == _end(*SIX, *crowd, workload(kind))[0]["Running"]


def test_a_crowd_of_another_namespace_keeps_nobody_from_making_pods() -> None:
    """Each namespace has its own number."""
    crowd = [pod(f"c{i}", cpu=99, namespace="evil") for i in range(9)]

    assert 2 == _end(*SIX, *crowd, _many("Deployment", 2))[0]["Running"]
