"""Slots for writes: how many requests that change something may be under way, and how namespaces share them.

A server is sent only so many writes at once, because more cost it more than they gain. A slot is held while a request
is under way, and never while its sender sleeps before another attempt. Admission of one tenant may take half a minute
for each request, so slots are dealt to namespaces:

1. Namespaces that wait for a slot get one in turn, whatever each of them has to write.
2. One namespace holds at most half of the slots that the others leave free.
3. A request without an answer for a second no longer holds its slot, and its namespace is slow until nothing of it is
   unanswered and its latest answer came within a second.
4. All slow namespaces together hold at most a quarter of the slots, and each has at most half as many requests under
   way as there are slots. With too many requests unanswered, slow namespaces begin no further ones.

It belongs to the event loop that the requests are sent from. Objects without a namespace share the name "".
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Final

import msgspec

from tierwise.kube.client import IN_FLIGHT

__all__ = ["SlowNamespace", "WriteSlots"]

PROMPT: Final = 1.0
"""Seconds within which a server answers a write that nobody holds up."""

MOST_UNANSWERED: Final = 256
"""Requests without an answer for that long, beyond which slow namespaces begin no further ones: each takes a
connection."""

_MOST_REMEMBERED: Final = 1000
"""Slow namespaces that are remembered although nothing of theirs is under way."""


class SlowNamespace(msgspec.Struct, frozen=True):
    """A namespace whose writes have had no answer for a while."""

    name: str
    writes: int  # that have had none for longer than `PROMPT`
    seconds: float  # for which the oldest of them has had none


class _Namespace:
    """The requests of one namespace."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.waiting: deque[asyncio.Future[None]] = deque()
        self.holding = 0  # slots
        self.unanswered: dict[_Request, None] = {}  # that hold no slot any more, the oldest first
        self.slow = False

    @property
    def idle(self) -> bool:
        """Whether nothing waits and nothing is under way."""
        return not self.waiting and not self.holding and not self.unanswered


