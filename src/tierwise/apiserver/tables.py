"""Objects as tables: the columns that `kubectl get` shows, as Kubernetes prints its own kinds.

Custom resources have the columns of their definitions, Kubernetes' own kinds those of `printer_columns.yaml`, and every
other kind its name and age. Times are shown as ages, by the clock of the cluster.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pkgutil import get_data
from typing import Any, Final

import msgspec

from tierwise.api.codec import Raw
from tierwise.api.core import parse_time
from tierwise.api.definitions import PrinterColumn
from tierwise.api.yaml_text import documents
from tierwise.apiserver.kinds import ServedKind
from tierwise.apiserver.store import meta_of

__all__ = ["table"]

_NAME: Final = PrinterColumn("Name", path=".metadata.name")
_AGE: Final = PrinterColumn("Age", path=".metadata.creationTimestamp", cell="age")


def table(
    served: ServedKind, items: Iterable[Raw], meta: Raw, *, now: float, include: str = "Metadata", heads: bool = True
) -> Raw:
    """Rows for objects; `include` says how much of each goes along: "None", "Metadata" or "Object"."""
    columns = _columns(served)
    rows = [
        {"cells": [_cell(column, raw, now) for column in columns], "object": _included(raw, include)} for raw in items
    ]
    shown: Raw = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": meta}
    definitions = [
        {
            "name": column.name,
            "type": column.type,
            "format": "name" if column.name == "Name" else "",
            "description": "",
            "priority": column.priority,
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
    minutes = seconds // 60
    hours = seconds // 3600
    days = seconds // 86400
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 10:
        if seconds % 60:
            return f"{minutes}m{seconds % 60}s"
        return f"{minutes}m"
    if hours < 3:
        return f"{minutes}m"
    if hours < 8:
        if minutes % 60:
            return f"{hours}h{minutes % 60}m"
        return f"{hours}h"
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return f"{days}d{hours % 24}h" if hours % 24 else f"{days}d"
    if days < 730:
        return f"{days}d"
    if days % 365 and days < 2920:
        return f"{days // 365}y{days % 365}d"
    return f"{days // 365}y"


def _columns(served: ServedKind) -> Sequence[PrinterColumn]:
    if served.definition is not None:
        return [_NAME, *served.definition.columns]
    return [_NAME, *_own_columns().get(served.resource, (_AGE,))]


@cache
def _own_columns() -> dict[str, tuple[PrinterColumn, ...]]:
    """Those of Kubernetes' own kinds, by the names of their resources."""
    ((content, _),) = documents(
        get_data("tierwise.apiserver", "printer_columns.yaml") or b"", file="printer_columns.yaml"
    )
    return msgspec.convert(content, dict[str, tuple[PrinterColumn, ...]])


_STEP: Final = re.compile(r"\.((?:\\.|[^.\[\]\\])+)|\[(-?[0-9]+)\]|\[((?:'[^'\]]*',?)+)\]")


def _at(raw: object, path: str) -> Any:
    """Value at a path; None if there is none."""
    value: Any = raw
    for field, index, union in _STEP.findall(path):
        if union:
            fields = value if isinstance(value, dict) else {}
            value = next((fields[name] for name in re.findall("'([^']*)'", union) if name in fields), None)
        elif field:
            value = value.get(field.replace("\\", "")) if isinstance(value, dict) else None
        else:
            at = int(index)
            value = value[at] if isinstance(value, list) and -len(value) <= at < len(value) else None
    return value


def _cell(column: PrinterColumn, raw: Raw, now: float) -> object:
    value = _at(raw, column.path) if column.path else None
    if column.cell:
        return _MADE[column.cell](value, raw, now)
    if column.type == "date":
        return age(value, now)
    if isinstance(column.absent, int):
        return value if isinstance(value, int) else column.absent
    if value is None or value == "":
        return column.absent
    return str(value) if column.type == "string" else value


# Cells that are made of what is at a path, and of more.


def _items(value: object) -> list[Raw]:
    if isinstance(value, list):
        return [item for item in value if isinstance(item, dict)]
    return []


def _listed(value: object, field: str) -> str:
    return ",".join(str(item.get(field, "")) for item in _items(value))


def _labels(value: object) -> str:
    if isinstance(value, dict) and value:
        return ",".join(f"{k}={v}" for k, v in value.items())
    return "<none>"


def _of(raw: Raw, done: str, desired: object) -> str:
    """Text of two numbers, such as "1/3".

    `done` is the path of the first number in the object, 0 where it is absent; `desired` is the second one itself, 1
    where it is no integer.
    """
    number = _at(raw, done)
    return f"{number if isinstance(number, int) else 0}/{desired if isinstance(desired, int) else 1}"


def _pod_status(raw: Raw) -> str:
    """The word that people look for: a container's reason before the pod's phase."""
    word = str(_at(raw, ".status.reason") or _at(raw, ".status.phase") or "Unknown")
    for container in _items(_at(raw, ".status.containerStatuses")):
        word = str(_at(container, ".state.waiting.reason") or _at(container, ".state.terminated.reason") or word)
    if _items(_at(raw, ".spec.schedulingGates")) and not _at(raw, ".spec.nodeName"):
        word = "SchedulingGated"
    if _at(raw, ".metadata.deletionTimestamp"):
        return "Terminating"
    return word


