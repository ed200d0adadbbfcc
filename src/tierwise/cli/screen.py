"""Standard output: a page that fits the terminal for people, JSON for programs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from io import TextIOWrapper
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from rich.text import Text

    from tierwise.explain.page import Page

__all__ = ["print_json", "print_page"]

_PLAIN_WIDTH: Final = 100
_NARROWEST: Final = 40


def print_json(data: Mapping[str, object]) -> None:
    """One JSON object, indented."""
    import json

    import msgspec

    text = json.dumps(data)  # ASCII only, so that any encoding of the output will do
    click.echo(msgspec.json.format(text, indent=2))


def print_page(render: Callable[[Page], Sequence[Text]], *, everything: bool = False) -> None:
    """The lines that `render` makes for this terminal; without colour where nobody would see it."""
    from rich.console import Console

    from tierwise.explain.page import Page, glyphs_for

    class Terminal(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # `main` knows what to do; rich would exit on its own

    _never_fail_to_encode()
    console = Terminal(
        width=_width(),
        color_system=None if os.environ.get("NO_COLOR") else "auto",
        highlight=False,
        markup=False,
        emoji=False,
    )
    for line in render(Page(_width(), glyphs_for(console.encoding), everything)):
        line.plain = _printable(line.plain)
        console.print(line, soft_wrap=True)


def _width() -> int:
    """COLUMNS, else what the terminal says, else a width that suits files and pipes."""
    given = os.environ.get("COLUMNS", "")
    if given.isdigit() and int(given) > 0:
        return max(_NARROWEST, int(given))
    try:
        return max(_NARROWEST, os.get_terminal_size(sys.stdout.fileno()).columns)
    except (OSError, ValueError):
        return _PLAIN_WIDTH


def _printable(text: str) -> str:
    """The text with every character that a terminal would obey, such as escape, replaced by a question mark."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)


def _never_fail_to_encode() -> None:
    """A name that the terminal's encoding lacks is spelled out."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
