"""Say why a job with constraints on several trees found no place: what it asks for, and how far each constraint comes.

Each constraint is looked at by itself: where one alone cannot be met, that is what is missing; where each can, it is
all of them together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tierwise.actions.diagnosis.causes import asked_pods, causes, once_full
from tierwise.actions.placement.bounds import Room, most_tasks
from tierwise.actions.placement.demand import Demand, TaskGroup, shapes_of
from tierwise.actions.placement.limits import domain_of_rows
from tierwise.framework.cycle import Cycle
from tierwise.framework.ledger import Pool
from tierwise.model.arrays import distinct
from tierwise.model.job import Constraint, Job, Reason, Rejection, Tried

__all__ = ["each_by_itself", "unplaced_on_fabrics"]

_TOGETHER = "every one of these can be met by itself, but not all of them together"


def unplaced_on_fabrics(cycle: Cycle, job: Job, demand: Demand, *, bounded: bool) -> Rejection:
    """Why nothing of the demand was placed."""
    constraints, tried = list(_asked(job, demand)), each_by_itself(cycle, job, demand)
    words = "; ".join(f"{constraint.words()}{whose}" for constraint, _, whose in constraints)
    pods = asked_pods(cycle, job, demand)
    text = (
        f"no place for {pods} keeps every constraint: {words}" if constraints else f"no nodes have a place for {pods}"
    )
    short = tuple(t for t in tried if t.fits < t.asked)
    if constraints and not short and not bounded:
        text = f"{text}; {_TOGETHER}"
    return Rejection("fit", job.key, Reason("NoPlaceOnFabrics", "network-topology-aware", text), short, (), bounded)


def each_by_itself(cycle: Cycle, job: Job, demand: Demand) -> tuple[Tried, ...]:
    """How far each hard constraint of a job on several trees comes, as if there were no other."""
    tries = (_tried(cycle, constraint, groups) for constraint, groups, _ in _asked(job, demand))
    return tuple(tried for tried in tries if tried is not None)


def _asked(job: Job, demand: Demand) -> Iterator[tuple[Constraint, Sequence[TaskGroup], str]]:
    """Every hard constraint with the task groups that it is about together, and whose it is."""
    for constraint in (job.constraint, *job.further):
        if constraint is not None and constraint.hard:
            yield constraint, demand.task_groups, ""
    for number, group in enumerate(job.inner_groups):
        inside = [task_group for task_group in demand.task_groups if task_group.sub.inner_group == number]
        for constraint in (group.constraint, *group.further) if number else ():
            if constraint is not None and constraint.hard and inside:
                yield constraint, inside, f" for {job.part_names.of_group(group.path)} {group.path}"
    for index, policy in enumerate(job.policies):
        example = next((task_group for task_group in demand.task_groups if task_group.sub.policy == index), None)
        for constraint in (policy.constraint, *policy.further) if example is not None else ():
            if constraint is not None and constraint.hard and example is not None:
                yield constraint, (example,), f" for each {job.part_names.of(policy.name, policy.name)} {policy.name}"


def _tried(cycle: Cycle, constraint: Constraint, task_groups: Sequence[TaskGroup]) -> Tried | None:
    """How many of the tasks the best domain takes; of a spread, how many domains take one."""
    domain_of_row = domain_of_rows(cycle, constraint)
    topology = cycle.tree_of(constraint).topology
    if domain_of_row is None:
        return None
    shapes = shapes_of(task_groups)
    room = most_tasks(Room(cycle, Pool.FUTURE_IDLE), shapes)
    inside = np.flatnonzero(domain_of_row >= 0)
    takes = np.bincount(domain_of_row[inside], weights=room[inside], minlength=len(topology)).astype(np.int64)
    domains = distinct(domain_of_row[inside])
    need = sum(group.need for group in task_groups)
    layer = constraint.words()
    if not len(domains):
        return Tried(tier=0, domains=1, best="no domain", fits=0, asked=need, layer=layer, short="there is none")
    best = int(domains[np.lexsort((topology.rank[domains], -takes[domains]))[0]])
    rows = np.flatnonzero(domain_of_row == best)
    tier, name = int(topology.tier[best]), topology.name[best]
    if constraint.spread:
        able = int((takes[domains] > 0).sum())
        short = f"{able} of them {'takes' if able == 1 else 'take'} a pod"
        fits = need if able >= constraint.spread and need >= constraint.spread else 0
        return Tried(tier, len(domains), name, fits, need, len(rows), layer=layer, short=short)
    shape = max(shapes, key=lambda shape: int(shape.request.sum()))
    lacks = (causes(cycle, shape, rows) or once_full(cycle, shape, rows)) if takes[best] < need else ()
    return Tried(tier, len(domains), name, min(int(takes[best]), need), need, len(rows), lacks, layer)
