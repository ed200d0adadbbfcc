"""Look for a place of a whole job inside one of several places that are no domains of its tree, such as zones.

Sub-jobs, inner domains and several shapes are searched for as ever: what stands outside a place is taken off the ledger
for as long as that takes. What was found is then written on the ledger as it was.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tierwise.actions.placement.demand import Demand
from tierwise.actions.placement.fit import place_tasks
from tierwise.actions.placement.search import NoPlace, SearchResult
from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import Ask
from tierwise.framework.ledger import Pool
from tierwise.model.arrays import Ints
from tierwise.model.job import Job
from tierwise.model.resources import POD_SLOTS
from tierwise.model.shape import Shape

__all__ = ["search_confined"]


def search_confined(
    cycle: Cycle, job: Job, asked: Demand, places: Ints, search: Callable[[], SearchResult | NoPlace]
) -> SearchResult | NoPlace:
    """The first place in which a search for a job succeeds, the smallest that may hold it first; on the ledger.

    `places` has a number for each row that rows of one place share, -1 for none.
    """
    able = _large_enough(cycle, asked, places)
    most = cycle.budget.places
    bounded = len(able) > most
    for place in able[:most].tolist():
        with cycle.ledger.statement():
            _close(cycle, np.flatnonzero(places != place))
            found = search()
        if isinstance(found, NoPlace):
            bounded |= found is NoPlace.BOUNDED
        elif all((places[placement.rows] == place).all() for placement in found.placements):
            for placement in found.placements:
                ask = Ask(placement.pod_set.shape, placement.sub, job)
                picks = np.unique(placement.rows, return_counts=True)
                place_tasks(cycle, ask, placement.pod_set, picks, placement.pool)
            return found
    return NoPlace.of(bounded=bounded)


def _large_enough(cycle: Cycle, asked: Demand, places: Ints) -> Ints:
    """The places that take the tasks of every shape by counting, with the least room first."""
    needed: dict[Shape, int] = {}
    for task_group in asked.task_groups:
        total = sum(tasks_left.left for tasks_left in task_group.remaining)
        for tasks_left in task_group.remaining:  # what others cannot stand in for
            least = max(task_group.need - (total - tasks_left.left), 0)
            needed[tasks_left.pod_set.shape] = needed.get(tasks_left.pod_set.shape, 0) + least
    inside = places >= 0
    room = np.zeros(int(places.max(initial=-1)) + 1)
    able = np.bincount(places[inside], minlength=len(room)) > 0
    for shape, least in needed.items():
        most = np.minimum(cycle.fit_counts.of(shape).rows(Pool.FUTURE_IDLE), sum(needed.values()))
        held = np.bincount(places[inside], weights=most[inside], minlength=len(room))
        able &= held >= least
        room += held
    order = np.argsort(room, kind="stable")
    return order[able[order]]


def _close(cycle: Cycle, rows: Ints) -> None:
    """Take all pod slots of these rows, so that nothing is placed there."""
    slots = cycle.view.axis.index[POD_SLOTS]
    idle = cycle.ledger.idle[slots, rows]
    for amount in np.unique(idle[idle > 0]).tolist():
        cycle.ledger.occupy(slots, rows[idle == amount], amount)
