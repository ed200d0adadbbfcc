"""The rules of volumes once more, pod by pod and node by node, as plainly as they can be written.

Kubernetes' filters VolumeBinding, VolumeZone, NodeVolumeLimits and VolumeRestrictions over records alone; nothing of
the scheduler's is used but the records and what a selector means. For one pod at a time: what others were promised is
for the caller to write into the objects.
"""

from __future__ import annotations

from collections.abc import Iterator

from tierwise.api.core import Node, NodeSelector, Pod, Volume
from tierwise.api.quantity import milli
from tierwise.api.selector import holds, matches
from tierwise.api.storage import (
    CsiDriver,
    CsiNode,
    CsiStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from tierwise.port import Objects

__all__ = ["allowed"]

_ZONES = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")


def allowed(objects: Objects, pod: Pod, node: Node) -> bool:
    """Whether the volumes of a waiting pod let it run on a node, as everything is now."""
    claims = [_claim(objects, name) for name, _ in _claims(pod)]
    if any(claim is None or claim.metadata.deletion_timestamp for claim in claims):
        return False
    known = [claim for claim in claims if claim is not None]
    return (
        all(_settled(objects, claim, node) for claim in known if claim.bound)
        and _chosen(objects, [claim for claim in known if not claim.bound], node)
        and _attachable(objects, pod, node)
        and _unshared(objects, pod, node)
    )


def _claims(pod: Pod) -> Iterator[tuple[str, Volume]]:
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            yield f"default/{volume.persistent_volume_claim.claim_name}", volume


def _claim(objects: Objects, name: str) -> PersistentVolumeClaim | None:
    return objects.every(PersistentVolumeClaim).get(name)


def _reached(affinity: NodeSelector | None, node: Node) -> bool:
    labels = node.metadata.labels
    return affinity is None or any(
        all(holds(one, labels.get(one.key)) for one in term.match_expressions) for term in affinity.node_selector_terms
    )


def _affinity(volume: PersistentVolume) -> NodeSelector | None:
    return volume.spec.node_affinity.required if volume.spec.node_affinity is not None else None


def _settled(objects: Objects, claim: PersistentVolumeClaim, node: Node) -> bool:
    volume = objects.every(PersistentVolume).get(claim.spec.volume_name)
    if volume is None or not _reached(_affinity(volume), node):
        return False
    labels = node.metadata.labels
    if not any(key in labels for key in _ZONES):
        return True
    zones = {key: volume.metadata.labels[key].split("__") for key in _ZONES if key in volume.metadata.labels}
    return all(labels.get(key) in values for key, values in zones.items())


def _chosen(objects: Objects, claims: list[PersistentVolumeClaim], node: Node) -> bool:
    """Whether every claim can have a volume, smallest claim first, smallest volume first."""
    taken: set[str] = set()
    for claim in sorted(claims, key=_size):
        kind = objects.every(StorageClass).get(claim.spec.storage_class_name or "")
        if kind is None or kind.volume_binding_mode != "WaitForFirstConsumer" or claim.spec.volume_name:
            return False
        fitting = [
            (milli(volume.spec.capacity["storage"]), name)
            for name, volume in objects.every(PersistentVolume).items()
            if name not in taken and volume.spec.claim_ref is None and _fits(volume, claim, node)
        ]
        if fitting:
            taken.add(min(fitting)[1])
        elif not _made(objects, kind, claim, node):
            return False
    return True


def _size(claim: PersistentVolumeClaim) -> int:
    return milli(claim.spec.resources.requests["storage"])


def _fits(volume: PersistentVolume, claim: PersistentVolumeClaim, node: Node) -> bool:
    return (
        volume.status.phase == "Available"
        and volume.spec.storage_class_name == claim.spec.storage_class_name
        and milli(volume.spec.capacity["storage"]) >= _size(claim)
        and set(claim.spec.access_modes) <= set(volume.spec.access_modes)
        and matches(claim.spec.selector, volume.metadata.labels, absent=True)
        and _reached(_affinity(volume), node)
    )


def _made(objects: Objects, kind: StorageClass, claim: PersistentVolumeClaim, node: Node) -> bool:
    if kind.provisioner == "kubernetes.io/no-provisioner":
        return False
    labels = node.metadata.labels
    terms = [term.match_label_expressions for term in kind.allowed_topologies]
    if terms and not any(all(labels.get(one.key) in one.values for one in term) for term in terms):
        return False
    driver = objects.every(CsiDriver).get(kind.provisioner)
    if driver is None or not driver.spec.storage_capacity:
        return True
    return any(
        room.storage_class_name == kind.metadata.name
        and room.capacity is not None
        and milli(room.capacity) >= _size(claim)
        and matches(room.node_topology, labels)
        for room in objects.every(CsiStorageCapacity).values()
    )


def _attached(objects: Objects, pod: Pod) -> set[tuple[str, str]]:
    found = set()
    for name, _ in _claims(pod):
        claim = _claim(objects, name)
        volume = objects.every(PersistentVolume).get(claim.spec.volume_name) if claim is not None else None
        if volume is not None:
            if volume.spec.csi is not None:
                found.add((volume.spec.csi.driver, volume.spec.csi.volume_handle))
        elif claim is not None:
            kind = objects.every(StorageClass).get(claim.spec.storage_class_name or "")
            if kind is not None:
                found.add((kind.provisioner, name))
    return found


def _standing(objects: Objects, node: Node) -> list[Pod]:
    return [pod for pod in objects.every(Pod).values() if pod.spec.node_name == node.metadata.name]


def _attachable(objects: Objects, pod: Pod, node: Node) -> bool:
    record = objects.every(CsiNode).get(node.metadata.name)
    if record is None:
        return True
    there = set().union(*(_attached(objects, other) for other in _standing(objects, node)))
    new = _attached(objects, pod) - there
    for driver in record.spec.drivers:
        limit = driver.allocatable.count if driver.allocatable is not None else None
        coming = sum(name == driver.name for name, _ in new)
        if limit is not None and coming and coming + sum(name == driver.name for name, _ in there) > limit:
            return False
    return True


def _unshared(objects: Objects, pod: Pod, node: Node) -> bool:
    everywhere = [other for other in objects.every(Pod).values() if other.spec.node_name]
    for name, _ in _claims(pod):
        claim = _claim(objects, name)
        alone = claim is not None and "ReadWriteOncePod" in claim.spec.access_modes
        if alone and any(name == used for other in everywhere for used, _ in _claims(other)):
            return False
    disks = [v.gce_persistent_disk for v in pod.spec.volumes if v.gce_persistent_disk is not None]
    for other in _standing(objects, node):
        for used in (v.gce_persistent_disk for v in other.spec.volumes if v.gce_persistent_disk is not None):
            if any(d.pd_name == used.pd_name and not (d.read_only and used.read_only) for d in disks):
                return False
    return True
