"""Place tasks beyond a gang's minimum: as many as fit idle resources, near the gang's other tasks, within its limits.

Called by `allocate` once the minimum is placed. It never evicts and never waits for releases: surplus starts at once,
so quotas are asked with what terminating tasks still hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

import numpy as np
from msgspec.structs import replace

from tierwise.actions.placement.bounds import gradients_of
from tierwise.actions.placement.choose import search_group
from tierwise.actions.placement.demand import Demand, TaskGroup, needs
from tierwise.actions.placement.problem import (
    NOW_ONLY,
    NoPlace,
    Placement,
    SearchResult,
    first_found,
    found_on,
    written,
)
from tierwise.actions.placement.solve import solve
from tierwise.actions.placement.trial import close_others, put
from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import Ask, GatherOption
from tierwise.framework.ledger import sub_ready
from tierwise.model.arrays import Ints
from tierwise.model.gang import around
from tierwise.model.job import Job
from tierwise.model.snapshot import Ground
from tierwise.model.topology import ROOT

__all__ = ["place_allowed_surplus", "place_surplus", "place_surplus_group"]


def place_allowed_surplus(
    cycle: Cycle, job: Job, task_group: TaskGroup, planned: Ints | None = None
) -> list[Placement]:
    """Place what fits of a task group and quotas allow now; at most one task where placing a task moves the shares.

    Where all of it has room in the innermost domains that were `planned`, there.
    """
    allowed = _number_allowed(cycle, job, task_group)
    if not allowed:
        return []
    allowed_group = replace(task_group, need=allowed)
    if planned is not None:
        with cycle.ledger.statement():
            close_others(cycle, np.flatnonzero(np.isin(cycle.topology.leaf, planned)))
            placed = place_surplus(cycle, job, allowed_group)
        is_complete = sum(len(placement.rows) for placement in placed) == allowed
        if is_complete and not isinstance(written(cycle, job, found_on(cycle, placed)), NoPlace):
            return placed
    return place_surplus(cycle, job, allowed_group)


def _number_allowed(cycle: Cycle, job: Job, task_group: TaskGroup) -> int:
    if len(task_group.remaining) > 1:
        request = needs(Demand((task_group,)))
        return task_group.need if cycle.over_quota(job, request, leaving=True) is None else 0
    must_be_whole = _must_be_whole(cycle, job, task_group)
    together = must_be_whole or bool(cycle.pipeline.gather_options(job, task_group.need))
    number = 1 if cycle.pipeline.queue_order and not together else task_group.need
    with cycle.ledger.statement():
        cycle.ledger.count_leaving()
        allowed = cycle.pipeline.headroom(job, task_group.remaining[0].pod_set.shape.request, number)
    return 0 if must_be_whole and allowed < task_group.need else allowed


def _must_be_whole(cycle: Cycle, job: Job, task_group: TaskGroup) -> bool:
    """Whether a task group is a sub-job below its own minimum, which is placed whole or not at all."""
    return job.shape.parted and cycle.pipeline.gangs and not sub_ready(cycle.ledger, task_group.sub)


def place_surplus(cycle: Cycle, job: Job, task_group: TaskGroup) -> list[Placement]:
    """Place what fits of a task group: a sub-job below its own minimum whole or not at all, other tasks one by one."""
    turns = cycle.rows_in_turn(job)
    if turns is not None:
        return turns.in_turn(cycle, job, partial(place_surplus, cycle, job, task_group), bool)
    if job.shape.apart:
        from tierwise.actions.placement.apart import apart_from_others  # few gangs ask for it

        with apart_from_others(cycle, job, task_group.sub):
            return _place_surplus(cycle, job, task_group)
    return _place_surplus(cycle, job, task_group)


def _place_surplus(cycle: Cycle, job: Job, task_group: TaskGroup) -> list[Placement]:
    options = cycle.pipeline.gather_options(job, task_group.need)
    if options or cycle.snapshot.ground(job) is Ground.TREES:
        return _as_many_as_fit(cycle, job, task_group, options)
    if _must_be_whole(cycle, job, task_group):
        return _first_place(cycle, job, task_group)
    placements: list[Placement] = []
    gang = job.gang_of(task_group.sub)
    if cycle.pipeline.limit(gang) is not None and cycle.current_domain(gang) is None:
        # Its domain limits where the other tasks may go.
        placements += _first_place(cycle, job, replace(task_group, need=1))
        if not placements:
            return placements
    pod_set, missing = (
        task_group.remaining[0].pod_set,
        task_group.need - sum(len(placement.rows) for placement in placements),
    )
    ask = Ask(pod_set.shape, task_group.sub, job)
    for outer in _domains(cycle, job, task_group.sub.inner_group):
        for gradient in gradients_of(cycle, gang, outer):
            further_placements = put(cycle, ask, pod_set, missing, int(gradient[0]), NOW_ONLY)
            if further_placements:
                return placements + further_placements
    return placements


def _as_many_as_fit(cycle: Cycle, job: Job, task_group: TaskGroup, options: Sequence[GatherOption]) -> list[Placement]:
    """As many tasks of a job that is gathered, or on several trees, as fit beside the others."""

    def placed(number: int, *, keep: bool = True) -> list[Placement]:
        with cycle.ledger.statement() as statement:
            part_demand = Demand((replace(task_group, need=number),))
            placements = _first_of(cycle, (solve(cycle, job, part_demand, pools=NOW_ONLY),))
            if keep and placements:
                statement.keep()
            return placements

    if options:
        from tierwise.actions.placement.quanta import most_in_multiples  # rarely needed, and slow to import

        upper = most_in_multiples(cycle, job, task_group, options[-1])
        moving = cycle.pipeline.moving(task_group.remaining[0].pod_set.shape)  # then fewer may fit than counted
        numbers = range(upper, 0 if moving else max(upper - 1, 0), -1)
        return next((placements for number in numbers if (placements := placed(number))), [])
    all_of_it = placed(task_group.need)
    if all_of_it or _must_be_whole(cycle, job, task_group):
        return all_of_it
    lower, upper = 0, task_group.need - 1
    while lower < upper:  # where a number of tasks fits, fewer fit as well
        middle = (lower + upper + 1) // 2
        lower, upper = (middle, upper) if placed(middle, keep=False) else (lower, middle - 1)
    return placed(lower) if lower else []


def _first_place(cycle: Cycle, job: Job, task_group: TaskGroup) -> list[Placement]:
    """The best place for a task group that must be placed whole, within the job's limit."""
    outer = _domains(cycle, job, task_group.sub.inner_group)
    return _first_of(cycle, (search_group(cycle, job, task_group, within=domain, pools=NOW_ONLY) for domain in outer))


