"""A workload called v, of every kind that has several pods at once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from tierwise.api import codec
from tierwise.api.codec import Raw

__all__ = ["PODS", "WORKLOADS", "in_templates", "templates", "workload"]

PODS: Final[Raw] = {
    "spec": {"schedulerName": "volcano", "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}
}
_TWO: Final[Raw] = {"replicas": 2, "template": PODS}
_WORKERS: Final[Raw] = {"Worker": {"replicas": 2, "template": PODS}}
_RAY: Final[Raw] = {
    "headGroupSpec": {"rayStartParams": {}, "template": PODS},
    "workerGroupSpecs": [{"groupName": "w", "replicas": 1, "minReplicas": 1, "maxReplicas": 1, "template": PODS}],
}
_IN_ALL: Final[Raw] = {"parallelism": 2, "completions": 2, "template": PODS}
_SPECS: Final[Mapping[str, tuple[str, Raw]]] = {
    "Deployment": ("apps", _TWO),
    "ReplicaSet": ("apps", _TWO),
    "StatefulSet": ("apps", {**_TWO, "podManagementPolicy": "Parallel"}),
    "ReplicationController": ("", _TWO),
    "Job": ("batch", _IN_ALL),
    "PyTorchJob": ("kubeflow.org", {"pytorchReplicaSpecs": _WORKERS}),
    "TFJob": ("kubeflow.org", {"tfReplicaSpecs": _WORKERS}),
    "XGBoostJob": ("kubeflow.org", {"xgbReplicaSpecs": _WORKERS}),
    "PaddleJob": ("kubeflow.org", {"paddleReplicaSpecs": _WORKERS}),
    "JAXJob": ("kubeflow.org", {"jaxReplicaSpecs": _WORKERS}),
    "MPIJob": ("kubeflow.org", {"mpiReplicaSpecs": {"Launcher": {"template": PODS}, "Worker": {"template": PODS}}}),
    "RayCluster": ("ray.io", _RAY),
    "RayService": ("ray.io", {"rayClusterConfig": _RAY}),
    "JobSet": ("jobset.x-k8s.io", {"replicatedJobs": [{"name": "w", "template": {"spec": _IN_ALL}}]}),
    "LeaderWorkerSet": ("leaderworkerset.x-k8s.io", {"leaderWorkerTemplate": {"size": 2, "workerTemplate": PODS}}),
}
WORKLOADS: Final = tuple(_SPECS)
"""Kinds of workloads with two pods or more that are there at once."""


def workload(kind: str, *, annotations: Mapping[str, str] | None = None, in_parts: bool = False) -> Raw:
    """V as a workload; `in_parts`: its first pod may start alone, where its operator knows that."""
    group, spec = _SPECS[kind]
    if in_parts:
        scheduling: Raw = {"runPolicy": {"schedulingPolicy": {"minAvailable": 1}}}
        ray: Any = json.loads(
            json.dumps({**_RAY, "enableInTreeAutoscaling": True}).replace('"minReplicas": 1', '"minReplicas": 0')
        )
        spec = {**scheduling, **spec} if group == "kubeflow.org" else ray
        spec = {"rayClusterConfig": spec} if kind == "RayService" else spec
    return {
        "apiVersion": f"{group}/{codec.versions_of(group, kind)[0]}".removeprefix("/"),
        "kind": kind,
        "metadata": {"name": "v", "namespace": "default", "uid": "v", "annotations": dict(annotations or {})},
        "spec": json.loads(json.dumps(spec)),
    }


def templates(value: Any) -> list[dict[str, Any]]:
    """All templates of pods in a spec."""
    if isinstance(value, list):
        return [one for inner in value for one in templates(inner)]
    if not isinstance(value, dict):
        return []
    if "containers" in value.get("spec", {}):
        return [value]
    return [one for inner in value.values() for one in templates(inner)]


def in_templates(manifests: list[Raw], form: str, key: str, value: str) -> list[Raw]:
    """The same objects; the templates of v have a mark."""
    found: list[Any] = json.loads(json.dumps(manifests))
    for raw in found:
        for template in templates(raw) if raw["kind"] in WORKLOADS else ():
            marks = template.setdefault("metadata", {}).setdefault(f"{form}s", {})
            marks[key] = value
    return found
