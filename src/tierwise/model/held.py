"""Which rows tasks hold, shape by shape: the one place that turns lists of tasks into arrays."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tierwise.model.arrays import Ints
from tierwise.model.job import Status, Task

__all__ = ["rows_by_shape"]


def rows_by_shape(tasks: Iterable[Task], status: Status) -> dict[int, Ints]:
    """Rows of the tasks with a status that stand on a known node, one entry per task, by number of their shape."""
    found: dict[int, list[int]] = {}
    for task in tasks:
        if task.status is status and task.row >= 0:
            found.setdefault(task.shape.number, []).append(task.row)
    return {number: np.array(rows, dtype=np.int64) for number, rows in found.items()}
