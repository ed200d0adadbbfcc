"""A live view on the terminal: the frames of `explain.life_page` one after the other, as fast as was asked for."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec
from msgspec.structs import replace
from rich.console import Group
from rich.live import Live

from tierwise.cli.screen import page_of, printable, terminal
from tierwise.explain.life_page import View, frame

__all__ = ["Shown", "show", "ticks"]

_TICK: Final = 0.1
"""Seconds between two frames while nothing happens but the clock going on."""

_LINGER: Final = 1.0


class Shown(msgspec.Struct, frozen=True):
    """The last view that was reached, and whether somebody had seen enough before the end."""

    view: View
    interrupted: bool


def show(views: Iterable[View], pace: float | None, *, everything: bool) -> Shown:
    """Draw every view at its time; Ctrl-C ends it, and leaves the terminal as it was."""
    console = terminal()
    page = page_of(console, everything=everything)
    note = "Ctrl-C ends" if pace is None else f"{pace:g} times as fast, Ctrl-C ends"
    current: View | None = None
    interrupted = False
    with Live(console=console, screen=True, auto_refresh=False) as live:

        def draw(view: View) -> None:
            live.update(Group(*map(printable, frame(page, view, console.height - 1, note))), refresh=True)

        try:
            for view in views:
                if current is not None:
                    for at in ticks(current.at, view.at, pace):
                        draw(replace(current, at=at))
                        time.sleep(_TICK)
                current = view
                draw(view)
            time.sleep(_LINGER if pace is not None else 0)
        except KeyboardInterrupt:
            interrupted = True
    if current is None:
        raise KeyboardInterrupt  # before there was anything to see
    return Shown(current, interrupted)


def ticks(start: float, end: float, pace: float | None) -> Iterator[float]:
    """The times between two moments at which a frame is due."""
    step = 0.0 if pace is None else pace * _TICK
    at = start
    while step and at < end:
        yield at
        at += step
