"""allocate: place pending jobs, one queue and one job at a time; the gang's minimum first, its surplus afterwards.

What happens to a gang:

1. **Order.** It waits in its queue until that is the first of all queues, and the gang the first job of it
   (`jobs_by_queue`). Plain pods that need no search are placed together when it is their turn (`plain_pods`).
2. **Minimum.** What its minimum lacks (`demand`) is searched for as a whole, within the quotas of its queue and beside
   the reservations of other jobs: `minimum` says how, step by step. If all of it fits idle resources the gang is
   bound. If some of it fits only resources that are still being released, the whole gang is nominated, and its
   resources stay reserved for it.
3. **Refusal.** If the minimum finds no place, the ledger is left unchanged, and the gang is rejected with a reason.
   Then room may be made for it, or a place in the future reserved.
4. **Surplus.** A gang that has its minimum goes back into its queue. When it is served again, as many of its other
   tasks are bound as fit idle resources.

Called by `scheduler.cycle`. It evicts nothing itself: where the profile preempts immediately, as kube-scheduler does,
the caller passes `preempt`, which is called for each rejected job before the next job is served. Otherwise a less
important job could take resources that the preemptor needs beside those of its victims.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from tierwise.actions.enqueue import incomplete
from tierwise.actions.jobs_by_queue import JobsByQueue
from tierwise.actions.minimum import Minimums
from tierwise.actions.placement.commit import commit
from tierwise.actions.placement.demand import (
    Demand,
    TaskGroup,
    demand,
    least_needs,
    surplus,
    surplus_groups,
)
from tierwise.actions.placement.problem import Placement
from tierwise.actions.placement.surplus import place_allowed_surplus, place_surplus_group
from tierwise.actions.plain_pods import PlainPods
from tierwise.framework.cycle import Cycle
from tierwise.framework.steps import CUT_SHORT, waits_for_steps
from tierwise.model.job import Job, Reason, Rejection, Verdict

if TYPE_CHECKING:
    from tierwise.actions.reservations import Reservations
    from tierwise.config.reservations import ReservationRules

__all__ = ["Preempt", "Repair", "allocate"]

Preempt = Callable[[Job], None]
"""Evicts victims for a rejected job, or adds to its rejection why it does not."""

_HELD_BACK = Reason("NotEnoughPods", "gang", "too few of its pods can be placed now: the others are gated or missing")


class Repair(Protocol):
    """Makes room for a rejected job that has lost nodes."""

    def make_room(self, job: Job) -> bool:
        """Whether room was made for a job that was refused; a gang to repair is told why not."""


def allocate(
    cycle: Cycle,
    *,
    preempt: Preempt | None = None,
    repair: Repair | None = None,
    reservations: ReservationRules | None = None,
) -> None:
    """Place the pending tasks of all jobs that have left phase Pending.

    The first job of the first queue is served until no jobs wait; a job that has more to place goes back.
    """
    reserved = None
    cycle.reserved.clear()  # what an earlier allocate of this cycle has reserved is decided again
    if reservations is not None:
        from tierwise.actions.reservations import Reservations  # few profiles reserve, and importing must stay cheap

        reserved = Reservations(cycle, reservations)
    work = _Allocation(cycle, preempt, repair, reserved)
    work.jobs.admit(cycle.snapshot.waiting)
    for queue in work.jobs.queues():
        for job in work.plain_pods.serve(queue):
            if work.serve(job):
                work.jobs.put_back(job)
    work.tell()


class _Allocation:
    """One pass over the jobs that wait. What serves a job returns whether the job goes back into its queue."""

    def __init__(
        self, cycle: Cycle, preempt: Preempt | None, repair: Repair | None, reservations: Reservations | None
    ) -> None:
        self._cycle = cycle
        self._reservations = reservations
        self._preempt = preempt
        self._repair = repair
        self.jobs = JobsByQueue(cycle)
        self.plain_pods = PlainPods(cycle, self.jobs, reservations, preempts=preempt is not None)

    @cached_property
    def minimums(self) -> Minimums:
        """What places minimums; a pass in which all are plain pods needs none."""
        return Minimums(self._cycle, self.jobs, self._reservations, told_at_once=self._preempt is not None)

    def tell(self) -> None:
        """Tell what is known once all jobs were served."""
        if "minimums" in self.__dict__:
            self.minimums.refusals.tell()
        if self._reservations is not None:
            self._reservations.tell()

    def serve(self, job: Job) -> bool:
        """Serve a job. If a plugin fails, the job is rejected and the other jobs are still served."""
        with self._reservations.charging(job) if self._reservations is not None else nullcontext():
            serve_again = self._cycle.attempt(job, self._place)
        if isinstance(serve_again, Reason):
            self._cycle.report.reject(job, self._undecided(job, serve_again))
            return False
        return serve_again

    def _undecided(self, job: Job, reason: Reason) -> Rejection:
        """The rejection of a job that a plugin failed on, or whose search ended with the account of steps.

        A refusal of this cycle stays: then only making room, or reserving a place, was cut short.
        """
        if not waits_for_steps(reason):
            return Rejection("gate", job.key, reason)
        cut = reason.code == CUT_SHORT
        rejection, earlier_refusal = (
            Rejection("steps", job.key, reason, bounded=cut),
            self._cycle.report.rejections.get(job.key),
        )
        if earlier_refusal is not None:
            rejection = replace(earlier_refusal, children=(*earlier_refusal.children, rejection))
        if cut:
            self._cycle.refusals.standing.add(job, rejection)
        return rejection

    def _place(self, job: Job) -> bool:
        """Place what a job's minimum lacks, or surplus if it lacks nothing."""
        self._cycle.show(job, replaces=self._preempt is not None)
        nominated = self._cycle.nominations.holds(job)
        remembered_refusal = self._cycle.refusals.standing.get(job) if not nominated else None
        if remembered_refusal is not None:
            if any(CUT_SHORT in child.codes() for child in remembered_refusal.children):  # so was making room for it
                self._cycle.report.reject(job, remembered_refusal)
                return False
            return self._refuse(job, remembered_refusal)
        if not nominated and not self._cycle.pipeline.quota_exceeded and self._cycle.pipeline.gangs:
            cached = self._fits_nowhere(job) or self.minimums.refusals.lookup_early(job)
            if cached is not None:
                return self._refuse(job, cached)
        job_demand = demand(self._cycle, job)
        self._cycle.nominations.release(job)
        if not job_demand.enough:
            self._cycle.report.reject(job, Rejection("gate", job.key, _HELD_BACK))
            return False
        never = self._cycle.pipeline.ruled_out(job, least_needs(job_demand)) if job_demand.task_groups else None
        if never is not None:
            verdict = Verdict.NOT_ALLOWED if never.code == "PluginFailed" else Verdict.NEVER
            self._cycle.report.reject(job, Rejection("gate", job.key, never, verdict=verdict))
            return False
        joint = self._cycle.sets.joint(job) if job_demand.task_groups and self._cycle.sets is not None else []
        if joint:
            from tierwise.actions.together import Together  # few gangs are in sets

            return Together(self._cycle, self.minimums, self._reservations).start(job, joint)
        if job_demand.task_groups:
            placed = self.minimums.place(job, job_demand, nominated=nominated)
            return self._refuse(job, placed) if isinstance(placed, Rejection) else placed
        return self._place_surplus_beside_reservations(job)

    def _fits_nowhere(self, job: Job) -> Rejection | None:
        """The refusal of a job that fits on no empty node, as the last cycle has found; None where that is not known.

        What follows a refusal, as evictions and reservations, looks at it more closely than the last cycle may have.
        """
        if self._preempt is not None or self._repair is not None or self._reservations is not None:
            return None
        return self._cycle.refusals.nowhere(job, releasing=self._cycle.ledger.any_releasing)

    # The refusal: a reason, then room that is made at once, or a reservation.

    def _refuse(self, job: Job, rejection: Rejection) -> bool:
        """Reject a job's minimum; then preempt for it where the profile does so immediately, else reserve a place.

        No pod is evicted for a job that has to leave its place to reservations.
        """
        self._cycle.report.reject(job, rejection)
        serve_again = self._make_room(job) if rejection.stage != "place" else False
        if not serve_again and job.key in self._cycle.report.rejections:
            self.minimums.consider_reserving(job)
        return serve_again

    def _make_room(self, job: Job) -> bool:
        """Evict for a rejected job, unless it fits where less important jobs are nominated."""
        if self._repair is not None:
            with self._beside_reservations(job):
                if self._repair.make_room(job):
                    return False
        if self._preempt is None:
            return False
        serve_again = self._replace_nominated(job)
        if serve_again is None:
            with self._beside_reservations(job):
                self._preempt(job)
        return serve_again or False

    def _beside_reservations(self, job: Job) -> AbstractContextManager[None]:
        """Placements inside leave free everything that is reserved from before the job's end on."""
        return self._reservations.respected(job) if self._reservations is not None else nullcontext()

    def _replace_nominated(self, job: Job) -> bool | None:
        """Place a job on resources that are reserved for less important nominated jobs; tried before any eviction.

        In Kubernetes a nominated pod holds its node only against pods of the same or a lower priority. Returns None if
        the job does not fit there either.
        """
        cycle, decisions_before = self._cycle, len(self._cycle.report.decisions)
        with cycle.ledger.statement() as statement:
            if not cycle.nominations.withdraw_below(job):
                return None
            outcome = self.minimums.place(job, demand(cycle, job), nominated=False)
            if not isinstance(outcome, Rejection) and len(cycle.report.decisions) > decisions_before:
                statement.keep()
                return outcome
        return None

    # The surplus: tasks beyond the minimum, from idle resources alone.

    def _place_surplus_beside_reservations(self, job: Job) -> bool:
        """Place the surplus, without anything that is reserved from before the job's end on."""
        with self._beside_reservations(job):
            serve_again = self._place_surplus(job)
        if self._reservations is not None and job.key in self._cycle.report.rejections:
            blocking = self._reservations.blocking(job)
            if blocking is not None and self._some_surplus_fits(job):
                self._cycle.report.reject(job, Rejection("place", job.key, blocking))
        return serve_again

    def _place_surplus(self, job: Job) -> bool:
        """Bind the surplus that fits: all of it, or what goes first where placing a task moves the shares."""
        cycle = self._cycle
        if job.shape.wishes.sizes:
            return self._place_next_size(job)
        if self.plain_pods.place_free_surplus(job):
            return cycle.backlog.some_left(job)
        unplaced: list[TaskGroup] = []
        for group_demand in surplus_groups(cycle, job):
            placed = place_surplus_group(cycle, job, group_demand)
            if placed:  # what else there is to place depends on it
                return self._bind_surplus(job, placed)
            unplaced += group_demand.task_groups
        placements: list[Placement] = []
        for task_group in surplus(cycle, job):
            placed = place_allowed_surplus(cycle, job, task_group, self.minimums.with_surplus.get(job.key))
            if placed and cycle.pipeline.queue_order:
                return self._bind_surplus(job, placed)
            placements += placed
            missing = task_group.need - sum(len(placement.rows) for placement in placed)
            if missing:
                unplaced.append(replace(task_group, need=missing))
        if placements:
            self._bind_surplus(job, placements)
        if unplaced:
            cycle.report.reject(job, self._surplus_rejection(job, unplaced))
        elif cycle.backlog.some_left(job):
            cycle.report.reject(job, Rejection("gate", job.key, incomplete(job)))
        return False

    def _place_next_size(self, job: Job) -> bool:
        """Bind what brings a gang of listed sizes to a larger one."""
        from tierwise.actions.placement.next_size import between_sizes, place_next_size  # few gangs list their sizes

        placed = place_next_size(self._cycle, job)
        if placed:
            return self._bind_surplus(job, placed)
        if self._cycle.backlog.some_left(job):
            reason = between_sizes(self._cycle, job)
            self._cycle.report.reject(job, Rejection("fit", job.key, reason))
        return False

    def _bind_surplus(self, job: Job, placements: list[Placement]) -> bool:
        commit(self._cycle, job, placements, action="allocate", score=0.0, bound=True)
        return self._cycle.backlog.some_left(job)

    def _some_surplus_fits(self, job: Job) -> bool:
        """Whether a task beyond the minimum would have a place if nothing were reserved."""
        with self._cycle.ledger.statement():
            return any(place_allowed_surplus(self._cycle, job, group) for group in surplus(self._cycle, job))

    def _surplus_rejection(self, job: Job, unplaced: list[TaskGroup]) -> Rejection:
        over = self._cycle.over_quota(job, unplaced[0].remaining[0].pod_set.shape.request, leaving=True)
        if over is not None:
            return Rejection("quota", job.key, over)
        from tierwise.actions.diagnosis.diagnose import diagnose  # slow to import, and not every cycle rejects

        return diagnose(self._cycle, job, Demand(tuple(unplaced)), bounded=self._cycle.report.search_counts.cut_short)
