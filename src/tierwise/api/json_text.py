"""JSON text to plain data: one value, one per line, or one after the other; and long lists item by item.

Called by the manifest loader. msgspec reads every value; the standard library only finds where the next one begins,
and says where a text is broken. Of keys given twice in a JSON object the last one counts, as for kubectl.
"""

import json
import os
import re
from codecs import getincrementaldecoder
from collections.abc import Iterator
from typing import IO, Final, NoReturn

import msgspec

from tierwise.api.errors import InputError

__all__ = ["ItemReader", "values"]

_SPACE: Final = " \t\r\n"


def values(data: bytes, *, file: str) -> list[object]:
    """Every value of a text; InputError names the file, and line and column where the text is broken."""
    try:
        try:
            return msgspec.json.Decoder().decode_lines(data)  # or with any other white space between them
        except msgspec.DecodeError:
            return list(_in_sequence(data.decode(), file))
    except RecursionError:
        raise InputError("nested too deeply", file=file) from None
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError("the text is not UTF-8", file=f"{file}:{line}") from None


def _in_sequence(text: str, file: str) -> Iterator[object]:
    """Values with nothing but white space between them."""
    scan = json.JSONDecoder(parse_int=len, parse_float=len, parse_constant=_refuse).raw_decode
    end = _skip_space(text, 0)
    while end < len(text):
        start = end
        try:
            _, end = scan(text, start)
            yield msgspec.json.decode(text[start:end])
        except json.JSONDecodeError as error:
            raise InputError(error.msg, file=f"{file}:{error.lineno}:{error.colno}") from None
        except (msgspec.DecodeError, ValueError) as error:
            line = text.count("\n", 0, start) + 1
            raise InputError(str(error), file=f"{file}:{line}") from None
        end = _skip_space(text, end)


def _skip_space(text: str, position: int) -> int:
    while position < len(text) and text[position] in _SPACE:
        position += 1
    return position


def _refuse(constant: str) -> object:
    raise ValueError(f"{constant} is not JSON")


# Lists of objects, as `kubectl get -o json` writes them, without ever holding the whole text.


_CHUNK: Final = 1 << 20
_ENDS: Final = 1 << 14
"""Bytes at the beginning and at the end of a text that are looked at to see whether it is a list."""

_ITEMS: Final = rb'"items"\s*:\s*\['
_AFTER: Final = (*_SPACE, ",", "]")
_SCAN: Final = json.JSONDecoder(parse_int=len, parse_float=len, parse_constant=_refuse).raw_decode


class ItemReader:
    """Reads the items of a JSON object that is a list, one at a time."""

    def __init__(self, text: IO[bytes], *, file: str, head: dict[str, object], start: int) -> None:
        self.head = head  # what the list says of itself
        self._text = text
        self._file = file
        self._decode = getincrementaldecoder("utf-8")().decode
        text.seek(0)
        # The text before the items counts for line and column.
        self._window = text.read(start).decode()
        self._ended = False
        self._lines = self._column = 0
        self._position = len(self._window)

    @classmethod
    def over(cls, text: IO[bytes], *, file: str) -> "ItemReader | None":
        """A reader for a text that is certainly one list; None for all others, which are read whole."""
        text.seek(0)
        beginning = text.read(_ENDS)
        text.seek(-min(text.seek(0, os.SEEK_END), _ENDS), os.SEEK_END)
        end = text.read()
        match = re.search(_ITEMS, beginning)
        if match is None:
            return None
        before = _members(beginning[: match.start()].rstrip().removesuffix(b",") + b"}")
        after = _members(b"{" + end.rpartition(b"]")[2].lstrip().removeprefix(b","))
        if before is None or after is None or "items" in after:
            return None
        # A list of one kind says so before its items, which do not; where that comes later, the items say it.
        kind = before.get("kind", after.get("kind"))
        if not isinstance(kind, str) or not (kind == "List" or ("kind" in before and kind.endswith("List"))):
            return None
        return cls(text, file=file, head={**after, **before, "kind": kind}, start=match.end())

    def __iter__(self) -> Iterator[tuple[object, int]]:
        """Every item, and at which byte of the text reading has come by then."""
        expected = "]"  # what may come here besides an item
        while (token := self._next()) != "]":
            if token == ",":
                if expected != ",":
                    self._broken("Expecting value")
                self._position += 1
                expected = ""
                continue
            if expected == ",":
                self._broken("Expecting ',' delimiter")
            yield self._item(), self._text.tell()
            expected = ","
        if not expected:
            self._broken("Expecting value")
        self._position += 1
        self._close()

    def _item(self) -> object:
        while True:
            try:
                _, end = _SCAN(self._window, self._position)
                if self._ended or self._window[end : end + 1] in _AFTER:  # a number may go on beyond the window
                    value: object = msgspec.json.decode(self._window[self._position : end])
                    self._position = end
                    return value
            except json.JSONDecodeError as error:
                if self._ended:
                    self._position = error.pos
                    self._broken(error.msg)
            except (msgspec.DecodeError, ValueError) as error:
                self._broken(str(error))
            self._read_on()

    def _next(self) -> str:
        """The next character that is no white space; "" where there is none."""
        while True:
            self._position = _skip_space(self._window, self._position)
            if self._position < len(self._window):
                return self._window[self._position]
            if self._ended:
                self._broken("Expecting value")
            self._read_on()

    def _read_on(self) -> None:
        """Read more, as much as there is in the window at least, and forget what was read before."""
        dropped = self._window[: self._position]
        unread = self._window[self._position :]
        lines = dropped.count("\n")
        self._column = len(dropped) - dropped.rfind("\n") - 1 if lines else self._column + len(dropped)
        self._lines += lines
        data = self._text.read(max(_CHUNK, len(unread)))
        self._ended = not data
        try:
            self._window = unread + self._decode(data, final=self._ended)
            self._position = 0
        except UnicodeDecodeError:
            self._window, self._position = unread, len(unread)
            self._broken("the text is not UTF-8")

    def _close(self) -> None:
        """Nothing but the end of the list may follow, and it must say what it seemed to say."""
        while not self._ended:
            self._read_on()
        remainder = self._window[self._position :].strip()
        if remainder != "}" and not remainder.startswith(","):
            self._broken("Expecting ',' delimiter")
        members = _members(b"{" + remainder.removeprefix(",").encode())
        if members is None or "items" in members or members.get("kind", self.head["kind"]) != self.head["kind"]:
            self._broken("the list does not end as it began")

    def _broken(self, what: str) -> NoReturn:
        before = self._window[: self._position]
        lines = before.count("\n")
        column = len(before) - before.rfind("\n") if lines else self._column + len(before) + 1
        raise InputError(what, file=f"{self._file}:{self._lines + lines + 1}:{column}")


def _members(text: bytes) -> dict[str, object] | None:
    """A JSON object that is small; None for anything else."""
    try:
        members = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    return members if isinstance(members, dict) else None
