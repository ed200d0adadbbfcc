"""The local copy of a cluster: fed by informers and by answers to our own writes, read as `Objects`.

The event loop writes, the scheduler's thread reads. An older state never replaces a newer one: watch events, lists and
answers arrive in any order, and are compared by resource version. Our own writes override what the watch has shown so
far from the moment at which they are begun (`kube.assumed`), so that a pod which is being bound is never read as
pending.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from typing import Final

from msgspec.structs import replace

from tierwise.api.codec import Object, Raw
from tierwise.api.core import Node, Pod
from tierwise.api.volcano import PodGroup, PodGroupStatus
from tierwise.kube.assumed import Aspect, AssumedPatches, AssumedPods
from tierwise.kube.decoding import LEAN, Entry
from tierwise.kube.kinds import Resource
from tierwise.port import Key, Objects, Version

__all__ = ["Store", "is_restored"]


Kind = tuple[str, str]

_NOBODY: Final = 2**63
_REMEMBERED: Final = 10_000
"""Objects that are gone of which that is known: as many as events may come out of order about."""


class Store:
    """The objects of a cluster as far as we have been told."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._objects = Objects()
        self._puts: dict[Key, Entry] = {}
        self._deletes: dict[Key, None] = {}
        self._version = 0
        self._awaited: int = _NOBODY  # the version whose successor wakes a waiter
        self._known: dict[Kind, dict[Key, int]] = {}  # resource version of each object
        self._progress: dict[Kind, int] = {}  # up to which version we have been told everything
        self._whole: dict[Kind, int] = {}  # the version of the newest whole list
        self._gone: dict[Key, int] = {}  # at which version objects went that the watch has shown to be gone
        self._news = False  # whether something has changed that an iteration of the loop could be about
        self.assumed = AssumedPods()
        self._patched = AssumedPatches()

    def read(self) -> Objects:
        """Current objects; `wait` with their version returns on later changes and nudges."""
        with self._changed:
            if self._objects.version != self._version or self._puts:
                self._objects = self._objects.updated(self._puts, self._deletes, self._version)
                self._puts = {}
                self._deletes = {}
            return self._objects

    def wait(self, since: Version, timeout: float) -> Version:
        """Return once something is known that was not at `since`, or the time is over."""

        def past() -> bool:
            self._awaited = min(self._awaited, since)
            return self._version > since

        with self._changed:
            self._changed.wait_for(past, timeout)
            return Version(self._version)

    def nudge(self) -> None:
        """Wake the waiting thread although no object has changed."""
        with self._changed:
            self._bump()

    def pod(self, key: Key) -> Pod | None:
        """One pod as it is known now, with the node that it is assumed to be on."""
        with self._changed:
            return self._pod(key)

    def find(self, key: Key) -> Entry | None:
        """One object as it is known now."""
        with self._changed:
            return self._find(key)

    def _find(self, key: Key) -> Entry | None:
        if key in self._puts:
            return self._puts[key]
        record = self._objects.record(key)
        if record is not None and key not in self._deletes:
            return (record, self._objects.raw(key))
        return None

    def has(self, key: Key) -> bool:
        """Whether an object is known."""
        return key in self._known.get((key.group, key.kind), ())

    def told(self, resource: Resource) -> int:
        """Up to which version we have been told everything about a kind."""
        with self._changed:
            return self._progress.get((resource.group, resource.kind), 0)

    def listed(self, resource: Resource, entries: Iterable[Entry], version: str, *, since: int) -> int:
        """A whole list: only differences count. How many of them the watch should have told us, but had not.

        `since` is what we had been told when it was asked for.
        """
        kind = (resource.group, resource.kind)
        now = _number(version)
        with self._changed:
            versions = self._known.setdefault(kind, {})
            progress = self._progress.get(kind, 0)
            # Beside a running watch a list may be the older one. But none is older than its question: versions only go
            # back so far where the server was restored from a backup, and then nothing that we know is newer.
            restored = is_restored(version, since)
            late = now < progress and not restored
            missed = changes = 0
            seen: set[Key] = set()
            for entry in entries:
                key = _key(resource, entry)
                at = _number(_version(entry))
                seen.add(key)
                if late and key not in versions:
                    continue  # deleted since
                if (restored or at != versions.get(key)) and self._put(key, entry, force=restored):
                    changes += 1
                    missed += at <= progress
            for key in [key for key, at in versions.items() if key not in seen and (restored or at <= now)]:
                self._drop(key)
                changes += 1
            self._progress[kind] = now if restored else max(now, progress)
            self._whole[kind] = now if restored else max(now, self._whole.get(kind, 0))
            if restored:
                self._gone.clear()  # versions that were used before count again
            if changes:
                self._tell()
        return 0 if restored else missed

    def put(self, resource: Resource, entry: Entry) -> None:
        """An object that the watch has shown.

        A newer list may have shown already that it is gone, or, where events come out of order, the watch itself.
        """
        kind = (resource.group, resource.kind)
        key = _key(resource, entry)
        version = _number(_version(entry))
        with self._changed:
            self._progress[kind] = max(self._progress.get(kind, 0), version)
            gone = max(self._whole.get(kind, 0), self._gone.get(key, 0))
            if version < gone and key not in self._known.get(kind, {}):
                return
            if self._put(key, entry):
                self._tell()

    def answered(self, resource: Resource, entry: Entry) -> None:
        """An object as the server answered a write of ours; the watch may have told more by now."""
        kind = (resource.group, resource.kind)
        with self._changed:
            if _number(_version(entry)) > self._progress.get(kind, 0) and self._put(_key(resource, entry), entry):
                self._tell()

    def delete(self, resource: Resource, entry: Entry) -> None:
        """An object that the watch has shown to be gone."""
        key = _key(resource, entry)
        version = _number(_version(entry))
        kind = (resource.group, resource.kind)
        with self._changed:
            self._progress[kind] = max(self._progress.get(kind, 0), version)
            self._gone.pop(key, None)
            self._gone[key] = version
            if len(self._gone) > _REMEMBERED:
                del self._gone[next(iter(self._gone))]
            if self._known.get(kind, {}).get(key, version + 1) <= version:
                self._drop(key)
                self._tell()

    def marked(self, resource: Resource, version: str) -> None:
        """Nothing more has happened to a kind up to this version."""
        kind = (resource.group, resource.kind)
        with self._changed:
            self._progress[kind] = max(self._progress.get(kind, 0), _number(version))

    def assume(
        self, key: Key, uid: str, *, node: str = "", leaving: str = "", marks: Mapping[str, str] | None = None
    ) -> None:
        """Read a pod as bound, with these annotations, or as leaving since then, until the watch says so.

        It must be that very pod: another of its name is not concerned.
        """
        with self._changed:
            pod = self._pod(key)
            if pod is None or pod.metadata.uid != uid:
                return
            marks = marks or {}
            bound = not node or (pod.spec.node_name == node and marks.items() <= pod.metadata.annotations.items())
            if bound and (not leaving or pod.metadata.deletion_timestamp):
                return  # it is read so already: a bind is assumed when it is begun, and again when it is done
            self._publish(key, (self.assumed.begin(key, pod, node=node, leaving=leaving, marks=marks), None))

    def nominate(self, key: Key, uid: str, node: str) -> bool:
        """Read a pod as nominated for a node, or for none (""), until that is forgotten; False where it is not there.

        It must be that very pod, as for `assume`.
        """
        with self._changed:
            pod = self._pod(key)
            if pod is None or pod.metadata.uid != uid:
                return False
            self._publish(key, (self.assumed.nominate(key, pod, node), None))
            return True

    def forget(self, key: Key, uid: str, aspect: Aspect = "node") -> None:
        """Assume one thing of a pod no more: it did not happen, or the server shows it by now."""
        with self._changed:
            pod_now = self._pod(key)
            if pod_now is None or pod_now.metadata.uid != uid:
                return
            pod = self.assumed.end(key, aspect)
            if pod is not None and pod != pod_now:
                self._publish(key, (pod, None))

    def patch(self, key: Key, patch: Raw, *, create: bool) -> int | None:
        """Read an object as patched, or as made, until that has ended: its number; None where nothing is assumed.

        Objects that are kept without their manifests are read as the server shows them.
        """
        with self._changed:
            known = self._find(key)
            if (key.group, key.kind) in LEAN or (known is None) is not create:
                return None
            number, entry = self._patched.begin(key, known, patch)
            if entry is not None:
                self._publish(key, entry)
            return number

    def end_patch(self, key: Key, number: int) -> None:
        """Read an object as the server shows it, without a patch that has ended."""
        with self._changed:
            assumed, entry = self._patched.end(key, number)
            if not assumed:
                return
            if entry is not None:
                self._publish(key, entry)
            elif key not in self._known.get((key.group, key.kind), {}):
                self._puts.pop(key, None)
                self._deletes[key] = None
                self._bump()

    def _pod(self, key: Key) -> Pod | None:
        record = self._puts[key][0] if key in self._puts else self._objects.record(key)
        if isinstance(record, Pod) and key not in self._deletes:
            return record
        return None

    def _put(self, key: Key, entry: Entry, *, force: bool = False) -> bool:
        versions = self._known.setdefault((key.group, key.kind), {})
        version = _number(_version(entry))
        if not force and versions.get(key, -1) > version:
            return False
        versions[key] = version
        record, raw = entry
        if isinstance(record, Node) and self._repeats(key, record):
            return False
        if isinstance(record, Pod):
            record = self.assumed.over(key, record)
        else:
            record, raw = self._patched.over(key, entry)
        shown = self.find(key)
        self._news = self._news or shown is None or _concerns(shown[0], record)
        self._puts[key] = record, raw
        self._deletes.pop(key, None)
        return True

    def _repeats(self, key: Key, node: Node) -> bool:
        """Whether a node says what it said before: kubelets report every few minutes, which wakes no one."""
        entry = self.find(key)
        if entry is None:
            return False
        meta = replace(node.metadata, resource_version=entry[0].metadata.resource_version)
        return entry[0] == replace(node, metadata=meta)

    def _drop(self, key: Key) -> None:
        self._known.get((key.group, key.kind), {}).pop(key, None)
        self.assumed.drop(key)
        self._patched.drop(key)
        self._puts.pop(key, None)
        self._deletes[key] = None
        self._news = True

    def _publish(self, key: Key, entry: Entry) -> None:
        self._puts[key] = entry
        self._deletes.pop(key, None)
        self._bump()

    def _tell(self) -> None:
        """Wake who waits if there is news."""
        if self._news:
            self._bump()

    def _bump(self) -> None:
        self._news = False
        self._version += 1
        if self._version > self._awaited:  # who waits for the time alone is not woken by every event
            self._awaited = _NOBODY
            self._changed.notify_all()


