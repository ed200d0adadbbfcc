"""Gangs that run until a stated time and gangs that wait behind them, on two racks: for tests of reservations.

report(profile(), BUSY, BIG, job("x", lasts="20m", turn=2))
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace
from tests.support.draw import draw, gang

from tierwise.api.codec import Raw
from tierwise.api.core import format_time
from tierwise.api.eviction_terms import EXPECTED_DURATION
from tierwise.config.profile import DEFAULT, Profile

__all__ = ["BIG", "BUSY", "HOUR", "MINUTE", "NOW", "TWO_RACKS", "in_namespace", "job", "profile", "running", "stopped"]

NOW = 1_000_000.0
MINUTE, HOUR = 60.0, 3600.0
TWO_RACKS = draw("s0[r0[n0 n1] r1[n2 n3]]", node="gpu=8")


def profile(mode: str = "easy", **arguments: Any) -> Profile:
    """The default profile with reservations."""
    return replace(DEFAULT, action_arguments={"allocate": {"reservations": mode, **arguments}})


def job(name: str, tasks: int = 1, *, lasts: str = "", turn: int = 0, marks: Any = None, **settings: Any) -> list[Raw]:
    """A gang of whole nodes that waits, created in its turn."""
    raws = gang(name, tasks=tasks, each=settings.pop("each", "gpu=8"), **settings).manifests()
    for raw in raws:
        body: Any = raw
        body["metadata"]["creationTimestamp"] = format_time(NOW - HOUR + turn)
        if raw["kind"] == "PodGroup":
            body["metadata"]["annotations"] = {**({EXPECTED_DURATION: lasts} if lasts else {}), **(marks or {})}
    return raws


def running(name: str, on: str, *, ends_in: float | None = None, ago: float = HOUR, **settings: Any) -> list[Raw]:
    """A gang that runs for an hour, and states when it ends, or does not."""
    lasts = f"{int(ago + ends_in)}s" if ends_in is not None else ""
    raws = job(name, len(on.split()), lasts=lasts, on=on, **settings)
    for raw in raws:
        if raw["kind"] == "Pod":
            raw["status"] = {"phase": "Running", "startTime": format_time(NOW - ago)}
    return raws


def in_namespace(namespace: str, raws: list[Raw]) -> list[Raw]:
    """The same objects in a namespace; they are changed."""
    for raw in raws:
        body: Any = raw
        body["metadata"]["namespace"] = namespace
    return raws


def stopped(raws: list[Raw], seconds: int) -> list[Raw]:
    """The same objects, whose pods have a deadline unless it is 0; they are changed."""
    for raw in raws:
        body: Any = raw
        if raw["kind"] == "Pod" and seconds:
            body["spec"]["activeDeadlineSeconds"] = seconds
    return raws


BUSY = [*running("a", "n0", ends_in=HOUR), *running("b", "n2", ends_in=HOUR / 2)]
BIG = job("big", 2, within=1, turn=1)
