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

    def place(self, job: Job, asked: Demand, *, nominated: bool) -> bool | Rejection:
        """Bind or nominate a gang with all that its minimum lacks: whether it has more to place; or why it cannot."""
        begun = self._cycle.steps.taken
        refusal = self._known(job, asked, nominated=nominated)
        if refusal is not None:
            return refusal
        refused: Reason | None = None  # what quotas say of the place that comes first
        with self._cycle.ledger.statement() as statement:
            for wanted in self._choices(job, asked):
                first = wanted is asked
                standing = place_nominated(self._cycle, job, wanted) if nominated and first else None
                found = standing or self._beside_reservations(job, wanted, statement)
                over = self.over_quota(job, wanted, found) if isinstance(found, SearchResult) else None
                others = asked.narrowed and isinstance(found, NoPlace) if first else not isinstance(found, SearchResult)
                if over is None and not others:
                    break
                if first:
                    refused = over
                statement.rewind()
            else:
                found = NoPlace.BOUNDED if refused is None else self._quota_rejection(job, refused)
            if isinstance(found, SearchResult) and job_ready(self._cycle.ledger, job, waiting=True):
                return self._start(job, found, statement, nominated=nominated)
        if isinstance(found, Rejection):
            return found
        kept = self._kept_by_others(job, asked)
        if kept is not None:
            if found is NoPlace.PROVEN:
                self.refusals.add_kept_place(job, asked, kept)
            return Rejection("place", job.key, kept)
        refusal = self._ruled_out(job, asked) or self._diagnosed(job, asked, bounded=found is NoPlace.BOUNDED)
        lasts = refusal.bounded and not self._cycle.fit_counts.barred  # until room grows
        if lasts and self._cycle.steps.is_dear(begun):
            self._cycle.steps.keep(job, refusal)
        else:
            self._cycle.steps.looked_at(job, refusal, begun)
        return refusal

    # Known: quotas and remembered refusals.

    def _known(self, job: Job, asked: Demand, *, nominated: bool) -> Rejection | None:
        """Why a minimum is refused before any search; None where it has to be looked for."""
        over = self.over_quota(job, asked)
        if over is not None:
            return self._quota_rejection(job, over)
        known = self.refusals.lookup(job, asked)
        if known is not None or nominated:
            return known
        kept = self.refusals.kept_place(job, asked)
        if kept is not None:
            return Rejection("place", job.key, kept)
        return None

    def over_quota(self, job: Job, asked: Demand, found: SearchResult | None = None) -> Reason | None:
        """Why a job's queue may not use what it asks for, or other tasks that the search has found instead."""
        if not self._cycle.pipeline.quota_exceeded:
            return None
        if found is None:
            return self._cycle.over_quota(job, needs(asked))
        used = amounts_of(self._cycle, found.placements)
        return None if (used == needs(asked)).all() else self._cycle.over_quota(job, used, placed=True)

    def _quota_rejection(self, job: Job, over: Reason) -> Rejection:
        """Quotas do not allow a job's minimum, in any selection of tasks that was looked at."""
        return Rejection("quota", job.key, over, bounded=self._cycle.report.search_counts.cut_short)

    # Choices, and a place for one.

    def _choices(self, job: Job, asked: Demand) -> Iterator[Demand]:
        """What is looked for, one after the other: what was asked for, then what quotas allow besides."""
        yield asked
        yield from self._cycle.first(selections(self._cycle, job, asked), self._cycle.budget.selections)

    def _beside_reservations(self, job: Job, asked: Demand, statement: Statement) -> SearchResult | NoPlace | Rejection:
        """A place with which all reservations hold, or why the job has to leave the one that it could have."""
        if self._cycle.refusals.before.jobs and self.refusals.unplaced(job, asked):
            return NoPlace.PROVEN
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

    # Start: bound, nominated, or delayed.

    def _start(self, job: Job, found: SearchResult, statement: Statement, *, nominated: bool) -> bool:
        """Bind a gang that is on the ledger with its minimum, or nominate it; unless a plugin or a quota delays it."""
        delay = deferral(self._cycle, job, found.placements)
        if delay is not None:
            self._delay(job, found, delay, statement)
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
            self.with_surplus[job.key] = found.with_surplus
        bound = idle and late is None
        placements = found.placements if bound else to_nominate(found.placements)
        score = found.score
        said = found.proposed
        terms = found.terms
        commit(self._cycle, job, placements, action="allocate", score=score, bound=bound, proposed=said, terms=terms)
        return bound and self._cycle.backlog.some_left(job)

    def _delay(self, job: Job, found: SearchResult, delay: Delay, statement: Statement) -> None:
        """Let a gang wait for a better place; what it has declined is kept for it, as far as its account allows."""
        cycle = self._cycle
        cycle.report.delay(job, delay)
        statement.rewind()
        self.consider_reserving(job, delay.until)
        if not delay.keeps:
            return
        held = held_by(found.placements)
        if cycle.idle_room.allows(job, held):
            cycle.declined.keep(job, held, delay)
            statement.keep()
            return
        declined = cycle.report.rejections[job.key]
        refused = Rejection("place", job.key, cycle.idle_room.refusal(job))
        cycle.report.reject(job, replace(declined, children=(*declined.children, refused)))

    def consider_reserving(self, job: Job, again: float = inf) -> None:
        """Reserve a place in the future for a job that waits, where the profile reserves."""
        if self._reservations is not None:
            self._reservations.consider(job, self._jobs.queue_of(job), again)

    # Refusal: what keeps it from a place, or what is missing for one.

    def _kept_by_others(self, job: Job, asked: Demand) -> Reason | None:
        """Why a job that finds no place must leave one to a gang that has declined it; None if it would have none."""
        if not self._cycle.declined:
            return None
        with self._cycle.ledger.statement():
            self._cycle.declined.open_all()
            found = search_minimum(self._cycle, job, asked)
        if isinstance(found, SearchResult):
            return self._cycle.declined.objection(rows_of(found.placements))
        return None

    def _ruled_out(self, job: Job, asked: Demand) -> Rejection | None:
        """The refusal of a gang that would have a place were it not for a rule of its sets; None where it would not."""
        if self._cycle.fit_counts.closed is None:
            return None
        from tierwise.actions.placement.sets import ruled_out  # few gangs are in sets

        reason = ruled_out(self._cycle, job, asked, search_minimum)
        if reason is not None:
            return Rejection("fit", job.key, reason)
        return None

    def _diagnosed(self, job: Job, asked: Demand, *, bounded: bool) -> Rejection:
        """Why a minimum finds no place, the ledger being as it was; remembered for jobs that ask for the same."""
        from tierwise.actions.diagnosis.diagnose import diagnose  # slow to import, and not every cycle rejects

        rejection = diagnose(self._cycle, job, asked, bounded=bounded or self._cycle.report.search_counts.cut_short)
        self.refusals.add(job, asked, rejection)
        if not rejection.bounded:
            self.refusals.add_unplaced(job, asked)
        return rejection
