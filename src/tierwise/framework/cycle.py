"""What an action receives: one cycle's view, pipeline, ledger, rooms and report."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

import msgspec
import numpy as np

from tierwise.framework.extension import Ask, CycleView
from tierwise.framework.fit_count import FitCounts
from tierwise.framework.ledger import Ledger, Pool
from tierwise.framework.pipeline import Pipeline, PluginError
from tierwise.framework.report import ReportBuilder
from tierwise.model.arrays import Bools, Ints
from tierwise.model.job import Job, PodSet, Task
from tierwise.model.node import NodeTable
from tierwise.model.reason import Reason
from tierwise.model.running import RunningTable, running_table
from tierwise.model.shape import Shape
from tierwise.model.snapshot import Snapshot
from tierwise.model.topology import AlternateTopology, Topology

__all__ = ["Backlog", "Cycle", "Nominations"]

T = TypeVar("T")


# Which pending tasks of a cycle still wait to be placed. One for all actions of a cycle, so that none deals twice.


class Backlog:
    """How many tasks of each part were dealt out already; the next ones are dealt in rank order."""

    def __init__(self) -> None:
        self._dealt: dict[int, int] = {}
        self._held: set[int] = set()

    def left(self, pod_set: PodSet) -> int:
        return len(pod_set.tasks) - self._dealt.get(id(pod_set), 0)

    def peek(self, pod_set: PodSet, count: int) -> tuple[Task, ...]:
        """The tasks that would be dealt next."""
        start = self._dealt.get(id(pod_set), 0)
        return pod_set.tasks[start : start + count]

    def pop(self, pod_set: PodSet, count: int) -> tuple[Task, ...]:
        start = self._dealt.get(id(pod_set), 0)
        self._dealt[id(pod_set)] = start + count
        return pod_set.tasks[start : start + count]

    def some_left(self, job: Job) -> bool:
        return any(self.left(pod_set) for pod_set in job.pod_sets())

    def hold(self, job: Job) -> None:
        """A job was nominated: what is left of it waits until it stands."""
        self._held.add(job.number)

    def open(self, job: Job) -> bool:
        """Whether tasks of a job are left that may be placed in this cycle."""
        return job.number not in self._held and self.some_left(job)


# Room that is kept for nominated pods: until they are placed or let go, nobody else is placed into it.
#
# A nomination is written on the pod, so it survives a restart. At the start of a cycle the room of every nominated
# pending task is set aside as if it were pipelined; when its job's turn comes the room is given back to be used.


Kept = dict[int, list[tuple[Shape, Ints, Ints]]]
"""Shapes, rows and counts by the number of their job."""


class Nominations:
    """What is set aside, by job."""

    def __init__(self, snapshot: Snapshot, ledger: Ledger) -> None:
        self._ledger = ledger
        self._jobs = snapshot.jobs
        self._kept: Kept = {}
        for job in snapshot.jobs:
            for pod_set in (*job.pod_sets(), *(pod_set for _, pod_set in job.best_effort_pod_sets)):
                rows = [task.nominated for task in pod_set.tasks if task.nominated >= 0]
                if rows:
                    with (
                        ledger.statement() as statement,
                        suppress(PluginError),
                    ):  # its plugin fails wherever it is asked
                        self._keep(job, pod_set.shape, np.array(rows, dtype=np.int64))
                        statement.keep()

    def _keep(self, job: Job, shape: Shape, rows: Ints) -> None:
        numbers = np.bincount(rows)
        distinct = np.flatnonzero(numbers)
        counts = numbers[distinct]
        self._ledger.set_aside(shape, distinct, counts)
        self._kept.setdefault(job.number, []).append((shape, distinct, counts))

    def __len__(self) -> int:
        """How many jobs have room set aside."""
        return len(self._kept)

    def holds(self, job: Job) -> bool:
        return job.number in self._kept

    def kept(self) -> Kept:
        """What is set aside now, for `restore` once the ledger was rewound to now."""
        return dict(self._kept)

    def release(self, job: Job) -> None:
        """Give a job's room back."""
        self._give_back(job.number)

    def withdraw_below(self, job: Job) -> Kept:
        """Give back the room of all less important jobs, and say whose it was."""
        below = [number for number in self._kept if self._jobs[number].priority < job.priority]
        return {number: self._give_back(number) for number in below}

    def restore(self, withdrawn: Kept) -> None:
        """Note again what was withdrawn, where the ledger was rewound."""
        self._kept.update(withdrawn)

    def _give_back(self, number: int) -> list[tuple[Shape, Ints, Ints]]:
        kept = self._kept.pop(number, [])
        for shape, rows, counts in kept:
            self._ledger.set_aside(shape, rows, -counts)
        return kept


class Cycle(msgspec.Struct, frozen=True):
    """One pass over one snapshot."""

    snapshot: Snapshot
    view: CycleView
    ledger: Ledger
    pipeline: Pipeline
    fit_counts: FitCounts
    nominations: Nominations
    report: ReportBuilder
    backlog: Backlog = msgspec.field(default_factory=Backlog)
    inspect: Callable[[Cycle, Job], None] | None = None  # told of each job when its turn comes; `explain` asks for it
    _running: list[RunningTable] = []

    @property
    def running(self) -> RunningTable:
        """Who runs where as the cycle begins; made once, for the first action that evicts."""
        if not self._running:
            self._running.append(running_table(self.snapshot))
        return self._running[0]

    @property
    def nodes(self) -> NodeTable:
        return self.snapshot.nodes

    @property
    def topology(self) -> Topology:
        return self.snapshot.topology

    def alternate_topology(self, job: Job) -> AlternateTopology | None:
        """The tree that a job's constraint is about, where that is not the one that rows follow."""
        return self.snapshot.alternate_topology(job.constraint)

    def gathered(self, job: Job) -> bool:
        """Whether a job is gathered in ways that a plugin names: as it asks, or because its tree is another one."""
        return job.gather is not None or self.alternate_topology(job) is not None

    def attempt(self, job: Job, serve: Callable[[Job], T]) -> T | Reason:
        """A job's turn, or why a plugin cost it the turn: then what was not decided by then has not happened."""
        mark, kept = self.ledger.mark(), self.nominations.kept()
        decided, evicted = len(self.report.decisions), len(self.report.evictions)
        try:
            return serve(job)
        except PluginError as failure:
            if len(self.report.decisions) == decided:
                self.ledger.rewind(mark)
                self.nominations.restore(kept)
                del self.report.evictions[evicted:]
            return failure.reason

    def fits(self, ask: Ask, span: slice, pool: Pool) -> Bools:
        """Which rows of a span take one more task, every filter asked."""
        fits = self.fit_counts.of(ask.shape).rows(pool)[span] > 0
        if self.pipeline.moving(ask.shape):
            fits &= self.pipeline.why_not_now(ask.shape, span) == 0
        return fits

    def shortage(self, resource: str, asked: int, free: int) -> str:
        """What a node lacks, with numbers."""
        from tierwise.api.quantity import show  # exact fractions are slow to import, and few cycles explain anything

        return f"short of {resource}: asks {show(resource, asked)}, {show(resource, max(free, 0))} free"
