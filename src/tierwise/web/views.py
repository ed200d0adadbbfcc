"""What there is to show at one moment, as bytes, and sources that know the latest of it."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from typing import Protocol

import msgspec

from tierwise import __version__
from tierwise.api.codec import Raw
from tierwise.api.errors import InputError
from tierwise.explain.board import Board

__all__ = ["CachedBody", "RunSource", "RunView", "WatchedSource"]


class CachedBody(msgspec.Struct, frozen=True):
    """A body with its mark: equal bytes have equal marks."""

    body: bytes
    mark: str

    @classmethod
    def of(cls, body: bytes) -> CachedBody:
        return cls(body, hashlib.sha256(body).hexdigest()[:20])


class RunView:
    """The board of one moment with what the page says about where it comes from; answers are made once, when asked."""

    def __init__(self, board: Board, *, mode: str, title: str, fault: str = "") -> None:
        """`mode` is manifests, cluster or scheduler; `fault` is why there is nothing newer."""
        self._board = board
        self._about: Raw = {"version": __version__, "mode": mode, "title": title, "fault": fault}
        self._known: dict[tuple[str, str], CachedBody | None] = {}
        self._lock = threading.Lock()

    def board(self) -> CachedBody:
        """All that the page begins with."""
        answer = self._answer("board", "", lambda: {**self._about, **self._board.wire()})
        assert answer is not None
        return answer

    def nodes(self, domain: str) -> CachedBody | None:
        """The nodes below a domain; None where there is no such domain."""
        return self._answer("nodes", domain, lambda: self._board.nodes(domain))

    def job(self, name: str) -> CachedBody | None:
        """The story of a job; None where there is no such job."""
        return self._answer("job", name, lambda: self._board.job(name))

    def _answer(self, kind: str, name: str, make: Callable[[], Raw | None]) -> CachedBody | None:
        with self._lock:
            if (kind, name) not in self._known:
                wire = make()
                if wire is None:
                    return None  # not remembered: there is no end of names that do not exist
                self._known[kind, name] = CachedBody.of(msgspec.json.encode(wire))
            return self._known[kind, name]

    def but(self, fault: str) -> RunView:
        """The same board with a fault beside it."""
        return RunView(self._board, mode=str(self._about["mode"]), title=str(self._about["title"]), fault=fault)


class RunSource(Protocol):
    """Somebody who knows what there is to show. Asked from several threads."""

    def show(self) -> RunView | str:
        """The latest; or, in a few words, why there is nothing yet."""


class WatchedSource:
    """A source that is made anew whenever its stamp changes: files that were written, or time that has passed.

    What cannot be used any more does not take away what was shown: the page says what is wrong, beside the old board.
    """

    def __init__(self, stamp: Callable[[], object], make: Callable[[], RunView]) -> None:
        """Raises InputError where there is nothing to begin with."""
        self._stamp = stamp
        self._make = make
        self._lock = threading.Lock()
        self._seen = stamp()
        self._last = make()

    def show(self) -> RunView:
        with self._lock:
            stamp = self._stamp()
            if stamp != self._seen:
                self._seen = stamp
                try:
                    self._last = self._make()
                except InputError as error:
                    self._last = self._last.but(str(error))
            return self._last
