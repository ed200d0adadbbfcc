"""Reservations for programs: where a job that waits will fit, from when, on which nodes, and who must end before."""

from __future__ import annotations

from math import inf

import numpy as np

from tierwise.api.codec import Raw
from tierwise.api.meta import format_time
from tierwise.framework.report import CycleReport, Reservation
from tierwise.model.snapshot import Snapshot

__all__ = ["reservation_wire", "reservations_wire", "reserved_rows"]


def reservations_wire(snapshot: Snapshot, report: CycleReport) -> Raw:
    """All of them in the order in which their jobs are served, under one key; nothing where there are none."""
    found = [reservation_wire(snapshot, reservation) for reservation in report.reservations]
    return {"reservations": found} if found else {}


def reservation_wire(snapshot: Snapshot, reservation: Reservation) -> Raw:
    """One of them; times are null where they are not known."""
    rows, counts = reserved_rows(reservation)
    names = (snapshot.nodes.names[row] for row in rows)
    return {
        "podGroup": reservation.job.key,
        "hyperNode": reservation.domain,
        "from": format_time(reservation.start) if reservation.start < inf else None,
        "until": format_time(reservation.end) if reservation.end < inf else None,
        "nodes": dict(zip(names, counts, strict=True)),
        "awaits": list(reservation.awaits),
        "message": reservation.text,
    }


def reserved_rows(reservation: Reservation) -> tuple[list[int], list[int]]:
    """The rows that a job would take, and how many of its pods on each."""
    rows = np.concatenate([np.repeat(own, counts) for _, own, counts in reservation.held])
    distinct, numbers = np.unique(rows, return_counts=True)
    return distinct.tolist(), numbers.tolist()
