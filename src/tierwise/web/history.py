"""Past moments of a source: a bounded ring of boards with their lists of jobs, compressed, and the series over them.

A moment is kept whenever a page shows a new state; of a running scheduler also when no page is open (`events`).
Nodes and stories of jobs are not kept: of a past moment the page shows the map by domains, the lists, and what changed.
"""

from __future__ import annotations

import threading
import zlib
from collections import Counter, OrderedDict
from collections.abc import Sequence
from typing import Any, Final, Protocol, cast

import msgspec

from tierwise.api.codec import Raw
from tierwise.explain.board import JobQuery, Line, selected
from tierwise.web.views import CachedBody, RunView

__all__ = ["BoardHistory", "History", "PastView", "changed_jobs"]

BYTES: Final = 32 << 20
"""Compressed boards that are kept, in bytes; beyond it the oldest go."""

MOMENTS: Final = 1000
"""Moments that are kept at most."""

_LINES: Final = 2000
"""Jobs of a past moment: those that wait first, then the largest."""

_CHANGES: Final = 200
"""Jobs that are told of between two moments; the numbers count all."""


_POINTS: Final = 100
_QUEUES: Final = 200
"""Points of a series of one queue, and queues that have one: those with the most in use."""


class History(Protocol):
    """Moments that a page can go back to. Asked from several threads."""

    def saw(self, view: RunView) -> None:
        """Keep a view that is shown, where it is new."""

    def at(self, number: int) -> PastView | RunView | None:
        """A moment; None where it is not kept, or not any more."""

    def wire(self) -> Raw:
        """Figures of every moment."""

    def changes(self, first: int, second: int) -> Raw | None:
        """What became of jobs between two moments; None where one of them is not kept."""


class _Moment(msgspec.Struct, frozen=True):
    figures: Raw
    queues: dict[str, int]  # what each uses of the resource that people look at first
    board: bytes
    lines: bytes

    @property
    def size(self) -> int:
        return len(self.board) + len(self.lines)


class PastView:
    """A board that was, read from what is kept of it."""

    def __init__(self, moment: _Moment) -> None:
        self._moment = moment

    def board(self) -> CachedBody:
        return CachedBody.of(zlib.decompress(self._moment.board))

    def lines(self) -> list[Line]:
        return msgspec.json.decode(zlib.decompress(self._moment.lines), type=list[Line])

    def jobs(self, query: JobQuery) -> CachedBody:
        return CachedBody.json(selected(self.lines(), query))


