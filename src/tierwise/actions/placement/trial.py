"""Place one task group below one domain on the ledger, or find that the domain does not hold it.

`fit` places tasks in one order, by score and distance, inside a statement that the caller rewinds on failure. Where
that fails, `fit_any_way` tries other orders, then the places that pod affinity may tie tasks to, and asks the integer
program of `exact`. Tasks use idle resources first and, where the caller allows it, those that are still being released.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from msgspec.structs import replace

from tierwise.actions.placement.demand import Demand, RemainingTasks, TaskGroup
from tierwise.actions.placement.problem import (
    NOW_ONLY,
    NoPlace,
    Placement,
    SearchResult,
    joined,
    place_tasks,
    rows_of,
    usable,
    written,
)
from tierwise.framework.closest import sets_that_hold
from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import Ask, Tie
from tierwise.framework.ledger import Pool
from tierwise.framework.placer import Picks, best_row, place, walk
from tierwise.model.arrays import POD_SLOTS, Bools, Floats, Ints, distinct
from tierwise.model.job import Job, PodSet, Shape
from tierwise.model.ranks import rank_homes
from tierwise.model.topology import ROOT

__all__ = [
    "by_size",
    "close_others",
    "common_places",
    "confined",
    "fill",
    "fit",
    "fit_any_way",
    "fit_tied_too",
    "indispensable",
    "large_enough",
    "largest_first",
    "put",
]


_Way = Callable[[Cycle, Job, TaskGroup, int, tuple[Pool, ...]], list[Placement] | None]
"""Places a task group below a domain, or finds that the domain does not hold it."""


def fit_any_way(
    cycle: Cycle, job: Job, task_group: TaskGroup, domain: int, pools: tuple[Pool, ...]
) -> SearchResult | NoPlace:
    """Place a task group below a domain.

    A task group of several shapes is tried in several orders, placed by score. If all fail, the places that pod
    affinity may tie tasks to are tried, and where filters do not move the integer program decides.
    """
    cycle.steps.charge(2)
    several = len(task_group.remaining) > 1  # tasks of one pod set are in the fewest leaves by themselves
    mark = cycle.ledger.mark() if several else 0
    for tried in _orders(cycle, job, task_group, domain, pools):
        cycle.report.search_counts.trials += 1
        with cycle.ledger.statement() as statement:
            placements = fill(cycle, job, tried, domain, pools)
            if covers(placements, tried):
                statement.keep()
                in_order = SearchResult(domain, tuple(placements), 0.0)
                return _in_fewer_leaves(cycle, job, task_group, in_order, mark) if several else in_order
    shapes = {tasks_left.pod_set.shape.number: tasks_left.pod_set.shape for tasks_left in task_group.remaining}
    if any(map(cycle.pipeline.moving, shapes.values())):
        try:
            placement = _try(_fit_tied, cycle, job, task_group, domain, pools)
        except _TooManyPlacesError:
            return NoPlace.BOUNDED
        if placement is not None:
            return placement
    if len(shapes) == 1:  # there is no mixture
        alone = task_group.need == 1  # every node was asked
        return NoPlace.of(bounded=not alone and not all(map(cycle.pipeline.order_free, shapes.values())))
    if any(map(cycle.pipeline.moving, shapes.values())):
        return NoPlace.BOUNDED
    from tierwise.actions.placement.exact import place_exactly  # rarely needed

    exactly = place_exactly(cycle, job, Demand((task_group,)), domain, pools)
    return replace(exactly, domain=domain) if isinstance(exactly, SearchResult) else exactly


def _try(
    method: _Way, cycle: Cycle, job: Job, task_group: TaskGroup, domain: int, pools: tuple[Pool, ...]
) -> SearchResult | None:
    """Place a task group in one way; None where that finds no place, and the ledger is as it was."""
    with cycle.ledger.statement() as statement:
        placements = method(cycle, job, task_group, domain, pools)
        if placements is None:
            return None
        statement.keep()
    return SearchResult(domain, tuple(placements), 0.0)


# Tasks of several shapes in fewer innermost domains.
#
# Each shape is placed in the fewest by itself, and the next one near it; together they may need fewer.


def _in_fewer_leaves(
    cycle: Cycle, job: Job, task_group: TaskGroup, first_placement: SearchResult, mark: int
) -> SearchResult | NoPlace:
    """The first placement, or one in fewer innermost domains of the same domain if a few trials find it."""
    bundle = task_group.firm()
    if len(bundle) < 2 or task_group.sub.constraint is None or not cycle.pipeline.room_ahead:
        return first_placement
    waits = any(placement.pool is not Pool.IDLE for placement in first_placement.placements)
    if waits or any(cycle.pipeline.moving(shape) for shape, _ in bundle):
        return first_placement
    topology = cycle.topology
    used = distinct(topology.leaf[rows_of(first_placement.placements)])
    if len(used) < 2:
        return first_placement
    cycle.ledger.rewind(mark)
    for leaves in _sets_of_leaves(cycle, bundle, first_placement.domain, used):
        cycle.report.search_counts.trials += 1
        rows = np.flatnonzero(np.isin(topology.leaf, leaves))

        def search() -> SearchResult | NoPlace:
            closer = _try(fit, cycle, job, largest_first(cycle, task_group), first_placement.domain, NOW_ONLY)
            return NoPlace.BOUNDED if closer is None else closer

        closer = confined(cycle, job, rows, search)
        if isinstance(closer, SearchResult):
            return closer
    return written(cycle, job, first_placement)


def _sets_of_leaves(cycle: Cycle, bundle: tuple[tuple[Shape, int], ...], domain: int, used: Ints) -> Iterator[Ints]:
    """Sets of fewer leaves of a domain than are used, in no more of its children, that hold a bundle by counting.

    The fewest first, and of these the ones in which the least is left over.
    """
    topology = cycle.topology
    inside = slice(domain, int(topology.last[domain]))
    room = np.stack([topology.own(cycle.fit_counts.of(shape).domains(Pool.IDLE))[inside] for shape, _ in bundle])
    needed = np.array([number for _, number in bundle])
    total = np.sum([shape.request * number for shape, number in bundle], axis=0)
    resources = np.flatnonzero(total)
    idle = np.stack([topology.own(amounts)[inside] for amounts in cycle.ledger.domain_idle[resources]])
    has = np.vstack((np.minimum(room, needed[:, None]), np.minimum(idle, total[resources, None])))
    needed_amounts = np.concatenate((needed, total[resources]))
    children = np.searchsorted(np.array(topology.children[domain]), np.arange(inside.start, inside.stop), side="right")
    leaves = np.flatnonzero(room.any(axis=0))
    for size in range(1, len(used)):
        sets = sets_that_hold(has[:, leaves], needed_amounts, size)
        touched = np.array([len(distinct(children[leaves[leaf_positions]])) for leaf_positions in sets])
        over = (has[:, leaves][:, sets].sum(axis=2) / needed_amounts[:, None]).sum(axis=0)
        order = np.lexsort((over, touched))
        max_children = len(distinct(children[used - domain]))
        for leaf_positions in sets[order[touched[order] <= max_children]][: cycle.budget.orders]:
            yield leaves[leaf_positions] + domain


def confined(
    cycle: Cycle, job: Job, rows: Ints, search: Callable[[], SearchResult | NoPlace]
) -> SearchResult | NoPlace:
    """The result of a search that may place tasks only on these rows, written to the ledger."""
    with cycle.ledger.statement():
        close_others(cycle, rows)
        placement = search()
    return placement if isinstance(placement, NoPlace) else written(cycle, job, placement)


def close_others(cycle: Cycle, rows: Ints) -> None:
    """Leave no pod slots on other rows than these, now or once releases are over.

    As many are taken as there are, so that sums over domains are those of the rows that stay open.
    """
    slots = cycle.view.axis.index[POD_SLOTS]
    free_slots = cycle.ledger.free(np.array([slots]), slice(0, len(cycle.nodes)), Pool.FUTURE_IDLE)[0]
    free_slots[rows] = 0
    for amount in distinct(free_slots[free_slots > 0]).tolist():
        cycle.ledger.occupy(slots, np.flatnonzero(free_slots == amount), amount)


def _orders(cycle: Cycle, job: Job, task_group: TaskGroup, domain: int, pools: tuple[Pool, ...]) -> Iterator[TaskGroup]:
    """The task group as it is, with its largest tasks first, and, where filters move so that mixtures are not counted,
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
    for first_tasks in fewest[: cycle.budget.orders]:
        later_tasks = [tasks_left for tasks_left in fewest if tasks_left is not first_tasks]
        yield replace(task_group, remaining=(first_tasks, *later_tasks))


