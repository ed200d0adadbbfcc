"""Windows of one cycle: the rows that are closed to a job because it would run into a time in which they are.

A job that starts is taken to run until the late end of what is known (`ExpectedEnd.safe`): its own word counts, since
it is about itself. A job whose end is not known is taken to run as long as the window says. `Cycle.attempt` bars the
rows while it serves a job, so every search, count and bound minds them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import inf

import numpy as np

from tierwise.api.core import format_time
from tierwise.api.window import Span
from tierwise.framework.cycle import FitCounts
from tierwise.framework.extension import CycleView
from tierwise.model.arrays import Why
from tierwise.model.expected_ends import started_at
from tierwise.model.job import Job, Reason
from tierwise.model.snapshot import Snapshot
from tierwise.model.window import ClosedTime

__all__ = ["Windows"]

_AHEAD = 3
"""Occurrences of each window behind which a job that waits looks for a place."""

_Crossed = tuple[tuple[int, Span], ...]
"""Windows by number, and the occurrence of each."""


class Windows:
    """The rows that windows close to each job of one cycle."""

    def __init__(self, snapshot: Snapshot, fit_counts: FitCounts, view: CycleView) -> None:
        self._snapshot, self._fit_counts, self._view = snapshot, fit_counts, view
        self._spans: dict[tuple[int, float], Span | None] = {}
        self._masks: dict[tuple[_Crossed, bool], Why | None] = {}
        self._crossed: dict[int, _Crossed] = {}  # by number of a job, if it starts now
        self._served: tuple[Job, float | None] | None = None

    def serve(self, job: Job | None, at: float | None = None) -> None:
        """From now on the rows are closed that a job may not use if it starts now, or at a time; None: none."""
        self._served = (job, at) if job is not None else None
        self._fit_counts.bar(self.closed(job, at) if job is not None else None)

    @contextmanager
    def serving(self, job: Job, at: float | None = None) -> Iterator[None]:
        """Inside, rows are closed for a job; after it they are as they were before."""
        before = self._served
        self.serve(job, at)
        try:
            yield
        finally:
            self.serve(*(before or (None, None)))

    def concerns(self, job: Job) -> bool:
        """Whether some rows are closed to a job that starts now."""
        return bool(self._crosses(job, None))

    def closing(self, job: Job) -> list[str]:
        """The names of windows that close rows to a job that starts now, and when they are."""
        now, texts = self._snapshot.now, []
        for number, span in self._crosses(job, None):
            begins = "" if span.start <= now else f"from {format_time(span.start)} "
            name = self._snapshot.windows[number].name
            texts.append(f"window {name} ({begins}until {format_time(span.end)})")
        return texts

    def opens(self, job: Job) -> float:
        """When the first of the rows that are closed to a job open again; infinite where none is."""
        return min((span.end for _, span in self._crosses(job, None)), default=inf)

    def empties(self) -> float:
        """When the next window begins that evicts who is left; infinite where none does."""
        earliest = inf
        for number, window in enumerate(self._snapshot.windows):
            span = self._next(number, self._snapshot.now) if window.schedule.evicts else None
            if span is not None:
                earliest = min(earliest, span.start if span.start > self._snapshot.now else span.end)
        return earliest

    def ends(self, job: Job) -> list[float]:
        """When the next occurrences of each window end, except of those that are open to a job."""
        ends = []
        for number, window in enumerate(self._snapshot.windows):
            time = self._snapshot.now
            for _ in range(_AHEAD if job.queue not in window.queues else 0):
                span = self._next(number, time)
                if span is None:
                    break
                ends.append(span.end)
                time = span.end
        return ends

    def changes(self, job: Job, time: float) -> float:
        """The first moment from a time on at which other rows are closed to a job; infinite for never."""
        end, earliest = self._end(job, time), inf
        for number, window in enumerate(self._snapshot.windows):
            span = None if job.queue in window.queues else self._next(number, time)
            if span is not None:
                run = end - time if end is not None else window.schedule.unknown
                begin = span.start - window.schedule.margin - run
                earliest = min(earliest, begin if begin > time else span.end)
        return earliest

    def closed(self, job: Job, at: float | None = None) -> Why | None:
        """By row, the number of the reason why it is closed to a job; None where every row is open."""
        crossed = self._crosses(job, at)
        if not crossed:
            return None
        time = self._snapshot.now if at is None else at
        end_known = self._end(job, time) is not None
        key = crossed, end_known
        if key not in self._masks:
            why: Why = np.zeros(len(self._snapshot.nodes), dtype=np.uint16)
            for number, span in crossed:
                window = self._snapshot.windows[number]
                reason = _reason(window, span, time, end_known=end_known)
                why[window.rows & (why == 0)] = self._view.reasons.number(reason)
            self._masks[key] = why if why.any() else None
        return self._masks[key]

    def _crosses(self, job: Job, at: float | None) -> _Crossed:
        """The windows that a job would run into; for a moment that is not known there are none."""
        if at is None:
            if job.number not in self._crossed:
                self._crossed[job.number] = self._found(job, self._snapshot.now)
            return self._crossed[job.number]
        return self._found(job, max(at, self._snapshot.now)) if at < inf else ()

    def _found(self, job: Job, time: float) -> _Crossed:
        end, spans_crossed = self._end(job, time), []
        for number, window in enumerate(self._snapshot.windows):
            span = None if job.queue in window.queues else self._next(number, time)
            if span is None or not window.rows.any():
                continue
            upto = end if end is not None else time + window.schedule.unknown
            if span.start <= time or upto > span.start - window.schedule.margin:
                spans_crossed.append((number, span))
        return tuple(spans_crossed)

    def _next(self, number: int, time: float) -> Span | None:
        key = number, time
        if key not in self._spans:
            self._spans[key] = self._snapshot.windows[number].schedule.next(time)
        return self._spans[key]

    def _end(self, job: Job, time: float) -> float | None:
        """When a job has ended in all likelihood that starts at a time, or grows then; None where that is not known."""
        ends = self._view.ahead.ends
        expected_end = ends.if_started(job, time) if started_at(job) is None else ends.of(job)
        return expected_end.safe if expected_end.known and expected_end.safe > time else None


def _reason(window: ClosedTime, span: Span, time: float, *, end_known: bool) -> Reason:
    why = f" ({window.reason})" if window.reason else ""
    if span.start <= time:
        text = f"were closed by window {window.name} until {format_time(span.end)}{why}"
        return Reason("WindowOpen", "windows", text)
    ends = "before which it would not have ended" if end_known else "and when it ends is not known"
    text = f"will be closed by window {window.name} from {format_time(span.start)} on, {ends}{why}"
    return Reason("WindowAhead", "windows", text)
