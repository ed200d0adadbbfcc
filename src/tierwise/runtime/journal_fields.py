"""What a journal keeps of each kind of object: the fields that scheduling reads.

A record has no fields but those that tierwise reads, and of kinds without a record nothing is written. Some records
serve controllers, statuses or people as well; of these the fields are listed that scheduling reads. So commands,
environment variables, the data of ConfigMaps and Secrets, and annotations of other programs cannot get into a journal.
Records are written as narrower types that are made of the list, so this costs little more than writing them whole.

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

from tierwise.api import codec, core, network_aware, resource, scheduler_plugins, volcano
from tierwise.api.codec import Raw
from tierwise.api.defrag_record import RECORD_NAME
from tierwise.api.unsupported import ANNOTATIONS, LABELS, PREFIXES
from tierwise.port import Key, Objects
from tierwise.snapshot.failed_starts import FAILED_STARTS
from tierwise.snapshot.kept_places import KEPT_PLACES
from tierwise.snapshot.run_history import RUN_HISTORY
from tierwise.snapshot.usage import USAGE

__all__ = ["recorded"]

_UNREAD: Final[frozenset[type[Any]]] = frozenset({core.Service, core.NetworkPolicy, volcano.Command})
"""Kinds that controllers read, and scheduling does not."""

_SOME: Final[Mapping[type[Any], str]] = {
    core.ObjectMeta: (
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

_CONFIG_MAPS: Final = frozenset({RECORD_NAME, RUN_HISTORY, FAILED_STARTS, KEPT_PLACES, USAGE})
"""ConfigMaps that tierwise writes itself: moves under way, how long jobs ran, failed starts, kept places, usage."""

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
    if type(record) in _UNREAD or (isinstance(record, core.ConfigMap) and key.name not in _CONFIG_MAPS):
        return None
    return msgspec.json.encode(_convert(record))


def _of_unknown(raw: Raw | None, fields_read: Mapping[str, tuple[str, ...]] | None) -> bytes | None:
    if raw is None or fields_read is None:
        return None
    about = codec.part(raw, "metadata")
    kept_fields: Raw = {"apiVersion": raw.get("apiVersion"), "kind": raw.get("kind")}
    kept_fields["metadata"] = {name: about[name] for name in ("name", "namespace", "uid") if name in about}
    for part, names in fields_read.items():
        inner = raw.get(part)
        if isinstance(inner, dict):
            kept_fields[part] = {name: inner[name] for name in names if isinstance(inner.get(name), int)}
    return msgspec.json.encode(kept_fields)


def _hook(kind: type[Any], value: Any) -> Any:
    """The annotations that are read; what may be anything is as it is."""
    if kind is not _Marks:
        return value
    return _Marks({name: text for name, text in value.items() if _is_read(name)})


@cache
def _is_read(name: str) -> bool:
    domain = name.rpartition("/")[0]
    of_ours = any(domain == domain_of_ours or domain.endswith(f".{domain_of_ours}") for domain_of_ours in _DOMAINS)
    return of_ours or name in _KEYS or name.startswith(tuple(PREFIXES))


def _convert(record: codec.Object | msgspec.Struct) -> Any:
    return msgspec.convert(record, _narrowed(type(record)), from_attributes=True, dec_hook=_hook)


@cache
def _narrowed(record: type[Any]) -> type[Any]:
    """A type with the fields of a record that are read."""
    names = _SOME[record].split() if record in _SOME else record.__struct_fields__
    fields: list[tuple[str, Any, Any]] = []
    for field_info in msgspec.structs.fields(record):
        if field_info.name not in names:
            continue
        kind = _IN_FULL.get((record, field_info.name)) or _narrow_type(field_info.type)
        if record is core.ObjectMeta and field_info.name == "annotations":
            kind = _Marks
        if field_info.default_factory is not msgspec.NODEFAULT:
            new_field = msgspec.field(default_factory=field_info.default_factory, name=field_info.encode_name)
        elif field_info.default is msgspec.NODEFAULT:
            new_field = msgspec.field(name=field_info.encode_name)
        else:
            default = (
                _convert(field_info.default) if isinstance(field_info.default, msgspec.Struct) else field_info.default
            )
            new_field = msgspec.field(default=default, name=field_info.encode_name)
        fields.append((field_info.name, kind, new_field))
    return msgspec.defstruct(record.__name__, fields, kw_only=True, frozen=True, omit_defaults=True, gc=False)


def _narrow_type(kind: Any) -> Any:
    """A type in which every record is the narrow one."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return _narrowed(kind)
    origin = typing.get_origin(kind)
    inner = typing.get_args(kind)
    if not inner or origin is typing.Annotated:
        return kind
    parts = tuple(part if part is Ellipsis else _narrow_type(part) for part in inner)
    return typing.Union[parts] if origin in (typing.Union, types.UnionType) else origin[parts]  # noqa: UP007
