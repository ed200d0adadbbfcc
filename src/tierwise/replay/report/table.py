"""The outcome of a replay as a table: one line per number, one column per contender."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rich.text import Text

from tierwise.explain.text.page import Page, wrapped
from tierwise.explain.text.tables import Cell, TableColumn, table

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
    columns = (TableColumn("", least=16), *(TableColumn(o["profile"], right=True) for o in outcomes))
    rows: list[Sequence[Cell]] = [(name, *(read(o) for o in outcomes)) for name, read in ROWS]
    return [
        *wrapped(Text(head, style="bold"), page.width),
        Text(),
        *table(page, columns, rows),
        *_by_size(page, outcomes),
        *_by_queue(page, outcomes),
    ]


def _by_size(page: Page, outcomes: Sequence[dict[str, Any]]) -> list[Text]:
    """Leaves by size of gangs; nothing where no gang has several pods."""
    sizes = [one["pods"] for one in outcomes[0]["spread_by_size"]]
    if not sizes:
        return []
    title = Text("leaves per gang by its pods: mean, max, and times the fewest possible", style="bold")
    columns = (TableColumn("pods"), *(TableColumn(o["profile"], right=True) for o in outcomes))
    rows: list[Sequence[Cell]] = [(size, *(_leaves(o, size) for o in outcomes)) for size in sizes]
    return [Text(), *wrapped(title, page.width), Text(), *table(page, columns, rows)]


def _leaves(outcome: dict[str, Any], size: str) -> str:
    found = next((one for one in outcome["spread_by_size"] if one["pods"] == size), None)
    if found is None:
        return "-"
    return f"{found['leaves']['mean']:.2f} {found['leaves']['max']:.0f} ×{found['stretch']['mean']:.2f}"


def _by_queue(page: Page, outcomes: Sequence[dict[str, Any]]) -> list[Text]:
    """How long jobs of each queue waited, and what they lost; nothing where there is one."""
    queues = [one["queue"] for one in outcomes[0]["queues"]]
    if len(queues) < 2:
        return []
    title = Text("by queue: mean wait, and GPU-hours lost", style="bold")
    columns = (
        TableColumn("queue"),
        TableColumn("jobs", right=True),
        *(TableColumn(o["profile"], right=True) for o in outcomes),
    )
    rows: list[Sequence[Cell]] = [
        (name, f"{outcomes[0]['queues'][i]['jobs']:,}", *(_queue(o["queues"][i]) for o in outcomes))
        for i, name in enumerate(queues)
    ]
    return [Text(), *wrapped(title, page.width), Text(), *table(page, columns, rows)]


def _queue(found: dict[str, Any]) -> str:
    return f"{duration(found['wait_seconds']['mean'])}, {found['gpu_hours_lost']:,.1f}"
