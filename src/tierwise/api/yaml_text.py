"""YAML text to plain data, fast where that is safe.

Called by the manifest loader and the configuration. A text that keeps to the plain part of YAML which
kubectl and people write goes through yaml-rs, some six times as fast as PyYAML; everything else, and everything that
yaml-rs refuses, goes through PyYAML (`build`), which alone decides what is an error. The two must give the same data:
`_WILD` names all that they are known to read differently, and a differential test looks for more.
"""

import math
import re
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from importlib import import_module
from itertools import pairwise
from typing import Final, NamedTuple, Protocol

import re2
import yaml

from tierwise.api.errors import InputError
from tierwise.api.go_pattern import Pattern, compile_pattern

__all__ = ["DEEPEST", "Allowance", "build", "documents", "is_plain", "read_plain", "resolve"]


# What a plain YAML scalar means.
#
# Called by the YAML readers. The rules are YAML 1.1's, as PyYAML and kubectl read them (`yes` and `off` are booleans,
# `010` is eight), without those that only surprise: times and `1:30` stay strings, and so does `=`.


Scalar = str | int | float | bool | None

_CONSTANTS: Final[dict[str, bool | None]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"), True),
    **dict.fromkeys(("false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"), False),
}
_INTEGER: Final = re.compile(r"[-+]?(?:0b[01_]+|0[0-7_]+|0x[0-9a-fA-F_]+|0|[1-9][0-9_]*)")
_FLOAT: Final = re.compile(r"(?:[-+]?[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+][0-9]+)?")
_NOT_FINITE: Final = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_BASES: Final = {"0b": 2, "0x": 16}


@lru_cache(maxsize=65536)
def resolve(text: str) -> Scalar:
    """The value of an unquoted scalar; numbers that Python cannot hold stay strings."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text[0] not in "+-.0123456789":
        return text
    try:
        if _INTEGER.fullmatch(text):
            return _integer(text.replace("_", ""))
        if _FLOAT.fullmatch(text):
            number = float(text.replace("_", ""))
            return number if math.isfinite(number) else text
    except ValueError:
        return text
    return float(text.replace(".", "")) if _NOT_FINITE.fullmatch(text) else text


def as_key(text: str) -> str | None:
    """The key that an unquoted scalar is, as kubectl turns it into JSON; None where it cannot be one."""
    value = resolve(text)
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int) else text


def _integer(text: str) -> int:
    sign, digits = (-1, text[1:]) if text[0] == "-" else (1, text.removeprefix("+"))
    base = _BASES.get(digits[:2], 8 if digits[0] == "0" else 10)
    return sign * int(digits, base)


# YAML text to plain data, event by event: the reader whose answers count.
#
# Called by `yaml_text` for whatever its fast path does not take. PyYAML's parser delivers the events; building from
# them, and not with PyYAML's loaders, keeps memory small and depth bounded (the C loader overflows the stack on deep
# nesting), bounds aliases, finds duplicate keys, and gives every error a line and column.


DEEPEST: Final = 200
"""How deeply lists and maps may be nested. Kubernetes' own objects stay below twenty."""

_LOADER: Final = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
_TAG: Final = "tag:yaml.org,2002:"
_PLAIN_TYPES: Final[dict[str, tuple[type, ...]]] = {
    f"{_TAG}null": (type(None),),
    f"{_TAG}bool": (bool,),
    f"{_TAG}int": (int,),
    f"{_TAG}float": (float, int),
}
_STARTED: Final = object()


class _Mark(Protocol):
    """A place in a text, counted from zero."""

    @property
    def line(self) -> int:
        """Lines above."""

    @property
    def column(self) -> int:
        """Characters to the left."""


class Allowance:
    """How many nodes the aliases of one file may still be written out to: what stops a "billion laughs"."""

    def __init__(self, size: int) -> None:
        self._left = 100_000 + 20 * size

    def spend(self, nodes: int) -> bool:
        """Take so many nodes off; False where there are not enough left."""
        self._left -= nodes
        return self._left >= 0


class _Outer(NamedTuple):
    """What to return to when the list or map that is being filled ends."""

    holder: "dict[str, object] | list[object] | None"
    key: str | None
    merging: bool
    anchor: str | None
    nodes: int


class _Anchored(NamedTuple):
    """What an alias refers to, and how many nodes that is when written out."""

    value: object
    nodes: int


