"""Clusters as manifests, for rows that read objects: nodes in racks, running gangs, and whatever else clusters hold.

Called by the rows about reading and about live clusters. Everything follows from numbers, so the same arguments give
the same objects.
"""

from __future__ import annotations

from collections.abc import Iterable

from tierwise.api import codec
from tierwise.api.manifest import Manifest, manifest
from tierwise.port import Objects

__all__ = [
    "DEVICES",
    "GANG",
    "STORAGE_CLASS",
    "Manifest",
    "budget",
    "claim",
    "daemon_pod",
    "device_class",
    "device_slice",
    "full_of_gangs",
    "group",
    "job",
    "lone_pod",
    "manifest",
    "node",
    "pod",
    "rack",
    "racks",
    "read_manifests",
    "storage_class",
]

GANG = 100  # pods
_RACK = 16  # nodes
DEVICES = "resource.k8s.io/v1"
_DRIVER = "gpu.nvidia.com"
STORAGE_CLASS = "fast"


def read_manifests(manifests: Iterable[Manifest]) -> Objects:
    """The objects that a cluster holds."""
    return Objects.of((codec.decode(raw), raw) for raw in manifests)


def full_of_gangs(pods: int) -> Objects:
    """Whole nodes in racks of 16, all full of running gangs."""
    nodes = pods // 8
    gangs = pods // GANG
    groups = [group(g) for g in range(gangs)]
    members = []
    for g in range(gangs):
        for i in range(GANG):
            members.append(pod(g, i))
    return read_manifests([*(node(i) for i in range(nodes)), *racks(nodes), *groups, *members])


def node(number: int) -> Manifest:
    """A node of eight GPUs; sixteen of them share a rack."""
    allocatable = {"cpu": "128", "memory": "1Ti", "nvidia.com/gpu": "8", "pods": "110"}
    status = {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]}
    return manifest("v1", "Node", f"n{number}", labels={"rack": f"r{number // _RACK}"}, status=status)


def racks(nodes: int) -> list[Manifest]:
    """The racks of so many nodes."""
    return [rack(i) for i in range(-(-nodes // _RACK))]


def rack(number: int) -> Manifest:
    """The hyperNode of sixteen nodes."""
    members = [{"type": "Node", "selector": {"labelMatch": {"matchLabels": {"rack": f"r{number}"}}}}]
    spec = {"tier": 1, "members": members}
    return manifest("topology.volcano.sh/v1alpha1", "HyperNode", f"r{number}", spec=spec)


def group(number: int, *, minimum: int = GANG, phase: str = "Running") -> Manifest:
    """The podGroup of a gang."""
    spec = {"minMember": minimum, "queue": "default"}
    status = {"phase": phase}
    return manifest("scheduling.volcano.sh/v1beta1", "PodGroup", f"g{number}", "d", spec=spec, status=status)


def pod(gang: int, rank: int, *, on: str | None = None) -> Manifest:
    """A pod of a gang, running where gangs of a hundred fill node after node, or on the node that is named.

    An empty name means none: the pod waits.
    """
    where = f"n{(gang * GANG + rank) // 8}" if on is None else on
    asks = {"cpu": "4", "memory": "64Gi", "nvidia.com/gpu": "1"}
    marks = {"scheduling.k8s.io/group-name": f"g{gang}", "volcano.sh/task-spec": "worker"}
    spec = {"schedulerName": "volcano", **_placed(where), "containers": [_container("trainer", asks)]}
    status = {"phase": "Running" if where else "Pending"}
    labels = {"job": f"g{gang}"}
    return manifest("v1", "Pod", f"g{gang}-{rank}", "d", labels=labels, marks=marks, spec=spec, status=status)


def job(number: int, pods: int, *, run_for: str = "") -> Manifest:
    """A Volcano Job of so many pods, which starts whole and is restarted when a pod is evicted."""
    template = {"spec": {"containers": [_container("trainer", {"cpu": "1"})], "restartPolicy": "Never"}}
    marks = {"metadata": {"annotations": {"tierwise.io/run-for": run_for}}} if run_for else {}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": f"j{number}", "namespace": "d", "uid": f"u{number}"},
        "spec": {
            "schedulerName": "volcano",
            "minAvailable": pods,
            "policies": [{"event": "PodEvicted", "action": "RestartJob"}],
            "tasks": [{"name": "w", "replicas": pods, "template": {**template, **marks}}],
        },
    }


def daemon_pod(which: int, on: str, *, pinned: bool = True, bound: bool = True) -> Manifest:
    """A pod of a DaemonSet: its controller names the node by its affinity, and a scheduler binds it there."""
    asks = {"cpu": "100m", "memory": "128Mi"}
    field = {"key": "metadata.name", "operator": "In", "values": [on]}
    required = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    pin = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    everywhere = [{"operator": "Exists"}]
    app = f"agent-{which}"
    status = {"phase": "Running" if bound else "Pending"}
    spec = {
        **(_placed(on) if bound else {}),
        **({"affinity": pin, "tolerations": everywhere} if pinned else {}),
        "containers": [_container(app, asks)],
    }
    return manifest("v1", "Pod", f"{app}-{on}", "system", labels={"app": app}, spec=spec, status=status)


def lone_pod(service: str, number: int, *, on: str = "", **spec: object) -> Manifest:
    """A pod of a Deployment, in no group."""
    pod_spec = {**_placed(on), "containers": [_container(service, {"cpu": "500m", "memory": "1Gi"})], **spec}
    status = {"phase": "Running" if on else "Pending"}
    return manifest("v1", "Pod", f"{service}-{number}", "web", labels={"app": service}, spec=pod_spec, status=status)


def budget(app: str, namespace: str) -> Manifest:
    """A disruption budget of one service."""
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": app}}}
    status = {"disruptionsAllowed": 1}
    return manifest("policy/v1", "PodDisruptionBudget", app, namespace, spec=spec, status=status)


def storage_class(provisioner: str) -> Manifest:
    """The class of all volumes, which are chosen or made once a pod has a node."""
    body = {"provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
    return manifest("storage.k8s.io/v1", "StorageClass", STORAGE_CLASS, **body)


def claim(name: str, namespace: str) -> Manifest:
    """A claim of a volume of that class."""
    resources = {"requests": {"storage": "1Gi"}}
    spec = {"storageClassName": STORAGE_CLASS, "accessModes": ["ReadWriteOnce"], "resources": resources}
    raw = manifest("v1", "PersistentVolumeClaim", name, namespace, spec=spec)
    raw["metadata"]["uid"] = f"uid-{name}"
    return raw


def device_class() -> Manifest:
    """All devices of the driver."""
    selectors = [{"cel": {"expression": f'device.driver == "{_DRIVER}"'}}]
    return manifest(DEVICES, "DeviceClass", _DRIVER, spec={"selectors": selectors})


def device_slice(on: str, devices: Iterable[Manifest]) -> Manifest:
    """The devices of a node, called d0, d1 and so on."""
    named = [{"name": f"d{number}", **device} for number, device in enumerate(devices)]
    pool = {"name": on, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": _DRIVER, "nodeName": on, "pool": pool, "devices": named}
    return manifest(DEVICES, "ResourceSlice", f"{on}-devices", spec=spec)


def _placed(on: str) -> Manifest:
    return {"nodeName": on} if on else {}


def _container(image: str, asks: dict[str, str]) -> Manifest:
    return {"name": "main", "image": image, "resources": {"requests": asks}}
