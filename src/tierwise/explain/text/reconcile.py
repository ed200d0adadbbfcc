"""The page of `reconcile`: the objects that the controllers created, updated and deleted, and their events."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tierwise.explain.page import Page, Text, count, section, shortened
from tierwise.explain.ranges import compact
from tierwise.explain.tables import Cell, table
from tierwise.port import Key, Objects, RecordEvent

__all__ = ["change_lines", "event_lines"]

_STYLES = {"created": "green", "changed": "yellow", "deleted": "red"}


def change_lines(page: Page, before: Objects, after: Objects, touched: Iterable[Key]) -> list[Text]:
    """Objects by what happened to them, kind and namespace."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for key in touched:
        what = "changed" if before.record(key) is not None else "created"
        groups.setdefault((what, key.kind, key.namespace), []).append(key.name)
    for key in before:
        if after.record(key) is None:
            groups.setdefault(("deleted", key.kind, key.namespace), []).append(key.name)
    total = sum(len(names) for names in groups.values())
    if not total:
        return [Text("the controllers have nothing to do")]
    order = sorted(groups.items(), key=lambda item: (list(_STYLES).index(item[0][0]), item[0]))
    rows: list[list[Cell]] = [
        [Text(what, style=_STYLES[what]), kind, namespace, str(len(names)), compact(_short(page, names))]
        for (what, kind, namespace), names in order
    ]
    columns = ("what", "kind:8", "namespace:9", "count>", "objects~24")
    return [Text(f"{count(total, 'object')} touched by the controllers"), Text(""), *table(page, columns, rows)]


def event_lines(page: Page, events: Sequence[RecordEvent]) -> list[Text]:
    """Events of objects, as lines; none without events."""
    rows: list[list[Cell]] = [
        [Text(event.type, style="yellow" if event.type == "Warning" else ""), str(event.about), event.message]
        for event in events
    ]
    columns = ("type", "about:16", "message~24")
    return section("Events", table(page, columns, rows))


def _short(page: Page, names: Iterable[str]) -> list[str]:
    """Names that stay in one piece in their column."""
    return [shortened(name, max(24, page.width - 48), page.glyphs.dots) for name in names]
