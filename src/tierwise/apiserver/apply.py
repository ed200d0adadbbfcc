"""Server-side apply: who said which field, and what becomes of an object when it is said again.

A manager owns the fields that it applied last. Fields that it no longer names are removed, unless another manager owns
them as well; a field of another manager with another value is a conflict, unless the request is forced. Whoever writes
in another way owns what it changed, and takes that from others. Ownership is kept in `metadata.managedFields`; what the
cluster's own controllers write belongs to no one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from typing import Final, NamedTuple, TypeGuard

import msgspec

from tierwise.api.codec import Raw, part
from tierwise.api.merge_keys import merge_key
from tierwise.apiserver.failures import ApiFailure, Work, bad_request
from tierwise.apiserver.kinds import ServedKind

__all__ = ["apply_patch", "updated"]

Path = tuple[str, ...]
"""Steps to a field, as `fieldsV1` writes them: "f:spec", 'k:{"name":"main"}'."""

Keys = Callable[[Path, Sequence[object]], Sequence[str]]
"""The fields that tell the items of the list at a path apart; none where the list is one value."""

_OWN: Final = frozenset({("f:apiVersion",), ("f:kind",), ("f:metadata", "f:name"), ("f:metadata", "f:namespace")})
_MISSING: Final = object()
_NOBODYS: Final = ("managedFields", "resourceVersion", "uid", "creationTimestamp", "generation", "selfLink")
"""Fields of metadata that are the server's to write."""
_MOST_UPDATERS: Final = 10
_ANCIENT: Final = "ancient-changes"
"""Who owns the fields of those who wrote longest ago, where there are too many of them."""
_KUBECTL: Final = "kubectl"
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


class _Manager(NamedTuple):
    """Who wrote fields, and in which way."""

    name: str
    operation: str = "Apply"
    sub: str = ""
    version: str = ""  # of the API, for those who do not apply

    @property
    def shown(self) -> str:
        """As an API server's messages call it."""
        by = f' with subresource "{self.sub}"' if self.sub else ""
        return f'"{self.name}"{by}' + (f" using {self.version}" if self.operation == "Update" else "")


_Owned = dict[_Manager, frozenset[Path]]


def _disputed(fields: Iterable[Path], said: Mapping[Path, object], live: Raw | None, work: Work) -> set[Path]:
    """Fields of another manager to which an intent gives another value than they have."""
    return {path for path in fields if path in said and _value(live, path, work) not in (said[path], _MISSING)}


def apply_patch(
    served: ServedKind, live: Raw | None, patch: Raw, *, manager: str, force: bool, api_version: str, now: str
) -> Raw:
    """The object after a manager has applied its intent; ApiFailure where that is in conflict with others'."""
    if not manager:
        raise bad_request("fieldManager is required for apply patch")
    if part(patch, "metadata").get("managedFields"):
        raise bad_request("metadata.managedFields must be nil")
    keys = _keys_of(served)
    work = Work()
    applier = _Manager(manager)
    said = dict(_leaves(patch, (), keys, work))
    owners = _owners(live or {}, work)
    others = {one: fields for one, fields in owners.items() if one != applier}
    disputed = {one: _disputed(fields, said, live, work) for one, fields in others.items()}
    if not force:
        _refuse(disputed, _taken_over(manager, live or {}, keys, work))
    others = {one: fields - disputed[one] for one, fields in others.items()}
    kept = frozenset(said).union(*others.values())
    around = {path[:length] for path in kept for length in range(1, len(path) + 1)}
    result: object = dict(live) if live is not None else {}
    for path in sorted(owners.get(applier, frozenset()) - kept, key=len, reverse=True):
        result = _without(result, path, around, work)
    for path, value in said.items():
        result = _with(result, path, value, work)
    assert isinstance(result, dict)
    return _with_owners(result, live, {**others, applier: frozenset(said)}, api_version, now)


def updated(served: ServedKind, old: Raw | None, new: Raw, *, by: str, sub: str, api_version: str, now: str) -> Raw:
    """The object with a note of who owns what a write changed; `sub` is the part that was written to, if any.

    Where it is too large to be looked through, as it is.
    """
    keys = _keys_of(served)
    work = Work()
    meta = part(new, "metadata")
    given = meta.get("managedFields")
    live = old or {}
    if given == [{}]:  # how a client says that nobody owns anything
        return {**new, "metadata": {name: value for name, value in meta.items() if name != "managedFields"}}
    base = new if isinstance(given, list) and given else live
    try:
        before, after = (dict(_leaves(_body(raw), (), keys, work)) for raw in (live, new))
        owners = _owners(base, work)
    except ApiFailure:
        return new
    changed = frozenset(path for path, value in after.items() if before.get(path, _MISSING) != value)
    kept = {one: fields & after.keys() - changed for one, fields in owners.items()}
    updater = _Manager(by, "Update", sub, api_version)
    if changed:
        kept = {one: fields for one, fields in kept.items() if one != updater} | {
            updater: kept.get(updater, frozenset()) | changed
        }
    return _with_owners(new, base, _merged(kept), api_version, now)


