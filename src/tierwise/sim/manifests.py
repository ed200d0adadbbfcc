"""Manifests: files, folders and standard input to objects.

Called by every command that takes `-f`. Reads YAML, JSON and JSON lines, takes lists apart, decodes each object and
refuses what cannot be meant: nothing at all, the same object twice, a field of the wrong type. Raises nothing but
InputError for what it reads. Applies no defaults and judges no meaning: that is admission's business.
"""

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import BinaryIO, Final, TextIO

import msgspec

from tierwise.api import codec
from tierwise.api.codec import Object, Raw
from tierwise.api.errors import InputError
from tierwise.api.json_text import values
from tierwise.api.yaml_text import documents
from tierwise.sim.sources import Source, sources

__all__ = ["Loaded", "Progress", "read"]

Progress = Callable[[int, int], None]
"""Told how many bytes of how many have been read."""

_STEP: Final = 1 << 20


class Loaded(msgspec.Struct, frozen=True):
    """One object: as it was written, as a record, and where it stood ("pods.yaml#3" is the third in that file)."""

    raw: Raw
    record: Object
    source: str


def read(
    paths: Sequence[str], stdin: TextIO | BinaryIO | None = None, *, progress: Progress | None = None
) -> list[Loaded]:
    """All objects below the paths, in order; "-" stands for standard input, a folder for the manifests in it."""
    found: list[Loaded] = []
    seen: dict[tuple[str, str, str], str] = {}
    given = list(sources(paths, stdin))
    total = sum(source.size for source in given)
    done = 0
    with _collector_paused():
        for source in given:
            report = _reporter(progress, done, total)
            for loaded in _objects(source, report):
                _refuse_twins(loaded, seen)
                found.append(loaded)
            done += source.size
    if progress is not None:
        progress(total, total)
    return found


def _objects(source: Source, report: Callable[[int], None]) -> Iterator[Loaded]:
    index = 0
    empty = True
    for document, end in _documents(source):
        if document is None:
            continue
        empty = False
        try:
            for raw in _unlisted(document):
                index += 1
                record = codec.decode(raw)
                yield Loaded(raw, record, f"{source.name}#{index}")
        except InputError as error:
            raise error.inside(file=f"{source.name}#{max(index, 1)}") from None
        report(end)
    if empty:
        raise InputError("holds no objects", file=source.name)


def _documents(source: Source) -> Iterator[tuple[object, int]]:
    """Every document with the offset at which it ends. The text itself says whether it is JSON, not its name."""
    data = source.read()
    if not source.is_json and not (data.lstrip()[:1] in (b"{", b"[") and b"\n---" not in data):
        yield from documents(data, file=source.name)
        return
    try:
        found = values(data, file=source.name)
    except InputError:
        if source.is_json:
            raise
        # A YAML flow collection starts like JSON. Where it is neither, YAML's complaint is as good.
        yield from documents(data, file=source.name)
        return
    for number, value in enumerate(found, 1):
        yield value, len(data) * number // len(found)


def _unlisted(document: object) -> Iterator[Raw]:
    """The objects of a list, of lists within lists, or the object itself."""
    waiting = [document]
    while waiting:
        raw = waiting.pop()
        if not isinstance(raw, dict):
            codec.decode(raw)  # refuses it
            continue
        kind, items = raw.get("kind"), raw.get("items")
        if not (isinstance(kind, str) and kind.endswith("List") and (isinstance(items, list) or kind == "List")):
            yield raw
            continue
        if not isinstance(items, list | None):
            raise InputError("expected a list", obj=kind, field="items")
        of = {"apiVersion": raw.get("apiVersion"), "kind": kind.removesuffix("List")} if kind != "List" else {}
        waiting += ({**of, **item} if isinstance(item, dict) else item for item in reversed(items or []))


def _refuse_twins(loaded: Loaded, seen: dict[tuple[str, str, str], str]) -> None:
    kind = codec.kind_of(loaded.record)
    identity = (codec.group_of(str(loaded.raw["apiVersion"])), kind.name, codec.key(loaded.record))
    first = seen.setdefault(identity, loaded.source)
    if first is not loaded.source:
        raise InputError(f"given twice, first in {first}", file=loaded.source, obj=codec.label(loaded.record))


def _reporter(progress: Progress | None, before: int, total: int) -> Callable[[int], None]:
    """Passes progress within one source on, at most once per step."""
    last = 0

    def report(end: int) -> None:
        nonlocal last
        if progress is not None and end - last >= _STEP:
            last = end
            progress(min(before + end, total), total)

    return report


@contextmanager
def _collector_paused() -> Iterator[None]:
    """No garbage collection while millions of small objects are made that all stay."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
