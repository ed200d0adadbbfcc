"""Assigns the ranks of a pattern to rows: groups that talk in as few innermost domains as can be.

A ring goes through rows in the order of the tree, so its ranks are consecutive in every domain, and of its edges as
many are cut as there are domains, which is the fewest.

The ranks of a grid talk along its dimensions: its *groups* are the lines along each of them. Of several layouts that
one is taken whose widest group touches the fewest innermost domains, innermost dimension first; then the one of which
the fewest groups cross from one to another; then the same of the domains around them. Layouts are: as many whole blocks
in every domain as it has rows for, what is left over together; and the innermost domains in some order, their rows
behind each other, cut into blocks, where orders are improved by swaps. Where volumes are given they say how much each
dimension's groups count, and which of them is laid out innermost. Nodes are the innermost domains of all, and concern
the innermost dimension.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, permutations
from math import prod
from operator import mul

import numpy as np

from tierwise.api.pattern import Pattern
from tierwise.model.arrays import Ints
from tierwise.model.job import Job, Status
from tierwise.model.node import NodeTable
from tierwise.model.topology import Topology

__all__ = ["crossing", "laid_out", "near_homes", "rank_homes", "spreads"]

_WORK = 2**18
"""Ranks that are looked at while layouts are compared, in all of them."""
_AXES = 4
"""Up to so many dimensions with volumes are laid out in every order."""


def laid_out(topology: Topology, rows: Ints, pattern: Pattern) -> Ints:
    """The rows in the order of ranks, so that ranks which talk are near each other."""
    rows = np.sort(rows)  # the order of the tree, which is all that a ring wants
    sizes = [size for _, size in pattern.grid]
    if len(sizes) < 2 or prod(sizes) != len(rows) or topology.leaf[rows[0]] == topology.leaf[rows[-1]]:
        return _in_blocks(topology, rows, pattern.factors)
    return _Layouts(topology, rows, pattern).best()


class _Layouts:
    """Layouts of a grid on some rows, and the best of them."""

    def __init__(self, topology: Topology, rows: Ints, pattern: Pattern) -> None:
        self._topology = topology
        self._rows = rows
        self._pattern = pattern
        self._sizes = tuple(size for _, size in pattern.grid)
        leaves, first = np.unique(topology.leaf[rows], return_index=True)
        self._pieces = np.split(np.arange(len(rows)), np.sort(first)[1:])  # positions by leaf, in the order of the tree
        self._tiers = [topology.leaf[rows]]
        tiers = sorted(tier for tier in topology.at_tier if tier < topology.tier[topology.meet_rows(rows)])
        for tier in tiers[1:]:
            at = np.array([_within(topology, leaf, tier) for leaf in leaves.tolist()])
            self._tiers.append(at[np.searchsorted(leaves, topology.leaf[rows])])
        self._left = max(_WORK // len(rows), 8)

    def best(self) -> Ints:
        """The rows by rank, in the best layout that was found."""
        sizes = len(self._sizes)
        orders = permutations(range(sizes)) if self._pattern.volumes and sizes <= _AXES else [tuple(range(sizes))]
        found = _in_blocks(self._topology, np.arange(len(self._rows)), self._pattern.factors, self._rows)
        cost = self._cost(found)
        for axes in orders:
            order = list(range(len(self._pieces)))
            other = self._improved(order, axes)
            if other[0] < cost:
                cost, found = other
        return self._rows[found]

    def _improved(self, order: Sequence[int], axes: Sequence[int]) -> tuple[tuple[float, ...], Ints]:
        """The layout of leaves in an order, and after moves of one or swaps of two as long as one is better."""
        found = self._line(order, axes)
        cost = self._cost(found)
        better = True
        while better:
            better = False
            for i, j in permutations(range(len(order)), 2):
                for tried in (_swapped(order, i, j), _moved(order, i, j)):
                    if self._left <= 0:
                        return cost, found
                    other = self._line(tried, axes)
                    worth = self._cost(other)
                    if worth < cost:
                        order = tried
                        cost = worth
                        found = other
                        better = True
        return cost, found

    def _line(self, order: Sequence[int], axes: Sequence[int]) -> Ints:
        """By rank, the position of its row: leaves behind each other, the last of the axes varying fastest."""
        line = np.concatenate([self._pieces[i] for i in order])
        return line.reshape([self._sizes[axis] for axis in axes]).transpose(np.argsort(axes)).ravel()

    def _cost(self, positions: Ints) -> tuple[float, ...]:
        """What a layout costs, the smaller the better."""
        self._left -= 1
        on_nodes = _spreads(self._rows[positions], self._sizes)[-1]  # of the innermost dimension: what a node links
        cost: list[float] = [*on_nodes]
        for tier in self._tiers:
            widest, crossed = zip(*_spreads(tier[positions], self._sizes), strict=True)
            if self._pattern.volumes:
                cost += (_weighed(self._pattern.volumes, widest), _weighed(self._pattern.volumes, crossed))
            else:  # innermost first, and the outermost last: its groups go through all blocks
                cost += (*widest[:0:-1], *crossed[:0:-1], widest[0], crossed[0])
        return tuple(cost)


def _swapped(order: Sequence[int], i: int, j: int) -> list[int]:
    found = list(order)
    found[i], found[j] = found[j], found[i]
    return found


def _moved(order: Sequence[int], i: int, j: int) -> list[int]:
    found = list(order)
    found.insert(j, found.pop(i))
    return found


def _weighed(volumes: Sequence[float], numbers: Sequence[float]) -> float:
    return sum(volume * number for volume, number in zip(volumes, numbers, strict=True))


def spreads(topology: Topology, rows: Ints, pattern: Pattern) -> list[tuple[str, int, int]]:
    """For each dimension of a grid, ranks standing on rows in order: the innermost domains of its widest group, and
    how many of its groups are in more than one.
    """
    sizes = [size for _, size in pattern.grid]
    found = _spreads(topology.leaf[rows], sizes)
    count = [len(rows) // size for size in sizes]
    return [
        (name, int(widest), round(share * number))
        for (name, _), (widest, share), number in zip(pattern.grid, found, count, strict=True)
    ]


def _spreads(where: Ints, sizes: Sequence[int]) -> list[tuple[int, float]]:
    """For each axis, on how many domains its widest line is, and the share of its lines that is on several."""
    grid = where.reshape(sizes)
    found = []
    for axis in range(len(sizes)):
        line = np.sort(grid, axis=axis)
        domains = 1 + (np.diff(line, axis=axis) != 0).sum(axis=axis)
        found.append((int(domains.max()), float((domains > 1).mean())))
    return found


def _in_blocks(topology: Topology, rows: Ints, factors: Sequence[int], where: Ints | None = None) -> Ints:
    """Rows by rank, or positions of rows `where`: every domain, from nodes outwards, has as many whole blocks as it has
    rows for, and passes on what is left.
    """
    blocks = np.arange(len(rows))[:, None]
    homes = (rows if where is None else where) + len(topology)  # a node is the innermost domain of all
    for factor in factors:
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
    if inside >= 0:
        return int(topology.leaf[inside])
    return int(topology.parent[domain])


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
