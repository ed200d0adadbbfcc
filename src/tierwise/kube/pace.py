"""How fast statuses and events are written: behind binds, and slowly as long as pods are being bound.

Where gangs arrive one after the other, hardly a moment passes without a bind, and what is written in between keeps the
server from the next one. So a moment without binds is not enough to write all that waits: they must have ended for a
while. As long as they go on, each worker writes one thing in half a second; namespaces take turns, so whoever has one
thing to be told hears of it, and whoever has thousands hears of them when the server has less to do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

__all__ = ["BindsUnderWay", "give_way"]

_STEP: Final = 0.02
"""Seconds between two looks whether pods are being bound."""
_PATIENCE: Final = 25
"""So many looks, and what waits is written all the same."""
_LATELY: Final = 0.5
"""Seconds for which binds must have ended: longer than a cycle beside thousands of jobs that wait, in which none are
under way either. No single thing waits for longer than that, see above."""


class BindsUnderWay:
    """Binds that await their answer, and when the last one had it."""

    def __init__(self, ticks: Callable[[], float]) -> None:
        """`ticks` gives seconds that never jump."""
        self._ticks = ticks
        self._ended = float("-inf")
        self.number = 0

    def __enter__(self) -> None:
        self.number += 1

    def __exit__(self, *_: object) -> None:
        self.number -= 1
        self._ended = self._ticks()

    def lately(self) -> bool:
        """Whether pods are being bound, or were a moment ago."""
        return self.number > 0 or self._ticks() - self._ended < _LATELY


async def give_way(binding: Callable[[], bool]) -> None:
    """Let binds go first, for a while: where there is never an end to them, the rest comes slowly but comes."""
    for _ in range(_PATIENCE):
        if not binding():
            return
        await asyncio.sleep(_STEP)
