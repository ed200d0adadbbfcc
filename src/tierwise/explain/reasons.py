"""What each code means and what to do about it: the table that the page about reasons shows.

The rows are in `reasons.txt`, below the headings of the page and the names of their columns, in Markdown. A code may
have a row in several places: as why a job waits, and as why nothing was evicted for it.
"""

from __future__ import annotations

import re
from functools import cache
from pkgutil import get_data  # importlib.resources is too slow to start
from typing import Final, NamedTuple

from tierwise.api.codec import Raw
from tierwise.explain.page import Page, Text, wrapped
from tierwise.explain.rejection_wire import FORMAT

__all__ = [
    "Described",
    "advice_lines",
    "advice_wire",
    "codes",
    "described",
    "described_lines",
    "described_wire",
    "sections",
]

_LINK: Final = re.compile(r"\[([^]]*)\]\([^)]*\)")
_PAGE: Final = "docs/reference/reasons.md"


class Described(NamedTuple):
    """One row: its cells by the names of their columns."""

    section: str
    cells: dict[str, str]

    def plain(self, column: str) -> str:
        """Text of a cell, without the marks of links and code."""
        return _LINK.sub(r"\1", self.cells[column]).replace("`", "")


@cache
def sections() -> dict[str, list[Described]]:
    """The rows of every table, by its heading."""
    rows_by_heading: dict[str, list[Described]] = {}
    section = ""
    columns = [""]
    for line in (get_data("tierwise.explain", "reasons.txt") or b"").decode().splitlines():
        first_cell, *further_cells = (cell.strip() for cell in line.split(" | "))
        if first_cell.startswith("# "):
            section = first_cell[2:]
            columns = further_cells
            rows_by_heading[section] = []
        else:
            rows_by_heading[section].append(
                Described(section, dict(zip(columns, (first_cell, *further_cells), strict=True)))
            )
    return rows_by_heading


def codes() -> list[str]:
    """Every code that a reason or a problem may have."""
    return [row.cells["Code"] for rows in sections().values() for row in rows]


def described(code: str) -> list[Described]:
    """The rows of a code; none where there is no such code."""
    return [row for rows in sections().values() for row in rows if row.cells["Code"] == code]


def described_wire(code: str) -> Raw:
    """All that is known of a code, for programs."""
    rows = [{"about": row.section, "cause": row.plain("Means"), **_advice(row)} for row in described(code)]
    return {"formatVersion": FORMAT, "reason": code, "meanings": rows}


def described_lines(page: Page, code: str) -> list[Text]:
    """All rows of docs/reference/reasons.md about a code, as lines of text."""
    lines = [Text(code, "bold")]
    for row in described(code):
        lines += [*_indented(page, f"{row.section}: {row.plain('Means')}"), *_advised(page, row)]
    return lines


def advice_wire(code: str) -> Raw:
    """What to do, and where more is said; nothing where a plugin of another package made the code up."""
    return next((_advice(row) for row in described(code)), {})


def advice_lines(page: Page, code: str) -> list[Text]:
    """What to do about a reason with this code, as lines of text; empty for an unknown code."""
    return [line for row in described(code)[:1] for line in _advised(page, row)]


def _advice(row: Described) -> Raw:
    return {"cure": row.plain("What to do"), "reference": f"{_PAGE}#{row.cells['Code']}"}


def _advised(page: Page, row: Described) -> list[Text]:
    return _indented(page, "what to do: {cure} ({reference})".format(**_advice(row)))


def _indented(page: Page, text: str) -> list[Text]:
    return wrapped(Text(text), page.width, first="    ", rest="      ")
