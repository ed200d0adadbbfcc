"""The page of `attention`: what to look at now, kind by kind."""

from __future__ import annotations

from itertools import groupby

from tierwise.explain.attention import KINDS, Attention, Concern
from tierwise.explain.page import Page, Text, count, heading
from tierwise.explain.tables import Cell, folded, table

__all__ = ["attention_lines"]

_LINES = 5
"""Lines of one kind, unless all are asked for."""


def attention_lines(page: Page, result: Attention) -> list[Text]:
    """Everything that `attention` tells people."""
    number = sum(result.counts.values())
    if not number:
        return [Text("nothing deserves attention")]
    lines = [Text(f"{count(number, 'thing')} to look at", style="bold")]
    for code, group in groupby(result.concerns, key=lambda concern: concern.code):
        concerns = list(group)
        told_concerns = concerns if page.everything else concerns[:_LINES]
        title = KINDS[code]
        lines += heading(title[0].upper() + title[1:])
        lines += table(page, ("name:16", "what~24"), [_row(concern) for concern in told_concerns])
        lines += folded(result.counts[code] - len(told_concerns), "more line")
    return lines


def _row(concern: Concern) -> list[Cell]:
    return [concern.name, concern.text]
