"""Clusters with services, for tests: nodes by spot, an application as edges, a network as costs, pods by workload."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tierwise.api.codec import decode
from tierwise.config.kube import read_kube
from tierwise.config.profile import Profile
from tierwise.port import Objects

__all__ = ["Raw", "app_group", "network", "node", "objects", "pod", "profile"]

GROUP, WORKLOAD = "appgroup.diktyo.x-k8s.io", "appgroup.diktyo.x-k8s.io.workload"
REGION, ZONE = "topology.kubernetes.io/region", "topology.kubernetes.io/zone"
Raw = dict[str, Any]


def node(name: str, spot: str = "", *, cpu: int = 8, pods: int = 110) -> Raw:
    """A node at a spot written "region/zone"; empty for one without labels."""
    region, _, zone = spot.partition("/")
    labels = {key: value for key, value in ((REGION, region), (ZONE, zone)) if value}
    status = {"allocatable": {"cpu": str(cpu), "pods": str(pods)}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status}


def pod(name: str, service: str = "", *, on: str = "", group: str = "shop", **meta: object) -> Raw:
    """A pod of a workload, on a node or waiting; without a workload a pod of no application."""
    labels = {GROUP: group, WORKLOAD: service} if service else {}
    requests = {"resources": {"requests": {"cpu": "1"}}}
    spec = {"containers": [{"name": "c", **requests}], **({"nodeName": on} if on else {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels, **meta},
        "spec": spec,
        "status": {"phase": "Running"} if on else {},
    }


def app_group(
    calls: Iterable[tuple[str, str] | tuple[str, str, Mapping[str, object]]],
    *,
    name: str = "shop",
    algorithm: str = "KahnSort",
    also: Iterable[str] = (),
) -> Raw:
    """An AppGroup of the dependencies (caller, callee, fields); workloads in the order in which they are named."""
    found: dict[str, list[Raw]] = {}
    for caller, callee, *fields in calls:
        found.setdefault(caller, []).append({"workload": _ref(callee), **(fields[0] if fields else {})})
    for callee in [d["workload"]["selector"] for deps in list(found.values()) for d in deps] + list(also):
        found.setdefault(callee, [])
    workloads = [{"workload": _ref(w), "dependencies": d} if d else {"workload": _ref(w)} for w, d in found.items()]
    return {
        "apiVersion": "appgroup.diktyo.x-k8s.io/v1alpha1",
        "kind": "AppGroup",
        "metadata": {"name": name},
        "spec": {"numMembers": 1, "topologySortingAlgorithm": algorithm, "workloads": workloads},
    }


def network(links: Mapping[str, Mapping[str, object]], *, name: str = "nt-default", **spec: object) -> Raw:
    """A NetworkTopology of links written "a>b"; those between names that start with r are links of regions."""
    keys: dict[str, dict[str, list[Raw]]] = {REGION: {}, ZONE: {}}
    for link, fields in links.items():
        origin, _, destination = link.partition(">")
        entries = keys[REGION if origin.startswith("r") else ZONE].setdefault(origin, [])
        entries.append({"destination": destination, "networkCost": 0, **fields})
    tables = [
        {"topologyKey": key, "originList": [{"origin": o, "costList": costs} for o, costs in origins.items()]}
        for key, origins in keys.items()
    ]
    return {
        "apiVersion": "networktopology.diktyo.x-k8s.io/v1alpha1",
        "kind": "NetworkTopology",
        "metadata": {"name": name},
        "spec": {"configmapName": "metrics", "weights": [{"name": "UserDefined", "topologyList": tables}], **spec},
    }


def _ref(workload: str) -> Raw:
    return {"kind": "Deployment", "name": workload, "selector": workload}


def objects(*raws: Raw) -> Objects:
    """What a cluster with these manifests holds."""
    return Objects.of((decode(raw), raw) for raw in raws)


def profile(**arguments: object) -> Profile:
    """TopologicalSort, and NetworkOverhead as the only score, with these arguments."""
    star = {"disabled": [{"name": "*"}]}
    plugins = {
        "queueSort": {**star, "enabled": [{"name": "TopologicalSort"}]},
        "filter": {"enabled": [{"name": "NetworkOverhead"}]},
        "score": {**star, "enabled": [{"name": "NetworkOverhead", "weight": 5}]},
    }
    config = [{"name": "NetworkOverhead", "args": arguments}]
    raw = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return read_kube({**raw, "profiles": [{"plugins": plugins, "pluginConfig": config}]})