def build(text: str, *, file: str, line: int, allowance: Allowance) -> Iterator[object]:
    """Every document of a text; InputError points to file, line and column. `line` lines come before the text."""
    builder = _Builder(file, line, allowance)
    take = builder.take
    try:
        parser = _LOADER(text)
        while (kind := type(event := parser.get_event())) is not yaml.StreamEndEvent:
            if kind in take:
                take[kind](event)
            elif kind is yaml.DocumentEndEvent:
                yield builder.finish()
    except yaml.MarkedYAMLError as error:
        raise builder.error(error.problem or "broken YAML", error.problem_mark) from None
    except yaml.reader.ReaderError as error:
        before = text.encode()[: error.position].decode().split("\n")  # the reader counts bytes
        at = f"{file}:{line + len(before)}:{len(before[-1]) + 1}"
        raise InputError(f"the control character {error.character:#04x} is not allowed in YAML", file=at) from None
    except yaml.YAMLError as error:
        raise InputError(str(error), file=file) from None


class _Builder:
    """Builds one document after the other from events. Open lists and maps are on a list, not on the call stack."""

    def __init__(self, file: str, line: int, allowance: Allowance) -> None:
        self._file = file
        self._line = line
        self._allowance = allowance
        self.take: Final[dict[type[yaml.Event], Callable[..., None]]] = {
            yaml.ScalarEvent: self._scalar,
            yaml.MappingStartEvent: self._start,
            yaml.SequenceStartEvent: self._start,
            yaml.MappingEndEvent: self._end,
            yaml.SequenceEndEvent: self._end,
            yaml.AliasEvent: self._alias,
        }
        self._begin()

    def finish(self) -> object:
        """The document that has ended; the next one starts empty."""
        root = self._root
        self._begin()
        return root

    def error(self, message: str, mark: _Mark | None) -> InputError:
        """An InputError that points to a place in the text."""
        where = f":{mark.line + self._line + 1}:{mark.column + 1}" if mark is not None else ""
        return InputError(message, file=f"{self._file}{where}")

    def _begin(self) -> None:
        self._root: object = None
        self._holder: dict[str, object] | list[object] | None = None
        self._key: str | None = None
        self._merging = False
        self._outer: list[_Outer] = []
        self._anchors: dict[str, _Anchored] = {}
        self._merges: dict[int, list[object]] = {}
        self._nodes = 0

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        self._nodes += 1
        text: str = event.value
        if type(self._holder) is dict and self._key is None:
            plain = event.implicit[0]
            self._merging = plain and text == "<<"
            self._take_key(as_key(text) if plain else text, event)
            value: Scalar = text
        else:
            value = resolve(text) if event.implicit[0] else self._tagged(event)
            self._place(value, event)
        if event.anchor is not None:
            self._anchors[event.anchor] = _Anchored(value, 1)

    def _tagged(self, event: yaml.ScalarEvent) -> Scalar:
        """A scalar that is quoted or says what it is."""
        tag, text = event.tag, event.value
        if tag is None or tag in ("!", f"{_TAG}str"):
            return str(text)
        if tag not in _PLAIN_TYPES:
            raise self.error(f'the tag "{tag}" is not supported', event.start_mark)
        value = resolve(text)
        if not isinstance(value, _PLAIN_TYPES[tag]):
            raise self.error(f'"{text[:40]}" is not of the type of its tag', event.start_mark)
        return value

    def _start(self, event: yaml.CollectionStartEvent) -> None:
        self._nodes += 1
        if type(self._holder) is dict and self._key is None:
            raise self.error("a key must be a string", event.start_mark)
        if len(self._outer) >= DEEPEST:
            raise self.error(f"nested more than {DEEPEST} deep", event.start_mark)
        if event.tag not in (None, "!", f"{_TAG}map", f"{_TAG}seq"):
            raise self.error(f'the tag "{event.tag}" is not supported', event.start_mark)
        self._outer.append(_Outer(self._holder, self._key, self._merging, event.anchor, self._nodes))
        self._holder = {} if isinstance(event, yaml.MappingStartEvent) else []
        self._key, self._merging = None, False
        if event.anchor is not None:
            self._anchors[event.anchor] = _Anchored(_STARTED, 0)

    def _end(self, event: yaml.CollectionEndEvent) -> None:
        value = self._holder
        if isinstance(value, dict) and self._merges:
            self._merge(value, self._merges.pop(id(value), []), event)
        self._holder, self._key, self._merging, anchor, before = self._outer.pop()
        self._place(value, event)
        if anchor is not None:
            self._anchors[anchor] = _Anchored(value, self._nodes - before + 1)

    def _alias(self, event: yaml.AliasEvent) -> None:
        anchored = self._anchors.get(event.anchor or "")
        if anchored is None:
            raise self.error(f'found undefined alias "{event.anchor}"', event.start_mark)
        if anchored.value is _STARTED:
            raise self.error(f'"{event.anchor}" contains itself', event.start_mark)
        self._nodes += anchored.nodes
        if not self._allowance.spend(anchored.nodes):
            raise self.error("the aliases expand to too much", event.start_mark)
        if type(self._holder) is dict and self._key is None:
            self._take_key(anchored.value if isinstance(anchored.value, str) else None, event)
        else:
            self._place(_copy(anchored.value), event)

    def _take_key(self, key: str | None, event: yaml.NodeEvent) -> None:
        if key is None:
            raise self.error("a key must be a string", event.start_mark)
        assert isinstance(self._holder, dict)
        if key in self._holder:
            raise self.error(f'the key "{key[:60]}" is given twice', event.start_mark)
        self._key = key

    def _place(self, value: object, event: yaml.Event) -> None:
        holder = self._holder
        if holder is None:
            self._root = value
        elif isinstance(holder, list):
            holder.append(value)
        elif self._merging:
            self._merges.setdefault(id(holder), []).append(value)
            self._key, self._merging = None, False
        else:
            assert self._key is not None
            holder[self._key] = value
            self._key = None

    def _merge(self, target: dict[str, object], merged: list[object], event: yaml.Event) -> None:
        """Add what `<<` brings in; keys of the map itself win, then the map named first."""
        for source in (part for value in merged for part in (value if isinstance(value, list) else [value])):
            if not isinstance(source, dict):
                raise self.error('"<<" takes a map or a list of maps', event.start_mark)
            for key, value in source.items():
                target.setdefault(key, value)


