"""Past moments of a source: a day of boards with their lists of jobs, compressed, and the series over them.

A moment is kept whenever a page shows a new state; of a running scheduler also when no page is open (`events`). Where
there are too many, those go whose neighbours are close for their age: the last minutes are whole, and of the night
there is one every few minutes. What happened in between stays in the log (`event_log`).
"""

from __future__ import annotations

import threading
import zlib
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol, cast

import msgspec
from msgspec.structs import replace

from tierwise.api.codec import Raw
from tierwise.explain.board import JobQuery, Line, selected
from tierwise.web.event_log import DAY, EventLog, JobEvent
from tierwise.web.views import CachedBody, RunView

__all__ = ["SUMS", "BoardHistory", "History", "PastView"]

BYTES: Final = 32 << 20
"""Compressed boards that are kept, in bytes; beyond it some are left out."""

MOMENTS: Final = 1000
"""Moments that are kept at most."""

_LINES: Final = 2000
"""Jobs of a past moment: those that wait first, then the largest."""

_DEAR: Final = 4
"""A moment with evictions goes when its neighbours are so many times closer than those of one without."""

SUMS: Final = ("placed", "evicted")
"""Figures that count what happened: where moments become one, they are added up."""

_POINTS: Final = 100
_QUEUES: Final = 200
"""Points of a series of one queue, and queues that have one: those with the most in use."""


class History(Protocol):
    """Moments that a page can go back to. Asked from several threads."""

    @property
    def log(self) -> EventLog:
        """Events of jobs."""

    def saw(self, view: RunView) -> None:
        """Keep a view that is shown, where it is new."""

    def at(self, number: int) -> PastView | RunView | None:
        """A moment; None where it is not kept, or not any more."""

    def wire(self, since: int = 0) -> Raw:
        """Figures of every moment after one."""


class _Moment(msgspec.Struct, frozen=True):
    figures: Raw
    queues: dict[str, int]  # what each uses of the resource that people look at first
    board: bytes
    lines: bytes
    nodes: dict[str, bytes]  # those that are others than at the moment before; empty for one that is gone
    node_bytes: int = 0

    @property
    def size(self) -> int:
        return len(self.board) + len(self.lines) + self.node_bytes


class PastView:
    """A board that was, read from what is kept of it."""

    def __init__(self, moment: _Moment, nodes: Mapping[str, bytes]) -> None:
        """`nodes` are those of all moments up to this one."""
        self._moment = moment
        self._nodes = nodes

    def board(self) -> CachedBody:
        return CachedBody.of(zlib.decompress(self._moment.board))

    def answer(self, ask: Callable[..., object], *arguments: object) -> CachedBody | None:
        """Recorded answer to a method of the board; None if it is not kept."""
        recorded: dict[str, Callable[..., CachedBody | None]] = {
            "jobs": self.jobs,
            "nodes": self.nodes,
            "node": self.node,
        }
        if ask.__name__ in recorded:
            return recorded[ask.__name__](*arguments)
        return None

    def lines(self) -> list[Line]:
        return msgspec.json.decode(zlib.decompress(self._moment.lines), type=list[Line])

    def jobs(self, query: JobQuery) -> CachedBody:
        return CachedBody.json(selected(self.lines(), query))

    def nodes(self, domain: str, fabric: str) -> CachedBody | None:
        """The nodes below a domain, as those of now; None where there is none of this name."""
        trees = msgspec.json.decode(zlib.decompress(self._moment.board))["fabrics"]
        number = next((i for i, tree in enumerate(trees) if tree["title"] == fabric), 0)
        tree = trees[number]
        if domain not in tree["name"]:
            return None
        below = {tree["name"].index(domain)}
        below.update(d for d, parent in enumerate(tree["parent"]) if parent in below or d in below)  # in preorder
        every = (msgspec.json.decode(raw) for raw in self._nodes.values() if raw)
        nodes_below = [node for node in every if node["hyperNodes"][number] in below]
        return CachedBody.json({"count": len(nodes_below), "nodes": nodes_below[:_LINES], "names": self._names()})

    def node(self, name: str) -> CachedBody | None:
        """One node, without labels and taints; None where there was none of this name."""
        raw = self._nodes.get(name)
        if not raw:
            return None
        fields = {**msgspec.json.decode(raw), "labels": {}, "taints": [], "names": self._names()}
        return CachedBody.json(fields)

    def _names(self) -> dict[str, tuple[str, str]]:
        return {line.key: (line.name, line.path) for line in self.lines()}


