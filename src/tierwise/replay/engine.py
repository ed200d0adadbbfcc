"""The replay itself: events on a virtual clock, and the scheduler's own cycle whenever it could change something.

Rules. Time is cut into periods: what happens within one is seen by the scheduler at its end, so arrivals close together
share a cycle. GPUs are free from the moment that their gang ends. A cycle runs where somebody waits and something
changed since the last one. A gang that is evicted, or whose host fails, stops as a whole, waits again in the turn of
its arrival, and repeats the last `restart_cost` seconds of its work, or all of it where it had done less.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from math import ceil, inf

from tierwise.replay.books import Books
from tierwise.replay.contenders import Contender
from tierwise.replay.decide import Decider
from tierwise.replay.fabric import Fabric
from tierwise.replay.rules import Rules
from tierwise.replay.state import NEVER, State
from tierwise.replay.trace import Trace

__all__ = ["Engine"]

_ROUNDS = 8
"""Cycles at one moment at most: evictions make room for the next one."""


class Engine:
    """One trace on one fabric under one contender."""

    def __init__(
        self, fabric: Fabric, trace: Trace, contender: Contender, rules: Rules, state: State | None = None
    ) -> None:
        self.trace = trace if rules.queues else trace.in_one_queue()
        self.fabric, self.contender, self.rules = fabric, contender, rules
        self._books = Books(fabric, self.trace, contender, rules, state)
        self.state = self._books.state
        self._decider = Decider(self._books, contender, rules)
        self._ends: list[tuple[float, int, float]] = []
        for job in self.state.running:
            self._await_end(job)

    def run(self) -> Iterator[State]:
        """Replay to the end; yields after every moment that the scheduler saw, where a caller may stop or look."""
        while (moment := self._next()) is not None:
            if self._pass(moment):
                self._schedule()
            yield self.state

    def _next(self) -> float | None:
        """The end of the period in which the next thing happens; None where nothing will."""
        state = self.state
        while self._ends and self._stale(self._ends[0]):
            heapq.heappop(self._ends)
        times = [self._ends[0][0]] if self._ends else []
        if state.arrived < len(self.trace):
            times.append(float(self.trace.arrival[state.arrived]))
        if state.incidents < len(self.rules.incidents) and (times or state.waiting):
            times.append(self.rules.incidents[state.incidents].time)
        if state.again != NEVER and state.waiting:
            times.append(state.again)
        if not times:
            return None
        period = self.rules.period
        return max(state.clock, ceil(min(times) / period) * period if period else min(times))

    def _await_end(self, job: int) -> None:
        start, _ = self.state.running[job]
        heapq.heappush(self._ends, (start + float(self.state.remaining[job]), job, start))

    def _stale(self, entry: tuple[float, int, float]) -> bool:
        """Whether an end no longer applies: its gang was stopped in the meantime."""
        _, job, start = entry
        return job not in self.state.running or self.state.running[job][0] != start

    def _pass(self, moment: float) -> bool:
        """Let everything up to a moment happen, in the order of time; whether the scheduler should look."""
        state, books, incidents = self.state, self._books, self.rules.incidents
        changed = NEVER < state.again <= moment
        while True:
            end = self._ends[0][0] if self._ends else inf
            arrival = float(self.trace.arrival[state.arrived]) if state.arrived < len(self.trace) else inf
            incident = incidents[state.incidents].time if state.incidents < len(incidents) else inf
            first = min(end, arrival, incident)
            if first > moment:
                break
            changed = True
            if end == first:
                entry = heapq.heappop(self._ends)
                if not self._stale(entry):
                    books.advance(end)
                    books.finish(entry[1])
            elif incident == first:
                books.advance(incident)
                books.host(incidents[state.incidents].row, up=incidents[state.incidents].up)
                state.incidents += 1
            else:
                books.advance(arrival)
                books.arrive()
            state.events += 1
        books.advance(moment)
        return changed and bool(state.waiting)

    def _schedule(self) -> None:
        """Cycles at this moment, until nothing more can come of one."""
        for _ in range(_ROUNDS):
            decided = self._decider.decide()
            if decided is None:
                return
            self.state.cycles += 1
            self.state.again = NEVER if decided.again is None else decided.again
            for job in decided.stopped:
                self._books.evict(job)
            for job, rows in decided.started:
                self._books.start(job, rows)
                self._await_end(job)
            if decided.final:
                return
