"""Gangs of languages whose objects do not remember whether they were whole: the auditor reads it off their pods."""

from __future__ import annotations

from typing import Any

from tests.support.languages import grove_gang, kueue_gang, nodes, objects_of, pod

from tierwise.api.codec import Raw
from tierwise.audit import audit

NODES = nodes({"s0": {"r0": "n0 n1", "r1": "n2 n3"}}, cpu=8)


def found(*raws: Raw) -> list[tuple[str, str]]:
    """The rules that are broken, and by whom."""
    return [(one.rule, one.subject) for one in audit(objects_of(NODES, list(raws)))]


def workload(name: str, admitted: int) -> Raw:
    """A Workload of which so many pods are admitted."""
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "Workload",
        "metadata": {"name": name},
        "spec": {"podSets": [{"name": "main", "count": 4}]},
        "status": {"admission": {"podSetAssignments": [{"name": "main", "count": admitted}]}},
    }


def members(on: str, waiting: int, **marks: Any) -> list[Raw]:
    """One pod that stands, and some that wait."""
    return [pod("w-0", on=on, **marks), *(pod(f"w-{i + 1}", **marks) for i in range(waiting))]


def test_half_of_a_workload_is_found() -> None:
    """The pods that Kueue admitted together stand together."""
    marks: dict[str, Any] = {"annotations": {"kueue.x-k8s.io/workload": "w"}}

    assert [("part-of-gang", "pod group default/w")] == found(workload("w", 3), *members("n0", 2, **marks))
    assert [] == found(workload("w", 1), *members("n0", 2, **marks))


def test_half_of_a_job_that_asks_for_a_topology_is_found() -> None:
    """Without Kueue, the pods of a Job with its annotations are one gang."""
    owner = [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "j", "controller": True}]
    marks: dict[str, Any] = {
        "annotations": {"kueue.x-k8s.io/podset-required-topology": "example.com/rack"},
        "ownerReferences": owner,
    }
    job: Raw = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j", "namespace": "default"},
        "spec": {"parallelism": 3},
    }

    assert [("part-of-gang", "pod group default/Job/j")] == found(job, *members("n0", 2, **marks))


def test_a_pod_that_came_after_the_first_binding_replaces_another() -> None:
    """A gang that was whole and lost a pod is no violation."""
    late = {"creationTimestamp": "2026-01-01T01:00:00Z"}
    gang: list[Raw] = kueue_gang("g", 2, on={0: "n0"})
    for raw, more in zip(gang, ({}, late), strict=True):
        raw["metadata"] = {**raw["metadata"], **more}  # type: ignore[dict-item]

    assert [("part-of-gang", "pod group default/g")] == found(*gang)
    gang[0]["status"] = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}
    assert [] == found(*gang)


def test_a_gang_of_groves_stands_within_its_further_fabrics() -> None:
    """Constraints that are listed in the annotation hold for every language."""
    islands: list[Raw] = [
        {
            "apiVersion": "topology.volcano.sh/v1alpha1",
            "kind": "HyperNode",
            "metadata": {"name": f"i{i}", "labels": {"tierwise.io/fabric": "nvlink"}},
            "spec": {"tier": 1, "members": [{"type": "Node", "selector": {"exactMatch": {"name": n}}} for n in inside]},
        }
        for i, inside in enumerate((("n0", "n1"), ("n2", "n3")))
    ]
    gang = grove_gang("g", {"a": 2}, on={"g-a-0": "n0", "g-a-1": "n2"})
    listed = {"tierwise.io/topology-constraints": '[{"fabric": "nvlink", "tier": 1}]'}
    gang[0]["metadata"] = {"name": "g", "annotations": listed}

    assert [("too-wide", "PodGang default/g")] == found(*islands, *gang)


def test_a_pod_that_has_ended_is_in_no_domain() -> None:
    """What is left of a gang may stand in another domain than those of its pods that have done their work."""
    gang = kueue_gang("g", 2, on={0: "n0", 1: "n2"}, required_topology="example.com/rack")
    levels: Raw = {"levels": [{"nodeLabel": "example.com/spine"}, {"nodeLabel": "example.com/rack"}]}
    net: Raw = {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "Topology", "metadata": {"name": "t"}, "spec": levels}

    assert [("topology", "pod group default/g")] == found(net, *gang)
    gang[0]["status"] = {"phase": "Succeeded"}
    assert [] == found(net, *gang)
