"""Tasks that run, as columns sorted by row, so that a domain's tasks are a slice; beside them, jobs as columns.

Made where a profile evicts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np

from tierwise.api.natural import natural_order
from tierwise.model.arrays import Bools, Floats, Ints, ranks, seal
from tierwise.model.job import Status, Task
from tierwise.model.snapshot import Snapshot

__all__ = ["JobColumns", "RunningTable", "running_table"]


class JobColumns(msgspec.Struct, frozen=True):
    """What is read of jobs that may lose tasks, by the number of the job."""

    queue: Ints  # its place among the queues of the snapshot; -1 where its queue is not one of them
    priority: Ints
    created: Floats
    minimum: Ints
    together: Bools  # evicting one of its tasks evicts all of them
    gated: Bools  # they need more than a number of tasks
    subs: Ints  # its sub-jobs are those from subs[number] up to subs[number + 1]

    def __post_init__(self) -> None:
        seal(self.queue, self.priority, self.created, self.minimum, self.together, self.gated, self.subs)

    def sums(self, of_subs: Ints | Bools) -> Ints:
        """The sum over the sub-jobs of each job."""
        upto = np.concatenate(([0], np.cumsum(of_subs)))
        result: Ints = upto[self.subs[1:]] - upto[self.subs[:-1]]
        return result

    def surplus(self, ready: Ints) -> Ints:
        """How many tasks each job can lose by themselves, given the ready tasks of every sub-job.

        Those above its minimum, none where it falls as one. Below 0 it is broken.
        """
        above: Ints = self.sums(ready) - self.minimum
        return np.where(self.together, np.minimum(above, 0), above)


class RunningTable(msgspec.Struct, frozen=True):
    """Every running task of a job of ours, by row, then by natural name."""

    tasks: tuple[Task, ...]
    position: dict[str, int]  # of each task, by its key
    row: Ints
    start: Ints  # those on a row are from start[row] up to start[row + 1]
    shape: Ints
    job: Ints
    sub: Ints
    role: Ints  # role number; -1 where its job sets no minimum for it
    priority: Ints
    started: Floats  # when it began to run; when it was created where that is not known
    rank: Ints  # natural order of the names
    by_job: Ints  # the place of each by its job, the youngest first, then by name
    owner: Ints  # number of the owner that the task names besides its job; equal for all that name none
    not_preemptable: Bools  # marked as not to be evicted, itself or its job
    critical: Bools
    request: Ints  # (resources x tasks)
    covered: Ints  # (2 x pairs): a task and a disruption budget that covers it, in the order of tasks
    jobs: JobColumns
    losses: Floats | None = None  # seconds of its work that each would lose, where a plugin says so

    def __post_init__(self) -> None:
        seal(
            self.row,
            self.start,
            self.shape,
            self.job,
            self.sub,
            self.role,
            self.priority,
            self.started,
            self.rank,
            self.owner,
        )
        seal(
            self.rank,
            self.by_job,
            self.owner,
            self.not_preemptable,
            self.critical,
            self.request,
            self.covered,
            self.losses,
        )

    def __len__(self) -> int:
        return len(self.tasks)

    def at(self, tasks: Iterable[Task]) -> list[int]:
        """The positions of tasks; those whose nodes are gone have none."""
        return [self.position[task.key] for task in tasks if task.key in self.position]

    def whole(self, going: Bools, gone: Bools) -> Bools:
        """Of those who may go, all but tasks of jobs that fall as one and of which a task must stay."""
        stays = self.jobs.together[self.job] & ~going & ~gone
        if stays.any():
            return going & ~np.isin(self.job, self.job[stays])
        return going

    def with_groups(self, victims: Ints, gone: Bools) -> Ints:
        """Victims, and behind them the others of jobs that fall as one."""
        falling = self.job[victims][self.jobs.together[self.job[victims]]]
        if not len(falling):
            return victims
        rest = np.setdiff1d(np.flatnonzero(np.isin(self.job, falling) & ~gone), victims)
        return np.concatenate((victims, rest))

    def inside(self, span: slice) -> slice:
        """The tasks on a span of rows."""
        return slice(int(self.start[span.start]), int(self.start[span.stop]))

    def freed(self, tasks: Ints) -> Ints:
        """What some tasks, each named once, free on each row, (resources x rows)."""
        going = np.zeros(len(self), dtype=bool)
        going[tasks] = True
        upto = np.zeros((len(self.request), len(self) + 1), dtype=np.int64)
        np.cumsum(self.request * going, axis=1, out=upto[:, 1:])
        edges = upto[:, self.start]
        return edges[:, 1:] - edges[:, :-1]


def running_table(snapshot: Snapshot) -> RunningTable:
    """The table of a snapshot."""
    tasks: list[Task] = []
    subs: list[int] = []  # of each sub-job with running tasks: its number, its job's, and how many run
    owners: list[int] = []
    sizes: list[int] = []
    roles: dict[int, int] = {}  # of tasks whose job sets a minimum for their role
    for job in snapshot.jobs:
        numbers = {name: number for number, name in job.role_names.items()}
        for sub in job.subs:
            found = [task for task in sub.tasks if task.status is Status.RUNNING and task.node >= 0]
            if numbers:
                roles |= {len(tasks) + i: numbers[t.role] for i, t in enumerate(found) if t.role in numbers}
            tasks += found
            subs.append(sub.number)
            owners.append(job.number)
            sizes.append(len(found))
    order = ranks(natural_order([task.key for task in tasks]))
    row = snapshot.nodes.rows[_ints([task.node for task in tasks])]
    by_row = np.lexsort((order, row))
    role = np.full(len(tasks), -1)
    role[list(roles)] = list(roles.values())
    firm = np.array([job.not_preemptable for job in snapshot.jobs], dtype=bool)
    job_of = np.repeat(_ints(owners), sizes)
    shape = _ints([task.shape.number for task in tasks])[by_row]
    started = np.array([task.started or task.created for task in tasks], dtype=np.float64)
    by_shape = np.stack([shape.request for shape in snapshot.shapes], axis=1) if tasks else None
    names = {owner: i for i, owner in enumerate(sorted({task.owner for task in tasks}))}
    in_order = tuple([tasks[i] for i in by_row.tolist()])
    return RunningTable(
        tasks=in_order,
        position={task.key: i for i, task in enumerate(in_order)},
        row=row[by_row],
        start=np.searchsorted(row[by_row], np.arange(len(snapshot.nodes) + 1)),
        shape=shape,
        job=job_of[by_row],
        sub=np.repeat(_ints(subs), sizes)[by_row],
        role=role[by_row],
        priority=_ints([shape.priority for shape in snapshot.shapes])[shape],
        started=started[by_row],
        rank=order[by_row],
        by_job=ranks(np.lexsort((order, -started, job_of)).tolist())[by_row],
        owner=_ints([names[task.owner] for task in tasks])[by_row],
        not_preemptable=(np.array([task.not_preemptable for task in tasks], dtype=bool) | firm[job_of])[by_row],
        critical=np.array([task.critical for task in tasks], dtype=bool)[by_row],
        request=np.zeros((len(snapshot.axis), 0), dtype=np.int64) if by_shape is None else by_shape[:, shape],
        covered=_covered(in_order, snapshot.budget_index) if snapshot.budgets else np.zeros((2, 0), dtype=np.int64),
        jobs=_job_columns(snapshot),
    )


def _job_columns(snapshot: Snapshot) -> JobColumns:
    jobs = snapshot.jobs
    index = {name: i for i, name in enumerate(snapshot.queues)}
    return JobColumns(
        queue=_ints([index.get(job.queue, -1) for job in jobs]),
        priority=_ints([job.priority for job in jobs]),
        created=np.array([job.created for job in jobs], dtype=np.float64),
        minimum=_ints([job.minimum for job in jobs]),
        together=np.array([job.together for job in jobs], dtype=bool),
        gated=np.array([job.shape.gated for job in jobs], dtype=bool),
        subs=np.concatenate(([0], np.cumsum(_ints([len(job.subs) for job in jobs])))),
    )


def _ints(values: list[int]) -> Ints:
    return np.array(values, dtype=np.int64)


def _covered(tasks: Sequence[Task], number: Mapping[str, int]) -> Ints:
    pairs = []
    for i, task in enumerate(tasks):
        for budget in task.budgets:
            pairs.append((i, number[budget]))
    return np.array(pairs, dtype=np.int64).reshape(-1, 2).T
