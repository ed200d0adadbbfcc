"""What waits to be written behind everything else: newest first heard, namespaces in turn, and never without a bound.

A tenant who makes thousands of objects that cannot be scheduled has as many statuses and events written about them.
They wait in that tenant's own row here, and the sender takes one of each namespace in turn, so the one
status of another tenant waits for one of theirs and not for all.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, Generic, TypeVar

__all__ = ["Outbox"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_MOST: Final = 50_000


class Outbox(Generic[K, V]):
    """Values by namespace and key; of one key the newest counts, and it keeps the place of the one before."""

    def __init__(self, most: int = _MOST) -> None:
        """Beyond `most` values the oldest of the namespace that has the most of them goes."""
        self._most = most
        self._rows: dict[str, dict[K, V]] = {}  # namespaces in the order in which they are served next
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def get(self, namespace: str, key: K) -> V | None:
        """What waits under a key."""
        return self._rows.get(namespace, {}).get(key)

    def put(self, namespace: str, key: K, value: V) -> None:
        """Let a value wait, in place of an older one."""
        row = self._rows.setdefault(namespace, {})
        self._size += key not in row
        row[key] = value
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

    def take(self) -> tuple[K, V]:
        """The oldest of the namespace whose turn it is, which is then the last; KeyError where nothing waits."""
        if not self._rows:
            raise KeyError("nothing waits")
        namespace = next(iter(self._rows))
        row = self._rows.pop(namespace)
        key = next(iter(row))
        value = row.pop(key)
        self._size -= 1
        if row:
            self._rows[namespace] = row
        return key, value
