"""The embedded cluster: an object store that carries out effects.

Without a clock it knows one moment alone: an evicted or deleted pod is gone at once, and `settle` lets that moment
pass, so that bound pods run and terminating ones are gone. With a clock it does what an API server does: objects are
born at a time, and a pod that stands on a node gets its time to terminate, until whoever plays the kubelet removes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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
)
from tierwise.sim.batch import Batch, merged

__all__ = ["EmbeddedCluster"]


class EmbeddedCluster:
    """Objects in memory, and what happens to them."""

    def __init__(self, objects: Objects, clock: float | None = None) -> None:
        self._objects = objects
        self.clock = clock  # None: time does not pass
        self.done: list[Effect] = []  # what was carried out since somebody took note; kept with a clock alone
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
        batch = Batch(self._objects, self.clock)
        outcomes = [self._one(batch, effect) for effect in effects]
        self._take(batch)
        if self.clock is not None:
            self.done += [outcome.effect for outcome in outcomes if outcome.ok]
        return outcomes

    def remove(self, keys: Iterable[Key]) -> None:
        """Let objects be gone for good: nothing of theirs runs any more."""
        batch = Batch(self._objects, None)
        batch.deletes.update(dict.fromkeys(keys))
        self._take(batch)

    def _take(self, batch: Batch) -> None:
        if batch.puts or batch.deletes:
            self._objects = self._objects.changed(batch.puts, batch.deletes)
            self.touched.update(dict.fromkeys(batch.puts))
            for key in batch.deletes:
                self.touched.pop(key, None)

    def _one(self, batch: Batch, effect: Effect) -> Outcome:
        match effect:
            case Bind(pod, node, annotations):
                bound: Raw = {"spec": {"nodeName": node}, "status": {"nominatedNodeName": None}}
                return batch.edit(effect, pod, bound | {"metadata": {"annotations": dict(annotations)}})
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
        batch = Batch(self._objects, None)
        for pod in self._objects.every(Pod).values():
            key = Key("", "Pod", pod.metadata.namespace or "default", pod.metadata.name)
            if pod.metadata.deletion_timestamp:
                batch.deletes[key] = None
            elif pod.spec.node_name and pod.status.phase in ("", "Pending"):
                raw = self._objects.raw(key)
                if raw is not None:
                    batch.put(key, merged(raw, {"status": {"phase": "Running"}}))
        if batch.puts or batch.deletes:
            self._objects = self._objects.changed(batch.puts, batch.deletes)

    def changed(self) -> Iterable[Raw]:
        """Objects changed or created since the start, whole."""
        return [raw for key in self.touched if (raw := self._objects.raw(key)) is not None]

    def told(self) -> Iterable[Raw]:
        """The events recorded since the start, as objects."""
        return [_event(number, event) for number, event in enumerate(self.events, start=1)]


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
