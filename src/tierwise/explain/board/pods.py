"""Where pods run: every task of a job that has a node or is nominated to one, and how it got there."""

from __future__ import annotations

import enum

import msgspec

from tierwise.explain.text.schedule import Run
from tierwise.model.job import Job, Status, SubJob, Task

__all__ = ["BoardPod", "PodState", "board_pods", "is_single"]


class PodState(enum.Enum):
    """How a task came to stand on its row."""

    RUNNING = "running"  # it stood there before
    NEW = "new"  # this run gave it the row
    LEAVING = "leaving"  # it is on its way out
    KEPT = "kept"  # the row is kept until resources are released, or was chosen and is not taken yet


class BoardPod(msgspec.Struct, frozen=True):
    """One task on its row."""

    job: Job
    sub: SubJob
    task: Task
    row: int
    how: PodState

    @property
    def holds(self) -> bool:
        """Whether it takes up room already."""
        return self.how is not PodState.KEPT


def is_single(job: Job) -> bool:
    """Whether a job is a pod by itself, waiting or running, and no declared gang."""
    return job.lone or (not job.declared and len(job.tasks) == 1)


def board_pods(run: Run, *, carried_out: bool) -> tuple[BoardPod, ...]:
    """Every task with a row, job by job; where decisions are not carried out, rows are kept at most."""
    bound = _bound(run)
    decided = _decided(run, carried_out=carried_out)
    rows = run.after.nodes.rows.tolist()
    all_pods: list[BoardPod] = []
    for job in run.after.jobs:
        for sub in job.subs:
            for task in sub.tasks:
                row = rows[task.node]
                how = PodState.RUNNING
                if task.status is Status.PENDING:
                    row, how = decided.get(task.key, (-1, PodState.KEPT))
                elif task.status is Status.RELEASING:
                    how = PodState.LEAVING
                elif task.status is not Status.RUNNING:
                    row = -1
                elif task.key in bound:
                    how = PodState.NEW
                if row >= 0:
                    all_pods.append(BoardPod(job, sub, task, row, how))
    return tuple(all_pods)


def _bound(run: Run) -> set[str]:
    """The tasks that some cycle of the run bound."""
    decisions = (d for _, report in run.reports for d in report.decisions if d.bound)
    return {task.key for decision in decisions for task, _ in decision.places()}


def _decided(run: Run, *, carried_out: bool) -> dict[str, tuple[int, PodState]]:
    """Rows that the last cycle gave to tasks which are pending in the end.

    Where the run ends with the very snapshot that its last cycle saw, what that cycle bound counts as standing: the
    cluster only does not show it yet. Elsewhere a task that was bound and is pending again has lost its row since.
    """
    snapshot, report = run.reports[-1]
    names = snapshot.nodes.names
    row_of = run.after.nodes.row
    row_by_task: dict[str, tuple[int, PodState]] = {}
    for decision in report.decisions:
        if decision.bound and snapshot is not run.after:
            continue
        how = PodState.NEW if decision.bound and carried_out else PodState.KEPT
        row_by_task |= {task.key: (row_of.get(names[row], -1), how) for task, row in decision.places()}
    return row_by_task
