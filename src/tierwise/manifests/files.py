"""Manifests: files, folders and standard input to objects.

Called by every command that takes `-f`. Reads YAML, JSON and JSON lines, takes lists apart, decodes each object and
refuses what cannot be meant: nothing at all, the same object twice, a field of the wrong type. Raises nothing but
InputError for what it reads. Applies no defaults and judges no meaning: that is admission's business.

Folders are read as people have them: what is no manifest (a kustomization, values, a Helm template, a configuration)
is left out and noted. An object with a `generateName` is given a name as an API server would, the same in every run.
"""

import gc
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from io import BytesIO
from pathlib import Path
from stat import S_ISREG
from typing import IO, BinaryIO, Final, TextIO

import msgspec

from tierwise.api import codec
from tierwise.api.codec import Object, Packed, Raw
from tierwise.api.errors import InputError
from tierwise.api.json_text import ItemReader, values
from tierwise.api.window import Window, check
from tierwise.api.yaml_text import documents
from tierwise.dialects import workloads
from tierwise.manifests.saved import without_managed_fields
from tierwise.port import Key, key_of_raw

__all__ = ["LARGEST_FILE", "Loaded", "ManifestSource", "Progress", "Remarks", "read", "sources"]


# Where manifests come from: files, folders, standard input, as bytes.
#
# Called by the manifest loader. Finds and reads, and says in one line what cannot be read; does not look inside.


LARGEST_FILE: Final = 2 << 30
"""Bytes beyond which a file is refused rather than read into memory: a device, or a mistake."""

_IN_MEMORY: Final = 16 << 20
"""Bytes of standard input beyond which it is kept in a file, as that can be read in pieces."""

_STEP: Final = 1 << 20
_ENDINGS: Final = (".yaml", ".yml", ".json", ".jsonl")
_STANDARD_INPUT: Final = "standard input"


class ManifestSource(msgspec.Struct, frozen=True):
    """One file to read. `size` is what it had when it was found, for progress only."""

    name: str
    size: int
    open: Callable[[], AbstractContextManager[IO[bytes]]]
    found: bool = False  # in a folder: it was not named

    def read(self) -> bytes:
        """All of it; InputError where that cannot be, or is too much."""
        try:
            with self.open() as file:
                file.seek(0)
                data = file.read(LARGEST_FILE + 1)
        except (OSError, ValueError) as error:
            raise _unreadable(error, self.name) from None
        if len(data) > LARGEST_FILE:
            raise InputError(f"larger than {LARGEST_FILE >> 30} GiB", file=self.name)
        return data

    @property
    def is_json(self) -> bool:
        """Whether the name ends in .json or .jsonl: then the content must be JSON. Other sources may hold JSON too."""
        return self.name.endswith((".json", ".jsonl"))


def sources(paths: Sequence[str], stdin: TextIO | BinaryIO | None) -> Iterator[ManifestSource]:
    """Manifest sources of the paths, in order; a folder stands for the manifests below it, sorted, without hidden
    files.
    """
    for path in paths:
        if path == "-":
            yield _standard_input(stdin)
        elif Path(path).is_dir():
            yield from (_file(file, in_folder=True) for file in _below(path))
        else:
            yield _file(path)


def _standard_input(stdin: TextIO | BinaryIO | None) -> ManifestSource:
    if stdin is None:
        raise InputError("there is none", file=_STANDARD_INPUT)
    stream = getattr(stdin, "buffer", stdin)  # the bytes below a text stream: its own decoding could fail
    spooled = _kept(stream, _STANDARD_INPUT)
    return ManifestSource(_STANDARD_INPUT, spooled.tell(), lambda: nullcontext(spooled))


