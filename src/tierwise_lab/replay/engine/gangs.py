"""Jobs of a trace as gangs of the model.

A job of up to a host's GPUs is one pod; a larger one has pods of whole hosts, and one pod for the rest, unless it says
which pods it has. A gang starts whole or not at all, an elastic one with its minimum. It asks to be placed close
together (a soft constraint), unless the contender ignores topology.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import msgspec
import numpy as np
from msgspec.structs import replace

from tierwise.api.repair import RepairTerms
from tierwise.model.arrays import EMPTY
from tierwise.model.job import Constraint, Job, Phase, PodSet, Shape, Status, SubJob, Task
from tierwise_lab.replay.traces.fabric import NAMESPACE, shape
from tierwise_lab.replay.traces.trace import QUEUE, Sizes, Trace

__all__ = ["Gangs", "RunningGang", "gang", "job_key"]

_SOFT = Constraint(hard=False)


class Gangs(msgspec.Struct):
    """Makes jobs of the model from jobs of a trace; shapes are numbered as they are met."""

    trace: Trace
    gpus_per_host: int
    aware: bool
    spares: int = 0  # that every gang of several pods declares; pods by themselves may borrow them
    replaces: bool = False  # gangs may wait for replacements
    teams: int = 0  # namespaces that jobs are of, by turns; 0: all are of one
    shapes: list[Shape] = []
    _known: dict[tuple[int, int], Shape] = {}

    def __post_init__(self) -> None:
        trace = self.trace
        kinds = {(int(trace.gpus[job]), int(trace.priority[job]), self.sizes(job)) for job in range(len(trace))}
        for _, priority, sizes in sorted(kinds):
            for size in sizes:
                if (size, priority) not in self._known:
                    new_shape = shape(len(self.shapes), size, priority)
                    self._known[size, priority] = new_shape
                    self.shapes.append(new_shape)

    def pods(self, job: int) -> list[Shape]:
        """The shape of every pod of a job, in the order of ranks."""
        priority = int(self.trace.priority[job])
        return [self._known[size, priority] for size in self.sizes(job)]

    def sizes(self, job: int) -> Sizes:
        """The GPUs of every pod of a job, in the order of ranks."""
        return self.trace.sizes(job, self.gpus_per_host)

    def minimum(self, job: int) -> int:
        """The pods that it starts with: all, or so many as have the least GPUs of an elastic gang."""
        sizes = self.sizes(job)
        minimum_gpus = self.trace.least.get(job)
        if minimum_gpus is None:
            return len(sizes)
        return min(1 + int(np.searchsorted(np.cumsum(sizes), minimum_gpus)), len(sizes))

    def needed(self, job: int) -> Sizes:
        """The smallest pods that it could start with."""
        sizes = self.sizes(job)
        if job in self.trace.least:
            return tuple(sorted(sizes)[: self.minimum(job)])
        return sizes

    def key(self, job: int) -> str:
        """The key of a job."""
        return job_key(job, self.teams)

    def waiting(self, job: int, number: int, nominated_rows: Sequence[int] | None) -> Job:
        """A job that waits, at a place in the snapshot; rows may be kept for it."""
        return self._model(job, number, Status.PENDING, nominated_rows)

    def running(self, job: int, number: int, rows: Sequence[int], nominated_rows: Sequence[int] | None = None) -> Job:
        """A job that runs on these rows; where one is -1 a pod is missing, and a row may be kept for it."""
        return self._model(job, number, Status.RUNNING, rows, nominated_rows)

    def _model(
        self,
        job: int,
        number: int,
        status: Status,
        rows: Sequence[int] | None,
        nominated_rows: Sequence[int] | None = None,
    ) -> Job:
        trace = self.trace
        stand = RunningGang(
            self.key(job),
            job,
            number,
            float(trace.arrival[job]),
            trace.queues[trace.queue[job]],
            status,
            rows,
            nominated_rows,
        )
        gang_made = gang(stand, self.pods(job), _SOFT if self.aware else None, self.minimum(job))
        if not self.replaces:
            return gang_made
        ranks = {task.key: task.rank for task in gang_made.tasks}
        several = len(gang_made.tasks) > 1
        terms = RepairTerms(spares=self.spares if several else 0, borrows=bool(self.spares) and not several)
        return replace(gang_made, ranks=ranks, world_size=len(ranks), repair=terms)


class RunningGang(msgspec.Struct, frozen=True):
    """The state of a gang: its key and place in the trace, its place in the snapshot, and where its pods run."""

    key: str
    job: int
    number: int
    created: float
    queue: str = QUEUE
    status: Status = Status.PENDING
    rows: Sequence[int] | None = None  # where it runs, -1 for lost pods, or what is kept for it while it waits
    kept: Sequence[int] | None = None  # for lost pods of one that runs


def job_key(job: int, teams: int = 0) -> str:
    """The key of a job of a trace, where jobs are of so many namespaces by turns; 0: all are of one."""
    return f"team-{job % teams}/job-{job}" if teams else f"{NAMESPACE}/job-{job}"


def gang(stand: RunningGang, shapes: Sequence[Shape], constraint: Constraint | None = None, minimum: int = 1) -> Job:
    """A job of the model with pods of these shapes, in the order of ranks, of which so many are to start together."""
    key = stand.key
    runs = stand.status is Status.RUNNING
    created = stand.created
    rows = stand.rows if stand.rows is not None else (-1,) * len(shapes)
    nominated_rows = (stand.kept or (-1,) * len(shapes)) if runs else rows
    tasks = tuple(
        Task(f"{key}-{i}", s, "", Status.RUNNING, row, -1, created, rank=i)
        if runs and row >= 0
        else Task(f"{key}-{i}", s, "", Status.PENDING, -1, nominated_rows[i], created, rank=i)
        for i, (s, row) in enumerate(zip(shapes, rows, strict=True))
    )
    rows_held = [task.node for task in tasks if task.status is Status.RUNNING]
    order: tuple[object, ...] = (stand.job,)
    sub = SubJob(
        key=key,
        number=stand.number,
        job_number=stand.number,
        minimum=minimum,
        constraint=constraint,
        order=order,
        priority=shapes[0].priority,
        pod_sets=_parts([task for task in tasks if task.status is Status.PENDING]),
        total=len(tasks),
        request=np.add.reduce([s.request for s in shapes]),
        held=np.array(rows_held, dtype=np.int64) if runs else EMPTY,
        ready=len(rows_held),
        tasks=tasks,
    )
    return Job(
        key=key,
        number=stand.number,
        queue=stand.queue,
        priority=shapes[0].priority,
        created=created,
        order=order,
        phase=Phase.RUNNING if runs else Phase.INQUEUE,
        declared=True,
        minimum=minimum,
        constraint=constraint,
        subs=(sub,),
        tasks=tasks,
    )


def _parts(tasks: Sequence[Task]) -> tuple[PodSet, ...]:
    """Pods of one shape each, in the order of ranks."""
    alike = ((shape, tuple(tasks_alike)) for shape, tasks_alike in groupby(tasks, key=lambda task: task.shape))
    return tuple(PodSet(shape, "", -1, tasks_alike) for shape, tasks_alike in alike)
