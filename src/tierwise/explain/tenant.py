"""Answers for users of one namespace about its jobs: the records of the answers API, and how figures are rounded.

Nothing here names an object of another namespace. Numbers and times that follow from other tenants' jobs are given as
ranges on a fixed grid, so that many questions tell no more than one. Pure: nothing is run here.
"""

from __future__ import annotations

from math import ceil, floor
from typing import Final

import msgspec

from tierwise.api.core import format_time
from tierwise.explain.reasons import described

__all__ = [
    "ANSWER_VERSION",
    "CoarseNumber",
    "DryRunAnswer",
    "DryRunJob",
    "FitsAnswer",
    "FreeGangs",
    "HelpAnswer",
    "HistoryAnswer",
    "HistoryEntry",
    "JobAnswer",
    "JobsAnswer",
    "PositionAnswer",
    "QueueAnswer",
    "QueuesAnswer",
    "StartAnswer",
    "Way",
    "coarse_number",
    "coarse_text",
    "code_text",
    "start_range",
    "start_text",
    "time_text",
]

ANSWER_VERSION: Final = "v1"
"""The version of these records: a field that is renamed or gets another meaning makes the next one."""

_BINS: Final = (0, 1, 5, 10, 20, 50, 100)
"""Upper ends of the ranges in which numbers of other tenants' jobs and free gangs are told."""

_GRID: Final = ((3600.0, 900.0), (6 * 3600.0, 3600.0), (24 * 3600.0, 3 * 3600.0))
"""How far away a start is, and the width of the steps on which it is told then."""

_DAY: Final = 86_400.0


class CoarseNumber(msgspec.Struct, frozen=True, rename="camel"):
    """A number that is told as a range: at least this, and at most that; null where there is no upper end."""

    at_least: int
    at_most: int | None


def coarse_number(number: int) -> CoarseNumber:
    """The range that a number is told as: 0, 1, 2 to 5, 6 to 10, 11 to 20, 21 to 50, 51 to 100, or more."""
    lower = 0
    for upper in _BINS:
        if number <= upper:
            return CoarseNumber(lower, upper)
        lower = upper + 1
    return CoarseNumber(lower, None)


def coarse_text(number: CoarseNumber) -> str:
    """The range in words: "3", "2 to 5", "more than 100"."""
    if number.at_most is None:
        return f"more than {number.at_least - 1}"
    if number.at_most == number.at_least:
        return str(number.at_least)
    return f"{number.at_least} to {number.at_most}"


def start_range(earliest: float, latest: float | None, now: float) -> tuple[float, float | None]:
    """Two times widened to the grid of steps that fits their distance from now.

    The grid is counted from a fixed moment and not from now, so that asking again does not move its lines.
    """
    width = _width(earliest - now)
    begin = floor(earliest / width) * width
    if latest is None:
        return begin, None
    wide = _width(latest - now)
    end = ceil(latest / wide) * wide
    return begin, max(end, begin + width)


def _width(distance: float) -> float:
    for limit, width in _GRID:
        if distance < limit:
            return width
    return _DAY


def start_text(earliest: float, latest: float | None, now: float) -> str:
    """The range in words, from now: "within 15 min", "in 2 to 3 h", "in more than 2 days"."""
    begin = max(0.0, earliest - now)
    if latest is None:
        return f"in more than {_words(begin)}"
    end = latest - now
    if begin < 60.0:
        return f"within {_words(end)}"
    return f"in {_words(begin)} to {_words(end)}"


def _words(seconds: float) -> str:
    if seconds < 5400.0:
        return f"{ceil(seconds / 60.0)} min"
    if seconds < 2 * _DAY:
        return f"{round(seconds / 3600.0)} h"
    return f"{round(seconds / _DAY)} days"


def code_text(code: str) -> str:
    """The meaning of a reason's code, in words that hold for every cluster and name no object."""
    rows = described(code)
    if rows:
        return rows[0].plain("Means")
    return "a plugin of this cluster keeps it waiting"


class _Answer(msgspec.Struct, frozen=True, kw_only=True, rename="camel", tag_field="kind", tag=str):
    """Fields of every answer; its `kind` is the name of its record."""

    as_of: str = ""
    """The moment at which the cluster was looked at, as the API writes times."""
    stale_seconds: int = 0
    """So old an answer may be at most: until then equal questions get the same one."""


