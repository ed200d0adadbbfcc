"""Reads claims, volumes, classes and drivers into model types, by the rules of Kubernetes' scheduler 1.36.

`VolumeReader` looks at the storage objects of one moment. It says what the volumes of a pod allow (`of`), what there is
for claims without a volume (`storage`), and how many volumes each node may attach (`limits`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from functools import cached_property
from typing import Final

import msgspec

from tierwise.api import storage as api
from tierwise.api.core import NodeSelector, Pod, Volume
from tierwise.api.eviction_terms import status_time
from tierwise.api.quantity import milli, whole
from tierwise.dialects.kubernetes import csi_migration
from tierwise.model import volumes as model
from tierwise.port import Objects

__all__ = [
    "CHOSEN_AT",
    "CHOSEN_NODE",
    "FAILED_AT",
    "STORAGE_KINDS",
    "ReadVolumes",
    "VolumeReader",
    "claims_of",
]

CHOSEN_NODE: Final = "tierwise.io/selected-node"
"""On a claim: the node that was chosen with its volume, or for its volume to be made for."""

CHOSEN_AT: Final = "tierwise.io/selected-at"
"""On a claim: when that was."""

FAILED_AT: Final = "tierwise.io/volume-binding-failed-at"
"""On a claim: when a choice came to nothing."""

STORAGE_KINDS: Final = (
    api.PersistentVolume,
    api.PersistentVolumeClaim,
    api.StorageClass,
    api.CsiNode,
    api.CsiDriver,
    api.CsiStorageCapacity,
    api.VolumeAttachment,
)
_READ_WRITE_ONCE_POD: Final = "ReadWriteOncePod"
_AVAILABLE: Final = "Available"
_STORAGE: Final = "storage"
_FILESYSTEM: Final = "Filesystem"
_CEPH_POOL: Final = "rbd"
_encode = msgspec.msgpack.Encoder().encode


class ReadVolumes(msgspec.Struct, frozen=True, eq=False):
    """Terms of a pod's volumes, in comparable form, and the names of the volumes."""

    terms: model.PodVolumes
    body: bytes
    names: tuple[str, ...] = ()  # of all its claims, namespace/name
    claims: tuple[model.Claim, ...] = ()  # those that get a volume with the pod's place


def claims_of(pod: Pod) -> Iterator[tuple[Volume, str]]:
    """The volumes of a pod that are claims, and the names of the claims."""
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            yield volume, volume.persistent_volume_claim.claim_name
        elif volume.ephemeral is not None:
            yield volume, f"{pod.metadata.name}-{volume.name}"


