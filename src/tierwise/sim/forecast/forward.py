"""The cycle on a virtual clock: which waiting jobs start when, if jobs end at given times and no further jobs come.

A forward run changes a snapshot and not objects: what a cycle decides is written into the jobs of the next snapshot,
and a job that ends leaves it. So a moment costs one cycle, and whatever language a job is written in makes no
difference. Reads no clock and does no I/O; equal inputs give equal runs.

What it takes for granted: a job ends as a whole; a gang that loses too many pods to evictions waits again as a whole;
terminating pods are gone at the next moment.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import chain
from math import inf
from typing import Final

import msgspec
import numpy as np
from msgspec.structs import replace

from tierwise.config.profile import Profile
from tierwise.framework.report import CycleReport, Decision
from tierwise.model.job import Job, Phase, Rejection, Status, Task
from tierwise.model.job_counts import with_tasks
from tierwise.model.snapshot import Snapshot
from tierwise.scheduler import cycle
from tierwise.sim.cluster.agenda import Agenda, Due, Ends, Event, LookAgain
from tierwise.sim.forecast.driver import drive

__all__ = ["ForwardRun", "pod_key", "run_forward", "waits"]

_WAITING: Final = (Status.PENDING, Status.GATED)
_MOMENT: Final = 1.0
"""Seconds after which pods that are terminating now are taken to be gone."""


class JobStart(msgspec.Struct, frozen=True):
    """When a job has all that it needs, and what that followed."""

    at: float
    after: tuple[str, ...]  # jobs that ended since the cycle before; empty where time alone, or nothing, was awaited
    nodes: tuple[int, ...]  # numbers of the nodes of its tasks


class ForwardRun(msgspec.Struct, frozen=True):
    """Who started when; whoever is not in it had not started when the run was over."""

    starts: dict[str, JobStart]
    clock: float  # how far the run came
    cycles: int
    complete: bool  # False where it was stopped before nothing more could happen
    rejections: dict[str, Rejection] = {}  # by job, why the last cycle left it waiting
    running: tuple[str, ...] = ()  # jobs that run in the end


def pod_key(task: Task) -> str:
    """The key under which the end of a pod of no job is given."""
    return f"pod {task.key}"


def waits(job: Job) -> bool:
    """Whether a job has less than it needs, and something of it waits."""
    running = sum(task.status is Status.RUNNING for task in job.tasks)
    done = sum(task.status is Status.SUCCEEDED for task in job.tasks)
    if running and running + done >= job.minimum:
        return False
    if not job.tasks:
        return job.minimum > 0 and job.phase in (Phase.PENDING, Phase.INQUEUE)
    return any(task.status in _WAITING for task in job.tasks)


def run_forward(
    snapshot: Snapshot,
    profile: Profile,
    *,
    ends: Mapping[str, float],
    durations: Mapping[str, float],
    until: Collection[str],
    cycles: int,
    step: float = 0.0,
) -> ForwardRun:
    """Run cycles from the time of a snapshot on, until the jobs `until` have started or so many cycles are over.

    `ends` are the times at which running jobs end and `durations` the seconds that waiting ones run, by key; pods of no
    job are named as in `pod_key`. Who is in neither runs for ever. Moments that lie closer together than a share `step`
    of the time that has passed are one.
    """
    books = SnapshotBooks(snapshot, ends, durations)
    for _ in drive(books, lambda seen: cycle(seen, profile), step=step):
        if books.cycles >= cycles or books.starts.keys() >= set(until):
            break
    over = books.over() or books.starts.keys() >= set(until) or books.agenda.next() == inf
    return ForwardRun(books.starts, books.agenda.clock, books.cycles, over, books.rejections, books.running())


class SnapshotBooks:
    """The jobs of a snapshot as books of the driver on arrays."""

    def __init__(self, snapshot: Snapshot, ends: Mapping[str, float], durations: Mapping[str, float]) -> None:
        self._base = snapshot
        self._durations = durations
        self._jobs = list(snapshot.jobs)
        self._number = {job.key: job.number for job in snapshot.jobs}
        self._waiting = {job.key for job in snapshot.jobs if waits(job)}
        self._others = snapshot.others
        self._ending: list[str] = []
        self._ended: tuple[str, ...] = ()  # since the moment before
        tasks = chain(snapshot.others, *(job.tasks for job in snapshot.jobs))
        self._leaving = any(task.status is Status.RELEASING for task in tasks)
        self.rejections: dict[str, Rejection] = {}
        self.starts: dict[str, JobStart] = {}
        self.cycles = 0
        self.agenda = Agenda(snapshot.now)
        self.agenda.put(LookAgain(), snapshot.now)
        if self._leaving:
            self.agenda.put(Due("terminating pods"), snapshot.now + _MOMENT)
        for key, at in ends.items():
            if key not in self._waiting:
                self.agenda.put(Ends(key), at)

    def running(self) -> tuple[str, ...]:
        """The jobs that run now."""
        return tuple(job.key for job in self._jobs if job.tasks and job.key not in self._waiting)

    def over(self) -> bool:
        return not self._waiting

    def happen(self, event: Event) -> None:
        if isinstance(event, Ends):
            key = str(event.subject)
            if key in self._number:
                self._put(_emptied(self._jobs[self._number[key]]))
            else:
                self._others = tuple(task for task in self._others if pod_key(task) != key)
            self._ending.append(key)

    def advance(self, to: float) -> None:
        self._ended = tuple(self._ending)
        self._ending = []
        if self._leaving and to > self._base.now:
            self._leaving = False
            self._others = tuple(task for task in self._others if task.status is not Status.RELEASING)
            for job in self._jobs:
                gone = {}
                for t in job.tasks:
                    if t.status is Status.RELEASING:
                        gone[t.key] = replace(t, status=Status.FAILED)
                if gone:
                    self._put(with_tasks(job, gone))

    def seen(self) -> Snapshot:
        return replace(self._base, jobs=tuple(self._jobs), others=self._others, now=self.agenda.clock)

    def _nodes_by_task(self, decision: Decision) -> dict[str, int]:
        """Number of the node that a decision gives to each of its tasks, by the key of the task."""
        nodes: dict[str, int] = {}
        for placed in decision.placed:
            numbers = self._base.nodes.number[placed.rows].tolist()
            nodes.update((task.key, number) for task, number in zip(placed.tasks, numbers, strict=True))
        return nodes

    def apply(self, report: CycleReport) -> bool:
        self.cycles += 1
        self.rejections = report.rejections
        for key, phase in report.phases.items():
            self._put(replace(self._jobs[self._number[key]], phase=phase))
        lost: dict[str, list[Task]] = {}
        for eviction in report.evictions:
            lost.setdefault(eviction.job.key, []).append(eviction.task)
        for key, tasks in lost.items():
            self._stop(key, tasks)
        for job in self._jobs:
            if job.reserved is not None and job.key in report.rejections:
                self._put(replace(job, reserved=None))
        for reservation in report.reservations:
            self._put(replace(self._jobs[reservation.job.number], reserved=reservation.record))
        nominations: dict[str, dict[str, int]] = {}  # those that this cycle did not repeat are gone
        for decision in report.decisions:
            nodes = self._nodes_by_task(decision)
            if decision.bound:
                self._bind(decision.job.key, nodes)
            else:
                nominations.setdefault(decision.job.key, {}).update(nodes)
        for key in report.rejections.keys() - nominations.keys():
            if any(task.nominated >= 0 for task in self._jobs[self._number[key]].tasks):
                nominations[key] = {}
        for key, nodes in nominations.items():
            self._nominate(key, nodes)
        return bool(report.evictions)

    def _bind(self, key: str, nodes: Mapping[str, int]) -> None:
        job = self._jobs[self._number[key]]
        clock = self.agenda.clock
        tasks = {}
        for task in job.tasks:
            if task.key in nodes:
                tasks[task.key] = replace(
                    task, status=Status.RUNNING, node=nodes[task.key], nominated=-1, started=clock
                )
        job = with_tasks(job, tasks)
        self._put(job)
        if key not in self._waiting or waits(replace(job, phase=Phase.INQUEUE)):
            return
        self._put(replace(job, phase=Phase.RUNNING))
        self._waiting.discard(key)
        nodes_held = tuple(sorted({task.node for task in job.tasks if task.status is Status.RUNNING}))
        self.starts.setdefault(key, JobStart(clock, self._ended, nodes_held))
        self.agenda.put(Ends(key), clock + self._durations.get(key, inf))

    def _nominate(self, key: str, nodes: Mapping[str, int]) -> None:
        job = self._jobs[self._number[key]]
        tasks = {}
        for task in job.tasks:
            if task.status is Status.PENDING and task.nominated != nodes.get(task.key, -1):
                tasks[task.key] = replace(task, nominated=nodes.get(task.key, -1))
        if tasks:
            self._put(with_tasks(job, tasks))

    def _stop(self, key: str, evicted: Iterable[Task]) -> None:
        """Evicted tasks wait again; with too few left, all of their job."""
        job = self._jobs[self._number[key]]
        names = {task.key for task in evicted}
        running = [task for task in job.tasks if task.status is Status.RUNNING]
        tasks_left = len(running) - sum(task.key in names for task in running)
        if tasks_left < job.minimum or job.together:
            names = {task.key for task in running}
            self._waiting.add(key)
            self.agenda.cancel(Ends(key))
            job = replace(job, phase=Phase.INQUEUE)
        tasks = {}
        for t in running:
            if t.key in names:
                tasks[t.key] = replace(t, status=Status.PENDING, node=-1, started=0.0)
        self._put(with_tasks(job, tasks))

    def _put(self, job: Job) -> None:
        self._jobs[job.number] = job


def _emptied(job: Job) -> Job:
    """A job that has ended: nothing of it is left but its numbers."""
    subs = tuple(
        replace(sub, tasks=(), pod_sets=(), held=sub.held[:0], ready=0, total=0, request=np.zeros_like(sub.request))
        for sub in job.subs
    )
    ready = dict.fromkeys(job.role_ready, 0)
    return replace(job, phase=Phase.COMPLETED, tasks=(), subs=subs, best_effort_pod_sets=(), role_ready=ready)