def fit_tied_too(
    cycle: Cycle, job: Job, task_group: TaskGroup, domain: int, pools: tuple[Pool, ...]
) -> list[Placement] | None:
    """Place a task group below a domain in its order, and where that fails, in the places that its tasks are tied to;
    None where nothing is found. A bound on these places is noted.
    """
    placements = cycle.ledger.attempt(fit, cycle, job, task_group, domain, pools)
    if placements is None and any(cycle.pipeline.moving(shape) for shape in task_group.by_shape()):
        try:
            return cycle.ledger.attempt(_fit_tied, cycle, job, task_group, domain, pools)
        except _TooManyPlacesError:
            cycle.report.search_counts.cut += 1
    return placements


# Tasks in one order.


def fit(cycle: Cycle, job: Job, task_group: TaskGroup, domain: int, pools: tuple[Pool, ...]) -> list[Placement] | None:
    """Place a task group below a domain; None if the domain does not hold it."""
    placements = fill(cycle, job, task_group, domain, pools)
    return placements if covers(placements, task_group) else None


def covers(placements: Sequence[Placement], task_group: TaskGroup) -> bool:
    """Whether placements are of all the tasks that a task group needs."""
    return sum(len(placement.rows) for placement in placements) >= task_group.need


def fill(cycle: Cycle, job: Job, task_group: TaskGroup, domain: int, pools: tuple[Pool, ...]) -> list[Placement]:
    """Place as many tasks of a task group below a domain as it holds, the minimums of roles first."""
    cycle.steps.charge(1 + 2 * len(task_group.remaining))
    if len(task_group.remaining) == 1 and not task_group.roles:
        (only,) = task_group.remaining
        ask, number = Ask(only.pod_set.shape, task_group.sub, job), min(task_group.need, only.left)
        return put(cycle, ask, only.pod_set, number, domain, pools) if number > 0 else []
    placements: list[Placement] = []
    used = [0] * len(task_group.remaining)
    missing, roles = task_group.need, dict(task_group.roles)
    for least_only in (True, False) if roles else (False,):
        for i, tasks_left in enumerate(task_group.remaining):
            role = tasks_left.pod_set.role_number
            number = roles.get(role, 0) if least_only else missing - sum(roles.values())
            number = min(number, tasks_left.left - used[i])
            if number > 0:
                ask = Ask(tasks_left.pod_set.shape, task_group.sub, job)
                new_placements = put(cycle, ask, tasks_left.pod_set, number, domain, pools, before=used[i])
                placed = sum(len(placement.rows) for placement in new_placements)
                placements += new_placements
                used[i] += placed
                missing -= placed
                if least_only:
                    roles[role] -= placed
    return placements


