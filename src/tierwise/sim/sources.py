"""Where manifests come from: files, folders, standard input, as bytes.

Called by the manifest loader. Finds and reads, and says in one line what cannot be read; does not look inside.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Final, TextIO

import msgspec

from tierwise.api.errors import InputError

__all__ = ["LARGEST_FILE", "Source", "sources"]

LARGEST_FILE: Final = 2 << 30
"""Bytes beyond which a file is refused rather than read into memory: a device, or a mistake."""

_ENDINGS: Final = (".yaml", ".yml", ".json", ".jsonl")
_STANDARD_INPUT: Final = "standard input"


class Source(msgspec.Struct, frozen=True):
    """One file to read. `size` is what it had when it was found, for progress only."""

    name: str
    size: int
    read: Callable[[], bytes]
    found: bool = False  # in a folder: nobody has named it

    @property
    def is_json(self) -> bool:
        """Whether its name promises JSON, so that nothing else will do."""
        return self.name.endswith((".json", ".jsonl"))


def sources(paths: Sequence[str], stdin: TextIO | BinaryIO | None) -> Iterator[Source]:
    """What the paths stand for, in order; a folder stands for the manifests below it, sorted, hidden ones left out."""
    for path in paths:
        if path == "-":
            yield _standard_input(stdin)
        elif Path(path).is_dir():
            yield from (_file(file, found=True) for file in _below(path))
        else:
            yield _file(path)


def _standard_input(stdin: TextIO | BinaryIO | None) -> Source:
    if stdin is None:
        raise InputError("there is none", file=_STANDARD_INPUT)
    stream = getattr(stdin, "buffer", stdin)  # the bytes below a text stream: its own decoding could fail
    try:
        data = stream.read(LARGEST_FILE + 1)
    except (OSError, ValueError) as error:
        raise _unreadable(error, _STANDARD_INPUT) from None
    if isinstance(data, str):
        data = data.encode("utf-8", "surrogateescape")
    _refuse_huge(data, _STANDARD_INPUT)
    return Source(_STANDARD_INPUT, len(data), lambda: data)


def _file(path: str, *, found: bool = False) -> Source:
    try:
        size = Path(path).stat().st_size
    except (OSError, ValueError) as error:
        raise _unreadable(error, path) from None
    return Source(path, size, lambda: _content(path), found)


def _content(path: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            data = file.read(LARGEST_FILE + 1)
    except (OSError, ValueError) as error:
        raise _unreadable(error, path) from None
    _refuse_huge(data, path)
    return data


def _below(folder: str) -> list[str]:
    """The manifests in a folder and in those below it; links to folders are not followed, so there is no circle."""
    found: list[str] = []
    for place, folders, files in os.walk(folder, onerror=_raise):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        found += (
            str(Path(place, name)) for name in sorted(files) if name.endswith(_ENDINGS) and not name.startswith(".")
        )
    if not found:
        raise InputError(f"holds no objects: no file in it ends in {', '.join(_ENDINGS)}", file=folder)
    return found


def _raise(error: OSError) -> None:
    raise _unreadable(error, str(error.filename)) from None


def _refuse_huge(data: bytes, name: str) -> None:
    if len(data) > LARGEST_FILE:
        raise InputError(f"larger than {LARGEST_FILE >> 30} GiB", file=name)


def _unreadable(error: OSError | ValueError, name: str) -> InputError:
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return InputError(f"cannot be read: {reason or error}", file=name)
