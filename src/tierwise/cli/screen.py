"""Standard output: a page that fits the terminal for people, JSON for programs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from io import TextIOWrapper
from typing import TYPE_CHECKING, Final, Literal

import click
import msgspec

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text as Coloured

    from tierwise.explain.page import Page, Text

__all__ = ["coloured", "page_of", "print_data", "print_json", "print_page", "terminal"]

_PLAIN_WIDTH: Final = 100
_NARROWEST: Final = 40
_WIDE: Final = 1000


def print_json(data: Mapping[str, object], *, indent: int = 2) -> None:
    """One JSON object, indented; without indent it takes one line."""
    import json

    text = json.dumps(data)  # ASCII only, so that any encoding of the output will do
    click.echo(msgspec.json.format(text, indent=indent or -1))


def print_data(data: Mapping[str, object], form: str) -> None:
    """An answer for programs: as JSON, or the same as YAML."""
    if form == "json":
        print_json(data)
        return
    import json

    import yaml

    plain = json.loads(json.dumps(data))
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)  # in C where libyaml is there
    click.echo(yaml.dump(plain, Dumper=dumper, sort_keys=False, width=_WIDE), nl=False)


def print_page(render: Callable[[Page], Sequence[Text]], *, everything: bool = False, wide: bool = False) -> None:
    """The lines that `render` makes for this terminal; `wide` ones are as long as they need to be."""
    draws = sys.stdout.isatty() or os.environ.get("FORCE_COLOR") or os.environ.get("TTY_COMPATIBLE") == "1"
    console = terminal() if draws else None
    page = page_of(everything=everything)
    _never_fail_to_encode()
    for line in render(msgspec.structs.replace(page, width=_WIDE) if wide else page):
        if console is not None:
            console.print(coloured(line), soft_wrap=True)
        else:  # importing what draws takes longer than a small cycle, and in a file or a pipe nothing is drawn
            plain = _printable(line.plain)
            sys.stdout.write(f"{plain[: page.width]}{plain[page.width :].rstrip()}\n")


def terminal() -> Console:
    """Standard output as a place to draw on; without colour where it is no terminal."""
    from rich.console import Console

    class Terminal(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # `main` knows what to do; rich would exit on its own

    _never_fail_to_encode()
    colours: Literal["auto"] | None = None if os.environ.get("NO_COLOR") else "auto"
    return Terminal(width=_width(), color_system=colours, highlight=False, markup=False, emoji=False)


def page_of(*, everything: bool) -> Page:
    """The page that fits a terminal."""
    from tierwise.explain.page import Page, glyphs_for

    return Page(_width(), glyphs_for(getattr(sys.stdout, "encoding", "") or "utf-8"), everything)


def _width() -> int:
    """COLUMNS, else what the terminal says, else a width that suits files and pipes."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isascii() and columns.isdigit() and 0 < len(columns) < 10 and int(columns):
        return max(_NARROWEST, int(columns))
    try:
        return max(_NARROWEST, os.get_terminal_size(sys.stdout.fileno()).columns)
    except (OSError, ValueError):
        return _PLAIN_WIDTH


def coloured(line: Text) -> Coloured:
    """The line as rich draws it."""
    from rich.text import Text as Coloured

    return Coloured.assemble(*((_printable(text), style) for text, style in line.pieces))


def _printable(text: str) -> str:
    """The text with every character that a terminal would obey, such as escape, replaced by a question mark."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else "?" for c in text)


def _never_fail_to_encode() -> None:
    """A name that the terminal's encoding lacks is spelled out."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