class WriteSlots:
    """The slots of one connection to a server."""

    def __init__(self, ticks: Callable[[], float] = time.monotonic) -> None:
        """`ticks` gives seconds that never jump."""
        self._ticks = ticks
        self._slots = IN_FLIGHT
        self._held = 0
        self._held_by_slow = 0
        self._unanswered = 0
        self._namespaces: dict[str, _Namespace] = {}
        self._turns: dict[str, _Namespace] = {}  # namespaces of which a request waits, who is next first
        self._prompt: dict[_Request, None] = {}  # requests that hold a slot, the oldest first
        self._timer: asyncio.TimerHandle | None = None
        self.slow: frozenset[str] = frozenset()
        """The names of the namespaces that are slow; may be read from any thread."""

    def of(self, namespace: str) -> _Request:
        """A slot for one request, held within `async with` while it is under way; waits until there is one."""
        return _Request(self, namespace)

    def unanswered(self) -> list[SlowNamespace]:
        """Namespaces of which writes have had no answer for a while, those that wait longest first.

        Any thread may ask.
        """
        now, found = self._ticks(), []
        for one in list(self._namespaces.values()):
            begun = [request.begun for request in list(one.unanswered)]
            if begun:
                found.append(SlowNamespace(one.name, len(begun), now - min(begun)))
        return sorted(found, key=lambda slow: (-slow.seconds, slow.name))

    async def begin(self, request: _Request) -> None:
        """Wait for a slot."""
        one = self._namespaces.get(request.namespace)
        if one is None:
            one = self._namespaces[request.namespace] = _Namespace(request.namespace)
        if one.waiting or not self._may_begin(one):
            await self._turn_of(one)
        else:
            self._take(one)
        request.begun, request.holds = self._ticks(), True
        self._prompt[request] = None
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(PROMPT, self._ring)

    async def _turn_of(self, one: _Namespace) -> None:
        """Wait until a namespace is dealt a slot for the request that asks."""
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        one.waiting.append(granted)
        self._turns.setdefault(one.name, one)
        try:
            await granted
        except asyncio.CancelledError:
            if not granted.cancelled():  # it was dealt a slot at the same moment
                self._give_back(one)
            elif granted in one.waiting:
                one.waiting.remove(granted)
            self._settle(one)
            self._deal()
            raise

    def end(self, request: _Request) -> None:
        """A request was answered, or given up."""
        one = self._namespaces[request.namespace]
        if request.holds:
            del self._prompt[request]
            self._give_back(one)
        else:
            del one.unanswered[request]
            self._unanswered -= 1
        if not one.unanswered and self._ticks() - request.begun < PROMPT:
            self._judge(one, slow=False)
        self._settle(one)
        self._deal()

    def _may_begin(self, one: _Namespace) -> bool:
        """Whether a namespace may have another slot now."""
        if self._held >= self._slots:
            return False
        free = self._slots - (self._held - one.holding)
        if one.holding >= max(1, free // 2):
            return False
        if not one.slow:
            return True
        under_way = one.holding + len(one.unanswered)
        return (
            self._held_by_slow < max(1, self._slots // 4)
            and under_way < max(1, self._slots // 2)
            and self._unanswered < MOST_UNANSWERED
        )

    def _take(self, one: _Namespace) -> None:
        one.holding += 1
        self._held += 1
        self._held_by_slow += one.slow

    def _give_back(self, one: _Namespace) -> None:
        one.holding -= 1
        self._held -= 1
        self._held_by_slow -= one.slow

    def _deal(self) -> None:
        """Give free slots to those who wait, namespace after namespace."""
        served = True
        while served and self._held < self._slots:
            served = False
            for name, one in list(self._turns.items()):
                if not self._may_begin(one):
                    continue
                del self._turns[name]
                granted = one.waiting.popleft()
                if one.waiting:
                    self._turns[name] = one
                served = True
                if not granted.cancelled():
                    self._take(one)
                    granted.set_result(None)

    def _ring(self) -> None:
        self._timer = None
        left = self.look()
        if left is not None:
            self._timer = asyncio.get_running_loop().call_later(left, self._ring)

    def look(self) -> float | None:
        """Let requests go on without a slot that have had no answer for too long; seconds until the next one has."""
        now, left = self._ticks(), None
        for request in list(self._prompt):
            left = request.begun + PROMPT - now
            if left > 0.0:
                break
            left = None
            one = self._namespaces[request.namespace]
            del self._prompt[request]
            self._give_back(one)
            request.holds = False
            one.unanswered[request] = None
            self._unanswered += 1
            self._judge(one, slow=True)
        self._deal()
        return left

    def _judge(self, one: _Namespace, *, slow: bool) -> None:
        """Note whether a namespace is slow."""
        if one.slow is slow:
            return
        one.slow = slow
        self._held_by_slow += one.holding if slow else -one.holding
        self.slow = frozenset(_names(self._namespaces.values()))

    def _settle(self, one: _Namespace) -> None:
        """Forget a namespace of which nothing is to be known any more."""
        if not one.waiting:
            self._turns.pop(one.name, None)
        if one.idle and (not one.slow or len(self._namespaces) > _MOST_REMEMBERED):
            del self._namespaces[one.name]
            if one.slow:
                self.slow = frozenset(_names(self._namespaces.values()))


def _names(namespaces: Iterable[_Namespace]) -> Iterable[str]:
    return (one.name for one in namespaces if one.slow)


class _Request:
    """One request: an asynchronous context that holds a slot while it is under way."""

    __slots__ = ("_slots", "begun", "holds", "namespace")

    def __init__(self, slots: WriteSlots, namespace: str) -> None:
        self._slots = slots
        self.namespace = namespace
        self.begun = 0.0  # by a clock that never jumps
        self.holds = False

    async def __aenter__(self) -> None:
        await self._slots.begin(self)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._slots.end(self)
