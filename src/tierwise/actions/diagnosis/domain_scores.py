"""The scores of the domains that could hold a gang, for `explain`: those of the first gradient with a solution."""

from __future__ import annotations

from tierwise.actions.placement.choose import search_group
from tierwise.actions.placement.demand import Demand, TaskGroup, demand, surplus
from tierwise.actions.placement.problem import SearchResult
from tierwise.actions.placement.solve import solve
from tierwise.framework.cycle import Cycle
from tierwise.model.job import Job, SubJob

__all__ = ["score_domains"]


def score_domains(cycle: Cycle, job: Job, sub: SubJob) -> dict[str, float]:
    """Score by name of every domain that holds the minimum, in the first gradient that has one.

    A job's score for a domain is the sum of its sub-jobs' best scores in it.
    """
    asked = demand(cycle, job)
    whole = job.policies and sub.constraint is None and len(asked.task_groups) > 1
    task_group = None if whole else _task_group_of(cycle, job, sub, asked)
    if not whole and task_group is None:
        return {}
    gang: Job | SubJob = sub if job.policies and sub.constraint is not None else job
    for group in cycle.pipeline.gradients(gang):
        scores = ((domain, _score(cycle, job, asked, task_group, domain)) for domain in group.tolist())
        found = {cycle.topology.name[domain]: score for domain, score in scores if score is not None}
        if found:
            return found
    return {}


def _task_group_of(cycle: Cycle, job: Job, sub: SubJob, asked: Demand) -> TaskGroup | None:
    task_groups = (*asked.task_groups, *asked.substitutes, *surplus(cycle, job))
    return next((task_group for task_group in task_groups if task_group.sub is sub), None)


def _score(cycle: Cycle, job: Job, asked: Demand, task_group: TaskGroup | None, domain: int) -> float | None:
    """What the search makes of one domain, for one task group or all that is asked; nothing stays on the ledger."""
    with cycle.ledger.statement():
        found = (
            solve(cycle, job, asked, within=domain)
            if task_group is None
            else search_group(cycle, job, task_group, within=domain)
        )
    return found.score if isinstance(found, SearchResult) else None
