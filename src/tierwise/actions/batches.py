"""Batches: the first gangs of a queue are placed together where one after the other would leave some of them worse off.

Each gang is placed exactly, by itself. Of two places that are equally good for it, one may be all that a later gang
could have had. So the next gangs of the queue are placed on the ledger in other orders too, and taken back; of these
arrangements that is kept in which most of them start, then the one with the lowest tiers, then with the fewest
innermost domains. When its turn comes, each gang is given its place in it.

No later gang takes what an earlier one needs: an arrangement counts only if every gang that would start starts, and
none is given a wider tier than it would have had in its turn. Orders are tried where a gang of the batch has less than
it would have alone. Called by `allocate`; the search for a gang is the usual one.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, islice, permutations, takewhile

import msgspec
from msgspec.structs import replace

from tierwise.actions.jobs_by_queue import QueuedJobs
from tierwise.actions.placement.demand import demand, needs
from tierwise.actions.placement.problem import SearchResult, deferral, rows_of, written
from tierwise.actions.placement.solve import search_minimum
from tierwise.framework.cycle import Cycle
from tierwise.framework.pipeline import PluginError
from tierwise.framework.report import Term
from tierwise.framework.steps import OutOfStepsError
from tierwise.model.arrays import distinct
from tierwise.model.job import Job

__all__ = ["Batches"]

_MOST = 3
"""Gangs that are placed together."""
_FEW, _SHARE = 32, 8
"""Where more jobs than so many wait in a queue, one in so many of the searches is left for this."""


class _Worth(msgspec.Struct, frozen=True, order=True):
    """How good a place is, the smaller the better."""

    waits: bool
    tier: int = 0
    leaves: int = 0


_WAITS = _Worth(waits=True)
_Plan = dict[str, SearchResult]
"""By gang that starts, its place."""


class Batches:
    """The places of the gangs that are served next."""

    def __init__(self, cycle: Cycle) -> None:
        self._cycle = cycle
        self._left = cycle.budget.together if cycle.pipeline.room_ahead else 0
        self._plan: _Plan = {}
        self._otherwise = False  # whether the plan is another one than that of their turns
        self._kinds: dict[int, object] = {}  # by job, each of which may be in several batches

    def place(self, job: Job, behind: QueuedJobs) -> SearchResult | None:
        """The place of a gang, on the ledger, that was chosen with regard to those behind it; None where none was."""
        planned = self._plan.pop(job.key, None)
        if planned is None:
            self._plan = {}
            planned = self._planned(job, behind)
        if planned is not None:
            with self._cycle.ledger.statement() as statement:
                placement = written(self._cycle, job, planned)
                # Who had rather wait than stand there is given what it would have had in its turn.
                if placement is planned and not (self._otherwise and deferral(self._cycle, job, planned.placements)):
                    statement.keep()
                    return planned
        self._plan = {}
        return None

    def _planned(self, job: Job, behind: QueuedJobs) -> SearchResult | None:
        if len(behind) > _FEW:
            self._left = min(self._left, self._cycle.budget.together // _SHARE)
        if self._left <= 0 or self._cycle.spares is not None or self._stands_by_others(job):
            return None
        gangs = [job, *islice(behind, _MOST - 1)]
        kinds = [self._kind(gang) for gang in gangs]
        if not _alike(kinds):
            gangs = [*takewhile(self._may_join, gangs)]
            kinds = kinds[: len(gangs)]
        if _alike(kinds):
            return None
        cut = self._cycle.report.search_counts.cut
        try:
            with self._cycle.steps.limited(self._cycle.steps.left // 2):
                self._plan = self._best(gangs, kinds)
        except (PluginError, OutOfStepsError):  # whose fault it is shows when that gang is served
            self._plan = {}
        self._cycle.report.search_counts.cut = cut
        return self._plan.pop(job.key, None)

    def _stands_by_others(self, job: Job) -> bool:
        """Whether a job's place depends on who it is: on its sets, on when it ends, or on nodes that failed it."""
        return self._cycle.is_closed_to(job)

    def _may_join(self, job: Job) -> bool:
        """Whether a job is a gang that a batch may be made of: with a topology, and without rules between its pods."""
        cycle = self._cycle
        if (
            job.constraint is None
            or job.shape.parted
            or job.shape.wishes.sizes
            or len(job.tasks) < 2
            or cycle.beside_gradients(job)
        ):
            return False
        if self._stands_by_others(job):
            return False
        if cycle.nominations.holds(job) or cycle.current_domain(job) is not None:
            return False
        return not any(cycle.pipeline.moving(pod_set.shape) for pod_set in job.pod_sets())

    def _best(self, gangs: Sequence[Job], kinds: Sequence[object]) -> _Plan:
        """The best arrangement of some gangs of these kinds, the usual one first."""
        plan = before = self._arranged(gangs)
        usual = worth = [self._worth(plan, gang) for gang in gangs]
        alone, self._otherwise = self._alone(gangs, kinds, usual), False
        for order in islice(permutations(range(len(gangs))), 1, None):
            if worth == alone or self._left <= 0:
                break
            if any(i > j and kinds[i] == kinds[j] for i, j in combinations(order, 2)):
                continue
            arranged = self._arranged([gangs[i] for i in order])
            new_worth = [self._worth(arranged, gang) for gang in gangs]
            if _fair(gangs, new_worth, usual) and _rank(new_worth) < _rank(worth):
                plan, worth, self._otherwise = arranged, new_worth, True
        return {key: _moved(place, before.get(key)) for key, place in plan.items()} if self._otherwise else plan

    def _kind(self, gang: Job) -> object:
        """A key that is equal for gangs which would get the same place.

        A gang that has begun and has parts, or that waits for a time of its own, has its own key.
        """
        cached_kind = self._kinds.get(gang.number)
        if cached_kind is None:
            begun = not gang.shape.only_pods and any(len(sub.held) or sub.previous_domain for sub in gang.subs)
            waits = tuple([tuple([(p.shape.number, p.role, len(p.tasks)) for p in sub.pod_sets]) for sub in gang.subs])
            kind = gang.shape, waits, gang.priority, gang.terms
            cached_kind = self._kinds[gang.number] = gang.key if begun or gang.ladder else kind
        return cached_kind

    def _alone(self, gangs: Sequence[Job], kinds: Sequence[object], usual: Sequence[_Worth]) -> list[_Worth]:
        """The place of each gang if the others were not there.

        The first gang has it already, as would gangs of its kind. So has a gang with the best place that there is.
        """
        lowest = _Worth(waits=False, tier=int(self._cycle.topology.tier.min()), leaves=1)
        alone: list[_Worth] = []
        for gang, kind, worth in zip(gangs, kinds, usual, strict=True):
            if kind == kinds[0]:
                alone.append(usual[0])
            elif worth == lowest:
                alone.append(worth)
            else:
                alone.append(self._worth(self._arranged([gang]), gang))
        return alone

    def _arranged(self, order: Sequence[Job]) -> _Plan:
        """The places of gangs that are served in an order, off the ledger again."""
        plan: _Plan = {}
        with self._cycle.ledger.statement():
            for gang in order:
                gang_demand = demand(self._cycle, gang)
                if (
                    not gang_demand.task_groups
                    or not gang_demand.enough
                    or self._cycle.over_quota(gang, needs(gang_demand)) is not None
                ):
                    continue
                self._left -= 1
                place = search_minimum(self._cycle, gang, gang_demand)
                if isinstance(place, SearchResult):
                    plan[gang.key] = place
        return plan

    def _worth(self, plan: _Plan, gang: Job) -> _Worth:
        place = plan.get(gang.key)
        if place is None:
            return _WAITS
        rows, topology = rows_of(place.placements), self._cycle.topology
        return _Worth(False, int(topology.tier[topology.meet_rows(rows)]), len(distinct(topology.leaf[rows])))


def _moved(place: SearchResult, before: SearchResult | None) -> SearchResult:
    """A place in an arrangement, which is told where it is another one than that of the gang's turn."""
    return place if before is not None and before.domain == place.domain else replace(place, terms=(Term.TOGETHER,))


def _alike(kinds: list[object]) -> bool:
    """Whether gangs are all of one kind: of these the earlier one chooses first, so there is no other order."""
    return kinds[:1] * len(kinds) == kinds


def _rank(worth: Sequence[_Worth]) -> tuple[tuple[bool, ...], int, int]:
    """Earlier gangs start first; then the sums of tiers and of innermost domains."""
    return tuple(w.waits for w in worth), sum(w.tier for w in worth), sum(w.leaves for w in worth)


def _fair(gangs: Sequence[Job], worth: Sequence[_Worth], usual: Sequence[_Worth]) -> bool:
    """Whether no later gang takes what an earlier one needs: a wider place only for one that could not start else."""
    started = [gang.priority for gang, a, b in zip(gangs, worth, usual, strict=True) if a.waits < b.waits]
    return all(
        a.waits or b.waits or a.tier <= b.tier or (started and max(started) >= gang.priority)
        for gang, a, b in zip(gangs, worth, usual, strict=True)
    )