def _copy(value: object) -> object:
    """A deep copy, so that changing one object does not change another that used the same anchor."""
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list) else value


# Where a value may begin in block style, and where it or a key may end: patterns that match too much, not too little.
_START: Final = r"(?:^|[-:] ) *"
_END: Final = r" *(?:$|#|:(?: |$))"
_KEY_END: Final = r" *:(?: |$)"
_WILD: Final = (
    # Characters that are line breaks to some and forbidden to others; tabs; byte order marks.
    r"[\x00-\x09\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\xa8\xa9]|\xef\xbb\xbf|\xef\xbf[\xbe\xbf]",
    # Directives and ends of documents.
    r"^%|^\.\.\.",
    # Anchors, aliases, tags, merges, keys that are no scalars.
    rf"{_START}(?:[&*!]|<<|\?(?: |$))",
    # Lists and maps in flow style unless empty; `is_plain` counts the lines that start with `{"`.
    r"(?:^|^---|[-:] ) *(?:\[ *(?:[^\] ]|$)|\{ +(?:[^} ]|$)|\{(?:[^}\" ]|$))|(?:^|[-:] +)\{\"",
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


def documents(data: bytes, *, file: str) -> Iterator[tuple[object, int]]:
    """Every document of a YAML text with the offset at which it ends; empty ones may be left out or be None.

    InputError names the file, and line and column where the text is not UTF-8 or not YAML. Maps have string keys
    only, and share nothing with each other even where the text uses aliases.
    """
    data = _clean(data, file)
    allowance = Allowance(len(data))
    bounds = [0, *_starts(data), len(data)]
    all_plain = is_plain(data)
    line = 0
    for start, end in pairwise(bounds):
        piece = data[start:end]
        if not piece.removeprefix(b"---").strip():
            line += piece.count(b"\n")
            continue
        plain = all_plain or (len(bounds) > 2 and is_plain(piece))
        found = read_plain(piece) if plain else None
        if found is not None:
            yield found, end
        else:
            for document in build(piece.decode(), file=file, line=line, allowance=allowance):
                yield document, end
        line += piece.count(b"\n")


def is_plain(data: bytes) -> bool:
    """Whether a text keeps to the part of YAML that yaml-rs is trusted with."""
    if _wild.search(data) is not None or (not data.endswith(b"\n") and _block_scalar.search(data) is not None):
        return False
    # JSON within a block scalar is text, and common (kubectl's last-applied-configuration); elsewhere it is a map.
    return sum(1 for _ in _json_line.finditer(data)) == sum(1 for _ in _json_text.finditer(data))


def read_plain(data: bytes) -> object:
    """The map that a plain text holds; None where it holds none, or where yaml-rs refuses it for whatever reason."""
    loads = _yaml_rs()
    try:
        found = loads(data.decode()) if loads is not None else None
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


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
    return data.replace(b"\r\n", b"\n") if b"\r" in data else data


def _starts(data: bytes) -> list[int]:
    """Where documents start after the first: "---" at the start of a line means nothing else anywhere in YAML.

    Directives and explicit ends of documents belong to the document before or after them; such a text stays whole.
    """
    if _indivisible.search(data) is not None:
        return []
    return [mark.start() for mark in _mark.finditer(data) if mark.start() > 0]
