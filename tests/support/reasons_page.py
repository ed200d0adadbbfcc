"""The tables of the page about reasons, made from the one in the code.

`python -m tests.support.reasons_page` writes them; `tests/unit/explain/test_reasons.py` holds the page against it.
"""

from __future__ import annotations

import re
from typing import Final

from tests.support.commands import ROOT

from tierwise.explain.reasons import Described, sections

__all__ = ["PAGE", "page"]

PAGE: Final = ROOT / "docs" / "reference" / "reasons.md"


def _line(row: Described) -> str:
    code, *others = row.cells.values()
    linked = f'<a id="{code}"></a>`{code}`'
    return f"| {' | '.join((linked, *others))} |\n".replace("|  |", "| |")


def page() -> str:
    """The page as it is, with its tables made again."""
    text = PAGE.read_text(encoding="utf-8")
    for title, rows in sections().items():
        names = rows[0].cells
        table = f"| {' | '.join(names)} |\n|{'---|' * len(names)}\n" + "".join(map(_line, rows))
        found = re.search(rf"^## {title}\n(?:(?!\|).*\n)*((?:\|.*\n)+)", text, re.MULTILINE)
        assert found is not None, title
        text = text[: found.start(1)] + table + text[found.end(1) :]
    return text


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
