"""The outcome of a replay as a table: one line per number, one column per contender."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rich.text import Text

from tierwise.explain.page import Page, wrapped
from tierwise.explain.tables import Cell, Column, table

__all__ = ["ROWS", "duration", "lines"]

Read = Callable[[dict[str, Any]], str]


def _share(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.2f} %"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.2f}"


def duration(seconds: float | None) -> str:
    """Seconds as people say them, two units at most."""
    if seconds is None:
        return "-"
    if seconds < 60:
        return f"{seconds:.1f} s"
    if seconds < 3600:
        return f"{seconds / 60:.1f} min"
    return f"{seconds / 3600:,.1f} h" if seconds < 86400 else f"{seconds / 86400:,.1f} d"


ROWS: Sequence[tuple[str, Read]] = (
    ("jobs finished", lambda o: f"{o['jobs']['finished']:,}"),
    (
        "jobs running, waiting, refused",
        lambda o: " ".join(str(o["jobs"][k]) for k in ("running", "waiting", "refused")),
    ),
    ("GPU allocation", lambda o: _share(o["gpus"]["allocation"])),
    ("GPU occupancy", lambda o: _share(o["gpus"]["occupancy"])),
    ("wait, mean", lambda o: duration(o["times"]["wait_seconds"]["mean"])),
    ("wait, 95th percentile", lambda o: duration(o["times"]["wait_seconds"]["p95"])),
    ("completion, mean", lambda o: duration(o["times"]["completion_seconds"]["mean"])),
    ("completion, 95th percentile", lambda o: duration(o["times"]["completion_seconds"]["p95"])),
    ("gangs of several pods", lambda o: f"{o['spread']['gangs']:,}"),
    ("leaves per gang, mean", lambda o: _number(o["spread"]["leaves"]["mean"])),
    ("leaves per gang, max", lambda o: _number(o["spread"]["leaves"]["max"])),
    ("tiers crossed, mean", lambda o: _number(o["spread"]["tier"]["mean"])),
    ("tiers crossed, max", lambda o: _number(o["spread"]["tier"]["max"])),
    ("ring across leaves, buffers per step", lambda o: _number(o["spread"]["ring_leaf"]["mean"])),
    ("ring across spines", lambda o: _number(o["spread"]["ring_spine"]["mean"])),
    ("all-to-all across leaves", lambda o: _number(o["spread"]["all_leaf"]["mean"])),
    ("all-to-all across spines", lambda o: _number(o["spread"]["all_spine"]["mean"])),
    ("fragmentation, gangs of 8 GPUs", lambda o: _share(o["fragmentation"].get("8"))),
    ("fragmentation, gangs of 64 GPUs", lambda o: _share(o["fragmentation"].get("64"))),
    ("gangs evicted", lambda o: f"{o['stops']['evictions']:,}"),
    ("gangs stopped by failing hosts", lambda o: f"{o['stops']['failures']:,}"),
    ("GPU-hours held", lambda o: f"{o['gpu_hours']['held']:,.0f}"),
    ("GPU-hours lost", lambda o: f"{o['gpu_hours']['lost']:,.1f}"),
)
"""The numbers that are shown, in their order."""


def lines(page: Page, results: dict[str, Any]) -> list[Text]:
    """What was replayed, and the numbers side by side."""
    told = results["inputs"]
    load = _share(told["offered_load"])
    head = (
        f"{told['jobs']:,} jobs of {told['trace']} within {duration(told['span_seconds'])}, "
        f"offering {load} of {told['gpus']:,} GPUs on {told['hosts']:,} hosts"
    )
    outcomes = results["outcomes"]
    columns = (Column("", least=16), *(Column(o["profile"], right=True) for o in outcomes))
    rows: list[Sequence[Cell]] = [(name, *(read(o) for o in outcomes)) for name, read in ROWS]
    return [*wrapped(Text(head, style="bold"), page.width), Text(), *table(page, columns, rows)]
