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
    filled = _with(schema, raw)
    assert isinstance(filled, dict)
    return filled


def _with(schema: Raw, value: object) -> object:
    if isinstance(value, list):
        items = schema.get("items")
        if isinstance(items, dict):
            return [_with(items, item) for item in value]
        return value
    if not isinstance(value, dict):
        return value
    properties = schema.get("properties")
    additional = schema.get("additionalProperties")
    schemas: Raw = properties if isinstance(properties, dict) else {}
    result = dict(value)
    for name, inner in schemas.items():
        if not isinstance(inner, dict) or "default" not in inner:
            continue
        if name not in result or (result[name] is None and not inner.get("nullable")):
            result[name] = deepcopy(inner["default"])
    for name, inner_value in result.items():
        inner = schemas.get(name, additional)
        if isinstance(inner, dict):
            result[name] = _with(inner, inner_value)
    return result
