"""Assigns the ranks of a pattern to rows: consecutive blocks of ranks inside domains as tight as can be.

A ring goes through rows in the order of the tree, so its ranks are consecutive in every domain, and of its edges as
many are cut as there are domains, which is the fewest. A grid is laid out from its innermost dimension: every domain,
from nodes outwards, forms as many whole blocks as it has rows for, and passes what is left on; so each domain holds
`ranks // block` whole ones, which is the most it can. Blocks then take the place of ranks for the next dimension.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from math import prod
from operator import mul

import numpy as np

from tierwise.api.pattern import Pattern
from tierwise.model.arrays import Ints
from tierwise.model.job import Job, Status
from tierwise.model.node import NodeTable
from tierwise.model.topology import Topology

__all__ = ["crossing", "laid_out", "near_homes", "rank_homes"]


def laid_out(topology: Topology, rows: Ints, pattern: Pattern) -> Ints:
    """The same rows by rank."""
    rows = np.sort(rows)  # the order of the tree, which is all that a ring wants
    blocks = np.arange(len(rows))[:, None]
    homes = rows + len(topology)  # a node is the innermost domain of all: its number follows those of the domains
    for factor in pattern.factors:
        if len(blocks) % factor:
            break
        groups, homes = _grouped(topology, homes, factor)
        blocks = blocks[groups].reshape(len(groups), -1)
    return rows[blocks.ravel()]


def _grouped(topology: Topology, homes: Ints, size: int) -> tuple[Ints, Ints]:
    """Lines of `size` items, each as far inside as possible, in the order of the tree; and the domain of each."""
    by_home = np.argsort(homes, kind="stable")
    first = np.flatnonzero(np.diff(homes[by_home], prepend=-1))
    waiting = {int(homes[items[0]]): items for items in np.split(by_home, first[1:])}
    found: list[Ints] = []
    where: list[int] = []
    while waiting:
        domain = max(waiting)  # whatever is inside has a larger number
        items = np.sort(waiting.pop(domain))
        whole = len(items) // size
        found.append(items[: whole * size].reshape(whole, size))
        where += [domain] * whole
        if len(items) % size:
            above = _around(topology, domain)
            rest = items[whole * size :]
            waiting[above] = np.concatenate((waiting[above], rest)) if above in waiting else rest
    groups = np.concatenate(found)
    order = np.argsort(groups[:, 0])
    return groups[order], np.array(where, dtype=np.int64)[order]


def _around(topology: Topology, domain: int) -> int:
    inside = domain - len(topology)
    return int(topology.leaf[inside]) if inside >= 0 else int(topology.parent[domain])


def crossing(topology: Topology, rows: Ints, pattern: Pattern, tier: int) -> int:
    """How many edges of a pattern leave the domains of a tier, ranks standing on `rows` in order.

    A grid has a ring along each of its dimensions, and all-to-all an edge between any two ranks.
    """
    leaves, back = np.unique(topology.leaf[rows], return_inverse=True)
    where = np.array([_within(topology, leaf, tier) for leaf in leaves.tolist()], dtype=np.int64)[back]
    if pattern.name == "all-to-all":
        _, counts = np.unique(where, return_counts=True)
        return (len(rows) ** 2 - int((counts**2).sum())) // 2
    return sum(int((ring != np.roll(ring, -1, axis=1)).sum()) for ring in _rings(where, pattern))


def _rings(where: Ints, pattern: Pattern) -> Iterable[Ints]:
    """Arrays whose lines are rings."""
    if not pattern.grid:
        yield where[None, :]
        return
    grid = where.reshape([size for _, size in pattern.grid])
    for axis in range(grid.ndim):
        yield np.moveaxis(grid, axis, -1).reshape(-1, grid.shape[axis])


def _within(topology: Topology, leaf: int, tier: int) -> int:
    """The domain of a tier that a leaf is in; one of its own, with a number below all others, where there is none."""
    found = topology.highest(leaf, tier)
    return -1 - leaf if found is None else found


# Ranks of a gang that runs in part: where their neighbours are.


def rank_homes(topology: Topology, nodes: NodeTable, job: Job, keys: Iterable[str]) -> dict[str, int] | None:
    """Of these pending tasks of a job with ranks, the innermost domain around the running ones that each belongs to.

    In a grid these are the running ranks of the smallest block around its own; otherwise the nearest rank of its
    sub-job that runs, else of the job. None where nothing of the job runs.
    """
    running = [task for task in job.tasks if task.status is Status.RUNNING and task.node >= 0]
    rows = {job.ranks[task.key]: int(nodes.rows[task.node]) for task in running}
    if not rows:
        return None
    pattern = job.pattern
    grid = pattern is not None and prod(size for _, size in pattern.grid) == job.world_size
    blocks = tuple(accumulate(pattern.factors, mul)) if pattern is not None and grid else ()
    subs = {task.key: sub.number for sub in job.subs for task in sub.tasks}
    ours: dict[int, list[int]] = {}
    for task in job.tasks:
        if job.ranks[task.key] in rows and task.status is Status.RUNNING:
            ours.setdefault(subs[task.key], []).append(job.ranks[task.key])
    every = sorted(rows)
    homes: dict[str, int] = {}
    for key in keys:
        near = _block_mates(job.ranks[key], blocks, rows)
        own = sorted(ours.get(subs[key], ())) or every
        near = near or [_nearest(own, job.ranks[key])]
        homes[key] = topology.meet_rows(np.array([rows[rank] for rank in near]))
    return homes


def _block_mates(rank: int, blocks: Sequence[int], rows: Mapping[int, int]) -> list[int]:
    """The ranks that run in the smallest block of a grid around a rank that has any."""
    for size in blocks:
        first = rank - rank % size
        found = [other for other in range(first, first + size) if other in rows]
        if found:
            return found
    return []


def _nearest(ranks: Sequence[int], rank: int) -> int:
    """Of ranks in order, the one next to a rank; the lower of two."""
    after = bisect_left(ranks, rank)
    return min(ranks[max(after - 1, 0) : after + 1], key=lambda other: abs(other - rank))


def near_homes(topology: Topology, homes: Sequence[int], rows: Ints) -> Ints:
    """These rows in the order of tasks with these homes, one for each, each task as near to its home as can be.

    Domains are served from the innermost outwards: as many tasks as possible inside each, and what is left passes on
    to the domain around it. So no choice has fewer tasks outside any domain.
    """
    free = np.sort(rows).tolist()
    waiting: dict[int, list[int]] = {}
    for task, home in enumerate(homes):
        waiting.setdefault(home, []).append(task)
    found = np.zeros(len(rows), dtype=np.int64)
    while waiting:
        domain = max(waiting)  # whatever is inside has a larger number
        tasks = sorted(waiting.pop(domain))
        first = bisect_left(free, int(topology.start[domain]))
        last = bisect_left(free, int(topology.end[domain]))
        taken = free[first:last][: len(tasks)]
        found[tasks[: len(taken)]] = taken
        del free[first : first + len(taken)]
        if len(taken) < len(tasks):
            waiting.setdefault(int(topology.parent[domain]), []).extend(tasks[len(taken) :])
    return found
