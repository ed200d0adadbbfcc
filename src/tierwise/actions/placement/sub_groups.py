"""A job of several sub-jobs: one domain for the job, and inside it one for each sub-job, found together.

Gradients of the job from the tightest tier outwards; in a gradient every domain is held against what the job needs,
and the one whose sub-jobs score best in sum is taken. Alike sub-jobs go to `groups`, which sums for all domains at
once; all others go to `packing`, which does so for the most promising few.
"""

from __future__ import annotations

import numpy as np

from tierwise.actions.placement.backtracking import pack
from tierwise.actions.placement.demand import Demand
from tierwise.actions.placement.fit import Placement, bound
from tierwise.actions.placement.search import (
    GRAIN,
    NoPlace,
    SearchResult,
    candidates,
    current_domain,
    pending,
    search_group,
    surplus_keys,
)
from tierwise.actions.placement.uniform_groups import place_uniform, uniform_groups
from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import Gradients
from tierwise.framework.ledger import Pool
from tierwise.model.arrays import Ints
from tierwise.model.job import Job
from tierwise.model.topology import ROOT

__all__ = ["find_place", "search_job", "shortlist"]

_SHORTLIST = 8
"""How many candidates of a gradient are packed to compare their scores; further ones only if these all fail."""


def find_place(cycle: Cycle, job: Job, asked: Demand) -> SearchResult | NoPlace:
    """A place for the minimum of a job that is not gathered."""
    if not job.policies:
        return search_group(cycle, job, asked.task_groups[0])
    found = search_job(cycle, job, asked)
    if isinstance(found, NoPlace) and asked.alternatives is not None:
        return search_job(cycle, job, asked.alternatives)
    return found


def search_job(cycle: Cycle, job: Job, demand: Demand, *, within: int = ROOT) -> SearchResult | NoPlace:
    """A place for everything the job needs."""
    groups = tuple(candidates(cycle, job, within))
    uniform = uniform_groups(cycle, job, demand) if not demand.open else None
    if uniform is not None:
        found = place_uniform(cycle, uniform, groups)
        if found is not None:
            return found
        if not cycle.ledger.any_releasing and len(demand.spares) == 0:
            return NoPlace.PROVEN  # counting is exact: nothing that could be tried would fit
    return _search_unlike(cycle, job, demand, groups)


def _search_unlike(cycle: Cycle, job: Job, demand: Demand, groups: Gradients) -> SearchResult | NoPlace:
    bounded = False
    for group in groups:
        found, hit = _best_of(cycle, job, demand, shortlist(cycle, job, demand, group))
        bounded |= hit
        if found is not None:
            return found
    return NoPlace.of(bounded=bounded)


def shortlist(cycle: Cycle, job: Job, demand: Demand, group: Ints) -> Ints:
    """The domains of a group that pass every bound, best first by the sub-jobs' scores for the domain as a whole."""
    cycle.report.search_counts.domains += len(group)
    fits = _whole_bound(cycle, demand, group)
    if not demand.spares:
        for task_group in demand.task_groups:
            fits &= bound(cycle, task_group, group, Pool.FUTURE_IDLE)
    feasible = group[fits]
    if len(feasible) < 2:
        return feasible
    worth = sum(cycle.pipeline.score_domains(task_group.sub, feasible) for task_group in demand.task_groups)
    near = current_domain(cycle, job)
    distance = cycle.topology.meeting_tiers(near)[feasible] if near is not None else np.zeros(len(feasible))
    ahead = surplus_keys(cycle, job, feasible, pending(cycle, job), demand.tasks)
    keys = (cycle.topology.rank[feasible], *reversed(ahead), -np.rint(np.asarray(worth) * GRAIN), distance)
    return feasible[np.lexsort(keys)]


def _whole_bound(cycle: Cycle, demand: Demand, group: Ints) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Per shape, all task groups together must find room in the domain."""
    needs: dict[int, int] = {}
    shapes = {}
    for task_group in demand.task_groups:
        if len(task_group.remaining) == 1:
            shape = task_group.remaining[0].pod_set.shape
            shapes[shape.number] = shape
            needs[shape.number] = needs.get(shape.number, 0) + task_group.need
    fits = np.ones(len(group), dtype=bool)
    for number, need in needs.items() if not demand.spares else ():
        fits &= cycle.fit_counts.of(shapes[number]).domains(Pool.FUTURE_IDLE)[group] >= need
    return fits


def _best_of(cycle: Cycle, job: Job, demand: Demand, domains: Ints) -> tuple[SearchResult | None, bool]:
    """Pack the first few domains that work, keep the best; the ledger holds the winner's placement at the end."""
    best: tuple[float, int] | None = None
    bounded = False
    for tried, domain in enumerate(domains.tolist()):
        if best is not None and tried >= _SHORTLIST:
            break
        with cycle.ledger.statement():
            packing = pack(cycle, job, demand.task_groups, demand.spares, domain)
        bounded |= packing.bounded and packing.placements is None
        if packing.placements is not None and (best is None or packing.score > best[0] + 1e-6):
            best = (packing.score, domain)
    if best is None:
        return None, bounded
    placements: list[Placement] = pack(cycle, job, demand.task_groups, demand.spares, best[1]).placements or []
    return SearchResult(best[1], tuple(placements), best[0]), bounded
