"""What came of filling nodes whose GPUs are shared: a table, and a report with plots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rich.text import Text

from tierwise.explain.text.page import Page
from tierwise.explain.text.tables import TableColumn, table
from tierwise.replay.report.html import pair, section, sheet
from tierwise.replay.report.html import table as html_table
from tierwise.replay.report.plots import HALF, WHOLE, Series, bars, lines

__all__ = ["filling_lines", "filling_report"]

_ACROSS = "% of GPUs asked for"
_TITLES = ("pods", "refused", "GPUs", "allocated")


def _head(told: dict[str, Any]) -> str:
    return (
        f"{told['pods']:,} pods that ask for {100 * told['arrived_load']:.1f} % of {told['gpus']:,} GPUs "
        f"on {told['nodes']:,} nodes"
    )


def _cells(outcome: dict[str, Any]) -> tuple[str, ...]:
    pods, gpus = outcome["pods"], outcome["gpus"]
    shares = f"{gpus['allocated']:,.1f}", f"{100 * gpus['allocation']:.2f} %"
    return f"{pods['arrived']:,}", f"{pods['refused']:,}", *shares


def filling_lines(page: Page, results: dict[str, Any]) -> list[Text]:
    """One line for each policy."""
    columns = (TableColumn("profile"), *(TableColumn(title, right=True) for title in _TITLES))
    rows = [(outcome["profile"], *_cells(outcome)) for outcome in results["outcomes"]]
    return [Text(_head(results["inputs"]), style="bold"), Text(), *table(page, columns, rows)]


def filling_report(results: dict[str, Any]) -> str:
    """The page for the results of fillings."""
    outcomes = results["outcomes"]
    names = [outcome["profile"] for outcome in outcomes]
    sizes = [one["gpus"] for one in outcomes[0]["pods_by_size"]]
    refused = [
        Series(o["profile"], [100 * one["refused"] / max(1, one["arrived"]) for one in o["pods_by_size"]])
        for o in outcomes
    ]
    missing = _over(outcomes, lambda sample: sample["asked"] - sample["allocated"], WHOLE)
    spoilt = _over(outcomes, lambda sample: sample["fragmented"], HALF)
    away = bars(sizes, refused, unit="%")
    body = (
        section("Not given", "Share of all GPUs that pods asked for and did not get, by what was asked for.", missing),
        pair(
            section("Fragmented", "Share of all GPUs that are free and of no use to pods like these.", spoilt),
            section("Refused by size", "Share of the pods that found no place, by their GPUs.", away),
        ),
        html_table("All numbers", names, _rows(outcomes)),
    )
    return sheet("Shared GPUs", _head(results["inputs"]), names, body)


def _over(outcomes: Sequence[dict[str, Any]], read: Callable[[dict[str, float]], float], width: int) -> str:
    """A share of all GPUs as the cluster fills."""
    series = [
        Series(o["profile"], [100 * read(s) for s in o["samples"]], [100 * s["asked"] for s in o["samples"]])
        for o in outcomes
    ]
    return lines(series, unit="%", across=_ACROSS, width=width)


def _rows(outcomes: Sequence[dict[str, Any]]) -> list[tuple[str, ...]]:
    columns = [_cells(outcome) for outcome in outcomes]
    return [(title, *(cells[i] for cells in columns)) for i, title in enumerate(_TITLES)]
