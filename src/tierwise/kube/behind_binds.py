"""What is written behind binds: statuses and events, by a few workers that give way to them.

Where gangs arrive one after the other, hardly a moment passes without a bind, and what is written in between keeps the
server from the next one. So a moment without binds is not enough to write all that waits: they must have ended for a
while. As long as they go on, each worker writes one thing in half a second; namespaces take turns, so whoever has one
thing to be told hears of it, and whoever has thousands hears of them when the server has less to do.

Where binds go on for long, that would be told ever later. What has waited for five seconds has a share of the binds'
rate, one for each bind that ends, and with every further five seconds the workers wait half as long.

A worker stays with a write for a second. One that is not answered by then, because it hangs or is refused again and
again, goes on by itself, and its namespace is slow: one thing of it is written at a time, which holds no worker.
"""

from __future__ import annotations

import asyncio
import logging
import time
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

import msgspec

from tierwise.kube.outbox import Outbox

__all__ = ["BehindBinds", "BindsUnderWay", "Waiting"]

log = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_STEP: Final = 0.02
"""Seconds between two looks whether pods are being bound."""
_PATIENCE: Final = 25
"""So many looks, and what waits is written all the same; half as many for each `_AGED` that it has waited."""
_AGED: Final = 5.0
"""Seconds after which what waits has a share of the binds' rate."""
_MOST_EARNED: Final = 8.0
"""Binds that have ended and whose share was not used: what comes to the server comes evenly."""
_OLDEST: Final = 0.25
"""Seconds between two looks for the oldest that waits."""
_MOST_SLOW: Final = 256
"""Writes without an answer beyond which slow namespaces begin no further ones."""
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
        self.ended = 0  # how many have had their answer so far

    def __enter__(self) -> None:
        self.number += 1
        self._begun = self._ticks()

    def __exit__(self, *_: object) -> None:
        self.number -= 1
        self.ended += 1
        self._ended = self._ticks()

    def lately(self) -> bool:
        """Whether pods are being bound, or were a moment ago."""
        now = self._ticks()
        return (self.number > 0 and now - self._begun < _PROMPT) or now - self._ended < _LATELY


class Waiting(msgspec.Struct, frozen=True):
    """Interface of changes that wait to be written."""

    number: int
    seconds: float  # for which the oldest has waited


class BehindBinds(Generic[K, V]):
    """Writes what waits, of one namespace after the other; it belongs to the event loop."""

    def __init__(
        self,
        binds: BindsUnderWay,
        *,
        workers: int,
        pause: float,
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        """Binds come first on the server. A worker rests for `pause` seconds after a write: all of them take a part of
        the server's and of our own time, however much waits. `ticks` gives seconds that never jump.
        """
        self._binds = binds
        self._workers = workers
        self._pause = pause
        self._ticks = ticks
        self._waiting: Outbox[K, V] = Outbox()
        self._some = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._writing: Counter[str] = Counter()  # writes by namespace
        self._slow: set[str] = set()  # namespaces of which the latest write was not answered for a while
        self._earned = 0.0
        self._counted = binds.ended  # binds whose share was counted
        self._looked = float("-inf")  # when the oldest was looked for
        self._since: float | None = None  # when the oldest was put; None where nothing waits
        self._prompt_since: float | None = None  # when the oldest was put of namespaces that are not slow

    @abstractmethod
    async def _write(self, key: K, value: V) -> None:
        """Write one thing."""

    def _put(self, namespace: str, key: K, value: V) -> None:
        self._waiting.put(namespace, key, value, self._ticks())

    def _wake(self) -> None:
        if self._waiting:
            self._some.set()

    def idle(self) -> bool:
        """Whether nothing waits and nothing is under way."""
        return not self._waiting and not self._writing

    def waiting(self) -> Waiting:
        """How much waits, and for how long; any thread may ask."""
        since = self._since
        number = len(self._waiting)
        return Waiting(number, max(0.0, self._ticks() - since) if since is not None and number else 0.0)

    async def run(self) -> None:
        """Write until cancelled."""
        try:
            await asyncio.gather(*(self._worker() for _ in range(self._workers)))
        finally:
            for task in self._tasks:
                task.cancel()

    async def _worker(self) -> None:
        while True:
            self._some.clear()
            self._look()
            if not self._waiting.waits(self._held_back()):
                await self._some.wait()
                continue
            await self._give_way()
            held_back = self._held_back()
            if not self._waiting.waits(held_back):
                continue
            namespace, key, value = self._waiting.take(held_back)
            self._writing[namespace] += 1
            task = asyncio.get_running_loop().create_task(self._one(namespace, key, value))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            if namespace not in self._slow:
                await asyncio.wait({task}, timeout=_PROMPT)
                if not task.done():
                    self._slow.add(namespace)
            await asyncio.sleep(self._pause)

    async def _one(self, namespace: str, key: K, value: V) -> None:
        begun = self._ticks()
        try:
            await self._write(key, value)
        except Exception:
            log.exception("%s: a defect keeps it from being written", key)
        finally:
            self._writing[namespace] -= 1
            if not self._writing[namespace]:
                del self._writing[namespace]
            if self._ticks() - begun < _PROMPT:
                self._slow.discard(namespace)
            self._some.set()

    def _held_back(self) -> set[str]:
        """The namespaces of which nothing is begun now."""
        if not self._slow:
            return self._slow
        full = self._writing.total() >= _MOST_SLOW
        return {namespace for namespace in self._slow if full or self._writing[namespace]}

    async def _give_way(self) -> None:
        """Let binds go first, for a while: where there is never an end to them, the rest comes slowly but comes."""
        age = self._age()
        for _ in range(_PATIENCE >> min(int(age / _AGED), _PATIENCE)):
            if not self._binds.lately() or (age >= _AGED and self._earn()):
                return
            await asyncio.sleep(_STEP)

    def _earn(self) -> bool:
        """Use the share of a bind that has ended; False where there is none."""
        ended = self._binds.ended
        self._earned = min(self._earned + ended - self._counted, _MOST_EARNED)
        self._counted = ended
        if self._earned < 1.0:
            return False
        self._earned -= 1.0
        return True

    def _age(self) -> float:
        """Seconds for which the oldest has waited of the namespaces that are not slow."""
        self._look()
        if self._prompt_since is not None:
            return self._ticks() - self._prompt_since
        return 0.0

    def _look(self) -> None:
        """Look for the oldest, now and then: there may be thousands of namespaces."""
        now = self._ticks()
        if now - self._looked >= _OLDEST or not self._waiting:
            self._looked = now
            self._since, self._prompt_since = self._waiting.since(), self._waiting.since(self._slow)
