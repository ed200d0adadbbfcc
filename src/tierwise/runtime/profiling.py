"""What a process is busy with: a sampled profile, what it allocates, its threads and tasks.

A profile is taken by looking at the stacks of all threads now and then, from a thread of its own: who is not looked at
pays nothing. It is written as a file for speedscope, or as folded lines, which every program for flame graphs reads.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from types import FrameType
from typing import Final, NamedTuple

import msgspec

from tierwise.api.codec import Raw

__all__ = ["Place", "Profile", "allocations", "folded", "sampled", "speedscope", "threads"]

_SCHEMA: Final = "https://www.speedscope.app/file-format-schema.json"
_SHOWN: Final = 100
"""Places in the code that are told of, those with the most first."""


class Place(NamedTuple):
    """A function."""

    name: str
    file: str
    line: int


Stack = tuple[Place, ...]
"""The outermost function first."""


class Profile(msgspec.Struct, frozen=True):
    """By thread, its stacks as they followed each other, and how many looks in a row saw each of them."""

    every: float  # seconds between two looks
    threads: dict[str, list[tuple[Stack, int]]]


def _stack(frame: FrameType | None) -> Stack:
    places = []
    while frame is not None:
        code = frame.f_code
        places.append(Place(code.co_qualname, code.co_filename, code.co_firstlineno))
        frame = frame.f_back
    return tuple(reversed(places))


def _names() -> dict[int, str]:
    return {thread.ident: thread.name for thread in threading.enumerate() if thread.ident is not None}


def sampled(
    looks: int,
    every: float,
    *,
    wait: Callable[[float], object],
    frames: Callable[[], Mapping[int, FrameType]] = sys._current_frames,
) -> Profile:
    """Look at the stacks of all threads but this one so many times."""
    this_thread = threading.get_ident()
    stacks = dict[int, list[tuple[Stack, int]]]()
    for _ in range(looks):
        for thread, frame in frames().items():
            if thread == this_thread:
                continue
            stack = _stack(frame)
            seen = stacks.setdefault(thread, [])
            if seen and seen[-1][0] == stack:
                seen[-1] = stack, seen[-1][1] + 1
            else:
                seen.append((stack, 1))
        wait(every)
    names = _names()
    return Profile(every, {f"{names.get(thread, 'thread')} {thread}": seen for thread, seen in stacks.items()})


def speedscope(profile: Profile, name: str) -> Raw:
    """A profile as the file that speedscope reads: one part for each thread."""
    numbers: dict[Place, int] = {}
    parts = []
    for thread, stacks in profile.threads.items():
        samples = [[numbers.setdefault(place, len(numbers)) for place in stack] for stack, _ in stacks]
        weights = [looks * profile.every for _, looks in stacks]
        part = {"type": "sampled", "name": thread, "unit": "seconds", "startValue": 0, "endValue": sum(weights)}
        parts.append({**part, "samples": samples, "weights": weights})
    frames = [place._asdict() for place in numbers]
    return {"$schema": _SCHEMA, "name": name, "exporter": "tierwise", "shared": {"frames": frames}, "profiles": parts}


def folded(profile: Profile) -> str:
    """A profile as lines with a thread and its stack, and how many looks saw it."""
    looks: Counter[str] = Counter()
    for thread, stacks in profile.threads.items():
        for stack, number in stacks:
            looks[";".join((thread, *(place.name for place in stack)))] += number
    return "".join(f"{line} {number}\n" for line, number in sorted(looks.items()))


def allocations(seconds: float, *, wait: Callable[[float], object]) -> Raw:
    """Memory allocated during some seconds and still held, by line, and the counts of the garbage collector."""
    begun = not tracemalloc.is_tracing()
    if begun:
        tracemalloc.start()
    try:
        wait(seconds)
        current_bytes, peak_bytes = tracemalloc.get_traced_memory()
        lines = tracemalloc.take_snapshot().statistics("lineno")
    finally:
        if begun:
            tracemalloc.stop()
    shown = [{"where": str(line.traceback), "bytes": line.size, "blocks": line.count} for line in lines[:_SHOWN]]
    return {
        "seconds": seconds,
        "heldBytes": current_bytes,
        "mostBytes": peak_bytes,
        "lines": shown,
        "collector": {"counts": list(gc.get_count()), "frozen": gc.get_freeze_count(), "runs": gc.get_stats()},
    }


def threads(loops: Iterable[asyncio.AbstractEventLoop] = ()) -> Raw:
    """The stacks of all threads, and of the tasks of some loops."""
    frames = sys._current_frames()
    return {
        "threads": [
            {"name": thread.name, "daemon": thread.daemon, "stack": _texts(_stack(frames.get(thread.ident or 0)))}
            for thread in threading.enumerate()
        ],
        "tasks": [
            {"name": task.get_name(), "stack": [_text(frame) for frame in task.get_stack()]}
            for loop in loops
            for task in asyncio.all_tasks(loop)
        ],
    }


def _texts(stack: Stack) -> list[str]:
    return [f"{place.name} ({place.file}:{place.line})" for place in stack]


def _text(frame: FrameType) -> str:
    return f"{frame.f_code.co_qualname} ({frame.f_code.co_filename}:{frame.f_lineno})"
