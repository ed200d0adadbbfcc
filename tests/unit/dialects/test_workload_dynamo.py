"""Graphs of NVIDIA Dynamo on the embedded cluster: cliques of Grove's, and a workload for each component without it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.commands import manifests, run
from tests.support.languages import RACK, nodes
from tests.support.workloads import expanded, pods, scheduled

from tierwise.api.codec import Raw, part
from tierwise.api.errors import InputError
from tierwise.dialects import workloads
from tierwise.port import Key, Objects
from tierwise.sim.cluster.store import EmbeddedCluster

WORLD = nodes({"s0": {"r0": "n0 n1", "r1": "n2 n3"}}, cpu=1)
LEVELS: Raw = {
    "apiVersion": "grove.io/v1alpha1",
    "kind": "ClusterTopologyBinding",
    "metadata": {"name": "net"},
    "spec": {"levels": [{"domain": "rack", "key": RACK}]},
}
MAIN: Raw = {"name": "main", "image": "i", "resources": {"requests": {"cpu": "1"}}}


def _component(name: str, replicas: int = 1, nodes: int = 1, **more: object) -> Raw:
    several: Raw = {"multinode": {"nodeCount": nodes}} if nodes > 1 else {}
    template: Raw = {"spec": {"containers": [MAIN]}}
    return {"name": name, "replicas": replicas, "podTemplate": template, **several, **more}


def _graph(*components: Raw, marks: Raw | None = None, **spec: object) -> Raw:
    return {
        "apiVersion": "nvidia.com/v1beta1",
        "kind": "DynamoGraphDeployment",
        "metadata": {"name": "chat", "annotations": marks or {}},
        "spec": {"components": list(components), **spec},
    }


def _services(**services: object) -> Raw:
    graph = _graph()
    return {**graph, "apiVersion": "nvidia.com/v1alpha1", "spec": {"services": services}}


def _set(objects: Objects) -> Any:
    raw = objects.raw(Key("grove.io", "PodCliqueSet", "default", "chat"))
    assert raw is not None
    return raw["spec"]


def test_one_of_each_component_starts_together() -> None:
    """The rest starts as room allows; without room for one of each nothing does."""
    bound = scheduled(*WORLD, _graph(_component("Frontend"), _component("prefill", 2), _component("decode", 3)))

    assert 4 == len(bound)
    assert {"frontend", "prefill", "decode"} <= {name.split("-")[2] for name in bound}
    assert {} == scheduled(*WORLD, _graph(_component("prefill", 9, minAvailable=4), _component("decode")))


def test_a_component_of_several_nodes_is_a_leader_and_its_workers() -> None:
    """Further replicas are gangs of their own, whole or absent."""
    graph = _graph(_component("decode", 2, nodes=3))

    assert ["decode-ldr", "decode-wkr"] == [clique["name"] for clique in _set(expanded(graph))["template"]["cliques"]]
    names = [f"chat-0-decode-{i}-decode-{role}" for i in (0, 1) for role in ("ldr-00001", "wkr-00001", "wkr-00002")]
    assert sorted(names) == sorted(pods(graph))
    assert {"chat-0-decode-0"} == {name.rpartition("-decode-")[0] for name in scheduled(*WORLD, graph)}


def test_domains_are_levels_of_the_topology() -> None:
    """Of a component, and of the whole graph."""
    near: Any = {"topologyConstraint": {"packDomain": "rack"}}
    named: Any = {"topologyConstraint": {"clusterTopologyName": "net"}}
    racks = {"n0": 0, "n1": 0, "n2": 1, "n3": 1}

    bound = scheduled(*WORLD, LEVELS, _graph(_component("a", 1, 2, **near), _component("b", 1, 2, **near), **named))
    assert 4 == len(bound)
    for name in "ab":
        assert 1 == len({racks[node] for pod, node in bound.items() if f"chat-0-{name}-" in pod})
    whole: Any = {"topologyConstraint": {"clusterTopologyName": "net", "packDomain": "rack"}}
    assert {} == scheduled(*WORLD, LEVELS, _graph(_component("a", 1, 2), _component("b"), **whole))


def test_a_service_of_the_first_version_is_a_component() -> None:
    """Its resources, in Dynamo's words, are those of the main container; mounts are claims."""
    container = {"image": "i", "resources": {"limits": {"cpu": "2"}}}
    service: Raw = {
        "replicas": 1,
        "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "9", "gpu": "8", "custom": {"rdma/ib": "1"}}},
        "volumeMounts": [{"name": "models", "mountPoint": "/m"}],
        "extraPodSpec": {"nodeSelector": {"a": "b"}, "mainContainer": container},
    }
    graph = _services(Decode=service)
    part(graph, "spec")["pvcs"] = [
        {"create": True, "name": "models", "size": "1Gi", "volumeAccessMode": "ReadWriteMany"}
    ]
    objects = expanded(graph)
    spec = _set(objects)["template"]["cliques"][0]["spec"]["podSpec"]
    (made,) = spec["containers"]

    assert {"cpu": "2", "nvidia.com/gpu": "8", "rdma/ib": "1"} == made["resources"]["limits"]
    assert "main" == made["name"]
    assert [{"name": "models", "persistentVolumeClaim": {"claimName": "models"}}] == spec["volumes"]
    assert {"a": "b"} == spec["nodeSelector"]
    assert objects.raw(Key("", "PersistentVolumeClaim", "default", "models")) is not None


