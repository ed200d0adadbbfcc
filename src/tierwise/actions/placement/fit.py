"""Place one task group below one domain on the ledger, or report that the domain does not hold it.

Called inside a statement, by `search` and the modules beside it; on failure the caller rewinds. Tasks use idle
resources first and, where the caller allows it, resources that are still being released.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from msgspec.structs import replace

from tierwise.actions.placement.demand import RemainingTasks, TaskGroup
from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import Ask
from tierwise.framework.ledger import Pool
from tierwise.framework.placer import Picks, place
from tierwise.framework.walk import walk
from tierwise.model.arrays import Ints
from tierwise.model.job import Job, PodSet, SubJob
from tierwise.model.ranks import rank_homes
from tierwise.model.topology import ROOT

__all__ = ["Placement", "fit", "largest_first", "place_tasks", "put"]


class Placement(msgspec.Struct, frozen=True):
    """Tasks of one pod set with the row of each, in tree order."""

    sub: SubJob
    pod_set: PodSet
    rows: Ints
    pool: Pool


def fit(cycle: Cycle, job: Job, task_group: TaskGroup, domain: int, pools: tuple[Pool, ...]) -> list[Placement] | None:
    """Place a task group below a domain; None if the domain does not hold it."""
    placements: list[Placement] = []
    used: dict[int, int] = {}
    missing = task_group.need

    def place_some(tasks_left: RemainingTasks, count: int) -> int:
        ask = Ask(tasks_left.pod_set.shape, task_group.sub, job)
        before = used.get(id(tasks_left), 0)
        number = min(tasks_left.left - before, count)
        found = put(cycle, ask, tasks_left.pod_set, number, domain, pools, before=before)
        placed = sum(len(t.rows) for t in found)
        used[id(tasks_left)] = before + placed
        placements.extend(found)
        return placed

    roles = dict(task_group.roles)
    for tasks_left in task_group.remaining:
        least = roles.get(tasks_left.pod_set.role_number, 0)
        if least:
            placed = place_some(tasks_left, least)
            roles[tasks_left.pod_set.role_number] = least - placed
            missing -= placed
    if any(roles.values()):
        return None
    for tasks_left in task_group.remaining:
        if missing > 0:
            missing -= place_some(tasks_left, missing)
    return None if missing > 0 else placements


def largest_first(cycle: Cycle, task_group: TaskGroup) -> TaskGroup:
    """The same task group with its largest tasks first, because these fit the fewest nodes."""
    scale = np.maximum(cycle.ledger.domain_allocatable[:, ROOT], 1)
    order = sorted(task_group.remaining, key=lambda p: -float((p.pod_set.shape.request / scale).max()))
    return replace(task_group, remaining=tuple(order))


def put(
    cycle: Cycle, ask: Ask, pod_set: PodSet, count: int, domain: int, pools: tuple[Pool, ...], *, before: int = 0
) -> list[Placement]:
    """Place up to `count` tasks of a pod set below a domain; `before` of them are placed already."""
    placements: list[Placement] = []
    find = walk if _distance_matters(cycle, ask) else _by_score
    homes = _homes(cycle, ask, pod_set, before, count, domain) if ask.job.ranks else None
    for pool in pools:
        if homes is not None:
            picks = _near_homes(cycle, ask, homes[-count:], domain, pool)
        else:
            picks = find(cycle, ask, count, domain, pool)
        if len(picks[0]):
            placements.append(place_tasks(cycle, ask, pod_set, picks, pool))
            count -= int(picks[1].sum())
        if not count or not cycle.ledger.any_releasing:
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
    found = rank_homes(cycle.topology, cycle.nodes, ask.job, [task.key for task in tasks])
    if found is None:
        return None
    inside = [found[t.key] if cycle.topology.contains(domain, found[t.key]) else domain for t in tasks]
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
            rows, taken = walk(cycle, ask, number, inner, pool)
            if len(rows):
                cycle.ledger.place(ask.shape, rows, taken, pool=pool)
                counts[rows] += taken
            left = number - int(taken.sum())
            if left and inner != domain:
                outer = int(cycle.topology.parent[inner])
                waiting[outer] = waiting.get(outer, 0) + left
    distinct = np.flatnonzero(counts)
    return distinct, counts[distinct]


def _by_score(cycle: Cycle, ask: Ask, count: int, domain: int, pool: Pool) -> Picks:
    """Without a topology constraint, scores alone choose the nodes."""
    return place(cycle, ask, count, cycle.topology.span(domain), pool)


def place_tasks(cycle: Cycle, ask: Ask, pod_set: PodSet, picks: Picks, pool: Pool) -> Placement:
    """Write the placement of tasks of one pod set to the ledger."""
    rows, counts = picks
    cycle.ledger.place(pod_set.shape, rows, counts, pool=pool)
    cycle.ledger.count_placed(ask.sub, pod_set, rows, counts, pool=pool)
    cycle.ledger.charge(ask.job, pod_set.shape.request * counts.sum())
    return Placement(ask.sub, pod_set, np.repeat(rows, counts), pool)
