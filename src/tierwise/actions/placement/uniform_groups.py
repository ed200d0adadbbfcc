"""Place many sub-jobs of equal size at once: one domain for the job, and inner domains for its groups.

Called by `sub_groups`. Groups are uniform when they need the same number of tasks of one plain shape under the same
tier limit, and none has placed tasks. Their tasks are interchangeable, so a domain within the limit holds floor(fit
count / size) groups and sums over the tree are exact for all candidates at once. The result equals placing one group
after the other, each in the best domain of its tightest gradient.

Groups of the same tasks of several shapes, such as a leader and its workers, are placed in the same way. What a domain
holds of them is counted from above: it is never too few, so what it rules out is ruled out, and where it was too many
the caller searches again without it.
"""

from __future__ import annotations

import msgspec
import numpy as np
from msgspec.structs import replace

from tierwise.actions.placement.demand import Demand, TaskGroup
from tierwise.actions.placement.fit import Placement
from tierwise.actions.placement.proposals import group_units, picks_of
from tierwise.actions.placement.search import (
    NoPlace,
    SearchResult,
    by_score,
    current_domain,
    pending,
    previous_domain,
    surplus_keys,
)
from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import Ask, Gradients, Proposal, Units
from tierwise.framework.ledger import Pool
from tierwise.framework.placer import Picks
from tierwise.framework.walk import walk
from tierwise.model.arrays import Bools, Floats, Ints
from tierwise.model.job import Job
from tierwise.model.shape import Shape
from tierwise.model.topology import ROOT

__all__ = ["UniformGroups", "bundled_groups", "groups_held", "holds", "place_uniform", "uniform_groups"]


_FEW = 8
"""Up to this many sub-jobs, each one's previous domain is considered; more are placed without regard to it."""


class UniformGroups(msgspec.Struct, frozen=True):
    """`len(task groups)` groups of the same tasks, each inside one domain of at most `limit`."""

    job: Job
    task_groups: tuple[TaskGroup, ...]
    parts: tuple[tuple[Shape, int], ...]  # of a group: so many tasks of a shape from each of its pod sets
    limit: int
    spares: int = 0  # further groups, placed later as surplus

    @property
    def size(self) -> int:
        """How many tasks a group has."""
        return sum(count for _, count in self.parts)


def uniform_groups(cycle: Cycle, job: Job, demand: Demand) -> UniformGroups | None:
    """The demand as groups of one pod set each; None if its task groups differ, or the job is nested."""
    first = demand.task_groups[0]
    parts = ((first.remaining[0].pod_set.shape, first.need),) if len(first.remaining) == 1 else ()
    return _alike(cycle, job, demand, parts)


def bundled_groups(cycle: Cycle, job: Job, demand: Demand) -> UniformGroups | None:
    """The demand as groups of all tasks of several pod sets; None if its task groups differ, or the job is nested."""
    first = demand.task_groups[0]
    parts = tuple((tasks_left.pod_set.shape, tasks_left.left) for tasks_left in first.remaining)
    every = sum(count for _, count in parts)
    return _alike(cycle, job, demand, parts) if len(parts) > 1 and every == first.need else None


def _alike(cycle: Cycle, job: Job, demand: Demand, parts: tuple[tuple[Shape, int], ...]) -> UniformGroups | None:
    """The demand as groups of these parts; None if some of its task groups have others, or the job is nested."""
    if job.inner_groups or not parts:
        return None
    task_groups = demand.task_groups
    first = task_groups[0]
    limit = cycle.pipeline.limit(first.sub)
    if limit is None or any(cycle.pipeline.moving(shape) for shape, _ in parts):
        return None
    if len(task_groups) <= _FEW and any(
        previous_domain(cycle, task_group.sub) is not None for task_group in task_groups
    ):
        return None  # their previous domains differ
    policy = first.sub.policy
    if len({task_group.sub.number for task_group in task_groups}) < len(task_groups):
        return None
    for task_group in task_groups:
        same = (
            task_group.sub.policy == policy
            and task_group.need == first.need
            and task_group.sub.total == first.sub.total
        )
        if not same or len(task_group.remaining) != len(parts):
            return None
        for (shape, count), tasks_left in zip(parts, task_group.remaining, strict=True):
            if tasks_left.pod_set.shape is not shape or (len(parts) > 1 and tasks_left.left != count):
                return None
        if cycle.ledger.placed_rows(task_group.sub) is not None:
            return None
    return UniformGroups(job, task_groups, parts, limit, len(demand.spares))


