"""Defaults that the schema of a custom resource states, added as a real API server adds them.

Outside in: an object gets the defaults of the properties that it lacks, then those inside its values. A null where the
schema does not allow one counts as missing. Of an object that is not there nothing is made, unless it has a default
itself.
"""

from __future__ import annotations

from copy import deepcopy

from tierwise.api.codec import Raw

__all__ = ["with_defaults"]


def with_defaults(schema: Raw, raw: Raw) -> Raw:
    """The object with the defaults of its schema; what it says itself stays. The given object is not changed."""
    found = _with(schema, raw)
    assert isinstance(found, dict)
    return found


def _with(schema: Raw, value: object) -> object:
    if isinstance(value, list):
        items = schema.get("items")
        return [_with(items, one) for one in value] if isinstance(items, dict) else value
    if not isinstance(value, dict):
        return value
    properties, others = schema.get("properties"), schema.get("additionalProperties")
    known: Raw = properties if isinstance(properties, dict) else {}
    result = dict(value)
    for name, inner in known.items():
        if not isinstance(inner, dict) or "default" not in inner:
            continue
        if name not in result or (result[name] is None and not inner.get("nullable")):
            result[name] = deepcopy(inner["default"])
    for name, one in result.items():
        inner = known.get(name, others)
        if isinstance(inner, dict):
            result[name] = _with(inner, one)
    return result