class JobAnswer(_Answer, frozen=True, kw_only=True, rename="camel"):
    """One job of the namespace: how it stands, and why it waits where it does."""

    name: str
    queue: str
    state: str
    """"running", "partly running", "waiting", or "starts" where the next cycle would start it."""
    pods: int
    pods_running: int
    pods_waiting: int
    minimum: int
    since: str = ""
    """When it was created; empty where that is not known."""
    verdict: str = ""
    """Of a job that waits: "never", "not-now" or "not-allowed"."""
    reason: str = ""
    """The code of the reason; the page about reasons describes each."""
    message: str = ""
    """The reason for people, without objects of other namespaces."""
    cure: str = ""
    """Advice: how the job could start."""
    reference: str = ""
    """Where more is said about the code."""
    cluster_says: str = ""
    """The newest condition of the job's own podGroup."""
    domain: str = ""
    """The innermost network domain around its running pods."""


class JobsAnswer(_Answer, frozen=True, kw_only=True, rename="camel"):
    """All jobs of the namespace."""

    namespace: str
    jobs: tuple[JobAnswer, ...]


class StartAnswer(_Answer, frozen=True, kw_only=True, rename="camel"):
    """When a job is expected to start, on a grid of times."""

    name: str
    expectation: str
    """"started", "now", "expected", "never", "not-allowed" or "unknown"."""
    earliest: str = ""
    latest: str = ""
    """Empty beside an `earliest` where no end can be given."""
    text: str = ""
    after: tuple[str, ...] = ()
    """Jobs of this namespace whose ends the start follows."""
    after_others: bool = False
    """Whether it follows ends of jobs of other namespaces as well."""
    runs: int = 0
    """How many simulated runs ahead the answer rests on."""


class PositionAnswer(_Answer, frozen=True, kw_only=True, rename="camel"):
    """The place of a waiting job in its queue."""

    name: str
    queue: str
    position: CoarseNumber
    own_position: int
    """Its place among the waiting jobs of the namespace in this queue, from 1 on."""
    text: str = ""


class Way(msgspec.Struct, frozen=True, rename="camel"):
    """One change that would start a job now."""

    way: str
    """"loosen", "relax", "quota", "add-nodes", "uncordon" or "others", the last where other jobs would have to go."""
    text: str


class HelpAnswer(_Answer, frozen=True, kw_only=True, rename="camel"):
    """Changes that would start a waiting job now."""

    name: str
    starts: bool
    """Whether the next cycle starts it anyway."""
    ways: tuple[Way, ...] = ()
    stopped: str = ""
    """Why the search for further ways ended early; empty where it did not."""


class FreeGangs(msgspec.Struct, frozen=True, rename="camel"):
    """How many gangs of a size would find room inside one domain of a tier."""

    tier: str
    size: int
    gangs: CoarseNumber


class FitsAnswer(_Answer, frozen=True, kw_only=True, rename="camel"):
    """Gangs that fit now, counted in one accelerator (or core) for each unit of size."""

    resource: str
    slots: tuple[FreeGangs, ...]


class DryRunJob(msgspec.Struct, frozen=True, rename="camel"):
    """The outcome for one job of a dry run."""

    name: str
    starts: bool
    pods: int
    pods_placed: int
    verdict: str = ""
    reason: str = ""
    message: str = ""
    cure: str = ""


class DryRunAnswer(_Answer, frozen=True, kw_only=True, rename="camel"):
    """The outcome of new manifests, had they been applied at `asOf`; nothing was applied."""

    namespace: str
    jobs: tuple[DryRunJob, ...]
    warnings: tuple[str, ...] = ()


class HistoryEntry(msgspec.Struct, frozen=True, rename="camel"):
    """Something that happened to a job, once or to several of its pods."""

    at: str
    event: str
    """"created", "condition", "podsBound", "podsStarted", "podsEvicted" or "podsEnded"."""
    pods: int = 0
    text: str = ""


class HistoryAnswer(_Answer, frozen=True, kw_only=True, rename="camel"):
    """The past of a job as far as its objects tell it, oldest first."""

    name: str
    entries: tuple[HistoryEntry, ...]


class QueueAnswer(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A queue of the namespace's jobs: what these use of it, and what the queue may use where that may be seen."""

    name: str
    resource: str
    used_here: str
    jobs_running: int
    jobs_waiting: int
    used: str = ""
    """By all namespaces; empty for those who may not get the queue."""
    limit: str = ""
    """The most that the queue may use; empty where it declares no limit or may not be seen."""


class QueuesAnswer(_Answer, frozen=True, kw_only=True, rename="camel"):
    """The queues of the namespace's jobs."""

    namespace: str
    queues: tuple[QueueAnswer, ...]


def time_text(at: float) -> str:
    """A time as the API writes it; empty for no time."""
    return format_time(at) if at else ""
