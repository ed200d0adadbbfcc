"""Place a task group whose tasks go where the first of them stands, by trying one place after the other.

Required pod affinity ties tasks to a place, such as a zone, by those that stand there already, and so does a claim of
devices that several pods share. Where none stands yet, the first task decides for all that follow, and the scores that
choose its node know nothing of them: it may go to a place that is too small. `fit_tied` puts a first task of each shape
concerned into one place, then fits the others, and goes on to the next place if they find no room.

Called by `search` once placing by score alone has failed; inside a statement, which the caller undoes.
"""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from tierwise.actions.placement.demand import RemainingTasks, TaskGroup
from tierwise.actions.placement.fit import Placement, fit, place_tasks
from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import Ask, Tie
from tierwise.framework.ledger import Pool
from tierwise.framework.placer import best_row
from tierwise.model.arrays import Bools, Ints
from tierwise.model.job import Job

__all__ = ["TooManyPlacesError", "common_places", "fit_tied"]


class TooManyPlacesError(Exception):
    """There are places that were not tried: whether one of them holds the task group is not known."""


def fit_tied(
    cycle: Cycle, job: Job, task_group: TaskGroup, domain: int, pools: tuple[Pool, ...]
) -> list[Placement] | None:
    """Place a task group below a domain, its first tasks in one place of those that its ties know; None if no place
    holds it, or nothing is tied. TooManyPlacesError if more may hold it than are tried.
    """
    ties = {p.pod_set.shape.number: cycle.pipeline.ties(p.pod_set.shape) for p in task_group.remaining}
    every = [tie for found in ties.values() for tie in found]
    if not every:
        return None
    founders = frozenset[int]().union(*(tie.founders for tie in every))
    concerned = founders | {number for number, found in ties.items() if found}
    task_group = _founders_first(task_group, founders)
    places = common_places(every)[cycle.topology.span(domain)]
    open_rows = _large_enough(cycle, task_group, ties, places, domain, pools[-1])
    for _ in range(cycle.budget.places):
        row = _first_row(cycle, job, task_group, concerned, domain, pools, open_rows)
        if row < 0:
            return None
        here = places == places[row]
        with cycle.ledger.statement() as statement:
            placements = _fit_around(cycle, job, task_group, concerned, domain, pools, here)
            if placements is not None:
                statement.keep()
                return placements
        open_rows &= ~here
    raise TooManyPlacesError


def _founders_first(task_group: TaskGroup, founders: frozenset[int]) -> TaskGroup:
    """The same task group with the tasks first that others look for."""
    order = sorted(task_group.remaining, key=lambda p: p.pod_set.shape.number not in founders)
    return replace(task_group, remaining=tuple(order))


def common_places(ties: list[Tie]) -> Ints:
    """By row, a number that rows share which every tie takes for one place; -1 where one of them knows none."""
    known = np.stack([tie.places for tie in ties])
    places: Ints = np.unique(known, axis=1, return_inverse=True)[1].ravel()
    places[(known < 0).any(axis=0)] = -1
    return places


def _large_enough(
    cycle: Cycle, task_group: TaskGroup, ties: dict[int, list[Tie]], places: Ints, domain: int, pool: Pool
) -> Bools:
    """The rows of a domain whose place, by counting, takes the tasks of each tied shape that cannot be left out."""
    span = cycle.topology.span(domain)
    able: Bools = places >= 0
    by_shape: dict[int, int] = {}
    for tasks_left in task_group.remaining:
        number = tasks_left.pod_set.shape.number
        by_shape[number] = by_shape.get(number, 0) + tasks_left.left
    total = sum(by_shape.values())
    for tasks_left in task_group.remaining:
        shape = tasks_left.pod_set.shape
        least = max(task_group.need - (total - by_shape[shape.number]), 0)
        if ties[shape.number] and least and able.any():
            room = np.minimum(cycle.fit_counts.of(shape).rows(pool)[span], least)  # so that no sum wraps
            held = np.bincount(places[able], weights=room[able], minlength=int(places.max()) + 1)
            able &= held[places] >= least
    return able


def _first_row(
    cycle: Cycle,
    job: Job,
    task_group: TaskGroup,
    concerned: frozenset[int],
    domain: int,
    pools: tuple[Pool, ...],
    among: Bools,
) -> int:
    """The position in the domain of the best row, among some, for the first task that decides a place; -1 if none."""
    span = cycle.topology.span(domain)
    first = next(p.pod_set.shape for p in task_group.remaining if p.pod_set.shape.number in concerned)
    for pool in pools if among.any() else ():
        row = best_row(cycle, Ask(first, task_group.sub, job), span, pool, among=among)
        if row >= 0:
            return row - int(span.start)
    return -1


def _fit_around(
    cycle: Cycle,
    job: Job,
    task_group: TaskGroup,
    concerned: frozenset[int],
    domain: int,
    pools: tuple[Pool, ...],
    here: Bools,
) -> list[Placement] | None:
    """Place a task group with a first task of each shape concerned on the rows `here` of a domain."""
    span = cycle.topology.span(domain)
    firsts: list[Placement] = []
    left: list[RemainingTasks] = []
    roles = dict(task_group.roles)
    started: set[int] = set()
    for tasks_left in task_group.remaining:
        pod_set = tasks_left.pod_set
        number = pod_set.shape.number
        if number in concerned and number not in started and len(firsts) < task_group.need:
            started.add(number)
            ask = Ask(pod_set.shape, task_group.sub, job)
            placed = _place_first(cycle, ask, tasks_left, span, pools, here)
            if placed is None:
                return None
            firsts.append(placed)
            tasks_left = RemainingTasks(pod_set, tasks_left.left - 1)
            if roles.get(pod_set.role_number):
                roles[pod_set.role_number] -= 1
        left.append(tasks_left)
    others = TaskGroup(task_group.sub, tuple(left), task_group.need - len(firsts), roles, task_group.extra)
    found = fit(cycle, job, others, domain, pools)
    return None if found is None else _joined(firsts + found)


def _place_first(
    cycle: Cycle, ask: Ask, tasks_left: RemainingTasks, span: slice, pools: tuple[Pool, ...], here: Bools
) -> Placement | None:
    for pool in pools:
        row = best_row(cycle, ask, span, pool, among=here)
        if row >= 0:
            return place_tasks(cycle, ask, tasks_left.pod_set, (np.array([row]), np.array([1])), pool)
    return None


def _joined(placements: list[Placement]) -> list[Placement]:
    """One placement for each pod set and pool, with its rows in tree order."""
    found: dict[tuple[int, Pool], Placement] = {}
    for placement in placements:
        key = (id(placement.pod_set), placement.pool)
        known = found.get(key)
        if known is not None:
            placement = replace(known, rows=np.sort(np.concatenate((known.rows, placement.rows))))
        found[key] = placement
    return list(found.values())
