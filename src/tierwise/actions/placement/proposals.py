"""Ask the proposing plugin for a domain before a gradient is searched, and try it; the search continues if it fails.

Called by `search` and `uniform_groups`. `units_of` and `group_units` describe what is to be placed. No proposal is
asked for a gang that has placed tasks or pod affinity: the positions of the other pods matter more there.
"""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from tierwise.actions.placement.demand import TaskGroup
from tierwise.actions.placement.fit import Placement, fit, place_tasks
from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import Abstained, Ask, Proposal, Units
from tierwise.framework.ledger import Pool
from tierwise.framework.placer import Picks, place
from tierwise.model.arrays import Ints
from tierwise.model.job import Job
from tierwise.model.shape import Shape

__all__ = ["group_units", "picks_of", "try_proposal", "units_of"]


def units_of(cycle: Cycle, task_group: TaskGroup) -> Units | None:
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


def group_units(cycle: Cycle, shape: Shape, *, groups: int, size: int, limit: int) -> Units:
    """Groups of equal size as units, each inside one innermost domain within their limit."""
    topology = cycle.topology
    own = topology.own(cycle.fit_counts.of(shape).domains(Pool.IDLE)) // size
    own[topology.tier > limit] = 0
    return Units(shape, groups, size, own, topology.roll_up(own))


def picks_of(cycle: Cycle, ask: Ask, units: Units, proposal: Proposal) -> list[Picks]:
    """The rows of each part of a proposal, chosen by node score."""
    near = replace(ask, distance_decided=True)
    return [
        place(cycle, near, count * units.size, cycle.topology.own_span(piece), Pool.IDLE)
        for piece, count in zip(proposal.pieces.tolist(), proposal.counts.tolist(), strict=True)
    ]


def try_proposal(
    cycle: Cycle, job: Job, task_group: TaskGroup, units: Units, group: Ints
) -> tuple[Proposal | Abstained | None, list[Placement] | None]:
    """Ask for a recommendation and try it; returns it, and the placement on the ledger if it works."""
    said = cycle.pipeline.propose(job, units, group)
    if not isinstance(said, Proposal):
        return said, None
    cycle.report.search_counts.trials += 1
    with cycle.ledger.statement() as statement:
        placements = _placed(cycle, job, task_group, units, said)
        if placements is not None:
            statement.keep()
    return said, placements


def _placed(cycle: Cycle, job: Job, task_group: TaskGroup, units: Units, proposal: Proposal) -> list[Placement] | None:
    if units.shape is None:
        return fit(cycle, job, task_group, proposal.domain, (Pool.IDLE,))
    pod_set = task_group.remaining[0].pod_set
    ask = Ask(pod_set.shape, task_group.sub, job)
    picked = picks_of(cycle, ask, units, proposal)
    picks = np.concatenate([rows for rows, _ in picked]), np.concatenate([counts for _, counts in picked])
    return [place_tasks(cycle, ask, pod_set, picks, Pool.IDLE)] if int(picks[1].sum()) == task_group.need else None
