"""The page of `drainable`: what each drain breaks, moves and costs, the cheapest first, and what can go together."""

from __future__ import annotations

from collections.abc import Sequence

from tierwise.explain.disruption import Drain, Drainable, broken, hours, lost_text
from tierwise.explain.eta import clock_text
from tierwise.explain.page import Page, Text, count, joined, wrapped
from tierwise.explain.ranges import compact
from tierwise.explain.tables import Cell, table

__all__ = ["drainable_lines"]

_MOST = 20
_NAMED = 3


def drainable_lines(page: Page, found: Drainable) -> list[Text]:
    """Everything that `drainable` tells people."""
    kind = found.kind
    free = sum(1 for one in found.drains if not one.pods)
    easy = sum(1 for one in found.drains if one.pods and one.waits == () and not broken(one.losses))
    text = f"{count(len(found.drains), *found.nouns)}: {free} without pods, {easy} more without breaking a gang"
    lines = [*wrapped(Text(text), page.width), Text("")]
    single = kind == "node"
    titles = (
        f"{kind}:10",
        *(() if single else ("nodes>",)),
        "pods>",
        "gangs broken>",
        "hours lost>",
        "empty",
        "then~20",
    )
    rows: list[Sequence[Cell]] = [
        (
            one.names[0],
            *(() if single else (str(one.nodes),)),
            str(one.pods),
            str(broken(one.losses)),
            f"{hours(one.losses):,.1f}",
            _empty(one, found.now),
            _then(one),
        )
        for one in found.drains
    ]
    most = None if page.everything else _MOST
    lines += table(page, titles, rows, indent=0, most=most, more="more")
    if found.asked:
        lines += [Text(""), *_together(page, found)]
    return lines


def _empty(one: Drain, now: float) -> str:
    if not one.pods:
        return "now"
    if one.empty_at is not None:
        return clock_text(one.empty_at, now)
    return "-"


def _then(one: Drain) -> Cell:
    lost = f"{count(len(one.gone), 'pod')} gone for good" if one.gone else ""
    if not one.pods:
        return "nothing runs there"
    if one.waits is None:
        return "; ".join(filter(None, ["not tried", lost]))
    if one.waits:
        waits = f"{count(len(one.waits), 'job')} would wait: {joined(list(one.waits), limit=_NAMED)}"
        return Text("; ".join(filter(None, [waits, lost])), style="yellow")
    return Text("; ".join(filter(None, ["all restart elsewhere", lost])), style="green")


def _together(page: Page, found: Drainable) -> list[Text]:
    one = found.together
    if one is None:
        text = f"no {found.asked} of them that were tried can go together: jobs would find no place"
        return wrapped(Text(text, style="yellow"), page.width)
    what = f"{compact(one.names)} can go together: {count(one.pods, 'pod')} of {count(len(one.losses), 'job')} restart"
    gone = f"; {count(len(one.gone), 'pod')} gone for good" if one.gone else ""
    return wrapped(Text(f"{what}, which {lost_text(one.losses, found.unit)}{gone}", style="bold"), page.width)
