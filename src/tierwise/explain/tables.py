"""Tables that fit the page: columns as wide as their cells need, the flexible ones as wide as there is room."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import zip_longest
from typing import Final

import msgspec

from tierwise.explain.page import Glyphs, Page, Text, cell_len, count, shortened, wrapped

__all__ = ["Cell", "TableColumn", "bar", "folded", "meter", "pairs", "table"]


# Utilisation as a bar: what was used before, what came on top, what is free.


_USED = "blue"
_NEW = "green"
_FREE = "bright_black"
_OVER = "red"


def bar(glyphs: Glyphs, width: int, *, before: int, after: int, total: int) -> Text:
    """A bar of so many cells. Something new is always visible, and only what is full looks full."""
    if total <= 0 or width <= 0:
        return Text(" " * max(width, 0))
    old = min(before, after)
    filled = _cells(after, total, width)
    used_cells = min(_cells(old, total, width), filled)
    if after > old and used_cells == filled:
        used_cells, filled = (
            (used_cells - 1, filled) if used_cells and (filled == width or after >= total) else (used_cells, filled + 1)
        )
    style = _OVER if after > total else _USED
    return Text.assemble(
        (glyphs.used * used_cells, style),
        (glyphs.new * (filled - used_cells), _NEW),
        (glyphs.free * (width - filled), _FREE),
    )


def meter(glyphs: Glyphs, width: int, share: float) -> Text:
    """A bar for one share between 0 and 1."""
    return bar(glyphs, width, before=round(1000 * share), after=round(1000 * share), total=1000)


def _cells(amount: int, total: int, width: int) -> int:
    """Rounded, but none only for nothing, and all only for everything."""
    if amount >= total:
        return width
    if amount <= 0:
        return 0
    return min(max(1, round(width * amount / total)), max(1, width - 1))


Cell = str | Text
_GAP = 2


_COLUMN: Final = r"(.*?)(>?)(?:([:~])([0-9]+))?"


class TableColumn(msgspec.Struct, frozen=True):
    """A column; one with a `least` width gives way down to it, one that `wraps` takes several lines then."""

    title: str
    right: bool = False
    least: int = 0
    wraps: bool = False

    @classmethod
    def of(cls, text: str) -> TableColumn:
        """By its title: behind it `>` sets it to the right, `:20` lets it give way to 20 cells, `~20` wraps it then."""
        title, right, wrapping, least_width = re.fullmatch(_COLUMN, text).groups()  # type: ignore[union-attr]  # everything matches
        return cls(title, bool(right), int(least_width or 0), wrapping == "~")


def table(
    page: Page,
    titles: Sequence[TableColumn | str],
    rows: Sequence[Sequence[Cell]],
    *,
    indent: int = 2,
    most: int | None = None,
    more: str = "more",
) -> list[Text]:
    """Lines of a table with its titles; without rows nothing at all. A column may be given as `TableColumn.of` says.

    Of more than `most` rows the first, unless everything is asked for, and how many there are `more`.
    """
    if not rows:
        return []
    columns = [TableColumn.of(title) if isinstance(title, str) else title for title in titles]
    shown = rows if most is None or page.everything else rows[:most]
    texts = [[cell if isinstance(cell, Text) else Text(cell) for cell in row] for row in shown]
    widths = _widths(page, columns, texts, indent)
    heads = [Text(column.title, style="bright_black") for column in columns]
    body = [heads, *texts] if any(column.title for column in columns) else texts
    lines = []
    for row in body:
        lines.extend(_row(page, columns, widths, row, indent))
    return [*lines, *folded(len(rows) - len(shown), more, indent=indent)]


def folded(number: int, more: str, *, indent: int = 2) -> list[Text]:
    """A word about what is left out; nothing where nothing is."""
    told = f"{number} more" if more == "more" else count(number, more)
    if number:
        return [Text(f"{' ' * indent}and {told}; --all shows them", style="dim")]
    return []


def pairs(page: Page, rows: Sequence[tuple[str, Cell]], *, indent: int = 2) -> list[Text]:
    """Names and values below each other, as at the head of a description."""
    labelled = [(Text(name, style="bright_black"), value) for name, value in rows]
    return table(page, ("", "~20"), labelled, indent=indent)


def _widths(page: Page, columns: Sequence[TableColumn], rows: Sequence[Sequence[Text]], indent: int) -> list[int]:
    widths = [
        max(cell_len(column.title), *(row[number].cell_len for row in rows)) for number, column in enumerate(columns)
    ]
    over = indent + sum(widths) + _GAP * (len(widths) - 1) - page.width
    while over > 0:
        flexible = [n for n, column in enumerate(columns) if column.least and widths[n] > column.least]
        if not flexible:
            break
        widest = max(flexible, key=lambda n: (columns[n].wraps, widths[n]))
        cut = min(over, widths[widest] - columns[widest].least) if columns[widest].wraps else 1
        widths[widest] -= cut
        over -= cut
    return widths


def _row(
    page: Page, columns: Sequence[TableColumn], widths: Sequence[int], row: Sequence[Text], indent: int
) -> list[Text]:
    cells = [_cell(page, column, width, text) for column, width, text in zip(columns, widths, row, strict=True)]
    lines = []
    for parts in zip_longest(*cells, fillvalue=Text("")):
        line = Text(" " * indent)
        for column, width, part in zip(columns, widths, parts, strict=True):
            space = " " * max(0, width - part.cell_len)
            line.append(Text.assemble(space, part) if column.right else Text.assemble(part, space))
            line.append(" " * _GAP)
        lines.append(line.rstrip())
    return lines


def _cell(page: Page, column: TableColumn, width: int, text: Text) -> list[Text]:
    if text.cell_len <= width:
        return [text]
    if column.wraps:
        return wrapped(text, width)
    return [Text(shortened(text.plain, width, page.glyphs.dots), style=text.style)]
