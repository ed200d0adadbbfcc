"""Compares two snapshots of the same objects: the one kept incrementally with one read from scratch."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np

from tierwise.model.arrays import Ints
from tierwise.model.devices import DeviceAsk, Devices
from tierwise.model.job import Shape, SubJob, Task
from tierwise.model.node import LabelTable, NodeTable
from tierwise.model.snapshot import Snapshot

__all__ = ["differences"]

_BY_NUMBER = frozenset({"shapes", "standing", "jobs", "others", "kept_columns", "kept_unsettled", "kept_verdicts"})
"""What refers to shapes by number is compared task by task."""


def differences(kept_snapshot: Snapshot, fresh: Snapshot) -> list[str]:
    """Differences between two snapshots: keys of jobs and pods, and names of fields. Numbers of shapes and of nodes do
    not count, nor does the order of pods that belong to no job.
    """
    names = []
    for name in kept_snapshot.__struct_fields__:
        if name not in _BY_NUMBER and _plain(getattr(kept_snapshot, name)) != _plain(getattr(fresh, name)):
            names.append(name)
    for ours, theirs in (_jobs(kept_snapshot), _jobs(fresh)), (_others(kept_snapshot), _others(fresh)):
        names += [key for key in {**ours, **theirs} if ours.get(key) != theirs.get(key)]
    return names


def _jobs(snapshot: Snapshot) -> dict[str, object]:
    return {job.key: _plain(job, snapshot.nodes.rows) for job in snapshot.jobs}


def _others(snapshot: Snapshot) -> dict[str, object]:
    return {f"pod {task.key}": _plain(task, snapshot.nodes.rows) for task in snapshot.others}


_NO_ROWS: Ints = np.full(1, -1, dtype=np.int64)


def _plain(value: object, rows: Ints = _NO_ROWS) -> object:
    """A value as nested tuples that can be compared; rows of tasks are looked up in `rows`, by number of node."""
    match value:
        case np.ndarray():
            return value.shape, value.tobytes()
        case LabelTable():
            return tuple(_plain(value.of(row)) for row in range(len(value)))
        case Shape() | NodeTable():
            return _fields(value, rows, without=("number",))
        case Task():
            return (
                int(rows[value.node]),
                int(rows[value.nominated]),
                _fields(value, rows, without=("node", "nominated")),
            )
        case SubJob():
            return np.sort(rows[value.held]).tobytes(), _fields(value, rows, without=("held",))
        case DeviceAsk():  # kinds of devices are numbered by who came first
            specs = [(claim.spec, claim.shared) for claim in value.claims]
            spec = value.extended.spec if value.extended else None
            return _plain((value.ties, specs, value.matched, spec, value.binding, value.domain))
        case Devices():
            table = value.table
            taken_slots = [key for key, number in table.index.items() if table.taken[number]]
            return _plain(
                (sorted(value.columns), value.claims, value.classes, sorted(table.index), sorted(taken_slots))
            )
        case msgspec.Struct():
            return _fields(value, rows)
        case Mapping():
            return tuple((_plain(key, rows), _plain(entry, rows)) for key, entry in value.items())
        case tuple() | list():
            return tuple(_plain(entry, rows) for entry in value)
        case _:
            return value


def _fields(value: msgspec.Struct, rows: Ints, without: tuple[str, ...] = ()) -> tuple[object, ...]:
    return tuple(_plain(getattr(value, name), rows) for name in value.__struct_fields__ if name not in without)
