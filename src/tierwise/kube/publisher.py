"""Statuses on their way to the API server, behind binds and never in the way of the next cycle.

Each cycle says which statuses differ from what the server holds. What is told again replaces what still waits, what is
no longer told is not written, and what fails is told again by the next cycle. A warning about an object whose status is
told with it is written once that status is: until then the next cycle would warn again.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import msgspec

from tierwise.kube.behind_binds import BehindBinds, BindsUnderWay
from tierwise.kube.events import Recorder
from tierwise.port import Key, Outcome, PatchStatus, RecordEvent

__all__ = ["Publisher"]

log = logging.getLogger(__name__)

_WORKERS: Final = 4
_PAUSE: Final = 0.015
"""Seconds that a worker rests after a status."""


_Slot = tuple[Key, frozenset[str] | None]
"""Of which the newest counts: the status of an object, or some of its annotations alone."""


def _slot(effect: PatchStatus) -> _Slot:
    return effect.key, None if effect.status else frozenset(effect.annotations)


class _Told(msgspec.Struct, frozen=True):
    """Content to write about one object."""

    status: PatchStatus
    warnings: tuple[RecordEvent, ...] = ()


class Publisher(BehindBinds[_Slot, _Told]):
    """Writes statuses in the background."""

    def __init__(
        self,
        write: Callable[[PatchStatus], Awaitable[Outcome]],
        recorder: Recorder,
        binds: BindsUnderWay,
    ) -> None:
        super().__init__(binds, workers=_WORKERS, pause=_PAUSE)
        self._patch = write
        self._recorder = recorder
        self._by: dict[str, set[_Slot]] = {}  # by teller, the objects whose statuses it told last
        self._under_way: dict[_Slot, _Told] = {}
        self._written: dict[_Slot, _Told] = {}  # since something was told: the teller may not have seen it yet

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
            message = _Told(status, tuple(warnings.get(slot[0], ())) if slot[1] is None else ())
            if message == self._under_way.get(slot) or message == self._written.get(slot):
                self._waiting.drop(slot[0].namespace, slot)
            else:
                self._put(slot[0].namespace, slot, message)
        if by:
            for slot in self._by.get(by, set()) - statuses.keys():
                self._waiting.drop(slot[0].namespace, slot)
            self._by[by] = set(statuses)
            self._written.clear()
        self._wake()

    async def _write(self, slot: _Slot, message: _Told) -> None:
        self._under_way[slot] = message
        try:
            outcome = await self._patch(message.status)
        finally:
            if self._under_way.get(slot) is message:
                del self._under_way[slot]
        if outcome.ok:
            self._written[slot] = message
            for warning in message.warnings:
                self._recorder.record(warning)
        elif not outcome.withheld:
            log.warning("the status of %s was not written: %s", slot[0], outcome.error)
