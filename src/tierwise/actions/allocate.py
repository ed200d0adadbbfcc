"""allocate: give jobs their room, queue by queue and job by job, the gang's minimum first and the surplus after it.

A job whose minimum finds a place is bound; one that fits only on resources still being released holds that room
for the rest of the cycle; one that does not fit is refused with a reason, and what it tried leaves no trace.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import replace

from tierwise.actions.demand import Backlog, Demand, Lot, demand, surplus
from tierwise.actions.diagnose import diagnose
from tierwise.actions.fit import Take
from tierwise.actions.refusals import Refusals
from tierwise.actions.search import Found, home, search_lot
from tierwise.actions.surplus import place_surplus
from tierwise.actions.two_level import search_job
from tierwise.framework.cycle import Cycle
from tierwise.framework.report import Decision, Placed
from tierwise.framework.standing import job_ready
from tierwise.model.job import Job, Phase
from tierwise.model.reason import Reason, Rejection
from tierwise.model.topology import ROOT

__all__ = ["allocate"]

_NO_QUEUE = Reason("QueueNotFound", "allocate", "its queue does not exist")
_CLOSED = Reason("QueueClosed", "allocate", "its queue is not open")
_NOT_ENQUEUED = Reason("NotEnqueued", "enqueue", "it has not left phase Pending")


def allocate(cycle: Cycle, *, enqueues: bool) -> None:
    """Place what can be placed; `enqueues` says that the profile has an action to let jobs leave phase Pending."""
    _Allocation(cycle, enqueues=enqueues).run()


class _Allocation:
    def __init__(self, cycle: Cycle, *, enqueues: bool) -> None:
        self._cycle = cycle
        self._enqueues = enqueues
        self._backlog = Backlog()
        self._refusals = Refusals(cycle)
        self._waiting: dict[str, list[tuple[tuple[object, ...], int, Job]]] = {}

    def run(self) -> None:
        for job in self._cycle.snapshot.jobs:
            if any(job.parts()):
                self._admit(job)
        queues = [(self._queue_key(name), name) for name in self._waiting]
        heapq.heapify(queues)
        while queues:
            _, name = heapq.heappop(queues)
            waiting = self._waiting[name]
            _, _, job = heapq.heappop(waiting)
            if self._serve(job):
                self._push(job)
            if waiting:
                heapq.heappush(queues, (self._queue_key(name), name))

    def _queue_key(self, name: str) -> tuple[object, ...]:
        return self._cycle.pipeline.queue_key(self._cycle.snapshot.queues[name])

    def _admit(self, job: Job) -> None:
        reason = self._objection(job)
        if reason is None:
            self._push(job)
        else:
            self._cycle.report.reject(job, Rejection("gate", job.key, reason))

    def _objection(self, job: Job) -> Reason | None:
        queue = self._cycle.snapshot.queues.get(job.queue)
        if queue is None:
            return _NO_QUEUE
        if not queue.open:
            return _CLOSED
        if job.phase is Phase.PENDING and self._enqueues and job.key not in self._cycle.report.phases:
            known = self._cycle.report.rejections.get(job.key)
            return known.reason if known is not None else _NOT_ENQUEUED
        return self._cycle.pipeline.admit(job)

    def _push(self, job: Job) -> None:
        if job.phase is Phase.PENDING:
            self._cycle.report.phases[job.key] = Phase.INQUEUE
        entry = (self._cycle.pipeline.job_key(job), job.number, job)
        heapq.heappush(self._waiting.setdefault(job.queue, []), entry)

    def _serve(self, job: Job) -> bool:
        """One turn of a job; whether it wants another."""
        probe = self._cycle.report.probe
        if probe is not None:
            probe.look(self._cycle, job)
        asked = demand(self._cycle, self._backlog, job)
        return self._place_minimum(job, asked) if asked.lots else self._place_surplus(job)

    def _place_minimum(self, job: Job, asked: Demand) -> bool:
        known = self._refusals.known(job, asked)
        if known is not None:
            self._cycle.report.reject(job, known)
            return False
        with self._cycle.ledger.statement() as statement:
            found = self._find(job, asked)
            if isinstance(found, Found) and job_ready(self._cycle.ledger, job, waiting=True):
                statement.keep()
                bound = job_ready(self._cycle.ledger, job)
                self._decide(job, found.takes, score=found.score, bound=bound)
                return bound and any(self._backlog.left(part) for part in job.parts())
        rejection = diagnose(self._cycle, job, asked, bounded=found is True)
        self._refusals.learn(job, asked, rejection)
        self._cycle.report.reject(job, rejection)
        return False

    def _find(self, job: Job, asked: Demand) -> Found | bool:
        if job.policies:
            return search_job(self._cycle, job, asked)
        return search_lot(self._cycle, job, asked.lots[0]) or False

    def _place_surplus(self, job: Job) -> bool:
        """All of the surplus that fits on idle room; the rest waits with its reason."""
        takes: list[Take] = []
        left: list[Lot] = []
        for lot in surplus(self._cycle, self._backlog, job):
            placed = place_surplus(self._cycle, job, lot)
            takes += placed
            missing = lot.need - sum(len(take.rows) for take in placed)
            if missing:
                left.append(replace(lot, need=missing))
        if takes:
            self._decide(job, takes, score=0.0, bound=True)
        if left:
            self._cycle.report.reject(job, diagnose(self._cycle, job, Demand(tuple(left)), bounded=False))
        return False

    def _decide(self, job: Job, takes: Iterable[Take], *, score: float, bound: bool) -> None:
        """Deal the rows out to concrete tasks, in rank order, and put the decision on the report."""
        placed = tuple(
            Placed(take.sub, self._backlog.deal(take.part, len(take.rows)), take.rows, take.pool) for take in takes
        )
        domain = home(self._cycle, job)
        decision = Decision(job, "allocate", ROOT if domain is None else domain, placed, bound, score)
        self._cycle.report.decide(decision)
