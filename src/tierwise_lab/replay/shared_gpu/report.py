"""What came of filling nodes whose GPUs are shared: a table, and a report with plots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tierwise.explain.page import Page, Text, wrapped
from tierwise.explain.tables import table
from tierwise_lab.replay.report.html import Head, pair, section, sheet
from tierwise_lab.replay.report.html import table as html_table
from tierwise_lab.replay.report.plots import HALF, WHOLE, Series, bars, coincidences, lines

__all__ = ["filling_lines", "filling_report"]

_ACROSS = "% of GPUs asked for"
_TITLES = ("pods", "refused", "GPUs", "allocated")


def _head(inputs: dict[str, Any]) -> str:
    return (
        f"{inputs['pods']:,} pods that ask for {100 * inputs['arrived_load']:.1f} % of {inputs['gpus']:,} GPUs "
        f"on {inputs['nodes']:,} nodes"
    )


def _cells(outcome: dict[str, Any]) -> tuple[str, ...]:
    pods = outcome["pods"]
    gpus = outcome["gpus"]
    shares = f"{gpus['allocated']:,.1f}", f"{100 * gpus['allocation']:.2f} %"
    return f"{pods['arrived']:,}", f"{pods['refused']:,}", *shares


def _verdict(outcomes: Sequence[dict[str, Any]]) -> str:
    """Which policy allocates most, and by how much; or that none does."""
    shares = {outcome["profile"]: f"{100 * outcome['gpus']['allocation']:.2f} %" for outcome in outcomes}
    best = max(outcomes, key=lambda outcome: float(outcome["gpus"]["allocation"]))["profile"]
    if len(outcomes) == 1:
        return f"{best} allocates {shares[best]} of the GPUs."
    if len(set(shares.values())) == 1:
        return f"No difference: {' and '.join(shares)} allocate {shares[best]} of the GPUs."
    others_text = ", ".join(f"{name} {share}" for name, share in shares.items() if name != best)
    return f"{best} allocates most, {shares[best]} of the GPUs ({others_text})."


def filling_lines(page: Page, results: dict[str, Any], command: str = "") -> list[Text]:
    """A verdict, one line for each policy, and the command that repeats it."""
    columns = ("profile", *(f"{title}>" for title in _TITLES))
    rows = [(outcome["profile"], *_cells(outcome)) for outcome in results["outcomes"]]
    return [
        *wrapped(Text(_verdict(results["outcomes"]), style="bold"), page.width),
        Text(),
        *wrapped(Text(_head(results["inputs"])), page.width),
        Text(),
        *table(page, columns, rows),
        *([Text(), *wrapped(Text(f"repeat: {command}", style="dim"), page.width)] if command else []),
    ]


def filling_report(results: dict[str, Any], command: str = "") -> str:
    """The page for the results of fillings; `command` repeats them."""
    outcomes = results["outcomes"]
    names = [outcome["profile"] for outcome in outcomes]
    sizes = [size_row["gpus"] for size_row in outcomes[0]["pods_by_size"]]
    refused = [
        Series(
            o["profile"], [100 * size_row["refused"] / max(1, size_row["arrived"]) for size_row in o["pods_by_size"]]
        )
        for o in outcomes
    ]
    intro = "Share of all GPUs that pods asked for and did not get, by what was asked for."
    spoilt = "Share of all GPUs that are free and of no use to pods like these."
    away = bars(sizes, refused, label="Refused by size", unit="%", show=lambda value: f"{value:.1f} %")
    body = (
        _over("Not given", intro, outcomes, lambda sample: sample["asked"] - sample["allocated"], WHOLE),
        pair(
            _over("Fragmented", spoilt, outcomes, lambda sample: sample["fragmented"], HALF),
            section("Refused by size", "Share of the pods that found no place, by their GPUs.", away),
        ),
        html_table("All numbers", names, _rows(outcomes)),
    )
    return sheet(Head("Shared GPUs", [_verdict(outcomes)], _head(results["inputs"]), names, command), body)


def _over(
    title: str, text: str, outcomes: Sequence[dict[str, Any]], value_of: Callable[[dict[str, float]], float], width: int
) -> str:
    """A share of all GPUs as the cluster fills."""
    series = [
        Series(o["profile"], [100 * value_of(s) for s in o["samples"]], [100 * s["asked"] for s in o["samples"]])
        for o in outcomes
    ]
    shown = lines(series, label=title, unit="%", across=_ACROSS, width=width)
    return section(title, f"{text} {coincidences(series)}".strip(), shown)


def _rows(outcomes: Sequence[dict[str, Any]]) -> list[tuple[str, ...]]:
    columns = [_cells(outcome) for outcome in outcomes]
    return [(title, *(cells[i] for cells in columns)) for i, title in enumerate(_TITLES)]
