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


def drainable_lines(page: Page, drainable: Drainable) -> list[Text]:
    """Everything that `drainable` tells people."""
    kind = drainable.kind
    free = sum(1 for drain in drainable.drains if not drain.pods)
    easy = sum(1 for drain in drainable.drains if drain.pods and drain.waits == () and not broken(drain.losses))
    text = f"{count(len(drainable.drains), *drainable.nouns)}: {free} without pods, {easy} more without breaking a gang"
    lines = [*wrapped(Text(text), page.width), Text("")]
    single = kind == "node"
    later = any(drain.cheapest is not None for drain in drainable.drains)
    titles = (
        f"{kind}:10",
        *(() if single else ("nodes>",)),
        "pods>",
        "gangs broken>",
        "hours lost>",
        "empty",
        *(("cheapest",) if later else ()),
        "then~20",
    )
    rows: list[Sequence[Cell]] = [
        (
            drain.names[0],
            *(() if single else (str(drain.nodes),)),
            *_costs(drain, drainable.now, later=later),
        )
        for drain in drainable.drains
    ]
    max_rows = None if page.everything else _MOST
    lines += table(page, titles, rows, indent=0, most=max_rows, more="more")
    lines += _windows(page, drainable)
    if later:
        text = "cheapest: if nobody starts there before; a Window from then on sees to that"
        lines += [Text(""), *wrapped(Text(text, style="dim"), page.width)]
    if drainable.asked:
        lines += [Text(""), *_together(page, drainable)]
    return lines


def _empty(drain: Drain, now: float) -> str:
    if not drain.pods:
        return "now"
    if drain.empty_at is not None:
        return clock_text(drain.empty_at, now)
    return "-"


def _costs(drain: Drain, moment: float, *, later: bool) -> list[Cell]:
    """The cells of one drain behind its name."""
    cheapest = [_cheapest(drain, moment)] if later else []
    broken_gangs = str(broken(drain.losses))
    return [
        str(drain.pods),
        broken_gangs,
        f"{hours(drain.losses):,.1f}",
        _empty(drain, moment),
        *cheapest,
        _then(drain),
    ]


def _windows(page: Page, drainable: Drainable) -> list[Text]:
    """Which windows close whose nodes."""
    lines = [Text(f"{drain.names[0]}: window {text}") for drain in drainable.drains for text in drain.windows]
    if not lines:
        return []
    return [Text(""), *lines[: None if page.everything else _MOST]]


def _cheapest(drain: Drain, moment: float) -> str:
    """When a drain costs least, and what it still breaks then."""
    time = drain.cheapest
    if time is None:
        return "now"
    at = f"{clock_text(time.at, moment)}{f' ({time.window})' if time.window else ''}"
    if not time.pods:
        return at
    return f"{at}: {count(time.gangs, 'gang')}, {time.hours:,.1f} h"


def _then(drain: Drain) -> Cell:
    lost = f"{count(len(drain.gone), 'pod')} lost for good" if drain.gone else ""
    if not drain.pods:
        return "nothing runs there"
    if drain.waits is None:
        return "; ".join(filter(None, ["not tried", lost]))
    if drain.waits:
        waits = f"{count(len(drain.waits), 'job')} would wait: {joined(list(drain.waits), limit=_NAMED)}"
        return Text("; ".join(filter(None, [waits, lost])), style="yellow")
    return Text("; ".join(filter(None, ["all restart elsewhere", lost])), style="green")


def _together(page: Page, drainable: Drainable) -> list[Text]:
    drain = drainable.together
    if drain is None:
        text = f"no {drainable.asked} of them that were tried can go together: jobs would find no place"
        return wrapped(Text(text, style="yellow"), page.width)
    restarts = f"{count(drain.pods, 'pod')} of {count(len(drain.losses), 'job')} restart"
    what = f"{compact(drain.names)} can go together: {restarts}"
    gone = f"; {count(len(drain.gone), 'pod')} lost for good" if drain.gone else ""
    return wrapped(Text(f"{what}, which {lost_text(drain.losses, drainable.unit)}{gone}", style="bold"), page.width)
