"""Pods that still run when a window begins whose word for that is `Evict`: they are evicted, whole gangs where too few
would be left.

Everybody who was started by a known end is gone by then; who overran it, who was there when the window was declared and
who could start without a known end is not. Disruption budgets and marks as not preemptable hold, and pods that nobody
would make again stay.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from tierwise.api.core import format_time
from tierwise.framework.cycle import Cycle
from tierwise.framework.report import EvictionAttempt
from tierwise.model.arrays import Bools
from tierwise.model.job import Job, Reason, Status, Task
from tierwise.model.window import ClosedTime

__all__ = ["WINDOW", "evict_overrun"]

WINDOW = "window"
"""The name under which windows evict."""


def evict_overrun(cycle: Cycle) -> None:
    """Evict the tasks that run on nodes which a window has closed, and what is left of a gang below its minimum."""
    now = cycle.snapshot.now
    for window in cycle.snapshot.windows:
        span = window.schedule.next(now) if window.schedule.evicts else None
        if span is not None and span.start <= now:
            _empty(cycle, window, f"window {window.name} is open until {format_time(span.end)}")


def _empty(cycle: Cycle, window: ClosedTime, why: str) -> None:
    gone = {eviction.task.key for eviction in cycle.report.evictions}
    for job in cycle.snapshot.jobs:
        if job.queue in window.queues:
            continue
        running = [task for task in job.tasks if task.status is Status.RUNNING and task.key not in gone]
        victims = _victims(cycle, job, running, window.rows)
        firm = _firm(cycle, victims)
        if firm:
            _tell(cycle, job, f"{why}, but {firm}")
        elif victims:
            positions = np.array([cycle.running.position[task.key] for task in victims], dtype=np.int64)
            cycle.ledger.evict(cycle.running, positions)
            cycle.evict_running(positions, None, WINDOW, why)


def _victims(cycle: Cycle, job: Job, running: Sequence[Task], rows: Bools) -> list[Task]:
    """The running tasks of a job that go: those on closed rows, and the rest where too few would be left."""
    owned = [task for task in running if not task.unowned and task.key in cycle.running.position]
    inside = [task for task in owned if _on(cycle, task, rows)]
    staying = len(running) - len(inside)
    if inside and (job.together or 0 < staying < job.minimum):
        return owned
    return inside


def _on(cycle: Cycle, task: Task, rows: Bools) -> bool:
    return task.node >= 0 and bool(rows[cycle.nodes.rows[task.node]])


def _firm(cycle: Cycle, victims: Sequence[Task]) -> str:
    """Why tasks may not all be evicted, as the end of a sentence; "" where they may."""
    marked = cycle.running.not_preemptable
    for task in victims:
        if marked[cycle.running.position[task.key]]:
            return f"pod {task.key} is marked as not preemptable"
    for budget, number in Counter(budget for task in victims for budget in task.budgets).items():
        if number > cycle.ledger.disruptions_left(budget):
            return "a disruption budget does not allow it"
    return ""


def _tell(cycle: Cycle, job: Job, text: str) -> None:
    attempt = EvictionAttempt(WINDOW, Reason("SparedByWindow", "windows", text))
    cycle.report.eviction_attempts.setdefault(job.key, []).append(attempt)  # maybe nothing of it waits