class VolumeReader:
    """The storage objects of one moment."""

    def __init__(self, objects: Objects) -> None:
        self._claims = objects.every(api.PersistentVolumeClaim)
        self._volumes = objects.every(api.PersistentVolume)
        self._classes = objects.every(api.StorageClass)
        self._nodes = objects.every(api.CsiNode)
        self._drivers = objects.every(api.CsiDriver)
        self._rooms = objects.every(api.CsiStorageCapacity)
        self._attachments = objects.every(api.VolumeAttachment)
        self._terms: dict[str, model.VolumeTerms] = {}

    # -- pods

    def uses(self, pod: Pod) -> Iterator[str]:
        """Yield a text for each volume of a pod that other pods may use as well: "claim namespace/name" for a claim,
        "volume driver/handle" for a volume that a driver attaches. Two pods share a volume where they have a text in
        common.
        """
        namespace = pod.metadata.namespace or "default"
        for volume, name in claims_of(pod):
            if volume.persistent_volume_claim is not None:
                yield f"claim {namespace}/{name}"
        for attached in self._attached(pod):
            yield f"volume {attached.driver}/{attached.handle}"

    def sources(self, pod: Pod) -> Iterator[str]:
        """The claims and volumes that are looked at for a pod."""
        namespace = pod.metadata.namespace or "default"
        for _, name in claims_of(pod):
            yield f"claim {namespace}/{name}"
            claim = self._claims.get(f"{namespace}/{name}")
            if claim is not None and claim.spec.volume_name:
                yield f"volume {claim.spec.volume_name}"

    def of(self, pod: Pod, users: Callable[[str], int]) -> ReadVolumes:
        """Terms of a pod's volumes; `users` gives the number of pods that use each name of `uses`. A pod on a node has
        what it has: only what others must not take from it counts.
        """
        mine = self._attached(pod)
        limited = self.limited
        by_driver = dict[str, int]()
        shared = set[tuple[str, str]]()
        for volume in mine:
            if volume.driver not in limited:
                continue
            if users(f"volume {volume.driver}/{volume.handle}") > 1:
                shared.add((volume.driver, volume.handle))
            else:
                by_driver[volume.driver] = by_driver.get(volume.driver, 0) + 1
        namespace = pod.metadata.namespace or "default"
        exclusive = {
            f"{namespace}/{name}"
            for volume, name in claims_of(pod)
            if volume.persistent_volume_claim is not None
            and users(f"claim {namespace}/{name}") > 1
            and (claim := self._claims.get(f"{namespace}/{name}")) is not None
            and _READ_WRITE_ONCE_POD in claim.spec.access_modes
        }
        terms = model.PodVolumes(
            attached=tuple(sorted(by_driver.items())),
            shared=tuple(sorted(shared)),
            exclusive=tuple(sorted(exclusive)),
            disks=tuple(sorted(set(_disks(pod)), key=lambda disk: (disk.kind, disk.names, disk.shareable))),
        )
        names = tuple(f"{namespace}/{name}" for _, name in claims_of(pod))
        if pod.spec.node_name:
            return ReadVolumes(terms, _encode(terms), names)
        refusal = self._refusal(pod)
        if refusal is not None:
            terms = msgspec.structs.replace(terms, refusal=refusal)
            return ReadVolumes(terms, _encode(terms), names)
        return self._placed_by(pod, terms, names, users)

    def _placed_by(
        self, pod: Pod, terms: model.PodVolumes, names: tuple[str, ...], users: Callable[[str], int]
    ) -> ReadVolumes:
        """With the volumes that tie a pod to nodes, and the claims that get theirs with its place."""
        settled: dict[model.VolumeTerms, None] = {}
        by_claim: dict[str, tuple[model.ClaimTerms, model.Claim]] = {}
        namespace = pod.metadata.namespace or "default"
        for volume, name in claims_of(pod):
            claim = self._claims[f"{namespace}/{name}"]
            if claim.bound:
                found = self._settled(claim.spec.volume_name)
                if volume.persistent_volume_claim is None and found.zones:  # zones bind claims made apart from the pod
                    found = msgspec.structs.replace(found, zones=())
                settled[found] = None
            else:
                shared = users(f"claim {namespace}/{name}") > 1
                by_claim[name] = self._wanted(claim, shared=shared)
        ordered = sorted(by_claim.values(), key=lambda pair: pair[0].size)  # stable, as Kubernetes serves few claims
        terms = msgspec.structs.replace(
            terms,
            settled=tuple(sorted(settled, key=_encode)),
            wanted=tuple(claim_terms for claim_terms, _ in ordered),
        )
        return ReadVolumes(terms, _encode(terms), names, tuple(claim for _, claim in ordered))

    def _refusal(self, pod: Pod) -> model.Refusal | None:
        """Reason why a claim keeps a pod waiting; None if all claims are usable."""
        namespace = pod.metadata.namespace or "default"
        for volume, name in claims_of(pod):
            path = f"{namespace}/{name}"
            claim = self._claims.get(path)
            if claim is None and volume.ephemeral is not None:
                return model.Refusal("VolumeClaimNotFound", f"claim {path} of its ephemeral volume is not made yet")
            if claim is None:
                return model.Refusal("VolumeClaimNotFound", f"claim {path} does not exist")
            if claim.status.phase == "Lost":
                return model.Refusal("VolumeClaimLost", f"claim {path} has lost its volume {claim.spec.volume_name}")
            if claim.metadata.deletion_timestamp:
                return model.Refusal("VolumeClaimDeleted", f"claim {path} is being deleted")
            if volume.ephemeral is not None and not _owns(pod, claim):
                return model.Refusal("VolumeClaimNotOwned", f"claim {path} of its ephemeral volume was not made for it")
            if claim.bound:
                if claim.spec.volume_name not in self._volumes:
                    text = f"volume {claim.spec.volume_name} of claim {path} does not exist"
                    return model.Refusal("VolumeNotFound", text)
            elif claim.spec.volume_name or not self._delayed(claim):
                return model.Refusal("VolumeClaimUnbound", self._unbound(path, claim))
        return None

    def _unbound(self, path: str, claim: api.PersistentVolumeClaim) -> str:
        name = api.class_of(claim)
        if claim.spec.volume_name:
            return f"claim {path} is not bound to its volume {claim.spec.volume_name} yet"
        if not name:
            return f"claim {path} is not bound yet, and has no storage class"
        if name not in self._classes:
            return f"claim {path} is not bound yet, and its storage class {name} does not exist"
        return f"claim {path} is not bound yet: volumes of storage class {name} are made before pods are placed"

    def _delayed(self, claim: api.PersistentVolumeClaim) -> bool:
        """Whether a claim gets its volume with the place of a pod."""
        storage_class = self._classes.get(api.class_of(claim))
        return storage_class is not None and storage_class.volume_binding_mode == api.WAIT_FOR_FIRST_CONSUMER

    def _attached(self, pod: Pod) -> set[csi_migration.Attachable]:
        """The volumes of a pod that drivers attach; what is not known of one is not counted."""
        attachables: set[csi_migration.Attachable] = set()
        namespace = pod.metadata.namespace or "default"
        names = {volume.name: name for volume, name in claims_of(pod)}
        for volume in pod.spec.volumes:
            if volume.name not in names:
                attachable = csi_migration.inline_handle(volume)
            else:
                claim = self._claims.get(f"{namespace}/{names[volume.name]}")
                if claim is None or (volume.ephemeral is not None and not _owns(pod, claim)):
                    continue
                settled = self._volumes.get(claim.spec.volume_name) if claim.spec.volume_name else None
                attachable = csi_migration.volume_handle(settled) if settled is not None else self._to_be_made(claim)
            if attachable is not None and attachable.driver and attachable.handle:
                attachables.add(attachable)
        return attachables

    def _to_be_made(self, claim: api.PersistentVolumeClaim) -> csi_migration.Attachable | None:
        """The volume that a claim without one will have, by a name of its own."""
        storage_class = self._classes.get(api.class_of(claim))
        if storage_class is None or storage_class.provisioner in csi_migration.UNCOUNTED:
            return None
        driver = csi_migration.DRIVERS.get(storage_class.provisioner, storage_class.provisioner)
        return csi_migration.Attachable(driver, f"claim {claim.metadata.namespace or 'default'}/{claim.metadata.name}")

    def _settled(self, name: str) -> model.VolumeTerms:
        terms = self._terms.get(name)
        if terms is None:
            volume = self._volumes[name]
            plugin, migrated, sound = csi_migration.translated(volume)
            affinity = _affinity(volume)
            terms = self._terms[name] = model.VolumeTerms(
                affinity,
                tuple(_zones(volume)),
                plugin,
                migrated if plugin else None,
                not sound,
            )
        return terms

    def _wanted(self, claim: api.PersistentVolumeClaim, *, shared: bool) -> tuple[model.ClaimTerms, model.Claim]:
        """Terms of a claim without a volume, and the claim. While a volume is made for one pod of several, on the node
        that we have chosen, the others may be looked for places elsewhere: all of them are held against the volume once
        it is there, and none is bound before.
        """
        spec = claim.spec
        marks = claim.metadata.annotations
        size = spec.resources.requests.get(_STORAGE)
        reserved = self._reserved(claim)
        selected = marks.get(api.SELECTED_NODE, "")
        terms = model.ClaimTerms(
            storage_class=api.class_of(claim),
            size=milli(size) if size is not None else 0,
            access_modes=tuple(sorted(set(spec.access_modes))),
            volume_mode=spec.volume_mode or _FILESYSTEM,
            selector=spec.selector,
            attributes_class=spec.volume_attributes_class_name,
            sized=size is not None,
            selected_node="" if shared and marks.get(CHOSEN_NODE) else selected,
            reserved=tuple(_kind(volume) for volume in reserved),
        )
        chosen_node = marks.get(CHOSEN_NODE, "")
        claim_found = model.Claim(
            key=f"{claim.metadata.namespace or 'default'}/{claim.metadata.name}",
            uid=claim.metadata.uid,
            version=claim.metadata.resource_version,
            volume=reserved[0].metadata.name if reserved else "",
            volume_version=reserved[0].metadata.resource_version if reserved else "",
            by_scheduler=bool(reserved) and api.BOUND_BY_CONTROLLER in reserved[0].metadata.annotations,
            chosen=chosen_node,
            since=status_time(marks.get(CHOSEN_AT, "")),
            failed=status_time(marks.get(FAILED_AT, "")),
            refused=bool(chosen_node) and not selected and not reserved,
        )
        return terms, claim_found

    def _reserved(self, claim: api.PersistentVolumeClaim) -> list[api.PersistentVolume]:
        """Volumes of its class that are meant for this claim, and large enough."""
        path = f"{claim.metadata.namespace or 'default'}/{claim.metadata.name}"
        volumes_reserved = []
        for name in self._meant_for.get(path, ()):
            volume = self._volumes[name]
            uid = volume.spec.claim_ref.uid if volume.spec.claim_ref is not None else ""
            if (
                api.class_of(volume) == api.class_of(claim)
                and uid in ("", claim.metadata.uid)
                and _holds(volume, claim)
            ):
                volumes_reserved.append(volume)
        return volumes_reserved

    @cached_property
    def _meant_for(self) -> dict[str, list[str]]:
        volumes_by_claim: dict[str, list[str]] = {}
        for name, volume in self._volumes.items():
            reference = volume.spec.claim_ref
            if reference is not None:
                volumes_by_claim.setdefault(f"{reference.namespace}/{reference.name}", []).append(name)
        return volumes_by_claim

    # -- the cluster

    @cached_property
    def storage(self) -> model.Storage:
        """Storage for claims without a volume: free volumes and classes."""
        kinds: dict[bytes, tuple[model.VolumeKind, list[str]]] = {}
        versions: dict[str, str] = {}
        for name, volume in self._volumes.items():
            if volume.spec.claim_ref is None and not volume.metadata.deletion_timestamp:
                if (volume.status.phase or _AVAILABLE) != _AVAILABLE:
                    continue
                kind = _kind(volume)
                kinds.setdefault(_encode(kind), (kind, []))[1].append(name)
                versions[name] = volume.metadata.resource_version
        return model.Storage(
            volumes=tuple([(kind, tuple(names)) for kind, names in kinds.values()]),  # by the first, as these are read
            versions=versions,
            classes={name: self._provisioning(storage_class) for name, storage_class in self._classes.items()},
            migrated={
                name: frozenset(marks.split(","))
                for name, node in self._nodes.items()
                if (marks := node.metadata.annotations.get(api.MIGRATED_PLUGINS))
            },
        )

    def _provisioning(self, storage_class: api.StorageClass) -> model.Provisioning:
        if storage_class.provisioner in ("", api.NO_PROVISIONER):
            return model.Provisioning("")
        driver = self._drivers.get(storage_class.provisioner)
        rooms = None
        if driver is not None and driver.spec.storage_capacity:
            name = storage_class.metadata.name
            rooms = tuple(
                (whole(limit), room.node_topology)
                for room in self._rooms.values()
                if room.storage_class_name == name
                and room.node_topology is not None
                # What a driver says of single volumes is more exact than what it has in all.
                and (limit := room.maximum_volume_size if room.maximum_volume_size is not None else room.capacity)
                is not None
            )
        return model.Provisioning(storage_class.provisioner, storage_class.allowed_topologies, rooms)

    @cached_property
    def limits(self) -> dict[str, dict[str, int]]:
        """By driver and node, how many volumes a node may attach; nodes without a limit are left out."""
        by_driver: dict[str, dict[str, int]] = {}
        for name, node in self._nodes.items():
            for driver in node.spec.drivers:
                if driver.allocatable is not None and driver.allocatable.count is not None:
                    by_driver.setdefault(driver.name, {})[name] = driver.allocatable.count
        return by_driver

    @cached_property
    def limited(self) -> frozenset[str]:
        """The drivers of which some node may attach only so many volumes."""
        return frozenset(self.limits)

    def attached_besides(self, used: Mapping[str, Collection[str]]) -> dict[str, dict[str, int]]:
        """By driver and node, how many volumes are attached that no pod there uses; `used` as `uses` names them."""
        if not self._attachments or not self.limits:
            return {}
        by_driver: dict[str, dict[str, int]] = {}
        counted_handles: set[tuple[str, str, str]] = set()
        for attachment in self._attachments.values():
            spec = attachment.spec
            volume = self._volumes.get(spec.source.persistent_volume_name)
            if not spec.attacher or volume is None or volume.spec.csi is None:
                continue
            attachable = csi_migration.Attachable(spec.attacher, volume.spec.csi.volume_handle)
            handle = (spec.node_name, attachable.driver, attachable.handle)
            if (
                f"volume {attachable.driver}/{attachable.handle}" in used.get(spec.node_name, ())
                or handle in counted_handles
            ):
                continue
            counted_handles.add(handle)
            nodes = by_driver.setdefault(spec.attacher, {})
            nodes[spec.node_name] = nodes.get(spec.node_name, 0) + 1
        return by_driver