class BoardHistory:
    """The moments of one source, the oldest first. Asked from several threads."""

    def __init__(self, *, most_bytes: int = BYTES, most_moments: int = MOMENTS) -> None:
        self._most_bytes = most_bytes
        self._most_moments = most_moments
        self._moments: OrderedDict[int, _Moment] = OrderedDict()
        self._last: RunView | None = None
        self._lines: dict[str, Line] | None = None  # of the last moment, by key
        self._marks: dict[str, bytes] = {}  # of the nodes of the last moment
        self._displaced: set[str] = set()  # jobs that were evicted, and have not started again
        self._number = 0
        self._cycle = 0  # the newest that the last moment knew
        self._bytes = 0
        self.log = EventLog()
        self._lock = threading.Lock()

    def saw(self, view: RunView) -> None:
        """Keep a view as a moment, unless it shows what the last one showed."""
        with self._lock:
            if view is self._last:
                return
            self._last = view
            wire = cast("Raw", msgspec.json.decode(view.board().body))
            previous = next(reversed(self._moments.values()), None)
            news = [entry for entry in view.news if cast("int", entry["number"]) > self._cycle]
            figures = _figures(wire, news if view.live else cast("list[Raw]", wire["cycles"]))
            if previous is not None and _alike(previous.figures, figures):
                return
            self._number += 1
            self._cycle = max((cast("int", entry["number"]) for entry in news), default=self._cycle)
            before = cast("float", previous.figures["now"]) if previous is not None else 0.0
            seen = view.made if wire["mode"] == "manifests" else cast("float", figures["now"])  # files have no clock
            now = figures["now"] = max(before, seen)  # a clock may be set back
            self._note(view, news, now)
            lines = msgspec.json.encode(view.lines()[:_LINES])
            changed = view.node_changes(self._marks)
            nodes = {name: msgspec.json.encode(raw) if raw is not None else b"" for name, raw in changed.items()}
            moment = _Moment(
                {**figures, "id": self._number},
                _queues(wire),
                zlib.compress(view.board().body, 6),
                zlib.compress(lines, 6),
                nodes,
                sum(map(len, nodes.values())),
            )
            self._moments[self._number] = moment
            self._bytes += moment.size
            self._thin(now)

    def _note(self, view: RunView, news: Sequence[Raw], now: float) -> None:
        """Log what has happened since the last moment: what cycles decided, else what jobs have more or less of."""
        lines = {line.key: line for line in view.lines()}
        for line in lines.values():
            self.log.call(line.key, line.name, line.path)
        entries = list(_decided(news, self._number))
        for entry in entries:
            (self._displaced.add if entry.kind == "evicted" else self._displaced.discard)(entry.job)
        if self._lines is not None:
            entries_found = _differences(self._lines, lines, now, self._number, decided=view.live)
            entries += (entry for entry in entries_found if entry.kind != "ended" or entry.job not in self._displaced)
        if len(self._displaced) > _LINES:
            self._displaced &= lines.keys()
        self.log.add(sorted(entries, key=lambda entry: entry.now))
        self._lines = lines

    def _thin(self, now: float) -> None:
        """Leave out what is older than a day, and as many others as there are too many."""
        while len(self._moments) > 1:
            ids = list(self._moments)
            times = [cast("float", self._moments[number].figures["now"]) for number in ids]
            if times[0] < now - DAY:
                self._leave_out(ids[0])
            elif self._bytes <= self._most_bytes and len(ids) <= self._most_moments:
                return
            elif len(ids) == 2:
                self._leave_out(ids[0])
            else:
                dear = (_DEAR if self._moments[number].figures["evicted"] else 1 for number in ids[1:-1])
                gaps = zip(times, times[1:], times[2:], dear, strict=False)
                scores = [(after - before) * worth / (now - time + 1) for before, time, after, worth in gaps]
                self._leave_out(ids[1 + scores.index(min(scores))])

    def _leave_out(self, number: int) -> None:
        """Take a moment away; what it counts is counted by the one after it."""
        ids = list(self._moments)
        following = ids[ids.index(number) + 1]
        gone = self._moments.pop(number)
        next_moment = self._moments[following]
        sums = {name: cast("int", gone.figures[name]) + cast("int", next_moment.figures[name]) for name in SUMS}
        nodes = {**gone.nodes, **next_moment.nodes}
        merged = replace(
            next_moment, figures={**next_moment.figures, **sums}, nodes=nodes, node_bytes=sum(map(len, nodes.values()))
        )
        self._moments[following] = merged
        self._bytes += merged.size - next_moment.size - gone.size

    def at(self, number: int) -> PastView | None:
        """A moment, or the one before it where it was left out; None where nothing is kept of that time."""
        with self._lock:
            number_at = next(
                (moment_number for moment_number in reversed(self._moments) if moment_number <= number), None
            )
            if number_at is None or number > self._number:
                return None
            nodes: dict[str, bytes] = {}
            for moment_number, moment in self._moments.items():
                nodes |= moment.nodes
                if moment_number == number_at:
                    break
            return PastView(self._moments[number_at], nodes)

    def wire(self, since: int = 0) -> Raw:
        """Figures of the moments after one, how many there are, the oldest, and how much memory they take."""
        with self._lock:
            return {
                "recorded": False,
                "whole": False,
                "elapsed": False,
                "moments": [moment.figures for number, moment in self._moments.items() if number > since],
                "count": len(self._moments),
                "kept": len(self._moments),
                "first": next(iter(self._moments), 0),
                "last": self._number,
                "bytes": self._bytes,
                "mostBytes": self._most_bytes,
            }

    def queues(self) -> Raw:
        """Usage of queues over time, at no more moments than a small chart can show."""
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


