"""The order in which jobs are served: the queue that is first by its plugins' keys, and in it the job that is first.

Called by `allocate`, which serves what it is given here and puts jobs back that have more tasks to place. It admits
and rejects jobs; it places nothing.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from operator import attrgetter

import msgspec

from tierwise.actions.enqueue import admission_reason, queue_reason
from tierwise.framework.cycle import Cycle
from tierwise.model.gang import LONE
from tierwise.model.job import Job, Phase, Reason, Rejection

__all__ = ["JobsByQueue", "Kind", "QueuedJobs", "ServedQueue", "plain_kind"]

Kind = tuple[object, ...]
"""What is known of a plain pod before it is placed, apart from its name and age."""

_TRAITS = attrgetter(
    *("queue", "priority", "phase", "scheduler", "declared", "satisfied", "not_preemptable", "never_preempts"),
    *("lone", "sla", "unsupported", "unready", "refusal", "missing", "gangs", "ladder"),
)


def plain_kind(cycle: Cycle, job: Job) -> Kind | None:
    """The kind of a job that is one task which no topology, set or promise concerns; None for all other jobs.

    Plugins that ignore names do not distinguish jobs of one kind, and no scorer or filter does.
    """
    if len(job.tasks) != 1 or job.shape is not LONE:
        return None
    if job.key in cycle.snapshot.paused or job.key in cycle.crowded:
        return None
    if cycle.is_closed_to(job):
        return None
    sub = job.subs[0]
    if len(sub.pod_sets) != 1 or sub.previous_domain or sub.ready:
        return None
    if job.repair is not None or job.declared_by is not None or cycle.nominations.holds(job):
        return None
    return (id(sub.pod_sets[0].shape), *_TRAITS(job))


Entry = tuple[tuple[object, ...], int, Job, Kind | None]
"""A job in its queue: sort key, number, job, and the kind of a plain pod."""


class QueuedJobs:
    """The jobs that wait in one queue, in their order: sorted once, with a heap for those that are put back."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self._sorted = sorted(entries, reverse=True)  # the next one last
        self._back: list[Entry] = []

    def __len__(self) -> int:
        return len(self._sorted) + len(self._back)

    def __iter__(self) -> Iterator[Job]:
        ahead = reversed(self._sorted)
        return (entry[2] for entry in (heapq.merge(ahead, sorted(self._back)) if self._back else ahead))

    def put_back(self, entry: Entry) -> None:
        heapq.heappush(self._back, entry)

    def peek(self) -> Entry:
        return self._back[0] if self._back_is_next() else self._sorted[-1]

    def pop(self) -> tuple[Job, Kind | None]:
        return (heapq.heappop(self._back) if self._back_is_next() else self._sorted.pop())[2:]

    def pop_alike(self, kind: Kind, max_jobs: float) -> list[Job]:
        """Pop the next jobs, as long as they are of a kind."""
        alike: list[Job] = []
        waiting = self._sorted
        while waiting and waiting[-1][3] == kind and len(alike) < max_jobs and not self._back_is_next():
            alike.append(waiting.pop()[2])
        return alike

    def pop_unlike(self, number: int, max_jobs: float) -> Iterator[Job]:
        """Pop plain pods as they are asked for, up to the first of so many that are alike."""
        waiting = self._sorted
        while waiting and max_jobs > 0 and not self._back_is_next():
            kind = waiting[-1][3]
            if kind is None or self.are_alike(kind, number):
                return
            max_jobs -= 1
            yield waiting.pop()[2]

    def are_alike(self, kind: Kind, number: int) -> bool:
        """A guess whether the next `number` jobs are all of a kind: the first and the last of them are compared."""
        waiting = self._sorted
        return len(waiting) >= number and waiting[-number][3] == kind and waiting[-1][3] == kind

    def _back_is_next(self) -> bool:
        return bool(self._back) and (not self._sorted or self._back[0] < self._sorted[-1])


_QueueEntry = tuple[tuple[object, ...], str]
"""A queue among those that have jobs waiting: sort key, name."""

_GLOBAL_QUEUE = ""
"""The name of the only queue where the profile orders all jobs globally; no object has it."""


class ServedQueue(msgspec.Struct, frozen=True):
    """The queue that is served now, and the one behind it where every placed task may change their order."""

    name: str
    jobs: QueuedJobs
    following: _QueueEntry | None


class _Admission(msgspec.Struct, frozen=True):
    """What holds for all plain pods of a kind: why they are kept out, else their place in the order and their queue."""

    reason: Reason | None
    order: tuple[float, ...]
    queue: str