def _kept(stream: TextIO | BinaryIO | IO[bytes], name: str) -> IO[bytes]:
    """A copy of a stream, in memory or, where it is large, in a temporary file.

    It is positioned at its end: seek to 0 before reading. A little more than LARGEST_FILE is kept of what is longer, so
    that `read` refuses it. InputError where the stream cannot be read.
    """
    buffer: IO[bytes] = BytesIO()
    try:
        while buffer.tell() <= LARGEST_FILE and (data := stream.read(_STEP)):
            if isinstance(buffer, BytesIO) and buffer.tell() > _IN_MEMORY:
                from tempfile import TemporaryFile  # most input is small, and this is slow to import

                small, buffer = buffer, TemporaryFile()  # noqa: SIM115 - lives as long as its source
                buffer.write(small.getvalue())
            buffer.write(data.encode("utf-8", "surrogateescape") if isinstance(data, str) else data)
    except (OSError, ValueError) as error:
        raise _unreadable(error, name) from None
    return buffer


def _file(path: str, *, in_folder: bool = False) -> ManifestSource:
    if "://" in path:
        text = f"an address is not fetched here: curl -L ADDRESS >{path.rpartition('/')[2] or 'FILE'}, then -f that"
        raise InputError(text, file=path)
    try:
        file_status = Path(path).stat()
    except (OSError, ValueError) as error:
        raise _unreadable(error, path) from None
    if not S_ISREG(file_status.st_mode):  # `-f <(command)` is a pipe: it can be read once
        return ManifestSource(path, 0, _Once(path), in_folder)
    return ManifestSource(path, file_status.st_size, lambda: Path(path).open("rb"), in_folder)


