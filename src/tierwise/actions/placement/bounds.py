"""How much the domains of the tree hold: the one count that searches, evicting actions and diagnosis ask.

A count never says too little, so what it rules out is ruled out. It is exact for tasks of one plain shape, and for
parts of such tasks that are alike at every level: a domain within the limit of a part holds floor(what is inside it /
what the part needs) of it, and sums over the tree are exact. Whose room is counted is a parameter: idle resources,
those that are being released as well, and those that victims would free.
"""

from __future__ import annotations

import numpy as np

from tierwise.actions.placement.demand import Demand, TaskGroup
from tierwise.actions.placement.problem import Part
from tierwise.framework.cycle import Cycle
from tierwise.framework.ledger import Pool
from tierwise.model.arrays import Bools, Ints
from tierwise.model.shape import Shape

__all__ = ["Room", "held", "may_hold", "may_hold_each", "may_hold_together"]


class Room:
    """What is free on the rows of a span, by default on all: of a pool, or of it once so much is freed.

    `freed` has an amount for each resource and row of the span.
    """

    def __init__(self, cycle: Cycle, pool: Pool, *, freed: Ints | None = None, span: slice | None = None) -> None:
        self.cycle = cycle
        self._pool = pool
        self._freed = freed
        self._span = slice(0, len(cycle.nodes)) if span is None else span
        self._rows: dict[int, Ints] = {}
        self._domains: dict[int, Ints] = {}

    def free(self, resources: Ints) -> Ints:
        """What is free of some resources, (resources x rows)."""
        free = self.cycle.ledger.free(resources, self._span, self._pool)
        return free if self._freed is None else free + self._freed[resources]

    def rows(self, shape: Shape) -> Ints:
        """How many tasks of a shape each row takes."""
        kept = self.cycle.fit_counts.of(shape)
        if self._freed is None:
            return kept.rows(self._pool)[self._span]
        found = self._rows.get(shape.number)
        if found is None:
            found = self._rows[shape.number] = shape.max_tasks(self.free(shape.asked))
            found[kept.why[self._span] != 0] = 0
        return found

    def domains(self, shape: Shape) -> Ints:
        """How many tasks of a shape each domain of the tree takes."""
        if self._freed is None:
            return self.cycle.fit_counts.of(shape).domains(self._pool)
        found = self._domains.get(shape.number)
        if found is None:
            found = self._domains[shape.number] = self.cycle.topology.totals(self.rows(shape))
        return found


def may_hold(room: Room, task_group: TaskGroup, domains: Ints) -> Bools:
    """Which domains may hold a task group: exact for one plain shape."""
    if len(task_group.remaining) == 1 and not task_group.roles:
        tasks_left = task_group.remaining[0]
        if tasks_left.left < task_group.need:
            return np.zeros(len(domains), dtype=bool)
        enough: Bools = room.domains(tasks_left.pod_set.shape)[domains] >= task_group.need
        return enough
    total = np.zeros(len(domains), dtype=np.int64)
    roles = {number: np.zeros(len(domains), dtype=np.int64) for number in task_group.roles}
    for tasks_left in task_group.remaining:
        fitting = np.minimum(room.domains(tasks_left.pod_set.shape)[domains], tasks_left.left)
        total += fitting
        if tasks_left.pod_set.role_number in roles:
            roles[tasks_left.pod_set.role_number] += fitting
    result: Bools = total >= task_group.need
    for role, least in task_group.roles.items():
        result &= roles[role] >= least
    return result


def may_hold_each(room: Room, demand: Demand, domains: Ints) -> Bools:
    """Which domains may hold every task group of a demand, each by itself."""
    result = np.ones(len(domains), dtype=bool)
    for task_group in demand.task_groups:
        result &= may_hold(room, task_group, domains)
    return result


def may_hold_together(room: Room, demand: Demand, domains: Ints) -> Bools:
    """Which domains may hold all task groups of a demand that have one shape, together with those of that shape."""
    needs: dict[Shape, int] = {}
    for task_group in demand.task_groups:
        if len(task_group.remaining) == 1:
            shape = task_group.remaining[0].pod_set.shape
            needs[shape] = needs.get(shape, 0) + task_group.need
    fits = np.ones(len(domains), dtype=bool)
    for shape, need in needs.items():
        fits &= room.domains(shape)[domains] >= need
    return fits


def held(room: Room, part: Part) -> Ints:
    """How many parts like this one every domain of the tree holds, where it is alike others (`Part.kind`)."""
    inside = _tasks_held(room, part) if part.bundle else held(room, part.parts[0]) // part.chosen
    if part.limit is None:
        return inside
    topology = room.cycle.topology
    allowed = topology.tier <= part.limit
    outermost = allowed & ~np.append(allowed, False)[topology.parent]  # parent -1 of the root picks the added False
    return np.where(allowed, inside, topology.roll_up(np.where(outermost, inside, 0)))


def _tasks_held(room: Room, leaf: Part) -> Ints:
    """How many copies of a leaf the nodes of each domain take, wherever its tasks stand in it.

    For several shapes the least of what can be counted: each shape by itself; all tasks together, of which a node takes
    no more than of one that asks for the least of everything; and all that they ask for, resource by resource.
    """
    numbers: dict[Shape, int] = {}
    for shape, count in leaf.bundle:
        numbers[shape] = numbers.get(shape, 0) + count
    most: Ints = np.minimum.reduce([room.domains(shape) // number for shape, number in numbers.items()])
    if len(numbers) == 1:
        return most
    topology = room.cycle.topology
    asked = np.stack([shape.request for shape in numbers])
    whole = np.array(list(numbers.values())) @ asked
    resources = np.flatnonzero(whole)
    takes = np.add.reduce([room.rows(shape) for shape in numbers])
    free = np.maximum(room.free(resources), 0)
    free[:, takes == 0] = 0
    for i, r in enumerate(resources.tolist()):
        least = int(asked[:, r].min())
        if least:
            takes = np.minimum(takes, free[i] // least)
        np.minimum(most, topology.totals(free[i]) // int(whole[r]), out=most)
    return np.minimum(most, topology.totals(takes) // leaf.pods)
