"""From when on each domain holds a number of tasks of one shape, as running tasks end: for all domains at once.

Running tasks end in groups, one after the other; after group g everything of the groups up to g is free. Counting is
exact for one shape without rules between pods, and otherwise never too late, as fit counts are. Called by reservations.
"""

from __future__ import annotations

import numpy as np

from tierwise.model.arrays import Ints
from tierwise.model.shape import Shape
from tierwise.model.topology import Topology

__all__ = ["earliest_fit"]


def earliest_fit(
    topology: Topology, shape: Shape, need: int, free: Ints, ends: tuple[Ints, Ints, Ints], usable: Ints, groups: int
) -> Ints:
    """By domain, the first group after which it holds `need` tasks: 0 for now, `groups` + 1 for never.

    `free` is what is free now, (resources x rows); `ends` are the running tasks: row, group from 1 on, and amounts,
    (resources x tasks). `usable` are the rows, as 0 or 1, that the shape may run on at all.
    """
    rows, group, amounts = ends
    now = shape.max_tasks(free[shape.asked].copy()) * usable
    earliest = np.where(topology.totals(now) >= need, 0, groups + 1)
    if not len(rows):
        return earliest
    order = np.lexsort((group, rows))
    rows, group = rows[order], group[order]
    added = _gains(shape, free, rows, amounts[:, order], now) * usable[rows]
    held = topology.totals(now)
    for level, domain in _levels(topology, rows):
        by_time = np.lexsort((group, domain))
        of, when = domain[by_time], group[by_time]
        first = np.flatnonzero(np.concatenate(([True], of[1:] != of[:-1])))
        total = np.cumsum(added[by_time])
        before = np.repeat(np.concatenate(([0], total[first[1:] - 1])), np.diff(np.append(first, len(of))))
        reached = np.where(held[of] + total - before >= need, when, groups + 1)
        found, inside = np.minimum.reduceat(reached, first), of[first]
        here = level[inside]
        earliest[inside[here]] = np.minimum(earliest[inside[here]], found[here])
    return earliest


def _gains(shape: Shape, free: Ints, rows: Ints, amounts: Ints, now: Ints) -> Ints:
    """How many tasks more a row takes with each end on it; ends are sorted by row, then by time."""
    first = np.flatnonzero(np.concatenate(([True], rows[1:] != rows[:-1])))
    lengths = np.diff(np.append(first, len(rows)))
    total = np.cumsum(amounts[shape.asked], axis=1)
    before = np.repeat(np.concatenate((np.zeros_like(total[:, :1]), total[:, first[1:] - 1]), axis=1), lengths, axis=1)
    after = shape.max_tasks(free[np.ix_(shape.asked, rows)] + total - before)
    last = np.concatenate(([0], after[:-1]))
    last[first] = now[rows[first]]
    gains: Ints = after - last
    return gains


def _levels(topology: Topology, rows: Ints) -> list[tuple[Ints, Ints]]:
    """For every depth of the tree: which domains are that deep, and the domain of each row at that depth or above."""
    depth = np.array([len(chain) for chain in topology.chains], dtype=np.int64)
    domain, found = topology.leaf[rows], []
    for deep in range(int(depth.max()), 0, -1):
        domain = np.where(depth[domain] > deep, topology.parent[domain], domain)
        found.append((depth == deep, domain))
    return found
