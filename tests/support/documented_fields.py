"""The table of labels and annotations as its page shows it: where each counts, and in which form."""

from __future__ import annotations

import re
from functools import cache
from typing import Final, NamedTuple

from tests.support.keys_page import PAGE
from tests.support.tenant_page import PAGE as SECURITY

__all__ = ["Row", "documented_inputs", "documented_keys"]

_CELLS: Final = 8


class Row(NamedTuple):
    """One label or annotation."""

    key: str
    forms: tuple[str, ...]
    places: tuple[str, ...]  # the objects that it counts on
    owner: str
    says: str


@cache
def documented_keys() -> tuple[Row, ...]:
    """Every row of the page."""
    rows = []
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == _CELLS and cells[0].startswith("`"):
            key, form, on, _, owner, says, *_ = cells
            rows.append(Row(key.strip("`"), tuple(form.split(", ")), tuple(on.split(", ")), owner, says))
    return tuple(rows)


@cache
def documented_inputs() -> tuple[str, ...]:
    """Every field, object, label and annotation in the table of what tenants write, on the page about security."""
    table = SECURITY.read_text(encoding="utf-8").split("| Written |")[1].partition("\n\n")[0]
    cells = (line.split(" | ")[0] for line in table.splitlines()[2:])
    return tuple(name for cell in cells for name in re.findall(r"`([^`]+)`", cell))
