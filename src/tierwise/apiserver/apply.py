"""Server-side apply: who said which field, and what becomes of an object when it is said again.

A manager owns the fields that it applied last. Fields that it no longer names are removed, unless another manager owns
them as well; a field of another manager with another value is a conflict, unless the request is forced. Ownership is
kept in `metadata.managedFields` for managers who apply; what is written in other ways belongs to no one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from typing import Final

import msgspec

from tierwise.api.codec import Raw, part
from tierwise.api.merge_keys import merge_key
from tierwise.apiserver.failures import ApiFailure, Work, bad_request
from tierwise.apiserver.kinds import ServedKind

__all__ = ["apply_patch"]

Path = tuple[str, ...]
"""Steps to a field, as `fieldsV1` writes them: "f:spec", 'k:{"name":"main"}'."""

Keys = Callable[[Path, Sequence[object]], Sequence[str]]
"""The fields that tell the items of the list at a path apart; none where the list is one value."""

_OWN: Final = frozenset({("f:apiVersion",), ("f:kind",), ("f:metadata", "f:name"), ("f:metadata", "f:namespace")})
_MISSING: Final = object()


def apply_patch(
    served: ServedKind, live: Raw | None, patch: Raw, *, manager: str, force: bool, api_version: str, now: str
) -> Raw:
    """The object after a manager has applied its intent; ApiFailure where that is in conflict with others'."""
    if not manager:
        raise bad_request("fieldManager is required for apply patch")
    if part(patch, "metadata").get("managedFields"):
        raise bad_request("metadata.managedFields must be nil")
    keys, work = _keys_of(served), Work()
    applied = dict(_leaves(patch, (), keys, work))
    owners = _owners(live or {}, work)
    other_owners = {name: fields for name, fields in owners.items() if name != manager}
    disputed = {
        name: {path for path in fields if path in applied and _value(live, path, work) not in (applied[path], _MISSING)}
        for name, fields in other_owners.items()
    }
    if not force and any(disputed.values()):
        raise _conflict(disputed)
    other_owners = {name: fields - disputed[name] for name, fields in other_owners.items()}
    owned = frozenset(applied).union(*other_owners.values())
    around = {path[:length] for path in owned for length in range(1, len(path) + 1)}
    result: object = dict(live) if live is not None else {}
    for path in sorted(owners.get(manager, frozenset()) - owned, key=len, reverse=True):
        result = _without(result, path, around, work)
    for path, value in applied.items():
        result = _with(result, path, value, work)
    assert isinstance(result, dict)
    entries = [
        _entry(name, fields, _entry_of(live, name), api_version, now) for name, fields in other_owners.items() if fields
    ]
    entries.append(_entry(manager, frozenset(applied), _entry_of(live, manager), api_version, now))
    return {**result, "metadata": {**part(result, "metadata"), "managedFields": entries}}


def _conflict(disputed: Mapping[str, set[Path]]) -> ApiFailure:
    causes: list[Raw] = [
        {"reason": "FieldManagerConflict", "message": f'conflict with "{name}"', "field": _shown(path)}
        for name, paths in disputed.items()
        for path in sorted(paths)
    ]
    lines = "\n".join(f"{cause['message']}: {cause['field']}" for cause in causes)
    word = "conflict" if len(causes) == 1 else "conflicts"
    text = f"Apply failed with {len(causes)} {word}: {lines}"
    return ApiFailure(409, "Conflict", text, {"causes": causes})


def _shown(path: Path) -> str:
    return "".join(f".{step[2:]}" if step.startswith("f:") else f"[{step[2:]}]" for step in path)


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
        return [str(key) for key in key_names] if isinstance(key_names, list) else ()

    return defined


def _leaves(value: object, path: Path, keys: Keys, work: Work) -> Iterator[tuple[Path, object]]:
    """Every field that is a value of its own, in the order in which they are written."""
    work.take(len(path))
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            step = (*path, f"f:{name}")
            if step not in _OWN and inner is not None:
                yield from _leaves(inner, step, keys, work)
        return
    if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
        by = keys(path, value)
        if by and all(key in item for item in value for key in by):
            for item in value:
                mark = {key: item[key] for key in by}
                yield from _leaves(item, (*path, f"k:{msgspec.json.encode(mark).decode()}"), keys, work)
            return
    yield path, value


def _owners(live: Raw, work: Work) -> dict[str, frozenset[Path]]:
    """Fields by the manager who applied them last."""
    return {str(entry["manager"]): frozenset(_paths(entry.get("fieldsV1"), (), work)) for entry in _applied(live)}


def _applied(live: Raw) -> Iterator[Raw]:
    entries = part(live, "metadata").get("managedFields")
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and entry.get("operation") == "Apply" and entry.get("manager"):
            yield entry


def _entry_of(live: Raw | None, manager: str) -> Raw:
    return next((entry for entry in _applied(live or {}) if entry["manager"] == manager), {})


def _paths(fields: object, path: Path, work: Work) -> Iterator[Path]:
    work.take(len(path))
    if not isinstance(fields, dict) or not fields:
        if path:
            yield path
        return
    for step, inner in fields.items():
        if step != ".":
            yield from _paths(inner, (*path, str(step)), work)


def _entry(manager: str, fields: Iterable[Path], before: Raw, api_version: str, now: str) -> Raw:
    """What `managedFields` says of a manager; as it was where nothing has changed."""
    tree: Raw = {}
    for path in sorted(fields):
        inner = tree
        for step in path:
            child = inner.setdefault(step, {})
            assert isinstance(child, dict)
            inner = child
    if before.get("fieldsV1") == tree:
        return before
    return {
        "manager": manager,
        "operation": "Apply",
        "apiVersion": api_version,
        "time": now,
        "fieldsType": "FieldsV1",
        "fieldsV1": tree,
    }


def _mark(step: str, items: object, work: Work) -> Raw:
    """What tells an item of a list apart, for a search among all of them."""
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
    step, tail = path[0], path[1:]
    if step.startswith("f:"):
        name, present = step[2:], value if isinstance(value, dict) else {}
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
    step, tail, path_here = path[0], path[1:], (*above, path[0])
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
        mark, owned = _mark(step, value, work), path_here in kept
        return [
            _without(item, tail, kept, work, path_here) if _is_marked(item, mark) and tail else item
            for item in value
            if owned or not _is_marked(item, mark)
        ]
    return value