def _first_of(cycle: Cycle, answers: Iterable[SearchResult | NoPlace]) -> list[Placement]:
    """What is found first; what is left is said to find no place now, and that is noted where it is no proof."""
    answer = first_found(answers)
    cycle.report.search_counts.cut += answer is NoPlace.BOUNDED
    return list(answer.placements) if isinstance(answer, SearchResult) else []


def place_surplus_group(cycle: Cycle, job: Job, demand: Demand) -> list[Placement]:
    """Place what an inner group of a nested job lacks, whole or not at all, if quotas allow it now."""
    if cycle.over_quota(job, needs(demand), leaving=True) is not None:
        return []
    parent = job.inner_groups[demand.inner_group].parent
    outer = [ROOT] if cycle.snapshot.ground(job) is Ground.TREES else _domains(cycle, job, parent)
    return _first_of(cycle, (solve(cycle, job, demand, within=domain, pools=NOW_ONLY) for domain in outer))


def _domains(cycle: Cycle, job: Job, inner_group: int) -> list[int]:
    """The domains that the job may use: the widest around its placed tasks, or one candidate after the other.

    For a part of an inner group, those that this group may use inside them, and inside the groups around it.
    """
    if not job.shape.parted:
        return [ROOT]  # its only sub-job has the same gradients
    groups = reversed([number for number in around(job.shape, inner_group) if number > 0])
    domains = [ROOT]
    for gang in (job, *(job.group(number) for number in groups)):
        domains = [
            int(domain) for outer in domains for gradient in gradients_of(cycle, gang, outer) for domain in gradient
        ]
    return domains
