"""Tasks that run, as columns sorted by row, so that a domain's tasks are a slice. Made where a profile evicts."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from tierwise.api.natural import natural
from tierwise.model.arrays import Bools, Floats, Ints, ranks
from tierwise.model.job import Status, Task
from tierwise.model.snapshot import Snapshot

__all__ = ["RunningTable", "running_table"]


class RunningTable(msgspec.Struct, frozen=True):
    """Every running task of a job of ours, by row, then by natural name."""

    tasks: tuple[Task, ...]
    position: dict[str, int]  # of each task, by its key
    row: Ints
    shape: Ints
    job: Ints
    sub: Ints
    role: Ints  # role number; -1 where its job sets no minimum for it
    priority: Ints
    created: Floats
    rank: Ints  # natural order of the names
    owner: Ints  # number of the owner that the task names besides its job; equal for all that name none
    not_preemptable: Bools  # marked as not to be evicted, itself or its job
    critical: Bools
    request: Ints  # (resources x tasks)
    covered: Ints  # (2 x pairs): a task and a disruption budget that covers it, in the order of tasks

    def __len__(self) -> int:
        return len(self.tasks)

    def inside(self, span: slice) -> slice:
        """The tasks on a span of rows."""
        first, last = np.searchsorted(self.row, [span.start, span.stop])
        return slice(int(first), int(last))


def running_table(snapshot: Snapshot) -> RunningTable:
    """The table of a snapshot."""
    entries = []
    for job in snapshot.jobs:
        numbers = {name: number for number, name in job.role_names.items()}
        for sub in job.subs:
            for task in sub.tasks:
                if task.status is Status.RUNNING and task.row >= 0:
                    entries.append((task, job, sub.number, numbers.get(task.role, -1)))
    order = ranks(sorted(range(len(entries)), key=lambda i: natural(entries[i][0].key)))
    by_row = sorted(range(len(entries)), key=lambda i: (entries[i][0].row, int(order[i])))
    rows = [entries[i] for i in by_row]
    return RunningTable(
        tasks=tuple(task for task, _, _, _ in rows),
        position={task.key: i for i, (task, _, _, _) in enumerate(rows)},
        row=_ints([task.row for task, _, _, _ in rows]),
        shape=_ints([task.shape.number for task, _, _, _ in rows]),
        job=_ints([job.number for _, job, _, _ in rows]),
        sub=_ints([sub for _, _, sub, _ in rows]),
        role=_ints([role for _, _, _, role in rows]),
        priority=_ints([task.shape.priority for task, _, _, _ in rows]),
        created=np.array([task.created for task, _, _, _ in rows], dtype=np.float64),
        rank=order[by_row] if rows else order,
        owner=_ints(np.unique([task.owner for task, _, _, _ in rows], return_inverse=True)[1].tolist() if rows else []),
        not_preemptable=np.array([task.not_preemptable or job.not_preemptable for task, job, _, _ in rows], dtype=bool),
        critical=np.array([task.critical for task, _, _, _ in rows], dtype=bool),
        request=_requests(len(snapshot.axis), [task for task, _, _, _ in rows]),
        covered=_covered([task for task, _, _, _ in rows]) if snapshot.budgets else np.zeros((2, 0), dtype=np.int64),
    )


def _ints(values: list[int]) -> Ints:
    return np.array(values, dtype=np.int64)


def _covered(tasks: Sequence[Task]) -> Ints:
    pairs = [(i, budget) for i, task in enumerate(tasks) for budget in task.budgets]
    return np.array(pairs, dtype=np.int64).reshape(-1, 2).T


def _requests(resources: int, tasks: Sequence[Task]) -> Ints:
    if not tasks:
        return np.zeros((resources, 0), dtype=np.int64)
    return np.stack([task.shape.request for task in tasks], axis=1)
