"""What waits to be written behind everything else: newest first heard, namespaces in turn, and never without a bound.

A tenant who makes thousands of objects that cannot be scheduled has as many statuses and events written about them.
They wait in that tenant's own row here, and the sender takes one of each namespace in turn, so the one
status of another tenant waits for one of theirs and not for all.
"""

from __future__ import annotations

from collections.abc import Container, Hashable
from typing import Final, Generic, TypeVar

__all__ = ["Outbox"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_MOST: Final = 50_000


class Outbox(Generic[K, V]):
    """Values by namespace and key; of one key the newest counts, and it keeps the place of the one before."""

    def __init__(self, capacity: int = _MOST) -> None:
        """Beyond `most` values the oldest of the namespace that has the most of them goes."""
        self._most = capacity
        self._rows: dict[str, dict[K, tuple[float, V]]] = {}  # namespaces in the order in which they are served next
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def get(self, namespace: str, key: K) -> V | None:
        """Value that waits under a key, None without one."""
        entry = self._rows.get(namespace, {}).get(key)
        return entry[1] if entry is not None else None

    def put(self, namespace: str, key: K, value: V, at: float = 0.0) -> None:
        """Let a value wait, in place of an older one; it waits since the first of them was put, `at` some time."""
        row = self._rows.setdefault(namespace, {})
        self._size += key not in row
        row[key] = row[key][0] if key in row else at, value
        if self._size > self._most:
            fullest = max(self._rows, key=lambda name: len(self._rows[name]))
            self.drop(fullest, next(iter(self._rows[fullest])))

    def drop(self, namespace: str, key: K) -> None:
        """Let nothing wait under a key any more."""
        row = self._rows.get(namespace, {})
        if key in row:
            del row[key]
            self._size -= 1
            if not row:
                del self._rows[namespace]

    def waits(self, besides: Container[str] = ()) -> bool:
        """Whether something waits, of namespaces other than these."""
        return any(namespace not in besides for namespace in self._rows)

    def since(self, besides: Container[str] = ()) -> float | None:
        """When the oldest was put of namespaces other than these; None where nothing waits."""
        rows = (row for namespace, row in self._rows.items() if namespace not in besides)
        return min((next(iter(row.values()))[0] for row in rows), default=None)

    def take(self, besides: Container[str] = ()) -> tuple[str, K, V]:
        """The oldest of the namespace whose turn it is, none of these, which is then the last: with its namespace.

        KeyError where nothing waits.
        """
        namespace = next((name for name in self._rows if name not in besides), None)
        if namespace is None:
            raise KeyError("nothing waits")
        row = self._rows.pop(namespace)
        key = next(iter(row))
        _, value = row.pop(key)
        self._size -= 1
        if row:
            self._rows[namespace] = row
        return namespace, key, value