def groups_held(cycle: Cycle, groups: UniformGroups, pool: Pool) -> Ints:
    """How many groups every domain of the tree holds; never too few, and exact for one shape."""
    return _held(cycle, groups, _room(cycle, groups, pool))


def _held(cycle: Cycle, groups: UniformGroups, room: Ints) -> Ints:
    topology = cycle.topology
    inside = topology.tier <= groups.limit
    outermost = inside & ~np.append(inside, False)[topology.parent]  # parent -1 of the root picks the added False
    return np.where(inside, room, topology.roll_up(np.where(outermost, room, 0)))


def holds(cycle: Cycle, groups: UniformGroups, domain: int, number: int) -> bool:
    """Whether a domain holds so many of the groups on idle resources: they are placed, and nothing stays."""
    with cycle.ledger.statement():
        return _place(cycle, replace(groups, task_groups=groups.task_groups[:number]), domain) is not None


def _room(cycle: Cycle, groups: UniformGroups, pool: Pool) -> Ints:
    """How many groups the nodes of each domain take, wherever the tasks of a group stand in it.

    For several shapes the least of what can be counted: each shape by itself; all tasks together, of which a node takes
    no more than of one that asks for the least of everything; and all that they ask for, resource by resource.
    """
    numbers: dict[Shape, int] = {}
    for shape, count in groups.parts:
        numbers[shape] = numbers.get(shape, 0) + count
    fits = {shape: cycle.fit_counts.of(shape) for shape in numbers}
    most: Ints = np.minimum.reduce([fits[shape].domains(pool) // number for shape, number in numbers.items()])
    if len(numbers) == 1:
        return most
    asked = np.stack([shape.request for shape in numbers])
    whole = np.array(list(numbers.values())) @ asked
    resources = np.flatnonzero(whole)
    takes = np.add.reduce([fit.rows(pool) for fit in fits.values()])
    free = np.maximum(cycle.ledger.free(resources, slice(0, len(takes)), pool), 0)
    free[:, takes == 0] = 0
    for i, r in enumerate(resources.tolist()):
        least = int(asked[:, r].min())
        if least:
            takes = np.minimum(takes, free[i] // least)
        np.minimum(most, cycle.topology.totals(free[i]) // int(whole[r]), out=most)
    return np.minimum(most, cycle.topology.totals(takes) // groups.size)


def place_uniform(cycle: Cycle, groups: UniformGroups, candidates: Gradients) -> SearchResult | NoPlace:
    """Place all groups in the best candidate of the first gradient that holds them; a proposal is tried first.

    `BOUNDED` where the best candidate does not hold what was counted, which may be too many for several shapes.
    """
    room = _room(cycle, groups, Pool.IDLE)
    held = _held(cycle, groups, room)
    units = _units(cycle, groups)
    for group in candidates:
        cycle.report.search_counts.domains += len(group)
        feasible = group[held[group] >= len(groups.task_groups)]
        if len(feasible):
            said = cycle.pipeline.propose(groups.job, units, feasible) if units is not None else None
            if units is not None and isinstance(said, Proposal):
                worth = _worth(cycle, groups, np.array([said.domain]), room)
                placements = _place_proposed(cycle, groups, units, said)
                return SearchResult(said.domain, tuple(placements), float(worth[0]), said)
            feasible = np.sort(feasible)  # preorder, so that inner domains find their owner by bisection
            score = _worth(cycle, groups, feasible, room)
            best = _best(cycle, groups, feasible, score, held)
            with cycle.ledger.statement() as statement:
                placed = _place(cycle, groups, int(feasible[best]))
                if placed is None:
                    return NoPlace.BOUNDED
                statement.keep()
                return SearchResult(int(feasible[best]), tuple(placed), float(score[best]), said)
    return NoPlace.PROVEN


def _units(cycle: Cycle, groups: UniformGroups) -> Units | None:
    """The units to ask a recommendation for; None if no plugin recommends, or tasks of the job are placed already."""
    if not cycle.pipeline.proposes or len(groups.parts) > 1 or current_domain(cycle, groups.job) is not None:
        return None
    ((shape, size),) = groups.parts
    return group_units(cycle, shape, groups=len(groups.task_groups), size=size, limit=groups.limit)


def _place_proposed(cycle: Cycle, groups: UniformGroups, units: Units, proposal: Proposal) -> list[Placement]:
    ((shape, size),) = groups.parts
    ask = Ask(shape, groups.task_groups[0].sub, groups.job)
    cycle.report.search_counts.trials += 1
    dealt = _write(cycle, ask, picks_of(cycle, ask, units, proposal), size)
    return [_stand(cycle, task_group, 0, rows) for task_group, rows in zip(groups.task_groups, dealt, strict=False)]


def _best(cycle: Cycle, groups: UniformGroups, feasible: Ints, score: Floats, held: Ints) -> int:
    """The best candidate: near the job's placed tasks, then one that holds the surplus, score, capacity and name."""
    near = current_domain(cycle, groups.job)
    distance = cycle.topology.meeting_tiers(near)[feasible] if near is not None else np.zeros(len(feasible))
    ahead = surplus_keys(
        cycle,
        groups.job,
        feasible,
        pending(cycle, groups.job),
        len(groups.task_groups) * groups.size,
        also=held >= len(groups.task_groups) + groups.spares,
    )
    keys = (cycle.topology.rank[feasible], *by_score(score, ahead), distance)
    return int(np.lexsort(keys)[0])


def _worth(cycle: Cycle, groups: UniformGroups, feasible: Ints, every: Ints) -> Floats:
    """For each candidate the sum of its groups' scores, each group in the best inner domain that is left."""
    topology = cycle.topology
    near = current_domain(cycle, groups.job)
    inner, owner = _inner(cycle, groups, feasible)
    room = every[inner]
    missing = np.full(len(feasible), len(groups.task_groups), dtype=np.int64)
    score = np.zeros(len(feasible))
    tiers = topology.tier[inner]
    for tier in sorted(set(tiers.tolist())):
        at = np.flatnonzero(tiers == tier)
        at = at[room[at] > 0]
        if len(at) and missing.any():
            number = _fill(cycle, groups, (inner[at], owner[at], room[at]), missing, near)
            worth = cycle.pipeline.score_domains(groups.task_groups[0].sub, inner[at], copies=number)
            score += np.bincount(owner[at], weights=worth, minlength=len(feasible))
            missing -= np.bincount(owner[at], weights=number, minlength=len(feasible)).astype(np.int64)
            _charge_above(topology.last, inner, room, at, number)
    return score


def _inner(cycle: Cycle, groups: UniformGroups, feasible: Ints) -> tuple[Ints, Ints]:
    """The domains below the candidates that are within the groups' limit, and the candidate of each."""
    within = np.flatnonzero(cycle.topology.tier <= groups.limit)
    owner = np.searchsorted(feasible, within, side="right") - 1
    inside = (owner >= 0) & (within < cycle.topology.last[feasible[owner]])
    return within[inside], owner[inside]


def _fill(cycle: Cycle, groups: UniformGroups, tier: tuple[Ints, Ints, Ints], missing: Ints, near: int | None) -> Ints:
    """Assign groups to domains of one tier in the order of preference, until each candidate has enough."""
    domains, owner, room = tier
    distance = cycle.topology.meeting_tiers(near)[domains] if near is not None else np.zeros(len(domains))
    scores = cycle.pipeline.score_domains(groups.task_groups[0].sub, domains)
    ahead = _with_spares(cycle, groups, domains)
    keys = (cycle.topology.rank[domains], *by_score(scores, ahead), distance, owner)
    order = np.lexsort(keys)
    taken = np.cumsum(room[order])
    starts: Bools = np.append(True, owner[order][1:] != owner[order][:-1])
    before = taken - room[order]
    base = np.maximum.accumulate(np.where(starts, before, 0))
    result = np.empty(len(domains), dtype=np.int64)
    result[order] = np.clip(missing[owner[order]] - (before - base), 0, room[order])
    return result


def _charge_above(last: Ints, inner: Ints, room: Ints, at: Ints, used: Ints) -> None:
    """Subtract what the domains `at` use from the capacity of the domains around them."""
    own = np.zeros(len(inner), dtype=np.int64)
    own[at] = used
    upto = np.concatenate(([0], np.cumsum(own)))
    room -= upto[np.searchsorted(inner, last[inner])] - upto[:-1]


def _place(cycle: Cycle, groups: UniformGroups, domain: int) -> list[Placement] | None:
    """Write the groups to the ledger below one domain, tier by tier, close to the first group.

    None where nodes do not take what was counted, or no more is counted before all have a place.
    """
    placements: list[Placement] = []
    left = groups.task_groups
    for tier in cycle.topology.by_tier(domain, groups.limit):
        room = _room(cycle, groups, Pool.IDLE)[tier]
        able, room = tier[room > 0], room[room > 0]
        if left and len(able):
            near = current_domain(cycle, groups.job)
            if near is None:
                near = _first(cycle, groups, able)
            owner = np.zeros(len(able), dtype=np.int64)
            number = _fill(cycle, groups, (able, owner, room), np.array([len(left)]), near)
            placed = _place_tier(cycle, groups, able[number > 0], number[number > 0], left)
            if placed is None:
                return None
            placements += placed
            left = left[int(number.sum()) :]
    return placements if not left else None


def _first(cycle: Cycle, groups: UniformGroups, able: Ints) -> int:
    """The domain of the first group."""
    scores = cycle.pipeline.score_domains(groups.task_groups[0].sub, able)
    ahead = _with_spares(cycle, groups, able)
    return int(able[np.lexsort((cycle.topology.rank[able], *by_score(scores, ahead)))[0]])


def _with_spares(cycle: Cycle, groups: UniformGroups, domains: Ints) -> tuple[Ints, ...]:
    """Which domains also hold a group's surplus."""
    sub = groups.task_groups[0].sub
    return surplus_keys(cycle, sub, domains, pending(cycle, sub), groups.size)


def _place_tier(
    cycle: Cycle, groups: UniformGroups, domains: Ints, numbers: Ints, task_groups: tuple[TaskGroup, ...]
) -> list[Placement] | None:
    """Place a number of groups in each of some disjoint, ascending domains; task groups are used in order.

    The largest tasks of all groups go first, because they fit the fewest nodes. None where a domain takes too few.
    """
    scale = np.maximum(cycle.ledger.domain_allocatable[:, ROOT], 1)
    order = sorted(range(len(groups.parts)), key=lambda i: -float((groups.parts[i][0].request / scale).max()))
    dealt: dict[int, list[Ints]] = {}
    for i in order:
        shape, count = groups.parts[i]
        ask = Ask(shape, groups.task_groups[0].sub, groups.job)
        picked = []
        for domain, number in zip(domains.tolist(), (numbers * count).tolist(), strict=True):
            picked.append(walk(cycle, ask, number, domain, Pool.IDLE))
            if int(picked[-1][1].sum()) < number:
                return None
        dealt[i] = _write(cycle, ask, picked, count)
    return [
        _stand(cycle, task_group, i, dealt[i][number])
        for number, task_group in enumerate(task_groups[: int(numbers.sum())])
        for i in range(len(groups.parts))
    ]


def _write(cycle: Cycle, ask: Ask, picked: list[Picks], count: int) -> list[Ints]:
    """Write the rows of one part of whole groups to the ledger, and deal them: `count` to each group, in order."""
    rows = np.concatenate([rows for rows, _ in picked])
    counts = np.concatenate([counts for _, counts in picked])
    cycle.ledger.place(ask.shape, rows, counts, pool=Pool.IDLE)
    cycle.ledger.charge(ask.job, ask.shape.request * counts.sum())
    each = [np.repeat(rows, counts) for rows, counts in picked]
    return [rows[i : i + count] for rows in each for i in range(0, len(rows), count)]


def _stand(cycle: Cycle, task_group: TaskGroup, part: int, rows: Ints) -> Placement:
    pod_set = task_group.remaining[part].pod_set
    cycle.ledger.count_placed(task_group.sub, pod_set, rows, np.ones(len(rows), dtype=np.int64), pool=Pool.IDLE)
    return Placement(task_group.sub, pod_set, rows, Pool.IDLE)
