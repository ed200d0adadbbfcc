"""The embedded cluster with the memory of an API server: versions, uids, generations, events, and what changed last.

Scheduler, controllers and kubelets work on it through the port, and clients through `ObjectApi`, in other threads: each
change is made under one lock, and reading takes none, as objects are immutable. Each change of an object has a resource
version of its own; a bounded window of changes is kept for those who watch.
"""

from __future__ import annotations

import hashlib
import threading
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from typing import Final

import msgspec
from msgspec.structs import replace

from tierwise import port
from tierwise.api import codec
from tierwise.api.codec import Object, Raw, part
from tierwise.api.core import Node, ResourceQuota, format_micro_time
from tierwise.api.definitions import DEFINITIONS
from tierwise.api.manifest import manifest
from tierwise.apiserver.failures import ApiFailure
from tierwise.apiserver.kinds import ASIDE, DEFINITION, of_kind
from tierwise.apiserver.namespace_limits import admitted
from tierwise.apiserver.normal_form import normal
from tierwise.controllers.stamp import stamp
from tierwise.dialects.identity import made_up_uid
from tierwise.sim.cluster.store import Batch, EmbeddedCluster, by_type
from tierwise.snapshot.shapes import BUILT_IN

__all__ = ["Change", "ServedCluster", "established", "meta_of"]

_WINDOW: Final = 20_000
"""Changes that are remembered: a client that has missed more lists again."""

_EVENTS: Final = 10_000
"""Events that are kept; the oldest go first."""

_BEAT: Final = 10
"""Seconds after which a kubelet renews its lease; longer where there are so many nodes that ten a second are more."""

_LIMITS: Final = (("", "ResourceQuota"), ("", "LimitRange"), ("scheduling.k8s.io", "PriorityClass"))
"""Kinds by which pods are refused."""
_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 64.0
"""Seconds that an owner waits whose pods were refused: twice as long each time."""

_NAMESPACES: Final = ("default", "kube-system", "kube-public", "kube-node-lease")


class Change(msgspec.Struct, frozen=True):
    """One object that came, changed or went."""

    version: int
    type: str  # as watches say it: "ADDED", "MODIFIED", "DELETED"
    key: port.Key
    new: Raw  # as it is now, or was at the end
    old: Raw | None


class _Refusal(msgspec.Struct, frozen=True):
    """That nothing could be made for an owner, within which limits, and until when it is not tried again."""

    until: float
    pause: float
    limits: tuple[object, ...]
    message: str


