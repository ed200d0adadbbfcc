"""Which domains are tried, and how much they hold: the one count that searches, evicting actions and diagnosis ask.

A count never says too little, so what it rules out is ruled out. It is exact for tasks of one plain shape, and for
parts of such tasks that are alike at every level: a domain within the limit of a part holds floor(what is inside it /
what the part needs) of it, and sums over the tree are exact. Whose room is counted is a parameter: idle resources,
those that are being released as well, and those that victims would free.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np

from tierwise.actions.placement.demand import Demand, TaskGroup
from tierwise.actions.placement.problem import Part
from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import Gradients
from tierwise.framework.ledger import Pool
from tierwise.model.arrays import Bools, Ints
from tierwise.model.job import Job, Shape, SubJob

__all__ = ["Room", "chooses_its_host", "gradients_of", "held", "may_hold", "may_hold_all", "most_tasks"]


def gradients_of(cycle: Cycle, gang: Job | SubJob, within: int) -> Gradients:
    """The gradients to try, in order.

    A gang with placed tasks has one candidate, the widest domain around them that its limit allows: from there `walk`
    places the other tasks nearest first, which is finer than any order of domains.
    """
    if chooses_its_host(cycle, gang, within):
        return (np.array([within]),)
    gradients = cycle.pipeline.gradients(gang, within)
    if cycle.current_domain(gang) is None:
        return gradients
    widest = [int(gradient[0]) for gradient in gradients]
    return (np.array([min(widest)]),) if widest else ()


def chooses_its_host(cycle: Cycle, gang: Job | SubJob, within: int) -> bool:
    """Whether a gang is one pod with devices that chooses its host, whatever leaf that is in: it is near to nothing,
    and its limit leaves out no row of the domain.
    """
    if not isinstance(gang, Job) or len(gang.tasks) != 1 or not cycle.pipeline.room_ahead:
        return False
    request, minimum = gang.tasks[0].shape.request, gang.min_resources
    if (minimum is not None and not bool((minimum <= request).all())) or not request[cycle.view.axis.devices].any():
        return False
    limit = cycle.pipeline.limit(gang)
    return limit is not None and bool(cycle.topology.loosest[within] <= limit)


class Room:
    """Free amounts by row, (resources x rows): those of a pool, of a pool plus `freed`, or just `free`."""

    def __init__(
        self,
        cycle: Cycle,
        pool: Pool,
        *,
        freed: Ints | None = None,
        free: Ints | None = None,
        closed: Mapping[int, Bools] | None = None,
    ) -> None:
        """`closed` are the rows, by the number of a shape, that take none of it now."""
        self.cycle = cycle
        self._pool = pool
        self._freed = freed
        self._free = free
        self._closed = closed or {}
        self._counted = freed is None and free is None  # how many tasks rows take, but for those that are closed
        self._rows: dict[int, Ints] = {}
        self._domains: dict[int, Ints] = {}

    def free(self, resources: Ints) -> Ints:
        """Free amounts of some resources, (resources x rows)."""
        if self._free is not None:
            return self._free[resources]
        free = self.cycle.ledger.free(resources, slice(0, len(self.cycle.nodes)), self._pool)
        return free if self._freed is None else free + self._freed[resources]

    def rows(self, shape: Shape) -> Ints:
        """How many tasks of a shape each row takes."""
        closed = self._closed.get(shape.number)
        if self._counted and closed is None:
            return self.cycle.fit_counts.of(shape).rows(self._pool)
        tasks_by_row = self._rows.get(shape.number)
        if tasks_by_row is None:
            tasks_by_row = self._counts(shape)
            tasks_by_row = self._rows[shape.number] = (
                tasks_by_row if closed is None else np.where(closed, 0, tasks_by_row)
            )
        return tasks_by_row

    def _counts(self, shape: Shape) -> Ints:
        if self._counted:
            return self.cycle.fit_counts.of(shape).rows(self._pool)
        tasks_by_row = shape.max_tasks(self.free(shape.asked))
        tasks_by_row[self.cycle.fit_counts.why(shape) != 0] = 0
        return tasks_by_row

    def domains(self, shape: Shape) -> Ints:
        """How many tasks of a shape each domain of the tree takes."""
        if self._counted and shape.number not in self._closed:
            return self.cycle.fit_counts.of(shape).domains(self._pool)
        tasks_by_domain = self._domains.get(shape.number)
        if tasks_by_domain is None:
            tasks_by_domain = self._domains[shape.number] = self.cycle.topology.totals(self.rows(shape))
        return tasks_by_domain

    def held(self, shape: Shape, domains: Ints, need: int) -> Ints:
        """How many tasks of a shape each of some domains takes where `need` of them are placed; more may count."""
        return self.domains(shape)[domains]


def may_hold(room: Room, task_group: TaskGroup, domains: Ints) -> Bools:
    """Which domains may hold a task group: exact for one plain shape."""
    if len(task_group.remaining) == 1 and not task_group.roles:
        tasks_left = task_group.remaining[0]
        if tasks_left.left < task_group.need:
            return np.zeros(len(domains), dtype=bool)
        enough: Bools = room.held(tasks_left.pod_set.shape, domains, task_group.need) >= task_group.need
        return enough
    total = np.zeros(len(domains), dtype=np.int64)
    roles = {number: np.zeros(len(domains), dtype=np.int64) for number in task_group.roles}
    for tasks_left in task_group.remaining:
        fitting = np.minimum(room.held(tasks_left.pod_set.shape, domains, task_group.need), tasks_left.left)
        total += fitting
        if tasks_left.pod_set.role_number in roles:
            roles[tasks_left.pod_set.role_number] += fitting
    result: Bools = total >= task_group.need
    for role, minimum in task_group.roles.items():
        result &= roles[role] >= minimum
    return result


def may_hold_all(room: Room, demand: Demand, domains: Ints) -> Bools:
    """Which domains may hold a demand: each task group by itself, those of one shape together, and by amounts all tasks
    that are placed in any case. Where substitutes may replace task groups, which domains may hold any of them.
    """
    if demand.substitutes:
        every = (*demand.task_groups, *demand.substitutes)
        any_of_them: Bools = np.logical_or.reduce([may_hold(room, task_group, domains) for task_group in every])
        return any_of_them
    fits = np.ones(len(domains), dtype=bool)
    needs: Counter[Shape] = Counter()
    firm: Counter[Shape] = Counter()
    for task_group in demand.task_groups:
        fits &= may_hold(room, task_group, domains)
        for shape, number in task_group.firm():
            firm[shape] += number
            needs[shape] += number if len(task_group.remaining) == 1 else 0
    for shape, need in needs.items() if len(demand.task_groups) > 1 else ():
        fits &= room.domains(shape)[domains] >= need
    return fits & _enough_amounts(room, firm, domains) if len(firm) > 1 else fits


def _enough_amounts(room: Room, numbers: Mapping[Shape, int], domains: Ints) -> Bools:
    """Which domains have all that so many tasks ask for together, on nodes that take any of them."""
    total, resources, free, _ = _amounts(room, numbers)
    totals = [room.cycle.topology.totals(amounts)[domains] for amounts in free]
    enough: Bools = np.all(np.stack(totals) >= total[resources, None], axis=0)
    return enough


def _amounts(room: Room, numbers: Mapping[Shape, int]) -> tuple[Ints, Ints, Ints, Ints]:
    """What so many tasks ask for together, the resources that they ask for, and by row what is free of these where it
    takes any of the tasks, and how many of them it takes at most.
    """
    total = np.array(list(numbers.values())) @ np.stack([shape.request for shape in numbers])
    resources, takes = np.flatnonzero(total), most_tasks(room, numbers)
    free = np.maximum(room.free(resources), 0)
    free[:, takes == 0] = 0
    return total, resources, free, takes


def held(room: Room, part: Part) -> Ints:
    """How many parts like this one every domain of the tree holds, where it is alike others (`Part.kind`)."""
    inside = _tasks_held(room, part) if part.bundle else held(room, part.parts[0]) // part.chosen
    if part.tier is None:
        return inside
    topology = room.cycle.topology
    outermost, counted = topology.outermost(part.tier), np.zeros_like(inside)
    counted[outermost] = inside[outermost]
    return np.where(topology.tier <= part.tier, inside, topology.roll_up(counted))


def _tasks_held(room: Room, unit: Part) -> Ints:
    """How many copies of a unit the nodes of each domain take, wherever its tasks stand in it.

    For several shapes the least of what can be counted: each shape by itself; all tasks together, of which a node takes
    no more than of one that asks for the least of everything; and all that they ask for, resource by resource.
    """
    numbers: Counter[Shape] = Counter()
    for shape, count in unit.bundle:
        numbers[shape] += count
    copies: Ints = np.minimum.reduce([room.domains(shape) // number for shape, number in numbers.items()])
    if len(numbers) == 1:
        return copies
    topology, (total, resources, free, takes) = room.cycle.topology, _amounts(room, numbers)
    for i, r in enumerate(resources.tolist()):
        np.minimum(copies, topology.totals(free[i]) // int(total[r]), out=copies)
    return np.minimum(copies, topology.totals(takes) // unit.pods)


def most_tasks(room: Room, shapes: Iterable[Shape]) -> Ints:
    """How many tasks of some shapes each row takes at most, however they are mixed.

    Those that fit by themselves add up, as they may ask for different things; of what all of them ask for, each takes
    the least that any of them does.
    """
    shapes = tuple(shapes)
    takes: Ints = np.add.reduce([room.rows(shape) for shape in shapes])
    if len(shapes) == 1:
        return takes
    least_request = np.minimum.reduce([shape.request for shape in shapes])
    resources = np.flatnonzero(least_request)
    for free, amount in zip(np.maximum(room.free(resources), 0), least_request[resources].tolist(), strict=True):
        takes = np.minimum(takes, free // amount)
    return takes
