"""The places of predecessors: a successor is searched for there first, then in their domain, then anywhere.

So whoever comes back after an update stands where it stood, and never waits for it: where its node has no room any
more, it goes next door.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

import numpy as np

from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import CycleView
from tierwise.model.arrays import Ints, Why, distinct
from tierwise.model.job import Job, Reason, Status
from tierwise.model.snapshot import Snapshot
from tierwise.model.topology import ROOT

__all__ = ["OwnPlaces"]

T = TypeVar("T")
_ELSEWHERE = Reason("NotItsPlace", "kept-places", "did not run its predecessor")
_HOLDING = (Status.RUNNING, Status.RELEASING)


class OwnPlaces:
    """The rows on which predecessors of jobs of one cycle stand, or stood."""

    def __init__(self, snapshot: Snapshot, view: CycleView) -> None:
        self._topology, self._view = snapshot.topology, view
        self._on = True
        rows_by_job: dict[str, list[int]] = {}
        for place in snapshot.held_places.places:
            for key in place.jobs if place.after else ():
                rows_by_job.setdefault(key, []).append(place.row)
        named = {job.predecessor for job in snapshot.waiting if job.predecessor}
        before = {job.key: job for job in snapshot.jobs if job.key in named} if named else {}
        for job in snapshot.waiting:
            if job.predecessor in before:
                tasks = before[job.predecessor].tasks
                node_numbers = [task.node for task in tasks if task.node >= 0 and task.status in _HOLDING]
                rows_by_job.setdefault(job.key, []).extend(snapshot.nodes.rows[node_numbers].tolist())
        self._rows = {key: distinct(np.array(rows, dtype=np.int64)) for key, rows in rows_by_job.items() if rows}

    def __bool__(self) -> bool:
        return bool(self._rows)

    def concerns(self, job: Job) -> bool:
        """Whether a job is to come to a place."""
        return self._on and job.key in self._rows

    def in_turn(self, cycle: Cycle, job: Job, search: Callable[[], T], is_place: Callable[[T], bool]) -> T:
        """Search on its own rows, then in the innermost domain around them, then everywhere."""
        self._on = False
        try:
            for why in self._closed(self._rows[job.key]):
                with cycle.ledger.statement() as statement, cycle.fit_counts.closed_too(why):
                    place = search()
                    if is_place(place):
                        statement.keep()
                        return place
            return search()
        finally:
            self._on = True

    def _closed(self, rows: Ints) -> Iterator[Why]:
        number = self._view.reasons.number(_ELSEWHERE)
        why: Why = np.full(len(self._topology.leaf), number, dtype=np.uint16)
        why[rows] = 0
        yield why
        domain = self._topology.meet_rows(rows)
        if domain != ROOT:
            why = np.full(len(why), number, dtype=np.uint16)
            why[self._topology.span(domain)] = 0
            yield why