def _body(raw: Raw) -> Raw:
    """A copy of an object without status and without the metadata fields that nobody can own (_NOBODYS).

    Everything else stays; metadata is {} where the object has none.
    """
    meta = {name: value for name, value in part(raw, "metadata").items() if name not in _NOBODYS}
    return {name: value for name, value in raw.items() if name != "status"} | {"metadata": meta}


def _merged(owners: _Owned) -> _Owned:
    """No more than so many who update; the last that wrote stands at the end."""
    updaters = [one for one in owners if one.operation == "Update"]
    old = updaters[: len(updaters) - _MOST_UPDATERS + 1] if len(updaters) > _MOST_UPDATERS else []
    if not old:
        return owners
    ancient = _Manager(_ANCIENT, "Update", "", old[0].version)
    fields = frozenset[Path]().union(*(owners[one] for one in old))
    return {ancient: fields} | {one: own for one, own in owners.items() if one not in old}


def _with_owners(raw: Raw, live: Raw | None, owners: _Owned, api_version: str, now: str) -> Raw:
    known = dict(_entries(live or {}))
    entries = []
    for one, fields in owners.items():
        if fields:
            entries.append(_entry(one, fields, known.get(one, {}), api_version, now))
    meta = {name: value for name, value in part(raw, "metadata").items() if name != "managedFields"}
    return {**raw, "metadata": meta | ({"managedFields": entries} if entries else {})}


def _taken_over(manager: str, live: Raw, keys: Keys, work: Work) -> frozenset[Path]:
    """Fields that kubectl may take over from its own apply at the client, whose configuration the object remembers."""
    text = part(part(live, "metadata"), "annotations").get(_LAST_APPLIED)
    if manager != _KUBECTL or not isinstance(text, str):
        return frozenset()
    try:
        last = msgspec.json.decode(text, type=dict[str, object])
    except msgspec.DecodeError:
        return frozenset()
    return frozenset(path for path, value in _leaves(last, (), keys, work) if _value(live, path, work) == value)


def _refuse(disputed: Mapping[_Manager, Set[Path]], allowed: Set[Path]) -> None:
    """Tell of fields that others own with other values, as an API server does."""
    left = {}
    for one, paths in sorted(disputed.items()):
        if paths - allowed:
            left[one] = sorted(paths - allowed)
    if not left:
        return
    causes: list[Raw] = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {one.shown}", "field": _shown(path)}
        for one, paths in left.items()
        for path in paths
    ]
    if len(causes) == 1:
        text = f"1 conflict: {causes[0]['message']}: {causes[0]['field']}"
    else:
        lines = [
            "\n".join([f"conflicts with {one.shown}:", *(f"- {_shown(path)}" for path in paths)])
            for one, paths in left.items()
        ]
        text = f"{len(causes)} conflicts: " + "\n".join(lines)
    raise ApiFailure(409, "Conflict", f"Apply failed with {text}", {"causes": causes})


def _shown(path: Path) -> str:
    return "".join(f".{step[2:]}" if step.startswith("f:") else f"[{_keys_shown(step)}]" for step in path)


def _keys_shown(step: str) -> str:
    mark: dict[str, object] = msgspec.json.decode(step[2:])
    return ",".join(f"{key}={msgspec.json.encode(value).decode()}" for key, value in sorted(mark.items()))


def _keys_of(served: ServedKind) -> Keys:
    """For custom resources the definition says which lists have keys, for others the table of Kubernetes' patches."""
    if served.definition is None:

        def named(path: Path, items: Sequence[object]) -> Sequence[str]:
            field = path[-1].removeprefix("f:")
            key = "" if field == "taints" else merge_key(field, items)  # one value for those who apply
            return (key,) if key else ()

        return named
    schema = served.definition.schema

    def defined(path: Path, _: Sequence[object]) -> Sequence[str]:
        inner: object = schema
        for step in path:
            part = inner.get("items" if step.startswith("k:") else "properties") if isinstance(inner, dict) else None
            inner = part.get(step[2:]) if step.startswith("f:") and isinstance(part, dict) else part
        key_names = inner.get("x-kubernetes-list-map-keys") if isinstance(inner, dict) else None
        if isinstance(key_names, list):
            return [str(key) for key in key_names]
        return ()

    return defined


def _is_list_of_objects(value: object) -> TypeGuard[list[Raw]]:
    """Whether a value is a list of one object or more."""
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)