def largest_first(cycle: Cycle, task_group: TaskGroup) -> TaskGroup:
    """The task group with its largest tasks first, because these fit the fewest nodes."""
    order = sorted(task_group.remaining, key=lambda p: by_size(cycle, p.pod_set.shape))
    return replace(task_group, remaining=tuple(order))


def by_size(cycle: Cycle, shape: Shape) -> float:
    """Sort key: first the tasks that ask for the largest share of all nodes' amounts of some resource."""
    return -float((shape.request / np.maximum(cycle.ledger.domain_allocatable[:, ROOT], 1)).max())


def put(
    cycle: Cycle, ask: Ask, pod_set: PodSet, count: int, domain: int, pools: tuple[Pool, ...], *, before: int = 0
) -> list[Placement]:
    """Place up to `count` tasks of a pod set below a domain; `before` of them are placed already."""
    placements: list[Placement] = []
    distance = _distance_matters(cycle, ask)
    homes = _homes(cycle, ask, pod_set, before, count, domain) if ask.job.ranks else None
    for pool in usable(cycle, pools):
        if homes is not None:
            picks = _near_homes(cycle, ask, homes[-count:], domain, pool)
        elif distance:
            picks = walk(cycle, ask, count, domain, pool)
        else:
            picks = place(cycle, ask, count, cycle.topology.span(domain), pool)
        if len(picks[0]):
            placements.append(place_tasks(cycle, ask, pod_set, picks, pool))
            count -= int(picks[1].sum())
        if not count:
            break
    return placements


