"""Storage of the embedded cluster: what Kubernetes' volume controllers and a provisioner do, in one place.

Claims of ephemeral volumes are made for their pods, a volume that names a claim is bound to it, and volumes are made
for claims whose node was chosen. A volume can be reached from the zone of that node, or from everywhere where the node
has none. Where time passes, claims that do not wait for a pod get their volume at once, and claims for which another
scheduler chose a node get theirs too; where it does not, what a file says of both holds.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from tierwise.api.codec import Raw
from tierwise.api.core import Node, Pod
from tierwise.api.duration import seconds
from tierwise.api.eviction_terms import status_time
from tierwise.api.natural import natural
from tierwise.api.quantity import milli
from tierwise.api.storage import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    NO_PROVISIONER,
    SELECTED_NODE,
    WAIT_FOR_FIRST_CONSUMER,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    class_of,
)
from tierwise.controllers.workqueue import Index
from tierwise.dialects.identity import made_up_uid
from tierwise.dialects.kubernetes.volumes import CHOSEN_AT, CHOSEN_NODE
from tierwise.port import Create, Effect, Key, Objects, PatchStatus, Prepare, RecordEvent, key_of

__all__ = ["Provisioner", "provision"]

PROVISION_AFTER: Final = "tierwise.io/provision-after"
"""On a storage class: how long its provisioner takes to make a volume."""

_ZONE: Final = "topology.kubernetes.io/zone"
_PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
_EPHEMERAL: Final = "ephemeral"
"""The key of pods that have ephemeral volumes."""


class Provisioned(msgspec.Struct, frozen=True):
    """Effects of storage now, and the time of the next ones (None: none by themselves)."""

    effects: tuple[Effect, ...] = ()
    wake: float | None = None


class Provisioner:
    """Storage that is asked again and again about one cluster; pods without ephemeral volumes are not looked at."""

    def __init__(self) -> None:
        self._seen = Objects()
        self._pods = Index(Pod, _ephemeral_key)

    def provision(self, objects: Objects, now: float | None) -> Provisioned:
        """As the function of this name."""
        if not objects.alike(self._seen, Pod):
            self._pods.follow(objects.changed_objects(self._seen, Pod))
            self._seen = objects
        if _EPHEMERAL not in self._pods and not objects.every(PersistentVolumeClaim):
            return Provisioned()
        return _provision(objects, self._pods[_EPHEMERAL], now)


def _ephemeral_key(pod: Pod) -> str | None:
    if any(volume.ephemeral is not None for volume in pod.spec.volumes):
        return _EPHEMERAL
    return None


def provision(objects: Objects, now: float | None = None) -> Provisioned:
    """Effects of storage on claims; without a time, only those that follow from a choice of the scheduler."""
    return Provisioner().provision(objects, now)


def _ready_at(claim: PersistentVolumeClaim, storage: StorageClass) -> float:
    """When the volume of a claim is there that is made once a node is selected."""
    begun = status_time(claim.metadata.annotations.get(CHOSEN_AT, ""))
    return begun + (seconds(storage.metadata.annotations.get(PROVISION_AFTER, "")) or 0.0)


def _provision(objects: Objects, pods: Iterable[Pod], now: float | None) -> Provisioned:
    effects: list[Effect] = list(_ephemeral(objects, pods))
    wakes: list[float] = []
    claims = objects.every(PersistentVolumeClaim)
    classes = objects.every(StorageClass)
    volumes = objects.every(PersistentVolume)
    meant = {f"{r.namespace}/{r.name}": v for v in volumes.values() if (r := v.spec.claim_ref) is not None}
    used_names: set[str] = set()
    for path, claim in claims.items():
        if claim.bound or claim.metadata.deletion_timestamp:
            continue
        storage = classes.get(class_of(claim))
        delayed = storage is not None and storage.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER
        has_node = CHOSEN_NODE in claim.metadata.annotations
        named = volumes.get(claim.spec.volume_name) or meant.get(path)
        acts = now is not None or has_node
        if named is not None and _same(named, claim) and acts:
            effects += _bound(claim, key_of(named))
            continue
        node = claim.metadata.annotations.get(SELECTED_NODE, "")
        maker = storage if storage is not None and storage.provisioner not in ("", NO_PROVISIONER) else None
        if delayed and node and acts and maker is not None:
            ready = _ready_at(claim, maker)
            if now is None or now >= ready:
                effects += _made(objects, claim, maker, node)
            else:
                wakes.append(ready)
        elif not delayed and now is not None and not claim.spec.volume_name:
            fitting = _smallest(claim, (v for name, v in volumes.items() if name not in used_names))
            if fitting is not None:
                used_names.add(fitting.metadata.name)
                effects += _bound(claim, key_of(fitting))
            elif maker is not None:
                effects += _made(objects, claim, maker, "")
    return Provisioned(tuple(effects), min(wakes, default=None))


def _ephemeral(objects: Objects, pods: Iterable[Pod]) -> Iterable[Effect]:
    """Claims for the ephemeral volumes of pods, as their templates say."""
    claims = objects.every(PersistentVolumeClaim)
    for pod in pods:
        if pod.metadata.deletion_timestamp or pod.status.ended:
            continue
        for volume in pod.spec.volumes:
            namespace = pod.metadata.namespace or "default"
            name = f"{pod.metadata.name}-{volume.name}"
            if volume.ephemeral is None or f"{namespace}/{name}" in claims:
                continue
            template = volume.ephemeral.volume_claim_template
            meta = template.get("metadata")
            owner = {"apiVersion": "v1", "kind": "Pod", "name": pod.metadata.name, "uid": pod.metadata.uid}
            metadata = {
                **(meta if isinstance(meta, dict) else {}),
                "name": name,
                "namespace": namespace,
                "uid": made_up_uid("PersistentVolumeClaim", namespace, name),
                "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
            }
            raw: Raw = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata}
            yield Create({**raw, "spec": template.get("spec", {}), "status": {"phase": "Pending"}})


def _same(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether a volume that names a claim, or is named by it, means this one."""
    reference = volume.spec.claim_ref
    if reference is None:
        return claim.spec.volume_name == volume.metadata.name
    named = (reference.namespace, reference.name) == (claim.metadata.namespace or "default", claim.metadata.name)
    return named and reference.uid in ("", claim.metadata.uid)


