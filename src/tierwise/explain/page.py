"""The page that people read: how wide it is, which characters it may use, and how text is made to fit it.

Whatever is shown to people is a list of lines, each a `Text` that is no wider than the page. Nothing here prints; the
command line does, and the characters that terminals obey instead of showing are its concern.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Final

import msgspec

from tierwise.api.plurals import count, joined

__all__ = [
    "ASCII",
    "UNICODE",
    "Glyphs",
    "Page",
    "Text",
    "cell_len",
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


_NARROW: Final = frozenset((*map(chr, range(32, 127)), *"".join(msgspec.structs.astuple(UNICODE))))


def cell_len(text: str) -> int:
    """How many cells of a terminal a text takes: one for each character of most pages, two for some of Asia's."""
    if _NARROW.issuperset(text):
        return len(text)
    from rich.cells import cell_len  # its tables of all characters are slow to import

    return cell_len(text)


class Text:
    """A line in pieces, each with its style in rich's words; a style of the whole line applies below theirs.

    A page for a pipe or a file is drawn without rich, which takes longer to import than most runs take to show.
    """

    __slots__ = ("pieces", "style")

    def __init__(self, plain: str = "", style: str = "") -> None:
        self.style = style
        self.pieces = [(plain, style)] if plain else []

    @classmethod
    def assemble(cls, *parts: str | Text | tuple[str, str]) -> Text:
        """A line of several parts."""
        line = cls()
        for part in parts:
            line.append(*part) if isinstance(part, tuple) else line.append(part)
        return line

    @property
    def plain(self) -> str:
        return "".join(text for text, _ in self.pieces)

    @property
    def cell_len(self) -> int:
        return cell_len(self.plain)

    def append(self, part: str | Text, style: str = "") -> Text:
        """Add a part at the end; this line, so that calls may follow each other."""
        for text, part_style in [(part, style)] if isinstance(part, str) else part.pieces:
            worn = f"{self.style} {part_style}".strip()
            if self.pieces and self.pieces[-1][1] == worn:
                self.pieces[-1] = (self.pieces[-1][0] + text, worn)
            elif text:
                self.pieces.append((text, worn))
        return self

    def rstrip(self) -> Text:
        """The line without the blanks at its end."""
        return self[: len(self.plain.rstrip())]

    def __getitem__(self, span: slice) -> Text:
        part = Text(style=self.style)
        place = 0
        start, end, _ = span.indices(len(self.plain))
        for text, style in self.pieces:
            inside = text[max(0, start - place) : max(0, end - place)]
            part.pieces += [(inside, style)] if inside else []
            place += len(text)
        return part


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
    head = (room + 1) // 2
    tail = room // 2
    return "".join((_head(text, head) if head else "", dots, _tail(text, tail)))[: max(width, 0)]


def _head(text: str, width: int) -> str:
    """As much of a text's beginning as fits."""
    if _NARROW.issuperset(text):
        return text[:width]
    from rich.cells import chop_cells

    return chop_cells(text, width)[0]


def _tail(text: str, width: int) -> str:
    start = len(text)
    while start and cell_len(text[start - 1 :]) <= width:
        start -= 1
    return text[start:]


def wrapped(text: Text, width: int, *, first: Text | str = "", rest: Text | str | None = None) -> list[Text]:
    """Lines of at most `width` cells, broken between words; `first` leads the first line, `rest` the others."""
    lead = first if isinstance(first, Text) else Text(first)
    if rest is None:
        rest = " " * lead.cell_len
    follow = rest if isinstance(rest, Text) else Text(rest)
    room = max(8, width - max(lead.cell_len, follow.cell_len))
    plain = text.plain
    bounds = pairwise((0, *_breaks(plain, room), len(plain)))
    pieces = [text[start:end].rstrip() for start, end in bounds]
    return [Text.assemble(follow if number else lead, piece) for number, piece in enumerate(pieces)]


def _breaks(plain: str, room: int) -> list[int]:
    """Where new lines begin."""
    breaks: list[int] = []
    line = 0  # where the current line begins
    for start, end in _words(plain):
        if start > line and cell_len(plain[line:end].rstrip()) > room:
            breaks.append(start)
            line = start
        while cell_len(plain[line:end].rstrip()) > room:  # a word that no line holds
            line += len(_head(plain[line:end], room))
            breaks.append(line)
    return breaks


def _words(plain: str) -> Iterable[tuple[int, int]]:
    """Words with the blanks that follow them."""
    starts = [i for i in range(len(plain)) if plain[i] != " " and (i == 0 or plain[i - 1] == " ")]
    return pairwise([*starts, len(plain)])
