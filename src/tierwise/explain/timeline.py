"""What happened when: one line for each notable event, shared by pods that changed in the same way."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Final

import msgspec

from tierwise.api.codec import Raw
from tierwise.controllers.stamp import stamp
from tierwise.explain.page import Page, Text, cell_len, shortened, wrapped
from tierwise.explain.ranges import compact, pods
from tierwise.port import Key

__all__ = ["TimelineEntry", "lasted", "timeline_entry_wire", "timeline_lines"]

_CLOCK: Final = 8
_KIND: Final = 5
_WHO: Final = (20, 28)
_WIDE: Final = 110
_GAP: Final = "  "
_PLURAL: Final = {
    "PodGroup": "group",
    "Job": "job",
    "Node": "node",
    "HyperNode": "tier",
    "PersistentVolumeClaim": "claim",
}
_STYLES: Final = {
    "Started": "green",
    "Completed": "green",
    "Placed": "green",
    "Failed": "red",
    "Evicted": "red",
    "Unschedulable": "yellow",
}
_PLAIN: Final = {"Created": "created", "Started": "started", "Completed": "completed", "Gone": "gone"}
"""Reasons that say all there is to say about a pod in front of people."""


class TimelineEntry(msgspec.Struct, frozen=True):
    """One thing that happened to one object, `at` seconds after the start."""

    at: float
    about: Key
    reason: str
    text: str
    warning: bool = False
    job: str = ""  # what people call the job that a pod or a group is of
    role: str = ""
    detail: bool = False  # shown only with full detail


def timeline_entry_wire(entry: TimelineEntry, start: float) -> Raw:
    """As JSON has it."""
    return {
        "at": int(entry.at),
        "time": stamp(start + entry.at),
        "object": str(entry.about),
        "type": "Warning" if entry.warning else "Normal",
        "reason": entry.reason,
        "message": entry.text,
    }


def lasted(time: float) -> str:
    """A time in seconds as people say it: "1h2m3s"."""
    hours, below_an_hour = divmod(int(time), 3600)
    minutes, seconds = divmod(below_an_hour, 60)
    parts = [(hours, "h"), (minutes, "m"), (seconds, "s")]
    return "".join(f"{number}{unit}" for number, unit in parts if number) or "0s"


def timeline_lines(page: Page, entries: Sequence[TimelineEntry], *, brief: bool = False) -> list[Text]:
    """Lines for events in the order in which they happened; `brief` cuts each to one line."""
    shown = [h for h in entries if page.everything or not h.detail]
    lines: list[Text] = []
    for _, grouped in groupby(shown, key=lambda h: _likeness(page, h)):
        alike = list(grouped)
        lead, what = _line(page, alike)
        if not brief and cell_len(_who(alike)) > _WHO[page.width >= _WIDE]:  # names are told in full, on their own line
            room = lead.cell_len - _WHO[page.width >= _WIDE] - len(_GAP)
            lines += wrapped(Text(_who(alike), style="bold"), page.width, first=lead[:room], rest=" " * room)
            lines += wrapped(what, page.width, first=" " * room, rest=" " * (room + 2))
            continue
        if brief and lead.cell_len + what.cell_len > page.width:
            room = max(0, page.width - lead.cell_len - len(page.glyphs.dots))
            what = Text(what.plain[:room].rstrip() + page.glyphs.dots, style=what.style)
        lines += wrapped(what, page.width, first=lead)
    return lines


def _likeness(page: Page, entry: TimelineEntry) -> tuple[object, ...]:
    """Events that are told in one line share this."""
    if entry.about.kind != "Pod" or page.everything:
        return (id(entry),)
    text = "" if entry.reason in _PLAIN else entry.text
    return entry.at, entry.job, entry.role, entry.reason, text


def _line(page: Page, alike: Sequence[TimelineEntry]) -> tuple[Text, Text]:
    """When it happened and to which objects; and what."""
    example = alike[0]
    kind = _PLURAL.get(example.about.kind, "pods" if len(alike) > 1 else "pod")
    room = _WHO[page.width >= _WIDE]
    who = shortened(_who(alike), room, page.glyphs.dots)
    lead = Text.assemble(
        (f"{lasted(example.at):>{_CLOCK}}", "bright_black"),
        f"  {kind:<{_KIND}}  ",
        (who.ljust(room), "bold"),
        _GAP,
    )
    text = _PLAIN.get(example.reason, "") if example.about.kind == "Pod" and not page.everything else ""
    return lead, Text((text or _spoken(example)).replace("→", page.glyphs.arrow), style=_style(example))


def _who(alike: Sequence[TimelineEntry]) -> str:
    example = alike[0]
    if example.about.kind != "Pod":
        return example.job or example.about.name
    names = [h.about.name for h in alike]
    if example.role:
        return f"{example.job} {pods(example.job, names, example.role)}"
    return compact(names)


def _spoken(entry: TimelineEntry) -> str:
    """Reason and text; a phase, a placement, a wait and an order speak for themselves."""
    if entry.reason in ("Phase", "Placed", "Unschedulable", "Retry", "Killing"):
        return entry.text
    if entry.text:
        return f"{entry.reason}: {entry.text}"
    return entry.reason.lower()


def _style(entry: TimelineEntry) -> str:
    return _STYLES.get(entry.reason, "yellow" if entry.warning else "")
