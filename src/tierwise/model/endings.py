"""Which running tasks will end and when, as columns: what is stated by a job, its queue or a pod, and deadlines.

    a task of a job    ends when the first task of the job began + what the job states, or its queue for its jobs
    a task of no job   ends when it began + what it states itself
    each of them       ends at its deadline at the latest; of a job, at that of its last task where all have one

What a job or a pod states of itself counts in its own namespace. `ExpectedEnds.word_counts` decides whether it counts
elsewhere; where it does not, the deadline alone counts there.

What runs of other jobs say (`model.expected_ends`) is left out: a median says little about one leaf.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from tierwise.model.arrays import Bools, Floats, Ints
from tierwise.model.held import Endings
from tierwise.model.job import ANYBODY, Status, namespace_of
from tierwise.model.snapshot import Snapshot

if TYPE_CHECKING:
    from tierwise.model.expected_ends import ExpectedEnds

__all__ = ["endings"]


def endings(snapshot: Snapshot, ends: ExpectedEnds) -> Endings:
    """The endings of a snapshot, as it brings them or else by its tasks. `ends` are those of its jobs."""
    if snapshot.endings is not None:
        return snapshot.endings
    queued = {name: queue.expected_duration for name, queue in snapshot.queues.items()}
    own_word = np.array([job.terms.expected if job.terms is not None else 0.0 for job in snapshot.jobs])
    stated = np.where(own_word > 0, own_word, [queued.get(job.queue, 0.0) for job in snapshot.jobs])
    columns = snapshot.columns
    times = snapshot.times
    running = columns.having(Status.RUNNING)
    own = columns.job >= 0
    begun = times.started > 0
    counted = own & begun & ~columns.having(Status.FAILED)
    start = np.full(len(stated), inf)
    stop = np.full(len(stated), -inf)
    np.minimum.at(start, columns.job[counted], times.started[counted])
    np.maximum.at(stop, columns.job[own & running], times.stop[own & running])
    by_job = np.append(np.minimum(np.where(stated > 0, start + stated, inf), stop), inf)
    alone = np.minimum(np.where(begun & (times.expected > 0), times.started + times.expected, inf), times.stop)
    end = np.where(own, by_job[columns.job], alone)
    found = np.flatnonzero(running & (columns.row >= 0) & (end < inf))
    started = np.where(own, np.append(start, inf)[columns.job], times.started)
    every = Endings(columns.row[found], columns.shape[found], started[found], end[found])
    bare = np.where(own, np.append(own_word > 0, False)[columns.job], times.expected > 0)[found]
    if snapshot.trust_stated or not bare.any():
        return every
    limit = np.where(own, np.append(stop, inf)[columns.job], times.stop)[found]
    if ends.has_records:
        limit = np.minimum(limit, _relied_on(snapshot, ends, columns.job[found[bare]])[columns.job[found]])
    names, numbers = _namespaces(snapshot, found, bare)
    return Endings(every.row, every.shape, every.started, every.end, np.where(bare, limit, every.end), numbers, names)


def _relied_on(snapshot: Snapshot, ends: ExpectedEnds, job: Ints) -> Floats:
    """By position of these jobs: when a job that states its end has ended, for jobs of other namespaces."""
    found = np.full(len(snapshot.jobs) + 1, inf)
    for number in np.unique(job[job >= 0]).tolist():
        one = snapshot.jobs[number]
        found[number] = ends.relied_on(ends.of(one), namespace_of(one.key), ANYBODY)
    return found


def _namespaces(snapshot: Snapshot, found: Ints, bare: Bools) -> tuple[tuple[str, ...], Ints]:
    """The namespaces of the tasks in `found` whose end counts there alone, and the number of that of each; else -1."""
    columns = snapshot.columns
    numbers = np.full(len(found), -1, dtype=np.int64)
    some = np.flatnonzero(bare)
    job = columns.job[found[some]]
    jobs = np.unique(job[job >= 0])
    others = found[some][job < 0] - int(np.count_nonzero(columns.job >= 0))  # tasks of no job come last
    of_jobs = [namespace_of(snapshot.jobs[number].key) for number in jobs.tolist()]
    of_others = [namespace_of(snapshot.others[number].key) for number in others.tolist()]
    names: dict[str, int] = {}

    def numbered(each: Sequence[str]) -> Ints:
        return np.array([names.setdefault(name, len(names)) for name in each], dtype=np.int64)

    numbers[some[job >= 0]] = numbered(of_jobs)[np.searchsorted(jobs, job[job >= 0])]
    numbers[some[job < 0]] = numbered(of_others)
    return tuple(names), numbers
