"""Choose a domain for a task group: gradient by gradient, comparing all domains of a gradient.

`search_group` serves a single sub-job and a job without sub-jobs; `solve` serves a job with several. On success the
placement is on the ledger; on failure the ledger is unchanged. A plugin may propose a domain before a gradient is
searched: it is tried first. None is asked for a gang that has placed tasks or pod affinity, because the positions of
the other pods matter more there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce

import msgspec
import numpy as np
from msgspec.structs import replace

from tierwise.actions.placement.bounds import Room, chooses_its_host, gradients_of, may_hold
from tierwise.actions.placement.demand import TaskGroup
from tierwise.actions.placement.problem import BOTH, NOW_ONLY, NoPlace, Placement, SearchResult, place_tasks
from tierwise.actions.placement.trial import fit_any_way
from tierwise.framework.closest import pieces_needed
from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import Abstained, Ask, Proposal, Units
from tierwise.framework.ledger import Pool
from tierwise.framework.placer import GRAIN, Picks, place, room_ahead
from tierwise.framework.report import Term
from tierwise.model.arrays import Bools, Floats, Ints
from tierwise.model.job import Job, Shape, SubJob
from tierwise.model.topology import ROOT

__all__ = [
    "NO_TIER",
    "Order",
    "compared",
    "order_of",
    "ordered",
    "pending",
    "picks_of",
    "search_group",
    "surplus_keys",
]

NO_TIER = 2**62
"""Of a candidate around which no domain within the limit holds all pending tasks."""


def search_group(
    cycle: Cycle, job: Job, task_group: TaskGroup, *, within: int = ROOT, pools: tuple[Pool, ...] = BOTH
) -> SearchResult | NoPlace:
    """The best place for one task group inside a domain, written to the ledger. A recommended domain of a gradient is
    tried first.
    """
    gang = job.gang_of(task_group.sub)
    current = cycle.current_domain(job)
    near = current if job.shape.parted else None
    units = _units_of(cycle, task_group) if cycle.pipeline.propose and current is None else None
    recommendation: Proposal | Abstained | None = None
    bounded = False
    room: Room | None = None
    special_terms: tuple[Term, ...] = (Term.NEAR,) if current is not None and near is None else ()
    if _by_host(cycle, gang, within):
        special_terms = (Term.HOST,)
    for gradient in gradients_of(cycle, gang, within):
        if units is not None:
            recommendation = cycle.pipeline.propose(job, units, gradient)
            if isinstance(recommendation, Proposal):
                proposed = _follow_proposal(cycle, job, task_group, units, recommendation)
                if proposed is not None:
                    return proposed
        if room is None and len(gradient) > 1:  # one domain is tried as fast as its rules are counted
            room = _room_with_rules(cycle, job, task_group, pools[-1])
        order = compared(cycle, task_group, gradient, near, pools, room=room)
        for i in order:
            placement = fit_any_way(cycle, job, task_group, int(order.domains[i]), pools)
            if isinstance(placement, SearchResult):
                terms = special_terms or order.decided(i)
                return replace(placement, score=float(order.scores[i]), proposed=recommendation, terms=terms)
            bounded |= placement is NoPlace.BOUNDED
    return NoPlace.of(bounded=bounded)


def _by_host(cycle: Cycle, gang: Job | SubJob, within: int) -> bool:
    return isinstance(gang, Job) and len(gang.tasks) == 1 and chooses_its_host(cycle, gang, within)


# The order of candidates.

_LOOKED_AT = 3
"""Steps of finding out which domains of a gradient may hold a gang, for the first of them."""

_ORDERED = 5
"""Steps of ordering several of them."""

_Key = Floats | Ints | Bools


class Order(msgspec.Struct):
    """Candidate domains in the order of the search: by terms, the most significant first, of which the least counts.

    Iterating gives positions in `domains`. The first is found without sorting, and is usually the only one used.
    """

    domains: Ints
    scores: Floats
    terms: list[tuple[Term, _Key]]
    first: int = -1  # once it is known
    decided_first: tuple[Term, ...] = ()

    def __iter__(self) -> Iterator[int]:
        if len(self.domains) < 2:
            yield from range(len(self.domains))
            return
        self.first, self.decided_first = self._narrowed(np.arange(len(self.domains)))
        yield self.first
        for i in self.sorted().tolist():
            if i != self.first:
                yield i

    def _narrowed(self, positions: Ints) -> tuple[int, tuple[Term, ...]]:
        """The first of some positions, and the terms that rule the others out."""
        decided = []
        for term, key in self.terms:
            if len(positions) == 1:
                break
            key_values = key[positions]
            best_positions = positions[key_values == np.minimum.reduce(key_values)]
            if len(best_positions) < len(positions):
                decided.append(term)
                positions = best_positions
        return int(positions[0]), tuple(decided)

    def sorted(self) -> Ints:
        """All positions, in order."""
        return np.lexsort([key for _, key in reversed(self.terms)]) if self.terms else np.arange(len(self.domains))

    def of(self, positions: Ints) -> Order:
        """This order of the domains at some positions only."""
        return Order(
            self.domains[positions], self.scores[positions], [(term, key[positions]) for term, key in self.terms]
        )

    def decided(self, position: int) -> tuple[Term, ...]:
        """The terms by which a position comes before all behind it."""
        if position == self.first or len(self.domains) < 2:
            return self.decided_first
        order = self.sorted()
        return self._narrowed(np.sort(order[int(np.flatnonzero(order == position)[0]) :]))[1]


def _room_with_rules(cycle: Cycle, job: Job, task_group: TaskGroup, pool: Pool) -> Room:
    """Room of a pool for a task group, with rules between pods counted where they can be."""
    if not any(cycle.pipeline.moving(tasks_left.pod_set.shape) for tasks_left in task_group.remaining):
        return Room(cycle, pool)
    from tierwise.actions.placement.ruled_room import RuledRoom  # few gangs have rules

    return RuledRoom(cycle, pool, cycle.pipeline.pod_rules(tuple(pending(cycle, job))))


def ordered(
    cycle: Cycle, task_group: TaskGroup, gradient: Ints, near: int | None, pools: tuple[Pool, ...]
) -> Iterator[tuple[int, float]]:
    """The domains of a gradient that may hold a task group, best first, each with its score."""
    order = compared(cycle, task_group, gradient, near, pools)
    for i in order:
        yield int(order.domains[i]), float(order.scores[i])


def compared(
    cycle: Cycle,
    task_group: TaskGroup,
    gradient: Ints,
    near: int | None,
    pools: tuple[Pool, ...],
    *,
    room: Room | None = None,
) -> Order:
    """The domains of a gradient that may hold a task group, in the order of the search (`Term`).

    `room` is what is free there, if that is known to be less than what the last of the pools has.
    """
    cycle.report.search_counts.domains += len(gradient)
    cycle.steps.charge(_LOOKED_AT + len(gradient) // 64)
    feasible = gradient[may_hold(room or Room(cycle, pools[-1]), task_group, gradient)]
    if not len(feasible):
        return Order(feasible, np.zeros(0), [])
    scores = cycle.pipeline.score_domains(task_group.sub, feasible)
    if len(feasible) == 1:
        return Order(feasible, scores, [])
    cycle.steps.charge(_ORDERED + len(feasible) // 64)
    job = cycle.snapshot.jobs[task_group.sub.job_number]
    gang = job.gang_of(task_group.sub)
    ahead = surplus_keys(cycle, gang, feasible, task_group.need)
    plain = not ahead and not job.shape.parted  # a surplus wants room, and sub-groups are counted as they come
    foreseen = _foreseen(cycle, job, task_group, feasible) if plain else []
    foreseen = with_parts(cycle, job, feasible, foreseen)
    order = order_of(cycle, feasible, scores, near, ahead, foreseen)
    previous = cycle.previous_domain(task_group.sub)
    if previous is not None:
        order.terms.insert(0, (Term.PREVIOUS, cycle.topology.meeting_tiers(previous)[feasible]))
    if cycle.ledger.any_releasing:
        order.terms.insert(0, (Term.FREE_NOW, ~may_hold(Room(cycle, Pool.IDLE), task_group, feasible)))
    return order


def _foreseen(cycle: Cycle, job: Job, task_group: TaskGroup, domains: Ints) -> list[tuple[Term, _Key]]:
    """Terms by what a place there takes from others, the most significant first; empty where none is foreseen."""
    if task_group.sub.constraint is None:
        return []
    largest_pod_set = max(task_group.remaining, key=lambda tasks_left: tasks_left.left)
    expected = room_ahead(cycle, Ask(largest_pod_set.pod_set.shape, task_group.sub, job))
    if expected is None:
        return []
    least_ahead: tuple[Term, _Key] = Term.PLACES, np.rint(expected[domains] * GRAIN)
    if np.add.reduce(cycle.topology.last[domains] - domains) == len(domains):
        return [least_ahead]  # they are innermost themselves
    bundle = task_group.firm() or ((largest_pod_set.pod_set.shape, min(task_group.need, largest_pod_set.left)),)
    needed = [
        pieces_needed(cycle.topology, cycle.fit_counts.of(shape).domains(Pool.IDLE), domains, count)
        for shape, count in bundle
    ]
    return [(Term.LEAVES, reduce(np.maximum, needed)), least_ahead]


def with_parts(
    cycle: Cycle, job: Job, domains: Ints, foreseen: Sequence[tuple[Term, _Key]] = ()
) -> list[tuple[Term, _Key]]:
    """Terms by what a place takes from others, behind those by its own leaves the one of soft rules of its sets."""
    missed = cycle.sets.parts_in(job, domains) if cycle.sets is not None and cycle.sets.concerns(job) else None
    terms = list(foreseen)
    if missed is not None:
        terms.insert(sum(term is Term.LEAVES for term, _ in terms), (Term.PARTS, missed))
    return terms


def order_of(
    cycle: Cycle,
    domains: Ints,
    scores: Floats,
    near: int | None = None,
    ahead: Sequence[Ints] = (),
    foreseen: Sequence[tuple[Term, _Key]] = (),
) -> Order:
    """Order domains: those near one first, then by `surplus_keys`, what is foreseen, score and name.

    A gang that fits one domain as a whole is not torn apart for a score, and among domains with equal scores the one
    with more room goes first.
    """
    terms: list[tuple[Term, _Key]] = [] if near is None else [(Term.NEAR, cycle.topology.meeting_tiers(near)[domains])]
    if ahead:
        terms.append((Term.SURPLUS, ahead[0]))
    terms += foreseen
    terms.append((Term.SCORE, -np.rint(scores * GRAIN)))
    if ahead:
        terms.append((Term.SURPLUS_ROOM, ahead[1]))
    terms.append((Term.NAME, cycle.topology.rank[domains]))
    return Order(domains, scores, terms)


def pending(cycle: Cycle, gang: Job | SubJob) -> dict[Shape, int]:
    """How many tasks of each shape of a gang are pending."""
    subs = gang.subs if isinstance(gang, Job) else (gang,)
    pending_by_shape: dict[Shape, int] = {}
    for pod_set in (pod_set for sub in subs for pod_set in sub.pod_sets):
        waiting = cycle.backlog.left(pod_set)
        if waiting:
            pending_by_shape[pod_set.shape] = pending_by_shape.get(pod_set.shape, 0) + waiting
    return pending_by_shape


def surplus_keys(
    cycle: Cycle, gang: Job | SubJob, domains: Ints, need: int, *, also: Bools | None = None
) -> tuple[Ints, ...]:
    """Sort keys that prefer domains with capacity for the surplus, the most significant first; empty without surplus.

    The first key is the tier of the innermost domain around the candidate, within the gang's limit, that holds all
    pending tasks. The second is how many of them the outermost of these domains holds, where none holds all. `also`
    restricts which domains count.
    """
    pending_by_shape = pending(cycle, gang)
    if sum(pending_by_shape.values()) <= need:
        return ()
    topology, limit = cycle.topology, cycle.pipeline.limit(gang)
    holding = np.ones(len(topology), dtype=bool) if also is None else also
    amount = np.zeros(len(topology), dtype=np.int64)
    total = np.zeros(len(cycle.view.axis), dtype=np.int64)
    for shape, number in pending_by_shape.items():
        room = cycle.fit_counts.of(shape).domains(Pool.IDLE)
        holding = holding & (room >= number)
        amount += np.minimum(room, number)
        total += shape.request * number
    resources = np.flatnonzero(total)
    holding = holding & (cycle.ledger.domain_idle[resources] >= total[resources, None]).all(axis=0)
    level = np.full(len(domains), NO_TIER, dtype=np.int64)
    amount_held = np.zeros(len(domains), dtype=np.int64)
    around, inside = domains.copy(), np.ones(len(domains), dtype=bool)
    while inside.any():
        is_lowest_holding = inside & (level == NO_TIER) & holding[around]
        level[is_lowest_holding] = topology.tier[around[is_lowest_holding]]
        amount_held[inside] = amount[around[inside]]
        around = np.where(inside, topology.parent[around], around)
        inside &= around >= 0
        inside &= (topology.tier[around] <= limit) if limit is not None else False
    return level, -amount_held


# Proposals.


def _units_of(cycle: Cycle, task_group: TaskGroup) -> Units | None:
    """A task group as units of one task each; None if no plugin can recommend a domain for it."""
    if task_group.sub.constraint is None or any(cycle.pipeline.moving(p.pod_set.shape) for p in task_group.remaining):
        return None
    if len(task_group.remaining) > 1:
        return _mixed(cycle, task_group)
    tasks_left = task_group.remaining[0]
    if tasks_left.left < task_group.need:
        return None
    room_by_domain = cycle.fit_counts.of(tasks_left.pod_set.shape).domains(Pool.IDLE)
    return Units(tasks_left.pod_set.shape, task_group.need, 1, cycle.topology.own(room_by_domain), room_by_domain)


def _mixed(cycle: Cycle, task_group: TaskGroup) -> Units:
    """Units for several shapes: a domain counts as holding the fraction of the task group that it holds of its scarcest
    shape.
    """
    shares: list[Ints] = []
    tasks_missing = task_group.need
    for tasks_left in task_group.remaining:
        number = min(tasks_missing, tasks_left.left)
        tasks_missing -= number
        if number:
            own_room = cycle.topology.own(cycle.fit_counts.of(tasks_left.pod_set.shape).domains(Pool.IDLE))
            shares.append(np.minimum(own_room, number) * task_group.need // number)
    own_room = np.minimum.reduce(shares)
    return Units(None, task_group.need, 1, own_room, cycle.topology.roll_up(own_room))


def picks_of(cycle: Cycle, ask: Ask, units: Units, proposal: Proposal) -> list[Picks]:
    """The rows of each part of a proposal, chosen by node score."""
    near = replace(ask, distance_decided=True)
    return [
        place(cycle, near, count * units.size, cycle.topology.own_span(piece), Pool.IDLE)
        for piece, count in zip(proposal.pieces.tolist(), proposal.counts.tolist(), strict=True)
    ]


def _follow_proposal(
    cycle: Cycle, job: Job, task_group: TaskGroup, units: Units, proposal: Proposal
) -> SearchResult | None:
    """Place a task group as it was proposed, with the score of the domain before that; None where it does not fit."""
    cycle.report.search_counts.trials += 1
    worth = cycle.pipeline.score_domains(task_group.sub, np.array([proposal.domain]))
    placements = cycle.ledger.attempt(_follow, cycle, job, task_group, units, proposal)
    if placements is None:
        return None
    return SearchResult(proposal.domain, tuple(placements), float(worth[0]), proposal, terms=(Term.PROPOSED,))


def _follow(cycle: Cycle, job: Job, task_group: TaskGroup, units: Units, proposal: Proposal) -> list[Placement] | None:
    """Place a task group as it was proposed; None where it does not fit so."""
    if units.shape is None:
        placement = fit_any_way(cycle, job, task_group, proposal.domain, NOW_ONLY)
        return list(placement.placements) if isinstance(placement, SearchResult) else None
    pod_set = task_group.remaining[0].pod_set
    ask = Ask(pod_set.shape, task_group.sub, job)
    picked = picks_of(cycle, ask, units, proposal)
    picks = np.concatenate([rows for rows, _ in picked]), np.concatenate([counts for _, counts in picked])
    return [place_tasks(cycle, ask, pod_set, picks, Pool.IDLE)] if int(picks[1].sum()) == task_group.need else None
