"""Marks of nodes: suspected ones, windows that are open or ahead, and places that are kept.

Callers are the pages. No names of tenants are told here: a page of nodes is read by everybody.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import inf
from typing import Literal

import msgspec
import numpy as np

from tierwise.api.core import format_time
from tierwise.api.plurals import count
from tierwise.model.snapshot import Snapshot

__all__ = ["NodeMark", "node_marks"]


class NodeMark(msgspec.Struct, frozen=True):
    """A mark of a node, and its text."""

    mark: Literal["suspected", "closed", "window", "kept"]
    text: str


def node_marks(snapshot: Snapshot) -> Mapping[int, tuple[NodeMark, ...]]:
    """By row, what is said of a node; rows of which nothing is said are left out."""
    marks_by_row: dict[int, list[NodeMark]] = {}
    for row, mark in (*_suspected(snapshot), *_windows(snapshot), *_kept(snapshot)):
        marks_by_row.setdefault(row, []).append(mark)
    return {row: tuple(marks) for row, marks in marks_by_row.items()}


def _suspected(snapshot: Snapshot) -> Iterator[tuple[int, NodeMark]]:
    memory = snapshot.start_memory
    if memory is None:
        return
    for name, owners in memory.at(snapshot.jobs, snapshot.now).suspected.items():
        row = snapshot.nodes.row.get(name)
        if row is not None:
            text = f"pods of {count(len(owners), 'namespace')} failed to start here: it is used last for a while"
            yield row, NodeMark("suspected", text)


def _windows(snapshot: Snapshot) -> Iterator[tuple[int, NodeMark]]:
    for window in snapshot.windows:
        span = window.schedule.next(snapshot.now)
        if span is None:
            continue
        why = f" ({window.reason})" if window.reason else ""
        end = format_time(span.end)
        mark = NodeMark("window", f"window {window.name} from {format_time(span.start)} until {end}{why}")
        if span.start <= snapshot.now:
            mark = NodeMark("closed", f"closed by window {window.name} until {end}{why}")
        for row in np.flatnonzero(window.rows).tolist():
            yield row, mark


def _kept(snapshot: Snapshot) -> Iterator[tuple[int, NodeMark]]:
    places: dict[int, list[float]] = {}
    for place in snapshot.held_places.places:
        if place.after:
            places.setdefault(place.row, []).append(place.until)
    for row, ends in places.items():
        latest_end = max(ends)
        until = f" until {format_time(latest_end)} at most" if latest_end < inf else ""
        number = count(len(ends), "place")
        yield row, NodeMark("kept", f"{number} kept{until} for pods that are about to come back")