def _containers_ready(statuses: object, raw: Raw) -> str:
    ready = sum(bool(container.get("ready")) for container in _items(statuses))
    return f"{ready}/{len(_items(_at(raw, '.spec.containers')))}"


def _restarts(statuses: object, now: float) -> str:
    counts = (container.get("restartCount") for container in _items(statuses))
    total = sum(number for number in counts if isinstance(number, int))
    ends = [str(end) for container in _items(statuses) if (end := _at(container, ".lastState.terminated.finishedAt"))]
    if total and ends:
        return f"{total} ({age(max(ends), now)} ago)"
    return str(total)


def _node_status(raw: Raw) -> str:
    ready = [condition for condition in _items(_at(raw, ".status.conditions")) if condition.get("type") == "Ready"]
    word = "Unknown"
    if ready:
        word = "Ready" if ready[0].get("status") == "True" else "NotReady"
    elif _at(raw, ".status.allocatable") is not None:
        word = "Ready"  # a node without the condition takes pods here
    if _at(raw, ".spec.unschedulable"):
        return f"{word},SchedulingDisabled"
    return word


def _roles(labels: object) -> str:
    prefix = "node-role.kubernetes.io/"
    names = [key.removeprefix(prefix) for key in labels if key.startswith(prefix)] if isinstance(labels, dict) else []
    return ",".join(sorted(names)) or "<none>"


def _job_status(conditions: object, raw: Raw) -> str:
    ended = []
    for c in _items(conditions):
        if c.get("status") == "True":
            ended.append(str(c.get("type")))
    ended_as = next((word for word in ended if word in ("Complete", "Failed", "Suspended", "FailureTarget")), "")
    return ended_as or ("Suspended" if _at(raw, ".spec.suspend") is True else "Running")


def _job_time(start: object, raw: Raw, now: float) -> str:
    end = _at(raw, ".status.completionTime")
    if isinstance(start, str):
        return age(start, parse_time(end) if isinstance(end, str) else now)
    return ""


_MODES: Final = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def _modes(modes: object) -> str:
    if isinstance(modes, list):
        return ",".join(_MODES.get(str(mode), str(mode)) for mode in modes)
    return ""


def _claim(claim: object) -> str:
    name = _at(claim, ".name")
    return f"{_at(claim, '.namespace')}/{name}" if name else ""


def _reference(about: object) -> str:
    return f"{str(_at(about, '.kind') or '').lower()}/{_at(about, '.name') or ''}"


def _used(hard: object, raw: Raw, *, limits: bool) -> str:
    """Used and allowed amounts of a quota as one text."""
    status_used = _at(raw, ".status.used")
    used = status_used if isinstance(status_used, dict) else {}
    amounts = hard.items() if isinstance(hard, dict) else ()
    shown_amounts = [(name, amount) for name, amount in amounts if name.startswith("limits.") == limits]
    return ", ".join(f"{name}: {used.get(name, 0)}/{amount}" for name, amount in sorted(shown_amounts))


def _addresses(parts: object) -> str:
    """The addresses of a service; a few of many."""
    listed = [
        entry
        for part in _items(parts)
        if isinstance(entry_addresses := part.get("addresses"), list)
        for entry in entry_addresses
    ]
    addresses = [str(entry.get("ip") if isinstance(entry, dict) else entry) for entry in listed]
    suffix = f" + {len(addresses) - 3} more..." if len(addresses) > 3 else ""
    return (",".join(addresses[:3]) or "<none>") + suffix


def _ports(ports: object) -> str:
    shown = []
    for port in _items(ports):
        outside = f":{port['nodePort']}" if port.get("nodePort") else ""
        shown.append(f"{port.get('port')}{outside}/{port.get('protocol', 'TCP')}")
    return ",".join(shown) or "<none>"


_MADE: Final[Mapping[str, Callable[[Any, Raw, float], object]]] = {
    "addresses": lambda value, *_: _addresses(value),
    "age": lambda value, _, now: age(value, now),
    "claim": lambda value, *_: _claim(value),
    "completions": lambda value, raw, _: _of(raw, ".status.succeeded", value),
    "containers-ready": lambda value, raw, _: _containers_ready(value, raw),
    "duration": _job_time,
    "images": lambda value, *_: _listed(value, "image"),
    "job-status": lambda value, raw, _: _job_status(value, raw),
    "labels": lambda value, *_: _labels(value),
    "last-seen": lambda _, raw, now: age(raw.get("lastTimestamp") or raw.get("eventTime"), now),
    "limits-used": lambda value, raw, _: _used(value, raw, limits=True),
    "modes": lambda value, *_: _modes(value),
    "names": lambda value, *_: _listed(value, "name"),
    "node-status": lambda _, raw, __: _node_status(raw),
    "number": lambda value, *_: len(value) if isinstance(value, dict) else 0,
    "pod-status": lambda _, raw, __: _pod_status(raw),
    "ports": lambda value, *_: _ports(value),
    "ready": lambda value, raw, _: _of(raw, ".status.readyReplicas", value),
    "reference": lambda value, *_: _reference(value),
    "requests-used": lambda value, raw, _: _used(value, raw, limits=False),
    "restarts": lambda value, _, now: _restarts(value, now),
    "roles": lambda value, *_: _roles(value),
    "titled-truth": lambda value, *_: str(bool(value)),
    "truth": lambda value, *_: str(bool(value)).lower(),
}
"""What a column of `printer_columns.yaml` names as its cell: from what is at its path, the object and the time."""
