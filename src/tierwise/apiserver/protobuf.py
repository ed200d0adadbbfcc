"""Kubernetes' own types: protobuf bodies as the JSON that they stand for, and fields that a kind does not have.

The numbers and types of fields are in `kubernetes_types.txt`, which `tools/kubernetes_types.py` makes from Kubernetes'
definitions. Protobuf, which some commands of kubectl send, is only read: whoever sends it takes
JSON for an answer.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Final, NamedTuple

import msgspec

from tierwise.api.codec import Raw
from tierwise.api.core import format_micro_time, format_time
from tierwise.apiserver.failures import bad_request

__all__ = ["by_name", "decode", "message_of", "messages", "unknown_fields"]

_MAGIC: Final = b"k8s\x00"
_DEEPEST: Final = 64
_WIDEST: Final = 2**63


class Field(NamedTuple):
    """A field of a message: how JSON calls it, and what is in it."""

    name: str
    type: str  # a scalar, a special type, or a message
    many: bool  # a list
    mapped: bool  # a map of texts to it
    omitted: bool  # left out when zero
    inline: bool  # its fields stand in place of it


def decode(body: bytes) -> Raw:
    """The object in a body; 400 where it cannot be read."""
    try:
        return _decode(body)
    except (IndexError, ValueError, struct.error, msgspec.DecodeError) as error:
        raise bad_request(f"the body is not the protobuf of an object: {error}") from None


def _decode(body: bytes) -> Raw:
    if not body.startswith(_MAGIC):
        raise ValueError("it does not begin as one")
    envelope = dict(_fields(memoryview(body)[len(_MAGIC) :]))
    about = {number: _text(value) for number, value in _fields(_bytes(envelope.get(1, b"")))}
    api_version = about.get(1, "")
    kind = about.get(2, "")
    group = "meta" if kind == "DeleteOptions" else api_version.rpartition("/")[0]
    message = message_of(group, kind)
    if message is None:
        raise ValueError(f"the fields of {api_version} {kind} are not known: send JSON")
    return {"apiVersion": api_version, "kind": kind, **_message(message, _bytes(envelope.get(2, b"")), 0)}


def message_of(group: str, kind: str) -> str | None:
    """The message of a kind."""
    return _read()[0].get(f"{group}/{kind}")


def messages() -> dict[str, dict[int, Field]]:
    """Every message that is known, with its fields by number."""
    return _read()[1]


def unknown_fields(value: object, message: str, path: str = "") -> Iterator[str]:
    """Where JSON has fields that a message does not have."""
    fields = by_name(message)
    for name, inner in value.items() if isinstance(value, dict) else ():
        place = f"{path}.{name}" if path else str(name)
        field = fields.get(name)
        if field is None:
            yield place
        elif field.type in messages():
            several = inner.items() if field.mapped and isinstance(inner, dict) else ()
            listed = enumerate(inner) if field.many and isinstance(inner, list) else ()
            for key, entry in several:
                yield from unknown_fields(entry, field.type, f"{place}.{key}")
            for index, entry in listed:
                yield from unknown_fields(entry, field.type, f"{place}[{index}]")
            if not field.mapped and not field.many:
                yield from unknown_fields(inner, field.type, place)


@cache
def by_name(message: str) -> dict[str, Field]:
    """The fields that JSON has."""
    fields: dict[str, Field] = {}
    for field in messages()[message].values():
        fields |= by_name(field.type) if field.inline else {field.name: field}
    return fields


@cache
def _read() -> tuple[dict[str, str], dict[str, dict[int, Field]]]:
    kinds: dict[str, str] = {}
    messages_read: dict[str, dict[int, Field]] = {}
    for line in files("tierwise.apiserver").joinpath("kubernetes_types.txt").read_text(encoding="ascii").splitlines():
        name, colon, fields = line.partition(": ")
        if colon or line.endswith(":"):
            messages_read[name.removesuffix(":")] = dict(map(_field, fields.split()))
        else:
            key, _, kinds[key] = line.partition(" ")
    return kinds, messages_read


def _field(text: str) -> tuple[int, Field]:
    name, _, spec = text.partition("=")
    number, _, kind = spec.partition(":")
    bare = kind.rstrip("~^")
    inner = bare.removeprefix("[]").removeprefix("{}")
    marks = (bare.startswith("[]"), bare.startswith("{}"), kind.endswith("~"), kind.endswith("^"))
    return int(number), Field(name, inner, *marks)


def _message(name: str, data: memoryview, depth: int) -> Raw:
    if depth > _DEEPEST:
        raise ValueError("nested too deeply")
    fields = messages()[name]
    result: Raw = {}
    for number, value in _fields(data):
        field = fields.get(number)
        if field is None:
            continue  # of a later release of Kubernetes
        if field.mapped:
            entry = dict(_fields(_bytes(value)))
            table = result.setdefault(field.name, {})
            assert isinstance(table, dict)
            table[_text(entry.get(1, b""))] = _value(field.type, entry.get(2, b""), depth)
            continue
        content = _value(field.type, value, depth)
        if field.inline and isinstance(content, dict):
            result |= content
        elif field.many:
            listed = result.setdefault(field.name, [])
            assert isinstance(listed, list)
            listed.append(content)
        elif content is not None and not (field.omitted and content in ("", 0, False, {})):
            result[field.name] = content
    return result


def _value(kind: str, value: int | memoryview | bytes, depth: int) -> object:
    match kind:
        case "string":
            return _text(value)
        case "bool":
            return bool(value)
        case "int32" | "int64":
            number = value if isinstance(value, int) else 0
            return number - 2 * _WIDEST if number >= _WIDEST else number
        case "bytes":
            return base64.b64encode(_bytes(value)).decode()
        case "double":
            return struct.unpack("<d", struct.pack("<Q", value))[0]
        case "quantity":
            return next((_text(text) for _, text in _fields(_bytes(value))), "0")
        case "time" | "micro-time":
            parts = {number: part for number, part in _fields(_bytes(value)) if isinstance(part, int)}
            if not parts.get(1):
                return None
            seconds = parts[1] - (2 * _WIDEST if parts[1] >= _WIDEST else 0)
            if kind == "time":
                return format_time(seconds)
            return format_micro_time(seconds + parts.get(2, 0) / 1e9)
        case "int-or-string":
            either = dict(_fields(_bytes(value)))
            if either.get(1):
                return _value("string", either.get(3, b""), depth)
            return _value("int32", either.get(2, 0), depth)
        case "raw":
            inner = dict(_fields(_bytes(value)))
            return msgspec.json.decode(_bytes(inner.get(1, b"{}")))
        case _:
            if kind in messages():
                return _message(kind, _bytes(value), depth + 1)
            return None


def _bytes(value: int | memoryview | bytes) -> memoryview:
    if isinstance(value, int):
        raise ValueError("a number where a message is expected")
    return memoryview(value)


def _text(value: int | memoryview | bytes) -> str:
    return str(_bytes(value), "utf-8")


def _fields(data: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Number and value of each field, as they come."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number = key >> 3
        wire = key & 7
        if wire == 0:
            value, at = _varint(data, at)
            yield number, value
        elif wire == 2:
            size, at = _varint(data, at)
            if at + size > len(data):
                raise ValueError("it ends too early")
            yield number, data[at : at + size]
            at += size
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
            yield number, int.from_bytes(data[at : at + size], "little")
            at += size
        else:
            raise ValueError(f"a field of an unknown form ({wire})")


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        byte = data[at]
        at += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result & (2 * _WIDEST - 1), at
        shift += 7
        if shift > 63:
            raise ValueError("a number of more than 64 bits")