class JobsByQueue:
    """The jobs that wait, by the queue that they are served with."""

    def __init__(self, cycle: Cycle) -> None:
        self._cycle = cycle
        self.served = ServedQueue("", QueuedJobs(), None)
        self._queued: dict[str, QueuedJobs] = {}
        self._admissions: dict[Kind, _Admission] = {}
        self._queue_keys: dict[str, tuple[object, ...]] = {}  # where placing a job leaves the order of queues as it is

    def admit(self, jobs: Iterable[Job]) -> None:
        """Admit the jobs that have tasks to place; those that their queue or a gate keeps out are rejected."""
        admitted: dict[str, list[Entry]] = {}
        refusals, backlog, report = self._cycle.refusals, self._cycle.backlog, self._cycle.report
        untouched = backlog.untouched  # then all that waited are open
        for job in jobs:
            refused = refusals.gates.get(job.key)
            stays = job.phase is Phase.PENDING and job.key not in report.phases
            if stays and report.rejections.get(job.key) is not refused:
                refused = None  # what keeps it in that phase comes first
            if not (untouched and refused is not None) and not backlog.open(job):
                continue
            if refused is not None:
                self._refuse(job, refused)
                continue
            kind = plain_kind(self._cycle, job)
            admission = self._admission(job, kind)
            if admission.reason is None:
                entry = (self._key(job, admission.order), job.number, job, kind)
                admitted.setdefault(admission.queue, []).append(entry)
            else:
                refused = Rejection("gate", job.key, admission.reason)
                passing = job.key in self._cycle.snapshot.paused or job.key in self._cycle.crowded
                if not passing and (not stays or queue_reason(self._cycle, job) is not None):
                    refusals.refused_by_gate(job, refused)
                self._refuse(job, refused)
        self._queued = {queue: QueuedJobs(entries) for queue, entries in admitted.items()}

    def _refuse(self, job: Job, rejection: Rejection) -> None:
        self._cycle.nominations.drop(job)
        self._cycle.report.reject(job, rejection)

    def queues(self) -> Iterator[ServedQueue]:
        """The queue that is first in order, again and again, until no jobs wait or the cycle has bound its most.

        A queue that is overused is not served any more: its jobs are rejected.
        """
        waiting = [(self._queue_key(name), name) for name in self._queued]
        heapq.heapify(waiting)
        while waiting:
            if self.binds_left() <= 0:
                self._cycle.report.unfinished = True
                return
            _, name = heapq.heappop(waiting)
            jobs = self._queued[name]
            overused = self._overused(name)
            if overused is not None:
                self._reject(jobs, overused)
                continue
            following = waiting[0] if waiting and self._cycle.pipeline.queue_order else None
            self.served = ServedQueue(name, jobs, following)
            yield self.served
            if jobs:
                heapq.heappush(waiting, (self._queue_key(name), name))

    def put_back(self, job: Job) -> None:
        """Put a job that has more tasks to place back into its queue."""
        entry = (self._key(job), job.number, job, plain_kind(self._cycle, job))
        self._queued[self.queue_of(job)].put_back(entry)

    def queue_of(self, job: Job) -> str:
        """The queue that a job is served with."""
        pipeline, queues = self._cycle.pipeline, self._cycle.snapshot.queues
        return _GLOBAL_QUEUE if pipeline.global_queue else queues[job.queue].served_with

    def must_give_way(self) -> bool:
        """Whether the queue that is served must stop: it is overused by now, or another queue comes first."""
        name, following = self.served.name, self.served.following
        if self._overused(name) is not None:
            return True
        return following is not None and (self._queue_key(name), name) > following

    def is_next(self, job: Job) -> bool:
        """Whether a job that was popped still comes before all others of the queue that is served."""
        jobs = self.served.jobs
        return not (jobs and (self._key(job), job.number) > jobs.peek()[:2])

    def _key(self, job: Job, order: tuple[object, ...] | None = None) -> tuple[object, ...]:
        """The place of a job in its queue: the order of plugins, then who was not looked at before, age and name."""
        order = self._cycle.pipeline.job_order(job) if order is None else order
        return order, self._cycle.steps.since(job), job.created, job.order

    def binds_left(self) -> float:
        """How many more pods this cycle may bind before it leaves the rest to the next one.

        Pods that are nominated do not count: the next cycle meets them again, and would come no further. Where shares
        decide which queue is served, cutting a cycle could change the order: it is done in one.
        """
        max_pods = self._cycle.most_pods
        if max_pods is None or self._cycle.pipeline.queue_order:
            return float("inf")
        return max_pods - self._cycle.report.bound

    def _admission(self, job: Job, kind: Kind | None) -> _Admission:
        """Whether a job is admitted, and where it waits; plugins that ignore names are asked once for each kind."""
        pipeline = self._cycle.pipeline
        pending = job.phase is Phase.PENDING  # what has become of that is known by name
        if pending or not pipeline.ignores_names or self._cycle.inspect is not None:
            kind = None
        admission = self._admissions.get(kind) if kind is not None else None
        if admission is None:
            passes = not pending and self._cycle.refusals.passes_gates(job)
            reason = None if passes else admission_reason(self._cycle, job)
            order, queue = (pipeline.job_order(job), self.queue_of(job)) if reason is None else ((), "")
            admission = _Admission(reason, order, queue)
            if kind is not None:
                self._admissions[kind] = admission
        return admission

    def _queue_key(self, queue: str) -> tuple[object, ...]:
        key = self._queue_keys.get(queue)
        if key is None:
            pipeline, queues = self._cycle.pipeline, self._cycle.snapshot.queues
            key = pipeline.queue_key(queues[queue]) if queue != _GLOBAL_QUEUE else ()
            if not pipeline.queue_order:
                self._queue_keys[queue] = key
        return key

    def _overused(self, queue: str) -> Reason | None:
        if queue == _GLOBAL_QUEUE or not self._cycle.pipeline.overused:
            return None
        return self._cycle.pipeline.overused(self._cycle.snapshot.queues[queue])

    def _reject(self, jobs: Iterable[Job], overused: Reason) -> None:
        """Reject the jobs that still wait in an overused queue."""
        for job in jobs:
            if job.key not in self._cycle.report.rejections:
                self._cycle.report.reject(job, Rejection("quota", job.key, overused))
