"""The embedded cluster: an object store that applies effects.

Without a clock there is only one moment: an evicted or deleted pod is gone at once, and `advance_pods` makes bound pods
run and removes terminating ones. With a clock it behaves like an API server: objects have creation times, and a pod on
a node gets its grace period, until the simulated kubelet removes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from tierwise import port
from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.api.core import Pod
from tierwise.api.ladder import LADDER
from tierwise.api.manifest import manifest
from tierwise.api.merge_patch import merged
from tierwise.controllers.stamp import stamp

__all__ = ["Batch", "EmbeddedCluster", "by_type", "grace"]


# Changes on their way into the embedded cluster's store: what each effect makes of the objects before it.


_GRACE: Final = 30
"""Seconds that a pod gets to terminate where it names no other time."""


class Batch:
    """Changes on their way into the store, visible to the effects that follow."""

    def __init__(self, objects: port.Objects, clock: float | None, start: float | None = None) -> None:
        self._objects = objects
        self._clock = clock
        self._start = start
        self.puts: dict[port.Key, Raw] = {}
        self.deletes: dict[port.Key, None] = {}

    def raw(self, key: port.Key) -> Raw | None:
        if key in self.puts:
            return self.puts[key]
        if key in self.deletes:
            return None
        return self._objects.raw(key)

    def version(self, key: port.Key) -> str:
        """The resource version of an object; "" where there is none, or no one counts them."""
        meta = (self.raw(key) or {}).get("metadata")
        if isinstance(meta, dict):
            return str(meta.get("resourceVersion") or "")
        return ""

    def put(self, key: port.Key, raw: Raw) -> None:
        self.puts[key] = raw
        self.deletes.pop(key, None)

    def create(self, effect: port.Effect, raw: Raw) -> port.Outcome:
        key = port.key_of_raw(raw)
        if self.raw(key) is not None:
            return port.Outcome(effect, ok=False, error=f"{key} already exists")
        born = {} if self._clock is None else {"creationTimestamp": stamp(self._clock)}
        meta = raw["metadata"]
        assert isinstance(meta, dict)  # or it would have no key
        raw = {**raw, "metadata": {**born, **meta}} if born else raw
        self.put(key, _counting(raw, self._start) if self._start is not None else raw)
        return port.Outcome(effect, ok=True)

    def update(self, effect: port.Effect, key: port.Key, raw: Raw) -> port.Outcome:
        if self.raw(key) is None:
            return port.Outcome(effect, ok=False, error=f"{key} does not exist")
        self.put(key, raw)
        return port.Outcome(effect, ok=True)

    def edit(self, effect: port.Effect, key: port.Key, patch: Raw) -> port.Outcome:
        raw = self.raw(key)
        if raw is None:
            return port.Outcome(effect, ok=False, error=f"{key} does not exist")
        changed = merged(raw, patch)
        if changed != raw:
            self.put(key, changed)
        return port.Outcome(effect, ok=True)

    def patch_status(
        self, effect: port.Effect, key: port.Key, status: Raw, annotations: Mapping[str, str]
    ) -> port.Outcome:
        """Fields of the status are replaced one by one; conditions of pods and nodes, by their types."""
        raw = self.raw(key)
        if raw is None:
            return port.Outcome(effect, ok=False, error=f"{key} does not exist")
        current = raw.get("status")
        if key.kind in _MERGED and isinstance(current, dict) and isinstance(status.get("conditions"), list):
            status = {**status, "conditions": by_type(current.get("conditions"), status["conditions"])}
        changed = {**raw, "status": {**(current if isinstance(current, dict) else {}), **status}} if status else raw
        if annotations:
            changed = merged(changed, {"metadata": {"annotations": dict(annotations)}})
        if changed != raw:
            self.put(key, changed)
        return port.Outcome(effect, ok=True)

    def _pod(self, key: port.Key, raw: Raw) -> Pod | None:
        """The record of a pod; None for anything else."""
        record = self._objects.record(key) if key not in self.puts else codec.decode(raw)
        return record if isinstance(record, Pod) else None

    def delete(self, effect: port.Effect, key: port.Key) -> port.Outcome:
        raw = self.raw(key)
        if raw is None:
            return port.Outcome(effect, ok=False, error=f"{key} does not exist")
        if self._clock is not None and (leaving := _leaving(self._pod(key, raw), raw, self._clock)) is not None:
            if leaving == raw:
                return port.Outcome(effect, ok=False, error=f"{key} is being deleted already")
            self.put(key, leaving)
            return port.Outcome(effect, ok=True)
        self.puts.pop(key, None)
        self.deletes[key] = None
        return port.Outcome(effect, ok=True)


_MERGED: Final = ("Pod", "Node")
"""Kinds whose conditions a strategic merge patch merges."""


def by_type(present: object, new_conditions: object) -> list[Raw]:
    """Conditions merged as an API server merges those of pods: by their types."""
    old_conditions = [c for c in present if isinstance(c, dict)] if isinstance(present, list) else []
    news = {c.get("type"): c for c in new_conditions if isinstance(c, dict)} if isinstance(new_conditions, list) else {}
    merged_conditions = [news.pop(condition.get("type"), condition) for condition in old_conditions]
    return [*merged_conditions, *news.values()]


def _counting(raw: Raw, start: float) -> Raw:
    """A manifest, with the time of a run's start as that of its creation where its ladder would count from none."""
    meta = raw.get("metadata")
    marks = meta.get("annotations") if isinstance(meta, dict) else None
    if not isinstance(meta, dict) or not isinstance(marks, dict) or LADDER not in marks:
        return raw
    if meta.get("creationTimestamp"):
        return raw
    return merged(raw, {"metadata": {"creationTimestamp": stamp(start)}})


