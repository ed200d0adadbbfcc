"""Objects as tables: the columns that `kubectl get` shows, as Kubernetes prints its own kinds.

Custom resources have the columns of their definitions, and every other kind its name and age. Times are shown as ages,
by the clock of the cluster.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from tierwise.api.codec import Raw
from tierwise.api.definitions import PrinterColumn
from tierwise.api.meta import parse_time
from tierwise.apiserver.kinds import DEFINITION, ServedKind
from tierwise.apiserver.store import meta_of

__all__ = ["table"]

Cell = str | int


class _Column(NamedTuple):
    name: str
    cell: Callable[[Raw, float], object]
    type: str = "string"
    wide: bool = False


def table(
    served: ServedKind, items: Iterable[Raw], meta: Raw, *, now: float, include: str = "Metadata", heads: bool = True
) -> Raw:
    """Rows for objects; `include` says how much of each goes along: "None", "Metadata" or "Object"."""
    columns = _columns(served)
    rows = [
        {"cells": [column.cell(raw, now) for column in columns], "object": _included(raw, include)} for raw in items
    ]
    shown: Raw = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": meta}
    definitions = [
        {
            "name": column.name,
            "type": column.type,
            "format": "name" if column.name == "Name" else "",
            "description": "",
            "priority": int(column.wide),
        }
        for column in columns
    ]
    return shown | {"columnDefinitions": definitions if heads else [], "rows": rows}


def _included(raw: Raw, include: str) -> object:
    if include == "Object":
        return raw
    if include == "None":
        return None
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": meta_of(raw)}


def age(text: object, now: float) -> str:
    """How long ago a time was, as kubectl says it: "5s", "3m20s", "2d3h"."""
    if not isinstance(text, str) or not text:
        return "<unknown>"
    try:
        seconds = int(now - parse_time(text))
    except ValueError:
        return "<unknown>"
    if seconds < -1:
        return "<invalid>"
    return _duration(max(seconds, 0))


def _duration(seconds: int) -> str:
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 10:
        return f"{minutes}m{seconds % 60}s" if seconds % 60 else f"{minutes}m"
    if hours < 3:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"
    if days < 730:
        return f"{days}d"
    return f"{days // 365}y{days % 365}d" if days % 365 and days < 2920 else f"{days // 365}y"


def _columns(served: ServedKind) -> Sequence[_Column]:
    name = _Column("Name", lambda raw, _: str(meta_of(raw).get("name", "")))
    if served.definition is not None:
        return [name, *map(_printed, served.definition.columns)]
    known = _KNOWN.get((served.group, served.kind))
    return [name, *known] if known is not None else [name, _AGE]


# Columns of custom resources.


_STEP: Final = re.compile(r"\.((?:\\.|[^.\[\]\\])+)|\[(-?[0-9]+)\]")


def _printed(column: PrinterColumn) -> _Column:
    def cell(raw: Raw, now: float) -> object:
        value: object = raw
        for field, index in _STEP.findall(column.path):
            if field:
                value = value.get(field.replace("\\", "")) if isinstance(value, dict) else None
            else:
                at = int(index)
                value = value[at] if isinstance(value, list) and -len(value) <= at < len(value) else None
        if column.type == "date":
            return age(value, now)
        return value if value is not None else ""

    return _Column(column.name, cell, column.type, wide=column.priority > 0)


# Columns of Kubernetes' own kinds.


def _at(raw: Mapping[str, object], *path: str) -> object:
    value: object = raw
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value


def _count(raw: Raw, *path: str) -> int:
    value = _at(raw, *path)
    return value if isinstance(value, int) else 0


def _text(*path: str, absent: str = "") -> Callable[[Raw, float], object]:
    return lambda raw, _: str(value) if (value := _at(raw, *path)) not in (None, "") else absent


def _items(raw: Mapping[str, object], *path: str) -> list[Raw]:
    found = _at(raw, *path)
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


_AGE: Final = _Column("Age", lambda raw, now: age(meta_of(raw).get("creationTimestamp"), now))


def _pod_status(raw: Raw) -> str:
    """The word that people look for: a container's reason before the pod's phase."""
    status = _at(raw, "status")
    word = str(_at(raw, "status", "reason") or _at(raw, "status", "phase") or "Unknown")
    for container in _items(status if isinstance(status, dict) else {}, "containerStatuses"):
        waiting = _at(container, "state", "waiting", "reason")
        ended = _at(container, "state", "terminated", "reason")
        word = str(waiting or ended or word)
    gates = _items(raw, "spec", "schedulingGates")
    if gates and not _at(raw, "spec", "nodeName"):
        word = "SchedulingGated"
    return "Terminating" if meta_of(raw).get("deletionTimestamp") else word


def _pod_ready(raw: Raw, _: float) -> str:
    statuses = _items(raw, "status", "containerStatuses")
    return f"{sum(bool(one.get('ready')) for one in statuses)}/{len(_items(raw, 'spec', 'containers'))}"


def _restarts(raw: Raw, now: float) -> str:
    statuses = _items(raw, "status", "containerStatuses")
    total = sum(_count(one, "restartCount") for one in statuses)
    ends = [str(end) for one in statuses if (end := _at(one, "lastState", "terminated", "finishedAt"))]
    return f"{total} ({age(max(ends), now)} ago)" if total and ends else str(total)


def _node_status(raw: Raw, _: float) -> str:
    ready = [one for one in _items(raw, "status", "conditions") if one.get("type") == "Ready"]
    word = "Unknown" if not ready else "Ready" if ready[0].get("status") == "True" else "NotReady"
    if not ready and _at(raw, "status", "allocatable") is not None:
        word = "Ready"  # one that says nothing of itself takes pods here
    return f"{word},SchedulingDisabled" if _at(raw, "spec", "unschedulable") else word


def _roles(raw: Raw, _: float) -> str:
    labels, prefix = _at(raw, "metadata", "labels"), "node-role.kubernetes.io/"
    found = [key.removeprefix(prefix) for key in labels if key.startswith(prefix)] if isinstance(labels, dict) else []
    return ",".join(sorted(found)) or "<none>"


def _containers(*path: str, field: str) -> Callable[[Raw, float], object]:
    return lambda raw, _: ",".join(str(one.get(field, "")) for one in _items(raw, *path))


def _selector(*path: str) -> Callable[[Raw, float], object]:
    def cell(raw: Raw, _: float) -> str:
        labels = _at(raw, *path)
        return ",".join(f"{k}={v}" for k, v in labels.items()) if isinstance(labels, dict) and labels else "<none>"

    return cell


def _of(done: str, wanted: tuple[str, ...], default: int = 1) -> Callable[[Raw, float], object]:
    def cell(raw: Raw, _: float) -> str:
        total = _at(raw, *wanted)
        return f"{_count(raw, 'status', done)}/{total if isinstance(total, int) else default}"

    return cell


def _number(*path: str) -> Callable[[Raw, float], object]:
    return lambda raw, _: _count(raw, *path)


def _replicas(raw: Raw, _: float) -> int:
    value = _at(raw, "spec", "replicas")
    return value if isinstance(value, int) else 1


def _job_status(raw: Raw, _: float) -> str:
    ended = [str(c.get("type")) for c in _items(raw, "status", "conditions") if c.get("status") == "True"]
    found = next((word for word in ended if word in ("Complete", "Failed", "Suspended", "FailureTarget")), "")
    return found or ("Suspended" if _at(raw, "spec", "suspend") is True else "Running")


def _job_time(raw: Raw, now: float) -> str:
    start, end = _at(raw, "status", "startTime"), _at(raw, "status", "completionTime")
    if not isinstance(start, str):
        return ""
    return age(start, parse_time(end) if isinstance(end, str) else now)


def _amount(*path: str) -> Callable[[Raw, float], object]:
    def cell(raw: Raw, _: float) -> str:
        value = _at(raw, *path)
        return "N/A" if value is None else str(value)

    return cell


_MODES: Final = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def _modes(raw: Raw, _: float) -> str:
    found = _at(raw, "spec", "accessModes")
    return ",".join(_MODES.get(str(mode), str(mode)) for mode in found) if isinstance(found, list) else ""


def _claim(raw: Raw, _: float) -> str:
    name = _at(raw, "spec", "claimRef", "name")
    return f"{_at(raw, 'spec', 'claimRef', 'namespace')}/{name}" if name else ""


def _used(raw: Raw, *, limits: bool) -> str:
    """What is used of a quota, and what there is of it."""
    hard, used = _at(raw, "spec", "hard"), _at(raw, "status", "used")
    names = [name for name in hard if name.startswith("limits.") == limits] if isinstance(hard, dict) else []
    given = used if isinstance(used, dict) else {}
    return ", ".join(f"{name}: {given.get(name, 0)}/{hard[name]}" for name in sorted(names))  # type: ignore[index]


def _behind(parts: str, field: str) -> Callable[[Raw, float], object]:
    """The addresses of a service; a few of many."""

    def cell(raw: Raw, _: float) -> str:
        found: list[str] = []
        for one in _items(raw, parts):
            listed = one.get(field)
            for entry in listed if isinstance(listed, list) else ():
                found.append(str(entry.get("ip")) if isinstance(entry, dict) else str(entry))
        more = f" + {len(found) - 3} more..." if len(found) > 3 else ""
        return (",".join(found[:3]) or "<none>") + more

    return cell


def _ports(raw: Raw, _: float) -> str:
    shown = []
    for one in _items(raw, "spec", "ports"):
        outside = f":{one['nodePort']}" if one.get("nodePort") else ""
        shown.append(f"{one.get('port')}{outside}/{one.get('protocol', 'TCP')}")
    return ",".join(shown) or "<none>"


_TEMPLATE: Final = ("spec", "template", "spec", "containers")
_OF_TEMPLATE: Final = (
    _Column("Containers", _containers(*_TEMPLATE, field="name"), wide=True),
    _Column("Images", _containers(*_TEMPLATE, field="image"), wide=True),
    _Column("Selector", _selector("spec", "selector", "matchLabels"), wide=True),
)

_KNOWN: Final[Mapping[tuple[str, str], Sequence[_Column]]] = {
    DEFINITION: (_Column("Created At", _text("metadata", "creationTimestamp")),),
    ("", "Pod"): (
        _Column("Ready", _pod_ready),
        _Column("Status", lambda raw, _: _pod_status(raw)),
        _Column("Restarts", _restarts),
        _AGE,
        _Column("IP", _text("status", "podIP", absent="<none>"), wide=True),
        _Column("Node", _text("spec", "nodeName", absent="<none>"), wide=True),
        _Column("Nominated Node", _text("status", "nominatedNodeName", absent="<none>"), wide=True),
        _Column("Readiness Gates", lambda *_: "<none>", wide=True),
    ),
    ("", "Node"): (
        _Column("Status", _node_status),
        _Column("Roles", _roles),
        _AGE,
        _Column("Version", _text("status", "nodeInfo", "kubeletVersion", absent="simulated")),
    ),
    ("", "Namespace"): (_Column("Status", _text("status", "phase", absent="Active")), _AGE),
    ("", "ConfigMap"): (
        _Column("Data", lambda raw, _: len(_at(raw, "data") or ()), "integer"),  # type: ignore[arg-type]
        _AGE,
    ),
    ("", "Secret"): (
        _Column("Type", _text("type", absent="Opaque")),
        _Column("Data", lambda raw, _: len(_at(raw, "data") or ()), "integer"),  # type: ignore[arg-type]
        _AGE,
    ),
    ("", "Service"): (
        _Column("Type", _text("spec", "type", absent="ClusterIP")),
        _Column("Cluster-IP", _text("spec", "clusterIP", absent="<none>")),
        _Column("External-IP", lambda *_: "<none>"),
        _Column("Port(s)", _ports),
        _AGE,
        _Column("Selector", _selector("spec", "selector"), wide=True),
    ),
    ("", "ResourceQuota"): (
        _Column("Request", lambda raw, _: _used(raw, limits=False)),
        _Column("Limit", lambda raw, _: _used(raw, limits=True)),
        _AGE,
    ),
    ("", "Endpoints"): (_Column("Endpoints", _behind("subsets", "addresses")), _AGE),
    ("discovery.k8s.io", "EndpointSlice"): (_Column("Endpoints", _behind("endpoints", "addresses")), _AGE),
    ("", "Event"): (
        _Column("Last Seen", lambda raw, now: age(raw.get("lastTimestamp") or raw.get("eventTime"), now)),
        _Column("Type", _text("type")),
        _Column("Reason", _text("reason")),
        _Column(
            "Object",
            lambda raw, _: (
                f"{str(_at(raw, 'involvedObject', 'kind') or '').lower()}/{_at(raw, 'involvedObject', 'name') or ''}"
            ),
        ),
        _Column("Source", _text("source", "component"), wide=True),
        _Column("Message", _text("message")),
        _Column("Count", _number("count"), "integer", wide=True),
    ),
    ("", "PersistentVolume"): (
        _Column("Capacity", _text("spec", "capacity", "storage")),
        _Column("Access Modes", _modes),
        _Column("Reclaim Policy", _text("spec", "persistentVolumeReclaimPolicy")),
        _Column("Status", _text("status", "phase", absent="Available")),
        _Column("Claim", _claim),
        _Column("StorageClass", _text("spec", "storageClassName")),
        _AGE,
    ),
    ("", "PersistentVolumeClaim"): (
        _Column("Status", _text("status", "phase", absent="Pending")),
        _Column("Volume", _text("spec", "volumeName")),
        _Column("Capacity", _text("spec", "resources", "requests", "storage")),
        _Column("Access Modes", _modes),
        _Column("StorageClass", _text("spec", "storageClassName")),
        _AGE,
    ),
    ("storage.k8s.io", "StorageClass"): (
        _Column("Provisioner", _text("provisioner")),
        _Column("VolumeBindingMode", _text("volumeBindingMode", absent="Immediate")),
        _AGE,
    ),
    ("policy", "PodDisruptionBudget"): (
        _Column("Min Available", _amount("spec", "minAvailable")),
        _Column("Max Unavailable", _amount("spec", "maxUnavailable")),
        _Column("Allowed Disruptions", _number("status", "disruptionsAllowed"), "integer"),
        _AGE,
    ),
    ("scheduling.k8s.io", "PriorityClass"): (
        _Column("Value", _number("value"), "integer"),
        _Column("Global-Default", lambda raw, _: str(bool(raw.get("globalDefault"))).lower(), "boolean"),
        _AGE,
    ),
    ("apps", "Deployment"): (
        _Column("Ready", _of("readyReplicas", ("spec", "replicas"))),
        _Column("Up-to-date", _number("status", "updatedReplicas"), "integer"),
        _Column("Available", _number("status", "availableReplicas"), "integer"),
        _AGE,
        *_OF_TEMPLATE,
    ),
    **dict.fromkeys(
        (("apps", "ReplicaSet"), ("", "ReplicationController")),
        (
            _Column("Desired", _replicas, "integer"),
            _Column("Current", _number("status", "replicas"), "integer"),
            _Column("Ready", _number("status", "readyReplicas"), "integer"),
            _AGE,
            *_OF_TEMPLATE,
        ),
    ),
    ("apps", "StatefulSet"): (_Column("Ready", _of("readyReplicas", ("spec", "replicas"))), _AGE, *_OF_TEMPLATE[:2]),
    ("apps", "DaemonSet"): (
        _Column("Desired", _number("status", "desiredNumberScheduled"), "integer"),
        _Column("Current", _number("status", "currentNumberScheduled"), "integer"),
        _Column("Ready", _number("status", "numberReady"), "integer"),
        _Column("Up-to-date", _number("status", "updatedNumberScheduled"), "integer"),
        _Column("Available", _number("status", "numberAvailable"), "integer"),
        _Column("Node Selector", _selector("spec", "template", "spec", "nodeSelector")),
        _AGE,
        *_OF_TEMPLATE,
    ),
    ("batch", "Job"): (
        _Column("Status", _job_status),
        _Column("Completions", _of("succeeded", ("spec", "completions"))),
        _Column("Duration", _job_time),
        _AGE,
        *_OF_TEMPLATE,
    ),
    ("batch", "CronJob"): (
        _Column("Schedule", _text("spec", "schedule")),
        _Column("Suspend", lambda raw, _: str(bool(_at(raw, "spec", "suspend"))), "boolean"),
        _AGE,
    ),
}
