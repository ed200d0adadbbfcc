"""Scores by how much of a node's cpu and memory is in use: least, most and balanced allocation.

Used by `nodeorder`. Kubernetes' formulas, with equal weights for cpu and memory, over what would be used with the
task on the node; what a node has none of is left out. Balanced allocation is that of Kubernetes 1.36: it scores how
much more or less evenly the node is used with the task than without it. Pipelined tasks count as present, for the
other tasks of the cycle are to be spread with them in mind. Pods that ask for nothing count as nothing: Kubernetes'
guess at what they use (100 milli cpu, 200 MiB) is not made.
"""

from __future__ import annotations

import numpy as np

from tierwise.framework.extension import CycleView, Reach
from tierwise.model.arrays import Floats, Ints
from tierwise.model.shape import Shape

__all__ = ["NodeLoad"]

_GPU = "nvidia.com/gpu"
"""Volcano balances it with cpu and memory for tasks that ask for it."""

_PAIR = slice(0, 2)
"""Cpu and memory: the axis puts them first."""


class NodeLoad:
    """The weighted sum of the three scores, each up to 100."""

    def __init__(self, view: CycleView, *, least: float, most: float, balanced: float) -> None:
        self._ledger = view.ledger
        self._gpu = view.axis.index.get(_GPU)
        self._balanced = 100.0 * balanced
        # Whatever is not left is used, so "most" is what "least" lacks of 100.
        self._most = 100.0 * most
        self.reach = Reach.FREE if least or balanced else Reach.ROW if most else Reach.FIXED
        amounts = view.nodes.allocatable[_PAIR]
        self._each = _inverse(amounts)
        self._has = amounts > 0
        number = self._has.sum(axis=0)
        self._least = 100.0 * (least - most) / np.maximum(number, 1)
        self._any = number > 0
        self._both = 0.5 * (number == len(amounts))
        self._gpu_each = _inverse(view.nodes.allocatable[self._gpu]) if self._gpu is not None else None

    def score(self, shape: Shape, span: slice) -> Floats:
        """The scores of a span for one more task of the shape."""
        left = self._left(_PAIR, span, shape.request[_PAIR, None]) * self._each[:, span]
        np.maximum(left, 0.0, out=left)
        total: Floats = np.add.reduce(left, axis=0)
        total *= self._least[span]
        if self._most:
            total += self._most * self._any[span]
        if self._balanced and self._balances(shape):
            before = np.maximum(self._left(_PAIR, span, 0) * self._each[:, span], 0.0)
            change = self._deviation(shape, span, left) - self._deviation(shape, span, before, with_task=False)
            total += self._balanced * (0.75 - 0.5 * change)
        return total

    def _balances(self, shape: Shape) -> bool:
        """Whether a task of the shape changes what is balanced; Kubernetes skips the score for others."""
        return bool(shape.request[_PAIR].any()) or (self._gpu is not None and bool(shape.request[self._gpu]))

    def _left(self, resource: int | slice, span: slice, request: Ints | int) -> Ints:
        """What a task would leave of a resource on each node."""
        left: Ints = self._ledger.idle[resource, span] - request
        if self._ledger.any_releasing:
            left -= self._ledger.pipelined[resource, span]
        return left

    def _deviation(self, shape: Shape, span: slice, left: Floats, *, with_task: bool = True) -> Floats:
        """The standard deviation of the used fractions of a node, over the resources that it has."""
        if self._gpu is None or self._gpu_each is None or not shape.request[self._gpu]:
            apart: Floats = np.abs(left[0] - left[1]) * self._both[span]  # half of how far two numbers differ
            return apart
        each = self._gpu_each[span]
        asked = int(shape.request[self._gpu]) if with_task else 0
        gpu = np.maximum(self._left(self._gpu, span, asked) * each, 0.0)
        left, has = np.vstack((left, gpu)), np.vstack((self._has[:, span], each > 0))
        number = np.maximum(np.add.reduce(has, axis=0), 1)
        left -= np.add.reduce(left, axis=0) / number
        left *= has
        left *= left
        deviation: Floats = np.sqrt(np.add.reduce(left, axis=0) / number)
        return deviation


def _inverse(amounts: Ints) -> Floats:
    """One divided by each amount; 0 where there is none, so that nothing of it is ever left."""
    return np.divide(1.0, amounts, out=np.zeros(amounts.shape), where=amounts > 0)
