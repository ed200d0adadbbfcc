"""OpenAPI documents: what kinds look like, for `kubectl explain`, and what the server checks, for `kubectl apply`.

Custom resources have the schemas of their definitions, Kubernetes' own kinds the fields and types of `protobuf`, and
other kinds are open. Made when asked for, and kept.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final

import msgspec

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.apiserver.kinds import KINDS, ServedKind
from tierwise.apiserver.protobuf import message_of, messages

__all__ = ["V2_JSON", "V2_PROTOBUF", "document", "index"]

_META: Final = "meta.ObjectMeta"
_PREFIX: Final = "#/components/schemas/"
_SCALARS: Final[Mapping[str, Raw]] = {
    "string": {"type": "string"},
    "bytes": {"type": "string", "format": "byte"},
    "bool": {"type": "boolean"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "double": {"type": "number"},
    "quantity": {"type": "string"},
    "time": {"type": "string", "format": "date-time"},
    "micro-time": {"type": "string", "format": "date-time"},
    "int-or-string": {"x-kubernetes-int-or-string": True, "oneOf": [{"type": "integer"}, {"type": "string"}]},
    "raw": {"type": "object"},
}
_TITLE: Final = {"title": "tierwise", "version": "v1"}

V2_JSON: Final[Raw] = {"swagger": "2.0", "info": _TITLE, "paths": {}}
"""Old clients read this one; without schemas they leave checks to the server."""

V2_PROTOBUF: Final = b"\x0a\x032.0\x12\x0e\x0a\x08tierwise\x12\x02v1\x42\x00"
"""The same as a message: swagger (1), info (2) with title (1) and version (2), paths (8)."""


def index() -> Raw:
    """The answer at /openapi/v3: where the document of each version is."""
    documents: dict[str, Raw] = {}
    for group, version in dict.fromkeys((served.group, version) for served in KINDS for version in served.versions):
        path = f"apis/{group}/{version}" if group else f"api/{version}"
        documents[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={_mark()}"}
    return {"paths": documents}


@cache
def _mark() -> str:
    return hashlib.sha256(repr(KINDS).encode()).hexdigest()[:32].upper()


@cache
def document(group: str, version: str) -> bytes | None:
    """The document of one version; None where there is no such version."""
    served_kinds = [served for served in KINDS if served.group == group and version in served.versions]
    if not served_kinds:
        return None
    schemas: dict[str, Raw] = {}
    paths: dict[str, Raw] = {}
    for served in served_kinds:
        gvk: Raw = {"group": group, "version": version, "kind": served.kind}
        name = f"{group or 'core'}.{version}.{served.kind}"
        schemas[name] = {**_schema(served), "x-kubernetes-group-version-kind": [gvk]}
        paths |= _paths(served, version, gvk, name)
    schemas |= dict(_needed(schemas))
    content = {"openapi": "3.0.0", "info": _TITLE, "paths": paths, "components": {"schemas": schemas}}
    return msgspec.json.encode(content)


def _schema(served: ServedKind) -> Raw:
    if served.definition is not None:
        schema = served.definition.schema
        fields = schema["properties"]
        assert isinstance(fields, dict)
        return schema | {"properties": {**fields, "metadata": _reference(_META, "What every object has.")}}
    record = codec.KINDS.get((served.group, served.kind))
    about = (record.__doc__ or "") if record is not None else f"A {served.kind}."
    text = {"type": "string"}
    shared: Raw = {"apiVersion": text, "kind": text}
    message = message_of(served.group, served.kind)
    if message is not None:
        return {"type": "object", "description": about, "properties": shared | _properties(message)}
    anything: Raw = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    shared |= {"metadata": _reference(_META, "What every object has."), "spec": anything, "status": anything}
    return {"type": "object", "description": about, "properties": shared, "x-kubernetes-preserve-unknown-fields": True}


def _reference(name: str, about: str = "") -> Raw:
    return {"description": about, "allOf": [{"$ref": f"{_PREFIX}{name}"}]}


def _needed(schemas: dict[str, Raw]) -> Iterator[tuple[str, Raw]]:
    """The types that schemas refer to, and those that these refer to."""
    names: set[str] = set()
    waiting = [name for schema in schemas.values() for name in _references(schema)]
    while waiting:
        name = waiting.pop()
        if name not in names:
            names.add(name)
            schema: Raw = {"type": "object", "properties": _properties(name)}
            yield name, schema
            waiting += _references(schema)


def _references(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        target = value.get("$ref")
        if isinstance(target, str):
            yield target.removeprefix(_PREFIX)
        for inner in value.values():
            yield from _references(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _references(inner)


def _properties(message: str) -> Raw:
    """The fields of a message; those of an inline one are among them."""
    properties: Raw = {}
    for field in messages()[message].values():
        if field.inline:
            properties |= _properties(field.type)
            continue
        inner: Raw = _reference(field.type) if field.type in messages() else dict(_SCALARS.get(field.type, {}))
        if field.many:
            inner = {"type": "array", "items": inner}
        elif field.mapped:
            inner = {"type": "object", "additionalProperties": inner}
        properties[field.name] = inner
    return properties


def _paths(served: ServedKind, version: str, gvk: Raw, name: str) -> dict[str, Raw]:
    """The paths of a kind with their methods; a client looks at the parameters of the last one."""
    root = f"/apis/{served.group}/{version}" if served.group else f"/api/{version}"
    inside = "/namespaces/{namespace}" if served.namespaced else ""
    body = {"content": {"application/json": {"schema": {"$ref": f"{_PREFIX}{name}"}}}}
    parameters = [
        {"name": word, "in": "query", "schema": {"type": "string"}}
        for word in ("dryRun", "fieldManager", "fieldValidation", "force")
    ]

    def operation(action: str, *, writes: bool = False) -> Raw:
        described: Raw = {"x-kubernetes-action": action, "x-kubernetes-group-version-kind": gvk}
        answer = {"responses": {"200": {"description": "OK", **body}}}
        return described | answer | ({"parameters": parameters} if writes else {})

    many: Raw = {"get": operation("list"), "post": operation("post", writes=True)}
    object_paths: Raw = {
        "get": operation("get"),
        "put": operation("put", writes=True),
        "patch": operation("patch", writes=True),
        "delete": operation("delete", writes=True),
    }
    return {f"{root}{inside}/{served.plural}": many, f"{root}{inside}/{served.plural}/{{name}}": object_paths}