def _owns(pod: Pod, claim: api.PersistentVolumeClaim) -> bool:
    """Whether a claim was made for a pod: its controller, by identity, and by name where identities are unknown."""
    owner = next((owner for owner in claim.metadata.owner_references if owner.controller), None)
    if owner is None:
        return False
    if pod.metadata.uid:
        return owner.uid == pod.metadata.uid
    return owner.name == pod.metadata.name


def _affinity(volume: api.PersistentVolume) -> NodeSelector | None:
    if volume.spec.node_affinity is not None:
        return volume.spec.node_affinity.required
    return None


def _zones(volume: api.PersistentVolume) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Labels of zones and regions with their values; a list with an empty entry says nothing."""
    for key in csi_migration.ZONE_LABELS:
        text = volume.metadata.labels.get(key)
        if text is not None:
            values = [part.strip() for part in text.split("__")]
            if all(values):
                yield key, tuple(sorted(set(values)))


def _kind(volume: api.PersistentVolume) -> model.VolumeKind:
    size = volume.spec.capacity.get(_STORAGE)
    modes = volume.spec.access_modes
    labels = volume.metadata.labels
    return model.VolumeKind(
        affinity=_affinity(volume),
        storage_class=api.class_of(volume),
        capacity=milli(size) if size is not None else 0,
        access_modes=tuple(sorted(set(modes))) if len(modes) > 1 else tuple(modes),
        volume_mode=volume.spec.volume_mode or _FILESYSTEM,
        labels=tuple(sorted(labels.items())) if labels else (),
        attributes_class=volume.spec.volume_attributes_class_name,
    )


def _holds(volume: api.PersistentVolume, claim: api.PersistentVolumeClaim) -> bool:
    """Whether a volume that is meant for a claim may be given to it."""
    requested = claim.spec.resources.requests.get(_STORAGE)
    has = volume.spec.capacity.get(_STORAGE)
    return (
        (milli(has) if has is not None else 0) >= (milli(requested) if requested is not None else 0)
        and (volume.spec.volume_mode or _FILESYSTEM) == (claim.spec.volume_mode or _FILESYSTEM)
        and volume.spec.volume_attributes_class_name == claim.spec.volume_attributes_class_name
        and not volume.metadata.deletion_timestamp
    )


def _disks(pod: Pod) -> Iterator[model.DiskUse]:
    """Disks that a pod names itself and that pods of one node cannot always share."""
    for volume in pod.spec.volumes:
        if volume.gce_persistent_disk is not None:
            yield model.DiskUse("gce", (volume.gce_persistent_disk.pd_name,), volume.gce_persistent_disk.read_only)
        if volume.aws_elastic_block_store is not None:
            yield model.DiskUse("ebs", (volume.aws_elastic_block_store.volume_id,), shareable=False)
        if volume.iscsi is not None:
            yield model.DiskUse("iscsi", (volume.iscsi.iqn,), volume.iscsi.read_only)
        if volume.rbd is not None:
            at = f"{volume.rbd.pool or _CEPH_POOL}/{volume.rbd.image}"
            monitors = tuple(sorted({f"{monitor}/{at}" for monitor in volume.rbd.monitors}))
            yield model.DiskUse("rbd", monitors, volume.rbd.read_only)
