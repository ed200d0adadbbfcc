"""What there is to show at one moment, as bytes, and sources that know the latest of it."""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol, TypeVar

import msgspec

from tierwise import __version__
from tierwise.api.codec import Raw
from tierwise.api.errors import InputError
from tierwise.config.profile import Profile
from tierwise.explain.board import Board, JobQuery, Line, TableQuery
from tierwise.port import Objects

__all__ = [
    "ASKS",
    "Basis",
    "Bounded",
    "CachedBody",
    "RunSource",
    "RunView",
    "WatchedSource",
    "checked_ago",
    "job_query",
    "number_of",
]


_KEPT: Final = 200
"""Answers about one board that are remembered."""


K = TypeVar("K")
V = TypeVar("V")


class Bounded(OrderedDict[K, V]):
    """The last entries that were put, so many at most."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._most = limit

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        if len(self) > self._most:
            self.popitem(last=False)


class Basis(msgspec.Struct, frozen=True):
    """A cluster at one moment and its profile, from which questions start."""

    objects: Objects
    profile: Profile
    now: float
    schedulers: frozenset[str] | None = None


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
        made_at: float | None = None,
        basis: Basis | None = None,
        news: Sequence[Raw] = (),
    ) -> None:
        """`mode` is manifests, cluster or scheduler; `options` are those with which commands see the same objects.

        `fault` is why there is nothing newer, and `made` the time at which the board was made, where it is not now.
        `basis` is what questions of the kind "what if" start from, where such questions are answered. `news` are the
        last cycles of a scheduler: many more than the board tells of.
        """
        self.news = news
        self.live = mode == "scheduler"
        self.basis = basis
        self._board = board
        self.made = time.time() if made_at is None else made_at
        self._about: Raw = {
            "version": __version__,
            "mode": mode,
            "title": title,
            "options": options,
            "fault": fault,
            "whatIf": basis is not None,
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

    def answer(self, ask: Callable[..., Raw | None], *arguments: object) -> CachedBody | None:
        """Answer of a method of the board; None if the subject does not exist."""
        key = ask.__name__, arguments
        with self._lock:
            if key not in self._known:
                wire = ask(self._board, *arguments)
                if wire is None:
                    return None  # not remembered: there is no end of names that do not exist
                if ask is Board.csv:
                    return CachedBody.json(wire)  # large, and asked for once
                if len(self._known) >= _KEPT:  # nor is there an end of queries
                    self._known.pop(next(key for key in self._known if key[0] != "_whole"))
                self._known[key] = CachedBody.json(wire)
            return self._known[key]

    def lines(self) -> list[Line]:
        """All jobs that wait or hold something."""
        with self._lock:
            return self._board.lines

    def node_changes(self, marks: dict[str, bytes]) -> dict[str, Raw | None]:
        """Nodes that have changed since `marks` was written, by name; None for a node that is gone.

        `marks` has a fingerprint for each node, and is brought up to date.
        """
        with self._lock:
            return self._board.node_changes(marks)

    def but(self, fault: str) -> RunView:
        """A copy of this view that shows a fault; the age of its board stays what it was."""
        about = {name: str(self._about[name]) for name in ("mode", "title", "options")}
        return RunView(self._board, **about, fault=fault, made_at=self.made, basis=self.basis, news=self.news)


_MOMENT: Final = 0.5
"""Seconds for which one who asks waits for a view that is being made again, before the old one is good enough."""

_LONGEST: Final = 300
"""Characters of a text that is searched for."""


def _text(parameters: Mapping[str, str], name: str) -> str:
    return parameters.get(name, "")[:_LONGEST]


def number_of(parameters: Mapping[str, str], name: str, default: str = "") -> int:
    """A number of a query; InputError where it is none, or negative."""
    try:
        number = int(parameters.get(name, default))
    except ValueError:
        raise InputError(f"{name} is a number") from None
    if number < 0:
        raise InputError(f"{name} is not negative")
    return number


def job_query(parameters: Mapping[str, str]) -> JobQuery:
    """The jobs that a page asks for; a number that is none is refused."""
    offset = number_of(parameters, "offset", "0")
    limit = number_of(parameters, "limit", "60")
    words = {name: _text(parameters, name) for name in ("state", "verdict", "reason", "sort")}
    first_line = number_of(parameters, "first", "0")
    return JobQuery(
        text=_text(parameters, "q"),
        queue=parameters.get("queue"),
        offset=offset,
        limit=limit,
        first=first_line,
        **words,
    )


def table_query(table: str, parameters: Mapping[str, str]) -> TableQuery:
    """The rows that a page asks for; a number that is none is refused."""
    words = {name: _text(parameters, name) for name in ("sort", "resource", "tier")}
    offset = number_of(parameters, "offset", "0")
    limit = number_of(parameters, "limit", "100")
    return TableQuery(table[:_LONGEST], text=_text(parameters, "q"), offset=offset, limit=limit, **words)


class View(Protocol):
    """A board of now or of a past moment, as bytes."""

    def board(self) -> CachedBody:
        """All that the page begins with."""

    def answer(self, ask: Callable[..., Raw | None], *arguments: object) -> CachedBody | None:
        """Answer of a method of the board; None if the subject is unknown."""


Ask = Callable[[View, str, Mapping[str, str]], CachedBody | None]

ASKS: Final[Mapping[str, Ask]] = {
    "/api/board": lambda show, _, __: show.board(),
    "/api/jobs": lambda show, _, query: show.answer(Board.jobs, job_query(query)),
    "/api/search": lambda show, _, query: show.answer(Board.search, _text(query, "q")),
    "/api/nodes/{name:.+}": lambda show, name, query: show.answer(Board.nodes, name, _text(query, "fabric")),
    "/api/node/{name:.+}": lambda show, name, _: show.answer(Board.node, name),
    "/api/fits": lambda show, _, query: show.answer(Board.fits, _text(query, "shape"), _text(query, "job")),
    "/api/nodes-for/{name:.+}": lambda show, name, _: show.answer(Board.nodes_for, name),
    "/api/table/{name}": lambda show, name, query: show.answer(Board.table, table_query(name, query)),
    "/api/csv/{name}": lambda show, name, query: show.answer(Board.csv, table_query(name, query)),
    "/api/jobs/{name:.+}": lambda show, name, _: show.answer(Board.job, name),
}
"""What can be asked of a view, by path: with the name in the path, and the parameters of the query."""


class RunSource(Protocol):
    """Provider of the latest state to show. Called from several threads."""

    def show(self) -> RunView | str:
        """The latest; or, in a few words, why there is nothing yet."""


def checked_ago(source: RunSource) -> float:
    """How many seconds ago a source has last looked at what it shows; none where it looks whenever it is asked."""
    checked: float | None = getattr(source, "checked", None)
    if checked is not None:
        return max(0.0, time.time() - checked)
    return 0.0


class WatchedSource:
    """A source that is made again whenever its stamp changes: files that were written, or time that has passed.

    What cannot be used any more does not take away what was shown: the page says what is wrong, beside the old board.
    """

    def __init__(self, stamp: Callable[[], object], make: Callable[[], RunView]) -> None:
        """Raises InputError where there is nothing to begin with."""
        self._stamp = stamp
        self._make = make
        self._lock = threading.Lock()
        self._made = threading.Event()  # nothing is being made again
        self._made.set()
        self._seen = stamp()
        self.checked = time.time()
        self._last = make()

    def show(self) -> RunView:
        """The latest; what takes longer than a moment to make again is made in a thread of its own, and the old
        view is shown meanwhile.
        """
        with self._lock:
            if self._made.is_set():
                stamp = self._stamp()
                if stamp == self._seen:
                    return self._last
                self._seen = stamp
                self._made.clear()
                threading.Thread(target=self._make_again, name="reading", daemon=True).start()
        self._made.wait(_MOMENT)
        return self._last

    def _make_again(self) -> None:
        begun = time.time()
        try:
            self._last = self._make()
            self.checked = begun
        except InputError as error:
            self._last = self._last.but(str(error))
        except Exception as error:  # noqa: BLE001 - the old view stays, and says that it is old
            self._last = self._last.but(f"it could not be read again: {type(error).__name__}: {error}")
        finally:
            self._made.set()
