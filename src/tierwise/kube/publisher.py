"""Statuses on their way to the API server, behind binds and never in the way of the next cycle.

Each cycle says which statuses differ from what the server holds. What is told again replaces what still waits, what is
no longer told is not written, and what fails is told again by the next cycle. A warning about an object whose status is
told with it is written once that status is: until then the next cycle would warn again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import msgspec

from tierwise.kube.events import Recorder
from tierwise.kube.outbox import Outbox
from tierwise.kube.pace import give_way
from tierwise.port import Key, Outcome, PatchStatus, RecordEvent

__all__ = ["Publisher"]

log = logging.getLogger(__name__)

_WORKERS: Final = 4
_PAUSE: Final = 0.015
"""Seconds that a worker rests after a write: all of them take a part of the server's and of our own time, and not all
of it, however much waits."""


_Slot = tuple[Key, frozenset[str] | None]
"""Of which the newest counts: the status of an object, or some of its annotations alone."""


def _slot(effect: PatchStatus) -> _Slot:
    return effect.key, None if effect.status else frozenset(effect.annotations)


class _Told(msgspec.Struct, frozen=True):
    """What is to be written about one object."""

    status: PatchStatus
    warnings: tuple[RecordEvent, ...] = ()


class Publisher:
    """Writes statuses in the background; all but `tell` and `idle` belong to the event loop, and so do these."""

    def __init__(
        self,
        write: Callable[[PatchStatus], Awaitable[Outcome]],
        recorder: Recorder,
        binding: Callable[[], bool] = lambda: False,
    ) -> None:
        """While binds are sent (`binding`), statuses wait: binds come first on the server."""
        self._write = write
        self._recorder = recorder
        self._binding = binding
        self._waiting: Outbox[_Slot, _Told] = Outbox()
        self._by: dict[str, set[_Slot]] = {}  # by teller, the objects whose statuses it told last
        self._under_way: dict[_Slot, _Told] = {}
        self._written: dict[_Slot, _Told] = {}  # since something was told: the teller may not have seen it yet
        self._some = asyncio.Event()

    def tell(self, effects: Sequence[PatchStatus | RecordEvent], by: str) -> None:
        """Write these instead of all that the same one told before; "" replaces nothing but statuses of one object."""
        statuses = {_slot(effect): effect for effect in effects if isinstance(effect, PatchStatus)}
        warnings: dict[Key, list[RecordEvent]] = {}
        for effect in effects:
            if isinstance(effect, RecordEvent):
                if effect.type == "Warning" and (effect.about, None) in statuses:
                    warnings.setdefault(effect.about, []).append(effect)
                else:
                    self._recorder.record(effect)
        for slot, status in statuses.items():
            told = _Told(status, tuple(warnings.get(slot[0], ())) if slot[1] is None else ())
            if told == self._under_way.get(slot) or told == self._written.get(slot):
                self._waiting.drop(slot[0].namespace, slot)
            else:
                self._waiting.put(slot[0].namespace, slot, told)
        if by:
            for slot in self._by.get(by, set()) - statuses.keys():
                self._waiting.drop(slot[0].namespace, slot)
            self._by[by] = set(statuses)
            self._written.clear()
        if self._waiting:
            self._some.set()

    def idle(self) -> bool:
        """Whether nothing waits and nothing is under way."""
        return not self._waiting and not self._under_way

    async def run(self) -> None:
        """Write until cancelled."""
        await asyncio.gather(*(self._worker() for _ in range(_WORKERS)))

    async def _worker(self) -> None:
        while True:
            while self._waiting:
                await give_way(self._binding)
                if not self._waiting:
                    break
                await self._one(*self._waiting.take())
                await asyncio.sleep(_PAUSE)
            self._some.clear()
            await self._some.wait()

    async def _one(self, slot: _Slot, told: _Told) -> None:
        self._under_way[slot] = told
        try:
            outcome = await self._write(told.status)
        finally:
            if self._under_way.get(slot) is told:
                del self._under_way[slot]
        if outcome.ok:
            self._written[slot] = told
            for warning in told.warnings:
                self._recorder.record(warning)
        elif not outcome.withheld:
            log.warning("the status of %s was not written: %s", slot[0], outcome.error)