class ServedCluster(EmbeddedCluster):
    """Objects with versions. `listeners` are called after every change, in the thread that made it."""

    def __init__(
        self, objects: port.Objects, clock: Callable[[], float], window: int = _WINDOW, events: int = _EVENTS
    ) -> None:
        """`window` is how many changes are remembered, and `events` how many events."""
        super().__init__(port.Objects(), clock())
        self._time = clock
        self.lock = threading.RLock()
        self.listeners: list[Callable[[], None]] = []
        self.version = 0
        self._log: deque[Change] = deque(maxlen=window)
        self._most_events = events
        self._forgotten = 0  # the version of the last change that has left the window
        self._addresses = count(1)  # of nodes and pods
        self._beaten = 0.0  # when kubelets have last renewed their leases
        self._aside: dict[port.Key, Raw] = {}
        self._recorded: dict[port.Key, None] = {}  # events of the cluster itself, the one that was told last at the end
        self._refused: dict[port.Key, _Refusal] = {}
        self._load(objects)

    @property
    def now(self) -> float:
        """The time, also where nothing has happened for a while."""
        return max(self._time(), self.clock or 0.0)

    def _load(self, objects: port.Objects) -> None:
        """Begin with these objects, and with the namespaces that they are in."""
        found: dict[port.Key, tuple[Object, Raw | None]] = {}
        for key in objects:
            record = objects.record(key)
            raw = objects.raw(key)
            served = of_kind(key.group, key.kind)
            if record is None or raw is None:
                continue
            if served is not None and served.namespaced and not key.namespace:
                key = port.Key(key.group, key.kind, "default", key.name)
            if (key.group, key.kind) in ASIDE:
                self._aside[key] = self._stamped(key, raw, None)
                continue
            uid = record.metadata.uid or made_up_uid(key.kind, key.namespace, key.name)
            raw = self._stamped(key, {**raw, "metadata": {**meta_of(raw), "uid": uid}}, None)
            found[key] = _with_meta(record, raw), raw
        self._add_defaults(found)
        self._objects = port.Objects().updated(found, (), self.version)
        self._forgotten = self.version

    def _add_defaults(self, found: dict[port.Key, tuple[Object, Raw | None]]) -> None:
        """Add what every cluster has to these objects: definitions of kinds, namespaces and priority classes."""
        for definition in DEFINITIONS:
            key = port.Key(*DEFINITION, "", definition.name)
            self._aside.setdefault(key, self._stamped(key, established(definition.manifest), None))
        for name in dict.fromkeys([*_NAMESPACES, *(key.namespace for key in found if key.namespace)]):
            key = port.Key("", "Namespace", "", name)
            if key not in found:
                raw = self._stamped(key, _namespace(name), None)
                found[key] = codec.decode(raw), raw
        for name, value in BUILT_IN.items():
            key = port.Key("scheduling.k8s.io", "PriorityClass", "", name)
            if key not in found:
                raw = self._stamped(key, manifest("scheduling.k8s.io/v1", "PriorityClass", name, value=value), None)
                found[key] = codec.decode(raw), raw

    # What is there.

    def raw(self, key: port.Key) -> Raw | None:
        """One object as it is."""
        if (key.group, key.kind) in ASIDE:
            return self._aside.get(key)
        return self._objects.raw(key)

    def all(self, group: str, kind: str) -> tuple[Sequence[tuple[port.Key, Raw]], int]:
        """All objects of a kind in natural order, and the version that they are of."""
        with self.lock:
            objects = self._objects
            version = self.version
            aside = self._aside
            if (group, kind) in ASIDE:
                return [(key, raw) for key, raw in aside.items() if key.group == group], version
        keys = (port.Key.at(group, kind, path) for path in objects.of_kind(group, kind))
        return [(key, raw) for key in keys if (raw := objects.raw(key)) is not None], version

    def since(self, version: int) -> list[Change] | None:
        """The changes after a version; None where some of them are forgotten, or the version is none of ours."""
        with self.lock:
            if version < self._forgotten or version > self.version:
                return None
            changes: list[Change] = []
            for change in reversed(self._log):
                if change.version <= version:
                    break
                changes.append(change)
            return changes[::-1]

    # What changes.

    def apply(self, effects: Sequence[port.Effect]) -> list[port.Outcome]:
        with self.lock:
            before = self.version
            outcomes = super().apply(effects)
            events = self.events
            self.events = []
            for event in events:
                self._record(event)
            if self.version != before:
                self._notify()
        return outcomes

    def remove(self, keys: Iterable[port.Key]) -> None:
        with self.lock:
            super().remove(keys)
            self._notify()

    def put(self, key: port.Key, raw: Raw) -> Raw:
        """Write an object as it is given, and return it as it is kept; the caller holds the lock."""
        if (key.group, key.kind) in ASIDE:
            old = self._aside.get(key)
            new = self._aside[key] = self._stamped(key, raw, old)
            self._note("MODIFIED" if old is not None else "ADDED", key, new, old)
        else:
            batch = Batch(self._objects, None)
            batch.put(key, raw)
            self._take(batch)
        self._notify()
        return self.raw(key) or raw

    def drop(self, key: port.Key) -> None:
        """Let an object be gone; the caller holds the lock."""
        if (key.group, key.kind) not in ASIDE:
            self.remove([key])
            return
        old = self._aside.pop(key, None)
        if old is not None:
            self._note("DELETED", key, self._last_words(old), old)
        self._notify()

    def preview(self, key: port.Key, raw: Raw) -> Raw:
        """Object that `put` would store, for dry runs."""
        with self.lock:
            version = self.version
            try:
                return self._stamped(key, raw, self.raw(key))
            finally:
                self.version = version

    def _one(self, batch: Batch, effect: port.Effect) -> port.Outcome:
        """As the embedded cluster, where no one else has written what the effect was decided on."""
        for meant_key, uid in _meant(effect):
            if uid and meta_of(batch.raw(meant_key) or {}).get("uid", uid) != uid:
                return port.Outcome(effect, ok=False, error=f"{meant_key} is gone, and another of its name is there")
        match effect:
            case port.Update(key, raw):
                current = meta_of(batch.raw(key) or {})
                meant = meta_of(raw).get("resourceVersion")
                if meant and meant != current.get("resourceVersion", meant):
                    return port.Outcome(effect, ok=False, error=f"{key} has been changed meanwhile")
            case port.Bind(pod, node):
                bound = part(batch.raw(pod), "spec").get("nodeName")
                if bound and bound != node:
                    return port.Outcome(effect, ok=False, error=f"{pod} is bound to {bound} already")
            case port.Create(raw):
                return self._created(batch, raw)
            case _:
                pass
        return super()._one(batch, effect)

    def _created(self, batch: Batch, raw: Raw) -> port.Outcome:
        """An object of a controller's, within the limits of its namespace; its owner hears where it is refused.

        Then the owner waits, and twice as long each time, unless it is changed or its namespace has other limits.
        """
        key = port.key_of_raw(raw)
        owner = _controller(key.namespace, raw)
        previous = self._refused.get(owner)
        if previous is not None and previous.limits != self._limits(owner):
            previous = None
        if previous is not None and self.now < previous.until:
            return port.Outcome(port.Create(raw), ok=False, error=previous.message)
        try:
            counted = batch.puts and self._objects.every(ResourceQuota)
            seen = self._objects.changed(batch.puts, batch.deletes) if counted else self._objects
            return super()._one(batch, port.Create(admitted(seen, key, raw)))
        except ApiFailure as error:
            if owner.name:
                pause = min(2 * previous.pause, _LONGEST_PAUSE) if previous is not None else _FIRST_PAUSE
                self._refused[owner] = _Refusal(self.now + pause, pause, self._limits(owner), error.message)
                text = f"Error creating: {error.message}"
                self.events.append(port.RecordEvent(owner, "Warning", "FailedCreate", text))
            return port.Outcome(port.Create(raw), ok=False, error=error.message)

    def _limits(self, owner: port.Key) -> tuple[object, ...]:
        """Versions of an owner's spec and of the limits in its namespace; while they are unchanged, refusals are
        repeated.
        """
        generation = meta_of(self._objects.raw(owner) or {}).get("generation")
        limits = []
        for kind in _LIMITS:
            for record in self._objects.of_kind(*kind).values():
                if record.metadata.namespace in ("", owner.namespace):
                    limits.append(record.metadata.resource_version)
        return generation, *limits

    def _take(self, batch: Batch) -> None:
        before = self._objects
        puts = {key: (before.raw(key), raw) for key, raw in batch.puts.items()}
        stamped = {key: self._stamped(key, raw, old) for key, (old, raw) in puts.items()}
        changed = {key: raw for key, raw in stamped.items() if raw is not puts[key][0]}
        gone = {key: old for key in batch.deletes if (old := before.raw(key)) is not None}
        if not changed and not gone:
            return
        self._objects = before.changed(changed, gone)
        for key, raw in changed.items():
            old = puts[key][0]
            self._note("ADDED" if old is None else "MODIFIED", key, raw, old)
        for key, old in gone.items():
            self._refused.pop(key, None)
            self._note("DELETED", key, self._last_words(old), old)

    def _stamped(self, key: port.Key, raw: Raw, old: Raw | None) -> Raw:
        """An object as it is kept: with identity, version, generation and time of creation; `old` where it is that."""
        raw = normal(key, self._filled(key, raw, old))
        meta = dict(meta_of(raw))
        before = meta_of(old or {})
        meta.setdefault("name", key.name)
        if key.namespace:
            meta["namespace"] = key.namespace
        elif of_kind(key.group, key.kind) is not None:
            meta.pop("namespace", None)
        meta["uid"] = before.get("uid") or meta.get("uid") or str(uuid.uuid4())
        meta["creationTimestamp"] = before.get("creationTimestamp") or meta.get("creationTimestamp") or stamp(self.now)
        generation = before.get("generation")
        counted = generation if isinstance(generation, int) else 0
        meta["generation"] = counted + (old is None or _body(raw) != _body(old)) or 1
        meta["resourceVersion"] = before.get("resourceVersion", "")
        if old is not None and {**raw, "metadata": meta} == old:
            return old
        self.version += 1
        meta["resourceVersion"] = str(self.version)
        return {**raw, "metadata": meta}

    def _filled(self, key: port.Key, raw: Raw, old: Raw | None) -> Raw:
        """Nodes and pods with what is said of every one of them: phase, that it is scheduled, addresses."""
        status = part(raw, "status")
        spec = part(raw, "spec")
        old_status = part(old or {}, "status")
        added = Raw()
        match key:
            case port.Key("", "Node") if not status.get("addresses"):
                node_addresses = [
                    {"type": "InternalIP", "address": self._address(10, 0)},
                    {"type": "Hostname", "address": key.name},
                ]
                added["addresses"] = old_status.get("addresses") or node_addresses
            case port.Key("", "Pod"):
                added = self._pod_status(spec, status, old_status)
            case _:
                return raw
        if not added.items() <= status.items():
            return {**raw, "status": {**status, **added}}
        return raw

    def _pod_status(self, spec: Raw, status: Raw, old_status: Raw) -> Raw:
        """Fields that the status of a pod lacks: its phase, that it is scheduled, and addresses once it runs."""
        added: Raw = {"phase": status.get("phase") or "Pending"}
        node = spec.get("nodeName")
        conditions = status.get("conditions")
        if node and not any(map(_is_scheduled, conditions if isinstance(conditions, list) else ())):
            condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": stamp(self.now)}
            added["conditions"] = by_type(conditions, [condition])
        if node and added["phase"] == "Running" and not status.get("podIP"):
            host = self._host(str(node))
            address = host if spec.get("hostNetwork") else old_status.get("podIP") or self._address(10, 128)
            added |= {"hostIP": host, "hostIPs": [{"ip": host}]}
            added |= {"podIP": address, "podIPs": [{"ip": address}]}
        return added

    def _address(self, octet: int, second: int) -> str:
        """The next address of a network that holds eight million."""
        number = next(self._addresses)
        return f"{octet}.{second + number // 65_536}.{number // 256 % 256}.{number % 256}"

    def _host(self, name: str) -> str:
        addresses = part(self._objects.raw(port.Key("", "Node", "", name)) or {}, "status").get("addresses")
        address = addresses[0] if isinstance(addresses, list) and addresses else {}
        if isinstance(address, dict):
            return str(address.get("address", ""))
        return ""

    def beat(self, now: float) -> float:
        """Let the kubelets of nodes that are ready renew their leases where it is time; when they will again."""
        with self.lock:
            nodes = self._objects.every(Node)
            period = max(_BEAT, len(nodes) // _BEAT)
            if now < self._beaten + period:
                return self._beaten + period
            self._beaten = now
            for name, node in nodes.items():
                if any((condition.type, condition.status) == ("Ready", "True") for condition in node.status.conditions):
                    lease = port.Key("coordination.k8s.io", "Lease", "kube-node-lease", name)
                    self.put(lease, _lease(node, period, now))
            return now + period

    def _last_words(self, old: Raw) -> Raw:
        """An object that is gone, with the version of its going."""
        self.version += 1
        return {**old, "metadata": {**meta_of(old), "resourceVersion": str(self.version)}}

    def _note(self, type_: str, key: port.Key, new: Raw, old: Raw | None) -> None:
        if len(self._log) == self._log.maxlen:
            self._forgotten = self._log[0].version
        self._log.append(Change(int(str(meta_of(new)["resourceVersion"])), type_, key, new, old))

    def _notify(self) -> None:
        for listener in self.listeners:
            listener()

    def _record(self, event: port.RecordEvent) -> None:
        """Write an event, or count it where it was written before."""
        about = event.about
        now = stamp(self.now)
        namespace = about.namespace or "default"
        words = f"{about} {event.type} {event.reason} {event.message}"
        name = f"{about.name}.{hashlib.sha256(words.encode()).hexdigest()[:16]}"
        key = port.Key("", "Event", namespace, name)
        known_event = self._aside.get(key)
        counted = known_event.get("count") if known_event is not None else 0
        raw: Raw = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": self._reference(about),
            "reason": event.reason,
            "message": event.message,
            "type": event.type,
            "count": (counted if isinstance(counted, int) else 0) + 1,
            "firstTimestamp": known_event.get("firstTimestamp", now) if known_event is not None else now,
            "lastTimestamp": now,
            "source": {"component": "tierwise"},
            "reportingComponent": "tierwise",
            "reportingInstance": "",
        }
        self._recorded.pop(key, None)
        self._recorded[key] = None
        new = self._aside[key] = self._stamped(key, raw, known_event)
        self._note("ADDED" if known_event is None else "MODIFIED", key, new, known_event)
        while len(self._recorded) > self._most_events:
            oldest = next(iter(self._recorded))
            del self._recorded[oldest]
            self.drop(oldest)

    def _reference(self, about: port.Key) -> Raw:
        served = of_kind(about.group, about.kind)
        reference: Raw = {"kind": about.kind, "name": about.name}
        if about.namespace:
            reference["namespace"] = about.namespace
        if served is not None:
            reference["apiVersion"] = served.api_version()
        meta = meta_of(self._objects.raw(about) or {})
        return reference | {field: meta[field] for field in ("uid", "resourceVersion") if field in meta}


