"""How far a run is: what is done and how fast, on standard error, only on a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from tierwise.replay.run import Run

__all__ = ["watching"]

_EVERY = 0.2


@contextmanager
def watching(run: Run) -> Iterator[Callable[[], None]]:
    """Yields a function that is called at every step; it draws a few times a second, or never."""
    if not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[told]}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bars = {name: progress.add_task(name, total=run.total, told="") for name in run.names}
        yield _Drawer(run, progress.update, bars)


class _Drawer:
    """Tells a bar where its contender is, and how fast it has gone since it was told last."""

    def __init__(self, run: Run, update: Callable[..., None], bars: Mapping[str, object]) -> None:
        self._run, self._update, self._bars = run, update, bars
        self._drawn, self._done = time.monotonic(), 0

    def __call__(self) -> None:
        now = time.monotonic()
        if now - self._drawn < _EVERY:
            return
        at = self._run.progress()
        speed = max(0, at.done - self._done) / (now - self._drawn)
        self._drawn, self._done = now, at.done
        self._update(self._bars[at.name], completed=at.done, told=f"{at.told}, {speed:,.0f}/s")
