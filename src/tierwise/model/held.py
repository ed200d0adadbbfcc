"""Which rows tasks hold, shape by shape: the one place that turns lists of tasks into arrays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from tierwise.model.arrays import Ints
from tierwise.model.job import Status, Task
from tierwise.model.shape import Shape

__all__ = ["held_amounts", "rows_by_shape"]


def rows_by_shape(tasks: Iterable[Task], status: Status) -> dict[int, Ints]:
    """Rows of the tasks with a status that stand on a known node, one entry per task, by number of their shape."""
    found: dict[int, list[int]] = {}
    for task in tasks:
        if task.status is status and task.row >= 0:
            found.setdefault(task.shape.number, []).append(task.row)
    return {number: np.array(rows, dtype=np.int64) for number, rows in found.items()}


def held_amounts(shapes: Sequence[Shape], held: Mapping[int, Ints]) -> Iterator[tuple[int, Ints, Ints]]:
    """By resource that any of them asks for: the rows of tasks (which may repeat) and how much each holds.

    What it costs grows with tasks and not with shapes times nodes: clusters have pods that nobody else is like.
    """
    if not held:
        return
    rows = np.concatenate(list(held.values()))
    which = np.repeat(np.arange(len(held)), [len(rows) for rows in held.values()])
    requests = np.stack([shapes[number].request for number in held], axis=1)
    for r in np.flatnonzero(requests.any(axis=1)).tolist():
        yield r, rows, requests[r, which]
