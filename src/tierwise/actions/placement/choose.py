"""Choose a domain for a task group: gradient by gradient, comparing all domains of a gradient.

`search_group` serves a single sub-job and a job without sub-jobs; `solve` serves a job with several. On success the
placement is on the ledger; on failure the ledger is unchanged. A plugin may propose a domain before a gradient is
searched: it is tried first. None is asked for a gang that has placed tasks or pod affinity, because the positions of
the other pods matter more there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce

import numpy as np
from msgspec.structs import replace

from tierwise.actions.placement.bounds import Room, may_hold
from tierwise.actions.placement.demand import TaskGroup
from tierwise.actions.placement.problem import BOTH, NOW_ONLY, NoPlace, Placement, SearchResult, place_tasks
from tierwise.actions.placement.trial import fit_any_way
from tierwise.framework.closest import pieces_needed
from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import Abstained, Ask, Gradients, Proposal, Units
from tierwise.framework.ledger import Pool
from tierwise.framework.placer import GRAIN, Picks, place, room_ahead
from tierwise.model.arrays import Bools, Floats, Ints
from tierwise.model.job import Job, Shape, SubJob
from tierwise.model.topology import ROOT

__all__ = [
    "gradients_of",
    "ordered",
    "pending",
    "picks_of",
    "preference",
    "search_group",
    "surplus_keys",
]


def gradients_of(cycle: Cycle, gang: Job | SubJob, within: int) -> Gradients:
    """The gradients to try, in order.

    A gang with placed tasks has one candidate, the widest domain around them that its limit allows: from there `walk`
    places the other tasks nearest first, which is finer than any order of domains.
    """
    if _by_host(cycle, gang) and _everywhere(cycle, gang, within):
        return (np.array([within]),)
    gradients = cycle.pipeline.gradients(gang, within)
    if cycle.current_domain(gang) is None:
        return gradients
    widest = [int(gradient[0]) for gradient in gradients]
    return (np.array([min(widest)]),) if widest else ()


def _by_host(cycle: Cycle, gang: Job | SubJob) -> bool:
    """Whether a gang is one pod with devices that chooses its host, whatever leaf that is in: it is near to nothing."""
    if not isinstance(gang, Job) or len(gang.tasks) != 1 or not cycle.pipeline.room_ahead:
        return False
    request, least = gang.tasks[0].shape.request, gang.min_resources
    return (least is None or bool((least <= request).all())) and bool(request[cycle.view.axis.devices].any())


def _everywhere(cycle: Cycle, gang: Job | SubJob, within: int) -> bool:
    """Whether a domain is searched as a whole for a pod alone: its limit leaves out no row of it."""
    limit = cycle.pipeline.limit(gang)
    return limit is not None and bool(cycle.topology.loosest[within] <= limit)


def search_group(
    cycle: Cycle, job: Job, task_group: TaskGroup, *, within: int = ROOT, pools: tuple[Pool, ...] = BOTH
) -> SearchResult | NoPlace:
    """The best place for one task group inside a domain, written to the ledger. A recommended domain of a gradient is
    tried first.
    """
    gang: Job | SubJob = task_group.sub if job.policies else job
    near = cycle.current_domain(job) if job.policies else None
    units = _units_of(cycle, task_group) if cycle.pipeline.propose and cycle.current_domain(job) is None else None
    said: Proposal | Abstained | None = None
    bounded = False
    for gradient in gradients_of(cycle, gang, within):
        if units is not None:
            said = cycle.pipeline.propose(job, units, gradient)
            if isinstance(said, Proposal):
                proposed = _follow_proposal(cycle, job, task_group, units, said)
                if proposed is not None:
                    return proposed
        for domain, score in ordered(cycle, task_group, gradient, near, pools):
            found = fit_any_way(cycle, job, task_group, domain, pools)
            if isinstance(found, SearchResult):
                return replace(found, score=score, proposed=said)
            bounded |= found is NoPlace.BOUNDED
    return NoPlace.of(bounded=bounded)


def ordered(
    cycle: Cycle, task_group: TaskGroup, gradient: Ints, near: int | None, pools: tuple[Pool, ...]
) -> Iterator[tuple[int, float]]:
    """The domains of a gradient that may hold a task group, best first.

    Compared by: fits idle resources now, near the previous domain of the sub-job, near the job's other tasks, holds the
    surplus as well, score, room for the surplus, name. Where room is foreseen, the fewest innermost domains and the
    least room ahead come before the score.
    """
    cycle.report.search_counts.domains += len(gradient)
    cycle.steps.charge(3 + len(gradient) // 64)
    feasible = gradient[may_hold(Room(cycle, pools[-1]), task_group, gradient)]
    if len(feasible):
        scores = cycle.pipeline.score_domains(task_group.sub, feasible)
        for i in _best_first(cycle, task_group, feasible, scores, near):
            yield int(feasible[i]), float(scores[i])


def _best_first(cycle: Cycle, task_group: TaskGroup, domains: Ints, scores: Floats, near: int | None) -> Iterator[int]:
    """Indices of `domains` by preference. The first is found without sorting, and is usually the only one used."""
    if len(domains) == 1:
        yield 0
        return
    job = cycle.snapshot.jobs[task_group.sub.job_number]
    gang: Job | SubJob = task_group.sub if job.policies else job
    ahead = surplus_keys(cycle, gang, domains, task_group.need)
    plain = not ahead and not job.policies  # a surplus wants room, and sub-groups are counted as they come
    foreseen = _foreseen(cycle, job, task_group, domains) if plain else ()
    keys: list[Floats | Ints | Bools] = [*preference(cycle, domains, scores, near, ahead, foreseen)]
    previous = cycle.previous_domain(task_group.sub)
    if previous is not None:
        keys.append(cycle.topology.meeting_tiers(previous)[domains])
    if cycle.ledger.any_releasing:
        keys.append(~may_hold(Room(cycle, Pool.IDLE), task_group, domains))
    left = np.arange(len(domains))
    for key in reversed(keys):
        found = key[left]
        left = left[found == np.minimum.reduce(found)]
        if len(left) == 1:
            break
    first = int(left[0])
    yield first
    for i in np.lexsort(keys).tolist():
        if i != first:
            yield i


def _foreseen(cycle: Cycle, job: Job, task_group: TaskGroup, domains: Ints) -> tuple[Floats | Ints, ...]:
    """Sort keys by what a place there takes from others, the least significant first; empty where none is foreseen."""
    if task_group.sub.constraint is None:
        return ()
    most = max(task_group.remaining, key=lambda tasks_left: tasks_left.left)
    expected = room_ahead(cycle, Ask(most.pod_set.shape, task_group.sub, job))
    if expected is None:
        return ()
    least_ahead = np.rint(expected[domains] * GRAIN)
    if np.add.reduce(cycle.topology.last[domains] - domains) == len(domains):
        return (least_ahead,)  # they are innermost themselves
    bundle = task_group.firm() or ((most.pod_set.shape, min(task_group.need, most.left)),)
    needed = [
        pieces_needed(cycle.topology, cycle.fit_counts.of(shape).domains(Pool.IDLE), domains, count)
        for shape, count in bundle
    ]
    return least_ahead, reduce(np.maximum, needed)


def preference(
    cycle: Cycle,
    domains: Ints,
    scores: Floats,
    near: int | None = None,
    ahead: Sequence[Ints] = (),
    foreseen: Sequence[Floats | Ints] = (),
) -> tuple[Floats | Ints, ...]:
    """Sort keys for `lexsort`, the least significant first: domains near one, then by `surplus_keys`, score and name.

    A gang that fits one domain as a whole is not torn apart for a score, and among domains with equal scores the one
    with more room goes first.
    """
    by_score = (cycle.topology.rank[domains], *ahead[1:], -np.rint(scores * GRAIN), *foreseen, *ahead[:1])
    return by_score if near is None else (*by_score, cycle.topology.meeting_tiers(near)[domains])


def pending(cycle: Cycle, gang: Job | SubJob) -> dict[Shape, int]:
    """How many tasks of each shape of a gang are pending."""
    subs = gang.subs if isinstance(gang, Job) else (gang,)
    found: dict[Shape, int] = {}
    for pod_set in (pod_set for sub in subs for pod_set in sub.pod_sets):
        left = cycle.backlog.left(pod_set)
        if left:
            found[pod_set.shape] = found.get(pod_set.shape, 0) + left
    return found


def surplus_keys(
    cycle: Cycle, gang: Job | SubJob, domains: Ints, need: int, *, also: Bools | None = None
) -> tuple[Ints, ...]:
    """Sort keys that prefer domains with capacity for the surplus, the most significant first; empty without surplus.

    The first key is the tier of the innermost domain around the candidate, within the gang's limit, that holds all
    pending tasks. The second is how many of them the outermost of these domains holds, where none holds all. `also`
    restricts which domains count.
    """
    whole = pending(cycle, gang)
    if sum(whole.values()) <= need:
        return ()
    topology, limit = cycle.topology, cycle.pipeline.limit(gang)
    holding = np.ones(len(topology), dtype=bool) if also is None else also
    amount = np.zeros(len(topology), dtype=np.int64)
    total = np.zeros(len(cycle.view.axis), dtype=np.int64)
    for shape, number in whole.items():
        room = cycle.fit_counts.of(shape).domains(Pool.IDLE)
        holding = holding & (room >= number)
        amount += np.minimum(room, number)
        total += shape.request * number
    asked = np.flatnonzero(total)
    holding = holding & (cycle.ledger.domain_idle[asked] >= total[asked, None]).all(axis=0)
    level = np.full(len(domains), 2**62, dtype=np.int64)
    most = np.zeros(len(domains), dtype=np.int64)
    around, inside = domains.copy(), np.ones(len(domains), dtype=bool)
    while inside.any():
        found = inside & (level == 2**62) & holding[around]
        level[found] = topology.tier[around[found]]
        most[inside] = amount[around[inside]]
        around = np.where(inside, topology.parent[around], around)
        inside &= around >= 0
        inside &= (topology.tier[around] <= limit) if limit is not None else False
    return level, -most


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
    held = cycle.fit_counts.of(tasks_left.pod_set.shape).domains(Pool.IDLE)
    return Units(tasks_left.pod_set.shape, task_group.need, 1, cycle.topology.own(held), held)


def _mixed(cycle: Cycle, task_group: TaskGroup) -> Units:
    """Units for several shapes: a domain counts as holding the fraction of the task group that it holds of its scarcest
    shape.
    """
    shares: list[Ints] = []
    left = task_group.need
    for tasks_left in task_group.remaining:
        number = min(left, tasks_left.left)
        left -= number
        if number:
            own = cycle.topology.own(cycle.fit_counts.of(tasks_left.pod_set.shape).domains(Pool.IDLE))
            shares.append(np.minimum(own, number) * task_group.need // number)
    own = np.minimum.reduce(shares)
    return Units(None, task_group.need, 1, own, cycle.topology.roll_up(own))


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
    return None if placements is None else SearchResult(proposal.domain, tuple(placements), float(worth[0]), proposal)


def _follow(cycle: Cycle, job: Job, task_group: TaskGroup, units: Units, proposal: Proposal) -> list[Placement] | None:
    """Place a task group as it was proposed; None where it does not fit so."""
    if units.shape is None:
        found = fit_any_way(cycle, job, task_group, proposal.domain, NOW_ONLY)
        return list(found.placements) if isinstance(found, SearchResult) else None
    pod_set = task_group.remaining[0].pod_set
    ask = Ask(pod_set.shape, task_group.sub, job)
    picked = picks_of(cycle, ask, units, proposal)
    picks = np.concatenate([rows for rows, _ in picked]), np.concatenate([counts for _, counts in picked])
    return [place_tasks(cycle, ask, pod_set, picks, Pool.IDLE)] if int(picks[1].sum()) == task_group.need else None
