"""The interface between the core and a cluster: objects to read, effects to request, outcomes of effects.

Scheduler and controllers read `Objects` and return effects; a `Cluster` (embedded or real) performs them. Nothing here
does I/O, and no package below `sim` and `kube` knows which cluster it is used with.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, ItemsView, Iterable, Iterator, Mapping, Sequence, ValuesView
from functools import lru_cache
from itertools import chain
from operator import itemgetter
from types import MappingProxyType
from typing import Any, Final, NewType, Protocol, TypeVar, cast

import msgspec
from msgspec.structs import replace

from tierwise.api import codec
from tierwise.api.codec import Object, Packed, Raw
from tierwise.api.natural import NaturalKey, natural

__all__ = [
    "DEPENDS_ON_ANNOTATION",
    "HYPERNODE_ANNOTATION",
    "PATH_ANNOTATION",
    "SUB_GROUPS_ANNOTATION",
    "Begun",
    "Bind",
    "Cluster",
    "Create",
    "Delete",
    "Effect",
    "Ended",
    "Evict",
    "Key",
    "Nominate",
    "Objects",
    "Outcome",
    "PatchStatus",
    "Prepare",
    "RecordEvent",
    "Update",
    "Version",
    "about",
    "decided_on",
    "gang_path",
    "key_of",
    "key_of_raw",
    "lone_gang",
    "with_uid",
]

R = TypeVar("R", bound=Object)

HYPERNODE_ANNOTATION: Final = "tierwise.io/hypernode"
"""On a pod the innermost hyperNode of its node, on a pod group the one that was chosen for it."""

SUB_GROUPS_ANNOTATION: Final = "tierwise.io/sub-groups"
"""On a pod group, as JSON, the hyperNode that each of its sub-groups was last placed in."""

DEPENDS_ON_ANNOTATION: Final = "tierwise.io/depends-on"
"""On the pod group of a job, as JSON: by task, those that must run before its pods are made."""

PATH_ANNOTATION: Final = "tierwise.io/topology"
"""On a pod the hyperNodes around its node, outermost first, with "/" between them."""

Version = NewType("Version", int)
"""Grows with every change of a cluster's objects."""


class Key(msgspec.Struct, frozen=True, order=True):
    """The identity of an object; the namespace is "" for kinds that live in none, the group "" for the core group."""

    group: str
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.path}"

    @property
    def path(self) -> str:
        """The name within the kind: "namespace/name", or the name alone."""
        if self.namespace:
            return f"{self.namespace}/{self.name}"
        return self.name

    @classmethod
    def at(cls, group: str, kind: str, path: str) -> Key:
        """The object at a path within its kind."""
        namespace, _, name = path.rpartition("/")
        return cls(group, kind, namespace, name)


def key_of(record: Object) -> Key:
    """The identity of a record; a type of record that serves several groups counts as the first one's."""
    kind = codec.kind_of(record)
    meta = record.metadata
    namespace = meta.namespace or "default" if kind.namespaced else ""
    return Key(codec.group_of(kind.api_version, kind.name), kind.name, namespace, meta.name)


def key_of_raw(raw: Raw) -> Key:
    """The identity of a manifest that the codec accepts."""
    version = raw.get("apiVersion")
    kind = raw.get("kind")
    meta = raw.get("metadata")
    if not (isinstance(version, str) and isinstance(kind, str) and isinstance(meta, dict)):
        return key_of(codec.decode(raw))  # which says what is missing
    namespace = meta.get("namespace") or ""
    name = meta.get("name")
    if _namespaced(version, kind):
        namespace = namespace or "default"
    elif (codec.group_of(version, kind), kind) in codec.KINDS:
        namespace = ""
    return Key(codec.group_of(version, kind), kind, str(namespace), str(name))


@lru_cache(maxsize=1024)
def _namespaced(api_version: str, kind: str) -> bool:
    example = codec.decode({"apiVersion": api_version, "kind": kind, "metadata": {"name": "any"}})
    return codec.kind_of(example).namespaced


