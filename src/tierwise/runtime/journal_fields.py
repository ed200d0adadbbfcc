"""What a journal keeps of each kind of object: a list of the fields that scheduling reads.

Of kinds and fields that are not in the list nothing is written, so commands, environment variables, the data of
ConfigMaps and Secrets, and annotations of other programs cannot get into a journal. Records are written as narrower
types that are made of the list, so this costs little more than writing them whole.

The pods that a Volcano Job would make are written as far as scheduling would read them: other verbs make them from a
recorded cycle.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

import msgspec

from tierwise.api import (
    codec,
    core,
    elastic_quota,
    grove,
    kai,
    koordinator,
    kueue,
    meta,
    network_aware,
    nvidia,
    resource,
    scheduler_plugins,
    storage,
    volcano,
    workload,
)
from tierwise.api.codec import Raw
from tierwise.api.defrag_record import RECORD_NAME
from tierwise.api.unsupported import ANNOTATIONS, LABELS, PREFIXES
from tierwise.port import Key, Objects
from tierwise.snapshot.run_history import RUN_HISTORY

__all__ = ["recorded"]

_WHOLE: Final[frozenset[type[Any]]] = frozenset(
    {
        meta.OwnerReference,
        meta.Requirement,
        meta.LabelSelector,
        core.NodeSelectorTerm,
        core.NodeSelector,
        core.PreferredNodeTerm,
        core.NodeAffinity,
        core.PodAffinityTerm,
        core.WeightedPodAffinityTerm,
        core.PodAffinity,
        core.Affinity,
        core.TopologySpreadConstraint,
        core.Taint,
        core.ContainerImage,
        core.Toleration,
        core.ContainerClaim,
        core.ResourceRequirements,
        core.RestartRule,
        core.PodSchedulingGate,
        core.GoogleDisk,
        core.NumberedDisk,
        core.AzureDisk,
        core.IscsiDisk,
        core.CephDisk,
        core.ClaimSource,
        core.Volume,
        core.SchedulingGroup,
        core.WorkloadReference,
        core.PodResourceClaim,
        core.PodSpec,
        core.ContainerStateRunning,
        core.PodResourceClaimStatus,
        core.ContainerExtendedResourceRequest,
        core.PodExtendedResourceClaimStatus,
        core.Pod,
        core.Node,
        core.Namespace,
        core.PodDisruptionBudgetSpec,
        core.PodDisruptionBudgetStatus,
        core.PodDisruptionBudget,
        core.ResourceQuotaSpec,
        core.ResourceQuotaStatus,
        core.ResourceQuota,
        storage.CsiVolumeSource,
        storage.VolumeNodeAffinity,
        storage.ClaimReference,
        storage.PersistentVolumeSpec,
        storage.PersistentVolumeStatus,
        storage.PersistentVolume,
        storage.ClaimResources,
        storage.PersistentVolumeClaimSpec,
        storage.PersistentVolumeClaimStatus,
        storage.PersistentVolumeClaim,
        storage.TopologyRequirement,
        storage.TopologySelectorTerm,
        storage.StorageClass,
        storage.VolumeLimits,
        storage.CsiNodeDriver,
        storage.CsiNodeSpec,
        storage.CsiNode,
        storage.CsiDriverSpec,
        storage.CsiDriver,
        storage.CsiStorageCapacity,
        storage.VolumeAttachmentSource,
        storage.VolumeAttachmentSpec,
        storage.VolumeAttachment,
        resource.DeviceAttribute,
        resource.CapacityRequestPolicyRange,
        resource.CapacityRequestPolicy,
        resource.DeviceCapacity,
        resource.Counter,
        resource.CounterSet,
        resource.CounterConsumption,
        resource.DeviceTaint,
        resource.BasicDevice,
        resource.Device,
        resource.ResourcePool,
        resource.ResourceSliceSpec,
        resource.ResourceSlice,
        resource.CelSelector,
        resource.DeviceSelector,
        resource.DeviceToleration,
        resource.CapacityRequirements,
        resource.DeviceSubRequest,
        resource.ExactDeviceRequest,
        resource.DeviceRequest,
        resource.DeviceConstraint,
        # What a device is configured with is copied from class and claim into the allocation that is decided.
        resource.OpaqueConfiguration,
        resource.DeviceClassConfiguration,
        resource.DeviceClaimConfiguration,
        resource.DeviceClaim,
        resource.ResourceClaimSpec,
        resource.DeviceAllocationResult,
        resource.DeviceAllocationConfiguration,
        resource.DeviceAllocation,
        resource.AllocationResult,
        resource.ConsumerReference,
        resource.AllocatedDeviceStatus,
        resource.ResourceClaimStatus,
        resource.ResourceClaim,
        resource.ResourceClaimTemplateSpec,
        resource.ResourceClaimTemplate,
        resource.DeviceClassSpec,
        resource.DeviceClass,
        kueue.Level,
        kueue.TopologySpec,
        kueue.Topology,
        kueue.ResourceFlavorSpec,
        kueue.ResourceFlavor,
        kueue.PodSet,
        kueue.LocalQueueSpec,
        kueue.LocalQueue,
        kueue.ClusterQueue,
        kueue.WorkloadSpec,
        kueue.PodSetAssignment,
        kueue.Admission,
        kueue.WorkloadStatus,
        kueue.Workload,
        kai.TopologyConstraint,
        kai.SubGroup,
        kai.PodGroupSpec,
        kai.PodGroup,
        kai.Topology,
        kai.QueueResource,
        kai.QueueResources,
        kai.QueueSpec,
        kai.Queue,
        grove.PackConstraint,
        grove.TopologyConstraint,
        grove.PodGangGroup,
        grove.ConstraintGroup,
        grove.PodGangSpec,
        grove.PodGangStatus,
        grove.PodGang,
        workload.Nothing,
        workload.GangPolicy,
        workload.SchedulingPolicy,
        workload.CompositeGangPolicy,
        workload.CompositePolicy,
        workload.TopologyConstraint,
        workload.SchedulingConstraints,
        workload.DisruptionMode,
        workload.WorkloadRef,
        workload.GroupResourceClaim,
        workload.PodGroupSpec,
        workload.GroupStatus,
        workload.PodGroup,
        workload.CompositePodGroupSpec,
        workload.CompositePodGroup,
        workload.WorkloadPodGroup,
        workload.WorkloadSpec,
        workload.Workload,
        nvidia.TemplateReference,
        nvidia.ComputeDomainChannel,
        nvidia.ComputeDomainSpec,
        nvidia.ComputeDomain,
        volcano.NetworkTopologySpec,
        volcano.SubGroupPolicy,
        volcano.PodGroupSpec,
        volcano.PodGroup,
        volcano.Guarantee,
        volcano.NodeGroupTerms,
        volcano.QueueAffinity,
        volcano.QueueSpec,
        volcano.Queue,
        volcano.ExactMatch,
        volcano.RegexMatch,
        volcano.MemberSelector,
        volcano.MemberSpec,
        volcano.HyperNodeSpec,
        volcano.LifecyclePolicy,
        volcano.DependsOn,
        volcano.PartitionPolicy,
        volcano.TaskSpec,
        volcano.TaskState,
        volcano.Job,
        koordinator.TopologyLayer,
        koordinator.HierarchyLayer,
        koordinator.ClusterNetworkTopologySpec,
        koordinator.ClusterNetworkTopology,
        koordinator.GatherRule,
        koordinator.ParallelRule,
        koordinator.GatherSpec,
        koordinator.PodGroupSpec,
        koordinator.PodGroupStatus,
        koordinator.PodGroup,
        scheduler_plugins.PodGroupSpec,
        scheduler_plugins.PodGroup,
        network_aware.WorkloadRef,
        network_aware.Dependency,
        network_aware.AppGroupWorkload,
        network_aware.AppGroupSpec,
        network_aware.OrderedWorkload,
        network_aware.AppGroup,
        network_aware.KepAppGroup,
        network_aware.Cost,
        network_aware.Origin,
        network_aware.KepOrigin,
        network_aware.Costs,
        network_aware.KepCosts,
        network_aware.Weight,
        network_aware.KepWeight,
        network_aware.NetworkTopology,
        network_aware.KepNetworkTopology,
        elastic_quota.ElasticQuotaSpec,
        elastic_quota.ElasticQuotaStatus,
        elastic_quota.ElasticQuota,
    }
)
"""Records every field of which scheduling reads."""

_SOME: Final[Mapping[type[Any], str]] = {
    meta.ObjectMeta: (
        "name namespace uid resource_version creation_timestamp deletion_timestamp labels annotations owner_references "
        "finalizers"
    ),
    core.Condition: "type status reason last_transition_time",
    core.NodeSpec: "unschedulable taints",
    core.NodeStatus: "allocatable capacity conditions images",
    core.ContainerPort: "host_port host_ip protocol",
    core.Container: "name image resources ports restart_policy restart_policy_rules",
    core.EphemeralSource: "",
    core.ContainerStateWaiting: "reason",
    core.ContainerStateTerminated: "exit_code started_at finished_at",
    core.ContainerState: "running terminated",
    core.ContainerStatus: "name state resources allocated_resources",
    core.PodStatus: (
        "phase nominated_node_name start_time conditions container_statuses init_container_statuses resources "
        "allocated_resources resource_claim_statuses extended_resource_claim_status"
    ),
    core.PodTemplate: "metadata spec",
    core.PriorityClass: "metadata value global_default preemption_policy",
    core.ConfigMap: "metadata data",
    volcano.PodGroupStatus: "phase conditions",
    volcano.QueueStatus: "state allocated",
    volcano.HyperNode: "metadata spec",
    volcano.JobSpec: (
        "scheduler_name min_available min_success queue priority_class_name max_retry ttl_seconds_after_finished "
        "policies network_topology tasks"
    ),
    volcano.JobState: "phase last_transition_time",
    volcano.JobStatus: (
        "state min_available pending running succeeded failed terminating unknown version retry_count "
        "task_status_count controlled_resources"
    ),
    scheduler_plugins.PodGroupStatus: "phase schedule_start_time",
    network_aware.AppGroupStatus: "topology_order",
    network_aware.NetworkTopologySpec: "weights",
    network_aware.KepNetworkTopologySpec: "weights",
    network_aware.NetworkTopologyStatus: "",
}
"""Fields that scheduling reads of records which have others: for controllers, for statuses, for people."""

_IN_FULL: Final = {(resource.AllocatedDeviceStatus, "conditions"): tuple[core.Condition, ...]}
"""Fields that are written as they are: why a device failed to bind is told to whoever waits for it."""

_RAW: Final[Mapping[tuple[str, str], Mapping[str, tuple[str, ...]]]] = {
    ("batch", "Job"): {"spec": ("parallelism", "completions")},
}
"""Kinds without a record of which scheduling reads something, and what of each part."""

_CONFIG_MAPS: Final = frozenset({RECORD_NAME, RUN_HISTORY})
"""ConfigMaps that tierwise writes itself: defragmentation under way, and how long jobs ran."""

_DOMAINS: Final = (
    "tierwise.io",
    "volcano.sh",
    "koordinator.sh",
    "x-k8s.io",
    "scheduling.k8s.io",
    "scheduling.sigs.k8s.io",
    "kai.scheduler",
    "grove.io",
    "resource.kubernetes.io",
    "pv.kubernetes.io",
    "volume.kubernetes.io",
    "volume.beta.kubernetes.io",
    "storage.alpha.kubernetes.io",
    "storageclass.kubernetes.io",
)
"""Whose annotations scheduling reads, those of domains below them included."""

_KEYS: Final = frozenset({*ANNOTATIONS, *LABELS, "pod-group-name", "batch.kubernetes.io/job-completion-index"})
"""Further annotations that it reads, by their whole key."""


class _Marks(dict[str, str]):
    """Annotations."""


def recorded(objects: Objects, key: Key) -> bytes | None:
    """An object as a journal keeps it; None where there is none, or nothing of it is read."""
    record = objects.record(key)
    if record is None:
        return None
    if isinstance(record, codec.Unknown):
        return _of_unknown(objects.raw(key), _RAW.get((key.group, key.kind)))
    if isinstance(record, core.ConfigMap) and key.name not in _CONFIG_MAPS:
        return None
    narrow = _narrowed(type(record))
    if narrow is None:
        return None
    return msgspec.json.encode(msgspec.convert(record, narrow, from_attributes=True, dec_hook=_hook))


def _of_unknown(raw: Raw | None, read: Mapping[str, tuple[str, ...]] | None) -> bytes | None:
    if raw is None or read is None:
        return None
    found = raw.get("metadata")
    about = found if isinstance(found, dict) else {}
    told: Raw = {"apiVersion": raw.get("apiVersion"), "kind": raw.get("kind")}
    told["metadata"] = {name: about[name] for name in ("name", "namespace", "uid") if name in about}
    for part, names in read.items():
        inner = raw.get(part)
        if isinstance(inner, dict):
            told[part] = {name: inner[name] for name in names if isinstance(inner.get(name), int)}
    return msgspec.json.encode(told)


def _hook(kind: type[Any], value: Any) -> Any:
    """The annotations that are read; what may be anything is as it is."""
    if kind is not _Marks:
        return value
    return _Marks({name: text for name, text in value.items() if _is_read(name)})


@cache
def _is_read(name: str) -> bool:
    domain = name.rpartition("/")[0]
    of_ours = any(domain == one or domain.endswith(f".{one}") for one in _DOMAINS)
    return of_ours or name in _KEYS or name.startswith(tuple(PREFIXES))


@cache
def _narrowed(record: type[Any]) -> type[Any] | None:
    """A type with the fields of a record that are read; None where none are."""
    if record not in _WHOLE and record not in _SOME:
        return None
    names = None if record in _WHOLE else _SOME[record].split()
    fields: list[tuple[str, Any, Any]] = []
    for found in msgspec.structs.fields(record):
        kind = _IN_FULL.get((record, found.name)) or _narrow_type(found.type)
        if (names is not None and found.name not in names) or kind is None:
            continue
        if record is meta.ObjectMeta and found.name == "annotations":
            kind = _Marks
        if found.default_factory is not msgspec.NODEFAULT:
            given = msgspec.field(default_factory=found.default_factory, name=found.encode_name)
        elif found.default is msgspec.NODEFAULT:
            given = msgspec.field(name=found.encode_name)
        else:
            given = msgspec.field(default=_default(found.default), name=found.encode_name)
        fields.append((found.name, kind, given))
    return msgspec.defstruct(record.__name__, fields, kw_only=True, frozen=True, omit_defaults=True, gc=False)


def _default(value: object) -> object:
    narrow = _narrowed(type(value)) if isinstance(value, msgspec.Struct) else None
    return value if narrow is None else msgspec.convert(value, narrow, from_attributes=True, dec_hook=_hook)


def _narrow_type(kind: Any) -> Any:
    """A type in which every record is the narrow one; None where a record in it is not read at all."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return _narrowed(kind)
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if not inner or origin is typing.Annotated:
        return kind
    parts = tuple(part if part is Ellipsis else _narrow_type(part) for part in inner)
    if None in parts:
        return None
    return typing.Union[parts] if origin in (typing.Union, types.UnionType) else origin[parts]  # noqa: UP007
