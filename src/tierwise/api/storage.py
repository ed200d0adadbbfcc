"""Kubernetes' storage objects, as far as scheduling looks at them: volumes, claims, classes, drivers on nodes.

Built by the codec. The class of a claim or a volume is determined here, because an annotation that is older than
the field still takes precedence.
"""

from typing import Final

from tierwise.api import core
from tierwise.api.quantity import Quantity

__all__ = [
    "BIND_COMPLETED",
    "BOUND_BY_CONTROLLER",
    "MIGRATED_PLUGINS",
    "NO_PROVISIONER",
    "SELECTED_NODE",
    "WAIT_FOR_FIRST_CONSUMER",
    "CsiDriver",
    "CsiNode",
    "CsiStorageCapacity",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "PersistentVolumeSpec",
    "StorageClass",
    "TopologySelectorTerm",
    "VolumeAttachment",
    "class_of",
]

SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
"""On a claim that is to be provisioned: the node that its pod will run on."""

BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
"""On a claim whose volume is settled."""

BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
"""On a volume that a controller, and not a person, has tied to its claim."""

MIGRATED_PLUGINS: Final = "storage.alpha.kubernetes.io/migrated-plugins"
"""On a CSINode: the volume plugins of old whose work drivers do on that node."""

NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
WAIT_FOR_FIRST_CONSUMER: Final = "WaitForFirstConsumer"
_CLASS: Final = "volume.beta.kubernetes.io/storage-class"


class CsiVolumeSource(core.Record, frozen=True):
    """A volume that a driver attaches."""

    driver: str = ""
    volume_handle: str = ""


class VolumeNodeAffinity(core.Record, frozen=True):
    """The nodes from which a volume can be reached; None for all of them."""

    required: core.NodeSelector | None = None


class ClaimReference(core.Record, frozen=True):
    """The claim that a volume is meant for."""

    namespace: str = ""
    name: str = ""
    uid: str = ""


class PersistentVolumeSpec(core.Record, frozen=True):
    """Properties of a volume."""

    capacity: core.ResourceList = {}
    access_modes: tuple[str, ...] = ()
    claim_ref: ClaimReference | None = None
    storage_class_name: str = ""
    volume_mode: str = ""
    volume_attributes_class_name: str = ""
    node_affinity: VolumeNodeAffinity | None = None
    csi: CsiVolumeSource | None = None
    gce_persistent_disk: core.GoogleDisk | None = None
    aws_elastic_block_store: core.NumberedDisk | None = None
    azure_disk: core.AzureDisk | None = None
    cinder: core.NumberedDisk | None = None
    portworx_volume: core.NumberedDisk | None = None


class PersistentVolumeStatus(core.Record, frozen=True):
    """The status of a volume."""

    phase: str = ""


class PersistentVolume(core.Record, frozen=True):
    """A piece of storage."""

    metadata: core.ObjectMeta
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()


class ClaimResources(core.Record, frozen=True):
    """How large a volume must be."""

    requests: core.ResourceList = {}


class PersistentVolumeClaimSpec(core.Record, frozen=True):
    """Volume that a claim asks for; `volume_name` is set once the claim is bound."""

    access_modes: tuple[str, ...] = ()
    selector: core.LabelSelector | None = None
    resources: ClaimResources = ClaimResources()
    volume_name: str = ""
    storage_class_name: str | None = None
    volume_mode: str = ""
    volume_attributes_class_name: str = ""


class PersistentVolumeClaimStatus(core.Record, frozen=True):
    """The status of a claim."""

    phase: str = ""


class PersistentVolumeClaim(core.Record, frozen=True):
    """A wish for storage."""

    metadata: core.ObjectMeta
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()

    @property
    def bound(self) -> bool:
        """Whether its volume is settled, by the rule of Kubernetes' scheduler."""
        return bool(self.spec.volume_name) and BIND_COMPLETED in self.metadata.annotations


class TopologyRequirement(core.Record, frozen=True):
    """A label that a node must have, with one of these values."""

    key: str = ""
    values: tuple[str, ...] = ()


class TopologySelectorTerm(core.Record, frozen=True):
    """Labels that a node must have all of."""

    match_label_expressions: tuple[TopologyRequirement, ...] = ()


class StorageClass(core.Record, frozen=True):
    """How volumes are made; without a binding mode they are made at once, as the API server writes it."""

    metadata: core.ObjectMeta
    provisioner: str = ""
    volume_binding_mode: str = "Immediate"
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()


class VolumeLimits(core.Record, frozen=True):
    """How many volumes of a driver a node may attach; None for no limit."""

    count: core.Int | None = None


class CsiNodeDriver(core.Record, frozen=True):
    """A driver that runs on a node."""

    name: str = ""
    allocatable: VolumeLimits | None = None


class CsiNodeSpec(core.Record, frozen=True):
    """The drivers that run on a node."""

    drivers: tuple[CsiNodeDriver, ...] = ()


class CsiNode(core.Record, frozen=True):
    """Limits that storage drivers report for a node; the object has the node's name."""

    metadata: core.ObjectMeta
    spec: CsiNodeSpec = CsiNodeSpec()


class CsiDriverSpec(core.Record, frozen=True):
    """Capabilities of a storage driver."""

    storage_capacity: bool = False


class CsiDriver(core.Record, frozen=True):
    """A driver of the cluster."""

    metadata: core.ObjectMeta
    spec: CsiDriverSpec = CsiDriverSpec()


class CsiStorageCapacity(core.Record, frozen=True):
    """How much room a driver has for volumes of a class, seen from some nodes."""

    metadata: core.ObjectMeta
    storage_class_name: str = ""
    node_topology: core.LabelSelector | None = None
    capacity: Quantity | None = None
    maximum_volume_size: Quantity | None = None


class VolumeAttachmentSource(core.Record, frozen=True):
    """Which volume is attached."""

    persistent_volume_name: str = ""


class VolumeAttachmentSpec(core.Record, frozen=True):
    """Volume that a driver attaches, and the node."""

    attacher: str = ""
    node_name: str = ""
    source: VolumeAttachmentSource = VolumeAttachmentSource()


class VolumeAttachment(core.Record, frozen=True):
    """A volume on a node."""

    metadata: core.ObjectMeta
    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()


def class_of(record: PersistentVolume | PersistentVolumeClaim) -> str:
    """The class of a claim or a volume, "" for none."""
    old = record.metadata.annotations.get(_CLASS)
    if old is not None:
        return old
    return record.spec.storage_class_name or ""
