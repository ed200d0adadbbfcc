"""Answers of the API server into records: lists page by page, watch events line by line.

Pods, nodes and slices of devices come in tens of thousands and are read without their manifests ever being made; of
every other kind the manifest is kept, because controllers put it back changed.
"""

from __future__ import annotations

import logging
import re
from typing import Final, Generic, TypeVar

import msgspec

from tierwise.api import codec
from tierwise.api.codec import Object, Raw
from tierwise.api.core import Node, Pod
from tierwise.api.errors import InputError
from tierwise.api.kueue import GROUP, Workload
from tierwise.api.resource import ResourceSlice
from tierwise.kube.errors import refusal
from tierwise.kube.kinds import Resource

__all__ = ["LEAN", "Entry", "Event", "decoded", "event", "page", "read"]

log = logging.getLogger(__name__)

LEAN: Final[dict[tuple[str, str], type[Object]]] = {
    ("", "Pod"): Pod,
    ("", "Node"): Node,
    ("resource.k8s.io", "ResourceSlice"): ResourceSlice,
    (GROUP, "Workload"): Workload,  # with the templates of its pods, of which nothing is read
}
"""Kinds that are kept without their manifests."""

Entry = tuple[Object, Raw | None]


class ListPage(msgspec.Struct, frozen=True):
    """A part of a list."""

    version: str
    rest: str  # where the next page goes on; "" at the end
    entries: list[Entry]


class Event(msgspec.Struct, frozen=True):
    """A line of a watch: the type of event and its object; a bookmark has no entry."""

    type: str
    version: str
    entry: Entry | None


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _List(msgspec.Struct):
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)
    items: list[msgspec.Raw] | None = None


T = TypeVar("T")


class _Line(msgspec.Struct, Generic[T]):
    type: str
    object: T


class _Marked(msgspec.Struct):
    metadata: _ListMeta


_DEEPEST: Final = 256
"""How deeply the values of an object are nested at most; an API server takes 10,000 levels, and no decoder of ours."""
_ODD: Final = 400
"""How deeply an object may be nested: one rule, whatever the Python; from 3.14 on decoders go as far as the stack."""
_CUT: Final = b'"tierwise.io: nested too deeply"'
_TOKEN: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{}\[\]]', re.DOTALL)

_LIST: Final = msgspec.json.Decoder(_List)
_LINE: Final = msgspec.json.Decoder(_Line[msgspec.Raw])
_LEAN_LINE: Final = {kind: msgspec.json.Decoder(_Line[record]) for kind, record in LEAN.items()}  # type: ignore[valid-type]
_CHANGES: Final = frozenset({"ADDED", "MODIFIED", "DELETED"})
_MARK: Final = msgspec.json.Decoder(_Marked)


def decoded(decoder: msgspec.json.Decoder[T], data: bytes) -> T:
    """An answer with several objects, of which one that is nested too deeply must not hide the others: it is cut."""
    try:
        return decoder.decode(data)
    except RecursionError:
        return decoder.decode(_cut(data))


def _cut(data: bytes) -> bytes:
    """JSON with a word instead of every value that lies too deep; without recursion, for that is what fails."""
    pieces: list[bytes] = []
    depth = begun = 0  # where the part begins that is kept
    for token in _TOKEN.finditer(data):
        if token[0] in (b"{", b"["):
            depth += 1
            if depth == _DEEPEST:
                pieces += (data[begun : token.start()], _CUT)
        elif token[0] in (b"}", b"]"):
            if depth == _DEEPEST:
                begun = token.end()
            depth -= 1
    return b"".join((*pieces, data[begun:]))


def _is_odd(data: bytes) -> bool:
    """Whether an object is nested more deeply than any should be; most have too few brackets for that."""
    if data.count(b"{") + data.count(b"[") <= _ODD:
        return False
    depth = deepest = 0
    for token in _TOKEN.finditer(data):
        depth += (token[0] in (b"{", b"[")) - (token[0] in (b"}", b"]"))
        deepest = max(deepest, depth)
    return deepest > _ODD


def page(resource: Resource, data: bytes) -> ListPage:
    """A page of a list; objects that cannot be read are named in the log and left out."""
    listing = decoded(_LIST, data)
    if not listing.metadata.resource_version:
        raise ValueError("a list without a version")
    entries = (read(resource, item) for item in listing.items or ())
    records = [entry for entry in entries if entry is not None]
    return ListPage(listing.metadata.resource_version, listing.metadata.continue_, records)


def event(resource: Resource, line: bytes) -> Event:
    """One watch event; ApiError where the server says that it cannot go on (410: too old a version)."""
    lean = _LEAN_LINE.get((resource.group, resource.kind))
    return (lean is not None and _lean_event(lean, line)) or _event(resource, line)


def _lean_event(decoder: msgspec.json.Decoder[_Line[Object]], line: bytes) -> Event | None:
    """A change of an object that is read without its manifest, in one pass; None where that does not do."""
    try:
        event = decoder.decode(line)
        record = codec.accepted(event.object) if event.type in _CHANGES else None
    except Exception:  # noqa: BLE001 - the long way says what is wrong
        return None
    if record is None or not record.metadata.resource_version:
        return None
    return Event(event.type, record.metadata.resource_version, (record, None))


def _event(resource: Resource, line: bytes) -> Event:
    """An event of a watch, decoded in two passes: bookmarks, errors and objects of any kind."""
    event = decoded(_LINE, line)
    if event.type == "ERROR":
        raise refusal(500, event.object)
    if event.type == "BOOKMARK":
        version = _MARK.decode(event.object).metadata.resource_version
        if not version:
            raise ValueError("a bookmark without a version")
        return Event(event.type, version, None)
    if event.type not in _CHANGES:
        raise ValueError(f"{event.type!r} is nothing that a watch tells")
    entry = read(resource, event.object)
    version = entry[0].metadata.resource_version if entry else _MARK.decode(event.object).metadata.resource_version
    if not version:
        raise ValueError("a change without a version")
    return Event(event.type, version, entry)


def read(resource: Resource, data: bytes | msgspec.Raw) -> Entry | None:
    """The record of one object, and its manifest where that is kept; None where it cannot be read."""
    try:
        return _read(resource, data)
    except InputError as error:
        log.error("left out: %s", error)
    except Exception:  # an object that cannot be decoded must not end the watch of all the others
        log.exception("left out: a %s that cannot be decoded", resource.kind)
    return None


def _read(resource: Resource, data: bytes | msgspec.Raw) -> Entry:
    lean = LEAN.get((resource.group, resource.kind))
    if lean is not None:
        record = codec.decode_json(data, lean)
        if record is not None:
            return record, None
    text = bytes(data)
    raw: Raw = msgspec.json.decode(_cut(text) if (odd := _is_odd(text)) else text)
    raw = {**raw, "apiVersion": resource.api_version, "kind": resource.kind}  # lists leave these out
    codec.part(raw, "metadata").pop("managedFields", None)
    record = codec.decode(raw)
    if odd or _CUT in text:
        meta = record.metadata
        raise InputError("nested too deeply", obj=f"{resource.kind} {meta.namespace}/{meta.name}")
    return record, None if lean is not None else raw
