"""maintenance: no pods on nodes that are being repaired, and few on those that will be."""

from __future__ import annotations

import msgspec
import numpy as np

from tierwise.framework.declaration import takes_part
from tierwise.framework.extension import Arguments, Ask, CycleView, Filter, ScoreEffect, Scorer
from tierwise.model.arrays import Bools, Floats, Why
from tierwise.model.job import Reason, Shape


class MaintenanceArguments(msgspec.Struct, frozen=True):
    """What a configuration may say."""

    label: str = "acme.example/maintenance"  # of nodes; its value is "now" or "soon"
    weight: float = 10.0  # what a node is worth that stays


@takes_part(Filter, Scorer, arguments=MaintenanceArguments)
class Maintenance:
    """Refuses nodes that are being repaired, and prefers those that will not be soon."""

    def __init__(self, arguments: Arguments, view: CycleView) -> None:
        given = msgspec.convert(arguments, MaintenanceArguments)
        column = view.nodes.labels.column(given.label)
        now = column.where([value == "now" for value in column.values], missing=False)
        soon = column.where([value == "soon" for value in column.values], missing=False)
        reason = Reason("NodeInMaintenance", "maintenance", "node(s) were in maintenance")
        self._why = np.where(now, view.reasons.number(reason), 0).astype(np.uint16)
        self._score = np.where(soon, 0.0, given.weight)

    def why_not(self, shape: Shape) -> Why:
        """One number per node: 0, or that of the reason against it."""
        return self._why

    def effect(self, ask: Ask) -> ScoreEffect:
        """Where pods are placed changes no score."""
        return ScoreEffect.FIXED

    def score(self, ask: Ask, span: slice, fits: Bools) -> Floats:
        """One number per node of the span; the highest wins."""
        return self._score[span]

    def stale(self, ask: Ask, row: int) -> slice:
        """The nodes whose score is another once a pod is placed on `row`: none."""
        return slice(row, row)
