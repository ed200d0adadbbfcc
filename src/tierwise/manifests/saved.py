"""A cluster's state as manifests: what `tierwise snapshot` saves, and every verb reads again.

A ConfigMap beside the objects holds the time at which they were read, and the version that read them. The time becomes
that of the run when they are loaded, so a cycle on the saved state gives the same result as on the live cluster, bit
for bit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from tierwise import __version__
from tierwise.api.codec import Raw, part
from tierwise.api.core import ConfigMap, format_micro_time, parse_time
from tierwise.api.manifest import manifest
from tierwise.port import Objects

__all__ = ["saved", "saved_at", "served", "without_managed_fields"]

_NAME: Final = "tierwise-snapshot"
_NAMESPACE: Final = "kube-system"
_MOMENT: Final = "moment"


def saved(objects: Iterable[Raw], now: float) -> Iterator[Raw]:
    """The manifests to write: the time first, then every object without the API server's bookkeeping of writers."""
    moment = format_micro_time(now)
    yield manifest("v1", "ConfigMap", _NAME, _NAMESPACE, data={_MOMENT: moment, "version": __version__})
    for raw in objects:
        yield without_managed_fields(raw)


def without_managed_fields(raw: Raw) -> Raw:
    """An object without the API server's bookkeeping of writers, which is not read and is half of it."""
    meta = part(raw, "metadata")
    if "managedFields" not in meta:
        return raw
    return {**raw, "metadata": {field: value for field, value in meta.items() if field != "managedFields"}}


def served(objects: Iterable[Raw], schedulers: Collection[str]) -> Iterator[Raw]:
    """The objects without pods that wait for schedulers other than these: they take up no room, and are not placed."""
    for raw in objects:
        spec = part(raw, "spec")
        waits = raw.get("kind") == "Pod" and spec and not spec.get("nodeName")
        if not waits or spec.get("schedulerName", "") in schedulers:
            yield raw


def saved_at(objects: Objects) -> float | None:
    """When objects were looked at, in seconds since the epoch; None where they come from elsewhere."""
    stamp = objects.every(ConfigMap).get(f"{_NAMESPACE}/{_NAME}")
    moment = stamp.data.get(_MOMENT, "") if stamp is not None else ""
    try:
        return parse_time(moment) if moment else None
    except ValueError:
        return None
