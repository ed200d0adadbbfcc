"""A progress bar on standard error: only on a terminal, and only after a second."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

__all__ = ["show_progress"]

_PATIENCE = 1.0


class ProgressStep(Protocol):
    """Told how much is done, and of how much where that is known."""

    def __call__(self, done: int, total: int | None = None, /) -> None: ...


@contextmanager
def show_progress(text: str, total: int | None = None) -> Iterator[ProgressStep]:
    """Yields a function that is told of every step; it does nothing where there is no terminal."""
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


def _ignore(_done: int, _total: int | None = None, /) -> None:
    """There is no terminal."""


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
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        with self._lock:
            if self._closed:
                return
            remaining = (TextColumn("left:"), TimeRemainingColumn()) if self._total else ()
            columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), *remaining)
            progress = Progress(*columns, console=Console(stderr=True), transient=True)
            self._bar = progress, progress.add_task(self._text, total=self._total, completed=self._done)
            progress.start()

    def step(self, done: int, total: int | None = None, /) -> None:
        with self._lock:
            self._done = done
            self._total = total or self._total
            if self._bar is not None:
                progress, task = self._bar
                progress.update(task, completed=self._done, total=self._total)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            if self._bar is not None:
                self._bar[0].stop()
