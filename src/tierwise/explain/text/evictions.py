"""Why and how pods were evicted for a job, or why not: domains compared, bundles with their efficiency."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from tierwise.api.codec import Raw
from tierwise.explain.ranges import compact
from tierwise.explain.text.page import Page, count, wrapped
from tierwise.explain.text.tables import Cell, TableColumn, table
from tierwise.framework.bundle import FREE
from tierwise.framework.report import BundleSummary, EvictionAttempt
from tierwise.model.topology import ROOT_NAME

__all__ = ["eviction_lines", "eviction_wire"]

_BUNDLES = 12


def eviction_wire(attempts: Sequence[EvictionAttempt]) -> list[Raw]:
    """Every attempt, as `explain` prints it in JSON."""
    return [
        {
            "action": attempt.action,
            "obstacle": attempt.obstacle.text if attempt.obstacle is not None else "",
            "hyperNodes": list(attempt.domains_considered),
            "hyperNode": attempt.domain,
            "bundles": [_bundle_wire(note) for note in attempt.bundles],
            "loss": attempt.loss,
        }
        for attempt in attempts
    ]


def _bundle_wire(note: BundleSummary) -> Raw:
    return {
        "podGroup": note.job,
        "kind": "Single" if note.by_pod else "Safe" if note.safe else "Whole",
        "pods": note.tasks,
        "efficiency": None if note.efficiency >= FREE else note.efficiency,
        "evicted": note.taken,
    }


def eviction_lines(page: Page, attempts: Sequence[EvictionAttempt]) -> list[Text]:
    """The same for people."""
    return [line for attempt in attempts for line in _story(page, attempt)]


def _story(page: Page, attempt: EvictionAttempt) -> list[Text]:
    if attempt.obstacle is not None:
        return wrapped(Text(f"{attempt.action}: {attempt.obstacle.text}"), page.width, first="  ", rest="    ")
    where = "the whole cluster" if attempt.domain == ROOT_NAME else attempt.domain
    weighed = f"{count(len(attempt.domains_considered), 'hyperNode')} weighed"
    names = [name for name in attempt.domains_considered if name != ROOT_NAME]
    listed = f": {compact(names)}" if names else ""
    text = f"{attempt.action}: room is made in {where}, the cheapest ({weighed}{listed})"
    lines = wrapped(Text(text), page.width, first="  ", rest="    ")
    if attempt.loss:
        lines += wrapped(Text(attempt.loss), page.width, first="    ", rest="      ")
    shown = attempt.bundles if page.everything else attempt.bundles[:_BUNDLES]
    rows: list[list[Cell]] = [_row(note) for note in shown]
    columns = (
        TableColumn("podGroup", least=12),
        TableColumn("bundle"),
        TableColumn("pods", right=True),
        TableColumn("efficiency", right=True),
        TableColumn("", least=16, wraps=True),
    )
    lines += table(page, columns, rows)
    rest = len(attempt.bundles) - len(shown)
    return [*lines, Text(f"  and {rest} more; --all shows them", style="dim")] if rest else lines


def _row(note: BundleSummary) -> list[Cell]:
    free = note.efficiency >= FREE
    if not note.taken:
        verdict = "spared: the gang fits without it"
    elif note.taken < note.tasks:
        verdict = f"{note.taken} evicted, {note.tasks - note.taken} spared"
    else:
        verdict = "evicted"
    if note.by_pod:
        return [note.job, "single pods", str(note.tasks), "", verdict]
    kind = "safe" if note.safe else "whole gang"
    return [note.job, kind, str(note.tasks), "free" if free else f"{note.efficiency:.2f}", verdict]
