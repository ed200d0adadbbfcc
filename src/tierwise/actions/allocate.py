"""allocate: place pending jobs, one queue and one job at a time; the gang's minimum first, its surplus afterwards.

What happens to a gang:

1. **Order.** It waits in its queue until that is the first of all queues, and the gang the first job of it
   (`jobs_by_queue`). Plain pods that need no search are placed together when it is their turn (`plain_pods`).
2. **Minimum.** What its minimum lacks (`demand`) is searched for as a whole, within the quotas of its queue and beside
   the reservations of other jobs. A nominated gang is first tried on its nominated nodes. If all of it fits idle
   resources the gang is bound. If some of it fits only resources that are still being released, the whole gang is
   nominated, and its resources stay reserved for it.
3. **Refusal.** If the minimum finds no place, the ledger is left unchanged, and the gang is rejected with a reason.
   Then room may be made for it, or a place in the future reserved.
4. **Surplus.** A gang that has its minimum goes back into its queue. When it is served again, as many of its other
   tasks are bound as fit idle resources.

Called by `scheduler.cycle`. It evicts nothing itself: where the profile preempts immediately, as kube-scheduler does,
the caller passes `preempt`, which is called for each rejected job before the next job is served. Otherwise a less
important job could take resources that the preemptor needs beside those of its victims.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from itertools import islice, permutations
from math import inf
from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from tierwise.actions.batches import Batches
from tierwise.actions.diagnosis.rejection_cache import RejectionCache
from tierwise.actions.enqueue import INCOMPLETE, admission_reason
from tierwise.actions.jobs_by_queue import JobsByQueue
from tierwise.actions.placement.commit import commit
from tierwise.actions.placement.demand import (
    Demand,
    TaskGroup,
    demand,
    least_needs,
    needs,
    selections,
    surplus,
    surplus_groups,
)
from tierwise.actions.placement.nominated import place_nominated, to_nominate
from tierwise.actions.placement.problem import NoPlace, Placement, SearchResult, amounts_of, deferral, held_by, rows_of
from tierwise.actions.placement.surplus import place_allowed_surplus, place_surplus_group, search_minimum
from tierwise.actions.plain_pods import PlainPods
from tierwise.framework.cycle import Cycle
from tierwise.framework.declined import Held
from tierwise.framework.extension import Delay
from tierwise.framework.ledger import Pool, Statement, job_ready
from tierwise.framework.report import Term
from tierwise.framework.steps import CUT_SHORT, waits_for_steps
from tierwise.model.arrays import Ints
from tierwise.model.job import Job, Reason, Rejection, Verdict

if TYPE_CHECKING:
    from tierwise.actions.reservations import Reservations
    from tierwise.config.reservations import ReservationRules

__all__ = ["Preempt", "Repair", "allocate"]

Preempt = Callable[[Job], None]
"""Evicts victims for a rejected job, or adds to its rejection why it does not."""

_ORDERS = 6
"""Orders in which gangs that start together are placed, until all of them have a place."""

_HELD_BACK = Reason("NotEnoughPods", "gang", "too few of its pods can be placed now: others are gated or missing")


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
    """Place the pending tasks of all jobs that have left phase Pending."""
    reserved = None
    cycle.reserved.clear()  # what an earlier allocate of this cycle has reserved is decided again
    if reservations is not None:
        from tierwise.actions.reservations import Reservations  # few profiles reserve, and importing must stay cheap

        reserved = Reservations(cycle, reservations)
    _Allocation(cycle, preempt, repair, reserved).run()


class _Allocation:
    """One pass over the jobs that wait. What serves a job returns whether the job goes back into its queue."""

    def __init__(
        self, cycle: Cycle, preempt: Preempt | None, repair: Repair | None, reservations: Reservations | None
    ) -> None:
        self._cycle = cycle
        self._reservations = reservations
        self._preempt = preempt
        self._repair = repair
        self._rejection_cache = RejectionCache(cycle, told_at_once=preempt is not None)
        self._jobs = JobsByQueue(cycle)
        self._batches = Batches(cycle)
        self._plain_pods = PlainPods(cycle, self._jobs, reservations, preempts=preempt is not None)
        self._with_surplus: dict[str, Ints] = {}  # by gang, where all of it was planned to be
        self._cut = 0  # searches that were cut short before the job that is served

    def run(self) -> None:
        """Serve the first job of the first queue until no jobs wait; a job that has more to place goes back."""
        self._jobs.admit(self._cycle.snapshot.waiting)
        for queue in self._jobs.queues():
            for job in self._plain_pods.serve(queue):
                if self._serve(job):
                    self._jobs.put_back(job)
        self._rejection_cache.tell()
        if self._reservations is not None:
            self._reservations.tell()

    def _serve(self, job: Job) -> bool:
        """Serve a job. If a plugin fails, the job is rejected and the other jobs are still served."""
        with self._reservations.charging(job) if self._reservations is not None else nullcontext():
            more = self._cycle.attempt(job, self._place)
        if isinstance(more, Reason):
            self._cycle.report.reject(job, self._undecided(job, more))
            return False
        return more

    def _undecided(self, job: Job, reason: Reason) -> Rejection:
        """The rejection of a job that a plugin failed on, or whose search ended with the account of steps.

        A refusal of this cycle stays: then only making room, or reserving a place, was cut short.
        """
        if not waits_for_steps(reason):
            return Rejection("gate", job.key, reason)
        cut = reason.code == CUT_SHORT
        rejection, known = Rejection("steps", job.key, reason, bounded=cut), self._cycle.report.rejections.get(job.key)
        if known is not None:
            rejection = replace(known, children=(*known.children, rejection))
        if cut:
            self._cycle.steps.keep(job, rejection)
        return rejection

    def _place(self, job: Job) -> bool:
        """Place what a job's minimum lacks, or surplus if it lacks nothing."""
        self._cut = self._cycle.report.search_counts.cut
        self._cycle.show(job, replaces=self._preempt is not None)
        nominated = self._cycle.nominations.holds(job)
        standing = self._cycle.steps.standing(job) if not nominated else None
        if standing is not None:
            if any(CUT_SHORT in child.codes() for child in standing.children):  # so was making room for it
                self._cycle.report.reject(job, standing)
                return False
            return self._refuse(job, standing)
        if not nominated and not self._cycle.pipeline.quota_exceeded and self._cycle.pipeline.gangs:
            cached = self._fits_nowhere(job) or self._rejection_cache.lookup_early(job)
            if cached is not None:
                return self._refuse(job, cached)
        asked = demand(self._cycle, job)
        self._cycle.nominations.release(job)
        if not asked.enough:
            self._cycle.report.reject(job, Rejection("gate", job.key, _HELD_BACK))
            return False
        never = self._cycle.pipeline.ruled_out(job, least_needs(asked)) if asked.task_groups else None
        if never is not None:
            verdict = Verdict.NOT_ALLOWED if never.code == "PluginFailed" else Verdict.NEVER
            self._cycle.report.reject(job, Rejection("gate", job.key, never, verdict=verdict))
            return False
        joint = self._cycle.sets.joint(job) if asked.task_groups and self._cycle.sets is not None else []
        if joint:
            return self._start_together(job, joint)
        if asked.task_groups:
            started = self._start_minimum(job, asked, nominated=nominated)
            return self._refuse(job, started) if isinstance(started, Rejection) else started
        return self._place_surplus_beside_reservations(job)

    def _fits_nowhere(self, job: Job) -> Rejection | None:
        """The refusal of a job that fits on no empty node, as the last cycle has found; None where that is not known.

        What follows a refusal, as evictions and reservations, looks at it more closely than the last cycle may have.
        """
        if self._preempt is not None or self._repair is not None or self._reservations is not None:
            return None
        return self._cycle.kept.nowhere(job, releasing=self._cycle.ledger.any_releasing)

    # The minimum: found within quotas and beside reservations, then bound or nominated.

    def _start_minimum(self, job: Job, asked: Demand, *, nominated: bool) -> bool | Rejection:
        """Bind or nominate a gang with all that its minimum lacks: whether it has more to place; or why it cannot."""
        begun = self._cycle.steps.taken
        over = self._over_quota(job, asked)
        known = self._rejection_cache.lookup(job, asked) if over is None else self._quota_rejection(job, over)
        if known is not None:
            return known
        kept = self._rejection_cache.kept_place(job, asked) if not nominated else None
        if kept is not None:
            return Rejection("place", job.key, kept)
        with self._cycle.ledger.statement() as statement:
            found = self._find_within_quotas(job, asked, statement, nominated=nominated)
            if isinstance(found, SearchResult) and job_ready(self._cycle.ledger, job, waiting=True):
                return self._start(job, found, statement, nominated=nominated)
        if isinstance(found, Rejection):
            return found
        kept = self._kept_by_others(job, asked)
        if kept is not None:
            if found is NoPlace.PROVEN:
                self._rejection_cache.add_kept_place(job, asked, kept)
            return Rejection("place", job.key, kept)
        ruled = self._ruled_out(job, asked)
        refusal = ruled or self._diagnose(job, asked, bounded=found is NoPlace.BOUNDED)
        if refusal.bounded and self._cycle.steps.is_dear(begun):
            self._cycle.steps.keep(job, refusal)
        else:
            self._cycle.steps.looked_at(job, refusal, begun)
        return refusal

    def _ruled_out(self, job: Job, asked: Demand) -> Rejection | None:
        """The refusal of a gang that would have a place were it not for a rule of its sets; None where it would not."""
        if self._cycle.fit_counts.closed is None:
            return None
        from tierwise.actions.placement.sets import ruled_out  # few gangs are in sets

        reason = ruled_out(self._cycle, job, asked, search_minimum)
        return Rejection("fit", job.key, reason) if reason is not None else None

    def _kept_by_others(self, job: Job, asked: Demand) -> Reason | None:
        """Why a job that finds no place must leave one to a gang that has declined it; None if it would have none."""
        if not self._cycle.declined:
            return None
        with self._cycle.ledger.statement():
            self._cycle.declined.open_all()
            found = search_minimum(self._cycle, job, asked)
        return self._cycle.declined.objection(rows_of(found.placements)) if isinstance(found, SearchResult) else None

    def _find_within_quotas(
        self, job: Job, asked: Demand, statement: Statement, *, nominated: bool
    ) -> SearchResult | NoPlace | Rejection:
        """A place on the ledger for the minimum, if need be of other tasks than those that come first.

        `NoPlace` where nothing has room; a rejection where what has room must leave it to reservations, or is more than
        quotas allow. Where no place is found, the caller rewinds.
        """
        cycle = self._cycle
        standing = place_nominated(cycle, job, asked) if nominated else None
        found = standing or self._find_beside_reservations(job, asked, statement)
        over = self._over_quota(job, asked, found) if isinstance(found, SearchResult) else None
        if over is None and not (isinstance(found, NoPlace) and asked.narrowed):
            return found
        statement.rewind()
        for others in cycle.first(selections(cycle, job, asked), cycle.budget.selections):
            other = self._find_beside_reservations(job, others, statement)
            if isinstance(other, SearchResult) and self._over_quota(job, others, other) is None:
                return other
            statement.rewind()
        return NoPlace.BOUNDED if over is None else self._quota_rejection(job, over)

    # Sets that start together: all of them on idle room with the last of them, or none.

    def _start_together(self, job: Job, gangs: list[Job]) -> bool:
        """Bind all gangs of a set, once the last of them is served; returns whether that one has more to place."""
        name = job.member.set.partition("/")[2] if job.member is not None else ""
        if job is not gangs[-1]:
            last = gangs[-1].key.partition("/")[2]
            self._wait_together(job, f"set {name} starts together: it is placed with {last}")
            return False
        why = ""
        for order in islice(permutations(sorted(gangs, key=lambda gang: -gang.minimum)), _ORDERS):
            with self._cycle.ledger.statement() as statement:
                found = self._all_beside(order)
                if isinstance(found, list):
                    statement.keep()
                    for gang, place in found:
                        self._bind(gang, place)
                    return self._cycle.backlog.some_left(job)
            why = why or found
        self._wait_together(job, f"set {name} starts together, and {why}")
        return False

    def _all_beside(self, gangs: Sequence[Job]) -> list[tuple[Job, SearchResult]] | str:
        """A place for each of some gangs on idle room, one after the other; why one has none."""
        found: list[tuple[Job, SearchResult]] = []
        with ExitStack() as standing:
            for gang in gangs:
                place = self._place_beside(gang, standing)
                if isinstance(place, str):
                    return f"{gang.key.partition('/')[2]} {place}"
                found.append((gang, place))
        return found

    def _bind(self, gang: Job, found: SearchResult) -> None:
        """Decide on a gang that is on the ledger, on idle room."""
        said, terms = found.proposed, found.terms
        commit(
            self._cycle,
            gang,
            found.placements,
            action="allocate",
            score=found.score,
            bound=True,
            proposed=said,
            terms=terms,
        )

    def _place_beside(self, gang: Job, standing: ExitStack) -> SearchResult | str:
        """A place for a gang of a set beside those that are on the ledger already, on idle room; why there is none."""
        cycle = self._cycle
        cycle.nominations.release(gang)
        asked = demand(cycle, gang)
        refused = admission_reason(cycle, gang)
        if refused is not None or not asked.enough or not asked.task_groups:
            return f"must not start: {refused.text}" if refused is not None else "has too few pods that can be placed"
        over = self._over_quota(gang, asked)
        if over is not None:
            return f"must not start: {over.text}"
        with cycle.serving(gang):
            found = search_minimum(cycle, gang, asked)
        if isinstance(found, NoPlace) or not job_ready(cycle.ledger, gang):
            return "has no place beside the others"
        delay = deferral(cycle, gang, found.placements)
        if delay is not None:
            return f"waits: {delay.reason.text}"
        objection = self._reservations.objection(gang, found) if self._reservations else None
        if objection is not None:
            return f"waits: {objection.text}"
        if cycle.sets is not None:
            standing.enter_context(cycle.sets.standing_there(gang, [placement.rows for placement in found.placements]))
        return found

    def _wait_together(self, job: Job, text: str) -> None:
        """Refuse a gang of a set that starts together: nobody is evicted for one, and no room is kept."""
        self._cycle.report.reject(job, Rejection("place", job.key, Reason("SetWaits", "sets", text)))

    def _over_quota(self, job: Job, asked: Demand, found: SearchResult | None = None) -> Reason | None:
        """Why a job's queue may not use what it asks for, or other tasks that the search has found instead."""
        if not self._cycle.pipeline.quota_exceeded:
            return None
        if found is None:
            return self._cycle.over_quota(job, needs(asked))
        used = amounts_of(self._cycle, found.placements)
        return None if (used == needs(asked)).all() else self._cycle.over_quota(job, used, placed=True)

    def _find_beside_reservations(
        self, job: Job, asked: Demand, statement: Statement
    ) -> SearchResult | NoPlace | Rejection:
        """A place with which all reservations hold, or why the job has to leave the one that it could have."""
        found = self._batches.place(job, self._jobs.served.jobs) or search_minimum(self._cycle, job, asked)
        if not self._reservations or not isinstance(found, SearchResult):
            return found
        objection = self._reservations.objection(job, found)
        if objection is None:
            return found
        statement.rewind()
        with self._reservations.respected(job):
            other = search_minimum(self._cycle, job, asked)
        if isinstance(other, NoPlace):
            return Rejection("place", job.key, objection)
        return replace(other, terms=(Term.RESERVED, *other.terms))

    def _start(self, job: Job, found: SearchResult, statement: Statement, *, nominated: bool) -> bool:
        """Bind a gang that is on the ledger with its minimum, or nominate it; unless a plugin or a quota delays it."""
        delay = deferral(self._cycle, job, found.placements)
        if delay is not None:
            self._cycle.report.delay(job, delay)
            statement.rewind()
            self._consider_reserving(job, delay.until)
            if delay.keeps:
                self._keep_declined(job, held_by(found.placements), delay, statement)
            return False
        idle = all(placement.pool is Pool.IDLE for placement in found.placements)
        late = None
        if idle and self._cycle.pipeline.quota_exceeded:
            used = amounts_of(self._cycle, found.placements)
            late = self._cycle.over_quota(job, used, placed=True, leaving=True)
        if late is not None and not nominated:  # terminating pods still count in its queue
            self._cycle.report.reject(job, Rejection("quota", job.key, late))
            return False
        statement.keep()
        if found.with_surplus is not None:
            self._with_surplus[job.key] = found.with_surplus
        bound = idle and late is None
        placements = found.placements if bound else to_nominate(found.placements)
        score, said, terms = found.score, found.proposed, found.terms
        commit(self._cycle, job, placements, action="allocate", score=score, bound=bound, proposed=said, terms=terms)
        return bound and self._cycle.backlog.some_left(job)

    def _keep_declined(self, job: Job, held: Held, delay: Delay, statement: Statement) -> None:
        """Keep the place that a gang has declined, as far as its account allows."""
        cycle = self._cycle
        if cycle.idle_room.allows(job, held):
            cycle.declined.keep(job, held, delay)
            statement.keep()
            return
        declined = cycle.report.rejections[job.key]
        refused = Rejection("place", job.key, cycle.idle_room.refusal(job))
        cycle.report.reject(job, replace(declined, children=(*declined.children, refused)))

    # The refusal: a reason, then room that is made at once, or a reservation.

    def _refuse(self, job: Job, rejection: Rejection) -> bool:
        """Reject a job's minimum; then preempt for it where the profile does so immediately, else reserve a place.

        No pod is evicted for a job that has to leave its place to reservations.
        """
        self._cycle.report.reject(job, rejection)
        more = self._make_room(job) if rejection.stage != "place" else False
        if not more and job.key in self._cycle.report.rejections:
            self._consider_reserving(job)
        return more

    def _make_room(self, job: Job) -> bool:
        """Evict for a rejected job, unless it fits where less important jobs are nominated."""
        if self._repair is not None:
            with self._beside_reservations(job):
                if self._repair.make_room(job):
                    return False
        if self._preempt is None:
            return False
        more = self._replace_nominated(job)
        if more is None:
            with self._beside_reservations(job):
                self._preempt(job)
        return more or False

    def _beside_reservations(self, job: Job) -> AbstractContextManager[None]:
        """What is placed inside leaves alone all that is reserved from before the job's end on."""
        return self._reservations.respected(job) if self._reservations is not None else nullcontext()

    def _replace_nominated(self, job: Job) -> bool | None:
        """Place a job on resources that are reserved for less important nominated jobs; tried before any eviction.

        In Kubernetes a nominated pod holds its node only against pods of the same or a lower priority. Returns None if
        the job does not fit there either.
        """
        cycle, made = self._cycle, len(self._cycle.report.decisions)
        with cycle.ledger.statement() as statement:
            if not cycle.nominations.withdraw_below(job):
                return None
            more = self._start_minimum(job, demand(cycle, job), nominated=False)
            if not isinstance(more, Rejection) and len(cycle.report.decisions) > made:
                statement.keep()
                return more
        return None

    def _consider_reserving(self, job: Job, again: float = inf) -> None:
        if self._reservations is not None:
            self._reservations.consider(job, self._jobs.queue_of(job), again)

    def _quota_rejection(self, job: Job, over: Reason) -> Rejection:
        """Quotas do not allow a job's minimum, in any selection of tasks that was looked at."""
        return Rejection("quota", job.key, over, bounded=self._cut_short)

    def _diagnose(self, job: Job, asked: Demand, *, bounded: bool) -> Rejection:
        """Why a job's minimum finds no place; remembered for jobs that ask for the same."""
        from tierwise.actions.diagnosis.diagnose import diagnose  # slow to import, and not every cycle rejects

        rejection = diagnose(self._cycle, job, asked, bounded=bounded or self._cut_short)
        self._rejection_cache.add(job, asked, rejection)
        return rejection

    @property
    def _cut_short(self) -> bool:
        """Whether a search for the job that is served was cut short."""
        return self._cycle.report.search_counts.cut > self._cut

    # The surplus: tasks beyond the minimum, from idle resources alone.

    def _place_surplus_beside_reservations(self, job: Job) -> bool:
        """Place the surplus, without anything that is reserved from before the job's end on."""
        with self._beside_reservations(job):
            more = self._place_surplus(job)
        if self._reservations is not None and job.key in self._cycle.report.rejections:
            blocking = self._reservations.blocking(job)
            if blocking is not None and self._some_surplus_fits(job):
                self._cycle.report.reject(job, Rejection("place", job.key, blocking))
        return more

    def _place_surplus(self, job: Job) -> bool:
        """Bind the surplus that fits: all of it, or what goes first where placing a task moves the shares."""
        cycle = self._cycle
        if self._plain_pods.place_free_surplus(job):
            return cycle.backlog.some_left(job)
        left: list[TaskGroup] = []
        for asked in surplus_groups(cycle, job):
            placed = place_surplus_group(cycle, job, asked)
            if placed:  # what else there is to place depends on it
                return self._bind_surplus(job, placed)
            left += asked.task_groups
        placements: list[Placement] = []
        for task_group in surplus(cycle, job):
            placed = place_allowed_surplus(cycle, job, task_group, self._with_surplus.get(job.key))
            if placed and cycle.pipeline.queue_order:
                return self._bind_surplus(job, placed)
            placements += placed
            missing = task_group.need - sum(len(placement.rows) for placement in placed)
            if missing:
                left.append(replace(task_group, need=missing))
        if placements:
            self._bind_surplus(job, placements)
        if left:
            cycle.report.reject(job, self._surplus_rejection(job, left))
        elif cycle.backlog.some_left(job):
            cycle.report.reject(job, Rejection("gate", job.key, INCOMPLETE))
        return False

    def _bind_surplus(self, job: Job, placements: list[Placement]) -> bool:
        commit(self._cycle, job, placements, action="allocate", score=0.0, bound=True)
        return self._cycle.backlog.some_left(job)

    def _some_surplus_fits(self, job: Job) -> bool:
        """Whether a task beyond the minimum would have a place if nothing were reserved."""
        with self._cycle.ledger.statement():
            return any(place_allowed_surplus(self._cycle, job, group) for group in surplus(self._cycle, job))

    def _surplus_rejection(self, job: Job, left: list[TaskGroup]) -> Rejection:
        over = self._cycle.over_quota(job, left[0].remaining[0].pod_set.shape.request, leaving=True)
        if over is not None:
            return Rejection("quota", job.key, over)
        from tierwise.actions.diagnosis.diagnose import diagnose  # slow to import, and not every cycle rejects

        return diagnose(self._cycle, job, Demand(tuple(left)), bounded=self._cut_short)