_LONGEST: Final = 256
"""Changes of a table that are remembered; beyond that all of it is compared."""


class _Log(msgspec.Struct):
    """Paths that the latest changes of a table touched, by number; tables derived from each other share it."""

    last: int = 0  # the number of the next change
    touched: dict[int, tuple[str, ...]] = {}
    told: tuple[int, int, dict[str, Object | None]] = (0, 0, {})  # what differs between two moments, as asked last

    def add(self, paths: tuple[str, ...]) -> int:
        """Note a change; the number of the next one."""
        latest_version = self.last
        touched = self.touched
        touched[latest_version] = paths
        if len(touched) > _LONGEST:
            del touched[latest_version - _LONGEST]
        self.last = latest_version + 1
        return latest_version + 1

    def between(self, version: int, other_version: int) -> Sequence[str] | None:
        """Paths touched between two versions, in that direction; None if they are no longer known."""
        if other_version == version - 1 or other_version == version:
            return (
                self.touched.get(other_version) if other_version < version else ()
            )  # as for whoever looks at every change
        steps = [*map(self.touched.get, range(min(version, other_version), max(version, other_version)))]
        return None if None in steps else [*dict.fromkeys(chain.from_iterable(steps))]  # type: ignore[arg-type]


_Entry = tuple[Object | None, Raw | Packed | None]
_GONE: Final[_Entry] = (None, None)
_PATH = itemgetter(1)
_FEW: Final = 64
_LEAST: Final = 8


class _Base(msgspec.Struct, frozen=True, eq=False):
    """The objects of one kind as they were at some time, which many tables share."""

    ranks: list[NaturalKey] = []  # of their paths, in natural order
    records: dict[str, Object] = {}
    raws: dict[str, Raw | Packed] = {}