def _smallest(claim: PersistentVolumeClaim, volumes: Iterable[PersistentVolume]) -> PersistentVolume | None:
    """The smallest volume that fits a claim which asks for no place."""
    requested = milli(claim.spec.resources.requests.get("storage", 0))
    fitting = [
        volume
        for volume in volumes
        if volume.spec.claim_ref is None
        and not volume.metadata.deletion_timestamp
        and class_of(volume) == class_of(claim)
        and milli(volume.spec.capacity.get("storage", 0)) >= requested
        and set(claim.spec.access_modes) <= set(volume.spec.access_modes)
        and (volume.spec.volume_mode or "Filesystem") == (claim.spec.volume_mode or "Filesystem")
        and claim.spec.selector is None
    ]
    return min(
        fitting,
        key=lambda volume: (milli(volume.spec.capacity.get("storage", 0)), natural(volume.metadata.name)),
        default=None,
    )


def _made(objects: Objects, claim: PersistentVolumeClaim, storage: StorageClass, node: str) -> list[Effect]:
    """A new volume for a claim."""
    namespace = claim.metadata.namespace or "default"
    name = f"pvc-{claim.metadata.uid or made_up_uid('PersistentVolumeClaim', namespace, claim.metadata.name)}"
    spec: Raw = {
        "capacity": dict(claim.spec.resources.requests),
        "accessModes": list(claim.spec.access_modes),
        "storageClassName": storage.metadata.name,
        "volumeMode": claim.spec.volume_mode or "Filesystem",
        "csi": {"driver": storage.provisioner, "volumeHandle": name},
    }
    record = objects.every(Node).get(node)
    zone = record.metadata.labels.get(_ZONE, "") if record is not None else ""
    if zone:
        term = {"matchExpressions": [{"key": _ZONE, "operator": "In", "values": [zone]}]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
    metadata: Raw = {"name": name, "annotations": {_PROVISIONED_BY: storage.provisioner}}
    raw: Raw = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": metadata, "spec": spec}
    writes: list[Effect] = [Create(raw)] if name not in objects.every(PersistentVolume) else []
    where = f" for node {node}" if node else ""
    event = RecordEvent(key_of(claim), "Normal", "ProvisioningSucceeded", f"volume {name} was made{where}")
    return [*writes, event, *_bound(claim, Key("", "PersistentVolume", "", name))]


def _bound(claim: PersistentVolumeClaim, volume: Key) -> list[Effect]:
    """A claim and a volume for each other."""
    key = key_of(claim)
    reference: Raw = {"apiVersion": "v1", "kind": key.kind, "namespace": key.namespace, "name": key.name}
    if claim.metadata.uid:
        reference["uid"] = claim.metadata.uid
    marks = {BIND_COMPLETED: "yes", BOUND_BY_CONTROLLER: "yes"}
    return [
        Prepare(volume, {"spec": {"claimRef": reference}, "metadata": {"annotations": {BOUND_BY_CONTROLLER: "yes"}}}),
        PatchStatus(volume, {"phase": "Bound"}),
        Prepare(key, {"spec": {"volumeName": volume.name}, "metadata": {"annotations": marks}}),
        PatchStatus(key, {"phase": "Bound"}),
    ]
