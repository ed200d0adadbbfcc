"""A job some of whose tasks have become others: what it would be if it were read again.

Asked by forecasts, which let tasks start and end, and by repair, which asks where a part of a gang could move.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from msgspec.structs import replace

from tierwise.api.natural import natural
from tierwise.model.job import Job, PodSet, Status, SubJob, Task

__all__ = ["with_tasks"]


def with_tasks(job: Job, tasks: Mapping[str, Task]) -> Job:
    """A job some of whose tasks have become others; its counts follow from them as where jobs are built."""
    roles = {p.role: p.role_number for p in job.pod_sets()}
    roles |= {p.role: p.role_number for _, p in job.best_effort_pod_sets}
    roles = {name: number for number, name in job.role_names.items()} | roles
    role_ready = dict(job.role_ready)
    subs: list[SubJob] = []
    idle: list[tuple[int, PodSet]] = []
    for index, sub in enumerate(job.subs):
        if any(task.key in tasks for task in sub.tasks):
            for old in sub.tasks:
                new = tasks.get(old.key, old)
                by = _counts_ready(job, new) - _counts_ready(job, old)
                if by and roles.get(old.role, -1) in role_ready:
                    role_ready[roles[old.role]] += by
            sub = _sub_with(job, sub, tuple(tasks.get(task.key, task) for task in sub.tasks), roles)
            best = [p for i, p in job.best_effort_pod_sets if i == index]
            idle += [(index, p) for p in _pod_sets(job, best, sub.tasks, roles, backfilled=True)]
        else:
            idle += [(i, p) for i, p in job.best_effort_pod_sets if i == index]
        subs.append(sub)
    return replace(
        job,
        tasks=tuple(tasks.get(task.key, task) for task in job.tasks),
        subs=tuple(subs),
        best_effort_pod_sets=tuple(idle),
        role_ready=role_ready,
    )


def _sub_with(job: Job, sub: SubJob, tasks: tuple[Task, ...], roles: Mapping[str, int]) -> SubJob:
    held = sorted(task.node for task in tasks if task.status is Status.RUNNING and task.node >= 0)
    return replace(
        sub,
        tasks=tasks,
        pod_sets=_pod_sets(job, sub.pod_sets, tasks, roles, backfilled=False),
        held=np.array(held, dtype=np.int64),
        ready=sum(_counts_ready(job, task) for task in tasks),
    )


def _counts_ready(job: Job, task: Task) -> bool:
    """As where jobs are built: pending tasks that are left to backfill count as ready."""
    return task.status in (Status.RUNNING, Status.SUCCEEDED) or (
        task.status is Status.PENDING and job.backfills(task.shape)
    )


def _pod_sets(
    job: Job, before: Iterable[PodSet], tasks: Iterable[Task], roles: Mapping[str, int], *, backfilled: bool
) -> tuple[PodSet, ...]:
    """The pending tasks by shape and role: who waited keeps the order, and who waits again follows by rank and name."""
    pending = {
        task.key: task for task in tasks if task.status is Status.PENDING and job.backfills(task.shape) is backfilled
    }
    groups: dict[tuple[int, str], list[Task]] = {}
    for pod_set in before:
        here = groups.setdefault((pod_set.shape.number, pod_set.role), [])
        here += [pending.pop(task.key) for task in pod_set.tasks if task.key in pending]
    for task in sorted(pending.values(), key=lambda task: (task.rank, natural(task.key))):
        groups.setdefault((task.shape.number, task.role), []).append(task)
    return tuple(
        PodSet(found[0].shape, role, roles.get(role, -1), tuple(found), backfilled)
        for (_, role), found in groups.items()
        if found
    )
