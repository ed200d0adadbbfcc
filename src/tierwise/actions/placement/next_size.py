"""Gangs of listed sizes: what brings one from its size to a larger one is placed whole or not at all.

Larger sizes come first. What has begun at one size grows to the next where there is room; it stays where it is before
it runs at a number between.
"""

from __future__ import annotations

from tierwise.actions.placement.demand import Demand, TaskGroup, larger_sizes, needs
from tierwise.actions.placement.problem import Placement
from tierwise.actions.placement.surplus import place_surplus
from tierwise.framework.cycle import Cycle
from tierwise.framework.ledger import ready_tasks
from tierwise.model.job import Job, Reason

__all__ = ["between_sizes", "place_next_size"]


def place_next_size(cycle: Cycle, job: Job) -> list[Placement]:
    """Place what lacks to the largest size that room and quotas allow now; nothing where they allow none."""
    for task_group in larger_sizes(cycle, job):
        if cycle.over_quota(job, needs(Demand((task_group,))), leaving=True) is not None:
            continue
        with cycle.ledger.statement() as statement:
            placed: list[Placement] = []
            for pod_set, number in task_group.taken():
                placed += place_surplus(cycle, job, TaskGroup.of(task_group.sub, pod_set, number))
            if sum(len(placement.rows) for placement in placed) == task_group.need:
                statement.keep()
                return placed
    return []


def between_sizes(cycle: Cycle, job: Job) -> Reason:
    """Why pods of a job wait that has a size: the next one has no room, or not enough pods."""
    (sub,) = job.subs
    ready = ready_tasks(cycle.ledger, sub)
    larger = [size for size in job.shape.wishes.sizes if size > ready]
    if not larger:
        return Reason("BetweenSizes", "sizes", f"it runs at its largest size, {ready}")
    text = f"its next size is {larger[0]}: it runs with {ready} pods, and starts {larger[0] - ready} more together"
    return Reason("BetweenSizes", "sizes", text)
