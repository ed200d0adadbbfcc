"""What there is to show at one moment, as bytes, and sources that know the latest of it."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable
from typing import Final, Protocol

import msgspec

from tierwise import __version__
from tierwise.api.codec import Raw
from tierwise.api.errors import InputError
from tierwise.explain.board import Board, JobQuery, Line
from tierwise.sim.what_if.changes import Scenario

__all__ = ["CachedBody", "RunSource", "RunView", "WatchedSource"]


_KEPT: Final = 200
"""Answers about one board that are remembered."""


class CachedBody(msgspec.Struct, frozen=True):
    """A body with its mark: equal bytes have equal marks."""

    body: bytes
    mark: str

    @classmethod
    def of(cls, body: bytes) -> CachedBody:
        return cls(body, hashlib.sha256(body).hexdigest()[:20])


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
    ) -> None:
        """`mode` is manifests, cluster or scheduler; `options` are those with which commands see the same objects.

        `fault` is why there is nothing newer, and `made` the time at which the board was made, where it is not now.
        `scenario` is what questions of the kind "what if" start from, where such questions are answered.
        """
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
        self._known: dict[tuple[str, str], CachedBody] = {}
        self._lock = threading.Lock()

    def board(self) -> CachedBody:
        """All that the page begins with."""
        answer = self._answer("board", "", lambda: {**self._about, **self._board.wire()})
        assert answer is not None
        return answer

    def nodes(self, domain: str, fabric: str = "") -> CachedBody | None:
        """The nodes below a domain of a fabric, that of rows unless it is named; None where there is no such domain."""
        return self._answer(f"nodes of {fabric}", domain, lambda: self._board.nodes(domain, fabric))

    def job(self, name: str) -> CachedBody | None:
        """The story of a job; None where there is no such job."""
        return self._answer("job", name, lambda: self._board.job(name))

    def jobs(self, query: JobQuery) -> CachedBody:
        """Some of the jobs."""
        answer = self._answer("jobs", repr(query), lambda: self._board.jobs(query))
        assert answer is not None
        return answer

    def lines(self) -> list[Line]:
        """All jobs that wait or hold something."""
        with self._lock:
            return self._board.lines

    def search(self, text: str) -> CachedBody:
        """Everything that has a text in its name."""
        answer = self._answer("search", text, lambda: self._board.search(text))
        assert answer is not None
        return answer

    def node(self, name: str) -> CachedBody | None:
        """The facts of a node; None where there is no such node."""
        return self._answer("node", name, lambda: self._board.node(name))

    def nodes_for(self, name: str) -> CachedBody | None:
        """What the nodes say to a job that waits; None where no such job does."""
        return self._answer("nodes for", name, lambda: self._board.nodes_for(name))

    def _answer(self, kind: str, name: str, make: Callable[[], Raw | None]) -> CachedBody | None:
        with self._lock:
            if (kind, name) not in self._known:
                wire = make()
                if wire is None:
                    return None  # not remembered: there is no end of names that do not exist
                if len(self._known) >= _KEPT:  # nor is there an end of queries
                    self._known.pop(next(key for key in self._known if key[0] != "board"))
                self._known[kind, name] = CachedBody.of(msgspec.json.encode(wire))
            return self._known[kind, name]

    def but(self, fault: str) -> RunView:
        """The same board with a fault beside it, which is as old as it was."""
        about = {name: str(self._about[name]) for name in ("mode", "title", "options")}
        return RunView(self._board, **about, fault=fault, made=self.made, scenario=self.scenario)


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
