"""Place tasks beyond a gang's minimum: as many as fit idle resources, near the gang's other tasks, within its limits.

`search_minimum` chooses the place of a minimum so that all of the gang is in as few innermost domains as it can be.

What places surplus is called by `allocate` once the minimum is placed. It never evicts and never waits for releases:
surplus starts at once, so quotas are asked with what terminating tasks still hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

import numpy as np
from msgspec.structs import replace

from tierwise.actions.placement.choose import gradients_of, search_group
from tierwise.actions.placement.demand import Demand, TaskGroup, everything, needs, whole_first
from tierwise.actions.placement.problem import (
    NOW_ONLY,
    NoPlace,
    Placement,
    SearchResult,
    first_found,
    found_on,
    rows_of,
    written,
)
from tierwise.actions.placement.solve import solve
from tierwise.actions.placement.trial import close_others, put
from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import Ask, GatherOption
from tierwise.framework.ledger import Pool, sub_ready
from tierwise.framework.report import Term
from tierwise.model.arrays import Ints, distinct
from tierwise.model.gang import around
from tierwise.model.job import Job, PodSet, group_job
from tierwise.model.topology import ROOT

__all__ = ["place_allowed_surplus", "place_surplus", "place_surplus_group", "search_minimum"]


def search_minimum(cycle: Cycle, job: Job, asked: Demand, *, alone: bool = False) -> SearchResult | NoPlace:
    """Find a place; for a gathered job as a whole, and if there is none, or a quota forbids that, for its minimum.

    The first gang of a set that stays together goes where those find a place that are to come beside it; `alone`, that
    does not matter.
    """
    if not alone and cycle.sets is not None and cycle.sets.concerns(job):
        from tierwise.actions.placement.sets import with_regard  # few gangs are in sets

        return with_regard(cycle, job, asked, partial(search_minimum, alone=True))
    mark, bounded = cycle.ledger.mark(), False
    found: SearchResult | NoPlace = NoPlace.PROVEN
    for each in whole_first(cycle, job, asked):
        if each is asked or cycle.over_quota(job, needs(each)) is None:
            found = solve(cycle, job, each)
            if isinstance(found, SearchResult):
                break
            bounded |= found is NoPlace.BOUNDED
    if isinstance(found, NoPlace):
        return NoPlace.of(bounded=bounded)
    if len(asked.task_groups) > 1:
        return found
    return _with_its_surplus(cycle, job, asked, found, mark)


def _with_its_surplus(cycle: Cycle, job: Job, asked: Demand, found: SearchResult, mark: int) -> SearchResult | NoPlace:
    """The place of a minimum, or another of a tier as low from where its surplus is in fewer innermost domains.

    The ledger was at the mark before the place was found. Only the minimum is placed: who is next is another question.
    """
    (task_group,) = asked.task_groups
    left = sum(tasks_left.left for tasks_left in task_group.remaining) - task_group.need
    if left <= 0 or not _planned_as_one(cycle, job, task_group):
        return found
    topology, rows = cycle.topology, rows_of(found.placements)
    used = np.isin(topology.leaf, topology.leaf[rows])
    shapes = [tasks_left.pod_set.shape for tasks_left in task_group.remaining]
    if left <= min(int(cycle.fit_counts.of(shape).rows(Pool.IDLE)[used].sum()) for shape in shapes):
        return found  # the surplus fits beside it
    whole = everything(task_group)
    if cycle.over_quota(job, needs(Demand((whole,)))) is not None:
        return found
    cycle.ledger.rewind(mark)
    with cycle.ledger.statement():
        together = search_group(cycle, job, whole, pools=NOW_ONLY)
    part = None
    if isinstance(together, SearchResult):
        part = _minimum_of(cycle, task_group, together, int(topology.tier[topology.meet_rows(rows)]))
    if part is not None:
        found = replace(part, score=found.score, proposed=found.proposed, terms=(Term.SURPLUS,))
    return written(cycle, job, found)


def _planned_as_one(cycle: Cycle, job: Job, task_group: TaskGroup) -> bool:
    if job.constraint is None or job.policies or not cycle.pipeline.room_ahead or cycle.beside_gradients(job):
        return False
    if len(task_group.sub.held) or task_group.sub.previous_domain:
        return False
    return not any(cycle.pipeline.moving(tasks_left.pod_set.shape) for tasks_left in task_group.remaining)


def _minimum_of(cycle: Cycle, task_group: TaskGroup, together: SearchResult, tier: int) -> SearchResult | None:
    """The tasks of the minimum among all of a gang, inside one domain of a tier: those of the fullest leaves first."""
    topology, wanted = cycle.topology, dict(task_group.taken())
    by_leaf = np.bincount(topology.leaf[rows_of(together.placements)], minlength=len(topology))
    every: dict[PodSet, Placement] = {}  # one for each pod set, of which a role's minimum is placed by itself
    for placement in together.placements:
        before = every.get(placement.pod_set)
        rows = placement.rows if before is None else np.concatenate((before.rows, placement.rows))
        every[placement.pod_set] = replace(placement, rows=rows)
    best: SearchResult | None = None
    fewest = len(topology)
    for domain in np.flatnonzero((topology.tier <= tier) & (topology.roll_up(by_leaf) >= task_group.need)).tolist():
        chosen: list[Placement] = []
        for placement in every.values():
            first, end = topology.start[domain], topology.end[domain]
            inside = placement.rows[(first <= placement.rows) & (placement.rows < end)]
            order = np.lexsort((inside, topology.leaf[inside], -by_leaf[topology.leaf[inside]]))
            chosen.append(replace(placement, rows=np.sort(inside[order[: wanted.get(placement.pod_set, 0)]])))
        rows = rows_of(chosen)
        leaves = len(distinct(topology.leaf[rows]))
        if len(rows) == task_group.need and leaves < fewest:
            some = tuple(placement for placement in chosen if len(placement.rows))
            best, fewest = SearchResult(domain, some, 0.0, with_surplus=np.flatnonzero(by_leaf)), leaves
    return best


def place_allowed_surplus(
    cycle: Cycle, job: Job, task_group: TaskGroup, planned: Ints | None = None
) -> list[Placement]:
    """Place what fits of a task group and quotas allow now; at most one task where placing a task moves the shares.

    Where all of it has room in the innermost domains that were `planned`, there.
    """
    allowed = _number_allowed(cycle, job, task_group)
    if not allowed:
        return []
    some = replace(task_group, need=allowed)
    if planned is not None:
        with cycle.ledger.statement():
            close_others(cycle, np.flatnonzero(np.isin(cycle.topology.leaf, planned)))
            placed = place_surplus(cycle, job, some)
        whole = sum(len(placement.rows) for placement in placed) == allowed
        if whole and not isinstance(written(cycle, job, found_on(cycle, placed)), NoPlace):
            return placed
    return place_surplus(cycle, job, some)


def _number_allowed(cycle: Cycle, job: Job, task_group: TaskGroup) -> int:
    if len(task_group.remaining) > 1:
        request = needs(Demand((task_group,)))
        return task_group.need if cycle.over_quota(job, request, leaving=True) is None else 0
    whole = _must_be_whole(cycle, job, task_group)
    together = whole or bool(cycle.pipeline.gather_options(job, task_group.need))
    wanted = 1 if cycle.pipeline.queue_order and not together else task_group.need
    with cycle.ledger.statement():
        cycle.ledger.count_leaving()
        allowed = cycle.pipeline.headroom(job, task_group.remaining[0].pod_set.shape.request, wanted)
    return 0 if whole and allowed < task_group.need else allowed


def _must_be_whole(cycle: Cycle, job: Job, task_group: TaskGroup) -> bool:
    """Whether a task group is a sub-job below its own minimum, which is placed whole or not at all."""
    return bool(job.policies) and cycle.pipeline.gangs and not sub_ready(cycle.ledger, task_group.sub)


def place_surplus(cycle: Cycle, job: Job, task_group: TaskGroup) -> list[Placement]:
    """Place what fits of a task group: a sub-job below its own minimum whole or not at all, other tasks one by one."""
    if job.policies and any(policy.apart for policy in job.policies):
        from tierwise.actions.placement.apart import apart_from_others  # few gangs ask for it

        with apart_from_others(cycle, job, task_group.sub):
            return _place_surplus(cycle, job, task_group)
    return _place_surplus(cycle, job, task_group)


def _place_surplus(cycle: Cycle, job: Job, task_group: TaskGroup) -> list[Placement]:
    options = cycle.pipeline.gather_options(job, task_group.need)
    if options or cycle.snapshot.on_several_trees(job):
        return _as_many_as_fit(cycle, job, task_group, options)
    if _must_be_whole(cycle, job, task_group):
        return _first_place(cycle, job, task_group)
    placements: list[Placement] = []
    gang = task_group.sub if job.policies else job
    if cycle.pipeline.limit(gang) is not None and cycle.current_domain(gang) is None:
        # Its domain limits where the other tasks may go.
        placements += _first_place(cycle, job, replace(task_group, need=1))
        if not placements:
            return placements
    pod_set, left = task_group.remaining[0].pod_set, task_group.need - sum(len(one.rows) for one in placements)
    ask = Ask(pod_set.shape, task_group.sub, job)
    for outer in _domains(cycle, job, task_group.sub.inner_group):
        for gradient in gradients_of(cycle, gang, outer):
            more = put(cycle, ask, pod_set, left, int(gradient[0]), NOW_ONLY)
            if more:
                return placements + more
    return placements


def _as_many_as_fit(cycle: Cycle, job: Job, task_group: TaskGroup, options: Sequence[GatherOption]) -> list[Placement]:
    """As many tasks of a job that is gathered, or on several trees, as fit beside the others."""

    def placed(number: int, *, keep: bool = True) -> list[Placement]:
        with cycle.ledger.statement() as statement:
            some = Demand((replace(task_group, need=number),))
            found = _first_of(cycle, (solve(cycle, job, some, pools=NOW_ONLY),))
            if keep and found:
                statement.keep()
            return found

    if options:
        from tierwise.actions.placement.quanta import most_in_multiples  # rarely needed, and slow to import

        most = most_in_multiples(cycle, job, task_group, options[-1])
        moving = cycle.pipeline.moving(task_group.remaining[0].pod_set.shape)  # then fewer may fit than counted
        numbers = range(most, 0, -1) if moving else [most] if most else []
        return next((found for number in numbers if (found := placed(number))), [])
    all_of_it = placed(task_group.need)
    if all_of_it or _must_be_whole(cycle, job, task_group):
        return all_of_it
    least, most = 0, task_group.need - 1
    while least < most:  # where a number of tasks fits, fewer fit as well
        middle = (least + most + 1) // 2
        least, most = (middle, most) if placed(middle, keep=False) else (least, middle - 1)
    return placed(least) if least else []


def _first_place(cycle: Cycle, job: Job, task_group: TaskGroup) -> list[Placement]:
    """The best place for a task group that must be placed whole, within the job's limit."""
    outer = _domains(cycle, job, task_group.sub.inner_group)
    return _first_of(cycle, (search_group(cycle, job, task_group, within=domain, pools=NOW_ONLY) for domain in outer))


