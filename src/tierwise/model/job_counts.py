"""What of a job follows from its tasks: who waits and who is ready, and what they hold together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from msgspec.structs import replace

from tierwise.api.natural import natural
from tierwise.model.job import Job, PodSet, Status, SubJob, Task

__all__ = ["EXISTING", "READY", "counted", "rank_key", "with_tasks"]

READY = (Status.RUNNING, Status.SUCCEEDED)
EXISTING = (Status.PENDING, Status.GATED, *READY)


def with_tasks(job: Job, tasks: Mapping[str, Task], resources: int | None = None) -> Job:
    """A job some of whose tasks have become others: what it would be if it were read again.

    Its tasks ask for so many `resources`; for as many as before where none are given.
    """
    subs = [replace(sub, tasks=_others(sub.tasks, tasks)) for sub in job.subs]
    whole = len(subs) == 1 and job.subs[0].tasks is job.tasks
    own = subs[0].tasks if whole else _others(job.tasks, tasks)
    if resources is None:
        resources = max([len(sub.request) for sub in subs], default=0)
    return counted(replace(job, subs=tuple(subs), tasks=own), resources)


def _others(before: Iterable[Task], now: Mapping[str, Task]) -> tuple[Task, ...]:
    return tuple([now.get(task.key, task) for task in before])


def counted(job: Job, resources: int) -> Job:
    """A job with the counts of its tasks, which ask for so many resources.

    Best-effort tasks of a gang that starts whole wait with the others; those of others are left to backfill.
    """
    whole = job.starts_whole
    numbers = {name: number for number, name in job.role_names.items()}
    subs: list[SubJob] = []
    left: list[tuple[int, PodSet]] = []
    for i, sub in enumerate(job.subs):
        kinds: dict[tuple[int, Status], list[Task]] = {}
        alike: list[Task] = []
        for task in sub.tasks:
            if not alike or task.status is not alike[0].status or task.shape is not alike[0].shape:
                alike = kinds.setdefault((task.shape.number, task.status), [])
            alike.append(task)
        total = ready = 0
        request = np.zeros(resources, dtype=np.int64)
        nodes: list[int] = []
        pending: list[Task] = []
        for (_, status), alike in kinds.items():
            if status in EXISTING:
                total += len(alike)
                request += alike[0].shape.request * len(alike)
            if _counts_ready(alike[0], whole=whole):
                ready += len(alike)
            if status is Status.RUNNING:
                nodes += [task.node for task in alike if task.node >= 0]
            elif status is Status.PENDING:
                pending += alike
        rest = [task for task in pending if task.shape.best_effort] if not whole else []
        waiting = [task for task in pending if not task.shape.best_effort] if rest else pending
        left += [(i, pod_set) for pod_set in _pod_sets(rest, numbers, backfilled=True)] if rest else ()
        subs.append(
            replace(
                sub,
                pod_sets=tuple(_pod_sets(waiting, numbers)) if waiting else (),
                total=total,
                request=request,
                held=np.array(sorted(nodes), dtype=np.int64),
                ready=ready,
            )
        )
    by_role = dict.fromkeys(job.role_names, 0)
    for task in job.tasks if numbers else ():
        if task.role in numbers and _counts_ready(task, whole=whole):
            by_role[numbers[task.role]] += 1
    return replace(job, subs=tuple(subs), best_effort_pod_sets=tuple(left), role_ready=by_role)


def _counts_ready(task: Task, *, whole: bool) -> bool:
    """Pending tasks that are left to backfill count as ready, as in Volcano; a gang that starts `whole` leaves none."""
    return task.status in READY or (task.status is Status.PENDING and task.shape.best_effort and not whole)


def _pod_sets(pending: Iterable[Task], numbers: Mapping[str, int], *, backfilled: bool = False) -> list[PodSet]:
    """Pending tasks by shape and role, in rank order: by task index, else by name."""
    groups: dict[tuple[int, str], list[Task]] = {}
    for task in sorted(pending, key=lambda task: natural(task.key)):
        groups.setdefault((task.shape.number, task.role), []).append(task)
    return [
        PodSet(group[0].shape, role, numbers.get(role, -1), tuple(sorted(group, key=rank_key)), backfilled)
        for (_, role), group in groups.items()
    ]


def rank_key(task: Task) -> tuple[int, bool, int]:
    """By the rank that a dialect gave the task, else by task index; those without one keep the order of names."""
    return task.rank, task.index is None, task.index or 0
