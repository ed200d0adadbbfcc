"""Nominations: place a nominated gang on the nodes that are reserved for it, without a search.

Called by `allocate` for a gang that holds a nomination; where one of its tasks no longer fits its node, or the gang no
longer meets its topology limits there, nothing is placed and `allocate` searches.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tierwise.actions.placement.apart import apart_from_others
from tierwise.actions.placement.choose import search_group
from tierwise.actions.placement.demand import Demand, RemainingTasks, TaskGroup
from tierwise.actions.placement.problem import BOTH, Placement, SearchResult, place_tasks
from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import Ask
from tierwise.framework.ledger import Pool
from tierwise.framework.placer import takes
from tierwise.framework.report import Term
from tierwise.model.arrays import Ints
from tierwise.model.job import Job, PodSet, SubJob
from tierwise.model.snapshot import Ground
from tierwise.model.topology import ROOT

__all__ = ["place_nominated", "to_nominate"]


def place_nominated(cycle: Cycle, job: Job, demand: Demand) -> SearchResult | None:
    """Place every demanded task on its nominated node. If one does not fit, undo everything and return None."""
    with cycle.ledger.statement() as statement:
        placements: list[Placement] = []
        for task_group in demand.task_groups:
            with apart_from_others(cycle, job, task_group.sub):
                group_placements = _place_task_group(cycle, job, task_group)
            if group_placements is None:
                return None
            placements += group_placements
        if not _within_limits(cycle, job):
            return None
        statement.keep()
        domain = cycle.current_domain(job)
        terms = (Term.NOMINATED,)
        return SearchResult(ROOT if domain is None else domain, tuple(placements), 0.0, terms=terms)


def to_nominate(placements: Sequence[Placement]) -> Sequence[Placement]:
    """The placements to reserve for a gang that waits: best-effort tasks beside others find a slot when they start."""
    with_resources = [p for p in placements if p.pool is not Pool.IDLE or not p.pod_set.shape.best_effort]
    return with_resources or placements


def _place_task_group(cycle: Cycle, job: Job, task_group: TaskGroup) -> list[Placement] | None:
    """Place a task group on its nominated nodes; best-effort tasks, which have none, where they find a slot."""
    placements: list[Placement] = []
    slots: list[RemainingTasks] = []
    missing = task_group.need
    owed = dict(task_group.roles)
    for tasks_left in task_group.remaining:
        role = tasks_left.pod_set.role_number
        max_of_role = max(
            missing - sum(owed.values()) + owed.get(role, 0), 0
        )  # the rest is for the minimums of other roles
        rows = _nominated_rows(cycle, tasks_left.pod_set, min(tasks_left.left, max_of_role))
        if tasks_left.pod_set.shape.best_effort and not len(rows):
            slots.append(tasks_left)
        placed = _place_on(cycle, Ask(tasks_left.pod_set.shape, task_group.sub, job), tasks_left.pod_set, rows)
        if placed is None:
            return None
        placements += placed
        missing -= len(rows)
        owed[role] = max(owed.get(role, 0) - len(rows), 0)
    if placements and 0 < missing <= sum(p.left for p in slots):
        placement = search_group(cycle, job, TaskGroup(task_group.sub, tuple(slots), missing, owed))
        if isinstance(placement, SearchResult):
            return [*placements, *placement.placements]
    return placements if missing <= 0 else None


def _nominated_rows(cycle: Cycle, pod_set: PodSet, max_tasks: int) -> Ints:
    """The nominated rows of the next tasks in rank order, up to the first task without a nomination."""
    nodes = []
    for task in cycle.backlog.peek(pod_set, max_tasks):
        if task.nominated < 0:
            break
        nodes.append(task.nominated)
    return cycle.nodes.rows[np.array(nodes, dtype=np.int64)]


def _place_on(cycle: Cycle, ask: Ask, pod_set: PodSet, rows: Ints) -> list[Placement] | None:
    """Place tasks on these rows: on idle resources if every node has enough, else on future idle ones."""
    if not len(rows):
        return []
    picks = np.unique(rows, return_counts=True)
    for pool in BOTH:
        if takes(cycle, ask, picks, pool):
            placed = place_tasks(cycle, ask, pod_set, picks, pool)
            return [Placement(placed.sub, pod_set, rows, pool)]  # each task keeps its nominated node
    return None


def _within_limits(cycle: Cycle, job: Job) -> bool:
    """Whether a gang, its inner groups and its sub-groups stand within their topology limits."""
    if cycle.snapshot.ground(job) is Ground.TREES:
        from tierwise.actions.placement.limits import within_limits

        return within_limits(cycle, job)
    alternate = cycle.alternate_topology(job)
    if alternate is not None:
        options = cycle.pipeline.gather_options(job, job.minimum)
        placed = cycle.ledger.placed_rows(job)
        if not options or placed is None:
            return True
        spread = alternate.topology.meet_rows(alternate.positions[placed[0]])
        return int(alternate.topology.tier[spread]) <= max(options[-1].tier, 1)
    inner = (job.group(number) for number in range(1, len(job.inner_groups)))
    gangs: tuple[Job | SubJob, ...] = (job, *inner, *job.subs)
    for gang in gangs:
        limit = cycle.pipeline.limit(gang)
        current = cycle.current_domain(gang)
        if limit is not None and current is not None and int(cycle.topology.tier[current]) > limit:
            return False
    return True
