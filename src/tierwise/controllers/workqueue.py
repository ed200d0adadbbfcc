"""How a controller finds what to look at: an index of the objects it reads, and a queue of those to reconcile.

A controller that goes over every object for every event costs as much as the cluster is large. These two make the cost
follow from what has changed: the index says which objects a change is about, and the queue keeps what was touched,
has something to do, or waits for a time. Both may be left half-way by an exception, and do the rest when asked again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from heapq import heappop, heappush
from typing import Any, Generic, TypeVar

from tierwise.api.codec import Object
from tierwise.api.natural import natural
from tierwise.port import Effect, Key

__all__ = ["Changes", "Index", "Requeue", "WorkQueue"]

R = TypeVar("R", bound=Object)

Changes = Mapping[type[Object], Mapping[Key, Object | None]]
"""Objects that have come, gone or become others, by type; see `Objects.changed_objects`."""

Requeue = tuple[Sequence[Effect], float | None]
"""What reconciling something asks for, and when time alone will give it something to do (None: never)."""


class Index(Generic[R]):
    """The objects of a type by a key that each of them says; None for objects that are not looked up."""

    def __init__(self, record: type[R], key: Callable[[R], str | None]) -> None:
        self._record = record
        self._key = key
        self._keys: dict[Key, str] = {}
        self._found: dict[str, dict[Key, R]] = {}

    def follow(self, changed: Changes) -> set[str]:
        """Take note of the objects that have changed; the keys that they were or are found by."""
        latest: Mapping[Key, Any] = changed.get(self._record, {})
        if not latest:
            return set()
        named = [(key, record, self._key(record) if record is not None else None) for key, record in latest.items()]
        touched: set[str] = set()
        for key, record, name in named:
            old = self._keys.get(key)
            if old is not None and old != name:
                touched.add(old)
                del self._keys[key], self._found[old][key]
                if not self._found[old]:
                    del self._found[old]
            if name is not None:
                touched.add(name)
                self._keys[key] = name
                self._found.setdefault(name, {})[key] = record
        return touched

    def __getitem__(self, key: str) -> list[R]:
        """The objects of a key in natural order."""
        entries = self._found.get(key, {})
        if len(entries) < 2:
            return [*entries.values()]
        return [entries[of] for of in sorted(entries, key=lambda of: natural(of.path))]

    def of(self, key: str) -> Collection[R]:
        """Records under a key, in no particular order."""
        return self._found.get(key, {}).values()

    def __contains__(self, key: str) -> bool:
        return key in self._found


class WorkQueue:
    """Names to reconcile: those added, those that had something to do the last time, and those whose time has come."""

    def __init__(self) -> None:
        self._waiting: set[str] = set()
        self._at: dict[str, float] = {}
        self._timers: list[tuple[float, str]] = []  # a heap; those that `_at` does not confirm are void

    def add(self, names: Iterable[str]) -> None:
        self._waiting.update(names)

    def idle(self, now: float) -> bool:
        """Whether nothing is to be reconciled now."""
        return not self._waiting and (not self._timers or (due := self.due()) is None or due > now)

    def waiting(self) -> list[str]:
        """The keys that are to be reconciled at any time, in natural order."""
        if len(self._waiting) > 1:
            return sorted(self._waiting, key=natural)
        return [*self._waiting]

    def run(self, now: float, reconcile: Callable[[str], Requeue]) -> list[Effect]:
        """Reconcile every key that is due, in natural order; a key that asks for nothing leaves the queue."""
        while (due := self.due()) is not None and due <= now:
            _, name = heappop(self._timers)
            del self._at[name]
            self._waiting.add(name)
        effects: list[Effect] = []
        for name in self.waiting():
            effects_of_name, at = reconcile(name)
            self.after(name, at)
            if not effects_of_name:
                self._waiting.discard(name)
            effects += effects_of_name
        return effects

    def after(self, name: str, at: float | None) -> None:
        """Let a name come back at a time, and at no other."""
        if at is None:
            self._at.pop(name, None)
        elif self._at.get(name) != at:
            self._at[name] = at
            heappush(self._timers, (at, name))

    def due(self) -> float | None:
        """The next moment for which something waits."""
        while self._timers and self._at.get(self._timers[0][1]) != self._timers[0][0]:
            heappop(self._timers)
        return self._timers[0][0] if self._timers else None
