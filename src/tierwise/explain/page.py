"""The page that people read: how wide it is, which characters it may use, and how text is made to fit it.

Whatever is shown to people is a list of lines, each a `rich.text.Text` that is no wider than the page. Nothing here
prints; the command line does, and the characters that terminals obey instead of showing are its concern.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import msgspec
from rich.cells import cell_len, chop_cells
from rich.text import Text

from tierwise.api.plurals import count, joined

__all__ = [
    "ASCII",
    "UNICODE",
    "Glyphs",
    "Page",
    "count",
    "glyphs_for",
    "heading",
    "joined",
    "section",
    "shortened",
    "wrapped",
]


class Glyphs(msgspec.Struct, frozen=True):
    """The characters that draw trees and bars."""

    tee: str
    corner: str
    pipe: str
    used: str
    new: str
    free: str
    arrow: str
    dots: str
    bullet: str

    @property
    def blank(self) -> str:
        return " " * len(self.pipe)


UNICODE = Glyphs("├─ ", "└─ ", "│  ", "█", "▓", "░", "→", "…", "•")
ASCII = Glyphs("|- ", "`- ", "|  ", "#", "+", ".", "->", "..", "*")


def glyphs_for(encoding: str) -> Glyphs:
    """Box drawing where the encoding has it, ASCII elsewhere."""
    try:
        "".join((UNICODE.tee, UNICODE.corner, UNICODE.used, UNICODE.new, UNICODE.arrow, UNICODE.dots)).encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return UNICODE


class Page(msgspec.Struct, frozen=True):
    """What a rendering may use; `everything` asks for nothing to be folded or left out."""

    width: int = 80
    glyphs: Glyphs = UNICODE
    everything: bool = False


def heading(text: str) -> list[Text]:
    """The title of a section, with the empty line before it."""
    return [Text(""), Text(text, style="bold")]


def section(title: str, lines: list[Text]) -> list[Text]:
    """Lines below their title; nothing where there are none."""
    return [*heading(title), *lines] if lines else []


def shortened(text: str, width: int, dots: str) -> str:
    """A text cut in the middle: names that share a beginning differ at their end."""
    if cell_len(text) <= width:
        return text
    room = max(0, width - cell_len(dots))
    head, tail = (room + 1) // 2, room // 2
    return "".join((chop_cells(text, head)[0] if head else "", dots, _tail(text, tail)))[: max(width, 0)]


def _tail(text: str, width: int) -> str:
    start = len(text)
    while start and cell_len(text[start - 1 :]) <= width:
        start -= 1
    return text[start:]


def wrapped(text: Text, width: int, *, first: Text | str = "", rest: Text | str | None = None) -> list[Text]:
    """Lines of at most `width` cells, broken between words; `first` leads the first line, `rest` the others."""
    lead = first if isinstance(first, Text) else Text(first)
    follow = Text(" " * lead.cell_len) if rest is None else rest if isinstance(rest, Text) else Text(rest)
    room = max(8, width - max(lead.cell_len, follow.cell_len))
    starts = [0, *_breaks(text.plain, room)]
    pieces = text.divide(starts[1:]) if len(starts) > 1 else [text.copy()]
    lines = []
    for number, piece in enumerate(pieces):
        piece.rstrip()
        lines.append(Text.assemble(lead if number == 0 else follow, piece))
    return lines


def _breaks(plain: str, room: int) -> list[int]:
    """Where new lines begin."""
    breaks: list[int] = []
    line = 0  # where the current line begins
    for start, end in _words(plain):
        if start > line and cell_len(plain[line:end].rstrip()) > room:
            breaks.append(start)
            line = start
        while cell_len(plain[line:end].rstrip()) > room:  # a word that no line holds
            line += len(chop_cells(plain[line:end], room)[0])
            breaks.append(line)
    return breaks


def _words(plain: str) -> Iterable[tuple[int, int]]:
    """Words with the blanks that follow them."""
    starts = [i for i in range(len(plain)) if plain[i] != " " and (i == 0 or plain[i - 1] == " ")]
    return pairwise([*starts, len(plain)])
