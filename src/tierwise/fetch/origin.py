"""Where a topology is to be read from, and reading it: "slurm:/etc/slurm", "csv:hosts.csv", "ufm:https://ufm.example".

Called by `topology generate` and `topology diff`. Finds out which format a text has, and leaves the rest to the readers
of `discovery`. A label source has trees of several networks and names of its own, hence `label` is not read here.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Final, TextIO

import msgspec

from tierwise.api.core import Node
from tierwise.api.errors import InputError
from tierwise.api.json_text import values
from tierwise.api.volcano import HyperNode
from tierwise.api.yaml_text import documents
from tierwise.dialects.volcano.hypernodes import by_fabric
from tierwise.discovery import (
    from_hypernodes,
    host_map,
    presets,
    slurm,
    ufm,
)
from tierwise.discovery.tree import Discovered
from tierwise.fetch.ufm import Ufm, ports_and_systems
from tierwise.manifests.files import sources
from tierwise.port import Objects

__all__ = ["FROM_MANIFESTS", "KINDS", "SourceLocation", "discover"]


# Keeps files that others name below one folder: the name, and whatever it leads to.
#
# Called for sources that a cluster's configuration names. Its author may not be allowed to read our pod's files, and
# messages about a file, or the tree made from it, would reveal its contents.


def confined(folder: Path, place: str) -> Path:
    """Target of a path after following links. Raises InputError if it is outside the folder. A relative place is one in
    the folder. No link is left in the answer: who opens it opens what was judged.
    """
    refusal = InputError(f"{place} is not below {folder}, and files elsewhere are not read", field="config.path")
    try:
        root = folder.resolve()
        resolved = Path(root, place).resolve()
    except (OSError, RuntimeError, ValueError):  # links in a circle, or characters that no path has
        raise refusal from None
    # What follows links in a circle may be left as it is, and then says nothing about where it leads.
    if not resolved.is_relative_to(root) or ".." in resolved.parts:
        raise refusal
    return resolved


FROM_MANIFESTS: Final = ("label", *presets.PRESETS, "hypernodes")
"""Kinds that read objects of the cluster: their place is one more file of manifests."""

KINDS: Final = (*FROM_MANIFESTS, "slurm", "csv", "json", "ufm")

_SLURM_FILES: Final = ("topology.yaml", "topology.conf")  # Slurm ignores the second where there is the first


class SourceLocation(msgspec.Struct, frozen=True):
    """A kind of source, its place, and what its reader has to be told; `ufm` is the server to ask.

    Where there is a `folder`, files are read below it alone.
    """

    kind: str
    place: str = ""
    host: str = ""
    tiers: tuple[str, ...] = ()
    topology: str = ""
    ufm: Ufm | None = None
    folder: Path | None = None
    fabric: str = ""  # of hyperNodes: which of them to read

    def __str__(self) -> str:
        if self.place:
            return f"{self.kind}:{self.place}"
        return self.kind


def discover(origin: SourceLocation, objects: Objects, stdin: TextIO | BinaryIO | None = None) -> Discovered:
    """The tree of a source. InputError for a file that cannot be read, FetchError for a server that does not answer."""
    return _READERS[origin.kind](origin, objects, stdin)


def _slurm(origin: SourceLocation, _objects: Objects, stdin: TextIO | BinaryIO | None) -> Discovered:
    place = origin.place
    path = _path(origin, origin.place)
    if path is not None and path.is_dir():
        files = [name for name in _SLURM_FILES if Path(path, name).is_file()]
        if not files:
            raise InputError(f"holds neither {' nor '.join(_SLURM_FILES)}", file=place)
        place = str(Path(place, files[0]))
    data, file = _read(origin, place, stdin)
    if not _is_yaml(data):
        return slurm.parse_conf(_text(data, file), file)
    found_documents = [document for document, _ in documents(data, file=file) if document is not None]
    return slurm.parse_yaml(found_documents[0] if found_documents else None, file, origin.topology)


def _is_yaml(data: bytes) -> bool:
    """Whether the first line that is no comment, directive or blank starts with -, [ or {, so that the file is YAML or
    JSON and not topology.conf. A YAML mapping without --- in front gives False.
    """
    lines = (line.strip() for line in data.removeprefix(b"\xef\xbb\xbf").splitlines())
    first_line = next((line for line in lines if line and not line.startswith((b"#", b"%"))), b"")
    return first_line.startswith((b"-", b"[", b"{"))


def _csv(origin: SourceLocation, _objects: Objects, stdin: TextIO | BinaryIO | None) -> Discovered:
    data, file = _read(origin, origin.place, stdin)
    return host_map.parse_csv(_text(data, file), file, origin.host, origin.tiers)


def _json(origin: SourceLocation, _objects: Objects, stdin: TextIO | BinaryIO | None) -> Discovered:
    data, file = _read(origin, origin.place, stdin)
    values_read = values(data, file=file)
    # Objects one to a line are a list without its brackets.
    content = values_read[0] if len(values_read) == 1 else values_read
    return host_map.parse_json(content, file, origin.host, origin.tiers)


def _ufm(origin: SourceLocation, _objects: Objects, _stdin: TextIO | BinaryIO | None) -> Discovered:
    server = origin.ufm or Ufm(origin.place)
    return ufm.read(*ports_and_systems(server), file=server.base)


def _preset(origin: SourceLocation, objects: Objects, _stdin: TextIO | BinaryIO | None) -> Discovered:
    return presets.read(presets.PRESETS[origin.kind], objects.every(Node).values())


def _hypernodes(origin: SourceLocation, objects: Objects, _stdin: TextIO | BinaryIO | None) -> Discovered:
    fabrics = by_fabric(objects.every(HyperNode).values())
    if fabrics and origin.fabric not in fabrics:
        names = ", ".join(name or "one without a name" for name in fabrics)
        raise InputError(f'no hyperNode belongs to fabric "{origin.fabric}": there are {names}', file=str(origin))
    hypernodes, merged = from_hypernodes.without_planes(fabrics.get(origin.fabric, ()))
    tree_read = from_hypernodes.read(hypernodes, objects.every(Node).values())
    return Discovered.of(tree_read.tree, (*merged, *tree_read.remarks))


_READERS: Final[dict[str, Callable[[SourceLocation, Objects, TextIO | BinaryIO | None], Discovered]]] = {
    **dict.fromkeys(presets.PRESETS, _preset),
    "slurm": _slurm,
    "csv": _csv,
    "json": _json,
    "ufm": _ufm,
    "hypernodes": _hypernodes,
}


def _read(origin: SourceLocation, place: str, stdin: TextIO | BinaryIO | None) -> tuple[bytes, str]:
    path = _path(origin, place)
    if path is None:
        [source] = sources([place], stdin)
        return source.read(), source.name
    if path.is_dir():
        raise InputError("is a folder, a file is expected", file=place)
    [source] = sources([str(path)], None)
    return source.read(), place


def _path(origin: SourceLocation, place: str) -> Path | None:
    """The path of a place.

    Where the origin has a folder, it is a path inside it, links followed, and InputError for one outside. Without a
    folder, None stands for standard input ("-").
    """
    if origin.folder is not None:
        return confined(origin.folder, place)
    return None if place == "-" else Path(place)


def _text(data: bytes, file: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError("the text is not UTF-8", file=f"{file}:{line}") from None