def _uncounted(objects: port.Objects, start: float) -> Iterator[tuple[port.Key, Raw]]:
    """Those among objects that have to be given that time."""
    for key in objects:
        record = objects.record(key)
        raw = objects.raw(key)
        if raw is not None and record is not None and LADDER in record.metadata.annotations:
            counting = _counting(raw, start)
            if counting is not raw:
                yield key, counting


def _leaving(pod: Pod | None, raw: Raw, now: float) -> Raw | None:
    """A pod on its way out as an API server marks it; None for what goes at once: all but pods that hold a node."""
    if pod is None or not pod.spec.node_name or pod.status.ended:
        return None
    if pod.metadata.deletion_timestamp:
        return raw
    return merged(raw, {"metadata": {"deletionTimestamp": stamp(now + grace(pod))}})


def grace(pod: Pod) -> int:
    """How many seconds a pod gets to terminate."""
    seconds = pod.spec.termination_grace_period_seconds
    return _GRACE if seconds is None else max(seconds, 0)


class EmbeddedCluster:
    """Objects in memory, and what happens to them."""

    def __init__(self, objects: port.Objects, clock: float | None = None, start: float | None = None) -> None:
        """Hold these objects in memory. clock is the time in seconds; with None time does not pass, and what is carried
        out is not listed in done. Objects that name no time of creation, and whose ladder counts from it, get start as
        theirs; with None they stay as they are.
        """
        late = dict(_uncounted(objects, start)) if start is not None else {}
        objects = objects.changed(late) if late else objects
        self._objects = objects
        self._start = start
        self.clock = clock  # None: time does not pass
        self.done: list[port.Effect] = []  # what was carried out since the list was last taken; kept with a clock alone
        self.events: list[port.RecordEvent] = []
        self.touched: dict[port.Key, None] = {}  # objects changed or created since the start, in order

    def read(self) -> port.Objects:
        return self._objects

    def wait(self, since: port.Version, timeout: float) -> port.Version:
        """Nothing happens here but by `apply` and `advance_pods`, so there is nothing to wait for."""
        return self._objects.version

    def apply(self, effects: Sequence[port.Effect]) -> list[port.Outcome]:
        """Carry out effects in order; one outcome each."""
        batch = Batch(self._objects, self.clock, self._start)
        outcomes: list[port.Outcome] = []
        unprepared: dict[str, str] = {}  # gangs for which something could not be written -> why
        for effect in effects:
            if isinstance(effect, port.Bind | port.Nominate) and effect.node and effect.gang in unprepared:
                outcomes.append(
                    port.Outcome(effect, ok=False, error=f"withheld: {unprepared[effect.gang]}", withheld=True)
                )
                continue
            outcomes.append(self._one(batch, effect))
            if not outcomes[-1].ok and isinstance(effect, port.Prepare):
                unprepared.setdefault(effect.gang, outcomes[-1].error)
        self._take(batch)
        if self.clock is not None:
            self.done += [outcome.effect for outcome in outcomes if outcome.ok]
        return outcomes

    def tell(self, effects: Sequence[port.PatchStatus | port.RecordEvent], by: str = "") -> None:
        """Statuses and events, at once."""
        self.apply(effects)

    def begin(self, effects: Sequence[port.Effect]) -> port.Begun:
        """As `apply`, since nothing takes time here."""
        return port.Ended(self.apply(effects))

    def begin_in_order(self, effects: Sequence[port.Effect]) -> port.Begun:
        """As `apply`, since nothing takes time here."""
        return port.Ended(self.apply(effects))

    def remove(self, keys: Iterable[port.Key]) -> None:
        """Let objects be lost for good: nothing of theirs runs any more."""
        batch = Batch(self._objects, None)
        batch.deletes.update(dict.fromkeys(keys))
        self._take(batch)

    def _take(self, batch: Batch) -> None:
        if batch.puts or batch.deletes:
            self._objects = self._objects.changed(batch.puts, batch.deletes)
            self.touched.update(dict.fromkeys(batch.puts))
            for key in batch.deletes:
                self.touched.pop(key, None)

    def _one(self, batch: Batch, effect: port.Effect) -> port.Outcome:
        match effect:
            case port.Bind(pod, node, annotations):
                bound: Raw = {"spec": {"nodeName": node}, "status": {"nominatedNodeName": None}}
                return batch.edit(effect, pod, bound | {"metadata": {"annotations": dict(annotations)}})
            case port.Nominate(pod, node):
                return batch.edit(effect, pod, {"status": {"nominatedNodeName": node or None}})
            case port.Prepare(key, patch):
                present_version = batch.version(key)
                if effect.version and present_version and effect.version != present_version:
                    return port.Outcome(effect, ok=False, error=f"{key} was changed meanwhile")
                if effect.create:
                    return batch.create(effect, patch)
                return batch.edit(effect, key, patch)
            case port.Evict(pod):
                return batch.delete(effect, pod)
            case port.Create(raw):
                return batch.create(effect, raw)
            case port.Update(key, raw):
                return batch.update(effect, key, raw)
            case port.Delete(key):
                return batch.delete(effect, key)
            case port.PatchStatus(key, status):
                return batch.patch_status(effect, key, status, effect.annotations)
            case port.RecordEvent():
                self.events.append(effect)
                return port.Outcome(effect, ok=True)

    def advance_pods(self) -> None:
        """One moment later: pods with a node run, pods on their way out are gone."""
        batch = Batch(self._objects, None)
        for pod in self._objects.every(Pod).values():
            key = port.Key("", "Pod", pod.metadata.namespace or "default", pod.metadata.name)
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


def _event(number: int, event: port.RecordEvent) -> Raw:
    about = event.about
    involved = {"kind": about.kind, "namespace": about.namespace, "name": about.name}
    event_fields = {
        "type": event.type,
        "reason": event.reason,
        "message": event.message,
        "source": {"component": "tierwise"},
    }
    name = f"{about.name}.{number}"
    return manifest("v1", "Event", name, about.namespace or "default", involvedObject=involved, **event_fields)
