"""A recording in the page: moments of a run that is over, or that a journal has kept, each read when it is asked for.

`RecordedHistory` lets the page show a `Recording` as it shows the past of a live source: the same series, the same
scrubber, the same map. Unlike a ring of boards it has all of each moment, nodes and stories of jobs as well.
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Sequence
from typing import Final, Protocol, cast

import msgspec

from tierwise.api.codec import Raw
from tierwise.explain.board import Line
from tierwise.web.event_log import EventLog
from tierwise.web.history import SUMS, changed_jobs
from tierwise.web.views import Bounded, RunView

__all__ = ["MOST_MOMENTS", "RecordedHistory", "Recording", "thinned"]

MOST_MOMENTS: Final = 5000
"""Moments of a recording that a page can choose from; of more, every second one is left out as often as it takes."""

_VIEWS: Final = 4
"""Moments that are held whole."""

_LISTS: Final = 256
"""Moments of which the jobs are held, compressed, to say what changed between two of them."""


class Recording(Protocol):
    """Moments of something that has happened. Asked from several threads."""

    elapsed: bool
    """Whether times are seconds since the beginning: a simulation has no dates."""

    @property
    def log(self) -> EventLog:
        """What happened to which job."""

    def moments(self) -> Sequence[Raw]:
        """Figures of every moment, the oldest first, as those of `BoardHistory`."""

    def count(self) -> int:
        """How many moments there were before some were left out."""

    def view(self, number: int) -> RunView | None:
        """Everything about the moment with this id; None where there is none."""


class RecordedHistory:
    """The moments of a recording, as the page asks for them."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._views: Bounded[int, RunView] = Bounded(_VIEWS)
        self._lines: Bounded[int, bytes] = Bounded(_LISTS)
        self._latest: tuple[int, RunView] | None = None
        self._lock = threading.Lock()

    def show(self) -> RunView | str:
        """The last moment; it changes while the recording is still written."""
        moments = self._recording.moments()
        if not moments:
            return "nothing is recorded yet"
        number, known = cast("int", moments[-1]["id"]), self._latest
        if known is None or known[0] != number:  # it is asked for all the time, whatever others look at
            view = self.at(number)
            if view is None:
                return "nothing is recorded yet"
            self._latest = known = number, view
        return known[1]

    def saw(self, view: RunView) -> None:
        """Nothing to keep: everything is recorded already."""

    def at(self, number: int) -> RunView | None:
        with self._lock:
            view = self._views.pop(number, None) or self._recording.view(number)
            if view is not None:
                self._views[number] = view
            return view

    def wire(self, since: int = 0) -> Raw:
        moments = self._recording.moments()
        about: Raw = {"recorded": True, "whole": True, "elapsed": self._recording.elapsed}
        later = [moment for moment in moments if cast("int", moment["id"]) > since]
        about |= {"first": 0, "last": moments[-1]["id"] if moments else 0, "kept": len(moments)}
        return {**about, "moments": later, "count": self._recording.count()}

    @property
    def log(self) -> EventLog:
        return self._recording.log

    def changes(self, first: int, second: int) -> Raw | None:
        """What became of jobs between two moments; None where there is no such moment."""
        old, new = self._jobs(first), self._jobs(second)
        return changed_jobs(old, new) if old is not None and new is not None else None

    def _jobs(self, number: int) -> list[Line] | None:
        kept = self._lines.get(number)
        if kept is not None:
            return msgspec.json.decode(zlib.decompress(kept), type=list[Line])
        view = self.at(number)
        if view is None:
            return None
        lines = view.lines()
        with self._lock:
            self._lines[number] = zlib.compress(msgspec.json.encode(lines), 1)
        return lines


def thinned(moments: list[Raw], most: int = MOST_MOMENTS) -> list[Raw]:
    """No more moments than a page can choose from: where two become one, what happened in both is counted."""
    while len(moments) > most:
        last = [] if len(moments) % 2 == 0 else moments[-1:]
        pairs = zip(moments[::2], moments[1::2], strict=False)
        moments = [{**new, **{name: _number(old[name]) + _number(new[name]) for name in SUMS}} for old, new in pairs]
        moments += last
    return moments


def _number(value: object) -> int:
    assert isinstance(value, int)
    return value