def is_restored(version: str, since: int) -> bool:
    """Whether a list that was asked for when we had been told of `since` is one of a server that went back."""
    return _number(version) < since


def _concerns(before: Object, now: Object) -> bool:
    """Whether a change is about more than what tierwise writes itself behind a cycle and never decides by.

    Without this every status that is written would bring about another iteration, which finds nothing to do.
    """
    return type(before) is not type(now) or _judged(before) != _judged(now)


def _judged(record: Object) -> Object:
    """A record as far as an iteration could be about it."""
    if isinstance(record, Pod):
        conditions = tuple([condition for condition in record.status.conditions if condition.type != "PodScheduled"])
        meta = replace(record.metadata, resource_version="")
        status = replace(record.status, conditions=conditions)
        return replace(record, metadata=meta, status=status)
    if isinstance(record, PodGroup):
        meta = replace(record.metadata, resource_version="")
        phase = record.status.phase
        return replace(record, metadata=meta, status=PodGroupStatus(phase=phase))
    return record


def _key(resource: Resource, entry: Entry) -> Key:
    meta = entry[0].metadata
    return Key(resource.group, resource.kind, meta.namespace if resource.namespaced else "", meta.name)


def _version(entry: Entry) -> str:
    return entry[0].metadata.resource_version


def _number(version: str) -> int:
    """Resource versions compare as numbers; what is none counts as newest, so that it is taken as it comes."""
    return int(version) if version.isdecimal() else 2**63
