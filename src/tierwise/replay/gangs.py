"""Jobs of a trace as gangs of the model.

A job of up to a host's GPUs is one pod; a larger one has pods of whole hosts, and one pod for the rest. A gang starts
whole or not at all. It asks to stand close together (a soft constraint), unless the contender looks at no topology.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tierwise.model.arrays import Ints
from tierwise.model.job import Constraint, Job, Part, Phase, Status, SubJob, Task
from tierwise.model.shape import Shape
from tierwise.replay.fabric import NAMESPACE, shape
from tierwise.replay.trace import Trace

__all__ = ["QUEUE", "Gangs", "gang", "split"]

QUEUE = "default"
_SOFT = Constraint(hard=False)
_NOWHERE: Ints = np.zeros(0, dtype=np.int64)


def split(gpus: int, per_host: int) -> tuple[int, ...]:
    """The GPUs of each pod of a job, largest first."""
    whole, rest = divmod(gpus, per_host)
    return (per_host,) * whole + ((rest,) if rest else ())


@dataclass(slots=True)
class Gangs:
    """Makes jobs of the model from jobs of a trace; shapes are numbered as they are met."""

    trace: Trace
    gpus_per_host: int
    aware: bool
    shapes: list[Shape] = field(default_factory=list)
    _known: dict[tuple[int, int], Shape] = field(default_factory=dict)

    def __post_init__(self) -> None:
        pairs = {(int(g), int(p)) for g, p in zip(self.trace.gpus, self.trace.priority, strict=True)}
        for gpus, priority in sorted(pairs):
            for size in split(gpus, self.gpus_per_host):
                if (size, priority) not in self._known:
                    made = shape(len(self.shapes), size, priority)
                    self._known[size, priority] = made
                    self.shapes.append(made)

    def pods(self, job: int) -> list[Shape]:
        """The shape of every pod of a job, in the order of ranks."""
        priority = int(self.trace.priority[job])
        return [self._known[size, priority] for size in split(int(self.trace.gpus[job]), self.gpus_per_host)]

    def model(self, job: int, number: int, rows: Sequence[int] | None = None) -> Job:
        """A job that waits, or that runs on these rows, at a place in the snapshot."""
        created = float(self.trace.arrival[job])
        return gang(job, number, self.pods(job), created, _SOFT if self.aware else None, rows)


def gang(
    job: int,
    number: int,
    shapes: Sequence[Shape],
    created: float,
    constraint: Constraint | None = None,
    rows: Sequence[int] | None = None,
) -> Job:
    """A job of the model with these pods; `job` is its name and its turn, `number` its place in the snapshot."""
    key = f"{NAMESPACE}/job-{job}"
    status = Status.PENDING if rows is None else Status.RUNNING
    tasks = tuple(
        Task(f"{key}-{i}", s, "", status, -1 if rows is None else rows[i], created=created, rank=i)
        for i, s in enumerate(shapes)
    )
    order: tuple[object, ...] = (job,)
    sub = SubJob(
        key=key,
        number=number,
        job_number=number,
        policy=-1,
        minimum=len(tasks),
        constraint=constraint,
        match_index=0,
        order=order,
        priority=shapes[0].priority,
        parts=() if rows is not None else _parts(tasks),
        total=len(tasks),
        request=np.add.reduce([s.request for s in shapes]),
        held=_NOWHERE if rows is None else np.array(rows, dtype=np.int64),
        ready=0 if rows is None else len(tasks),
        tasks=tasks,
    )
    return Job(
        key=key,
        number=number,
        queue=QUEUE,
        priority=shapes[0].priority,
        created=created,
        order=order,
        phase=Phase.INQUEUE if rows is None else Phase.RUNNING,
        declared=True,
        minimum=len(tasks),
        roles={},
        constraint=constraint,
        policies=(),
        min_resources=None,
        subs=(sub,),
        tasks=tasks,
    )


def _parts(tasks: tuple[Task, ...]) -> tuple[Part, ...]:
    """Whole hosts first, then the pod for the rest."""
    same = sum(task.shape is tasks[0].shape for task in tasks)
    cuts = (tasks[:same], tasks[same:])
    return tuple(Part(some[0].shape, "", -1, some) for some in cuts if some)
