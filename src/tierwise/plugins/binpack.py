"""Prefer nodes that the task would leave fuller, as Volcano's plugin of the same name.

    score = 100 * binpack.weight * sum(w * (used + request) / allocatable) / sum(w)

The sums run over the resources that the task asks for and that carry weight; a resource that would exceed what the
node can allocate adds 0. Used is what is not idle: terminating tasks included, pipelined ones not, as Volcano
counts. So a task never lowers the score of its node. Pod slots are never scored.

Arguments: `binpack.weight`, `binpack.cpu`, `binpack.memory` (1 each), `binpack.resources` (further resources, comma
separated) and `binpack.resources.<name>` for the weight of each (1).
"""

from __future__ import annotations

import msgspec
import numpy as np

from tierwise.config.arguments import number, words
from tierwise.framework.declaration import takes_part
from tierwise.framework.extension import Arguments, Ask, CycleView, ScoreEffect, Scorer
from tierwise.framework.node_scores import OwnScores
from tierwise.model.arrays import CPU, MEMORY, POD_SLOTS, Floats, Ints, Rows, length, of_rows
from tierwise.model.job import Shape

__all__ = ["Binpack"]


class _Counted(msgspec.Struct, frozen=True):
    """The resources that count for a shape, one row of every array each."""

    resources: Ints
    request: Ints  # as a column
    full: Floats  # what a node scores that the resource would fill, as a column
    loss: Floats  # what it scores less per unit that is left, (resources x nodes)


@takes_part(Scorer, scores_by_shape=True)
class Binpack(OwnScores):
    """Ranks nodes by how full they would be."""

    def __init__(self, arguments: Arguments, view: CycleView) -> None:
        self._idle = view.ledger.idle  # read, never written: always current
        self._allocatable = view.nodes.allocatable
        self._weight = number(arguments, "binpack.weight", 1.0)
        self._weights = _weights(arguments, view)
        self._losses: dict[tuple[int, ...], tuple[Floats, Floats]] = {}
        self._counted: dict[int, _Counted | None] = {}

    def effect(self, ask: Ask) -> ScoreEffect:
        """A task raises its own node; where nothing counts, no score moves."""
        if self._of(ask.shape) is None:
            return ScoreEffect.FIXED
        return ScoreEffect.ROW

    def _scored(self, ask: Ask, rows: Rows) -> Floats:
        """How full each node would be, in percent, times the plugin's weight."""
        counted = self._of(ask.shape)
        if counted is None:
            return np.zeros(length(rows))
        remaining = of_rows(self._idle, counted.resources, rows)
        remaining -= counted.request
        part = remaining * counted.loss[:, rows]
        np.subtract(counted.full, part, out=part)
        part *= remaining >= 0
        total: Floats = np.add.reduce(part, axis=0)
        return total

    def _of(self, shape: Shape) -> _Counted | None:
        try:
            return self._counted[shape.number]
        except KeyError:
            counted = self._counted[shape.number] = self._count(shape)
            return counted

    def _count(self, shape: Shape) -> _Counted | None:
        weighed = tuple(r for r in shape.asked.tolist() if r in self._weights)
        if not weighed or not self._weight:
            return None
        if weighed not in self._losses:
            self._losses[weighed] = self._loss(weighed)
        full, loss = self._losses[weighed]
        resources = np.array(weighed)
        return _Counted(resources, shape.request[resources, None], full, loss)

    def _loss(self, resources: tuple[int, ...]) -> tuple[Floats, Floats]:
        """`full` and `loss` for tasks that ask for these resources; nothing is left of what a node has none of."""
        weights = np.array([[self._weights[r]] for r in resources])
        full = weights * (100.0 * self._weight / weights.sum())
        amounts = self._allocatable[list(resources)]
        return full, np.divide(full, amounts, out=np.zeros(amounts.shape), where=amounts > 0)


def _weights(arguments: Arguments, view: CycleView) -> dict[int, float]:
    """Weights by resource index, none of them 0; cpu and memory have arguments of their own, which overrule a list."""
    by_name = {
        name: number(arguments, f"binpack.resources.{name}", 1.0) for name in words(arguments, "binpack.resources")
    }
    by_name[CPU] = number(arguments, "binpack.cpu", 1.0)
    by_name[MEMORY] = number(arguments, "binpack.memory", 1.0)
    by_name.pop(POD_SLOTS, None)
    return {view.axis.index[name]: weight for name, weight in by_name.items() if weight and name in view.axis.index}
