"""What happened to which job and when: a log of a day, packed, from which a minute or the life of one job is told.

A history of boards leaves moments out as they age; the log has every start and every eviction, whatever is left out.
"""

from __future__ import annotations

import threading
import zlib
from collections import deque
from collections.abc import Callable, Iterable
from math import inf
from typing import Final, Literal

import msgspec

from tierwise.api.codec import Raw
from tierwise.web.views import Bounded

__all__ = ["DAY", "EventKind", "EventLog", "JobEvent"]

DAY: Final = 86400.0
"""Seconds for which moments and what happened are kept."""

_BYTES: Final = 16 << 20
"""Packed entries that are kept at most; a start takes about 30 bytes."""

_BLOCK: Final = 512
"""Entries that are packed together."""

_NAMES: Final = 20_000
"""Jobs whose names are known after they are gone."""

_TOLD: Final = 200
"""Entries of one kind that are told of; the numbers count all."""

EventKind = Literal["created", "waits", "reason", "started", "evicted", "shrunk", "ended"]


class JobEvent(msgspec.Struct, frozen=True, array_like=True):
    """Something that happened to a job; `moment` is the first of the history that shows it."""

    now: float
    moment: int
    kind: EventKind
    job: str  # its key
    pods: int = 0
    by: str = ""  # the key of the job that it was evicted for
    action: str = ""
    text: str = ""  # why, or where


class _Block(msgspec.Struct, frozen=True):
    first: float
    last: float
    packed: bytes


class EventLog:
    """Entries about in the order in which they happened. Asked from several threads."""

    def __init__(self, *, most_bytes: int = _BYTES, most_seconds: float = DAY) -> None:
        """Of a recording all is kept, however long it lasted."""
        self._most_bytes = most_bytes
        self._most_seconds = most_seconds
        self._names: Bounded[str, tuple[str, str]] = Bounded(_NAMES)
        self._blocks: deque[_Block] = deque()
        self._bytes = 0
        self._open: list[JobEvent] = []
        self._lock = threading.Lock()

    def call(self, key: str, name: str, path: str) -> None:
        """Note how a job is called, and how links name it."""
        self._names[key] = name, path

    def add(self, entries: Iterable[JobEvent]) -> None:
        """Keep entries; those too long before the newest go, and the oldest where there are too many."""
        with self._lock:
            for entry in entries:
                self._open.append(entry)
                if len(self._open) >= _BLOCK:
                    self._pack()

    def _pack(self) -> None:
        times = [entry.now for entry in self._open]
        block = _Block(min(times), max(times), zlib.compress(msgspec.msgpack.encode(self._open), 6))
        self._open = []
        self._blocks.append(block)
        self._bytes += len(block.packed)
        while self._bytes > self._most_bytes or self._blocks[0].last < block.last - self._most_seconds:
            self._bytes -= len(self._blocks.popleft().packed)
            if not self._blocks:
                return

    def between(self, begin: float, end: float) -> Raw:
        """Events from one time to another, both included, by kind."""
        return self._by_kind(self._found(lambda entry: begin <= entry.now <= end, begin, end))

    def during(self, after: int, upto: int) -> Raw:
        """Events of the moments after one, up to another, by kind."""
        return self._by_kind(self._found(lambda entry: after < entry.moment <= upto))

    def life(self, job: str) -> Raw:
        """Latest events of a job with this key or name, and of others because of it."""
        names = list(self._names.items())
        key = job if job in self._names else next((key for key, (_, path) in names if path == job), job)
        entries = self._found(lambda entry: key in (entry.job, entry.by))[-_TOLD:]
        return {**self._named(key), "entries": [{**self._wire(entry), "own": entry.job == key} for entry in entries]}

    def _found(self, matches: Callable[[JobEvent], bool], begin: float = -inf, end: float = inf) -> list[JobEvent]:
        with self._lock:
            blocks = list(self._blocks)
            newest = list(self._open)
        entries: list[JobEvent] = []
        for block in blocks:
            if block.first <= end and block.last >= begin:
                packed = zlib.decompress(block.packed)
                entries += filter(matches, msgspec.msgpack.decode(packed, type=list[JobEvent]))
        return entries + list(filter(matches, newest))

    def _by_kind(self, entries: Iterable[JobEvent]) -> Raw:
        """Of each kind how many jobs and pods, and the first entries."""
        kinds: dict[str, list[JobEvent]] = {"evicted": [], "started": [], "shrunk": [], "waits": [], "ended": []}
        for entry in entries:
            if entry.kind in kinds:
                kinds[entry.kind].append(entry)
        return {
            kind: {
                "count": len({entry.job for entry in entries}),
                "pods": sum(entry.pods for entry in entries),
                "entries": [self._wire(entry) for entry in entries[:_TOLD]],
            }
            for kind, entries in kinds.items()
        }

    def _named(self, key: str) -> Raw:
        name, path = self._names.get(key, (key, key))
        return {"name": name, "path": path}

    def _wire(self, entry: JobEvent) -> Raw:
        wire: Raw = {"now": entry.now, "moment": entry.moment, "kind": entry.kind, **self._named(entry.job)}
        wire |= {name: value for name in ("pods", "action", "text") if (value := getattr(entry, name))}
        if entry.by:
            return {**wire, "by": self._named(entry.by)}
        return wire