def _first_of(cycle: Cycle, answers: Iterable[SearchResult | NoPlace]) -> list[Placement]:
    """What is found first; what is left is said to find no place now, and that is noted where it is no proof."""
    found = first_found(answers)
    cycle.report.search_counts.cut += found is NoPlace.BOUNDED
    return list(found.placements) if isinstance(found, SearchResult) else []


def place_surplus_group(cycle: Cycle, job: Job, asked: Demand) -> list[Placement]:
    """Place what an inner group of a nested job lacks, whole or not at all, if quotas allow it now."""
    if cycle.over_quota(job, needs(asked), leaving=True) is not None:
        return []
    parent = job.inner_groups[asked.inner_group].parent
    outer = [ROOT] if cycle.snapshot.on_several_trees(job) else _domains(cycle, job, parent)
    return _first_of(cycle, (solve(cycle, job, asked, within=domain, pools=NOW_ONLY) for domain in outer))


def _domains(cycle: Cycle, job: Job, inner_group: int) -> list[int]:
    """The domains that the job may use: the widest around its placed tasks, or one candidate after the other.

    For a part of an inner group, those that this group may use inside them, and inside the groups around it.
    """
    if not job.policies:
        return [ROOT]  # its only sub-job has the same gradients
    groups = reversed([number for number in around(job.shape, inner_group) if number > 0])
    domains = [ROOT]
    for gang in (job, *(group_job(job, number) for number in groups)):
        domains = [
            int(domain) for outer in domains for gradient in gradients_of(cycle, gang, outer) for domain in gradient
        ]
    return domains
