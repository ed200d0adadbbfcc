"""Regular expressions in Go's syntax, by RE2: the time that matching takes grows with the text and no faster.

The library comes without types, writes what it refuses to the terminal, and is slow to import; so it is called here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

__all__ = ["Pattern", "compile_pattern", "options"]


class _Match(Protocol):
    """As much of a match as is used."""

    def group(self) -> str: ...
    def span(self) -> tuple[int, int]: ...
    def start(self) -> int: ...


class Pattern(Protocol):
    """As much of a compiled pattern as is used."""

    groups: int
    programsize: int

    def search(self, text: str | bytes) -> _Match | None: ...
    def finditer(self, text: str | bytes) -> Iterator[_Match]: ...


def options(**settings: object) -> Any:
    """RE2's options with these, and without messages on the terminal."""
    import re2

    options_object = re2.Options()
    options_object.log_errors = False
    for name, value in settings.items():
        setattr(options_object, name, value)
    return options_object


def compile_pattern(text: str | bytes, **settings: object) -> Pattern:
    """A compiled pattern; ValueError, with what is wrong, where it is none."""
    import re2

    if _asks_for_a_byte(text):
        raise ValueError("invalid escape sequence: \\C")
    try:
        pattern: Pattern = re2.compile(text, options=options(**settings))
    except re2.error as error:
        why = error.args[0] if error.args else "unknown error"
        raise ValueError(why.decode(errors="replace") if isinstance(why, bytes) else str(why)) from None
    return pattern


def _asks_for_a_byte(text: str | bytes) -> bool:
    r"""Whether a pattern has \C, any single byte: RE2 knows it, and Go does not. Between \Q and \E it is plain text."""
    pattern = text.decode("latin-1") if isinstance(text, bytes) else text
    place = 0
    while 0 <= (place := pattern.find("\\", place)) < len(pattern) - 1:
        if pattern[place + 1] == "C":
            return True
        if pattern[place + 1] == "Q":
            end = pattern.find("\\E", place + 2)
            place = end if end >= 0 else len(pattern)
        place += 2
    return False
