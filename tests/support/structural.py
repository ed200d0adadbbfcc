"""A slow, plain reading of structural schemas: what the API server would refuse in an object, and what drop."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

__all__ = ["complaints"]

_TYPES: dict[str, Any] = {
    "string": (str,),
    "integer": (int,),
    "boolean": (bool,),
    "object": (dict,),
    "array": (list,),
}


def complaints(schema: dict[str, Any], value: Any, path: str = "") -> Iterator[str]:
    """Every field of a value that a schema has no place for."""
    if schema.get("x-kubernetes-int-or-string"):
        if isinstance(value, bool) or not isinstance(value, int | str):
            yield f"{path}: neither a number nor a text"
        return
    kind = schema.get("type")
    if kind is None:
        return
    if not isinstance(value, _TYPES[kind]) or (kind == "integer" and isinstance(value, bool)):
        yield f"{path}: no {kind}"
    elif kind == "object":
        yield from _of_object(schema, value, path)
    elif kind == "array":
        if len(value) < schema.get("minItems", 0):
            yield f"{path}: too few items"
        for index, item in enumerate(value):
            yield from complaints(schema["items"], item, f"{path}[{index}]")
    else:
        if value not in schema.get("enum", [value]):
            yield f"{path}: {value} is not allowed"
        if kind == "integer" and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
            yield f"{path}: {value} is out of range"


def _of_object(schema: dict[str, Any], value: dict[str, Any], path: str) -> Iterator[str]:
    known = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{path}.{name}: missing"
    for name, inner in value.items():
        if name in known:
            yield from complaints(known[name], inner, f"{path}.{name}")
        elif "additionalProperties" in schema:
            yield from complaints(schema["additionalProperties"], inner, f"{path}.{name}")
        elif not schema.get("x-kubernetes-preserve-unknown-fields") and (known or path != ".metadata"):
            yield f"{path}.{name}: dropped"