def _decided(news: Sequence[Raw], moment: int) -> Iterator[JobEvent]:
    """Events for the decisions of a scheduler's cycles: placed jobs, and evicted jobs with their preemptors."""
    for cycle in news:
        now = cast("float", cycle["now"])
        for entry in cast("list[dict[str, Any]]", cycle["evictions"]):
            pods = len(entry["pods"])
            by = entry["by"]
            yield JobEvent(now, moment, "evicted", entry["job"], pods, by, entry["action"], entry["reason"])
        for entry in cast("list[dict[str, Any]]", cycle["decisions"]):
            if entry["bound"]:
                place = entry["hyperNode"] or "the whole cluster"
                yield JobEvent(now, moment, "started", entry["job"], entry["pods"], "", entry["action"], place)


def _differences(
    old: Mapping[str, Line], new: Mapping[str, Line], now: float, moment: int, *, decided: bool
) -> Iterator[JobEvent]:
    """Events for other differences between two moments: jobs that came, wait, wait for another reason, or are gone. If
    `decided` is false, also jobs with more or fewer pods.
    """
    for key, line in new.items():
        before = old.get(key)
        if before is None and line.created > 0:
            yield JobEvent(line.created, moment, "created", key, line.minimum)
        pods_before = before.pods if before is not None else 0
        if line.pods != pods_before and not decided:
            yield JobEvent(
                now, moment, "started" if line.pods > pods_before else "shrunk", key, abs(line.pods - pods_before)
            )
        waited = before is not None and before.waits
        if line.waits and not waited:
            yield JobEvent(now, moment, "waits", key, line.waiting + line.kept, text=line.decisive)
        elif line.waits and before is not None and line.reason != before.reason:
            yield JobEvent(now, moment, "reason", key, text=line.decisive)
    for key, line in old.items():
        if key not in new and not line.lone:  # a pod by itself is no job any more once it runs
            yield JobEvent(now, moment, "ended", key, line.pods)


def _figures(wire: Raw, news: Sequence[Raw]) -> Raw:
    """Figures of a moment for the charts, about the main resource and the new cycles."""
    resource = cast("list[str]", wire["resources"])[0]
    account = cast("dict[str, dict[str, int]]", wire["account"])[resource]
    jobs = cast("dict[str, int]", wire["jobs"])
    tree = cast("list[dict[str, list[int]]]", wire["fabrics"])[0]
    cycles = cast("list[dict[str, int]]", news)
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
    """Use of the first resource, by queue."""
    queues = cast("list[dict[str, Any]]", wire["queues"])
    return {queue["name"]: queue["used"][0] or 0 for queue in queues}


def _alike(figures: Raw, before: Raw) -> bool:
    """Whether two moments show the same: the clock alone makes no new one."""
    return figures["mark"] == before["mark"]
