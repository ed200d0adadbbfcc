"""Place the next pod of an application with regard to its other pending pods: the node that suits them all.

Computed again for every pod from the current ledger, so placements, evictions and rewinds in between are seen, and no
state is kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec
import numpy as np
from msgspec.structs import replace

from tierwise.framework.extension import CycleView
from tierwise.framework.ledger import Pool
from tierwise.model.arrays import Bools, Ints
from tierwise.model.shape import Shape
from tierwise.plugins.network_overhead.dependencies import ServiceKinds
from tierwise.plugins.network_overhead.zones import ServiceCounts, ZoneCosts, Zones

__all__ = ["LookAhead", "LookAheadProblem", "plan"]


# Where the pods of an application that still wait would best go, all of them together: what `lookAhead` goes by.
#
# Starts from several centres fill nodes outwards; the cheapest few are improved by moving one pod or trading two as
# long as that helps. The result is a good plan, not a proven one; nothing is placed by it.


_CENTRES = 24  # from which starts are made, spread over the nodes
_STARTS = 4  # that are improved
_STEPS = 200  # of improvement, at most
_NEVER = 2**60


class LookAheadProblem(msgspec.Struct, frozen=True):
    """Pods that wait (p), and the nodes that they may go to (n)."""

    calls: Ints  # (p x p): how often the one calls the other
    fixed: Ints  # (p x n): what a pod there costs with those that stand already
    cost: Ints  # (n x n): from node to node
    request: Ints  # (p x resources)
    free: Ints  # (n x resources)


def plan(outlook: LookAheadProblem) -> Ints | None:
    """A node for every pod; None where no start holds them all."""
    strangers = ~np.eye(len(outlook.calls), dtype=bool)  # what a pod calls itself for costs nothing anywhere
    outlook = replace(outlook, calls=np.where(strangers, outlook.calls, 0))
    count = len(outlook.cost)
    centres = np.arange(count) if count <= _CENTRES else np.linspace(0, count - 1, _CENTRES).astype(np.int64)
    starts = _starts(outlook, centres)
    best = starts[np.argsort(_totals(outlook, starts), kind="stable")[:_STARTS]]
    improved = [_improved(outlook, np.array(nodes)) for nodes in dict.fromkeys(map(tuple, best.tolist()))]
    return improved[int(np.argmin(_totals(outlook, np.stack(improved))))] if improved else None


def _totals(outlook: LookAheadProblem, nodes: Ints) -> Ints:
    """What each of some plans (k x p) costs as a whole."""
    between = outlook.calls * outlook.cost[nodes[:, :, None], nodes[:, None, :]]
    result: Ints = between.sum(axis=(1, 2)) + outlook.fixed[np.arange(nodes.shape[1]), nodes].sum(axis=1)
    return result


def _starts(outlook: LookAheadProblem, centres: Ints) -> Ints:
    """A plan (k x p) around each centre that can have one.

    The most connected pods come first, each on the nearest node to the centre that has room.
    """
    near = outlook.cost[centres] + outlook.cost[:, centres].T
    degree = outlook.calls.sum(axis=0) + outlook.calls.sum(axis=1)
    free = np.repeat(outlook.free.T[:, None], len(centres), axis=1)  # (resources x k x n)
    nodes = np.zeros((len(centres), len(degree)), dtype=np.int64)
    whole, every = np.ones(len(centres), dtype=bool), np.arange(len(centres))
    for pod in np.argsort(-degree, kind="stable").tolist():
        holds = (free >= outlook.request[pod][:, None, None]).all(axis=0)
        whole &= holds.any(axis=1)
        nodes[:, pod] = np.where(holds, near, _NEVER).argmin(axis=1)
        free[:, every, nodes[:, pod]] -= outlook.request[pod][:, None]
    return nodes[whole]


def _improved(outlook: LookAheadProblem, nodes: Ints) -> Ints:
    """Move or trade as long as that makes the whole cheaper."""
    nodes = nodes.copy()
    pods = np.arange(len(nodes))
    free = outlook.free.copy()
    np.subtract.at(free, nodes, outlook.request)
    for _ in range(_STEPS):
        each = _each(outlook, nodes)
        now = each[pods, nodes]
        moves = np.where((free[None] >= outlook.request[:, None]).all(axis=2), each - now[:, None], _NEVER)
        trades = np.where(_tradable(outlook, nodes, free), _trades(outlook, nodes, each), _NEVER)
        if min(moves.min(), trades.min()) >= 0:
            break
        if moves.min() <= trades.min():
            pod, node = divmod(int(np.argmin(moves)), moves.shape[1])
            changed = {pod: node}
        else:
            one, other = divmod(int(np.argmin(trades)), len(nodes))
            changed = {one: int(nodes[other]), other: int(nodes[one])}
        for pod, node in changed.items():
            free[nodes[pod]] += outlook.request[pod]
            free[node] -= outlook.request[pod]
            nodes[pod] = node
    return nodes


def _each(outlook: LookAheadProblem, nodes: Ints) -> Ints:
    """(p x n): what each pod would cost on each node, the others where they are."""
    out = outlook.calls @ outlook.cost[:, nodes].T
    back = outlook.calls.T @ outlook.cost[nodes]
    result: Ints = outlook.fixed + out + back
    return result


def _trades(outlook: LookAheadProblem, nodes: Ints, each: Ints) -> Ints:
    """(p x p): what trading places changes."""
    there = each[:, nodes]  # pod i where pod j is
    gain = there - there.diagonal()[:, None]
    pair = outlook.cost[nodes[:, None], nodes]
    # Both terms took the other pod to stay where it is: put right what lies between the two of them.
    between = outlook.calls * pair + outlook.calls * pair.T
    result: Ints = gain + gain.T + between + between.T
    return result


def _tradable(outlook: LookAheadProblem, nodes: Ints, free: Ints) -> Bools:
    room = free[nodes] + outlook.request  # what is left where each pod stands, without it
    fits = (room[None] >= outlook.request[:, None]).all(axis=2)
    result: Bools = fits & fits.T & (nodes[:, None] != nodes)
    return result


_PODS = 64  # that are planned at once
_NODES = 64  # that are looked at
_NOBODY = ServiceKinds.of(())


class LookAhead:
    """Plans the waiting pods of one application at a time."""

    def __init__(
        self,
        view: CycleView,
        spots: Zones,
        costs: ZoneCosts,
        census: ServiceCounts,
        kind: Mapping[int, int],
        calls: Iterable[tuple[int, int]],
    ) -> None:
        self._ledger = view.ledger
        self._spots = spots
        self._paid = costs.paid
        self._census = census
        self._kind = kind
        self._start = census.spots.sum(axis=1)
        self._calls = Counter(calls)
        self._sides = _sides(self._calls)
        self._waiting: dict[str, Counter[Shape]] = {}
        for job in view.jobs:
            for pod_set in (*job.pod_sets(), *(pod_set for _, pod_set in job.best_effort_pod_sets)):
                if pod_set.shape.service is not None:
                    self._waiting.setdefault(pod_set.shape.service[0], Counter())[pod_set.shape] += len(pod_set.tasks)

    def row(self, shape: Shape, rows: Ints) -> int | None:
        """The row for the next pod of a shape among those that take it; None where no other pod waits."""
        pods = self._pods(shape)
        if len(pods) < 2:
            return None
        rows = self._nearest(shape, rows)
        kinds = np.array([self._kind[pod.number] for pod in pods], dtype=np.int64)
        asked = np.flatnonzero(np.any([pod.request for pod in pods], axis=0))
        nodes = plan(
            LookAheadProblem(
                calls=self._between_kinds(kinds),
                fixed=self._fixed(kinds, rows),
                cost=self._between(rows),
                request=np.stack([pod.request[asked] for pod in pods]),
                free=self._ledger.free(asked, rows, Pool.IDLE).T,
            )
        )
        return int(rows[nodes[0]]) if nodes is not None else None

    def _pods(self, shape: Shape) -> list[Shape]:
        """The pods that still wait, one of the shape itself first."""
        assert shape.service is not None
        placed = np.maximum(self._census.spots.sum(axis=1) - self._start, 0)
        placed[self._kind[shape.number]] += 1  # the one in question stands first
        left = [shape]
        for pod, number in self._waiting.get(shape.service[0], Counter()).items():
            kind = self._kind[pod.number]
            gone = min(number, int(placed[kind]))
            placed[kind] -= gone
            left += [pod] * min(number - gone, _PODS - len(left))
        return left

    def _nearest(self, shape: Shape, rows: Ints) -> Ints:
        """The rows with most room for the shape, of every spot some."""
        if len(rows) <= _NODES:
            return rows
        room = shape.max_tasks(self._ledger.free(shape.asked, rows, Pool.IDLE))
        spots = self._spots.of_row[rows]
        order = np.lexsort((rows, -room, spots))
        place = np.arange(len(order)) - np.searchsorted(spots[order], spots[order])
        return np.sort(rows[order[np.lexsort((-room[order], place))[:_NODES]]])

    def _fixed(self, kinds: Ints, rows: Ints) -> Ints:
        """(pods x rows): what each would cost with those that stand."""
        result = np.zeros((len(kinds), len(rows)), dtype=np.int64)
        spots = self._spots.of_row[rows]
        for kind in dict.fromkeys(kinds.tolist()):
            callees, callers = self._sides.get(kind, (_NOBODY, _NOBODY))
            for others, paid in ((callees, self._paid), (callers, self._paid.T)):
                standing = self._census.at(others.kinds, others.times)
                if not standing.any():
                    continue
                cost = (paid @ standing)[spots]
                there, counts = self._census.rows(others.kinds, others.times)
                here = np.searchsorted(rows, there)
                on = (here < len(rows)) & (rows[np.minimum(here, len(rows) - 1)] == there)
                np.subtract.at(cost, here[on], (counts * self._paid.diagonal()[self._spots.of_row[there]])[on])
                result[kinds == kind] += cost
        return result

    def _between_kinds(self, kinds: Ints) -> Ints:
        """(pods x pods): how often the one calls the other."""
        known, place = np.unique(kinds, return_inverse=True)
        table = np.array([[self._calls.get((a, b), 0) for b in known.tolist()] for a in known.tolist()], dtype=np.int64)
        result: Ints = table[place[:, None], place]
        return result

    def _between(self, rows: Ints) -> Ints:
        spots = self._spots.of_row[rows]
        cost: Ints = self._paid[spots[:, None], spots]
        np.fill_diagonal(cost, 0)
        return cost


def _sides(calls: Mapping[tuple[int, int], int]) -> dict[int, tuple[ServiceKinds, ServiceKinds]]:
    """By kind, whom it calls and who calls it."""
    callees: dict[int, list[int]] = {}
    callers: dict[int, list[int]] = {}
    for (caller, callee), times in calls.items():
        callees.setdefault(caller, []).extend([callee] * times)
        callers.setdefault(callee, []).extend([caller] * times)
    kinds = dict.fromkeys((*callees, *callers))
    return {kind: (ServiceKinds.of(callees.get(kind, ())), ServiceKinds.of(callers.get(kind, ()))) for kind in kinds}
