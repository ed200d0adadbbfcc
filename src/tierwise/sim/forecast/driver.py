"""The driver of a virtual cluster on arrays: events in the order of time, and cycles where something may come of one.

What runs where is in books, which also say what a cycle sees and carry out what it decides. There are two: jobs of a
snapshot (`forecast.forward`) and jobs of a trace (`replay.engine`). So a moment costs a cycle, and no object is
written. Reads no clock and does no I/O; equal books give equal runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import ceil, inf
from typing import Final, Protocol

from msgspec.structs import replace

from tierwise.framework.report import CycleReport
from tierwise.model.snapshot import Snapshot
from tierwise.model.turns import NO_TURNS
from tierwise.sim.cluster.agenda import Agenda, Event, LookAgain

__all__ = ["drive"]

_ROUNDS: Final = 8
"""Cycles at one moment at most: evictions make room for the next one."""


class Books(Protocol):
    """Which jobs run where and which wait, and what will happen to them."""

    agenda: Agenda

    def happen(self, event: Event) -> None:
        """Write down an event, at the time that the agenda's clock shows."""

    def advance(self, to: float) -> None:
        """Let time go by up to a moment, at which a cycle may look."""

    def seen(self) -> Snapshot | None:
        """Snapshot for the next cycle; None if it would have nothing to decide."""

    def apply(self, report: CycleReport) -> bool:
        """Carry out what a cycle decided; whether another at this moment may decide more."""

    def over(self) -> bool:
        """Whether nothing that is still to come concerns anybody."""


def drive(
    books: Books, decide: Callable[[Snapshot], CycleReport], *, period: float = 0.0, step: float = 0.0
) -> Iterator[None]:
    """Run until the books are over or nothing is left to happen; yields after every moment, where a caller may stop.

    `decide` is a cycle of the scheduler, or what is in its place. What happens within a `period` of seconds is seen
    at its end, and moments that lie closer together than a share `step` of the time that has passed are one.
    """
    agenda = books.agenda
    begin = agenda.clock
    turns = NO_TURNS
    while not books.over() and (next_time := agenda.next()) < inf:
        clock = agenda.clock
        end = ceil(next_time / period) * period if period else next_time
        moment = max(clock, end, clock + step * (clock - begin))
        for event in agenda.until(moment):
            books.happen(event)
        books.advance(moment)
        for _ in range(_ROUNDS):
            seen = books.seen()
            if seen is None:
                break
            report = decide(seen if turns is NO_TURNS else replace(seen, turns=turns))
            turns = report.turns
            agenda.put(LookAgain(), report.retry_after(moment))
            if not books.apply(report):
                break
        yield
