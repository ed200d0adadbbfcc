"""The few objects that contract tests need, as manifests."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

__all__ = ["node", "pod", "pod_group"]


def node(name: str, cpu: str = "8") -> Json:
    """A node that is ready."""
    ready = {"type": "Ready", "status": "True"}
    status = {"allocatable": {"cpu": cpu, "memory": "32Gi", "pods": "110"}, "conditions": [ready]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


def pod(name: str, *, cpu: str = "1", on: str = "", nominated: str = "", group: str = "") -> Json:
    """A pod of ours."""
    spec: Json = {
        "schedulerName": "tierwise",
        "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}],
        **({"nodeName": on} if on else {}),
    }
    meta: Json = {"name": name, "namespace": "default"}
    if group:
        meta["annotations"] = {"scheduling.k8s.io/group-name": group}
    status: Json = {"phase": "Pending", **({"nominatedNodeName": nominated} if nominated else {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": status}


def pod_group(name: str, minimum: int = 1, status: Json | None = None) -> Json:
    """A pod group that was let in."""
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minMember": minimum},
        "status": status or {"phase": "Inqueue"},
    }
