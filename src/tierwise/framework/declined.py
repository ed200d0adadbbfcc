"""Places that gangs have declined for a closer one: they stay theirs against jobs that are served later.

A gang that waits would otherwise lose its place to whoever comes behind it. What it declined is set aside on the
ledger, as resources of nominated pods are, and charged to its queue as what is reserved. It is open, while they are
served, to the gang itself, to jobs of a higher priority, and to jobs that have ended when the gang is looked at again.

`allocate` keeps places, and `Cycle.attempt` opens and closes them. The state is in the undo log of the ledger.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec
import numpy as np
from msgspec.structs import replace

from tierwise.framework.extension import Delay
from tierwise.framework.ledger import Ledger, Pool
from tierwise.framework.room_ahead import RoomAhead
from tierwise.model.arrays import Ints
from tierwise.model.job import Job, Named, Reason, Shape, namespace_of

__all__ = ["DeclinedPlaces", "Held"]

Held = tuple[tuple[Shape, Ints, Ints], ...]
"""Shapes, rows and counts."""


class _Place(msgspec.Struct, frozen=True):
    """A place that a gang has declined."""

    job: Job
    held: Held
    until: float  # when the gang is looked at again
    open: bool = False  # to the job that is served


class DeclinedPlaces:
    """The declined places that are kept in one cycle."""

    def __init__(self, ledger: Ledger, ahead: RoomAhead) -> None:
        self._ledger = ledger
        self._ahead = ahead
        self._states: list[tuple[_Place, ...]] = [()]  # the last one counts
        self._ends: dict[tuple[int, str], float] = {}  # when a job has surely ended, for jobs of a namespace

    def __bool__(self) -> bool:
        return bool(self._states[-1])

    def kept_for(self) -> Iterable[tuple[Job, Held]]:
        """The gangs that keep a declined place, each with that place."""
        return [(place.job, place.held) for place in self._states[-1] if not place.open]

    @property
    def all_closed(self) -> bool:
        """Whether no place is open to the job that is served."""
        return not any(place.open for place in self._states[-1])

    def keep(self, job: Job, declined_place: Held, delay: Delay) -> None:
        """Keep the place that a gang has declined, in place of one that was kept for it before."""
        other_places = [place for place in self._states[-1] if place.job is not job]
        for place in self._states[-1]:
            if place.job is job and not place.open:
                self._set_aside(place, -1)
        place = _Place(job, declined_place, delay.until)
        self._set_aside(place, 1)
        self._write((*other_places, place))

    def serve(self, job: Job | None, waiting: Collection[str]) -> None:
        """From now on places are open to a job as far as it may have them; to None they are closed.

        What was open is closed where it still has room; `waiting` are the keys of the jobs that have been refused.
        """
        if not self._states[-1]:
            return
        places: list[_Place] = []
        for place in self._states[-1]:
            opens = job is not None and self._may_use(job, place)
            if opens == place.open:
                places.append(place)
            elif opens:
                self._set_aside(place, -1)
                places.append(replace(place, open=True))
            elif place.job.key in waiting and self._has_room(place):
                self._set_aside(place, 1)
                places.append(replace(place, open=False))
        if tuple(places) != self._states[-1]:
            self._write(tuple(places))

    def open_for(self, job: Job, time: float) -> None:
        """Open the place of a job itself, and those of gangs that are looked at again by a time, in a statement that is
        undone.
        """
        for place in self._states[-1]:
            if not place.open and (place.job is job or place.until <= time):
                self._set_aside(place, -1)

    def open_all(self) -> None:
        """Open all of them, inside a statement that is undone."""
        for place in self._states[-1]:
            if not place.open:
                self._set_aside(place, -1)

    def objection(self, rows: Ints) -> Reason | None:
        """Why a job must not start on these rows: a gang has declined a place there and keeps it; None if none has."""
        closed = (place for place in self._states[-1] if not place.open)
        place = next((p for p in closed if any(np.isin(rows, kept_rows).any() for _, kept_rows, _ in p.held)), None)
        if place is None:
            return None
        from tierwise.api.core import format_time  # most cycles decline nothing

        whose = f"{place.job.key}, which waits for a closer one until {format_time(place.until)}"
        names = (Named(namespace_of(place.job.key), whose, "a gang of another namespace"),)
        return Reason("PlaceIsKept", "patience", f"the place that it could have is kept for {whose}", names)

    def _may_use(self, job: Job, place: _Place) -> bool:
        if job is place.job or job.priority > place.job.priority:
            return True
        by = namespace_of(place.job.key)
        end = self._ends.get((job.number, by))
        if end is None:
            end = self._ends[job.number, by] = self._ahead.ends.surely(job, by)
        return end <= place.until

    def _has_room(self, place: _Place) -> bool:
        """Whether what is not set aside holds a place, on each row all of its shapes together."""
        amounts_by_row: dict[int, Ints] = {}
        for shape, rows, counts in place.held:
            for row, number in zip(rows.tolist(), counts.tolist(), strict=True):
                amounts_by_row[row] = amounts_by_row.get(row, 0) + shape.request * number
        rows = np.array(list(amounts_by_row), dtype=np.int64)
        needed = np.stack(list(amounts_by_row.values()), axis=1)
        free = self._ledger.free(np.arange(len(needed)), rows, Pool.FUTURE_IDLE)
        return bool(((needed == 0) | (needed <= free)).all())

    def _set_aside(self, place: _Place, sign: int) -> None:
        for shape, rows, counts in place.held:
            self._ledger.set_aside(shape, rows, sign * counts)
            self._ledger.charge_kept(place.job, shape.request * (sign * int(counts.sum())))

    def _write(self, places: tuple[_Place, ...]) -> None:
        self._ledger.append(self._states, places)
