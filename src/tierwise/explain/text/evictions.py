"""Why and how pods were evicted for a job, or why not: domains compared, bundles with their efficiency."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tierwise.explain.page import Page, Text, count, wrapped
from tierwise.explain.ranges import compact
from tierwise.explain.tables import Cell, table
from tierwise.framework.bundle import FREE
from tierwise.framework.report import BundleSummary, EvictionAttempt
from tierwise.model.topology import ROOT_NAME

__all__ = ["different", "eviction_lines"]

_BUNDLES = 12


def eviction_lines(page: Page, attempts: Sequence[EvictionAttempt]) -> list[Text]:
    """The stories of attempts for people; one that is the same in several cycles is told once."""
    return [line for attempt in different(attempts) for line in _story(page, attempt)]


def different(attempts: Iterable[EvictionAttempt]) -> list[EvictionAttempt]:
    """The attempts of several cycles, each once."""
    distinct_attempts: list[EvictionAttempt] = []
    for attempt in attempts:
        if attempt not in distinct_attempts:
            distinct_attempts.append(attempt)
    return distinct_attempts


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
    rows: list[list[Cell]] = [_row(note) for note in attempt.bundles]
    columns = ("podGroup:12", "bundle", "pods>", "efficiency>", "~16")
    return lines + table(page, columns, rows, most=_BUNDLES)


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
