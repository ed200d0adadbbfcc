"""Kubernetes' node scores, with the weights and defaults of Volcano's plugin of the same name.

| argument                   | default | ranks higher                                                              |
|----------------------------|---------|---------------------------------------------------------------------------|
| `nodeaffinity.weight`      | 2       | nodes that match preferred node affinity                                  |
| `podaffinity.weight`       | 2       | nodes near pods that are preferred, away from those that are not          |
| `leastrequested.weight`    | 1       | nodes with more of cpu and memory left                                    |
| `balancedresource.weight`  | 1       | nodes whose use of cpu, memory and GPUs, if asked for, becomes more even  |
| `mostrequested.weight`     | 0       | nodes with less of cpu and memory left                                    |
| `tainttoleration.weight`   | 3       | nodes with fewer PreferNoSchedule taints that are not tolerated           |
| `imagelocality.weight`     | 1       | nodes that have the images                                                |
| `podtopologyspread.weight` | 2       | nodes where soft spread constraints count fewer pods                      |

Each part is worth up to 100 times its weight, without rounding. A part that cannot tell nodes apart adds nothing,
where Kubernetes adds the same to every node. Scales are taken over all nodes that are neither cordoned nor unready,
so they do not depend on which nodes are asked about (see `node_affinity`). Kubernetes' default spread constraints,
which depend on services and replica sets, are not made up.
"""

from __future__ import annotations

import msgspec
import numpy as np

from tierwise.config.arguments import number
from tierwise.framework.declaration import takes_part
from tierwise.framework.extension import Arguments, Ask, CycleView, ScoreEffect, Scorer
from tierwise.model.arrays import Bools, Floats, Ints, Rows, length
from tierwise.model.job import Shape
from tierwise.plugins.kubernetes.node_affinity import Preferences
from tierwise.plugins.kubernetes.pod_affinity import PodPreferences

__all__ = ["NodeOrder"]


# Scores by how much of a node's cpu and memory is in use: least, most and balanced allocation.
#
# Used by `nodeorder`. Kubernetes' formulas, with equal weights for cpu and memory, over what would be used with the
# task on the node; what a node has none of is left out. Balanced allocation is that of Kubernetes 1.36: it scores how
# much more or less evenly the node is used with the task than without it. Pipelined tasks count as present, for the
# other tasks of the cycle are to be spread with them in mind. Pods that ask for nothing count as nothing: Kubernetes'
# guess at what they use (100 milli cpu, 200 MiB) is not made.


_GPU = "nvidia.com/gpu"
"""Volcano balances it with cpu and memory for tasks that ask for it."""

_PAIR = slice(0, 2)
"""Cpu and memory: the axis puts them first."""


class NodeLoad:
    """The weighted sum of the three scores, each up to 100; without any weight, the effect alone may be asked for."""

    def __init__(self, view: CycleView, *, least: float, most: float, balanced: float) -> None:
        self._ledger = view.ledger
        self._gpu = view.axis.index.get(_GPU)
        self._balanced = 100.0 * balanced
        # Whatever is not left is used, so "most" is what "least" lacks of 100.
        self._most = 100.0 * most
        by_row = ScoreEffect.ROW if most else ScoreEffect.FIXED
        self.effect = ScoreEffect.FREE if least or balanced else by_row
        if self.effect is ScoreEffect.FIXED:
            return  # no weight, no score
        amounts = view.nodes.allocatable[_PAIR]
        self._each = _inverse(amounts)
        self._has = amounts > 0
        number = self._has.sum(axis=0)
        self._least = 100.0 * (least - most) / np.maximum(number, 1)
        self._any = number > 0
        self._both = 0.5 * (number == len(amounts))
        self._gpu_each = _inverse(view.nodes.allocatable[self._gpu]) if self._gpu is not None else None

    def score(self, shape: Shape, span: Rows) -> Floats:
        """The scores of some rows for one more task of the shape."""
        free_shares = self._left(_PAIR, span, shape.request[_PAIR, None]) * self._each[:, span]
        np.maximum(free_shares, 0.0, out=free_shares)
        total: Floats = np.add.reduce(free_shares, axis=0)
        total *= self._least[span]
        if self._most:
            total += self._most * self._any[span]
        if self._balanced and self._balances(shape):
            before = np.maximum(self._left(_PAIR, span, 0) * self._each[:, span], 0.0)
            change = self._deviation(shape, span, free_shares) - self._deviation(shape, span, before, with_task=False)
            total += self._balanced * (0.75 - 0.5 * change)
        return total

    def _balances(self, shape: Shape) -> bool:
        """Whether a task of the shape changes what is balanced; Kubernetes skips the score for others."""
        return bool(shape.request[_PAIR].any()) or (self._gpu is not None and bool(shape.request[self._gpu]))

    def _left(self, resource: int | slice, span: Rows, request: Ints | int) -> Ints:
        """What a task would leave of a resource on each node."""
        remaining: Ints = self._ledger.idle[resource, span] - request
        if self._ledger.any_releasing:
            remaining -= self._ledger.pipelined[resource, span]
        return remaining

    def _deviation(self, shape: Shape, span: Rows, free_shares: Floats, *, with_task: bool = True) -> Floats:
        """The standard deviation of the used fractions of a node, over the resources that it has."""
        if self._gpu is None or self._gpu_each is None or not shape.request[self._gpu]:
            apart: Floats = (
                np.abs(free_shares[0] - free_shares[1]) * self._both[span]
            )  # half of how far two numbers differ
            return apart
        gpu_share = self._gpu_each[span]
        gpus = int(shape.request[self._gpu]) if with_task else 0
        gpu = np.maximum(self._left(self._gpu, span, gpus) * gpu_share, 0.0)
        free_shares = np.vstack((free_shares, gpu))
        has = np.vstack((self._has[:, span], gpu_share > 0))
        number = np.maximum(np.add.reduce(has, axis=0), 1)
        free_shares -= np.add.reduce(free_shares, axis=0) / number
        free_shares *= has
        free_shares *= free_shares
        deviation: Floats = np.sqrt(np.add.reduce(free_shares, axis=0) / number)
        return deviation


