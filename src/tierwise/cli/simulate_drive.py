"""Driving a run of `tierwise simulate`: progress on the screen, checkpoints now and then, and Ctrl-C as a wish."""

from __future__ import annotations

import signal
import time
from types import FrameType

from tierwise.cli.simulate_progress import watching
from tierwise.replay.checkpoint import load, save
from tierwise.replay.run import Run

__all__ = ["drive"]

_KEPT_EVERY = 60.0
"""Seconds between checkpoints."""


def drive(run: Run, file: str | None) -> bool:
    """Run to the end, keeping checkpoints in a file; whether it got there."""
    point = load(file, run.digest) if file else None
    if point is not None:
        run.resume(point)
    stop = _Stop()
    before = signal.signal(signal.SIGINT, stop)
    kept = time.monotonic()
    try:
        with watching(run) as look:
            for _ in run.run():
                look()
                if stop.asked:
                    break
                if file and time.monotonic() - kept > _KEPT_EVERY:
                    save(file, run.checkpoint())
                    kept = time.monotonic()
    finally:
        signal.signal(signal.SIGINT, before)
    if file:
        save(file, run.checkpoint())
    return not stop.asked


class _Stop:
    """Ctrl-C is a wish: the run ends after the moment at hand, when its state is whole."""

    def __init__(self) -> None:
        self.asked = False

    def __call__(self, _signal: int, _frame: FrameType | None) -> None:
        self.asked = True
