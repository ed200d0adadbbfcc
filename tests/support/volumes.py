"""Storage objects and pods with volumes in a line each."""

from __future__ import annotations

from typing import Any

from tests.support.drawn_gang import manifest

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.port import Objects

__all__ = [
    "CLASS",
    "attachment",
    "capacity",
    "claim",
    "csi_node",
    "driver",
    "node",
    "objects",
    "pod",
    "storage_class",
    "volume",
    "within",
]

CLASS = "fast"
ZONE = "topology.kubernetes.io/zone"


def within(key: str, *values: str) -> Raw:
    """The affinity of a volume that is reached from nodes with a label."""
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}
    return {"required": {"nodeSelectorTerms": [term]}}


def node(name: str, zone: str = "", cpu: str = "8", **labels: str) -> Raw:
    """A node in a zone."""
    found = {"kubernetes.io/hostname": name, **labels} | ({ZONE: zone} if zone else {})
    return manifest(
        "v1",
        "Node",
        {"name": name, "labels": found},
        status={"allocatable": {"cpu": cpu, "memory": "64Gi", "pods": "110"}},
    )


def storage_class(name: str = CLASS, provisioner: str = "csi.test", **more: Any) -> Raw:
    """A class whose volumes come with the place of a pod, unless it says otherwise."""
    fields = {"provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer", **more}
    return {**manifest("storage.k8s.io/v1", "StorageClass", {"name": name}), **fields}


def claim(
    name: str,
    to: str = "",
    size: str = "1Gi",
    modes: tuple[str, ...] = ("ReadWriteOnce",),
    annotations: dict[str, str] | None = None,
    meta: Raw | None = None,
    phase: str = "",
    **spec: Any,
) -> Raw:
    """A claim, settled on a volume where one is named."""
    marks = {**(annotations or {}), **({"pv.kubernetes.io/bind-completed": "yes"} if to else {})}
    wanted: Raw = {"storageClassName": CLASS, "accessModes": list(modes), "resources": {"requests": {"storage": size}}}
    if to:
        wanted["volumeName"] = to
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "annotations": marks, **(meta or {})}
    status = {"phase": phase or ("Bound" if to else "Pending")}
    return manifest("v1", "PersistentVolumeClaim", metadata, spec={**wanted, **spec}, status=status)


def volume(
    name: str,
    of: str = "",
    size: str = "1Gi",
    affinity: Raw | None = None,
    labels: dict[str, str] | None = None,
    phase: str = "",
    meta: Raw | None = None,
    **spec: Any,
) -> Raw:
    """A volume, meant for a claim where one is named."""
    has: Raw = {"capacity": {"storage": size}, "storageClassName": CLASS, "accessModes": ["ReadWriteOnce"]}
    if of:
        has["claimRef"] = {"namespace": "default", "name": of}
    if affinity is not None:
        has["nodeAffinity"] = affinity
    status = {"phase": phase or ("Bound" if of else "Available")}
    metadata = {"name": name, "labels": labels or {}, **(meta or {})}
    return manifest("v1", "PersistentVolume", metadata, spec={**has, **spec}, status=status)


def csi_node(name: str, migrated: str = "", **limits: int) -> Raw:
    """What drivers say of a node: `csi_test=3` is a limit of the driver csi.test."""
    drivers = [{"name": d.replace("_", "."), "nodeID": name, "allocatable": {"count": n}} for d, n in limits.items()]
    marks = {"storage.alpha.kubernetes.io/migrated-plugins": migrated} if migrated else {}
    return manifest("storage.k8s.io/v1", "CSINode", {"name": name, "annotations": marks}, spec={"drivers": drivers})


def driver(name: str = "csi.test", **spec: Any) -> Raw:
    """A driver."""
    return manifest("storage.k8s.io/v1", "CSIDriver", {"name": name}, spec=spec)


def capacity(name: str, of: str = CLASS, **fields: Any) -> Raw:
    """What a driver has left for a class."""
    found = manifest("storage.k8s.io/v1", "CSIStorageCapacity", {"name": name, "namespace": "default"})
    return {**found, "storageClassName": of, **fields}


def attachment(name: str, of: str, on: str, by: str = "csi.test") -> Raw:
    """A volume on a node."""
    spec = {"attacher": by, "nodeName": on, "source": {"persistentVolumeName": of}}
    return manifest("storage.k8s.io/v1", "VolumeAttachment", {"name": name}, spec=spec)


def pod(
    name: str,
    *claims: str,
    on: str = "",
    cpu: str = "1",
    volumes: tuple[Raw, ...] = (),
    group: str = "",
    **meta: Any,
) -> Raw:
    """A pod with claims, and with volumes of other kinds."""
    mounted = [{"name": f"v{i}", "persistentVolumeClaim": {"claimName": c}} for i, c in enumerate(claims)]
    spec: Raw = {
        "schedulerName": "tierwise",
        "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}],
        "volumes": [*mounted, *volumes],
    }
    if on:
        spec["nodeName"] = on
    marks = {"annotations": {"scheduling.k8s.io/group-name": group}} if group else {}
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", **marks, **meta}
    return manifest("v1", "Pod", metadata, spec=spec, status={"phase": "Running"} if on else {})


def objects(*manifests: Raw) -> Objects:
    """Manifests as a cluster holds them."""
    return Objects.of((codec.decode(raw), raw) for raw in manifests)