def test_without_grove_each_component_is_a_workload() -> None:
    """A Deployment, and a LeaderWorkerSet for several nodes."""
    off: Raw = {"nvidia.com/enable-grove": "False"}
    objects = expanded(_graph(_component("web", 2), _component("decode", 1, 2), marks=off))

    assert objects.raw(Key("apps", "Deployment", "default", "chat-web")) is not None
    assert objects.raw(Key("leaderworkerset.x-k8s.io", "LeaderWorkerSet", "default", "chat-decode")) is not None
    assert not objects.of_kind("grove.io", "PodCliqueSet")
    assert 4 == len(objects.of_kind("", "Pod"))


def test_components_without_replicas_keep_nobody_waiting() -> None:
    """As after scaling to nothing."""
    assert 1 == len(scheduled(*WORLD, _graph(_component("web"), _component("decode", 0), _component("x", 0, 2))))
    assert {} == pods(_graph(_component("web", 0)))


@pytest.mark.parametrize(
    ("component", "field"),
    [
        ({"experimental": {"gpuMemoryService": {"mode": "IntraPod"}}}, "experimental.gpuMemoryService"),
        ({"experimental": {"failover": {}}}, "experimental.failover"),
        ({"providerOverride": {"value": {"spec": {}}}}, "providerOverride"),
    ],
)
def test_what_is_not_read_makes_the_pods_wait(component: Any, field: str, tmp_path: Path) -> None:
    """They are made and say why, and `validate` names the field."""
    graph = _graph(_component("web"), _component("decode", **component))
    file, place = manifests(tmp_path, *WORLD, graph), f"spec.components[1].{field}"

    found = run("validate", "-f", file, "-o", "json")
    told = run("schedule", "-f", file)

    assert {} == scheduled(*WORLD, graph)
    assert 2 == len(pods(graph))
    assert [place] == [entry["path"] for entry in json.loads(found.stdout)["errors"]]
    assert "tierwise.io/unread-fields" in told.stdout
    assert place in told.stderr


def test_a_service_that_turns_its_failover_off_does_not_wait() -> None:
    """The first version has a switch."""
    container: Raw = {"image": "i", "resources": {"requests": {"cpu": "1"}}}
    service: Raw = {"failover": {"enabled": False}, "extraPodSpec": {"mainContainer": container}}

    assert 1 == len(scheduled(*WORLD, _services(Decode=service)))


def test_nothing_is_made_where_the_operator_runs() -> None:
    """One pod of a clique of its own tells it, of the graph and of its set."""
    whose = {"apiVersion": "grove.io/v1alpha1", "kind": "PodClique", "name": "chat-0-web", "controller": True}
    labels = {
        "nvidia.com/dynamo-graph-deployment-name": "chat",
        "app.kubernetes.io/part-of": "chat",
        "app.kubernetes.io/managed-by": "grove-operator",
    }
    meta: Raw = {"name": "chat-0-web-x7k2p", "namespace": "default", "labels": labels, "ownerReferences": [whose]}
    theirs: Raw = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [MAIN]}}
    graph = _graph(_component("web", 3))
    made = expanded(graph).raw(Key("grove.io", "PodCliqueSet", "default", "chat"))
    assert made is not None

    assert ["chat-0-web-x7k2p"] == list(pods(graph, theirs))
    assert ["chat-0-web-x7k2p"] == list(pods(made, theirs))
    told = [text for _, text in workloads.notes(_objects(graph, theirs))]
    assert ["makes no pods: those of its own controller are here"] == told


def _objects(*raws: Raw) -> Objects:
    from tests.support.koordinator import objects_of

    return EmbeddedCluster(objects_of(list(raws))).read()


def test_more_pods_than_an_object_may_have_are_refused() -> None:
    """Replicas times nodes, of all components together."""
    with pytest.raises(InputError, match=r"replicas: makes 4000001 pods"):
        workloads.check(_graph(_component("web"), _component("decode", 2_000, nodes=2_000)))


def test_a_broken_service_is_named_by_its_own_fields() -> None:
    """Not by those of the set that would be made."""
    without: Raw = {"replicas": 1, "extraPodSpec": {}}
    odd: Raw = {"extraPodSpec": {"nodeSelector": "a", "mainContainer": {"image": "i"}}}

    with pytest.raises(InputError, match=r"spec\.services\.a\.extraPodSpec\.mainContainer: it has no pod template"):
        workloads.check(_services(a=without))
    with pytest.raises(InputError, match=r"spec\.services\.a\.extraPodSpec\.nodeSelector: expected an object"):
        workloads.check(_services(a=odd))