def _controller(namespace: str, raw: Raw) -> port.Key:
    """Key of an object's controller; its name is "" if the object has none."""
    owners = meta_of(raw).get("ownerReferences")
    owner = owners[0] if isinstance(owners, list) and owners else {}
    group = str(owner.get("apiVersion", "")).rpartition("/")[0]
    return port.Key(group, str(owner.get("kind", "")), namespace, str(owner.get("name", "")))


def _meant(effect: port.Effect) -> tuple[tuple[port.Key, str], ...]:
    """The very objects that an effect was decided on."""
    match effect:
        case port.Bind(pod):
            return (pod, effect.uid), *effect.claims
        case port.Evict(pod) | port.Nominate(pod):
            return ((pod, effect.uid),)
        case port.Delete(key):
            return ((key, effect.uid),)
        case port.Prepare(key, patch) if not effect.create:
            return ((key, str(meta_of(patch).get("uid") or "")),)
        case _:
            return ()


def meta_of(raw: Mapping[str, object]) -> Raw:
    """The metadata of a manifest."""
    return part(raw, "metadata")


def _body(raw: Mapping[str, object]) -> Raw:
    """Fields of an object that count for its generation."""
    return {name: value for name, value in raw.items() if name not in ("metadata", "status")}


def _with_meta(record: Object, raw: Raw) -> Object:
    """A record that was decoded before its object was stamped."""
    stamped = codec.decode({**{name: raw[name] for name in ("apiVersion", "kind")}, "metadata": raw["metadata"]})
    changed: Object = replace(record, metadata=stamped.metadata)  # type: ignore[type-var]
    return changed