class BoardHistory:
    """The moments of one source, the oldest first. Asked from several threads."""

    def __init__(self, *, most_bytes: int = BYTES, most_moments: int = MOMENTS) -> None:
        self._most_bytes = most_bytes
        self._most_moments = most_moments
        self._moments: OrderedDict[int, _Moment] = OrderedDict()
        self._last: RunView | None = None
        self._number = 0
        self._cycle = 0  # the newest that the last moment knew
        self._bytes = 0
        self._lock = threading.Lock()

    def saw(self, view: RunView) -> None:
        """Keep a view as a moment, unless it shows what the last one showed."""
        with self._lock:
            if view is self._last:
                return
            self._last = view
            wire = cast("Raw", msgspec.json.decode(view.board().body))
            last = next(reversed(self._moments.values()), None)
            figures = _figures(wire, since=self._cycle if wire["mode"] == "scheduler" else 0)
            if last is not None and _alike(last.figures, figures):
                return
            self._number += 1
            self._cycle = max((cycle["number"] for cycle in cast("list[dict[str, int]]", wire["cycles"])), default=0)
            lines = msgspec.json.encode(view.lines()[:_LINES])
            moment = _Moment(
                {**figures, "id": self._number},
                _queues(wire),
                zlib.compress(view.board().body, 6),
                zlib.compress(lines, 6),
            )
            self._moments[self._number] = moment
            self._bytes += moment.size
            while len(self._moments) > 1 and (
                self._bytes > self._most_bytes or len(self._moments) > self._most_moments
            ):
                _, gone = self._moments.popitem(last=False)
                self._bytes -= gone.size

    def at(self, number: int) -> PastView | None:
        """A moment; None where it is not kept, or not any more."""
        with self._lock:
            moment = self._moments.get(number)
        return PastView(moment) if moment is not None else None

    def wire(self) -> Raw:
        """Figures of every moment, and how much memory the moments take."""
        with self._lock:
            return {
                "recorded": False,
                "whole": False,
                "elapsed": False,
                "moments": [moment.figures for moment in self._moments.values()],
                "count": len(self._moments),
                "bytes": self._bytes,
                "mostBytes": self._most_bytes,
            }

    def queues(self) -> Raw:
        """What queues used over time, at some of the moments: as many as a small drawing can tell apart."""
        with self._lock:
            every = list(self._moments.values())
        shown = every[:: -(-len(every) // _POINTS) or 1]
        shown += every[-1:] if shown and shown[-1] is not every[-1] else []
        peaks: Counter[str] = Counter()
        for moment in shown:
            for name, used in moment.queues.items():
                peaks[name] = max(peaks[name], used)
        series = {name: [moment.queues.get(name, 0) for moment in shown] for name, _ in peaks.most_common(_QUEUES)}
        return {"moments": [moment.figures["id"] for moment in shown], "queues": series}

    def changes(self, first: int, second: int) -> Raw | None:
        """What became of jobs between two moments; None where one of them is not kept."""
        old, new = self.at(first), self.at(second)
        if old is None or new is None:
            return None
        return changed_jobs(old.lines(), new.lines())


def changed_jobs(old: Sequence[Line], new: Sequence[Line]) -> Raw:
    """Which jobs got pods, lost some, began to wait, or are gone."""
    before, after = ({line.key: line for line in lines} for lines in (old, new))
    kinds: dict[str, list[Line]] = {"started": [], "shrunk": [], "waiting": [], "gone": []}
    for key, line in after.items():
        pods = before[key].pods if key in before else 0
        if line.pods > pods:
            kinds["started"].append(line)
        elif line.pods < pods:
            kinds["shrunk"].append(line)
        if line.waits and not (key in before and before[key].waits):
            kinds["waiting"].append(line)
    kinds["gone"] = [line for key, line in before.items() if key not in after]
    return {
        kind: {"count": len(lines), "jobs": [{"name": line.name, "path": line.path} for line in lines[:_CHANGES]]}
        for kind, lines in kinds.items()
    }


def _figures(wire: Raw, since: int) -> Raw:
    """What the series tell of a moment, about the resource that people look at first and the cycles after a number."""
    resource = cast("list[str]", wire["resources"])[0]
    account = cast("dict[str, dict[str, int]]", wire["account"])[resource]
    jobs = cast("dict[str, int]", wire["jobs"])
    tree = cast("list[dict[str, list[int]]]", wire["fabrics"])[0]
    cycles = [cycle for cycle in cast("list[dict[str, int]]", wire["cycles"]) if cycle["number"] > since]
    return {
        "now": wire["now"],
        "made": wire["made"],
        "resource": resource,
        "total": account["total"],
        "used": account["gangs"] + account["single"] + account["others"],
        "fragmented": account["fragmented"],
        "nodes": tree["nodes"][0],
        "shut": tree["shut"][0],
        "waiting": jobs["waiting"],
        "running": jobs["running"],
        "placed": sum(cycle["pods"] for cycle in cycles),
        "evicted": sum(cycle["evicted"] for cycle in cycles),
        "mark": CachedBody.json([wire["fabrics"], wire["jobs"], wire["cycles"]]).mark,
    }


def _queues(wire: Raw) -> dict[str, int]:
    """What each queue uses of the first resource."""
    queues = cast("list[dict[str, Any]]", wire["queues"])
    return {queue["name"]: queue["used"][0] or 0 for queue in queues}


def _alike(one: Raw, other: Raw) -> bool:
    """Whether two moments show the same: the clock alone makes no new one."""
    return one["mark"] == other["mark"]
