"""Where a shape would rather stand for the sake of other pods: preferred (anti-)affinity and soft spread.

Used by `nodeorder`. Scores run from 0 to 100 and follow the ledger's counts (`pod_counts`), so they move with every
placement. They are scaled over all nodes that are neither cordoned nor unready (see `preferences`), and kept until
the ledger moves.

Preferred affinity counts both ways, as in Kubernetes: the shape's own terms against the pods that stand, and the
preferred terms of those pods against the shape.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np

from tierwise.api.core import PodAffinityTerm, TopologySpreadConstraint
from tierwise.framework.extension import CycleView
from tierwise.model.arrays import Bools, Floats
from tierwise.model.pod_terms import PodSelector, affinity_pods
from tierwise.model.shape import Shape
from tierwise.plugins.node_terms import eligible
from tierwise.plugins.pod_counts import Count, PodCounts, counted_by_spread, placeable
from tierwise.plugins.preferences import open_rows

__all__ = ["PodWishes"]

_SOFT = "ScheduleAnyway"


class _Spread(msgspec.Struct, frozen=True):
    """The soft constraints of one shape: their counts, each with a factor, and what skews add to every node."""

    counts: tuple[tuple[Count, float], ...]
    base: float
    rows: Bools  # those with every label; the others score 0


class PodWishes:
    """Scores of preferred pod affinity and of soft spread, for the shapes that a cycle may place."""

    def __init__(self, view: CycleView, *, affinity: bool, spread: bool) -> None:
        self._ledger = view.ledger
        self._nodes = view.nodes
        self._open = open_rows(view.nodes)
        self._liked: dict[int, list[tuple[Count, int]]] = {}
        self._spreads: dict[int, _Spread] = {}
        self._scores: dict[tuple[str, int], tuple[int, Floats]] = {}
        shapes = view.snapshot.shapes
        affinity = affinity and any(True for shape in shapes for _ in _wishes(shape))
        spread = spread and any(_soft(shape) for shape in shapes)
        if affinity or spread:
            self._counts = PodCounts(view)
            for shape in placeable(view):
                if affinity:
                    self._add_own(shape)
                if spread and _soft(shape):
                    self._spreads[shape.number] = self._spread(shape)
            if affinity:
                self._add_others(view)

    def likes(self, shape: Shape) -> bool:
        """Whether preferred affinity, its own or others', ranks nodes for the shape."""
        return shape.number in self._liked

    def spreads(self, shape: Shape) -> bool:
        """Whether soft spread constraints rank nodes for the shape."""
        return shape.number in self._spreads

    def affinity(self, shape: Shape, span: slice) -> Floats:
        """From 0 on the node that is liked least to 100 on the one that is liked most."""
        return self._current("affinity", shape)[span]

    def spread(self, shape: Shape, span: slice) -> Floats:
        """The fewer matching pods stand where a node is, the higher."""
        return self._current("spread", shape)[span]

    def _current(self, kind: str, shape: Shape) -> Floats:
        """The scores of all rows, made anew once the ledger has moved."""
        version = len(self._ledger.moved)
        known = self._scores.get((kind, shape.number))
        if known is not None and known[0] == version:
            return known[1]
        made = self._affinity_scores(shape) if kind == "affinity" else self._spread_scores(shape)
        self._scores[kind, shape.number] = (version, made)
        return made

    def _affinity_scores(self, shape: Shape) -> Floats:
        total = np.zeros(len(self._nodes))
        for count, weight in self._liked[shape.number]:
            total += weight * count.at(slice(None))
        scaled = total[self._open]
        low, high = scaled.min(initial=np.inf), scaled.max(initial=-np.inf)
        return (total - low) * (100.0 / (high - low)) if high > low else np.zeros(len(self._nodes))

    def _spread_scores(self, shape: Shape) -> Floats:
        spread = self._spreads[shape.number]
        total = np.full(len(self._nodes), spread.base)
        for count, factor in spread.counts:
            total += factor * count.at(slice(None))
        scaled = total[self._open & spread.rows]
        low, high = scaled.min(initial=np.inf), scaled.max(initial=0.0)
        score = (high + low - total) * (100.0 / high) if high > 0 else np.full(len(self._nodes), 100.0)
        score[~spread.rows] = 0.0
        return score

    # -- registering the counts

    def _add_own(self, shape: Shape) -> None:
        for selector, key, weight in _wishes(shape):
            self._liked.setdefault(shape.number, []).append((self._counts.matching((selector,), key), weight))

    def _add_others(self, view: CycleView) -> None:
        carriers: dict[tuple[PodSelector, str], dict[int, int]] = {}
        for shape in view.snapshot.shapes:
            for selector, key, weight in _wishes(shape):
                weights = carriers.setdefault((selector, key), {})
                weights[shape.number] = weights.get(shape.number, 0) + weight
        wanted = {shape.number for shape in placeable(view)}
        for (selector, key), weights in carriers.items():
            met = wanted.intersection(self._counts.shapes_matching(selector))
            if met:
                count = self._counts.carrying(weights, key)
                for number in met:
                    self._liked.setdefault(number, []).append((count, 1))

    def _spread(self, shape: Shape) -> _Spread:
        constraints = _soft(shape)
        rows = np.ones(len(self._nodes), dtype=bool)
        for constraint in constraints:
            rows &= self._counts.place(constraint.topology_key) >= 0
        return _Spread(
            counts=tuple(self._factor(shape, constraint, rows) for constraint in constraints),
            base=float(sum(constraint.max_skew - 1 for constraint in constraints)),
            rows=rows,
        )

    def _factor(self, shape: Shape, constraint: TopologySpreadConstraint, rows: Bools) -> tuple[Count, float]:
        """The count, and Kubernetes' factor that makes labels with few values and with many comparable."""
        honours_affinity = constraint.node_affinity_policy != "Ignore"
        honours_taints = constraint.node_taints_policy == "Honor"
        among = rows & eligible(self._nodes, shape, affinity=honours_affinity, taints=honours_taints)
        selector = counted_by_spread(constraint, shape)
        count = self._counts.matching((selector,), constraint.topology_key, among=among, leaving=False)
        size = len(np.unique(count.place[among & self._open]))
        return count, float(np.log(size + 2))


def _wishes(shape: Shape) -> Iterator[tuple[PodSelector, str, int]]:
    """The preferred terms of a shape: whom, how near, and how much, negative for anti-affinity."""
    if shape.affinity is None:
        return
    for side, sign in ((shape.affinity.pod_affinity, 1), (shape.affinity.pod_anti_affinity, -1)):
        for wish in side.preferred if side is not None else ():
            term: PodAffinityTerm = wish.pod_affinity_term
            if wish.weight:
                selector = affinity_pods(term, shape.namespace, shape.labels)
                yield selector, term.topology_key, sign * wish.weight


def _soft(shape: Shape) -> tuple[TopologySpreadConstraint, ...]:
    return tuple(c for c in shape.spread if c.when_unsatisfiable == _SOFT)
