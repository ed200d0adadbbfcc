"""Which running tasks will end and when, as columns: what is stated by a job, its queue or a pod, and deadlines.

    a task of a job    ends when the first task of the job began + what the job states, or its queue for its jobs
    a task of no job   ends when it began + what it states itself
    each of them       ends at its deadline at the latest; of a job, at that of its last task where all have one

What runs of other jobs say (`model.expected_ends`) is left out: a median says little about one leaf.
"""

from __future__ import annotations

from math import inf

import numpy as np

from tierwise.model.held import Endings
from tierwise.model.job import Status
from tierwise.model.snapshot import Snapshot

__all__ = ["endings"]


def endings(snapshot: Snapshot) -> Endings:
    """The endings of a snapshot, as it brings them or else by its tasks."""
    if snapshot.endings is not None:
        return snapshot.endings
    queued = {name: queue.expected_duration for name, queue in snapshot.queues.items()}
    stated = np.array(
        [(job.terms.expected if job.terms is not None else 0.0) or queued.get(job.queue, 0.0) for job in snapshot.jobs]
    )
    columns, times = snapshot.columns, snapshot.times
    running = columns.having(Status.RUNNING)
    own, begun = columns.job >= 0, times.started > 0
    counted = own & begun & ~columns.having(Status.FAILED)
    start, stop = np.full(len(stated), inf), np.full(len(stated), -inf)
    np.minimum.at(start, columns.job[counted], times.started[counted])
    np.maximum.at(stop, columns.job[own & running], times.stop[own & running])
    by_job = np.append(np.minimum(np.where(stated > 0, start + stated, inf), stop), inf)
    alone = np.minimum(np.where(begun & (times.expected > 0), times.started + times.expected, inf), times.stop)
    end = np.where(own, by_job[columns.job], alone)
    found = np.flatnonzero(running & (columns.row >= 0) & (end < inf))
    started = np.where(own, np.append(start, inf)[columns.job], times.started)
    return Endings(columns.row[found], columns.shape[found], started[found], end[found])
