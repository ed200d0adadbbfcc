"""How far a replay is: simulated time and events per second, on standard error, only on a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from tierwise.replay.engine import Engine
from tierwise.replay.lived import Lived
from tierwise.replay.run import Comparison

__all__ = ["watching"]

_EVERY = 0.2


@contextmanager
def watching(comparison: Comparison) -> Iterator[Callable[[Engine | Lived], None]]:
    """Yields a function that is told of every moment; it draws a few times a second, or never."""
    if not sys.stderr.isatty():
        yield lambda _engine: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[told]}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bars = {
            c.name: progress.add_task(c.name, total=2 * len(comparison.trace), told="") for c in comparison.contenders
        }
        yield _Drawer(progress.update, bars)


class _Drawer:
    """Tells a bar where its contender is, and how fast it has gone since it was told last."""

    def __init__(self, update: Callable[..., None], bars: Mapping[str, object]) -> None:
        self._update, self._bars = update, bars
        self._drawn, self._events = time.monotonic(), 0

    def __call__(self, engine: Engine | Lived) -> None:
        now = time.monotonic()
        if now - self._drawn < _EVERY:
            return
        state = engine.state
        speed = max(0, state.events - self._events) / (now - self._drawn)
        self._drawn, self._events = now, state.events
        told = f"day {state.clock / 86400:.1f}, {speed:,.0f} events/s, {len(state.waiting):,} waiting"
        self._update(self._bars[engine.contender.name], completed=state.events, told=told)