def _leaves(value: object, path: Path, keys: Keys, work: Work) -> Iterator[tuple[Path, object]]:
    """Every field that is a value of its own, in the order in which they are written."""
    work.take(len(path))
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            step = (*path, f"f:{name}")
            if step not in _OWN and inner is not None:
                yield from _leaves(inner, step, keys, work)
        return
    if _is_list_of_objects(value):
        by = keys(path, value)
        if by and all(key in item for item in value for key in by):
            for item in value:
                mark = {key: item[key] for key in by}
                yield from _leaves(item, (*path, f"k:{msgspec.json.encode(mark).decode()}"), keys, work)
            return
    yield path, value


def _owners(live: Raw, work: Work) -> _Owned:
    """Fields by who wrote them last."""
    return {one: frozenset(_paths(entry.get("fieldsV1"), (), work)) for one, entry in _entries(live)}


def _entries(live: Raw) -> Iterator[tuple[_Manager, Raw]]:
    found = part(live, "metadata").get("managedFields")
    for entry in found if isinstance(found, list) else ():
        if isinstance(entry, dict) and entry.get("operation") in ("Apply", "Update") and entry.get("manager"):
            applies = entry["operation"] == "Apply"
            version = "" if applies else str(entry.get("apiVersion", ""))
            yield (
                _Manager(str(entry["manager"]), str(entry["operation"]), str(entry.get("subresource", "")), version),
                entry,
            )


def _paths(fields: object, path: Path, work: Work) -> Iterator[Path]:
    work.take(len(path))
    if not isinstance(fields, dict) or not fields:
        if path:
            yield path
        return
    for step, inner in fields.items():
        if step != ".":
            yield from _paths(inner, (*path, str(step)), work)


def _entry(manager: _Manager, fields: Iterable[Path], before: Raw, api_version: str, now: str) -> Raw:
    """Entry of `managedFields` for a manager; the previous entry if its fields are unchanged."""
    tree: Raw = {}
    for path in sorted(fields):
        inner = tree
        for step in path:
            child = inner.setdefault(step, {})
            assert isinstance(child, dict)
            inner = child
    if before.get("fieldsV1") == tree:
        return before
    entry: Raw = {
        "manager": manager.name,
        "operation": manager.operation,
        "apiVersion": manager.version or api_version,
        "time": now,
        "fieldsType": "FieldsV1",
        "fieldsV1": tree,
    }
    if manager.sub:
        return {**entry, "subresource": manager.sub}
    return entry


def _mark(step: str, items: object, work: Work) -> Raw:
    """Values by which an item of a list is identified, checked against all items."""
    work.take(len(step) + (len(items) if isinstance(items, list) else 0))
    values: Raw = msgspec.json.decode(step[2:])
    return values


def _is_marked(item: object, mark: Raw) -> bool:
    return isinstance(item, dict) and all(item.get(key) == value for key, value in mark.items())


def _value(live: object, path: Path, work: Work) -> object:
    for step in path:
        if step.startswith("f:"):
            if not isinstance(live, dict) or step[2:] not in live:
                return _MISSING
            live = live[step[2:]]
        else:
            mark = _mark(step, live, work)
            matching = [item for item in live if _is_marked(item, mark)] if isinstance(live, list) else []
            if not matching:
                return _MISSING
            live = matching[0]
    return live


def _with(value: object, path: Path, leaf: object, work: Work) -> object:
    """A copy with a field put in its place; what is missing on the way is made."""
    if not path:
        return leaf
    step = path[0]
    tail = path[1:]
    if step.startswith("f:"):
        name = step[2:]
        present = value if isinstance(value, dict) else {}
        work.take(len(present))
        return {**present, name: _with(present.get(name), tail, leaf, work)}
    items = value if isinstance(value, list) else []
    mark = _mark(step, items, work)
    if not any(_is_marked(item, mark) for item in items):
        return [*items, _with(mark, tail, leaf, work)]
    return [_with(item, tail, leaf, work) if _is_marked(item, mark) else item for item in items]


def _without(value: object, path: Path, kept: Set[Path], work: Work, above: Path = ()) -> object:
    """A copy without a field; an item of a list goes with the last field of it that has an owner.

    `kept` are the fields that have owners, and all that they are in.
    """
    step = path[0]
    tail = path[1:]
    path_here = (*above, path[0])
    work.take(len(value) if isinstance(value, dict) else 0)
    if step.startswith("f:") and isinstance(value, dict):
        name = step[2:]
        if name not in value:
            return value
        inner = _without(value[name], tail, kept, work, path_here) if tail else _MISSING
        if inner is _MISSING or (inner in ({}, []) and path_here not in kept):
            return {key: entry for key, entry in value.items() if key != name}
        return {**value, name: inner}
    if isinstance(value, list) and step.startswith("k:"):
        mark = _mark(step, value, work)
        owned = path_here in kept
        return [
            _without(item, tail, kept, work, path_here) if _is_marked(item, mark) and tail else item
            for item in value
            if owned or not _is_marked(item, mark)
        ]
    return value
