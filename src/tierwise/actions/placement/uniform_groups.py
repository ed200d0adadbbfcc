"""Place many sub-jobs of equal size at once: one domain for the job, and inner domains for its groups.

Called by `sub_groups`. Groups are uniform when they need the same number of tasks of one plain shape under the same
tier limit, and none has placed tasks. Their tasks are interchangeable, so a domain within the limit holds floor(fit
count / size) groups and sums over the tree are exact for all candidates at once. The result equals placing one group
after the other, each in the best domain of its tightest gradient.
"""

from __future__ import annotations

import msgspec
import numpy as np

from tierwise.actions.placement.demand import Demand, TaskGroup
from tierwise.actions.placement.fit import Placement
from tierwise.actions.placement.proposals import group_units, picks_of
from tierwise.actions.placement.search import (
    GRAIN,
    SearchResult,
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

__all__ = ["UniformGroups", "groups_held", "place_uniform", "uniform_groups"]


_FEW = 8
"""Up to this many sub-jobs, each one's previous domain is considered; more are placed without regard to it."""


class UniformGroups(msgspec.Struct, frozen=True):
    """`len(task groups)` groups of `size` tasks of one shape, each inside one domain of at most `limit`."""

    job: Job
    task_groups: tuple[TaskGroup, ...]
    shape: Shape
    size: int
    limit: int
    spares: int = 0  # further groups, placed later as surplus


def uniform_groups(cycle: Cycle, job: Job, demand: Demand) -> UniformGroups | None:
    """The demand as uniform groups; None if its task groups differ, or the job is nested."""
    if job.inner_groups:
        return None
    task_groups = demand.task_groups
    first = task_groups[0]
    shape = first.remaining[0].pod_set.shape
    limit = cycle.pipeline.limit(first.sub)
    if limit is None or cycle.pipeline.moving(shape):
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
        if not same or len(task_group.remaining) != 1 or task_group.remaining[0].pod_set.shape is not shape:
            return None
        if cycle.ledger.placed_rows(task_group.sub) is not None:
            return None
    return UniformGroups(job, task_groups, shape, first.need, limit, len(demand.spares))


def groups_held(cycle: Cycle, groups: UniformGroups, pool: Pool) -> Ints:
    """How many groups every domain of the tree holds."""
    topology = cycle.topology
    room = cycle.fit_counts.of(groups.shape).domains(pool)
    inside = topology.tier <= groups.limit
    outermost = inside & ~np.append(inside, False)[topology.parent]  # parent -1 of the root picks the added False
    held = topology.roll_up(np.where(outermost, room // groups.size, 0))
    return np.where(inside, room // groups.size, held)


def place_uniform(cycle: Cycle, groups: UniformGroups, candidates: Gradients) -> SearchResult | None:
    """Place all groups in the best candidate of the first gradient that holds them; a proposal is tried first."""
    held = groups_held(cycle, groups, Pool.IDLE)
    units = _units(cycle, groups)
    for group in candidates:
        cycle.report.search_counts.domains += len(group)
        feasible = group[held[group] >= len(groups.task_groups)]
        if len(feasible):
            said = cycle.pipeline.propose(groups.job, units, feasible) if units is not None else None
            if units is not None and isinstance(said, Proposal):
                worth = _worth(cycle, groups, np.array([said.domain]))
                placements = _place_proposed(cycle, groups, units, said)
                return SearchResult(said.domain, tuple(placements), float(worth[0]), said)
            feasible = np.sort(feasible)  # preorder, so that inner domains find their owner by bisection
            score = _worth(cycle, groups, feasible)
            best = _best(cycle, groups, feasible, score, held)
            placements = _place(cycle, groups, int(feasible[best]))
            return SearchResult(int(feasible[best]), tuple(placements), float(score[best]), said)
    return None


def _units(cycle: Cycle, groups: UniformGroups) -> Units | None:
    """The units to ask a recommendation for; None if no plugin recommends, or tasks of the job are placed already."""
    if not cycle.pipeline.proposes or current_domain(cycle, groups.job) is not None:
        return None
    return group_units(cycle, groups.shape, groups=len(groups.task_groups), size=groups.size, limit=groups.limit)


def _place_proposed(cycle: Cycle, groups: UniformGroups, units: Units, proposal: Proposal) -> list[Placement]:
    ask = Ask(groups.shape, groups.task_groups[0].sub, groups.job)
    cycle.report.search_counts.trials += 1
    return _write(cycle, groups, picks_of(cycle, ask, units, proposal), groups.task_groups)


def _best(cycle: Cycle, groups: UniformGroups, feasible: Ints, score: Floats, held: Ints) -> int:
    """The best candidate: near the job's placed tasks, then by score, capacity for the surplus, and name."""
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
    keys = (cycle.topology.rank[feasible], *reversed(ahead), -np.rint(score * GRAIN), distance)
    return int(np.lexsort(keys)[0])


def _worth(cycle: Cycle, groups: UniformGroups, feasible: Ints) -> Floats:
    """For each candidate the sum of its groups' scores, each group in the best inner domain that is left."""
    topology = cycle.topology
    near = current_domain(cycle, groups.job)
    inner, owner = _inner(cycle, groups, feasible)
    room = cycle.fit_counts.of(groups.shape).domains(Pool.IDLE)[inner].copy()
    missing = np.full(len(feasible), len(groups.task_groups), dtype=np.int64)
    score = np.zeros(len(feasible))
    tiers = topology.tier[inner]
    for tier in sorted(set(tiers.tolist())):
        at = np.flatnonzero(tiers == tier)
        at = at[room[at] >= groups.size]
        if len(at) and missing.any():
            number = _fill(cycle, groups, (inner[at], owner[at], room[at] // groups.size), missing, near)
            worth = cycle.pipeline.score_domains(groups.task_groups[0].sub, inner[at], copies=number)
            score += np.bincount(owner[at], weights=worth, minlength=len(feasible))
            missing -= np.bincount(owner[at], weights=number, minlength=len(feasible)).astype(np.int64)
            _charge_above(topology.last, inner, room, at, number * groups.size)
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
    keys = (cycle.topology.rank[domains], *reversed(ahead), -np.rint(scores * GRAIN), distance, owner)
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


def _place(cycle: Cycle, groups: UniformGroups, domain: int) -> list[Placement]:
    """Write the groups to the ledger below one domain, tier by tier, close to the first group."""
    placements: list[Placement] = []
    for tier in cycle.topology.by_tier(domain, groups.limit):
        left = groups.task_groups[len(placements) :]
        room = cycle.fit_counts.of(groups.shape).domains(Pool.IDLE)[tier] // groups.size
        able, room = tier[room > 0], room[room > 0]
        if left and len(able):
            near = current_domain(cycle, groups.job)
            if near is None:
                near = _first(cycle, groups, able)
            owner = np.zeros(len(able), dtype=np.int64)
            number = _fill(cycle, groups, (able, owner, room), np.array([len(left)]), near)
            placements += _place_tier(cycle, groups, able[number > 0], number[number > 0], left)
    return placements


def _first(cycle: Cycle, groups: UniformGroups, able: Ints) -> int:
    """The domain of the first group."""
    scores = cycle.pipeline.score_domains(groups.task_groups[0].sub, able)
    ahead = _with_spares(cycle, groups, able)
    return int(able[np.lexsort((cycle.topology.rank[able], *reversed(ahead), -np.rint(scores * GRAIN)))[0]])


def _with_spares(cycle: Cycle, groups: UniformGroups, domains: Ints) -> tuple[Ints, ...]:
    """Which domains also hold a group's surplus."""
    sub = groups.task_groups[0].sub
    return surplus_keys(cycle, sub, domains, pending(cycle, sub), groups.size)


def _place_tier(
    cycle: Cycle, groups: UniformGroups, domains: Ints, numbers: Ints, task_groups: tuple[TaskGroup, ...]
) -> list[Placement]:
    """Place a number of groups in each of some disjoint, ascending domains; task groups are used in order."""
    ask = Ask(groups.shape, groups.task_groups[0].sub, groups.job)
    picked = [
        walk(cycle, ask, number * groups.size, domain, Pool.IDLE)
        for domain, number in zip(domains.tolist(), numbers.tolist(), strict=True)
    ]
    return _write(cycle, groups, picked, task_groups)


def _write(
    cycle: Cycle, groups: UniformGroups, picked: list[Picks], task_groups: tuple[TaskGroup, ...]
) -> list[Placement]:
    """Write the rows of whole groups to the ledger; task groups are used in order."""
    rows = np.concatenate([rows for rows, _ in picked])
    counts = np.concatenate([counts for _, counts in picked])
    cycle.ledger.place(groups.shape, rows, counts, pool=Pool.IDLE)
    cycle.ledger.charge(groups.job, groups.shape.request * counts.sum())
    each = [np.repeat(rows, counts) for rows, counts in picked]
    parts = [rows[i : i + groups.size] for rows in each for i in range(0, len(rows), groups.size)]
    return [_stand(cycle, task_group, rows) for task_group, rows in zip(task_groups, parts, strict=False)]


def _stand(cycle: Cycle, task_group: TaskGroup, rows: Ints) -> Placement:
    pod_set = task_group.remaining[0].pod_set
    cycle.ledger.count_placed(task_group.sub, pod_set, rows, np.ones(len(rows), dtype=np.int64), pool=Pool.IDLE)
    return Placement(task_group.sub, pod_set, rows, Pool.IDLE)
