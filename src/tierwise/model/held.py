"""Which rows tasks hold, shape by shape: the one place that turns lists of tasks into arrays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, repeat
from operator import attrgetter, is_

import msgspec
import numpy as np

from tierwise.model.arrays import Ints
from tierwise.model.job import Job, Status, Task
from tierwise.model.shape import Shape

__all__ = ["HeldTasks", "held_amounts", "held_tasks", "rows_by_shape"]

_ROW, _SHAPE, _STATUS = attrgetter("row"), attrgetter("shape.number"), attrgetter("status")


class HeldTasks(msgspec.Struct, frozen=True):
    """Tasks of one status that stand on a known node, as columns: all jobs in order, then those of no job."""

    row: Ints
    shape: Ints
    job: Ints  # -1 for none

    def by_shape(self) -> dict[int, Ints]:
        """Rows, one entry per task, by number of the shape."""
        order = np.argsort(self.shape, kind="stable")
        numbers, first = np.unique(self.shape[order], return_index=True)
        return dict(zip(numbers.tolist(), np.split(self.row[order], first[1:]), strict=True)) if len(order) else {}

    def requests(self, shapes: Sequence[Shape], size: tuple[int, int]) -> Ints:
        """What the tasks of each job ask for together; the size is (jobs x resources)."""
        result = np.zeros(size, dtype=np.int64)
        own = self.job >= 0
        pairs, counts = np.unique(self.job[own] * len(shapes) + self.shape[own], return_counts=True)
        if len(pairs):
            asked = np.stack([shape.request for shape in shapes])
            np.add.at(result, pairs // len(shapes), asked[pairs % len(shapes)] * counts[:, None])
        return result


def held_tasks(jobs: Sequence[Job], others: Sequence[Task]) -> tuple[HeldTasks, HeldTasks]:
    """The tasks that run, and those that are terminating: a cluster has many, and every cycle counts them."""
    tasks = [*chain.from_iterable(job.tasks for job in jobs), *others]
    row = np.fromiter(map(_ROW, tasks), np.int64, len(tasks))
    shape = np.fromiter(map(_SHAPE, tasks), np.int64, len(tasks))
    running = np.fromiter(map(is_, map(_STATUS, tasks), repeat(Status.RUNNING)), np.bool_, len(tasks))
    job = np.repeat([*(job.number for job in jobs), -1], [*(len(job.tasks) for job in jobs), len(others)])
    rest = np.flatnonzero((row >= 0) & ~running)
    leaving = rest[[tasks[i].status is Status.RELEASING for i in rest.tolist()]]
    first, second = (
        HeldTasks(row[chosen], shape[chosen], job[chosen]) for chosen in (np.flatnonzero((row >= 0) & running), leaving)
    )
    return first, second


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
