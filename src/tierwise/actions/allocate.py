"""allocate: place pending jobs, one queue and one job at a time; the gang's minimum first, its surplus afterwards.

A job whose minimum fits idle resources is bound. A job that fits only with resources that are still being released is
nominated, and those resources stay reserved for it. A job that does not fit is rejected with a reason, and the ledger
is left unchanged.

Called by `scheduler.cycle`. It evicts nothing itself: where the profile preempts immediately, as kube-scheduler does,
the caller passes `preempt`, which is called for each rejected job before the next job is served. Otherwise a less
important job could take resources that the preemptor needs beside those of its victims.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Protocol

import numpy as np
from msgspec.structs import replace

from tierwise.actions.diagnosis.rejection_cache import RejectionCache
from tierwise.actions.enqueue import INCOMPLETE
from tierwise.actions.jobs_by_queue import JobsByQueue
from tierwise.actions.placement.commit import commit, quota_exceeded_now
from tierwise.actions.placement.demand import (
    Demand,
    TaskGroup,
    demand,
    needs,
    selections,
    surplus,
    surplus_groups,
    whole_first,
)
from tierwise.actions.placement.fit import Placement
from tierwise.actions.placement.nominated import place_nominated, to_nominate
from tierwise.actions.placement.search import NoPlace, SearchResult
from tierwise.actions.placement.solve import solve
from tierwise.actions.placement.surplus import place_surplus, place_surplus_group
from tierwise.actions.plain_pods import PlainPods
from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import Abstained, Delay, Proposal
from tierwise.framework.ledger import Pool, Statement, job_ready, sub_ready
from tierwise.model.job import Job
from tierwise.model.reason import Reason, Rejection

if TYPE_CHECKING:
    from tierwise.actions.reservations import Reservations
    from tierwise.config.reservations import ReservationRules

__all__ = ["Preempt", "Repair", "allocate"]


Preempt = Callable[[Job], None]
"""Evicts victims for a rejected job, or adds to its rejection why it does not."""

_HELD_BACK = Reason("NotEnoughPods", "gang", "too few of its pods can be placed now: others are gated or missing")


class Repair(Protocol):
    """What gangs that lose nodes need besides a place."""

    def make_room(self, job: Job) -> bool:
        """Whether room was made for a job that was refused; a gang to repair is told why not."""


def allocate(
    cycle: Cycle,
    *,
    preempt: Preempt | None = None,
    repair: Repair | None = None,
    reservations: ReservationRules | None = None,
) -> None:
    """Place the pending tasks of all jobs that have left phase Pending."""
    _Allocation(cycle, preempt=preempt, repair=repair, reservations=reservations).run()


class _Allocation:
    def __init__(
        self, cycle: Cycle, *, preempt: Preempt | None, repair: Repair | None, reservations: ReservationRules | None
    ) -> None:
        self._cycle = cycle
        self._reservations = _reservations(cycle, reservations) if reservations is not None else None
        self._preempt = preempt
        self._repair = repair
        self._rejection_cache = RejectionCache(cycle, told_at_once=preempt is not None)
        self._jobs = JobsByQueue(cycle)
        self._plain_pods = PlainPods(cycle, self._jobs, self._reservations, preempts=preempt is not None)
        self._cut = 0  # searches that were cut short before the job that is served

    def run(self) -> None:
        self._jobs.admit(self._cycle.snapshot.waiting)
        for queue in self._jobs.queues():
            for job in self._plain_pods.serve(queue):
                if self._serve_safely(job):
                    self._jobs.put_back(job)
        self._rejection_cache.tell()
        if self._reservations is not None:
            self._reservations.tell()

    def _serve_safely(self, job: Job) -> bool:
        """Serve a job. If a plugin fails, the job is rejected and the other jobs are still served."""
        with self._reservations.charging(job) if self._reservations is not None else nullcontext():
            more = self._cycle.attempt(job, self._serve)
        if isinstance(more, Reason):
            self._cycle.report.reject(job, Rejection("gate", job.key, more))
            return False
        return more

    def _serve(self, job: Job) -> bool:
        """Try to place a job once. Returns whether it goes back into its queue to place more tasks."""
        self._cut = self._cycle.report.search_counts.cut
        self._cycle.show(job, replaces=self._preempt is not None)
        nominated = self._cycle.nominations.holds(job)
        if not nominated and not self._cycle.pipeline.has_quotas and self._cycle.pipeline.gangs:
            cached = self._rejection_cache.lookup_early(job)
            if cached is not None:
                return self._refuse(job, cached)
        asked = demand(self._cycle, job)
        self._cycle.nominations.release(job)
        if not asked.enough:
            self._cycle.report.reject(job, Rejection("gate", job.key, _HELD_BACK))
            return False
        if not asked.task_groups:
            return self._place_surplus_beside_reservations(job)
        return self._place_minimum(job, asked, nominated=nominated)

    def _place_minimum(self, job: Job, asked: Demand, *, nominated: bool) -> bool:
        over = _quota_reason(self._cycle, job, asked)
        known = self._rejection_cache.lookup(job, asked) if over is None else self._over(job, over)
        if known is not None:
            return self._refuse(job, known)
        with self._cycle.ledger.statement() as statement:
            found, over = self._find_within_quotas(job, asked, statement, nominated=nominated)
            if isinstance(found, Reason):
                self._cycle.report.reject(job, Rejection("place", job.key, found))
                self._consider_reserving(job)
                return False
            if isinstance(found, SearchResult) and over is None and job_ready(self._cycle.ledger, job, waiting=True):
                delay = self._delay(job, found)
                if delay is not None:
                    self._cycle.report.delay(job, delay)
                    statement.rewind()
                    self._consider_reserving(job)
                    return False
                bound = all(placement.pool is Pool.IDLE for placement in found.placements)
                late = quota_exceeded_now(self._cycle, job, found.placements) if bound else None
                if late is not None and not nominated:  # terminating pods still count in its queue
                    self._cycle.report.reject(job, Rejection("quota", job.key, late))
                    return False
                statement.keep()
                bound = bound and late is None
                placements = found.placements if bound else to_nominate(found.placements)
                self._decide(job, placements, score=found.score, bound=bound, proposed=found.proposed)
                return bound and self._cycle.backlog.some_left(job)
        if over is not None:
            return self._refuse(job, self._over(job, over))
        from tierwise.actions.diagnosis.diagnose import diagnose  # slow to import, and not every cycle rejects

        like = self._rejection_cache.similar(job, asked)
        bounded = found is NoPlace.BOUNDED or asked.cut or self._cut_short
        rejection = diagnose(self._cycle, job, asked, bounded=bounded, like=like)
        self._rejection_cache.add(job, asked, rejection)
        return self._refuse(job, rejection)

    @property
    def _cut_short(self) -> bool:
        """Whether a search for the job that is served was cut short."""
        return self._cycle.report.search_counts.cut > self._cut

    def _over(self, job: Job, over: Reason) -> Rejection:
        """Quotas do not allow a job's minimum, in any selection of tasks that was looked at."""
        return Rejection("quota", job.key, over, bounded=self._cut_short)

    def _find_within_quotas(
        self, job: Job, asked: Demand, statement: Statement, *, nominated: bool
    ) -> tuple[SearchResult | NoPlace | Reason, Reason | None]:
        """A place for tasks that the quotas allow, or what the first selection of tasks finds and why it may not."""
        found = self._find_beside_reservations(job, asked, statement, nominated=nominated)
        over = self._quota_reason_for_placed(job, asked, found) if isinstance(found, SearchResult) else None
        if over is None and not (isinstance(found, NoPlace) and asked.narrowed):
            return found, over
        statement.rewind()
        for others in self._cycle.first(selections(self._cycle, job, asked), self._cycle.budget.selections):
            other = self._find_beside_reservations(job, others, statement, nominated=False)
            if isinstance(other, SearchResult) and self._quota_reason_for_placed(job, others, other) is None:
                return other, None
            statement.rewind()
        return NoPlace.BOUNDED if isinstance(found, NoPlace) else found, over

    def _find_beside_reservations(
        self, job: Job, asked: Demand, statement: Statement, *, nominated: bool
    ) -> SearchResult | NoPlace | Reason:
        """A place with which all reservations hold, or why the job has to leave the one that it could have."""
        found = self._find(job, asked, nominated=nominated)
        if nominated or not self._reservations or not isinstance(found, SearchResult):
            return found
        objection = self._reservations.objection(job, found)
        if objection is None:
            return found
        statement.rewind()
        with self._reservations.respected(job):
            other = _search(self._cycle, job, asked)
        return other if isinstance(other, SearchResult) else objection

    def _refuse(self, job: Job, rejection: Rejection) -> bool:
        """Reject a job's minimum, try to preempt for it where the profile does so immediately, else reserve a place."""
        more = self._reject_or_preempt(job, rejection)
        if rejection.stage != "quota" and job.key in self._cycle.report.rejections and not more:
            self._consider_reserving(job)
        return more

    def _consider_reserving(self, job: Job) -> None:
        if self._reservations is not None:
            self._reservations.consider(job, self._jobs.queue_of(job))

    def _reject_or_preempt(self, job: Job, rejection: Rejection) -> bool:
        self._cycle.report.reject(job, rejection)
        if self._repair is not None and self._repair.make_room(job):
            return False
        preempt, self._preempt = self._preempt, None
        if preempt is None:
            return False
        try:
            more = self._replace_nominated(job)
        finally:
            self._preempt = preempt
        if more is None:
            preempt(job)
        return more or False

    def _replace_nominated(self, job: Job) -> bool | None:
        """Place a job on resources that are reserved for less important nominated jobs; tried before any eviction.

        In Kubernetes a nominated pod holds its node only against pods of the same or a lower priority. Returns None if
        the job does not fit there either.
        """
        cycle, made = self._cycle, len(self._cycle.report.decisions)
        with cycle.ledger.statement() as statement:
            withdrawn = cycle.nominations.withdraw_below(job)
            if not withdrawn:
                return None
            more = self._place_minimum(job, demand(cycle, job), nominated=False)
            if len(cycle.report.decisions) > made:
                statement.keep()
                return more
        cycle.nominations.restore(withdrawn)
        return None

    def _delay(self, job: Job, found: SearchResult) -> Delay | None:
        if not self._cycle.pipeline.delays:
            return None
        return self._cycle.pipeline.defer(job, np.concatenate([placement.rows for placement in found.placements]))

    def _quota_reason_for_placed(self, job: Job, asked: Demand, found: SearchResult) -> Reason | None:
        """Check the quotas again with the tasks that were placed.

        Where the tasks of a job differ, the search may choose other tasks than those that the quotas were checked with.
        """
        if not self._cycle.pipeline.has_quotas:
            return None
        given = np.zeros(len(self._cycle.view.axis), dtype=np.int64)
        for placement in found.placements:
            given += placement.pod_set.shape.request * len(placement.rows)
        if (given == needs(asked, len(given))).all():
            return None
        with self._cycle.ledger.statement():
            self._cycle.ledger.charge(job, -given)  # these amounts are charged already
            return self._cycle.pipeline.quota_exceeded(job, given)

    def _find(self, job: Job, asked: Demand, *, nominated: bool) -> SearchResult | NoPlace:
        if nominated:
            kept = place_nominated(self._cycle, job, asked)
            if kept is not None:
                return kept
        return _search(self._cycle, job, asked)

    def _place_surplus_beside_reservations(self, job: Job) -> bool:
        """Place the surplus, without anything that is reserved from before the job's end on."""
        if not self._reservations:
            return self._place_surplus(job)
        with self._reservations.respected(job):
            more = self._place_surplus(job)
        blocking = self._reservations.blocking(job) if job.key in self._cycle.report.rejections else None
        if blocking is not None and self._some_surplus_fits(job):
            self._cycle.report.reject(job, Rejection("place", job.key, blocking))
        return more

    def _some_surplus_fits(self, job: Job) -> bool:
        """Whether a task beyond the minimum would have a place if nothing were reserved."""
        with self._cycle.ledger.statement():
            groups = (replace(group, need=self._allowed(job, group)) for group in surplus(self._cycle, job))
            return any(group.need and place_surplus(self._cycle, job, group) for group in groups)

    def _place_surplus(self, job: Job) -> bool:
        """Place the surplus that fits idle resources: all of it, or one task where placing a task moves the shares."""
        if self._plain_pods.place_elastic(job):
            return self._cycle.backlog.some_left(job)
        placements: list[Placement] = []
        left: list[TaskGroup] = []
        for asked in surplus_groups(self._cycle, job):
            placed = self._place_group(job, asked)
            if placed:  # what else there is to place depends on it
                self._decide(job, placed, score=0.0, bound=True)
                return self._cycle.backlog.some_left(job)
            left += asked.task_groups
        for task_group in surplus(self._cycle, job):
            allowed = self._allowed(job, task_group)
            placed = place_surplus(self._cycle, job, replace(task_group, need=allowed)) if allowed else []
            placements += placed
            missing = task_group.need - sum(len(placement.rows) for placement in placed)
            if missing:
                left.append(replace(task_group, need=missing))
            if placed and self._cycle.pipeline.shares_move:
                self._decide(job, placed, score=0.0, bound=True)
                return self._cycle.backlog.some_left(job)
        if placements:
            self._decide(job, placements, score=0.0, bound=True)
        if left:
            self._cycle.report.reject(job, self._surplus_rejection(job, left))
        elif self._cycle.backlog.some_left(job):
            self._cycle.report.reject(job, Rejection("gate", job.key, INCOMPLETE))
        return False

    def _place_group(self, job: Job, asked: Demand) -> list[Placement]:
        """Place an inner group beyond the minimum, if quotas allow all of it now."""
        with self._cycle.ledger.statement():
            self._cycle.ledger.count_leaving()  # surplus starts at once, while terminating pods still hold theirs
            if _quota_reason(self._cycle, job, asked) is not None:
                return []
        return place_surplus_group(self._cycle, job, asked)

    def _allowed(self, job: Job, task_group: TaskGroup) -> int:
        """How many tasks of a task group quotas allow now; at most one where placing a task moves the shares."""
        single = len(task_group.remaining) == 1
        together = _must_be_whole(self._cycle, job, task_group) or bool(
            self._cycle.pipeline.gather_options(job, task_group.need)
        )
        wanted = 1 if single and self._cycle.pipeline.shares_move and not together else task_group.need
        with self._cycle.ledger.statement():
            self._cycle.ledger.count_leaving()  # surplus starts at once, while terminating pods still hold theirs
            if not single:
                over = self._cycle.pipeline.quota_exceeded(
                    job, needs(Demand((task_group,)), len(self._cycle.view.axis))
                )
                return 0 if over is not None else wanted
            allowed = self._cycle.pipeline.headroom(job, task_group.remaining[0].pod_set.shape.request, wanted)
        return 0 if _must_be_whole(self._cycle, job, task_group) and allowed < task_group.need else allowed

    def _surplus_rejection(self, job: Job, left: list[TaskGroup]) -> Rejection:
        first = left[0].remaining[0].pod_set.shape
        with self._cycle.ledger.statement():
            self._cycle.ledger.count_leaving()
            over = self._cycle.pipeline.quota_exceeded(job, first.request)
        if over is not None:
            return Rejection("quota", job.key, over)
        from tierwise.actions.diagnosis.diagnose import diagnose  # slow to import, and not every cycle rejects

        return diagnose(self._cycle, job, Demand(tuple(left)), bounded=self._cut_short)

    def _decide(
        self,
        job: Job,
        placements: Iterable[Placement],
        *,
        score: float,
        bound: bool,
        proposed: Proposal | Abstained | None = None,
    ) -> None:
        commit(self._cycle, job, placements, action="allocate", score=score, bound=bound, proposed=proposed)


def _reservations(cycle: Cycle, rules: ReservationRules) -> Reservations:
    from tierwise.actions.reservations import Reservations  # few profiles reserve, and importing must stay cheap

    return Reservations(cycle, rules, _search)


def _quota_reason(cycle: Cycle, job: Job, asked: Demand) -> Reason | None:
    if not cycle.pipeline.has_quotas:
        return None
    return cycle.pipeline.quota_exceeded(job, needs(asked, len(cycle.view.axis)))


def _search(cycle: Cycle, job: Job, asked: Demand) -> SearchResult | NoPlace:
    """Find a place; for a gathered job as a whole, and if there is none, or a quota forbids that, for its minimum."""
    bounded = False
    for each in whole_first(cycle, job, asked):
        if each is asked or _quota_reason(cycle, job, each) is None:
            found = solve(cycle, job, each)
            if isinstance(found, SearchResult):
                return found
            bounded |= found is NoPlace.BOUNDED
    return NoPlace.of(bounded=bounded)


def _must_be_whole(cycle: Cycle, job: Job, task_group: TaskGroup) -> bool:
    """Whether a task group is a sub-job that must be placed whole."""
    return bool(job.policies) and cycle.pipeline.gangs and not sub_ready(cycle.ledger, task_group.sub)
