"""YAML text to plain data, event by event: the reader whose answers count.

Called by `yaml_text` for whatever its fast path does not take, and imported by it with the first such text, since
PyYAML is slow to import. PyYAML's parser delivers the events; building from them, and not with PyYAML's loaders, keeps
memory small and depth bounded (the C loader overflows the stack on deep nesting), bounds aliases, finds duplicate keys,
and gives every error a line and column.
"""

import math
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Final, NamedTuple, Protocol

import yaml

from tierwise.api.errors import InputError

__all__ = ["DEEPEST", "Allowance", "build", "resolve"]


# What a plain YAML scalar means.
#
# The rules are YAML 1.1's, as PyYAML and kubectl read them (`yes` and `off` are booleans, `010` is eight), without
# those that only surprise: times and `1:30` stay strings, and so does `=`.


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
    if _NOT_FINITE.fullmatch(text):
        return float(text.replace(".", ""))
    return text


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


# Documents from events.


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
    """List or map to continue with when the inner one is complete."""

    holder: "dict[str, object] | list[object] | None"
    key: str | None
    merging: bool
    anchor: str | None
    nodes: int


class _Anchored(NamedTuple):
    """Value that an alias refers to, and its number of nodes when written out."""

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
        tag = event.tag
        text = event.value
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
        self._key = None
        self._merging = False
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
            self._key = None
            self._merging = False
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
    if isinstance(value, list):
        return [_copy(item) for item in value]
    return value
