"""YAML text to plain data, fast where that is safe.

Called by the manifest loader and the configuration. A text that keeps to the plain part of YAML which
kubectl and people write goes through yaml-rs, some six times as fast as PyYAML; everything else, and everything that
yaml-rs refuses, goes through PyYAML (`yaml_events`), which alone decides what is an error. The two must give the same
data: `_WILD` names all that they are known to read differently, and a differential test looks for more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import re2

from tierwise.api.errors import InputError
from tierwise.api.go_pattern import Pattern, compile_pattern

if TYPE_CHECKING:
    from tierwise.api.yaml_events import Allowance

__all__ = ["documents", "is_plain", "read_plain"]

# Where a value may begin, and where it or a key may end: patterns that match too much, not too little.
_START: Final = r"(?:^|[-:] |[\[{,]) *"
_END: Final = r" *(?:$|#|[,\]}]|:(?: |$))"
_KEY_END: Final = r" *:(?: |$)"
_WILD: Final = (
    # Characters that are line breaks to some and forbidden to others; tabs; byte order marks.
    r"[\x00-\x09\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\xa8\xa9]|\xef\xbb\xbf|\xef\xbf[\xbe\xbf]",
    # Directives and ends of documents.
    r"^%|^\.\.\.",
    # Anchors, aliases, tags, merges, keys that are no scalars.
    rf"{_START}(?:[&*!]|<<|\?(?: |$))",
    # Flow style at the start of a line unless empty; `is_plain` counts lines that start with `{"` or have it later.
    r"^(?:---)? *(?:\[ *(?:[^\] ]|$)|\{ +(?:[^} ]|$)|\{(?:[^}\" ]|$))|^\{\"",
    # Booleans of YAML 1.1.
    rf"{_START}(?:yes|Yes|YES|no|No|NO|on|On|ON|off|Off|OFF){_END}",
    # Numbers that are not written in the one way on which all agree.
    rf"{_START}[-+]?(?:0[0-9_][0-9_.]*|0[xXoObB][0-9a-fA-F_]*|[0-9._]*_[0-9._]*|\.[0-9._]+|[0-9]+\.){_END}",
    rf"{_START}[-+]?(?:[0-9._]+[eE][-+]?[0-9_]+|[0-9.]{{16,}}|\.[a-zA-Z]+){_END}|{_START}\+[0-9.]+{_END}",
    # Keys that are not strings unless quoted, and the empty key.
    rf"{_START}(?:-?[0-9.]*[0-9][0-9.]*|true|True|TRUE|false|False|FALSE|null|Null|NULL|~|){_KEY_END}",
    # Empty lists and maps as keys; block scalars that are no value of a key or list, or have no line of their own.
    r"(?:\[ *\]|\{ *\}) *:|^(?:---)? *[|>]",
    r"[|>][-+0-9]* *(?:#[^\n]*)?\n *(?:(?:#[^\n]*)?\n *)*(?:---|\z)",
    # Nesting deep enough to overflow a stack.
    r"(?:- +){16}|^ {200}",
)

_SCALAR: Final = r"(?:[-./]*\w(?:[-./+=:]*\w)*|\B(?:\"[^\"\\\n]*\"|'[^'\n]*')\B)"


def _flow(levels: int, entries: str = "*") -> str:
    """A list or map in flow style on one line, of words, numbers and strings without escapes, nested no deeper."""
    value = rf"(?:{_SCALAR}|{_flow(levels - 1)})" if levels > 1 else _SCALAR
    return rf"(?:\[ *(?:{value},? *){entries}\]|\{{ *(?:{_SCALAR}: +{value},? *){entries}\}})"


def _compiled(text: str) -> Pattern:
    # RE2, because it reads 40 MB in a fraction of a second where Python's own matcher takes several. Bytes are matched
    # as they are: the patterns spell out UTF-8 themselves.
    latin = re2.Options.Encoding.LATIN1
    return compile_pattern(f"(?m){text}".encode("latin-1"), encoding=latin, max_mem=64 << 20)


_wild: Final = _compiled("|".join(_WILD))
_block_scalar: Final = _compiled(r"[|>][-+0-9]* *(?:#.*)?$")
_json_line: Final = _compiled(r'^ +\{"')
_json_text: Final = _compiled(r'[|>][-+0-9]{0,2} *\n +\{"')
_indivisible: Final = _compiled(r"^%|^\.\.\.")
_mark: Final = _compiled(r"^---(?:[ \t\n]|\z)")
_content: Final = _compiled(r"^\s*[^#\s]")
_flow_line: Final = _compiled(r"^[^\n]*[-:] +(?:\[ *(?:[^\] ]|$)|\{ *(?:[^} ]|$))")


def _plain_flow(levels: int, entries: str = "*") -> str:
    return rf"[^\[{{\n]*[-:] +{_flow(levels, entries)} *(?: #[^\n]*)?"


@cache
def _plain_flow_text() -> Pattern:
    """Texts whose brackets are all plain flow style: one match, where counting lines takes one for each."""
    return _compiled(rf"\A(?:(?:[^\[{{\n]*|{_plain_flow(4)})(?:\n|\z))*\z")


@cache
def _plain_flow_line(levels: int) -> Pattern:
    """Compiled with the first text that has flow style so deep: each level doubles the pattern, and few have five."""
    return _compiled(rf"^{_plain_flow(levels, '+')}$")


def documents(data: bytes, *, file: str) -> Iterator[tuple[object, int]]:
    """Every document of a YAML text with the offset at which it ends; empty ones may be left out or be None.

    InputError names the file, and line and column where the text is not UTF-8 or not YAML. Maps have string keys
    only, and share nothing with each other even where the text uses aliases.
    """
    data = _clean(data, file)
    allowance: Allowance | None = None
    bounds = [0, *_starts(data), len(data)]
    all_plain = is_plain(data)
    line = 0
    for start, end in pairwise(bounds):
        piece = data[start:end]
        text = piece.removeprefix(b"---").lstrip(b" \t\n")
        if not text or (text.startswith(b"#") and _content.search(text) is None):
            line += piece.count(b"\n")
            continue
        plain = all_plain or (len(bounds) > 2 and is_plain(piece))
        found = read_plain(piece) if plain else None
        if found is not None:
            yield found, end
        else:
            from tierwise.api.yaml_events import Allowance, build  # PyYAML is slow to import, and most texts are plain

            allowance = allowance or Allowance(len(data))
            for document in build(piece.decode(), file=file, line=line, allowance=allowance):
                yield document, end
        line += piece.count(b"\n")


def is_plain(data: bytes) -> bool:
    """Whether a text keeps to the part of YAML that yaml-rs is trusted with."""
    if _wild.search(data) is not None or (not data.endswith(b"\n") and _block_scalar.search(data) is not None):
        return False
    # JSON within a block scalar is text, and common (kubectl's last-applied-configuration); elsewhere it is a map.
    if _count(_json_line, data) != _count(_json_text, data):
        return False
    if _flow_line.search(data) is None or _plain_flow_text().search(data) is not None:
        return True
    in_flow = _count(_flow_line, data)
    return any(in_flow == _count(_plain_flow_line(levels), data) for levels in (4, 5))


def _count(pattern: Pattern, data: bytes) -> int:
    return sum(1 for _ in pattern.finditer(data))


def read_plain(data: bytes) -> object:
    """The map that a plain text holds; None where it holds none, or where yaml-rs refuses it for whatever reason."""
    loads = _yaml_rs()
    try:
        document = loads(data.decode()) if loads is not None else None
    except ValueError:
        return None
    return document if isinstance(document, dict) else None


@cache
def _yaml_rs() -> Callable[[str], object] | None:
    """The fast reader, None on platforms without it: slower there, not different."""
    try:
        loads: Callable[..., object] = import_module("yaml_rs").loads
    except ImportError:
        return None
    return lambda text: loads(text, parse_datetime=False)


def _clean(data: bytes, file: str) -> bytes:
    """The text without byte order mark and carriage returns, or InputError where it is not UTF-8."""
    data = data.removeprefix(b"\xef\xbb\xbf")
    try:
        data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        raise InputError("the text is not UTF-8", file=f"{file}:{line}:{column}") from None
    if b"\r" in data:
        return data.replace(b"\r\n", b"\n")
    return data


def _starts(data: bytes) -> list[int]:
    """Where documents start after the first: "---" at the start of a line means nothing else anywhere in YAML.

    Directives and explicit ends of documents belong to the document before or after them; such a text stays whole.
    """
    if _indivisible.search(data) is not None:
        return []
    return [mark.start() for mark in _mark.finditer(data) if mark.start() > 0]
