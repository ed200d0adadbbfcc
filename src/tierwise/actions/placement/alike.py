"""Place parts that are alike at every level, all at once: a domain for the job, and inner domains for its parts.

Called by `solve`. Tasks of alike parts are interchangeable, so what a domain holds of them is counted for all
candidates at once (`bounds.held`), and placing a part lowers that number by one wherever it is placed. The result
equals placing one part after the other, each in the best domain of its tightest gradient.

For parts of several shapes, such as a leader and its workers, the count may be too high: where the nodes do not take
what was counted, the caller searches again without it.
"""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from tierwise.actions.placement import choose
from tierwise.actions.placement.bounds import Room, gradients_of, held
from tierwise.actions.placement.demand import TaskGroup
from tierwise.actions.placement.problem import NOW_ONLY, NoPlace, Part, Placement, SearchResult, rows_of
from tierwise.actions.placement.trial import by_size
from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import Ask, Gradients, Proposal, Units
from tierwise.framework.ledger import Pool
from tierwise.framework.placer import Picks, walk
from tierwise.framework.report import Term
from tierwise.model.arrays import Floats, Ints, begins
from tierwise.model.job import Job

__all__ = ["holds", "place_alike"]


def place_alike(cycle: Cycle, job: Job, group: Part, gradients: Gradients) -> SearchResult | NoPlace:
    """Place what a job lacks in the best candidate of the first gradient that holds it, on idle resources.

    `BOUNDED` where the best candidate does not hold what was counted, which may be too many for several shapes.
    """
    room = Room(cycle, Pool.IDLE)
    able = held(room, group.parts[0])
    if not job.shape.nested:
        return _AlikeUnits(cycle, group, room).search(gradients, able)
    near = cycle.current_domain(job)
    for gradient in gradients:
        cycle.report.search_counts.domains += len(gradient)
        feasible = gradient[able[gradient] >= group.chosen]
        if len(feasible):
            order = _order(cycle, group, feasible, near)
            best_position = next(iter(order))
            best = int(order.domains[best_position])
            placements = cycle.ledger.attempt(_place, cycle, job, group, best, near)
            if placements is not None:
                score = float(order.scores[best_position])
                terms = order.decided(best_position)
                return SearchResult(best, tuple(placements), score, terms=terms)
    return NoPlace.PROVEN


def holds(cycle: Cycle, group: Part, domain: int, number: int) -> bool:
    """Whether a domain holds so many units of a group on idle resources: they are placed, and nothing stays."""
    with cycle.ledger.statement():
        return _AlikeUnits(cycle, replace(group, chosen=number), Room(cycle, Pool.IDLE)).place(domain) is not None


# Groups of groups: one after the other.


def _order(cycle: Cycle, part: Part, feasible: Ints, near: int | None) -> choose.Order:
    """The domains for a group: near the job's placed tasks, then those that hold the surplus, score and name."""
    scores = cycle.pipeline.score_domains(next(part.task_groups()).sub, feasible)
    ahead = choose.surplus_keys(cycle, part.gang, feasible, part.pods)
    parts = choose.with_parts(cycle, cycle.snapshot.jobs[part.gang.number], feasible)
    return choose.order_of(cycle, feasible, scores, near, ahead, parts)


def _place(cycle: Cycle, job: Job, part: Part, domain: int, near: int | None) -> list[Placement] | None:
    """Place the parts of a group below a domain that holds them; what the job has placed by now is `near`."""
    first_part = part.parts[0]
    placements = list[Placement]()
    if first_part.task_group is not None and first_part.tier is not None:
        room = Room(cycle, Pool.IDLE)
        placement = _AlikeUnits(cycle, part, room).search((np.array([domain]),), held(room, first_part))
        if isinstance(placement, SearchResult):
            return list(placement.placements)
        return None
    for inner in part.parts[: part.chosen]:
        if inner.task_group is not None:
            placed = choose.search_group(cycle, job, inner.task_group, within=domain, pools=NOW_ONLY)
            inside = list(placed.placements) if isinstance(placed, SearchResult) else None
        else:
            inside = _place_group(cycle, job, inner, domain, near)
        if inside is None:
            return None
        placements += inside
        if inner.task_group is None:
            domain_of_part = cycle.topology.meet_rows(rows_of(inside))
            near = domain_of_part if near is None else cycle.topology.meet(near, domain_of_part)
    return placements


def _place_group(cycle: Cycle, job: Job, part: Part, within: int, near: int | None) -> list[Placement] | None:
    """Place a group in the best domain of its tightest gradient inside another."""
    able = held(Room(cycle, Pool.IDLE), part.parts[0])
    gradients = (gradient[able[gradient] >= part.chosen] for gradient in gradients_of(cycle, part.gang, within))
    feasible = next((gradient for gradient in gradients if len(gradient)), None)
    if feasible is None:
        return None
    return _place(cycle, job, part, int(feasible[next(iter(_order(cycle, part, feasible, near)))]), near)


