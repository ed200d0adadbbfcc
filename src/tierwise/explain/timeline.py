"""What happened when: one line for each thing that people would notice, pods that fare alike told of together."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Final

import msgspec
from rich.text import Text

from tierwise.api.codec import Raw
from tierwise.controllers.stamp import stamp
from tierwise.explain.ranges import compact, pods
from tierwise.explain.text.page import Page, shortened, wrapped
from tierwise.port import Key

__all__ = ["Happening", "happening_wire", "lasted", "timeline_lines"]

_CLOCK: Final = 8
_KIND: Final = 5
_WHO: Final = (20, 28)
_WIDE: Final = 110
_PLURAL: Final = {"PodGroup": "group", "Job": "job", "Node": "node", "HyperNode": "tier"}
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


class Happening(msgspec.Struct, frozen=True):
    """One thing that happened to one object, `at` seconds after the start."""

    at: float
    about: Key
    reason: str
    text: str
    warning: bool = False
    job: str = ""  # what people call the job that a pod or a group is of
    role: str = ""
    detail: bool = False  # for those who want to know everything


def happening_wire(happening: Happening, start: float) -> Raw:
    """As JSON has it."""
    return {
        "at": int(happening.at),
        "time": stamp(start + happening.at),
        "object": str(happening.about),
        "type": "Warning" if happening.warning else "Normal",
        "reason": happening.reason,
        "message": happening.text,
    }


def lasted(time: float) -> str:
    """A time in seconds as people say it: "1h2m3s"."""
    hours, rest = divmod(int(time), 3600)
    minutes, seconds = divmod(rest, 60)
    parts = [(hours, "h"), (minutes, "m"), (seconds, "s")]
    return "".join(f"{number}{unit}" for number, unit in parts if number) or "0s"


def timeline_lines(page: Page, happenings: Sequence[Happening], *, brief: bool = False) -> list[Text]:
    """Lines for happenings in the order in which they happened; `brief` cuts each to one line."""
    shown = [h for h in happenings if page.everything or not h.detail]
    lines: list[Text] = []
    for _, alike in groupby(shown, key=lambda h: _likeness(page, h)):
        lead, what = _line(page, list(alike))
        if brief and lead.cell_len + what.cell_len > page.width:
            room = max(0, page.width - lead.cell_len - len(page.glyphs.dots))
            what = Text(what.plain[:room].rstrip() + page.glyphs.dots, style=what.style)
        lines += wrapped(what, page.width, first=lead)
    return lines


def _likeness(page: Page, happening: Happening) -> tuple[object, ...]:
    """Happenings that are told of in one line share this."""
    if happening.about.kind != "Pod" or page.everything:
        return (id(happening),)
    text = "" if happening.reason in _PLAIN else happening.text
    return happening.at, happening.job, happening.role, happening.reason, text


def _line(page: Page, alike: Sequence[Happening]) -> tuple[Text, Text]:
    """When it was and to whom it happened; and what."""
    first = alike[0]
    kind = _PLURAL.get(first.about.kind, "pods" if len(alike) > 1 else "pod")
    room = _WHO[page.width >= _WIDE]
    who = shortened(_who(alike), room, page.glyphs.dots)
    lead = Text.assemble(
        (f"{lasted(first.at):>{_CLOCK}}", "bright_black"),
        f"  {kind:<{_KIND}}  ",
        (who.ljust(room), "bold"),
        "  ",
    )
    text = _PLAIN.get(first.reason, "") if first.about.kind == "Pod" and not page.everything else ""
    return lead, Text((text or _spoken(first)).replace("→", page.glyphs.arrow), style=_style(first))


def _who(alike: Sequence[Happening]) -> str:
    first = alike[0]
    if first.about.kind != "Pod":
        return first.job or first.about.name
    names = [h.about.name for h in alike]
    return f"{first.job} {pods(first.job, names, first.role)}" if first.role else compact(names)


def _spoken(happening: Happening) -> str:
    """Reason and text; a phase, a placement, a wait and an order speak for themselves."""
    if happening.reason in ("Phase", "Placed", "Unschedulable", "Retry", "Killing"):
        return happening.text
    return f"{happening.reason}: {happening.text}" if happening.text else happening.reason.lower()


def _style(happening: Happening) -> str:
    return _STYLES.get(happening.reason, "yellow" if happening.warning else "")
