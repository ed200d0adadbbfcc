"""What there is to show at one moment, as bytes, and sources that know the latest of it."""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeVar

import msgspec

from tierwise import __version__
from tierwise.api.codec import Raw
from tierwise.api.errors import InputError
from tierwise.explain.board import Board, Line
from tierwise.sim.what_if.changes import Scenario

__all__ = ["Bounded", "CachedBody", "RunSource", "RunView", "WatchedSource"]


_KEPT: Final = 200
"""Answers about one board that are remembered."""


K = TypeVar("K")
V = TypeVar("V")


class Bounded(OrderedDict[K, V]):
    """The last entries that were put, so many at most."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        if len(self) > self._most:
            self.popitem(last=False)


class CachedBody(msgspec.Struct, frozen=True):
    """A body with its mark: equal bytes have equal marks."""

    body: bytes
    mark: str

    @classmethod
    def of(cls, body: bytes) -> CachedBody:
        return cls(body, hashlib.sha256(body).hexdigest()[:20])

    @classmethod
    def json(cls, wire: object) -> CachedBody:
        return cls.of(msgspec.json.encode(wire))


class RunView:
    """The board of one moment with what the page says about where it comes from; answers are made once, when asked."""

    def __init__(
        self,
        board: Board,
        *,
        mode: str,
        title: str,
        options: str = "",
        fault: str = "",
        made: float | None = None,
        scenario: Callable[[], Scenario] | None = None,
        news: Sequence[Raw] = (),
    ) -> None:
        """`mode` is manifests, cluster or scheduler; `options` are those with which commands see the same objects.

        `fault` is why there is nothing newer, and `made` the time at which the board was made, where it is not now.
        `scenario` is what questions of the kind "what if" start from, where such questions are answered. `news` are
        the last cycles of a scheduler: many more than the board tells of.
        """
        self.news = news
        self.live = mode == "scheduler"
        self.scenario = scenario
        self._board = board
        self.made = time.time() if made is None else made
        self._about: Raw = {
            "version": __version__,
            "mode": mode,
            "title": title,
            "options": options,
            "fault": fault,
            "whatIf": scenario is not None,
            "made": round(self.made, 3) if mode != "manifests" or fault else 0,
        }
        self._known: dict[tuple[str, tuple[object, ...]], CachedBody] = {}
        self._lock = threading.Lock()

    def board(self) -> CachedBody:
        """All that the page begins with."""
        answer = self.answer(self._whole)
        assert answer is not None
        return answer

    def _whole(self, board: Board) -> Raw:
        return {**self._about, **board.wire()}

    def answer(self, ask: Callable[..., Raw | None], *given: object) -> CachedBody | None:
        """What the board says to a question, one of its own methods; None where it is about nothing that exists."""
        key = ask.__name__, given
        with self._lock:
            if key not in self._known:
                wire = ask(self._board, *given)
                if wire is None:
                    return None  # not remembered: there is no end of names that do not exist
                if len(self._known) >= _KEPT:  # nor is there an end of queries
                    self._known.pop(next(key for key in self._known if key[0] != "_whole"))
                self._known[key] = CachedBody.json(wire)
            return self._known[key]

    def lines(self) -> list[Line]:
        """All jobs that wait or hold something."""
        with self._lock:
            return self._board.lines

    def but(self, fault: str) -> RunView:
        """The same board with a fault beside it, which is as old as it was."""
        about = {name: str(self._about[name]) for name in ("mode", "title", "options")}
        return RunView(self._board, **about, fault=fault, made=self.made, scenario=self.scenario, news=self.news)


class RunSource(Protocol):
    """What knows the latest state to show. Asked from several threads."""

    def show(self) -> RunView | str:
        """The latest; or, in a few words, why there is nothing yet."""


class WatchedSource:
    """A source that is made again whenever its stamp changes: files that were written, or time that has passed.

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