def _inverse(amounts: Ints) -> Floats:
    """One divided by each amount; 0 where there is none, so that nothing of it is ever left."""
    return np.divide(1.0, amounts, out=np.zeros(amounts.shape), where=amounts > 0)


class _Plan(msgspec.Struct, frozen=True):
    """The parts that apply to one shape."""

    fixed: tuple[tuple[float, Floats], ...]
    loaded: bool
    likes: bool
    spreads: bool
    effect: ScoreEffect


@takes_part(Scorer, scores_by_shape=True)
class NodeOrder:
    """Ranks nodes as Kubernetes' scheduler would."""

    def __init__(self, arguments: Arguments, view: CycleView) -> None:
        self._affinity = number(arguments, "nodeaffinity.weight", 2.0)
        self._taints = number(arguments, "tainttoleration.weight", 3.0)
        self._images = number(arguments, "imagelocality.weight", 1.0)
        self._likes = number(arguments, "podaffinity.weight", 2.0)
        self._spreads = number(arguments, "podtopologyspread.weight", 2.0)
        self._load = NodeLoad(
            view,
            least=number(arguments, "leastrequested.weight", 1.0),
            most=number(arguments, "mostrequested.weight", 0.0),
            balanced=number(arguments, "balancedresource.weight", 1.0),
        )
        self._preferences = Preferences(view.nodes)
        self._wishes = PodPreferences(view, affinity=self._likes > 0, spread=self._spreads > 0)
        self._rows = len(view.nodes)
        self._plans: dict[int, _Plan] = {}

    def effect(self, ask: Ask) -> ScoreEffect:
        """FREE where a task can lower its node or move others, ROW where it only raises its own, else FIXED."""
        return self._plan(ask.shape).effect

    def score(self, ask: Ask, span: slice, fits: Bools) -> Floats | None:
        """The weighted sum of the parts that apply, None where none does; `fits` is not looked at."""
        shape = ask.shape
        plan = self._plans.get(shape.number) or self._plan(shape)
        if not (plan.loaded or plan.fixed or plan.likes or plan.spreads):
            return None
        total = self._of_nodes(shape, plan, span)
        if plan.likes:
            total += self._likes * self._wishes.affinity(shape, span)
        if plan.spreads:
            total += self._spreads * self._wishes.spread(shape, span)
        return total

    def score_rows(self, ask: Ask, rows: Rows) -> Floats | float | None:
        """Scores of some rows; None where other pods matter for the task."""
        plan = self._plans.get(ask.shape.number) or self._plan(ask.shape)
        if plan.likes or plan.spreads:
            return None
        if plan.loaded or plan.fixed:
            return self._of_nodes(ask.shape, plan, rows)
        return 0.0

    def _of_nodes(self, shape: Shape, plan: _Plan, rows: Rows) -> Floats:
        """The parts that depend on each node alone."""
        total = self._load.score(shape, rows) if plan.loaded else np.zeros(length(rows))
        for weight, part in plan.fixed:
            total += weight * part[rows]
        return total

    def stale(self, ask: Ask, row: int) -> slice:
        """Every row where other pods matter, else the one that took the task."""
        plan = self._plan(ask.shape)
        if plan.likes or plan.spreads:
            return slice(0, self._rows)
        return slice(row, row + 1)

    def _plan(self, shape: Shape) -> _Plan:
        plan = self._plans.get(shape.number)
        if plan is None:
            plan = self._plans[shape.number] = self._make(shape)
        return plan

    def _make(self, shape: Shape) -> _Plan:
        likes = self._wishes.likes(shape)
        spreads = self._wishes.spreads(shape)
        return _Plan(
            fixed=tuple(self._fixed(shape)),
            loaded=self._load.effect > ScoreEffect.FIXED,
            likes=likes,
            spreads=spreads,
            effect=ScoreEffect.FREE if likes or spreads else self._load.effect,
        )

    def _fixed(self, shape: Shape) -> list[tuple[float, Floats]]:
        sources = (
            (self._affinity, self._preferences.affinity),
            (self._taints, self._preferences.taints),
            (self._images, self._preferences.images),
        )
        answers = ((weight, source(shape)) for weight, source in sources if weight)
        return [(weight, part) for weight, part in answers if part is not None]
