"""Patches as Kubernetes has them: JSON patch, merge patch, strategic merge patch. Pure functions from object to object.

A strategic merge patch merges lists whose items have a key: containers by name, conditions by type. Which lists those
are is said by `api.merge_keys`.

What a patch may copy and compare is bounded (`bounds`): a short one could ask for more than a machine has.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

import msgspec

from tierwise.api.codec import Raw
from tierwise.api.core import read_number
from tierwise.api.merge_keys import merge_key
from tierwise.api.yaml_events import DEEPEST
from tierwise.apiserver.failures import MOST_OPERATIONS, ApiFailure, Work, bad_request, too_large

__all__ = ["json_patch", "merge_patch", "strategic_patch"]

Json = object


def merge_patch(raw: Json, patch: Json) -> Json:
    """RFC 7386: objects merge, null removes, anything else replaces."""
    if not isinstance(patch, dict):
        return patch
    result = dict(raw) if isinstance(raw, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merge_patch(result.get(name), value)
    return result


# JSON patch, RFC 6902.


def json_patch(raw: Json, operations: Json) -> Json:
    """The operations one after the other; 422 where one of them cannot be carried out."""
    if not isinstance(operations, list):
        raise bad_request("a JSON patch is a list of operations")
    if len(operations) > MOST_OPERATIONS:
        raise too_large(
            f"the allowed maximum operations in a JSON patch is {MOST_OPERATIONS}, and this one has {len(operations)}"
        )
    work = Work()
    for operation in operations:
        if not isinstance(operation, dict) or not isinstance(operation.get("path"), str):
            raise bad_request("an operation of a JSON patch has a path")
        raw = _operate(raw, operation, work)
    return raw


def _operate(raw: Json, operation: Raw, work: Work) -> Json:
    steps = _steps(str(operation["path"]))
    kind = operation.get("op")
    value = operation.get("value")
    if kind in ("move", "copy"):
        source = _steps(str(operation.get("from", "")))
        value = _at(raw, source)
        if kind == "move":
            raw = _edited(raw, source, work, remove=True)
        else:
            work.copy(value)
    match kind:
        case "add" | "move" | "copy":
            return _edited(raw, steps, work, value, insert=True)
        case "replace":
            _at(raw, steps)
            return _edited(raw, steps, work, value)
        case "remove":
            _at(raw, steps)
            return _edited(raw, steps, work, remove=True)
        case "test":
            if _at(raw, steps) != value:
                raise _impossible(f"testing value {operation['path']} failed")
            return raw
        case _:
            raise bad_request(f'"{kind}" is not an operation of a JSON patch')


def _steps(path: str) -> list[str]:
    if path and not path.startswith("/"):
        raise bad_request(f'the path "{path[:300]}" does not begin with "/"')
    if path.count("/") > DEEPEST:
        raise bad_request(f"a path leads more than {DEEPEST} deep")
    return [step.replace("~1", "/").replace("~0", "~") for step in path.split("/")[1:]]


def _at(raw: Json, steps: Sequence[str]) -> Json:
    for step in steps:
        if isinstance(raw, dict) and step in raw:
            raw = raw[step]
        elif isinstance(raw, list) and (index := _index(step)) is not None and index < len(raw):
            raw = raw[index]
        else:
            raise _impossible(f"there is nothing at /{'/'.join(steps)}")
    return raw


def _edited(
    raw: Json, steps: Sequence[str], work: Work, value: Json = None, *, insert: bool = False, remove: bool = False
) -> Json:
    """A copy of raw with value put, inserted (insert, in lists) or removed (remove) at the place that steps lead to.

    It fails where a list index does not exist or the place is inside a plain value; removing an absent key of a map
    changes nothing. Without steps it returns value. It takes work for each entry it copies and leaves raw as it is.
    """
    if not steps:
        return value
    work.take(len(raw) if isinstance(raw, dict | list) else 0)
    step = steps[0]
    tail = steps[1:]
    if isinstance(raw, dict):
        if tail:
            return {**raw, step: _edited(_at(raw, [step]), tail, work, value, insert=insert, remove=remove)}
        return {name: inner for name, inner in raw.items() if name != step} | ({} if remove else {step: value})
    if isinstance(raw, list):
        return _edited_list(raw, steps, work, value, insert=insert, remove=remove)
    raise _impossible(f"there is nothing at {step}")


def _edited_list(
    raw: list[Json], steps: Sequence[str], work: Work, value: Json, *, insert: bool, remove: bool
) -> list[Json]:
    """A copy of a list, edited as `_edited` says; fails where the first step is not an index of it."""
    step = steps[0]
    tail = steps[1:]
    end = step == "-" and insert and not tail
    index = len(raw) if end else _index(step)
    if index is None or index >= len(raw) + (insert and not tail):
        raise _impossible(f"{step[:300]} is not an index of the list")
    if tail:
        inner = _edited(raw[index], tail, work, value, insert=insert, remove=remove)
        return [*raw[:index], inner, *raw[index + 1 :]]
    return [*raw[:index], *([] if remove else [value]), *raw[index + (not insert) :]]


def _index(step: str) -> int | None:
    """The place in a list that a step of a path names; None where it names none."""
    return None if step.startswith("-") else read_number(step)


def _impossible(message: str) -> ApiFailure:
    return ApiFailure(422, "Invalid", f"the server rejected our request due to an error in our request: {message}")


# Strategic merge patch.


_SETS: Final = frozenset({"finalizers"})
_DIRECTIVE: Final = "$patch"
_REMOVED: Final = "$deleteFromPrimitiveList/"
_ORDER: Final = "$setElementOrder/"
_RETAINED: Final = "$retainKeys"


def _retained(raw: Raw, patch: Raw, work: Work) -> Raw:
    """A copy of an object with the fields that a patch wants to retain, all of them if it does not say."""
    if _RETAINED not in patch:
        return dict(raw)
    retained = _listed(patch, _RETAINED)
    work.take((len(raw) + len(patch)) * len(retained))
    if any(name not in retained for name in patch if not name.startswith("$")):
        raise _impossible(f"{_RETAINED} does not name all fields of the patch")
    return {name: value for name, value in raw.items() if name in retained}


def strategic_patch(raw: Raw, patch: Raw, work: Work | None = None) -> Raw:
    """The object with a patch of Kubernetes' own form."""
    work = work or Work()
    directive = _directive(patch)
    if directive == "replace":
        return {name: value for name, value in patch.items() if name != _DIRECTIVE}
    if directive == "delete":
        return {}
    result = _retained(raw, patch, work)
    for name in patch:
        if name.startswith(_REMOVED):
            field = name.removeprefix(_REMOVED)
            dropped = _listed(patch, name)
            items = _items(result, field)
            work.take(len(items) * len(dropped))
            result[field] = [item for item in items if item not in dropped]
        elif not name.startswith("$"):
            _patch_field(result, name, patch[name], work)
    _put_in_order(result, raw, patch)
    return result


