"""How room was made for a job, or why it was not: domains weighed, bundles with their efficiency, who was spared."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from tierwise.api.codec import Raw
from tierwise.explain.ranges import compact
from tierwise.explain.text.page import Page, count, wrapped
from tierwise.explain.text.tables import Cell, Column, table
from tierwise.framework.bundle import FREE
from tierwise.framework.report import BundleNote, Story
from tierwise.model.topology import ROOT_NAME

__all__ = ["eviction_lines", "eviction_wire"]

_BUNDLES = 12


def eviction_wire(stories: Sequence[Story]) -> list[Raw]:
    """Every attempt, as `explain` prints it in JSON."""
    return [
        {
            "action": story.action,
            "obstacle": story.obstacle.text if story.obstacle is not None else "",
            "hyperNodes": list(story.looked),
            "hyperNode": story.domain,
            "bundles": [_bundle_wire(note) for note in story.bundles],
        }
        for story in stories
    ]


def _bundle_wire(note: BundleNote) -> Raw:
    return {
        "podGroup": note.job,
        "kind": "Single" if note.singly else "Safe" if note.safe else "Whole",
        "pods": note.tasks,
        "efficiency": None if note.efficiency >= FREE else note.efficiency,
        "evicted": note.taken,
    }


def eviction_lines(page: Page, stories: Sequence[Story]) -> list[Text]:
    """The same for people."""
    return [line for story in stories for line in _story(page, story)]


def _story(page: Page, story: Story) -> list[Text]:
    if story.obstacle is not None:
        return wrapped(Text(f"{story.action}: {story.obstacle.text}"), page.width, first="  ", rest="    ")
    where = "the whole cluster" if story.domain == ROOT_NAME else story.domain
    weighed = f"{count(len(story.looked), 'hyperNode')} weighed"
    names = [name for name in story.looked if name != ROOT_NAME]
    listed = f": {compact(names)}" if names else ""
    text = f"{story.action}: room is made in {where}, the cheapest ({weighed}{listed})"
    lines = wrapped(Text(text), page.width, first="  ", rest="    ")
    shown = story.bundles if page.everything else story.bundles[:_BUNDLES]
    rows: list[list[Cell]] = [_row(note) for note in shown]
    columns = (
        Column("podGroup", least=12),
        Column("bundle"),
        Column("pods", right=True),
        Column("efficiency", right=True),
        Column("", least=16, wraps=True),
    )
    lines += table(page, columns, rows)
    rest = len(story.bundles) - len(shown)
    return [*lines, Text(f"  and {rest} more; --all shows them", style="dim")] if rest else lines


def _row(note: BundleNote) -> list[Cell]:
    free = note.efficiency >= FREE
    if not note.taken:
        verdict = "spared: the gang fits without it"
    elif note.taken < note.tasks:
        verdict = f"{note.taken} evicted, {note.tasks - note.taken} spared"
    else:
        verdict = "evicted"
    if note.singly:
        return [note.job, "single pods", str(note.tasks), "", verdict]
    kind = "safe" if note.safe else "whole gang"
    return [note.job, kind, str(note.tasks), "free" if free else f"{note.efficiency:.2f}", verdict]
