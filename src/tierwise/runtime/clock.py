"""The time of a process: right in the long run, and never in a hurry.

Wall clocks jump: somebody sets them, a machine wakes up, its time is corrected. Whatever counts seconds by them would
find all its time over at once, or none for an hour. `SteadyClock` starts at the wall clock's time, goes on by a clock
that never jumps, and makes up for a difference little by little, so that every second of it lasts about a second.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

__all__ = ["SteadyClock"]

_LEAN: Final = 0.1
"""The share of a second by which it may be faster or slower while it makes up for a difference."""


class SteadyClock:
    """Seconds since the epoch that never go back and never leap; may be asked from any thread."""

    def __init__(self, wall: Callable[[], float], ticks: Callable[[], float]) -> None:
        """`wall` gives seconds since the epoch, `ticks` seconds that never jump."""
        self._wall = wall
        self._ticks = ticks
        self._lock = threading.Lock()
        self._now, self._at = wall(), ticks()

    def __call__(self) -> float:
        """The time now."""
        with self._lock:
            at = self._ticks()
            passed = at - self._at
            ahead = self._wall() - (self._now + passed)
            self._now += passed + max(-_LEAN * passed, min(ahead, _LEAN * passed))
            self._at = at
            return self._now
