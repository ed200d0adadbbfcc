"""The pods of an application that still wait, as an outlook: for the next of them, the node that suits them all.

Asked anew for every pod, from what stands on the ledger at that moment; so whatever else is placed, evicted or undone
meanwhile is seen, and nothing is remembered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np

from tierwise.framework.census import Census
from tierwise.framework.extension import CycleView
from tierwise.framework.ledger import Pool
from tierwise.model.arrays import Ints
from tierwise.model.shape import Shape
from tierwise.plugins.calls import Kinds
from tierwise.plugins.outlook import Outlook, plan
from tierwise.plugins.spots import Costs, Spots

__all__ = ["Ahead"]

_PODS = 64  # that are planned at once
_NODES = 64  # that are looked at
_NOBODY = Kinds.of(())


class Ahead:
    """Plans the waiting pods of one application at a time."""

    def __init__(
        self,
        view: CycleView,
        spots: Spots,
        costs: Costs,
        census: Census,
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
            for part in (*job.parts(), *(part for _, part in job.effortless)):
                if part.shape.service is not None:
                    self._waiting.setdefault(part.shape.service[0], Counter())[part.shape] += len(part.tasks)

    def row(self, shape: Shape, rows: Ints) -> int | None:
        """The row for the next pod of a shape among those that take it; None where no other pod waits."""
        pods = self._pods(shape)
        if len(pods) < 2:
            return None
        rows = self._nearest(shape, rows)
        kinds = np.array([self._kind[pod.number] for pod in pods], dtype=np.int64)
        asked = np.flatnonzero(np.any([pod.request for pod in pods], axis=0))
        nodes = plan(
            Outlook(
                calls=self._between_kinds(kinds),
                fixed=self._fixed(kinds, rows),
                cost=self._between(rows),
                request=np.stack([pod.request[asked] for pod in pods]),
                free=self._ledger.free(asked, rows, Pool.NOW).T,
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
        room = shape.room(self._ledger.free(shape.asked, rows, Pool.NOW))
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
                cost = (paid @ self._census.at(others.kinds, others.times))[spots]
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


def _sides(calls: Mapping[tuple[int, int], int]) -> dict[int, tuple[Kinds, Kinds]]:
    """By kind, whom it calls and who calls it."""
    callees: dict[int, list[int]] = {}
    callers: dict[int, list[int]] = {}
    for (caller, callee), times in calls.items():
        callees.setdefault(caller, []).extend([callee] * times)
        callers.setdefault(callee, []).extend([caller] * times)
    kinds = dict.fromkeys((*callees, *callers))
    return {kind: (Kinds.of(callees.get(kind, ())), Kinds.of(callers.get(kind, ()))) for kind in kinds}