class _Once:
    """A stream of bytes that is read when it is opened first, and kept."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._kept: IO[bytes] | None = None

    def __call__(self) -> AbstractContextManager[IO[bytes]]:
        if self._kept is None:
            with Path(self._path).open("rb") as stream:
                self._kept = _kept(stream, self._path)
        self._kept.seek(0)
        return nullcontext(self._kept)


def _below(folder: str) -> list[str]:
    """The paths of all files in a folder, and in those below it, whose names end as manifests do; each folder's in
    order of names. Hidden ones, and links to folders, are skipped. InputError where there is none.
    """
    paths_below: list[str] = []
    for place, folders, files in os.walk(folder, onerror=_raise):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        paths_below += (
            str(Path(place, name)) for name in sorted(files) if name.endswith(_ENDINGS) and not name.startswith(".")
        )
    if not paths_below:
        raise InputError(f"holds no objects: no file in it ends in {', '.join(_ENDINGS)}", file=folder)
    return paths_below


def _raise(error: OSError) -> None:
    raise _unreadable(error, str(error.filename)) from None


def _unreadable(error: OSError | ValueError, name: str) -> InputError:
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return InputError(f"cannot be read: {reason or error}", file=name)


Progress = Callable[[int, int], None]
"""Told how many bytes of how many have been read."""

_END: Final = object()
_LONG: Final = 1 << 20
"""Bytes from which a text that is not called JSON is looked at for being a list."""


class Loaded(msgspec.Struct, frozen=True):
    """One object: as it was written, as a record, and where it stood ("pods.yaml#3" is the third in that file)."""

    key: Key
    manifest: Raw | Packed
    record: Object
    source: str

    @property
    def raw(self) -> Raw:
        if isinstance(self.manifest, Packed):
            return self.manifest.unpacked()
        return self.manifest


class Remarks(msgspec.Struct):
    """Remarks that a reader may collect besides the objects."""

    left_out: list[tuple[str, str]] = []  # what was not taken, by file: no manifests, or objects of another file
    faults: list[InputError] | None = None  # what cannot be read, where it is gathered; else the first is raised

    def blame(self, error: InputError) -> None:
        """Keep an error, or raise it."""
        if self.faults is None:
            raise error
        self.faults.append(error)


def read(
    paths: Sequence[str],
    stdin: TextIO | BinaryIO | None = None,
    *,
    progress: Progress | None = None,
    remarks: Remarks | None = None,
) -> list[Loaded]:
    """All objects below the paths, in order; "-" means standard input, a folder for the manifests in it."""
    source_list = list(sources(paths, stdin))
    reading = _Reading(remarks or Remarks())
    total = sum(source.size for source in source_list)
    done = 0
    with _collector_paused():
        for source in source_list:
            reading.read(source, _reporter(progress, done, total))
            done += source.size
    if progress is not None:
        progress(total, total)
    if source_list and not reading.some:
        raise InputError("holds no objects", file=source_list[0].name if len(source_list) == 1 else ", ".join(paths))
    return reading.found


class _Reading:
    """Files, one after the other, and what was found in them so far."""

    def __init__(self, remarks: Remarks) -> None:
        self.found: list[Loaded] = []
        self.some = False  # whether there was anything at all, be it an empty list or what cannot be read
        self._remarks = remarks
        self._seen: dict[Key, str] = {}
        self._named: dict[tuple[str, str, str, str], int] = {}
        self._shared: set[tuple[str, str]] = set()  # files that give the same objects

    def read(self, source: ManifestSource, report: Callable[[int], None]) -> None:
        index = 0
        empty = True
        texts = _documents(source)
        while True:
            try:
                document, end, packed = next(texts, (_END, 0, False))
            except InputError as error:
                self._refuse(source, error)
                return
            if document is _END:
                break
            if document is None:
                continue
            empty = False
            reason = _no_manifest(document, in_folder=source.found)
            if reason:
                self._leave_out(source, reason)
                continue
            self.some = True
            index = self._take(document, source, index, packed=packed)
            report(end)
        if empty:
            self._leave_out(source, "it is empty")

    def _take(self, document: object, source: ManifestSource, index: int, *, packed: bool) -> int:
        """Decode the objects of a document, and keep their manifests `packed`; the number of objects so far."""
        raws = _unlisted(document)
        while True:
            number = index + 1
            try:
                raw = next(raws, None)
                if raw is None:
                    return index
                index = number
                named = self._with_name(without_managed_fields(raw))
                record = codec.decode(named)
                key = key_of_raw(named)
                try:
                    workloads.check(named, key)
                except workloads.NoTemplateError:
                    if self._remarks.faults is None:
                        raise  # else it can be read, and admission says what it lacks
                if isinstance(record, Window):
                    check(record)
                manifest = Packed.of(named) if packed else named
                loaded = Loaded(key, manifest, record, f"{source.name}#{index}")
                if self._is_new(loaded):
                    self.found.append(loaded)
            except InputError as error:
                self._remarks.blame(error.inside(file=f"{source.name}#{number}"))

    def _is_new(self, loaded: Loaded) -> bool:
        """Whether this is the first object with its key, and remember it.

        A second one raises InputError where it is in the same file, or where the files are run together (no faults are
        collected). In files that are only checked it returns False, with one remark for each pair of files. Contents
        are not compared.
        """
        seen_at = self._seen.setdefault(loaded.key, loaded.source)
        if seen_at is loaded.source:
            return True
        label, file, earlier_file = (
            codec.label(loaded.record),
            loaded.source.rpartition("#")[0],
            seen_at.rpartition("#")[0],
        )
        if self._remarks.faults is None or file == earlier_file:
            raise InputError(f"given twice, first in {seen_at}", file=loaded.source, obj=label)
        if (file, earlier_file) not in self._shared:
            self._shared.add((file, earlier_file))
            self._remarks.left_out.append((file, f"what {earlier_file} has already, such as {label}"))
        return False

    def _leave_out(self, source: ManifestSource, what: str) -> None:
        if (source.name, what) not in self._remarks.left_out:
            self._remarks.left_out.append((source.name, what))

    def _refuse(self, source: ManifestSource, error: InputError) -> None:
        """A text that cannot be read; one with braces in pairs is a template, and no manifest yet."""
        template = b"{{" in source.read()
        if template and source.found:
            self._leave_out(source, "a template, which something like `helm template` must render first")
            return
        self.some = True
        hint = " (is it a template? `helm template` renders those of Helm)" if template else ""
        self._remarks.blame(InputError(error.message + hint, file=error.file, obj=error.obj, field=error.field))

    def _with_name(self, raw: Raw) -> Raw:
        """An object that leaves its name to the API server gets one: the prefix, and the place among its like."""
        meta = codec.part(raw, "metadata")
        prefix = meta.get("generateName")
        if meta.get("name") or not prefix or not isinstance(prefix, str):
            return raw
        key = (str(raw.get("apiVersion")), str(raw.get("kind")), str(meta.get("namespace")), prefix)
        self._named[key] = number = self._named.get(key, 0) + 1
        return {**raw, "metadata": {**meta, "name": f"{prefix}{number:05}"}}


def _no_manifest(document: object, *, in_folder: bool) -> str:
    """Description of a document that is not a manifest; "" if it is one, or a faulty one. A document of a file that the
    user named is a manifest unless it says otherwise.
    """
    if not isinstance(document, dict):
        return "it holds no objects" if in_folder else ""
    kind = document.get("kind")
    version = document.get("apiVersion")
    if kind == "KubeSchedulerConfiguration" or (kind is None and {"actions", "tiers"} & set(document)):
        return "a scheduler configuration, which --config takes"
    if not isinstance(kind, str) or not isinstance(version, str):
        plain = in_folder and not document.get("metadata") and None in (kind, version) and "items" not in document
        return "it holds no objects" if plain else ""
    if codec.api_group(version) == "kustomize.config.k8s.io":
        return "a kustomization, which `kubectl kustomize` must render first"
    configures = document.get("metadata") is None and not _known(version, kind)
    if configures:
        return f"a configuration of kind {kind}"
    return ""


def _known(version: str, kind: str) -> bool:
    return bool(codec.versions_of(codec.api_group(version), kind)) or kind.endswith("List")


def _documents(source: ManifestSource) -> Iterator[tuple[object, int, bool]]:
    """Every document with the offset at which it ends, and whether it is JSON: the text says so, not its name.

    A long list comes as many with one item each: as a whole it takes several times the memory of its text.
    """
    if source.is_json or source.size > _LONG:
        with source.open() as text:
            listed = ItemReader.over(text, file=source.name) if source.size <= LARGEST_FILE else None
            if listed is not None:
                yield {**listed.head, "items": []}, 0, True
                yield from (({**listed.head, "items": [item]}, end, True) for item, end in listed)
                return
    data = source.read()
    if not source.is_json and not (data.lstrip()[:1] in (b"{", b"[") and b"\n---" not in data):
        yield from ((document, end, False) for document, end in documents(data, file=source.name))
        return
    try:
        values_read = values(data, file=source.name)
    except InputError:
        if source.is_json:
            raise
        # A YAML flow collection starts like JSON. Where it is neither, YAML's complaint is as good.
        yield from ((document, end, False) for document, end in documents(data, file=source.name))
        return
    for number, value in enumerate(values_read, 1):
        yield value, len(data) * number // len(values_read), True


def _unlisted(document: object) -> Iterator[Raw]:
    """Yield the objects of a list in order, also those of lists within it; a document that is no list is yielded
    itself. Items of a typed list (PodList) get its apiVersion and kind where they have none. InputError for anything
    that is no object.
    """
    waiting = [document]
    while waiting:
        raw = waiting.pop()
        if not isinstance(raw, dict):
            codec.decode(raw)  # refuses it
            continue
        kind = raw.get("kind")
        items = raw.get("items")
        if not (isinstance(kind, str) and kind.endswith("List") and (isinstance(items, list) or kind == "List")):
            yield raw
            continue
        if not isinstance(items, list | None):
            raise InputError("expected a list", obj=kind, field="items")
        of = {"apiVersion": raw.get("apiVersion"), "kind": kind.removesuffix("List")} if kind != "List" else {}
        waiting += ({**of, **item} if isinstance(item, dict) else item for item in reversed(items or []))


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