def _distance_matters(cycle: Cycle, ask: Ask) -> bool:
    """Whether distance matters: the sub-job has a topology, or the job has one and some of its tasks are placed."""
    if ask.sub.constraint is not None:
        return True
    return ask.job.constraint is not None and cycle.ledger.placed_span(ask.job) is not None


def _homes(cycle: Cycle, ask: Ask, pod_set: PodSet, before: int, count: int, domain: int) -> list[int] | None:
    """Inside a domain, where the neighbours of the next tasks run; None where nothing of their job runs."""
    tasks = cycle.backlog.peek(pod_set, before + count)[before:]
    home_by_task = rank_homes(cycle.topology, cycle.nodes, ask.job, [task.key for task in tasks])
    if home_by_task is None:
        return None
    inside = [home_by_task[t.key] if cycle.topology.contains(domain, home_by_task[t.key]) else domain for t in tasks]
    return inside + [domain] * (count - len(tasks))


def _near_homes(cycle: Cycle, ask: Ask, homes: Sequence[int], domain: int, pool: Pool) -> Picks:
    """Rows below a domain for tasks with these homes: as many as possible inside each, the rest in those around it."""
    waiting: dict[int, int] = {}
    for home in homes:
        waiting[home] = waiting.get(home, 0) + 1
    counts = np.zeros(len(cycle.nodes), dtype=np.int64)
    with cycle.ledger.statement():  # what one domain takes is gone for the next; the caller places all of it
        while waiting:
            inner = max(waiting)  # whatever is inside has a larger number
            number = waiting.pop(inner)
            rows, taken_by_row = walk(cycle, ask, number, inner, pool)
            if len(rows):
                cycle.ledger.place(ask.shape, rows, taken_by_row, pool=pool)
                counts[rows] += taken_by_row
            unplaced = number - int(taken_by_row.sum())
            if unplaced and inner != domain:
                outer = int(cycle.topology.parent[inner])
                waiting[outer] = waiting.get(outer, 0) + unplaced
    used = np.flatnonzero(counts)
    return used, counts[used]


# Tasks that go where the first of them is.
#
# Required pod affinity ties tasks to a place, such as a zone, by those that stand there already, and so does a claim of
# devices that several pods share. Where none is placed yet, the first task decides for all that follow, and the scores
# that choose its node know nothing of them: it may go to a place that is too small. So a first task of each shape
# concerned is put into one place, then the others are fitted, and if they find no room the next place is tried.


class _TooManyPlacesError(Exception):
    """There are places that were not tried: whether one of them holds the task group is not known."""


