"""What is written behind binds: statuses and events, by a few workers that give way to them.

Where gangs arrive one after the other, hardly a moment passes without a bind, and what is written in between keeps the
server from the next one. So a moment without binds is not enough to write all that waits: they must have ended for a
while. As long as they go on, each worker writes one thing in half a second; namespaces take turns, so whoever has one
thing to be told hears of it, and whoever has thousands hears of them when the server has less to do.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

from tierwise.kube.outbox import Outbox

__all__ = ["BehindBinds", "BindsUnderWay", "give_way"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_STEP: Final = 0.02
"""Seconds between two looks whether pods are being bound."""
_PATIENCE: Final = 25
"""So many looks, and what waits is written all the same."""
_PROMPT: Final = 1.0
"""Seconds after which a bind without an answer keeps nothing back any more: one tenant's webhook may hold it up."""
_LATELY: Final = 0.5
"""Seconds for which binds must have ended: longer than a cycle beside thousands of jobs that wait, in which none are
under way either. No single thing waits for longer than that, see above."""


class BindsUnderWay:
    """Binds that await their answer, and when the last one had it."""

    def __init__(self, ticks: Callable[[], float]) -> None:
        """`ticks` gives seconds that never jump."""
        self._ticks = ticks
        self._ended = self._begun = float("-inf")
        self.number = 0

    def __enter__(self) -> None:
        self.number += 1
        self._begun = self._ticks()

    def __exit__(self, *_: object) -> None:
        self.number -= 1
        self._ended = self._ticks()

    def lately(self) -> bool:
        """Whether pods are being bound, or were a moment ago."""
        now = self._ticks()
        return (self.number > 0 and now - self._begun < _PROMPT) or now - self._ended < _LATELY


async def give_way(binding: Callable[[], bool]) -> None:
    """Let binds go first, for a while: where there is never an end to them, the rest comes slowly but comes."""
    for _ in range(_PATIENCE):
        if not binding():
            return
        await asyncio.sleep(_STEP)


class BehindBinds(Generic[K, V]):
    """Writes what waits, of one namespace after the other; it belongs to the event loop."""

    def __init__(self, binding: Callable[[], bool], *, workers: int, pause: float) -> None:
        """While binds are sent (`binding`), all waits: binds come first on the server. A worker rests for `pause`
        seconds after a write: all of them take a part of the server's and of our own time, however much waits.
        """
        self._binding = binding
        self._workers = workers
        self._pause = pause
        self._waiting: Outbox[K, V] = Outbox()
        self._some = asyncio.Event()
        self._writing = 0

    @abstractmethod
    async def _write(self, key: K, value: V) -> None:
        """Write one thing."""

    def _wake(self) -> None:
        if self._waiting:
            self._some.set()

    def idle(self) -> bool:
        """Whether nothing waits and nothing is under way."""
        return not self._waiting and not self._writing

    async def run(self) -> None:
        """Write until cancelled."""
        await asyncio.gather(*(self._worker() for _ in range(self._workers)))

    async def _worker(self) -> None:
        while True:
            while self._waiting:
                await give_way(self._binding)
                if not self._waiting:
                    break
                key, value = self._waiting.take()
                self._writing += 1
                try:
                    await self._write(key, value)
                finally:
                    self._writing -= 1
                await asyncio.sleep(self._pause)
            self._some.clear()
            await self._some.wait()