def _patch_field(result: Raw, name: str, value: object, work: Work) -> None:
    """Change one field of an object: None removes it, objects are patched, lists are merged."""
    if value is None:
        result.pop(name, None)
    elif isinstance(value, dict):
        current = result.get(name)
        if _directive(value) == "delete":
            result.pop(name, None)
        else:
            result[name] = strategic_patch(current if isinstance(current, dict) else {}, value, work)
    elif isinstance(value, list):
        result[name] = _merged(name, _items(result, name), value, work)
    else:
        result[name] = value


def _put_in_order(result: Raw, raw: Raw, patch: Raw) -> None:
    """Put the lists of a patched object into the orders that the patch asks for; `raw` is the object before it."""
    for name in patch:
        if name.startswith(_ORDER):
            order = _listed(patch, name)
            field = name.removeprefix(_ORDER)
            if field in result:
                result[field] = _ordered(field, _items(result, field), order, _items(raw, field))


def _directive(patch: Raw) -> str:
    """Directive of a strategic patch, "" without one. Raises 400 for an unknown one, where Kubernetes answers 500."""
    if _DIRECTIVE not in patch:
        return ""
    directive = patch[_DIRECTIVE]
    if directive not in ("replace", "delete"):
        raise bad_request(f"unknown patch type: {str(directive)[:100]}")
    return str(directive)


def _listed(patch: Raw, name: str) -> list[Json]:
    items = patch[name]
    if not isinstance(items, list):
        raise bad_request(f"invalid patch format of {name[:100]}: it is no list")
    return items


def _items(raw: Raw, field: str) -> list[Json]:
    items = raw.get(field)
    return list(items) if isinstance(items, list) else []


def _merged(field: str, current: list[Json], patch: list[Json], work: Work) -> list[Json]:
    if field in _SETS:
        work.take(len(current) * len(patch))
        return [*current, *(item for item in patch if item not in current)]
    key = merge_key(field, [*current, *patch])
    replaced = [item for item in patch if not (isinstance(item, dict) and _directive(item) == "replace")]
    if not key and any(isinstance(item, dict) and _directive(item) == "delete" for item in replaced):
        raise bad_request(f"items of {field[:100]} have no key by which one could be deleted")
    if not key or len(replaced) < len(patch) or any(not isinstance(item, dict) for item in (*current, *patch)):
        return replaced
    by_mark = {_mark(item, key): item for item in current}
    for item in replaced:
        assert isinstance(item, dict)
        place = _mark(item, key)
        if _directive(item) == "delete":
            by_mark.pop(place, None)
        else:
            before = by_mark.get(place)
            by_mark[place] = strategic_patch(before if isinstance(before, dict) else {}, item, work)
    return list(by_mark.values())


def _mark(item: Json, key: str) -> str:
    """Key that identifies an item of a list; taints of one key differ in their effect."""
    if not isinstance(item, dict):
        return str(item)
    return msgspec.json.encode([item.get(key), item.get("effect") if key == "key" else None]).decode()


def _ordered(field: str, items: list[Json], order: list[Json], before: list[Json]) -> list[Json]:
    """Return the items of a list in the order that a patch asks for.

    `before` is the list as it was before the patch. An item that the patch does not name goes before the first named
    one that followed it there; items that the patch adds follow no other.
    """
    key = merge_key(field, [*items, *order])

    def mark(item: Json) -> str:
        return _mark(item, key) if key else str(item)

    rank = {mark(entry): number for number, entry in enumerate(order)}
    place = {mark(item): number for number, item in enumerate(before)}
    named = sorted((item for item in items if mark(item) in rank), key=lambda item: rank[mark(item)])
    unnamed = deque(item for item in items if mark(item) not in rank)
    result = []
    for item in named:
        follows = place.get(mark(item), -1)
        while unnamed and place.get(mark(unnamed[0]), len(before)) < follows:
            result.append(unnamed.popleft())
        result.append(item)
    return [*result, *unnamed]
