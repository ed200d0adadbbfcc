"""A bar for those who wait: shown on standard error, only on a terminal, only after a second."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

__all__ = ["patience"]

_PATIENCE = 1.0


@contextmanager
def patience(text: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
    """Yields a function that takes the number of steps done; harmless where nothing is shown."""
    if not sys.stderr.isatty():
        yield _ignore
        return
    waiting = _Waiting(text, total)
    timer = threading.Timer(_PATIENCE, waiting.show)
    timer.daemon = True
    timer.start()
    try:
        yield waiting.step
    finally:
        timer.cancel()
        waiting.close()


def _ignore(_: int) -> None:
    """Nobody is looking."""


class _Waiting:
    """A bar that may or may not be on the screen yet; the timer's thread puts it there."""

    def __init__(self, text: str, total: int | None) -> None:
        self._text = text
        self._total = total
        self._done = 0
        self._lock = threading.Lock()
        self._closed = False
        self._bar: tuple[Progress, TaskID] | None = None

    def show(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        with self._lock:
            if self._closed:
                return
            columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
            progress = Progress(*columns, console=Console(stderr=True), transient=True)
            self._bar = progress, progress.add_task(self._text, total=self._total, completed=self._done)
            progress.start()

    def step(self, done: int) -> None:
        with self._lock:
            self._done = done
            if self._bar is not None:
                progress, task = self._bar
                description = self._text if self._total else f"{self._text}, {done} done"
                progress.update(task, completed=done, description=description)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            if self._bar is not None:
                self._bar[0].stop()