class _Table(msgspec.Struct, frozen=True, eq=False):
    """The objects of one kind: a base, and what has changed since lies over it.

    A change copies what lies over the base and not the base itself, until that is so much that a new base is due. So
    one object that comes costs the same among a hundred thousand as among a hundred.
    """

    base: _Base = _Base()
    over: dict[str, _Entry] = {}
    size: int = 0
    log: _Log = msgspec.field(default_factory=_Log)
    at: int = 0  # the changes of the log before this one are in it

    def changed(self, puts: Mapping[str, tuple[Object, Raw | Packed | None]], deletes: Iterable[str]) -> _Table:
        """A copy with these changes; a record that comes without its manifest keeps the one that was there."""
        over = self.over.copy()
        base = self.base
        size = self.size
        gone = []
        for path in deletes:
            if path not in puts and self.record(path) is not None and over.get(path) is not _GONE:
                over[path] = _GONE
                gone.append(path)
        for path, (record, raw) in puts.items():
            entry = self.over.get(path)
            if entry is None and path in base.records:
                entry = base.records[path], base.raws.get(path)
            if entry is None or entry[0] is None:
                size += 1
            over[path] = record, entry[1] if raw is None and entry is not None else raw
        # Where another table was made from this one already, the two have no history in common from here on.
        log = self.log if self.at == self.log.last and self is not _EMPTY else _Log()
        size -= len(gone)
        table = _Table(base, over, size, log, log.add((*puts, *gone)))
        if len(over) <= max(size // _FEW, _LEAST):
            return table
        return table.rebased()

    def rebased(self) -> _Table:
        """The table with all changes moved into its base."""
        raws = self.base.raws | {path: raw for path, (_, raw) in self.over.items() if raw is not None}
        for path, (_, raw) in self.over.items():
            if raw is None:
                raws.pop(path, None)
        return _Table(_Base(self.ranks(), self.records(), raws), {}, self.size, self.log, self.at)

    def record(self, path: str) -> Object | None:
        entry = self.over.get(path)
        return entry[0] if entry is not None else self.base.records.get(path)

    def raw(self, path: str) -> Raw | Packed | None:
        entry = self.over.get(path)
        if entry is not None:
            return entry[1]
        return self.base.raws.get(path)

    def records(self) -> dict[str, Object]:
        """All of them, in no order."""
        if not self.over:
            return self.base.records
        records = self.base.records.copy()
        for path, (record, _) in self.over.items():
            if record is not None:
                records[path] = record
            else:
                records.pop(path, None)
        return records

    def ranks(self) -> list[NaturalKey]:
        """Of their paths, in natural order."""
        ranks = self.base.ranks
        base_records = self.base.records
        moved = []
        for path, (record, _) in self.over.items():
            if (record is None) is (path in base_records):
                moved.append(natural(path))
        if not moved:
            return ranks
        if len(moved) > _FEW:
            fresh = [rank for rank in moved if rank[1] not in base_records]
            gone = {rank[1] for rank in moved}
            # Timsort merges the sorted old names and the new ones in about one pass.
            return sorted([rank for rank in ranks if rank[1] not in gone] + sorted(fresh))
        ranks = ranks.copy()
        for rank in moved:
            at = bisect_left(ranks, rank)
            if rank[1] in base_records:
                del ranks[at]
            else:
                ranks.insert(at, rank)
        return ranks

    def entry(self, path: str) -> _Entry:
        """The record and the manifest of a path."""
        entry = self.over.get(path)
        if entry is not None:
            return entry
        return (self.base.records.get(path), self.base.raws.get(path))

    def lookup(self, paths: Iterable[str]) -> list[Object | None]:
        """The records of these paths, None where there is none."""
        over = self.over
        records = self.base.records
        if not over:
            return [*map(records.get, paths)]
        return [over[path][0] if path in over else records.get(path) for path in paths]

    def latest(self, since: _Table) -> dict[str, Object | None]:
        """Objects that came, went or changed since then, by path (None if gone), in no particular order."""
        shared = self.log is since.log
        cached = self.log.told
        if shared and cached[:2] == (self.at, since.at):
            return cached[2]  # all who follow a cluster ask the same, one after the other
        touched = self.log.between(self.at, since.at) if shared else None
        if touched is None:
            touched = [*dict.fromkeys((*since.records(), *self.records()))]
        both = zip(touched, self.lookup(touched), since.lookup(touched), strict=True)
        changed_rows = {path: now for path, now, before in both if now is not before}
        if shared:
            self.log.told = self.at, since.at, changed_rows
        return changed_rows


class _InOrder(Mapping[str, Object]):
    """The records of a table in natural order of their paths."""

    __slots__ = ("_base", "_over", "_table")

    def __init__(self, table: _Table) -> None:
        self._table = table
        self._over = table.over
        self._base = table.base.records

    def __getitem__(self, path: str) -> Object:
        record = self.get(path)
        if record is None:
            raise KeyError(path)
        return record

    def __iter__(self) -> Iterator[str]:
        return map(_PATH, self._table.ranks())

    def __len__(self) -> int:
        return self._table.size

    def __repr__(self) -> str:
        return repr(dict(self))

    def __contains__(self, path: object) -> bool:
        entry = self._over.get(path)  # type: ignore[call-overload]
        if entry is not None:
            return entry[0] is not None
        return path in self._base

    def get(self, path: str, default: Object | None = None) -> Object | None:  # type: ignore[override]
        entry = self._over.get(path)
        record = entry[0] if entry is not None else self._base.get(path)
        return record if record is not None else default

    def values(self) -> ValuesView[Object]:
        return _Values(self)

    def items(self) -> ItemsView[str, Object]:
        return _Items(self)


class _Values(ValuesView[Object]):
    """Without a call in Python for each of them."""

    _mapping: _InOrder

    def __iter__(self) -> Iterator[Object]:
        return map(self._mapping._table.records().__getitem__, self._mapping)


class _Items(ItemsView[str, Object]):
    _mapping: _InOrder

    def __iter__(self) -> Iterator[tuple[str, Object]]:
        return zip(self._mapping, self._mapping.values(), strict=True)


_EMPTY: Final = _Table()


class Objects(msgspec.Struct, frozen=True):
    """Contents of a cluster at one moment: records and the manifests they came from. They are never changed."""

    version: Version = Version(0)
    _tables: Mapping[tuple[str, str], _Table] = {}

    @classmethod
    def of(cls, loaded: Iterable[tuple[Object, Raw]], version: int = 0) -> Objects:
        """Objects from decoded records and their manifests; of two with one identity the later counts."""
        return cls.holding(((key_of_raw(raw), record, raw) for record, raw in loaded), version)

    @classmethod
    def holding(cls, loaded: Iterable[tuple[Key, Object, Raw | Packed]], version: int = 0) -> Objects:
        """Objects from manifests whose keys are known, some of them packed."""
        puts: dict[tuple[str, str], dict[str, tuple[Object, Raw | Packed]]] = {}
        for key, record, raw in loaded:
            puts.setdefault((key.group, key.kind), {})[key.path] = record, raw
        return cls(Version(version), {kind: _EMPTY.changed(rows, ()) for kind, rows in puts.items()})

    def changed(self, puts: Mapping[Key, Raw], deletes: Iterable[Key] = ()) -> Objects:
        """The next version, with these objects gone and these manifests put (in that order); the rest is shared.

        Only what is put is decoded (InputError where it cannot be), of an object that was there only what is another
        object than before; and only tables of the kinds named are copied.
        """
        new: dict[tuple[str, str], dict[str, tuple[Object, Raw | None]]] = {}
        for key, raw in puts.items():
            kind = (key.group, key.kind)
            path = key.path
            before, entry = self._tables.get(kind, _EMPTY).entry(path)
            can_reuse = before is not None and isinstance(entry, dict)
            record = codec.decode_changed(raw, entry, before) if can_reuse else codec.decode(raw)  # type: ignore[arg-type]
            new.setdefault(kind, {})[path] = record, raw
        return self._with(new, deletes, self.version + 1)

    def updated(self, puts: Mapping[Key, tuple[Object, Raw | None]], deletes: Iterable[Key], version: int) -> Objects:
        """As `changed`, from records that were decoded before; a record may come without its manifest."""
        new: dict[tuple[str, str], dict[str, tuple[Object, Raw | None]]] = {}
        for key, entry in puts.items():
            new.setdefault((key.group, key.kind), {})[key.path] = entry
        return self._with(new, deletes, version)

    def _with(
        self,
        new: Mapping[tuple[str, str], Mapping[str, tuple[Object, Raw | None]]],
        deletes: Iterable[Key],
        version: int,
    ) -> Objects:
        old: dict[tuple[str, str], list[str]] = {}
        for key in deletes:
            old.setdefault((key.group, key.kind), []).append(key.path)
        tables = {**self._tables}
        for kind in {**new, **old} if old else new:
            tables[kind] = tables.get(kind, _EMPTY).changed(new.get(kind, {}), old.get(kind, ()))
        return Objects(Version(version), tables)

    def every(self, record: type[R]) -> Mapping[str, R]:
        """All records of a type by "namespace/name" or "name", in natural order of these keys.

        Where the type serves several groups and two objects share a key, the one of the first group counts.
        """
        kind = codec.ONLY_KIND_OF.get(record)
        if kind is not None:
            only: Mapping[str, Any] = _InOrder(self._tables.get(kind, _EMPTY))
            return only
        kinds = codec.KINDS_OF.get(record) or [kind for kind in self._tables if _type(kind) is record]
        present = [kind for kind in kinds if kind in self._tables]
        if len(present) < 2:
            return cast(Mapping[str, R], _InOrder(self._tables[present[0]] if present else _EMPTY))
        tables = [self._tables[kind] for kind in sorted(present)]
        merged = {path: record for table in reversed(tables) for path, record in table.records().items()}
        return MappingProxyType({path: cast(R, merged[path]) for path in sorted(merged, key=natural)})

    def of_kind(self, group: str, kind: str) -> Mapping[str, Object]:
        """All records of one API group and kind by path, in natural order."""
        return _InOrder(self._tables.get((group, kind), _EMPTY))

    def any_of(self, kinds: Collection[tuple[str, str]]) -> bool:
        """Whether there are objects of some of these groups and kinds."""
        return any(table.size for kind, table in self._tables.items() if kind in kinds)

    def record(self, key: Key) -> Object | None:
        """The record of one object."""
        table = self._tables.get((key.group, key.kind))
        return table.record(key.path) if table is not None else None

    def raw(self, key: Key) -> Raw | None:
        """The manifest of one object; None also where a cluster keeps none of its kind (a real one: pods and nodes)."""
        table = self._tables.get((key.group, key.kind))
        if table is None:
            return None
        manifest = table.raw(key.path)
        if isinstance(manifest, Packed):
            return manifest.unpacked()
        return manifest

    def __iter__(self) -> Iterator[Key]:
        """Every object's key: groups and kinds in alphabetical order, natural order within a kind."""
        for group, kind in sorted(self._tables):
            for path in _InOrder(self._tables[group, kind]):
                yield Key.at(group, kind, path)

    def alike(self, other_objects: Objects, *records: type[Object]) -> bool:
        """Whether objects of these types are certainly the same in both: one was made from the other without them."""
        mine = self._tables
        other_tables = other_objects._tables
        if mine is other_tables:
            return True
        for record in records:
            for kind in codec.KINDS_OF.get(record) or self._differing(other_objects):
                if mine.get(kind) is not other_tables.get(kind) and _type(kind) is record:
                    return False
        return True

    def _differing(self, other_objects: Objects, *records: type[Object]) -> list[tuple[str, str]]:
        """Groups and kinds, of these types alone if any, of which not all objects are certainly the same, in order."""
        mine = self._tables
        other_tables = other_objects._tables
        if mine is other_tables:
            return []
        if records:
            kinds = []
            for record in records:
                kinds.extend(codec.KINDS_OF[record])
            differing = [kind for kind in kinds if mine.get(kind) is not other_tables.get(kind)]
        else:
            differing = [*dict(mine.items() ^ other_tables.items())]
        if len(differing) > 1:
            return sorted(differing)
        return differing

    def differing_types(self, other_objects: Objects) -> frozenset[type[Object]]:
        """The types of which not all objects are certainly the same in both."""
        return frozenset(map(_type, self._differing(other_objects)))

    def changes(self, since: Objects, record: type[Object]) -> list[str]:
        """Which objects of a type have come, gone or become others, by "namespace/name" or "name", in natural order.

        Records are told apart by identity, so that the many which stayed cost next to nothing.
        """
        return sorted(self.latest(since, record), key=natural)

    def latest(self, since: Objects, record: type[R]) -> dict[str, R | None]:
        """Objects of a record that differ from `since`, as they are now; None for one that is gone. In no order."""
        changes: dict[str, R | None] = {}
        for kind in sorted(codec.KINDS_OF.get(record) or self._differing(since)):
            new = self._tables.get(kind, _EMPTY)
            old = since._tables.get(kind, _EMPTY)
            if new is not old and _type(kind) is record:
                changes |= cast(dict[str, R | None], new.latest(old))
        return changes

    def changed_objects(self, since: Objects, *records: type[Object]) -> dict[type[Object], dict[Key, Object | None]]:
        """All objects that have come, gone or become others, as they are now, by type; None for one that is gone.

        Where types are given, those of them alone. Keys are in natural order.
        """
        by_type: dict[type[Object], dict[Key, Object | None]] = {}
        mine = self._tables
        other_tables = since._tables
        for kind in self._differing(since, *records):
            latest = mine.get(kind, _EMPTY).latest(other_tables.get(kind, _EMPTY))
            if not latest:
                continue
            group, name = kind
            of_type = by_type.setdefault(codec.KINDS.get(kind, codec.Unknown), {})
            for path in sorted(latest, key=natural) if len(latest) > 1 else latest:
                namespace, _, short = path.rpartition("/")
                of_type[Key(group, name, namespace, short)] = latest[path]
        return by_type

    def __len__(self) -> int:
        return sum(table.size for table in self._tables.values())


def _type(kind: tuple[str, str]) -> type[Object]:
    return codec.KINDS.get(kind, codec.Unknown)


_LONE = "pod "


def about(effect: Effect) -> Key:
    """The object that an effect is about; of one that is to be made, its key."""
    match effect:
        case Create(raw):
            return key_of_raw(raw)
        case Bind() | Evict() | Nominate():
            return effect.pod
        case RecordEvent():
            return effect.about
        case _:
            return effect.key


def gang_of(effect: Effect) -> str:
    """The gang for which an effect is carried out, by its job's key; "" where that is none."""
    match effect:
        case Bind() | Prepare() | Nominate():
            return effect.gang
        case Evict():
            return effect.by
        case _:
            return ""


def lone_gang(pod: str) -> str:
    """Key of the gang of a single pod, from the pod's path; no pod group can have this key."""
    return f"{_LONE}{pod}"


def gang_path(gang: str) -> str:
    """The namespace and name of a gang, whatever says before them what kind of gang it is."""
    return gang.rpartition(" ")[2]


class Bind(msgspec.Struct, frozen=True):
    """Let a pod run on a node; the annotations are written on the pod in the same breath.

    Binds of one gang (`gang` is its job's key) are issued together. `uid` and those of `claims`, the claims of volumes
    and devices that the pod means, say which objects were decided about: another of the same name is none of them.
    """

    pod: Key
    node: str
    annotations: Mapping[str, str] = {}
    gang: str = ""
    uid: str = ""  # here and below: "" where whoever bears the name is meant
    claims: tuple[tuple[Key, str], ...] = ()


class Evict(msgspec.Struct, frozen=True):
    """Take a pod's node away: `by` names who profits, `action` the stage that decided.

    With `past_budgets` the pod is deleted and the Eviction API is not asked, since disruption budgets would refuse.
    """

    pod: Key
    reason: str
    by: str
    action: str
    uid: str = ""
    past_budgets: bool = False


class Nominate(msgspec.Struct, frozen=True):
    """Write down on a pod that a node is kept for it; an empty node takes that back. `gang` is its job's key."""

    pod: Key
    node: str
    gang: str = ""
    uid: str = ""


class Prepare(msgspec.Struct, frozen=True):
    """Write what must stand before a pod is bound, as a merge patch: the volume of a claim, the devices of another.

    Where one fails, no pod of the gang (`gang` is its job's key) is bound or nominated by the same effects.
    """

    key: Key
    patch: Raw
    gang: str = ""
    version: str = ""  # the resource version that it was decided on; "" where any other will do
    status: bool = False  # it is about the status, which is written at a path of its own
    create: bool = False  # the object is to be made, and the patch is all of it
    after: Key | None = None  # an object that must have been written first; where that failed, so does this


class Create(msgspec.Struct, frozen=True):
    """Make an object; fails where one of that identity exists."""

    raw: Raw


class Update(msgspec.Struct, frozen=True):
    """Put a whole manifest in place of the present one; fails where there is none."""

    key: Key
    raw: Raw


class Delete(msgspec.Struct, frozen=True):
    """Remove an object; a pod gets its time to terminate."""

    key: Key
    uid: str = ""


class PatchStatus(msgspec.Struct, frozen=True):
    """Replace these top-level fields of `.status`, and add these annotations."""

    key: Key
    status: Raw
    annotations: Mapping[str, str] = {}


class RecordEvent(msgspec.Struct, frozen=True):
    """Tell people something about an object; `type` is "Normal" or "Warning".

    `decision` is the id of its decision, to find it in the logs; a cluster writes it outside the text, so that events
    with equal texts are still counted as repetitions.
    """

    about: Key
    type: str
    reason: str
    message: str
    decision: str = ""


Effect = Bind | Evict | Nominate | Prepare | Create | Update | Delete | PatchStatus | RecordEvent
"""A change asked of the cluster; a closed union, matched exhaustively."""


def decided_on(objects: Objects, effects: Iterable[Effect]) -> list[Effect]:
    """Effects about the very objects that they were decided on, and about no others that bear their names by then.

    What is written on a version needs nothing more: another object has another one.
    """

    def uid(key: Key) -> str:
        record = objects.record(key)
        return record.metadata.uid if record is not None else ""

    checked: list[Effect] = []
    for effect in effects:
        match effect:
            case Bind(pod):
                claims = tuple([(key, uid(key)) for key, _ in effect.claims])
                checked.append(replace(effect, uid=uid(pod), claims=claims))
            case Evict(pod) | Nominate(pod):
                checked.append(replace(effect, uid=uid(pod)))
            case Delete(key):
                checked.append(replace(effect, uid=uid(key)))
            case Prepare(key, patch) if not effect.version and not effect.create and (found_uid := uid(key)):
                checked.append(replace(effect, patch=with_uid(patch, found_uid)))
            case _:
                checked.append(effect)
    return checked


def with_uid(patch: Raw, uid: str) -> Raw:
    """A merge patch that a server refuses for an object with another uid."""
    if uid:
        return {**patch, "metadata": {**codec.part(patch, "metadata"), "uid": uid}}
    return patch


class Outcome(msgspec.Struct, frozen=True):
    """Result of an effect."""

    effect: Effect
    ok: bool
    error: str = ""
    withheld: bool = False  # nothing was tried, because of what became of another effect or of the lease
    lasting: bool = False  # it was refused for a reason that stays: the same would be refused again


class Begun(Protocol):
    """Effects that are under way."""

    def done(self) -> bool:
        """Whether all outcomes are known."""

    def waits(self) -> int:
        """How many outcomes are not known yet, those of namespaces left out whose writes are slow."""

    def so_far(self) -> Sequence[Outcome | None]:
        """The outcomes that are known, one for each effect, in order; None for one that is not."""

    def pause(self, seconds: float) -> None:
        """Wait until all outcomes are known, so many seconds at most."""

    def __call__(self) -> Sequence[Outcome]:
        """The outcomes, one for each effect, in order; waits for them."""


class Ended(msgspec.Struct, frozen=True):
    """Effects that have been carried out."""

    outcomes: Sequence[Outcome]

    def done(self) -> bool:
        """Nothing is waited for."""
        return True

    def waits(self) -> int:
        """Nothing is waited for."""
        return 0

    def so_far(self) -> Sequence[Outcome]:
        """The outcomes of all effects."""
        return self.outcomes

    def pause(self, seconds: float) -> None:
        """Nothing is waited for."""

    def __call__(self) -> Sequence[Outcome]:
        return self.outcomes


class Cluster(Protocol):
    """A place where pods run: look at it, act on it, wait for it to change."""

    def read(self) -> Objects:
        """Current objects: consistent and immutable, with a version."""

    def apply(self, effects: Sequence[Effect]) -> Sequence[Outcome]:
        """Perform effects; one outcome for each, in order."""

    def tell(self, effects: Sequence[PatchStatus | RecordEvent], by: str = "") -> None:
        """Write statuses and events behind everything else, without waiting for it.

        Told again `by` the same one (if that is not ""), they replace all statuses that it told before and that are
        not written yet: it tells each time all that differs from what `read` shows. Of one object the newest status
        counts, and beside it the newest of each set of annotations that are told without a status.
        A warning belongs to the status of its object that is told with it; every other event is written in any case.
        """

    def begin(self, effects: Sequence[Effect]) -> Begun:
        """Begin to perform what a cycle decided: reads show it as done from now on, and what fails no longer.

        Binds, evictions, nominations and writes before a bind are shown so; statuses and events are not. What is for
        one gang waits for each other as in `apply`; gangs wait for each other only where they write the same object.
        Further effects may be begun before these have ended. Of one namespace, what was asked for first is sent first;
        namespaces are served in turn, and one whose writes are slow keeps no other waiting.
        """

    def begin_in_order(self, effects: Sequence[Effect]) -> Begun:
        """Begin to perform effects, those of each namespace in order as `apply` does, and no namespace for another.

        Reads show them when they are done: who asks again before asks for them twice.
        """

    def wait(self, since: Version, timeout: float) -> Version:
        """Return once the version is past `since` or the time is over, with the version then."""
