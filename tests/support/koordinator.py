"""Clusters and gangs in Koordinator's words, short enough for a test to show them whole.

world = cluster({"s0": {"b0": "n0 n1", "b1": "n2"}}, cpu=2)
bound, why = run(world, gang("g", 3, must="SpineLayer"))
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import pairwise

from tests.support.sight import schedule

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.config.profile import DEFAULT, PluginChoice, Profile
from tierwise.explain.wire import pending_wire
from tierwise.port import Objects

__all__ = ["AWARE", "annotated", "cluster", "gang", "hypernode", "layers", "objects_of", "pod", "run"]

Tree = Mapping[str, Mapping[str, str]]

AWARE = Profile(
    DEFAULT.actions,
    (
        (
            PluginChoice("gang"),
            PluginChoice("coscheduling", {"awareNetworkTopology": True}),
            PluginChoice("predicates"),
            PluginChoice("network-topology-aware"),
        ),
    ),
)
"""A profile that minds the network in both languages."""


def layers(*names: str) -> Raw:
    """A network topology with these layers above the nodes, innermost first; a layer's label is its own name."""
    chain = ("NodeTopologyLayer", *names, "")
    listed = [
        {"topologyLayer": name, "parentTopologyLayer": parent, "labelKey": [name]} for name, parent in pairwise(chain)
    ]
    return {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "ClusterNetworkTopology",
        "metadata": {"name": "default"},
        "spec": {"networkTopologySpec": listed},
    }


def hypernode(name: str, tier: int, members: list[tuple[str, str]]) -> Raw:
    """A hyperNode with these members, (kind, name)."""
    return {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": name},
        "spec": {
            "tier": tier,
            "members": [{"type": kind, "selector": {"exactMatch": {"name": member}}} for kind, member in members],
        },
    }


def cluster(tree: Tree, *, cpu: int = 1) -> list[Raw]:
    """Spines of blocks of nodes, each node with so many cpus."""
    found = [layers("BlockLayer", "SpineLayer")]
    for spine, blocks in tree.items():
        for block, nodes in blocks.items():
            found += [_node(name, {"SpineLayer": spine, "BlockLayer": block}, cpu) for name in nodes.split()]
    return found


def _node(name: str, labels: dict[str, str], cpu: int) -> Raw:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
        "status": {"allocatable": {"cpu": str(cpu), "pods": "110"}},
    }


def gang(
    name: str,
    pods: int,
    *,
    least: int | None = None,
    must: str = "",
    multiples: Mapping[str, int] | None = None,
    pipeline: int = 0,
    annotations: Mapping[str, str] | None = None,
    running: Mapping[int, str] | None = None,
    phase: str = "",
    affinity: Raw | None = None,
) -> list[Raw]:
    """A PodGroup and its pods; `running` says which of them run where."""
    rules: list[Raw] = [{"layer": must, "strategy": "MustGather"}] if must else []
    rules += [{"layer": k, "strategy": "PreferGather", "podCountMultiple": n} for k, n in (multiples or {}).items()]
    asks: Raw = {"gatherStrategy": rules or [{"layer": "BlockLayer", "strategy": "PreferGather"}]}
    if pipeline:
        asks["parallelModel"] = [{"parallelStrategy": "pipeline-parallel", "parallelism": pipeline}]
    noted = {"gang.scheduling.koordinator.sh/network-topology-spec": json.dumps(asks), **(annotations or {})}
    group: Raw = {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name, "annotations": noted},
        "spec": {"minMember": pods if least is None else least},
        "status": {"phase": phase},
    }
    return [
        group,
        *(pod(f"{name}-{i}", of=name, on=(running or {}).get(i, ""), affinity=affinity) for i in range(pods)),
    ]


def annotated(raw: Raw, **annotations: str) -> Raw:
    """The same object with these annotations of Koordinator's, by the last part of their names."""
    names = {"selector": "scheduling.koordinator.sh/network-topology-selector"}
    found = {
        names.get(key, f"gang.scheduling.koordinator.sh/{key.replace('_', '-')}"): v for key, v in annotations.items()
    }
    meta = raw["metadata"]
    assert isinstance(meta, dict)
    return {**raw, "metadata": {**meta, "annotations": found}}


def pod(name: str, *, of: str = "", on: str = "", cpu: int = 1, affinity: Raw | None = None) -> Raw:
    """A pod of a gang, or of none; `on` is the node where it runs."""
    labels = {"pod-group.scheduling.sigs.k8s.io": of, "app": of} if of else {}
    extra: Raw = {**({"nodeName": on} if on else {}), **({"affinity": affinity} if affinity else {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": str(cpu)}}}], **extra},
        "status": {"phase": "Running"} if on else {},
    }


def objects_of(*manifests: list[Raw]) -> Objects:
    """All manifests as the objects of a cluster."""
    return Objects.of((codec.decode(raw), raw) for part in manifests for raw in part)


def run(*manifests: list[Raw], profile: Profile = DEFAULT) -> tuple[dict[str, str], dict[str, str]]:
    """Which pods were bound where, and why the others wait; names without their namespace."""
    history = schedule(objects_of(*manifests), profile, now=0.0)
    assert history.report is not None
    waiting = pending_wire(history.after(0.0), history.report, history.nominations)
    bound = {pod.removeprefix("default/"): node for pod, node in history.bindings.items()}
    return bound, {str(row["pod"]).removeprefix("default/"): f"{row['reason']}: {row['message']}" for row in waiting}