def _fit_tied(
    cycle: Cycle, job: Job, task_group: TaskGroup, domain: int, pools: tuple[Pool, ...]
) -> list[Placement] | None:
    """Place a task group below a domain, its first tasks in one place of those that its ties know; None if no place
    holds it, or nothing is tied. _TooManyPlacesError if more may hold it than are tried.
    """
    cycle.steps.charge(len(task_group.remaining) * (8 + len(cycle.nodes) // 128))
    ties = {p.pod_set.shape: cycle.pipeline.ties(p.pod_set.shape) for p in task_group.remaining}
    every = [tie for shape_ties in ties.values() for tie in shape_ties]
    if not every:
        return None
    founders = frozenset[int]().union(*(tie.founders for tie in every))
    concerned = founders | {shape.number for shape, shape_ties in ties.items() if shape_ties}
    task_group = _founders_first(task_group, founders)
    span, places = cycle.topology.span(domain), np.full(len(cycle.nodes), -1, dtype=np.int64)
    places[span] = common_places(every)[span]
    needed = {shape: number for shape, number in indispensable(task_group).items() if ties[shape]}
    able = np.append(large_enough(cycle, needed, places, pools[-1])[0], False)  # the last for rows of no place
    open_rows = able[places[span]]
    first_shape = next(p.pod_set.shape for p in task_group.remaining if p.pod_set.shape.number in concerned)
    for _ in range(cycle.budget.places):
        best = _best_among(cycle, Ask(first_shape, task_group.sub, job), span, pools, open_rows)
        if best is None:
            return None
        is_here = places[span] == places[best[0]]
        placements = cycle.ledger.attempt(_fit_around, cycle, job, task_group, concerned, domain, pools, is_here)
        if placements is not None:
            return placements
        open_rows &= ~is_here
    raise _TooManyPlacesError


def _founders_first(task_group: TaskGroup, founders: frozenset[int]) -> TaskGroup:
    """The task group with the tasks first that other tasks look for."""
    order = sorted(task_group.remaining, key=lambda p: p.pod_set.shape.number not in founders)
    return replace(task_group, remaining=tuple(order))


def common_places(ties: list[Tie]) -> Ints:
    """By row, a number that rows share which every tie takes for one place; -1 where one of them knows none."""
    places_of_ties = np.stack([tie.places for tie in ties])
    places: Ints = np.unique(places_of_ties, axis=1, return_inverse=True)[1].ravel()
    places[(places_of_ties < 0).any(axis=0)] = -1
    return places


def indispensable(task_group: TaskGroup) -> Counter[Shape]:
    """How many tasks of each shape a task group needs, whatever is taken of the others."""
    left_by_shape = task_group.by_shape()
    total = left_by_shape.total()
    return Counter({shape: max(task_group.need - (total - number), 0) for shape, number in left_by_shape.items()})


def large_enough(cycle: Cycle, needed: Mapping[Shape, int], places: Ints, pool: Pool) -> tuple[Bools, Floats]:
    """By place, whether it takes so many tasks of each shape by counting, and how many of them it has room for."""
    inside, size = places >= 0, int(places.max(initial=-1)) + 1
    able, room, max_tasks = np.bincount(places[inside], minlength=size) > 0, np.zeros(size), sum(needed.values())
    for shape, minimum in needed.items():
        rows = np.minimum(cycle.fit_counts.of(shape).rows(pool), max_tasks)  # so that no sum wraps
        room_by_place = np.bincount(places[inside], weights=rows[inside], minlength=size)
        able &= room_by_place >= minimum
        room += room_by_place
    return able, room


def _best_among(cycle: Cycle, ask: Ask, span: slice, pools: tuple[Pool, ...], among: Bools) -> tuple[int, Pool] | None:
    """The best row for a task, among some of a span, and the pool that it fits there."""
    for pool in pools if among.any() else ():
        row = best_row(cycle, ask, span, pool, among=among)
        if row >= 0:
            return row, pool
    return None


def _fit_around(
    cycle: Cycle,
    job: Job,
    task_group: TaskGroup,
    concerned: frozenset[int],
    domain: int,
    pools: tuple[Pool, ...],
    is_here: Bools,
) -> list[Placement] | None:
    """Place a task group with a first task of each shape concerned on rows of a domain where `is_here`."""
    span = cycle.topology.span(domain)
    firsts: list[Placement] = []
    unplaced: list[RemainingTasks] = []
    roles = dict(task_group.roles)
    started: set[int] = set()
    for tasks_left in task_group.remaining:
        pod_set = tasks_left.pod_set
        number = pod_set.shape.number
        if number in concerned and number not in started and len(firsts) < task_group.need:
            started.add(number)
            ask = Ask(pod_set.shape, task_group.sub, job)
            best = _best_among(cycle, ask, span, pools, is_here)
            if best is None:
                return None
            firsts.append(place_tasks(cycle, ask, pod_set, (np.array(best[:1]), np.array([1])), best[1]))
            tasks_left = RemainingTasks(pod_set, tasks_left.left - 1)
            if roles.get(pod_set.role_number):
                roles[pod_set.role_number] -= 1
        unplaced.append(tasks_left)
    other_tasks = TaskGroup(task_group.sub, tuple(unplaced), task_group.need - len(firsts), roles, task_group.extra)
    further_placements = fit(cycle, job, other_tasks, domain, pools)
    if further_placements is None:
        return None
    for placement in further_placements:  # the first ones may have used up what the roles had a part in
        roles[placement.pod_set.role_number] = roles.get(placement.pod_set.role_number, 0) - len(placement.rows)
    short = max(roles.values(), default=0) > 0
    return None if short else joined(firsts + further_placements)
