"""Windows (`tierwise.io`): times in which nodes are for nobody, or for some queues alone.

An operator declares one for maintenance, once or every so many days. The start is a time on the clock of a place, so a
window that recurs begins at the same local time all the year. Where clocks are put forward over a start, it is an hour
later; where they are put back, the first of the two counts.
"""

from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from math import inf
from typing import Final
from zoneinfo import ZoneInfo

import msgspec

from tierwise.api.core import Int, ObjectMeta, Record
from tierwise.api.duration import seconds
from tierwise.api.errors import InputError, suggestion

__all__ = ["GROUP", "OVERRUNS", "START", "WAIT", "Schedule", "Span", "Window", "WindowSpec", "check", "read_window"]

GROUP: Final = "tierwise.io"
WAIT: Final = "Wait"
START: Final = "Start"
STAY: Final = "Stay"
EVICT: Final = "Evict"
OVERRUNS: Final = (STAY, EVICT)

_DAY: Final = 86400.0
_MOST_DAYS: Final = 366
_LONGEST: Final = 31 * _DAY


class WindowSpec(Record, frozen=True):
    """Which nodes are closed, when, and to whom."""

    nodes: tuple[str, ...] = ()
    node_selector: dict[str, str] = {}
    domains: tuple[str, ...] = ()  # of the tree that rows follow
    start: str = ""
    duration: str = ""
    every_days: Int = 0  # 0: once
    until: str = ""  # no occurrence begins later
    time_zone: str = "UTC"
    queues: tuple[str, ...] = ()  # whose jobs may run in the window, and into it
    unknown_ends: str = WAIT  # of jobs whose end is not known: Wait, Start, or for how long they are taken to run
    overrun: str = STAY
    margin: str = "1m"  # so long before the window everybody must have ended
    reason: str = ""


class Window(Record, frozen=True):
    """A time in which nodes are closed."""

    metadata: ObjectMeta
    spec: WindowSpec = WindowSpec()


class Span(msgspec.Struct, frozen=True):
    """One occurrence, in seconds since the epoch."""

    start: float
    end: float


class Schedule(msgspec.Struct, frozen=True):
    """When a window is open, and what holds of jobs around it."""

    first: datetime  # on the clock of its place, without an offset
    zone: str
    duration: float
    every: int = 0  # days; 0: once
    until: float = inf
    unknown: float = inf  # for how long jobs with an unknown end are taken to run
    margin: float = 60.0
    evicts: bool = False

    def next(self, at: float) -> Span | None:
        """The occurrence that a moment lies in, or the first one behind it; None where there is none any more."""
        number = 0
        if self.every:
            passed = at - self.duration - self._start(0)
            number = max(0, int(passed // (self.every * _DAY)) - 1)
        for _ in range(4 if self.every else 1):
            start = self._start(number)
            if start > self.until:
                return None
            if start + self.duration > at:
                return Span(start, start + self.duration)
            number += 1
        return None

    def _start(self, number: int) -> float:
        local = self.first + timedelta(days=number * self.every)
        return local.replace(tzinfo=_zone(self.zone)).timestamp()


def check(window: Window) -> None:
    """InputError, with the object and the field, where a window cannot be read."""
    try:
        read_window(window)
    except InputError as error:
        raise error.inside(obj=f"Window {window.metadata.name}") from None


def read_window(window: Window) -> Schedule:
    """Read when a window is and whom it stops; InputError, with the field, where that cannot be."""
    spec = window.spec
    if not (spec.nodes or spec.node_selector or spec.domains):
        raise InputError("nodes, nodeSelector or domains must say which nodes are closed", field="spec")
    if spec.overrun not in OVERRUNS:
        text = f'"{spec.overrun}" is none of {", ".join(OVERRUNS)}{suggestion(spec.overrun, OVERRUNS)}'
        raise InputError(text, field="spec.overrun")
    try:
        _zone(spec.time_zone)
    except (ValueError, KeyError, OSError):  # zoneinfo's own is a KeyError
        raise InputError(f'there is no time zone "{spec.time_zone}"', field="spec.timeZone") from None
    last = _local(spec.until, spec.time_zone, "spec.until") if spec.until else None
    return Schedule(
        _local(spec.start, spec.time_zone, "spec.start"),
        spec.time_zone,
        _length(spec),
        every=spec.every_days,
        until=last.replace(tzinfo=_zone(spec.time_zone)).timestamp() if last is not None else inf,
        unknown=_unknown(spec.unknown_ends),
        margin=_duration(spec.margin, "spec.margin", least=0.0),
        evicts=spec.overrun == EVICT,
    )


def _length(spec: WindowSpec) -> float:
    duration = _duration(spec.duration, "spec.duration")
    if duration > _LONGEST:
        raise InputError(f'"{spec.duration}" is longer than 31 days', field="spec.duration")
    if not 0 <= spec.every_days <= _MOST_DAYS:
        text = f"{spec.every_days} is not a number of days from 1 to {_MOST_DAYS}, or 0 for once"
        raise InputError(text, field="spec.everyDays")
    if spec.every_days and duration > spec.every_days * _DAY:
        raise InputError("it is longer than the days from one to the next", field="spec.duration")
    return duration


def _unknown(text: str) -> float:
    if text in (WAIT, START):
        return inf if text == WAIT else 0.0
    found = seconds(text)
    if found is None or found < 0:
        wrong = f'"{text}" is neither {WAIT} nor {START}, nor a duration such as 12h'
        raise InputError(f"{wrong}{suggestion(text, (WAIT, START))}", field="spec.unknownEnds")
    return found


def _duration(text: str, field: str, least: float = 1.0) -> float:
    found = seconds(text)
    if found is None or found < least:
        raise InputError(f'"{text}" is no duration such as 4h or 90m', field=field)
    return found


def _local(text: str, zone: str, field: str) -> datetime:
    """A time on the clock of a zone; one with an offset of its own is brought there."""
    try:
        found = datetime.fromisoformat(text)
        if found.tzinfo is not None:
            found = found.astimezone(_zone(zone)).replace(tzinfo=None)
        if not 1970 <= found.year < 9000:
            raise ValueError
    except (ValueError, OverflowError):
        example = "2026-11-21T22:00"
        raise InputError(f'"{text}" is no time such as {example}, with or without an offset', field=field) from None
    return found.replace(fold=0)


@lru_cache(maxsize=64)
def _zone(name: str) -> tzinfo:
    return UTC if name == "UTC" else ZoneInfo(name)
