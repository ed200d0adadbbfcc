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
so they do not depend on which nodes are asked about (see `preferences`). Kubernetes' default spread constraints,
which depend on services and replica sets, are not made up.
"""

from __future__ import annotations

import msgspec
import numpy as np

from tierwise.framework.arguments import number
from tierwise.framework.extension import Arguments, Ask, CycleView, Reach
from tierwise.model.arrays import Bools, Floats
from tierwise.model.shape import Shape
from tierwise.plugins.node_load import NodeLoad
from tierwise.plugins.pod_wishes import PodWishes
from tierwise.plugins.preferences import Preferences

__all__ = ["NodeOrder"]


class _Plan(msgspec.Struct, frozen=True):
    """The parts that apply to one shape."""

    fixed: tuple[tuple[float, Floats], ...]
    loaded: bool
    likes: bool
    spreads: bool
    reach: Reach


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
        self._wishes = PodWishes(view, affinity=self._likes > 0, spread=self._spreads > 0)
        self._rows = len(view.nodes)
        self._plans: dict[int, _Plan] = {}

    def reach(self, ask: Ask) -> Reach:
        """FREE where a task can lower its node or move others, ROW where it only raises its own, else FIXED."""
        return self._plan(ask.shape).reach

    def score(self, ask: Ask, span: slice, fits: Bools) -> Floats:
        """The weighted sum of the parts that apply; `fits` is not looked at."""
        shape = ask.shape
        plan = self._plans.get(shape.number) or self._plan(shape)
        total = self._load.score(shape, span) if plan.loaded else np.zeros(span.stop - span.start)
        for weight, part in plan.fixed:
            total += weight * part[span]
        if plan.likes:
            total += self._likes * self._wishes.affinity(shape, span)
        if plan.spreads:
            total += self._spreads * self._wishes.spread(shape, span)
        return total

    def stale(self, ask: Ask, row: int) -> slice:
        """Every row where other pods matter, else the one that took the task."""
        plan = self._plan(ask.shape)
        return slice(0, self._rows) if plan.likes or plan.spreads else slice(row, row + 1)

    def _plan(self, shape: Shape) -> _Plan:
        found = self._plans.get(shape.number)
        if found is None:
            found = self._plans[shape.number] = self._make(shape)
        return found

    def _make(self, shape: Shape) -> _Plan:
        likes, spreads = self._wishes.likes(shape), self._wishes.spreads(shape)
        return _Plan(
            fixed=tuple(self._fixed(shape)),
            loaded=self._load.reach > Reach.FIXED,
            likes=likes,
            spreads=spreads,
            reach=Reach.FREE if likes or spreads else self._load.reach,
        )

    def _fixed(self, shape: Shape) -> list[tuple[float, Floats]]:
        sources = (
            (self._affinity, self._preferences.affinity),
            (self._taints, self._preferences.taints),
            (self._images, self._preferences.images),
        )
        answers = ((weight, source(shape)) for weight, source in sources if weight)
        return [(weight, part) for weight, part in answers if part is not None]