def _is_scheduled(condition: object) -> bool:
    return isinstance(condition, dict) and (condition.get("type"), condition.get("status")) == ("PodScheduled", "True")


def _lease(node: Node, period: int, now: float) -> Raw:
    """The word of a kubelet that it lives."""
    name = node.metadata.name
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node.metadata.uid}
    spec = {"holderIdentity": name, "leaseDurationSeconds": 4 * period, "renewTime": format_micro_time(now)}
    meta = {"name": name, "namespace": "kube-node-lease", "ownerReferences": [owner]}
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": meta, "spec": spec}


def established(definition: Raw) -> Raw:
    """A definition that is in force."""
    spec = part(definition, "spec")
    versions = spec.get("versions")
    stored = (
        [version_entry.get("name") for version_entry in versions if isinstance(version_entry, dict)]
        if isinstance(versions, list)
        else []
    )
    conditions = [{"type": kind, "status": "True", "reason": kind} for kind in ("NamesAccepted", "Established")]
    status = {"conditions": conditions, "acceptedNames": spec.get("names", {}), "storedVersions": stored}
    return {**definition, "status": status}


def _namespace(name: str) -> Raw:
    labels = {"kubernetes.io/metadata.name": name}
    return manifest("v1", "Namespace", name, labels=labels, status={"phase": "Active"})
