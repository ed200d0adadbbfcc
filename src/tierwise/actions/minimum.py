"""The minimum of a gang: it is found a place and bound or nominated there with all of it, or refused with a reason.

What `Minimums.place` does, from its first line to its last:

1. **Known.** A quota that allows none of it, or a refusal that is remembered, is the answer before any search.
2. **Choices.** What the minimum lacks is looked for as it was asked for first. Where quotas allow other tasks alone,
   these are looked for after it, one choice at a time, and each begins on the ledger as it was.
3. **A place.** The nodes that are kept for a nominated gang, the place that was planned with regard to the gangs
   behind it (`batches`), or what a search finds (`placement.surplus.search_minimum`), in this order. A reservation may
   object to it; then it is looked for once more beside what is reserved.
4. **Start.** A place that holds the whole minimum is kept on the ledger and decided on: the gang is bound where all of
   it is idle, else nominated. A plugin may still delay it, and a quota may while terminating pods count in its queue.
5. **Refusal.** Without a place the ledger is as it was, and the gang has a reason: it would have to leave its place to
   gangs that have declined it, or to rules of its sets, or what is missing is found out (`diagnosis`).

Called by `allocate`, which says who is next, and what follows a refusal.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import TYPE_CHECKING

from msgspec.structs import replace

from tierwise.actions.batches import Batches
from tierwise.actions.diagnosis.rejection_cache import RejectionCache
from tierwise.actions.jobs_by_queue import JobsByQueue
from tierwise.actions.placement.commit import commit
from tierwise.actions.placement.demand import Demand, needs, selections
from tierwise.actions.placement.nominated import place_nominated, to_nominate
from tierwise.actions.placement.problem import NoPlace, SearchResult, amounts_of, deferral, held_by, rows_of
from tierwise.actions.placement.solve import search_minimum
from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import Delay
from tierwise.framework.ledger import Pool, Statement, job_ready
from tierwise.framework.report import Term
from tierwise.model.arrays import Ints
from tierwise.model.job import Job, Reason, Rejection

if TYPE_CHECKING:
    from tierwise.actions.reservations import Reservations

__all__ = ["Minimums"]


class Minimums:
    """The minimums of the jobs that one pass of `allocate` serves."""

    def __init__(
        self, cycle: Cycle, jobs: JobsByQueue, reservations: Reservations | None, *, told_at_once: bool
    ) -> None:
        self._cycle = cycle
        self._jobs = jobs
        self._reservations = reservations
        self._batches = Batches(cycle)
        self.refusals = RejectionCache(cycle, told_at_once=told_at_once)
        self.with_surplus: dict[str, Ints] = {}  # by gang, where all of it was planned to be

    def place(self, job: Job, demand: Demand, *, nominated: bool) -> bool | Rejection:
        """Bind or nominate a gang with all that its minimum lacks: whether it has more to place; or why it cannot."""
        begun = self._cycle.steps.taken
        refusal = self._known(job, demand, nominated=nominated)
        if refusal is not None:
            return refusal
        refused: Reason | None = None  # what quotas say of the place that comes first
        with self._cycle.ledger.statement() as statement:
            for choice in self._choices(job, demand):
                is_first_choice = choice is demand
                nominated_place = place_nominated(self._cycle, job, choice) if nominated and is_first_choice else None
                placement = nominated_place or self._beside_reservations(job, choice, statement)
                over = self.over_quota(job, choice, placement) if isinstance(placement, SearchResult) else None
                look_further = (
                    demand.narrowed and isinstance(placement, NoPlace)
                    if is_first_choice
                    else not isinstance(placement, SearchResult)
                )
                if over is None and not look_further:
                    break
                if is_first_choice:
                    refused = over
                statement.rewind()
            else:
                placement = NoPlace.BOUNDED if refused is None else self._quota_rejection(job, refused)
            if isinstance(placement, SearchResult) and job_ready(self._cycle.ledger, job, waiting=True):
                return self._start(job, placement, statement, nominated=nominated)
        if isinstance(placement, Rejection):
            return placement
        kept_reason = self._kept_by_others(job, demand)
        if kept_reason is not None:
            if placement is NoPlace.PROVEN:
                self.refusals.add_kept_place(job, demand, kept_reason)
            return Rejection("place", job.key, kept_reason)
        refusal = self._ruled_out(job, demand) or self._diagnosed(job, demand, bounded=placement is NoPlace.BOUNDED)
        lasts = refusal.bounded and not self._cycle.fit_counts.barred  # until room grows
        if lasts and self._cycle.steps.is_dear(begun):
            self._cycle.refusals.standing.add(job, refusal)
        else:
            self._cycle.refusals.standing.add_passing(job, refusal, begun)
        return refusal

    # Known: quotas and remembered refusals.

    def _known(self, job: Job, demand: Demand, *, nominated: bool) -> Rejection | None:
        """Why a minimum is refused before any search; None where it has to be looked for."""
        over = self.over_quota(job, demand)
        if over is not None:
            return self._quota_rejection(job, over)
        refusal = self.refusals.lookup(job, demand)
        if refusal is not None or nominated:
            return refusal
        kept_reason = self.refusals.kept_place(job, demand)
        if kept_reason is not None:
            return Rejection("place", job.key, kept_reason)
        return None

    def over_quota(self, job: Job, demand: Demand, placement: SearchResult | None = None) -> Reason | None:
        """Why a job's queue may not use what it asks for, or other tasks that the search has found instead."""
        if not self._cycle.pipeline.quota_exceeded:
            return None
        if placement is None:
            return self._cycle.over_quota(job, needs(demand))
        used = amounts_of(self._cycle, placement.placements)
        return None if (used == needs(demand)).all() else self._cycle.over_quota(job, used, placed=True)

    def _quota_rejection(self, job: Job, over: Reason) -> Rejection:
        """Quotas do not allow a job's minimum, in any selection of tasks that was looked at."""
        return Rejection("quota", job.key, over, bounded=self._cycle.report.search_counts.cut_short)

    # Choices, and a place for one.

    def _choices(self, job: Job, demand: Demand) -> Iterator[Demand]:
        """The demands to try in turn: the stated one, then others that quotas allow."""
        yield demand
        yield from self._cycle.first(selections(self._cycle, job, demand), self._cycle.budget.selections)

    def _beside_reservations(
        self, job: Job, demand: Demand, statement: Statement
    ) -> SearchResult | NoPlace | Rejection:
        """A place with which all reservations hold, or why the job has to leave the one that it could have."""
        if self._cycle.refusals.before.jobs and self.refusals.unplaced(job, demand):
            return NoPlace.PROVEN
        placement = self._batches.place(job, self._jobs.served.jobs) or search_minimum(self._cycle, job, demand)
        if not self._reservations or not isinstance(placement, SearchResult):
            return placement
        objection = self._reservations.objection(job, placement)
        if objection is None:
            return placement
        statement.rewind()
        with self._reservations.respected(job):
            placement_without_batch = search_minimum(self._cycle, job, demand)
        if isinstance(placement_without_batch, NoPlace):
            return Rejection("place", job.key, objection)
        return replace(placement_without_batch, terms=(Term.RESERVED, *placement_without_batch.terms))

    # Start: bound, nominated, or delayed.

    def _start(self, job: Job, search_result: SearchResult, statement: Statement, *, nominated: bool) -> bool:
        """Bind a gang that is on the ledger with its minimum, or nominate it; unless a plugin or a quota delays it."""
        delay = deferral(self._cycle, job, search_result.placements)
        if delay is not None:
            self._delay(job, search_result, delay, statement)
            return False
        idle = all(placement.pool is Pool.IDLE for placement in search_result.placements)
        late = None
        if idle and self._cycle.pipeline.quota_exceeded:
            used = amounts_of(self._cycle, search_result.placements)
            late = self._cycle.over_quota(job, used, placed=True, leaving=True)
        if late is not None and not nominated:  # terminating pods still count in its queue
            self._cycle.report.reject(job, Rejection("quota", job.key, late))
            return False
        statement.keep()
        if search_result.with_surplus is not None:
            self.with_surplus[job.key] = search_result.with_surplus
        bound = idle and late is None
        placements = search_result.placements if bound else to_nominate(search_result.placements)
        score = search_result.score
        proposal = search_result.proposed
        terms = search_result.terms
        commit(
            self._cycle, job, placements, action="allocate", score=score, bound=bound, proposed=proposal, terms=terms
        )
        return bound and self._cycle.backlog.some_left(job)

    def _delay(self, job: Job, placement: SearchResult, delay: Delay, statement: Statement) -> None:
        """Let a gang wait for a better place; what it has declined is kept for it, as far as its account allows."""
        cycle = self._cycle
        cycle.report.delay(job, delay)
        statement.rewind()
        self.consider_reserving(job, delay.until)
        if not delay.keeps:
            return
        declined_place = held_by(placement.placements)
        if cycle.idle_room.allows(job, declined_place):
            cycle.declined.keep(job, declined_place, delay)
            statement.keep()
            return
        declined = cycle.report.rejections[job.key]
        refused = Rejection("place", job.key, cycle.idle_room.refusal(job))
        cycle.report.reject(job, replace(declined, children=(*declined.children, refused)))

    def consider_reserving(self, job: Job, next_look: float = inf) -> None:
        """Reserve a place in the future for a job that waits, where the profile reserves."""
        if self._reservations is not None:
            self._reservations.consider(job, self._jobs.queue_of(job), next_look)

    # Refusal: what keeps it from a place, or what is missing for one.

    def _kept_by_others(self, job: Job, demand: Demand) -> Reason | None:
        """Why a job that finds no place must leave one to a gang that has declined it; None if it would have none."""
        if not self._cycle.declined:
            return None
        with self._cycle.ledger.statement():
            self._cycle.declined.open_all()
            placement = search_minimum(self._cycle, job, demand)
        if isinstance(placement, SearchResult):
            return self._cycle.declined.objection(rows_of(placement.placements))
        return None

    def _ruled_out(self, job: Job, demand: Demand) -> Rejection | None:
        """The refusal of a gang that would have a place were it not for a rule of its sets; None where it would not."""
        if self._cycle.fit_counts.closed is None:
            return None
        from tierwise.actions.placement.sets import ruled_out  # few gangs are in sets

        reason = ruled_out(self._cycle, job, demand, search_minimum)
        if reason is not None:
            return Rejection("fit", job.key, reason)
        return None

    def _diagnosed(self, job: Job, demand: Demand, *, bounded: bool) -> Rejection:
        """Why a minimum finds no place, the ledger being as it was; remembered for jobs that ask for the same."""
        from tierwise.actions.diagnosis.diagnose import diagnose  # slow to import, and not every cycle rejects

        rejection = diagnose(self._cycle, job, demand, bounded=bounded or self._cycle.report.search_counts.cut_short)
        self.refusals.add(job, demand, rejection)
        if not rejection.bounded:
            self.refusals.add_unplaced(job, demand)
        return rejection
