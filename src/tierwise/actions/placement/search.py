"""Find the best domain for a task group: gradient by gradient, comparing all domains of a gradient.

`search_group` serves a single sub-job and a job without sub-jobs; `solve` serves a job with several. On success
the placement is on the ledger; on failure the ledger is unchanged.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec
import numpy as np
from msgspec.structs import replace

from tierwise.actions.placement.bounds import Room, may_hold
from tierwise.actions.placement.demand import RemainingTasks, TaskGroup
from tierwise.actions.placement.fit import Placement, fit, largest_first
from tierwise.actions.placement.proposals import try_proposal, units_of
from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import Abstained, Ask, Gradients, Proposal
from tierwise.framework.ledger import Pool
from tierwise.model.arrays import Bools, Floats, Ints
from tierwise.model.job import Job, SubJob
from tierwise.model.shape import Shape
from tierwise.model.topology import ROOT

__all__ = [
    "BOTH",
    "GRAIN",
    "NOW_ONLY",
    "NoPlace",
    "SearchResult",
    "by_score",
    "candidates",
    "current_domain",
    "fit_any_way",
    "ordered",
    "pending",
    "previous_domain",
    "search_group",
    "surplus_keys",
]

BOTH = (Pool.IDLE, Pool.FUTURE_IDLE)
NOW_ONLY = (Pool.IDLE,)

GRAIN = 2.0**20
"""Scores are compared in steps of a millionth, so that rounding noise decides nothing."""


class SearchResult(msgspec.Struct, frozen=True):
    """A place for one task group or a whole job, already on the ledger."""

    domain: int
    placements: tuple[Placement, ...]
    score: float
    proposed: Proposal | Abstained | None = None  # the plugin's recommendation, whether followed or not


class NoPlace(enum.Enum):
    """No place was found, and whether that proves that there is none."""

    PROVEN = "proven"
    BOUNDED = "bounded"  # the search stopped at its bound, so the no is not a proof

    @classmethod
    def of(cls, *, bounded: bool) -> NoPlace:
        return cls.BOUNDED if bounded else cls.PROVEN


def current_domain(cycle: Cycle, gang: Job | SubJob) -> int | None:
    """The innermost domain around all placed tasks of a gang; None if none is placed."""
    span = cycle.ledger.placed_span(gang)
    return cycle.topology.meet_span(*span) if span is not None else None


def previous_domain(cycle: Cycle, sub: SubJob) -> int | None:
    """The domain that a sub-job last ran in; None if it runs now, or if that domain no longer exists."""
    return (
        cycle.topology.index.get(sub.previous_domain)
        if sub.previous_domain and cycle.ledger.placed_rows(sub) is None
        else None
    )


def candidates(cycle: Cycle, gang: Job | SubJob, within: int) -> Gradients:
    """The gradients to try, in order.

    A gang with placed tasks has one candidate, the widest domain around them that its limit allows: from there `walk`
    places the other tasks nearest first, which is finer than any order of domains.
    """
    groups = cycle.pipeline.gradients(gang, within)
    if current_domain(cycle, gang) is None:
        return groups
    widest = [int(group[0]) for group in groups]
    return (np.array([min(widest)]),) if widest else ()


def search_group(
    cycle: Cycle, job: Job, task_group: TaskGroup, *, within: int = ROOT, pools: tuple[Pool, ...] = BOTH
) -> SearchResult | NoPlace:
    """The best place for one task group inside a domain, written to the ledger. A recommended domain of a gradient is
    tried first.
    """
    gang: Job | SubJob = task_group.sub if job.policies else job
    near = current_domain(cycle, job) if job.policies else None
    units = units_of(cycle, task_group) if cycle.pipeline.proposes and current_domain(cycle, job) is None else None
    said: Proposal | Abstained | None = None
    bounded = False
    for group in candidates(cycle, gang, within):
        if units is not None:
            said, placements = try_proposal(cycle, job, task_group, units, group)
            if isinstance(said, Proposal) and placements is not None:
                worth = cycle.pipeline.score_domains(task_group.sub, np.array([said.domain]))
                return SearchResult(said.domain, tuple(placements), float(worth[0]), said)
        for domain, score in ordered(cycle, task_group, group, near, pools):
            placed = fit_any_way(cycle, job, task_group, domain, pools)
            if not isinstance(placed, NoPlace):
                return SearchResult(domain, tuple(placed), score, said)
            bounded |= placed is NoPlace.BOUNDED
    return NoPlace.of(bounded=bounded)


_Way = Callable[[Cycle, Job, TaskGroup, int, tuple[Pool, ...]], list[Placement] | None]
"""Places a task group below a domain, or finds that the domain does not hold it."""


def fit_any_way(
    cycle: Cycle, job: Job, task_group: TaskGroup, domain: int, pools: tuple[Pool, ...]
) -> list[Placement] | NoPlace:
    """Place a task group below a domain.

    A task group of several shapes is tried in several orders, placed by score. If all fail, `tied_tasks` tries the
    places that pod affinity may tie tasks to, and where filters do not move `mixtures` counts which mixtures the
    nodes take.
    """
    for tried in _orders(cycle, job, task_group, domain, pools):
        cycle.report.search_counts.trials += 1
        placements = _placed(fit, cycle, job, tried, domain, pools)
        if placements is not None:
            return placements
    shapes = {tasks_left.pod_set.shape.number: tasks_left.pod_set.shape for tasks_left in task_group.remaining}
    if any(map(cycle.pipeline.moving, shapes.values())):
        from tierwise.actions.placement.tied_tasks import TooManyPlacesError, fit_tied  # rarely needed

        try:
            placements = _placed(fit_tied, cycle, job, task_group, domain, pools)
        except TooManyPlacesError:
            return NoPlace.BOUNDED
        if placements is not None:
            return placements
    if len(shapes) == 1:  # there is no mixture
        return NoPlace.of(bounded=not all(map(cycle.pipeline.order_free, shapes.values())))
    from tierwise.actions.placement.mixtures import OutOfBoundError, fit_mixed  # rarely needed

    try:
        placements = _placed(fit_mixed, cycle, job, task_group, domain, pools)
    except OutOfBoundError:
        return NoPlace.BOUNDED
    return placements if placements is not None else NoPlace.PROVEN


def _placed(
    way: _Way, cycle: Cycle, job: Job, task_group: TaskGroup, domain: int, pools: tuple[Pool, ...]
) -> list[Placement] | None:
    """What one way of placing a task group finds, on the ledger; nothing of it stays there where it finds none."""
    with cycle.ledger.statement() as statement:
        placements = way(cycle, job, task_group, domain, pools)
        if placements is not None:
            statement.keep()
        return placements


def _orders(cycle: Cycle, job: Job, task_group: TaskGroup, domain: int, pools: tuple[Pool, ...]) -> Iterator[TaskGroup]:
    """The task group as it is, with its largest tasks first, and, where filters move so that nobody counts mixtures,
    with the tasks first that the fewest nodes take: all of these, then each kind of them that is among the fewest.
    """
    yield task_group
    if len(task_group.remaining) == 1:
        return
    yield largest_first(cycle, task_group)
    if not any(cycle.pipeline.moving(tasks_left.pod_set.shape) for tasks_left in task_group.remaining):
        return
    span = cycle.topology.span(domain)

    def nodes(tasks_left: RemainingTasks) -> int:
        ask = Ask(tasks_left.pod_set.shape, task_group.sub, job)
        return int(np.count_nonzero(cycle.fits(ask, span, pools[-1])))

    fewest = sorted(task_group.remaining, key=nodes)
    for first in fewest[: cycle.budget.orders]:
        others = [tasks_left for tasks_left in fewest if tasks_left is not first]
        yield replace(task_group, remaining=(first, *others))


def ordered(
    cycle: Cycle, task_group: TaskGroup, group: Ints, near: int | None, pools: tuple[Pool, ...]
) -> Iterator[tuple[int, float]]:
    """The domains of a gradient that may hold a task group, best first.

    Compared by: fits idle resources now, near the previous domain of the sub-job, near the job's other tasks, holds the
    surplus as well, score, room for the surplus, name.
    """
    cycle.report.search_counts.domains += len(group)
    feasible = group[may_hold(Room(cycle, pools[-1]), task_group, group)]
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
    ahead = surplus_keys(cycle, gang, domains, pending(cycle, gang), task_group.need)
    keys: list[Floats | Ints | Bools] = [*by_score(scores, ahead)]
    for place in (near, previous_domain(cycle, task_group.sub)):
        if place is not None:
            keys.append(cycle.topology.meeting_tiers(place)[domains])
    if cycle.ledger.any_releasing:
        keys.append(~may_hold(Room(cycle, Pool.IDLE), task_group, domains))
    left = np.arange(len(domains))
    for key in reversed(keys):
        left = left[key[left] == key[left].min()]
    first = int(left[np.argmin(cycle.topology.rank[domains[left]])])
    yield first
    for i in np.lexsort((cycle.topology.rank[domains], *keys)).tolist():
        if i != first:
            yield i


def by_score(scores: Floats, ahead: Sequence[Ints]) -> tuple[Floats | Ints, ...]:
    """Sort keys for `lexsort` from scores and `surplus_keys`: a gang that fits one domain as a whole is not torn apart
    for a score, and among domains with equal scores the one with more room goes first.
    """
    return *ahead[1:], -np.rint(scores * GRAIN), *ahead[:1]


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
    cycle: Cycle,
    gang: Job | SubJob,
    domains: Ints,
    whole: Mapping[Shape, int],
    need: int,
    *,
    also: Bools | None = None,
) -> tuple[Ints, ...]:
    """Sort keys that prefer domains with capacity for the surplus, the most significant first; empty without surplus.

    The first key is the tier of the innermost domain around the candidate, within the gang's limit, that holds all
    pending tasks. The second is how many of them the outermost of these domains holds, where none holds all. `also`
    restricts which domains count.
    """
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
