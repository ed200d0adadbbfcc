"""Defaults: fills in the values that a manifest omits, as the webhooks of Volcano and Koordinator do.

Never changes a value that was given, except for the letter case of a topology's mode, which is accepted in any case and
written as in the definition.
"""

from __future__ import annotations

from collections.abc import Mapping

from tierwise.api import codec
from tierwise.api.codec import Raw, part
from tierwise.api.elastic_quota import PARENT, ROOT_QUOTA, SHARED_WEIGHT, ElasticQuota, write_amounts
from tierwise.api.quantity import amount
from tierwise.api.volcano import Job, PodGroup, Queue
from tierwise.dialects.volcano.job import DEFAULT_QUEUE, defaulted

__all__ = ["complete"]


def complete(raw: Raw) -> Raw:
    """A manifest with its defaults filled in; the manifest itself where there is nothing to fill in."""
    record = codec.decode(raw)
    if isinstance(record, Job):
        return _with_modes(_job(raw, record))
    if isinstance(record, PodGroup):
        return _with_modes(_with_spec(raw, {"queue": DEFAULT_QUEUE}))
    if isinstance(record, Queue):
        return _with_spec(raw, {"weight": 1, "reclaimable": True})
    if isinstance(record, ElasticQuota) and record.metadata.name != ROOT_QUOTA:
        return _quota(raw, record)
    return raw


def _with_modes(raw: Raw) -> Raw:
    """The manifest with each networkTopology.mode in its spec that spells "hard" or "soft" in lower case.

    Other modes, and everything in a field called template, stay as they are. It returns the argument itself where
    nothing changes, and never alters the argument.
    """

    def lowered(value: object, field: str = "") -> object:
        if isinstance(value, list):
            return [lowered(entry) for entry in value]
        if not isinstance(value, dict) or field == "template":
            return value
        changed = {key: lowered(entry, key) for key, entry in value.items()}
        mode = changed.get("mode")
        if field == "networkTopology" and isinstance(mode, str) and mode.lower() in ("hard", "soft"):
            changed["mode"] = mode.lower()
        return changed

    spec = part(raw, "spec")
    lower_spec = lowered(spec)
    if lower_spec == spec:
        return raw
    return {**raw, "spec": lower_spec}


def _quota(raw: Raw, record: ElasticQuota) -> Raw:
    """A quota names its parent, and shares by max where it has no weight of its own."""
    meta = part(raw, "metadata")
    weights = write_amounts({name: amount(name, quantity) for name, quantity in record.spec.max.items()})
    labels = _filled(part(meta, "labels"), {PARENT: ROOT_QUOTA})
    annotations = _filled(part(meta, "annotations"), {SHARED_WEIGHT: weights})
    return {**raw, "metadata": {**meta, "labels": labels, "annotations": annotations}}


def _job(raw: Raw, record: Job) -> Raw:
    spec = defaulted(record).spec
    written = part(raw, "spec").get("tasks")
    tasks = [
        _filled(entry, {"name": task.name, "minAvailable": task.min_available, "maxRetry": task.max_retry})
        for entry, task in zip(written if isinstance(written, list) else [], spec.tasks, strict=False)
    ]
    completed = _with_spec(
        raw,
        {
            "queue": spec.queue,
            "schedulerName": spec.scheduler_name,
            "maxRetry": spec.max_retry,
            "minAvailable": spec.min_available,
        },
    )
    if tasks == written:
        return completed
    return {**completed, "spec": {**part(completed, "spec"), "tasks": tasks}}


def _with_spec(raw: Raw, defaults: Mapping[str, object]) -> Raw:
    spec = part(raw, "spec")
    filled = _filled(spec, defaults)
    return raw if filled == spec else {**raw, "spec": filled}


def _filled(present: Mapping[str, object], defaults: Mapping[str, object]) -> dict[str, object]:
    return {**present, **{field: value for field, value in defaults.items() if _absent(present.get(field))}}


def _absent(value: object) -> bool:
    """Whether a field says nothing; the empty text and zero do not in Volcano's API, but False does."""
    return value is None or (value in ("", 0) and value is not False)
