"""Every unit of a resource accounted for: who holds it, what is reserved, broken, and of no use to any job that waits.

The parts of a resource add up to all that the nodes have; only what pods hold beyond a node's capacity is on top.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import numpy as np

from tierwise.actions.placement.spares import Spares
from tierwise.api.codec import Raw
from tierwise.config.spares import spare_rules
from tierwise.explain.board.pods import BoardPod, is_single
from tierwise.explain.board.tree import BoardTree
from tierwise.explain.text.schedule import Run
from tierwise.model.arrays import Bools, Ints
from tierwise.model.job import Constraint, Job, Shape, Status
from tierwise.model.snapshot import Snapshot
from tierwise.model.topology import ROOT, AlternateTopology
from tierwise.scheduler import open_cycle

__all__ = ["Account"]

_MOST: Final = 64
"""Kinds of waiting gangs that are looked at when free amounts are judged, the smallest first."""


class Account:
    """The parts of every shown resource, and on which rows what is free is of no use to any job that waits."""

    def __init__(self, run: Run, tree: BoardTree, board_pods: Sequence[BoardPod]) -> None:
        self._wire: Raw = {}
        snapshot = run.after
        shut = tree.shut
        spares = _spares(run)
        reservations = _reservations(run)
        gangs = tree.of(pod for pod in board_pods if pod.holds and not is_single(pod.job))
        single = tree.of(pod for pod in board_pods if pod.holds and is_single(pod.job))
        fragmented: list[Ints] = []
        for r, name in enumerate(tree.resources):
            total = tree.total[r]
            used = tree.used[r]
            kept_amounts = tree.kept[r]
            idle = np.maximum(total - used, 0)
            reserved = np.where(shut, 0, np.minimum(kept_amounts, idle))
            remaining = np.where(shut, 0, idle - reserved)
            spare = np.minimum(remaining, _taken(snapshot, name, spares))
            remaining = remaining - spare
            promised = np.minimum(remaining, _taken(snapshot, name, reservations))
            remaining = remaining - promised
            useful, scattered = _useful(snapshot, tree.trees.values(), name, remaining)
            fragmented.append(remaining - useful if scattered else np.zeros_like(remaining))
            self._wire[name] = {
                "total": int(total.sum()),
                "gangs": int(gangs[r].sum()),
                "single": int(single[r].sum()),
                "others": int(used.sum() - gangs[r].sum() - single[r].sum()),
                "reserved": int(reserved.sum()),
                "spares": int(spare.sum()),
                "reservations": int(promised.sum()),
                "broken": int(np.where(shut, idle, 0).sum()),
                "fragmented": int(fragmented[r].sum()),
                "free": int(remaining.sum() - fragmented[r].sum()),
                "over": int(np.maximum(used - total, 0).sum()),
            }
        self.fragmented: Ints = np.stack(fragmented)

    def wire(self) -> Raw:
        """For each shown resource: its parts in the order in which a bar shows them."""
        return self._wire


Places = Sequence[tuple[Shape, Ints, Ints]]
"""Shapes, rows, and how many of the shape on each."""


def _spares(run: Run) -> Places:
    """Places that are kept free for jobs which may lose nodes."""
    if not any(job.repair is not None and job.repair.spares for job in run.after.jobs):
        return ()
    return tuple(Spares(open_cycle(run.after, run.profile), spare_rules(run.profile)).places())


def _reservations(run: Run) -> Places:
    """Places that gangs which wait have a reservation for, on the rows of the last snapshot."""
    snapshot, report = run.reports[-1]
    names = snapshot.nodes.names
    row_of = run.after.nodes.row
    places: list[tuple[Shape, Ints, Ints]] = []
    for shape, rows, counts in (place for reservation in report.reservations for place in reservation.held):
        rows_now = np.array([row_of.get(names[row], -1) for row in rows.tolist()], dtype=np.int64)
        places.append((shape, rows_now[rows_now >= 0], counts[rows_now >= 0]))
    return places


def _taken(snapshot: Snapshot, resource: str, places: Places) -> Ints:
    """Amount of a resource that some places hold, by row."""
    sums = np.zeros(len(snapshot.nodes), dtype=np.int64)
    index = snapshot.axis.index.get(resource, -1)
    for shape, rows, counts in places if index >= 0 else ():
        np.add.at(sums, rows, int(shape.request[index]) * counts)
    return sums


def _useful(
    snapshot: Snapshot, trees: Collection[AlternateTopology], resource: str, free_amounts: Ints
) -> tuple[Ints, bool]:
    """What of the free amounts some gang that waits could use, for all that this resource says; and whether the rest is
    fragmented: for some gang the sum of what is free would do, and no domain of the tier that it must stay in does.

    A node's rest counts where whole pods of the gang fit into it, inside a domain of that tier which has enough of them
    for the gang's minimum. A gang for which all that is free is too little says nothing of where it is.
    """
    index = snapshot.axis.index.get(resource, -1)
    useful = np.zeros_like(free_amounts)
    order = list(trees)
    kinds = _waiting(snapshot, order, index) if index >= 0 else []
    scattered = False
    for request, minimum, number, tier in kinds:
        pods = free_amounts // request
        inside = _inside(order[number], pods, minimum, tier)
        useful = np.maximum(useful, np.where(inside, pods * request, 0))
        scattered |= int(free_amounts.sum()) >= minimum * request and not inside.any()
    return useful, scattered


def _waiting(snapshot: Snapshot, trees: Sequence[AlternateTopology], index: int) -> list[tuple[int, int, int, int]]:
    """Request of one pod, minimum, tree and tier of the gangs that wait, each kind once, the smallest first."""
    kinds: set[tuple[int, int, int, int]] = set()
    for job in snapshot.jobs:
        pending = [task for task in job.tasks if task.status is Status.PENDING]
        requests = []
        for task in pending:
            if task.shape.request[index] > 0:
                requests.append(int(task.shape.request[index]))
        if requests:
            kinds.add((min(requests), max(1, min(job.minimum, len(requests))), *_tier(snapshot, trees, job)))
    order = sorted(kinds, key=lambda kind: (kind[0] * kind[1], *kind))
    return order[:_MOST]


def _tier(snapshot: Snapshot, trees: Sequence[AlternateTopology], job: Job) -> tuple[int, int]:
    """The widest tier that a gang may spread over, and the tree that it is of; the root's where it may go anywhere."""
    limit: Constraint | None = job.constraint
    alternate = snapshot.alternate_topology(limit)
    number = next((i for i, tree in enumerate(trees) if tree is alternate), 0)
    topology = trees[number].topology
    anywhere = int(topology.tier[ROOT])
    if limit is None or not limit.hard or limit.spread:
        return number, anywhere
    named = topology.tier_names.get(limit.tier_name, anywhere)
    return number, limit.tier if limit.tier is not None else named


def _inside(tree: AlternateTopology, pods: Ints, minimum: int, tier: int) -> Bools:
    """Which rows are in a domain of the tier, or of a tighter one, that has room for so many pods."""
    topology = tree.topology
    room = topology.totals(pods[tree.rows])
    fits = np.flatnonzero((room >= minimum) & (topology.tier <= tier))
    marks = np.zeros(len(topology.leaf) + 1, dtype=np.int64)
    np.add.at(marks, topology.start[fits], 1)
    np.add.at(marks, topology.end[fits], -1)
    inside: Bools = (np.cumsum(marks)[:-1] > 0)[tree.positions]
    return inside
