"""Changes on their way into the embedded cluster's store: what each effect makes of the objects before it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.api.core import Pod
from tierwise.controllers.stamp import stamp
from tierwise.port import Effect, Key, Objects, Outcome, key_of_raw

__all__ = ["Batch", "grace", "merged"]

_GRACE: Final = 30
"""Seconds that a pod gets to terminate where it names no other time."""


class Batch:
    """Changes on their way into the store, visible to the effects that follow."""

    def __init__(self, objects: Objects, clock: float | None) -> None:
        self._objects = objects
        self._clock = clock
        self.puts: dict[Key, Raw] = {}
        self.deletes: dict[Key, None] = {}

    def raw(self, key: Key) -> Raw | None:
        if key in self.puts:
            return self.puts[key]
        return None if key in self.deletes else self._objects.raw(key)

    def put(self, key: Key, raw: Raw) -> None:
        self.puts[key] = raw
        self.deletes.pop(key, None)

    def create(self, effect: Effect, raw: Raw) -> Outcome:
        key = key_of_raw(raw)
        if self.raw(key) is not None:
            return Outcome(effect, ok=False, error=f"{key} already exists")
        born = {} if self._clock is None else {"creationTimestamp": stamp(self._clock)}
        meta = raw["metadata"]
        assert isinstance(meta, dict)  # or it would have no key
        self.put(key, {**raw, "metadata": {**born, **meta}} if born else raw)
        return Outcome(effect, ok=True)

    def update(self, effect: Effect, key: Key, raw: Raw) -> Outcome:
        if self.raw(key) is None:
            return Outcome(effect, ok=False, error=f"{key} does not exist")
        self.put(key, raw)
        return Outcome(effect, ok=True)

    def edit(self, effect: Effect, key: Key, patch: Raw) -> Outcome:
        raw = self.raw(key)
        if raw is None:
            return Outcome(effect, ok=False, error=f"{key} does not exist")
        changed = merged(raw, patch)
        if changed != raw:
            self.put(key, changed)
        return Outcome(effect, ok=True)

    def patch_status(self, effect: Effect, key: Key, status: Raw, annotations: Mapping[str, str]) -> Outcome:
        """Fields of the status are replaced one by one, never merged."""
        raw = self.raw(key)
        if raw is None:
            return Outcome(effect, ok=False, error=f"{key} does not exist")
        current = raw.get("status")
        changed = {**raw, "status": {**(current if isinstance(current, dict) else {}), **status}} if status else raw
        if annotations:
            changed = merged(changed, {"metadata": {"annotations": dict(annotations)}})
        if changed != raw:
            self.put(key, changed)
        return Outcome(effect, ok=True)

    def delete(self, effect: Effect, key: Key) -> Outcome:
        raw = self.raw(key)
        if raw is None:
            return Outcome(effect, ok=False, error=f"{key} does not exist")
        if self._clock is not None and (leaving := _leaving(raw, self._clock)) is not None:
            if leaving == raw:
                return Outcome(effect, ok=False, error=f"{key} is being deleted already")
            self.put(key, leaving)
            return Outcome(effect, ok=True)
        self.puts.pop(key, None)
        self.deletes[key] = None
        return Outcome(effect, ok=True)


def merged(raw: Raw, patch: Raw) -> Raw:
    """A merge patch: mappings merge, None removes, anything else replaces; empty mappings add nothing."""
    result = dict(raw)
    for key, value in patch.items():
        current = result.get(key)
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            inner = merged(current if isinstance(current, dict) else {}, value)
            if inner or key in result:
                result[key] = inner
        else:
            result[key] = value
    return result


def _leaving(raw: Raw, now: float) -> Raw | None:
    """A pod on its way out as an API server marks it; None for what goes at once: all but pods that hold a node."""
    pod = codec.decode(raw)
    if not isinstance(pod, Pod) or not pod.spec.node_name or pod.status.phase in ("Succeeded", "Failed"):
        return None
    if pod.metadata.deletion_timestamp:
        return raw
    return merged(raw, {"metadata": {"deletionTimestamp": stamp(now + grace(pod))}})


def grace(pod: Pod) -> int:
    """How many seconds a pod gets to terminate."""
    asked = pod.spec.termination_grace_period_seconds
    return _GRACE if asked is None else max(asked, 0)
