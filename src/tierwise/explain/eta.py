"""When waiting jobs are expected to start, and their places in their queues: what is known, for people and programs.

`sim.eta` works it out; the command line, the pages and the status of podGroups show it. Pure: nothing is run here.
"""

from __future__ import annotations

import enum
from typing import Any

import msgspec

from tierwise.api.codec import Raw
from tierwise.api.core import format_time
from tierwise.api.plurals import count, joined, verb
from tierwise.model.job import Named, namespace_of, told

__all__ = [
    "Awaited",
    "Eta",
    "EtaReport",
    "StartKind",
    "alternative_text",
    "clock_text",
    "eta_text",
    "etas_wire",
    "lasting",
    "position_text",
    "range_text",
]

_DAY = 86400.0
Range = tuple[float, float | None]
"""From when, until when; None for later than the runs ahead came."""


class StartKind(enum.Enum):
    """What can be said of a job's start."""

    STARTED = "started"
    NOW = "now"  # the next cycle starts it
    EXPECTED = "expected"
    NEVER = "never"  # it would not fit if every other pod were gone
    NOT_ALLOWED = "not-allowed"  # a gate, a queue or a quota holds it back, and no end of a job changes that
    UNKNOWN = "unknown"

    @property
    def words(self) -> str:
        return self.value.replace("-", " ")


class Awaited(msgspec.Struct, frozen=True, rename={"job": "podGroup", "half": "range50"}):
    """A running or waiting job whose end a start follows."""

    job: str
    name: str
    end: float | None  # None where it has not started yet, so that its end follows from its own start
    half: tuple[float, float] | None = None
    source: str = ""  # what its end is from, for people


class Eta(
    msgspec.Struct,
    frozen=True,
    rename={"job": "podGroup", "half": "range50", "most": "range90", "now_if": "nowIf"},
):
    """One waiting job."""

    job: str  # key
    name: str
    queue: str
    position: int  # in its queue, from 1 on
    of: int
    kind: StartKind
    start: float | None = None
    half: Range | None = None  # it starts in here with a probability of 50 %
    most: Range | None = None  # and in here with one of 90 %
    after: tuple[Awaited, ...] = ()
    reason: str = ""  # a code, where it is not expected at any time
    message: str = ""
    now_if: tuple[str, ...] = ()  # changes that would start it now
    names: tuple[Named, ...] = ()  # what of the message is not for every namespace


class EtaReport(msgspec.Struct, frozen=True, rename={"sources": "endsFrom", "unknown": "endsUnknown"}):
    """All that were asked about, and what the answer rests on."""

    now: float
    jobs: tuple[Eta, ...]
    runs: int  # runs ahead
    cycles: int  # of all of them
    stopped: str = ""  # why some runs were not brought to their end
    sources: tuple[tuple[str, int], ...] = ()  # where expected ends come from, and of how many jobs
    unknown: tuple[str, ...] = ()  # names of running jobs whose end is not known: they are assumed to keep running


def lasting(seconds: float) -> str:
    """How long, in words: "40 s", "10 min", "3.5 h", "2.1 days"."""
    seconds = max(0.0, seconds)
    for unit, size, limit in (("s", 1.0, 90.0), ("min", 60.0, 5400.0), ("h", 3600.0, 2 * _DAY)):
        if seconds < limit:
            number = seconds / size
            digits = 1 if unit == "h" and number < 10 else 0
            return f"{number:.{digits}f} {unit}"
    return f"{seconds / _DAY:.1f} days"


def clock_text(at: float, now: float) -> str:
    """A time as people say it, in UTC: "14:20" of today, else with its date."""
    text = format_time(round(at / 60) * 60 if at - now >= 60 else at)
    day, clock = text[:10], text[11:16]
    return clock if day == format_time(now)[:10] else f"{day} {clock}"


def range_text(bounds: Range, now: float) -> str:
    """From when until when."""
    low, high = bounds
    until = clock_text(high, now) if high is not None else "later than that"
    return f"{clock_text(low, now)} to {until}"


def _around(start: float, half: Range | None, now: float) -> str:
    """A time with its 50 % range: "14:20 ± 10 min" where that is about as long to both sides, else both ends."""
    at = clock_text(start, now)
    if half is None or half[1] is None:
        return at
    before, after = start - half[0], half[1] - start
    if max(before, after) < 30:
        return at
    if max(before, after) <= 2 * min(before, after):
        return f"{at} ± {lasting(max(before, after))}"
    return f"{at} (likely {range_text(half, now)})"


def position_text(eta: Eta) -> str:
    """Its place: "position 2 of 5 in queue default"."""
    return f"position {eta.position} of {eta.of} in queue {eta.queue or 'none'}"


def eta_text(eta: Eta, now: float, reader: str | None = None) -> str:
    """When it starts and what that depends on, in one sentence; to those of a namespace without objects of others."""
    message = told(eta.message, eta.names, reader)
    match eta.kind:
        case StartKind.STARTED:
            return "it has started"
        case StartKind.NOW:
            return "now: the next cycle starts it"
        case StartKind.EXPECTED:
            assert eta.start is not None
            when = _around(eta.start, eta.half, now)
            if not eta.after:
                return f"{when}, in {lasting(eta.start - now)}"
            own_jobs = [a.name for a in eta.after if reader is None or namespace_of(a.job) == reader]
            jobs_of_others = len(eta.after) - len(own_jobs)
            named = own_jobs + (
                [count(jobs_of_others, "job of another namespace", "jobs of other namespaces")]
                if jobs_of_others
                else []
            )
            return f"when {joined(named)} {verb(len(eta.after), 'ends', 'end')}, {when}"
        case StartKind.NEVER:
            return f"never on this cluster: {message}"
        case StartKind.NOT_ALLOWED:
            return f"not allowed: {message}"
        case _:
            return f"unknown: {message}"


def alternative_text(way: str, number: int, text: str, place: str = "") -> str:
    """What a change would have to be, after "or now if"; `place` is the domain that all its nodes are in."""
    inside = f" of {place}" if place else ""
    match way:
        case "uncordon":
            return f"{count(number, 'node')}{inside} {verb(number, 'was', 'were')} uncordoned"
        case "evict":
            return f"{count(number, 'pod')} {verb(number, 'was', 'were')} evicted ({text.partition(': ')[2]})"
        case "add-nodes":
            return f"{count(number, 'node')} {verb(number, 'was', 'were')} added ({text.removeprefix('add ')})"
        case "loosen":
            return f"{text.removeprefix('make ').removesuffix(' soft')} were soft"
        case "relax":
            return f"{text.removeprefix('relax ')}".replace(" from ", " went from ")
        case _:
            return f"{text.removeprefix('raise ')}".replace(" to ", " were raised to ")


def etas_wire(report: EtaReport) -> Raw:
    """The whole answer for programs: times as they are written, and each job with its sentence."""
    wire: dict[str, Any] = msgspec.to_builtins(report)
    for eta, job in zip(report.jobs, wire["jobs"], strict=True):
        del job["names"]
        for entry in (job, *job["after"]):
            entry |= {key: _time(entry[key]) for key in ("start", "end", "range50", "range90") if key in entry}
        job["text"] = eta_text(eta, report.now)
    return {**wire, "now": format_time(report.now), "endsFrom": dict(report.sources)}


def _time(at: object) -> object:
    """A time, both ends of a range, or nothing."""
    if isinstance(at, tuple | list):
        return [_time(end) for end in at]
    return format_time(at) if isinstance(at, float | int) else None
