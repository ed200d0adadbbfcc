"""The embedded cluster: an object store that carries out effects, with kubelets that take a moment.

`apply` changes objects, and an evicted pod is gone with it; `settle` lets one moment pass: bound pods run, and
terminating ones are gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tierwise.api.codec import Raw
from tierwise.api.core import Pod
from tierwise.port import (
    Bind,
    Create,
    Delete,
    Effect,
    Evict,
    Key,
    Nominate,
    Objects,
    Outcome,
    PatchStatus,
    RecordEvent,
    Update,
    Version,
    key_of_raw,
)

__all__ = ["EmbeddedCluster"]


class EmbeddedCluster:
    """Objects in memory, and what happens to them."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self.events: list[RecordEvent] = []
        self.settled: Objects | None = None  # what controllers last had nothing to do for
        self.touched: dict[Key, None] = {}  # objects changed or created since the start, in order

    def read(self) -> Objects:
        return self._objects

    def wait(self, since: Version, timeout: float) -> Version:
        """Nothing happens here but by `apply` and `settle`, so there is nothing to wait for."""
        return self._objects.version

    def apply(self, effects: Sequence[Effect]) -> list[Outcome]:
        """Carry out effects in order; one outcome each."""
        batch = _Batch(self._objects)
        outcomes = [self._one(batch, effect) for effect in effects]
        if batch.puts or batch.deletes:
            self._objects = self._objects.changed(batch.puts, batch.deletes)
            self.touched.update(dict.fromkeys(batch.puts))
            for key in batch.deletes:
                self.touched.pop(key, None)
        return outcomes

    def _one(self, batch: _Batch, effect: Effect) -> Outcome:
        match effect:
            case Bind(pod, node):
                return batch.edit(effect, pod, {"spec": {"nodeName": node}, "status": {"nominatedNodeName": None}})
            case Nominate(pod, node):
                return batch.edit(effect, pod, {"status": {"nominatedNodeName": node or None}})
            case Evict(pod):
                return batch.delete(effect, pod)
            case Create(raw):
                return batch.create(effect, raw)
            case Update(key, raw):
                return batch.update(effect, key, raw)
            case Delete(key):
                return batch.delete(effect, key)
            case PatchStatus(key, status):
                return batch.patch_status(effect, key, status, effect.annotations)
            case RecordEvent():
                self.events.append(effect)
                return Outcome(effect, ok=True)

    def settle(self) -> None:
        """One moment later: pods with a node run, pods on their way out are gone."""
        batch = _Batch(self._objects)
        for pod in self._objects.every(Pod).values():
            key = Key("", "Pod", pod.metadata.namespace or "default", pod.metadata.name)
            if pod.metadata.deletion_timestamp:
                batch.deletes[key] = None
            elif pod.spec.node_name and pod.status.phase in ("", "Pending"):
                raw = self._objects.raw(key)
                if raw is not None:
                    batch.put(key, _merged(raw, {"status": {"phase": "Running"}}))
        if batch.puts or batch.deletes:
            self._objects = self._objects.changed(batch.puts, batch.deletes)

    def changed(self) -> Iterable[Raw]:
        """Objects changed or created since the start, whole."""
        return [raw for key in self.touched if (raw := self._objects.raw(key)) is not None]

    def told(self) -> Iterable[Raw]:
        """The events recorded since the start, as objects."""
        return [_event(number, event) for number, event in enumerate(self.events, start=1)]


class _Batch:
    """Changes on their way into the store, visible to the effects that follow."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
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
        self.put(key, raw)
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
        merged = _merged(raw, patch)
        if merged != raw:
            self.put(key, merged)
        return Outcome(effect, ok=True)

    def patch_status(self, effect: Effect, key: Key, status: Raw, annotations: Mapping[str, str]) -> Outcome:
        """Fields of the status are replaced one by one, never merged."""
        raw = self.raw(key)
        if raw is None:
            return Outcome(effect, ok=False, error=f"{key} does not exist")
        current = raw.get("status")
        merged = {**raw, "status": {**(current if isinstance(current, dict) else {}), **status}}
        if annotations:
            merged = _merged(merged, {"metadata": {"annotations": dict(annotations)}})
        if merged != raw:
            self.put(key, merged)
        return Outcome(effect, ok=True)

    def delete(self, effect: Effect, key: Key) -> Outcome:
        if self.raw(key) is None:
            return Outcome(effect, ok=False, error=f"{key} does not exist")
        self.puts.pop(key, None)
        self.deletes[key] = None
        return Outcome(effect, ok=True)


def _event(number: int, event: RecordEvent) -> Raw:
    about = event.about
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{about.name}.{number}", "namespace": about.namespace or "default"},
        "involvedObject": {"kind": about.kind, "namespace": about.namespace, "name": about.name},
        "type": event.type,
        "reason": event.reason,
        "message": event.message,
        "source": {"component": "tierwise"},
    }


def _merged(raw: Raw, patch: Raw) -> Raw:
    """A merge patch: mappings merge, None removes, anything else replaces; empty mappings add nothing."""
    result = dict(raw)
    for key, value in patch.items():
        current = result.get(key)
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            inner = _merged(current if isinstance(current, dict) else {}, value)
            if inner or key in result:
                result[key] = inner
        else:
            result[key] = value
    return result
