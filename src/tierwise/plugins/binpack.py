"""Prefer nodes that the task would leave fuller, as Volcano's plugin of the same name.

    score = 100 * binpack.weight * sum(w * (used + request) / allocatable) / sum(w)

The sums run over the resources that the task asks for and that carry weight; a resource that would exceed what the
node can allocate adds 0. Used is what is not idle: tasks on their way out included, pipelined ones not, as in
Volcano's account of a node. So a task never lowers the score of the node it lands on. Pod slots are never scored.

Arguments: `binpack.weight`, `binpack.cpu`, `binpack.memory` (1 each), `binpack.resources` (further resources, comma
separated) and `binpack.resources.<name>` for the weight of each (1).
"""

from __future__ import annotations

import numpy as np

from tierwise.framework.arguments import number, words
from tierwise.framework.extension import Arguments, Ask, CycleView, Reach
from tierwise.model.arrays import Bools, Floats
from tierwise.model.resources import CPU, MEMORY, POD_SLOTS
from tierwise.model.shape import Shape

__all__ = ["Binpack"]

_Terms = tuple[tuple[int, int, float], ...]
"""Resource, request, and what a node scores that this resource would fill."""


class Binpack:
    """Ranks nodes by how full they would be."""

    def __init__(self, arguments: Arguments, view: CycleView) -> None:
        self._idle = view.ledger.idle  # read, never written: always current
        self._weight = number(arguments, "binpack.weight", 1.0)
        self._weights = _weights(arguments, view)
        self._each = _inverse(view, self._weights)
        self._terms: dict[int, _Terms] = {}

    def reach(self, ask: Ask) -> Reach:
        """A task raises its own node; where nothing counts, no score moves."""
        return Reach.ROW if self._of(ask.shape) else Reach.FIXED

    def score(self, ask: Ask, span: slice, fits: Bools) -> Floats:
        """How full each node would be, in percent, times the plugin's weight."""
        total = np.zeros(span.stop - span.start)
        for resource, request, full in self._of(ask.shape):
            left = self._idle[resource, span] - request
            part = left * self._each[resource][span]
            np.subtract(1.0, part, out=part)
            part *= left >= 0
            part *= full
            total += part
        return total

    def stale(self, ask: Ask, row: int) -> slice:
        """Only the row that took the task."""
        return slice(row, row + 1)

    def _of(self, shape: Shape) -> _Terms:
        found = self._terms.get(shape.number)
        if found is None:
            found = self._terms[shape.number] = self._make(shape)
        return found

    def _make(self, shape: Shape) -> _Terms:
        counted = [(r, self._weights[r]) for r in shape.asked.tolist() if self._weights.get(r)]
        whole = sum(weight for _, weight in counted)
        if not self._weight:
            return ()
        return tuple((r, int(shape.request[r]), 100.0 * self._weight * weight / whole) for r, weight in counted)


def _weights(arguments: Arguments, view: CycleView) -> dict[int, float]:
    """Weights by resource index; cpu and memory have arguments of their own, which count even where both are given."""
    by_name = {
        name: number(arguments, f"binpack.resources.{name}", 1.0) for name in words(arguments, "binpack.resources")
    }
    by_name[CPU] = number(arguments, "binpack.cpu", 1.0)
    by_name[MEMORY] = number(arguments, "binpack.memory", 1.0)
    by_name.pop(POD_SLOTS, None)
    return {view.axis.index[name]: weight for name, weight in by_name.items() if weight and name in view.axis.index}


def _inverse(view: CycleView, weights: dict[int, float]) -> dict[int, Floats]:
    """One divided by what each node can allocate, for the resources that carry weight; 0 where it has none."""
    inverse: dict[int, Floats] = {}
    for resource in weights:
        amounts = view.nodes.allocatable[resource]
        inverse[resource] = np.divide(1.0, amounts, out=np.zeros(len(amounts)), where=amounts > 0)
    return inverse
