"""The scores of the domains that could hold a gang, for `explain`: those of the first gradient with a solution."""

from __future__ import annotations

from tierwise.actions.placement.assign import assign
from tierwise.actions.placement.bounds import Room, may_hold
from tierwise.actions.placement.build import parts_of
from tierwise.actions.placement.demand import Demand, TaskGroup, demand, surplus
from tierwise.actions.placement.problem import BOTH, Budget, SearchResult
from tierwise.actions.placement.solve import shortlist
from tierwise.actions.placement.trial import fit_any_way
from tierwise.framework.cycle import Cycle
from tierwise.framework.ledger import Pool
from tierwise.model.arrays import Ints
from tierwise.model.job import Job, SubJob

__all__ = ["score_domains"]


def score_domains(cycle: Cycle, job: Job, sub: SubJob) -> dict[str, float]:
    """Score by name of every domain that holds the minimum, in the first gradient that has one."""
    asked = demand(cycle, job)
    if job.policies and sub.constraint is None and len(asked.task_groups) > 1:
        return _of_job(cycle, job, asked)
    task_group = _task_group_of(cycle, job, sub, asked)
    if task_group is None:
        return {}
    gang: Job | SubJob = sub if job.policies and sub.constraint is not None else job
    for group in cycle.pipeline.gradients(gang):
        holding = [
            d
            for d in group[may_hold(Room(cycle, Pool.FUTURE_IDLE), task_group, group)].tolist()
            if _holds(cycle, job, task_group, d)
        ]
        if holding:
            return _scores(cycle, task_group, group, holding)
    return {}


def _task_group_of(cycle: Cycle, job: Job, sub: SubJob, asked: Demand) -> TaskGroup | None:
    task_groups = (*asked.task_groups, *asked.spares, *surplus(cycle, job))
    return next((task_group for task_group in task_groups if task_group.sub is sub), None)


def _holds(cycle: Cycle, job: Job, task_group: TaskGroup, domain: int) -> bool:
    with cycle.ledger.statement():
        return isinstance(fit_any_way(cycle, job, task_group, domain, BOTH), SearchResult)


def _scores(cycle: Cycle, task_group: TaskGroup, group: Ints, holding: list[int]) -> dict[str, float]:
    kept = group[[i for i, d in enumerate(group.tolist()) if d in set(holding)]]
    scores = cycle.pipeline.score_domains(task_group.sub, kept)
    return {cycle.topology.name[d]: float(s) for d, s in zip(kept.tolist(), scores.tolist(), strict=True)}


def _of_job(cycle: Cycle, job: Job, asked: Demand) -> dict[str, float]:
    """A job's score for a domain is the sum of its sub-jobs' best scores in it."""
    whole = parts_of(cycle, job, asked)
    if whole is None:
        return {}
    for group in cycle.pipeline.gradients(job):
        found = {}
        for domain in shortlist(cycle, job, asked, group)[0].tolist():
            with cycle.ledger.statement():
                placed = assign(cycle, job, whole, domain, Budget(cycle.budget.steps))
                if isinstance(placed, SearchResult):
                    found[cycle.topology.name[domain]] = placed.score
        if found:
            return found
    return {}
