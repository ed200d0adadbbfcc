"""The page of `eta`: jobs that wait, their places and expected starts; or all that is known of a few."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tierwise.api.plurals import verb
from tierwise.explain.eta import (
    Eta,
    EtaReport,
    StartKind,
    clock_text,
    eta_text,
    lasting,
    position_text,
    range_text,
)
from tierwise.explain.page import Page, Text, count, heading, joined, wrapped
from tierwise.explain.tables import Cell, folded, pairs, table

__all__ = ["eta_lines"]

_MOST: Final = 20
_WIDE: Final = 100  # below it, the 50 % range is left out
_STYLES: Final = {
    StartKind.STARTED: "green",
    StartKind.NOW: "bold green",
    StartKind.EXPECTED: "cyan",
    StartKind.NEVER: "bold red",
    StartKind.NOT_ALLOWED: "yellow",
    StartKind.UNKNOWN: "yellow",
}


def eta_lines(page: Page, report: EtaReport, *, each: bool) -> list[Text]:
    """Everything that `eta` tells people: a table, or where jobs were named (`each`) one after the other."""
    if not report.jobs:
        return [Text("no job waits")]
    lines: list[Text] = []
    if each:
        for number, eta in enumerate(report.jobs):
            lines += [Text("")] if number else []
            lines += _one(page, report, eta)
    else:
        lines += _table(page, report)
    return [*lines, *_basis(page, report)]


def _one(page: Page, report: EtaReport, eta: Eta) -> list[Text]:
    now = report.now
    title = Text.assemble((eta.name, "bold"))
    if eta.kind is not StartKind.STARTED:
        title.append(f"  {position_text(eta)}")
    rows: list[tuple[str, Cell]] = [("starts", Text(eta_text(eta, now), style=_STYLES[eta.kind]))]
    if eta.start is not None and eta.kind is StartKind.EXPECTED:
        rows.append(("in", lasting(eta.start - now)))
    if eta.half is not None:
        rows.append(("50 %", range_text(eta.half, now)))
    if eta.most is not None:
        rows.append(("90 %", range_text(eta.most, now)))
    for awaited in eta.after[:_MOST]:
        ends = f"ends {clock_text(awaited.end, now)}" if awaited.end is not None else "has to start itself first"
        rows.append(("after", f"{awaited.name} {ends}{f': {awaited.source}' if awaited.source else ''}"))
    rows += [("or now", f"if {change}") for change in eta.now_if]
    return [*wrapped(title, page.width), *pairs(page, rows)]


def _table(page: Page, report: EtaReport) -> list[Text]:
    now = report.now
    wide = page.width >= _WIDE
    half, after = (["50 %"], ["after:10"]) if wide else ([], [])
    columns = ["place>", "job:12", "queue:6", "starts~10", *half, "90 %", *after]
    shown = report.jobs if page.everything else report.jobs[:_MOST]
    rows: list[list[Cell]] = []
    for eta in shown:
        certain = eta.kind is StartKind.EXPECTED and eta.start is not None
        starts = clock_text(eta.start, now) if certain and eta.start is not None else eta.kind.words
        row: list[Cell] = [
            f"{eta.position}/{eta.of}",
            Text(eta.name, style="bold"),
            eta.queue,
            Text(starts, style=_STYLES[eta.kind]),
        ]
        row += [range_text(eta.half, now) if eta.half is not None else ""] if wide else []
        row += [range_text(eta.most, now) if eta.most is not None else ""]
        row += [joined([awaited.name for awaited in eta.after])] if wide else []
        rows.append(row)
    lines = [*table(page, columns, rows, indent=0), *folded(len(report.jobs) - len(shown), "more job", indent=0)]
    explained = [eta for eta in shown if eta.kind in (StartKind.NEVER, StartKind.NOT_ALLOWED, StartKind.UNKNOWN)]
    return lines + _without_start(page, explained, now)


def _without_start(page: Page, explained: Sequence[Eta], now: float) -> list[Text]:
    """A section with the jobs that have no expected start, and why; nothing without any."""
    lines = heading("Without an expected start") if explained else []
    for eta in explained:
        text = Text.assemble((eta.name, "bold"), f"  {eta_text(eta, now)}")
        lines += wrapped(text, page.width, first="  ", rest="      ")
    return lines


def _basis(page: Page, report: EtaReport) -> list[Text]:
    """How the answer was worked out: the number of simulated futures, and jobs whose ends are unknown."""
    done = f"{count(report.runs, 'run')} ahead from {clock_text(report.now, report.now)} UTC"
    parts = [f"{done}, {count(report.cycles, 'cycle')}"]
    if report.sources:
        parts.append("ends of running jobs: " + ", ".join(f"{number} {source}" for source, number in report.sources))
    if report.unknown:
        stay = verb(len(report.unknown), "it is assumed to keep running", "they are assumed to keep running")
        which = joined(list(report.unknown))
        parts.append(f"it is not known when {which} {verb(len(report.unknown), 'ends', 'end')}: {stay}")
    if report.stopped:
        parts.append(report.stopped)
    return [Text(""), *wrapped(Text("; ".join(parts), style="dim"), page.width)]
