"""Sets of gangs that start together: all of them on idle room once the last is served, or none of them.

Called by `allocate` for a gang of such a set, in place of the usual way of a minimum.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from contextlib import ExitStack
from itertools import islice, permutations
from typing import TYPE_CHECKING

from tierwise.actions.enqueue import admission_reason
from tierwise.actions.placement.commit import commit
from tierwise.actions.placement.demand import demand
from tierwise.actions.placement.problem import NoPlace, SearchResult, deferral
from tierwise.actions.placement.solve import search_minimum
from tierwise.framework.cycle import Cycle
from tierwise.framework.ledger import job_ready
from tierwise.model.job import Job, Reason, Rejection, Verdict

if TYPE_CHECKING:
    from tierwise.actions.minimum import Minimums
    from tierwise.actions.reservations import Reservations

__all__ = ["Together"]

_ORDERS = 6
"""Orders in which gangs that start together are placed, until all of them have a place."""

_NO_PLACE = "has no place together with the other gangs"

_GANGS_A_STEP = 8
"""Gangs of a set of which it is read for one step whether they are what they were."""


class Together:
    """The sets of one pass of `allocate` that start together."""

    def __init__(self, cycle: Cycle, minimums: Minimums, reservations: Reservations | None) -> None:
        self._cycle = cycle
        self._minimums = minimums
        self._reservations = reservations

    def start(self, job: Job, gangs: list[Job]) -> bool:
        """Bind all gangs of a set, once the last of them is served; returns whether that one has more to place."""
        path = job.member.set if job.member is not None else ""
        name = path.partition("/")[2]
        never = self._cycle.sets.too_few_domains(gangs) if self._cycle.sets is not None else None
        if never is not None:
            self._cycle.report.reject(job, Rejection("gate", job.key, never, verdict=Verdict.NEVER))
            return False
        if job is not gangs[-1]:
            last_gang = gangs[-1].key.partition("/")[2]
            self._wait(job, f"set {name} starts together: it is placed with {last_gang}")
            return False
        cycle, job_demands = self._cycle, self._asked(gangs)
        begun = cycle.steps.taken
        outcome = cycle.refusals.why_set_waits(path, gangs, job_demands) or self._in_some_order(gangs)
        if isinstance(outcome, list):
            for gang, place in outcome:
                self._bind(gang, place)
            return self._cycle.backlog.some_left(job)
        if outcome.endswith(_NO_PLACE) and cycle.steps.is_dear(begun):
            cycle.refusals.add_set(path, gangs, job_demands, outcome)
        self._wait(job, f"set {name} starts together, and {outcome}")
        return False

    def _asked(self, gangs: Sequence[Job]) -> Hashable:
        """What the places of some gangs depend on besides room: their limits of now, and where parts of sets stand."""
        self._cycle.steps.charge(1 + len(gangs) // _GANGS_A_STEP)
        limit, sets = self._cycle.pipeline.limit, self._cycle.sets
        limits = tuple((limit(gang), *map(limit, gang.subs)) for gang in gangs)
        return limits, sets.standing_for(gangs) if sets is not None else ()

    def _in_some_order(self, gangs: Sequence[Job]) -> list[tuple[Job, SearchResult]] | str:
        """A place for each gang of a set, on the ledger, in the first of some orders in which all have one; or why the
        first of these orders leaves one without.

        An order that begins as one which has failed would fail at the same gang.
        """
        why, failed = "", list[Sequence[Job]]()
        for order in islice(permutations(sorted(gangs, key=lambda gang: -gang.minimum)), _ORDERS):
            if any(order[: len(beginning)] == beginning for beginning in failed):
                continue
            with self._cycle.ledger.statement() as statement:
                outcome = self._all_beside(order)
                if isinstance(outcome, list):
                    statement.keep()
                    return outcome
            gang, text = outcome
            failed.append(order[: order.index(gang) + 1])
            why = why or f"{gang.key.partition('/')[2]} {text}"
        return why

    def _all_beside(self, gangs: Sequence[Job]) -> list[tuple[Job, SearchResult]] | tuple[Job, str]:
        """A place for each of some gangs on idle room, one after the other; or the first that has none, and why."""
        placed_gangs: list[tuple[Job, SearchResult]] = []
        with ExitStack() as stack:
            for gang in gangs:
                place = self._place_beside(gang, stack)
                if isinstance(place, str):
                    return gang, place
                placed_gangs.append((gang, place))
        return placed_gangs

    def _bind(self, gang: Job, placement: SearchResult) -> None:
        """Decide on a gang that is on the ledger, on idle room."""
        proposal, terms = placement.proposed, placement.terms
        commit(
            self._cycle,
            gang,
            placement.placements,
            action="allocate",
            score=placement.score,
            bound=True,
            proposed=proposal,
            terms=terms,
        )

    def _place_beside(self, gang: Job, stack: ExitStack) -> SearchResult | str:
        """A place for a gang of a set beside those that are on the ledger already, on idle room; why there is none."""
        cycle = self._cycle
        cycle.nominations.release(gang)
        gang_demand = demand(cycle, gang)
        refused = admission_reason(cycle, gang)
        if refused is not None or not gang_demand.enough or not gang_demand.task_groups:
            return f"must not start: {refused.text}" if refused is not None else "has too few pods that can be placed"
        over = self._minimums.over_quota(gang, gang_demand)
        if over is not None:
            return f"must not start: {over.text}"
        with cycle.serving(gang):
            outcome = search_minimum(cycle, gang, gang_demand)
        if isinstance(outcome, NoPlace) or not job_ready(cycle.ledger, gang):
            return _NO_PLACE
        delay = deferral(cycle, gang, outcome.placements)
        if delay is not None:
            return f"waits: {delay.reason.text}"
        objection = self._reservations.objection(gang, outcome) if self._reservations else None
        if objection is not None:
            return f"waits: {objection.text}"
        if cycle.sets is not None:
            stack.enter_context(cycle.sets.standing_there(gang, [placement.rows for placement in outcome.placements]))
        return outcome

    def _wait(self, job: Job, text: str) -> None:
        """Refuse a gang of a set that starts together: nobody is evicted for one, and no room is kept."""
        self._cycle.report.reject(job, Rejection("place", job.key, Reason("SetWaits", "sets", text)))
