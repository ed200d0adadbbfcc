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
        now = self._ticks()
        slow = []
        for namespace in list(self._namespaces.values()):
            begun = [request.begun for request in list(namespace.unanswered)]
            if begun:
                slow.append(SlowNamespace(namespace.name, len(begun), now - min(begun)))
        return sorted(slow, key=lambda slow: (-slow.seconds, slow.name))

    async def begin(self, request: _Request) -> None:
        """Wait for a slot."""
        namespace = self._namespaces.get(request.namespace)
        if namespace is None:
            namespace = self._namespaces[request.namespace] = _Namespace(request.namespace)
        if namespace.waiting or not self._may_begin(namespace):
            await self._turn_of(namespace)
        else:
            self._take(namespace)
        request.begun = self._ticks()
        request.holds = True
        self._prompt[request] = None
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(PROMPT, self._ring)

    async def _turn_of(self, namespace: _Namespace) -> None:
        """Wait until a namespace is dealt a slot for the request that asks."""
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        namespace.waiting.append(granted)
        self._turns.setdefault(namespace.name, namespace)
        try:
            await granted
        except asyncio.CancelledError:
            if not granted.cancelled():  # it was dealt a slot at the same moment
                self._give_back(namespace)
            elif granted in namespace.waiting:
                namespace.waiting.remove(granted)
            self._settle(namespace)
            self._deal()
            raise

    def end(self, request: _Request) -> None:
        """A request was answered, or given up."""
        namespace = self._namespaces[request.namespace]
        if request.holds:
            del self._prompt[request]
            self._give_back(namespace)
        else:
            del namespace.unanswered[request]
            self._unanswered -= 1
        if not namespace.unanswered and self._ticks() - request.begun < PROMPT:
            self._judge(namespace, slow=False)
        self._settle(namespace)
        self._deal()

    def _may_begin(self, namespace: _Namespace) -> bool:
        """Whether a namespace may have another slot now."""
        if self._held >= self._slots:
            return False
        free = self._slots - (self._held - namespace.holding)
        if namespace.holding >= max(1, free // 2):
            return False
        if not namespace.slow:
            return True
        under_way = namespace.holding + len(namespace.unanswered)
        return (
            self._held_by_slow < max(1, self._slots // 4)
            and under_way < max(1, self._slots // 2)
            and self._unanswered < MOST_UNANSWERED
        )

    def _take(self, namespace: _Namespace) -> None:
        namespace.holding += 1
        self._held += 1
        self._held_by_slow += namespace.slow

    def _give_back(self, namespace: _Namespace) -> None:
        namespace.holding -= 1
        self._held -= 1
        self._held_by_slow -= namespace.slow

    def _deal(self) -> None:
        """Give free slots to those who wait, namespace after namespace."""
        served = True
        while served and self._held < self._slots:
            served = False
            for name, namespace in list(self._turns.items()):
                if not self._may_begin(namespace):
                    continue
                del self._turns[name]
                granted = namespace.waiting.popleft()
                if namespace.waiting:
                    self._turns[name] = namespace
                served = True
                if not granted.cancelled():
                    self._take(namespace)
                    granted.set_result(None)

    def _ring(self) -> None:
        self._timer = None
        seconds_left = self.look()
        if seconds_left is not None:
            self._timer = asyncio.get_running_loop().call_later(seconds_left, self._ring)

    def look(self) -> float | None:
        """Let requests go on without a slot that have had no answer for too long; seconds until the next one has."""
        now = self._ticks()
        seconds_left = None
        for request in list(self._prompt):
            seconds_left = request.begun + PROMPT - now
            if seconds_left > 0.0:
                break
            seconds_left = None
            namespace = self._namespaces[request.namespace]
            del self._prompt[request]
            self._give_back(namespace)
            request.holds = False
            namespace.unanswered[request] = None
            self._unanswered += 1
            self._judge(namespace, slow=True)
        self._deal()
        return seconds_left

    def _judge(self, namespace: _Namespace, *, slow: bool) -> None:
        """Note whether a namespace is slow."""
        if namespace.slow is slow:
            return
        namespace.slow = slow
        self._held_by_slow += namespace.holding if slow else -namespace.holding
        self.slow = frozenset(_names(self._namespaces.values()))

    def _settle(self, namespace: _Namespace) -> None:
        """Forget a namespace of which nothing is to be known any more."""
        if not namespace.waiting:
            self._turns.pop(namespace.name, None)
        if namespace.idle and (not namespace.slow or len(self._namespaces) > _MOST_REMEMBERED):
            del self._namespaces[namespace.name]
            if namespace.slow:
                self.slow = frozenset(_names(self._namespaces.values()))


def _names(namespaces: Iterable[_Namespace]) -> Iterable[str]:
    return (namespace.name for namespace in namespaces if namespace.slow)


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
