"""How many jobs started inside the ranges that were stated for them, as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.text import Text

from tierwise.explain.text.page import Page, wrapped
from tierwise.explain.text.tables import Cell, TableColumn, table
from tierwise.replay.report.table import duration

__all__ = ["calibration_lines"]

_COLUMNS = (
    TableColumn("profile", least=8),
    TableColumn("GPUs"),
    TableColumn("asked", right=True),
    TableColumn("in 50 %", right=True),
    TableColumn("in 90 %", right=True),
    TableColumn("uncorrected", right=True),
    TableColumn("waited", right=True),
    TableColumn("width", right=True),
)


def calibration_lines(page: Page, found: Sequence[dict[str, Any]]) -> list[Text]:
    """One line for each profile, and one for each size of jobs below it."""
    rows: list[list[Cell]] = []
    for one in found:
        rows.append([Text(str(one["name"]), style="bold"), "all", *_numbers(one)])
        rows += [["", _size(part["gpus"]), *_numbers(part)] for part in one["by_size"]]
    note = (
        "Each job was asked about when it began to wait, with what was known then. Shares of starts inside the stated "
        "ranges; uncorrected: those of runs ahead alone; waited and width: medians of the wait and of the 50 % range."
    )
    return [*table(page, _COLUMNS, rows, indent=0), Text(""), *wrapped(Text(note, style="dim"), page.width)]


def _size(gpus: Sequence[int]) -> str:
    low, high = gpus
    return str(low) if low == high else f"{low}-{high}" if high < 1 << 30 else f"{low} and more"


def _numbers(part: dict[str, Any]) -> list[Cell]:
    return [
        str(part["asked"]),
        _share(part["inside_50"]),
        _share(part["inside_90"]),
        f"{_share(part['runs_alone_50'])} {_share(part['runs_alone_90'])}",
        duration(part["waited_seconds_median"]),
        duration(part["width_50_seconds_median"]),
    ]


def _share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f} %"