# Units of one group: all at once.


class _AlikeUnits:
    """The units of a group that are needed, each inside one domain of at most their limit."""

    def __init__(self, cycle: Cycle, group: Part, room: Room) -> None:
        assert isinstance(group.gang, Job)
        self._cycle = cycle
        self._gang = group.gang
        self._room = room
        self._unit = group.parts[0]
        assert self._unit.tier is not None
        self._limit = self._unit.tier
        self._task_groups = tuple(p.task_group for p in group.parts[: group.chosen] if p.task_group is not None)
        self._substitutes = len(group.parts) - group.chosen
        self._sub = next(group.task_groups()).sub

    def search(self, gradients: Gradients, able: Ints) -> SearchResult | NoPlace:
        """Place them in the best candidate of the first gradient that holds them; a proposal is tried first."""
        cycle = self._cycle
        number = len(self._task_groups)
        units = self._units()
        for gradient in gradients:
            cycle.report.search_counts.domains += len(gradient)
            feasible = gradient[able[gradient] >= number]
            if not len(feasible):
                continue
            proposal = cycle.pipeline.propose(self._gang, units, feasible) if units is not None else None
            if units is not None and isinstance(proposal, Proposal):
                worth = self._worth(np.array([proposal.domain]))
                placed = tuple(self._follow(units, proposal))
                return SearchResult(proposal.domain, placed, float(worth[0]), proposal, terms=(Term.PROPOSED,))
            feasible = np.sort(feasible)  # preorder, so that inner domains find their owner by bisection
            score = self._worth(feasible)
            order = self._order(feasible, score, able)
            best = next(iter(order))
            placements_found = cycle.ledger.attempt(self.place, int(feasible[best]))
            if placements_found is None:
                return NoPlace.BOUNDED
            terms = order.decided(best)
            return SearchResult(int(feasible[best]), tuple(placements_found), float(score[best]), proposal, terms=terms)
        return NoPlace.PROVEN

    def _units(self) -> Units | None:
        """The units to ask a recommendation for; None if no plugin recommends, or tasks of the job are placed."""
        cycle = self._cycle
        if not cycle.pipeline.propose or len(self._unit.bundle) > 1 or cycle.current_domain(self._gang) is not None:
            return None
        ((shape, size),) = self._unit.bundle
        own_units = cycle.topology.own(cycle.fit_counts.of(shape).domains(Pool.IDLE)) // size
        own_units[cycle.topology.tier > self._limit] = 0  # each inside one innermost domain within the limit
        return Units(shape, len(self._task_groups), size, own_units, cycle.topology.roll_up(own_units))

    def _follow(self, units: Units, proposal: Proposal) -> list[Placement]:
        ((shape, size),) = self._unit.bundle
        ask = Ask(shape, self._sub, self._gang)
        self._cycle.report.search_counts.trials += 1
        dealt = self._write(ask, choose.picks_of(self._cycle, ask, units, proposal), size)
        return [self._stand(task_group, 0, rows) for task_group, rows in zip(self._task_groups, dealt, strict=False)]

    def _order(self, feasible: Ints, score: Floats, able: Ints) -> choose.Order:
        """The candidates: near the job's placed tasks, then those that hold the surplus, score, room and name."""
        cycle = self._cycle
        number = len(self._task_groups)
        also = able >= number + self._substitutes
        ahead = choose.surplus_keys(cycle, self._gang, feasible, number * self._unit.pods, also=also)
        parts = choose.with_parts(cycle, cycle.snapshot.jobs[self._gang.number], feasible)
        return choose.order_of(cycle, feasible, score, cycle.current_domain(self._gang), ahead, parts)

    def _worth(self, feasible: Ints) -> Floats:
        """For each candidate the sum of its units' scores, each unit in the best inner domain that is left."""
        topology = self._cycle.topology
        near = self._cycle.current_domain(self._gang)
        inner, owner = self._inner(feasible)
        room = self._copies()[inner]
        missing = np.full(len(feasible), len(self._task_groups), dtype=np.int64)
        score = np.zeros(len(feasible))
        tiers = topology.tier[inner]
        for tier in sorted(set(tiers.tolist())):
            at = np.flatnonzero(tiers == tier)
            at = at[room[at] > 0]
            if len(at) and missing.any():
                number = self._fill((inner[at], owner[at], room[at]), missing, near)
                worth = self._cycle.pipeline.score_domains(self._sub, inner[at], number)
                score += np.bincount(owner[at], weights=worth, minlength=len(feasible))
                missing -= np.bincount(owner[at], weights=number, minlength=len(feasible)).astype(np.int64)
                _charge_above(topology.last, inner, room, at, number)
        return score

    def _copies(self) -> Ints:
        """How many units each domain takes by itself, now."""
        return held(self._room, replace(self._unit, tier=None))

    def _inner(self, feasible: Ints) -> tuple[Ints, Ints]:
        """The domains below the candidates that are within the units' limit, and the candidate of each."""
        topology = self._cycle.topology
        within = np.flatnonzero(topology.tier <= self._limit)
        owner = np.searchsorted(feasible, within, side="right") - 1
        inside = (owner >= 0) & (within < topology.last[feasible[owner]])
        return within[inside], owner[inside]

    def _fill(self, tier: tuple[Ints, Ints, Ints], missing: Ints, near: int | None) -> Ints:
        """Assign units to domains of one tier in the order of preference, until each candidate has enough."""
        domains, owner, room = tier
        terms = self._preference(domains, near).terms
        order = np.lexsort((*(key for _, key in reversed(terms)), owner))
        room_up_to = np.cumsum(room[order])
        before = room_up_to - room[order]
        base = np.maximum.accumulate(np.where(begins(owner[order]), before, 0))
        result = np.empty(len(domains), dtype=np.int64)
        result[order] = np.minimum(np.maximum(missing[owner[order]] - (before - base), 0), room[order])
        return result

    def place(self, domain: int) -> list[Placement] | None:
        """Write the units to the ledger below one domain, tier by tier, close to the first one.

        None where nodes do not take what was counted, or no more is counted before all have a place.
        """
        placements: list[Placement] = []
        groups_left = self._task_groups
        for tier in self._cycle.topology.by_tier(domain, self._limit):
            room = self._copies()[tier]
            able = tier[room > 0]
            room = room[room > 0]
            if groups_left and len(able):
                near = self._cycle.current_domain(self._gang)
                if near is None:  # the domain of the first unit
                    near = int(able[next(iter(self._preference(able, None)))])
                owner = np.zeros(len(able), dtype=np.int64)
                number = self._fill((able, owner, room), np.array([len(groups_left)]), near)
                placed = self._place_tier(able[number > 0], number[number > 0], groups_left)
                if placed is None:
                    return None
                placements += placed
                groups_left = groups_left[int(number.sum()) :]
        return placements if not groups_left else None

    def _preference(self, domains: Ints, near: int | None) -> choose.Order:
        """The domains for a unit: near one, then with room for its surplus, then by score and name."""
        scores = self._cycle.pipeline.score_domains(self._sub, domains)
        ahead = choose.surplus_keys(self._cycle, self._sub, domains, self._unit.pods)
        return choose.order_of(self._cycle, domains, scores, near, ahead)

    def _place_tier(self, domains: Ints, numbers: Ints, task_groups: tuple[TaskGroup, ...]) -> list[Placement] | None:
        """Place a number of units in each of some disjoint, ascending domains; task groups are used in order.

        The largest tasks of all go first, because they fit the fewest nodes. None where a domain takes too few.
        """
        cycle = self._cycle
        bundle = self._unit.bundle
        dealt: dict[int, list[Ints]] = {}
        for i in sorted(range(len(bundle)), key=lambda i: by_size(cycle, bundle[i][0])):
            shape, count = bundle[i]
            ask = Ask(shape, self._sub, self._gang)
            picked = []
            for domain, number in zip(domains.tolist(), (numbers * count).tolist(), strict=True):
                picked.append(walk(cycle, ask, number, domain, Pool.IDLE))
                if int(picked[-1][1].sum()) < number:
                    return None
            dealt[i] = self._write(ask, picked, count)
        return [
            self._stand(task_group, i, dealt[i][number])
            for number, task_group in enumerate(task_groups[: int(numbers.sum())])
            for i in range(len(bundle))
        ]

    def _write(self, ask: Ask, picked: list[Picks], count: int) -> list[Ints]:
        """Write the rows of one shape of whole units to the ledger, and deal them: `count` to each unit, in order."""
        rows = np.concatenate([rows for rows, _ in picked])
        counts = np.concatenate([counts for _, counts in picked])
        self._cycle.ledger.place(ask.shape, rows, counts, pool=Pool.IDLE)
        self._cycle.ledger.charge(ask.job, ask.shape.request * counts.sum())
        rows_by_tier = [np.repeat(rows, counts) for rows, counts in picked]
        return [rows[i : i + count] for rows in rows_by_tier for i in range(0, len(rows), count)]

    def _stand(self, task_group: TaskGroup, part: int, rows: Ints) -> Placement:
        pod_set = task_group.remaining[part].pod_set
        ones = np.ones(len(rows), dtype=np.int64)
        self._cycle.ledger.count_placed(task_group.sub, pod_set, rows, ones, pool=Pool.IDLE)
        return Placement(task_group.sub, pod_set, rows, Pool.IDLE)


def _charge_above(domain_ends: Ints, inner: Ints, room: Ints, at: Ints, used: Ints) -> None:
    """Subtract what the domains `at` use from the capacity of the domains around them."""
    used_by_domain = np.zeros(len(inner), dtype=np.int64)
    used_by_domain[at] = used
    upto = np.concatenate(([0], np.cumsum(used_by_domain)))
    room -= upto[np.searchsorted(inner, domain_ends[inner])] - upto[:-1]
