"""repair: nodes with certain conditions count as lost, for the gangs that run there and for all that look for a place.

The conditions are listed by type, which is wrong where it is True, or as `Type=Status`; problem detectors and drivers
write them. What becomes of gangs that lose nodes is not decided here but by the action (`actions.eviction.repair`),
which reads `onNodeLoss` for jobs that do not say what they prefer.
"""

from __future__ import annotations

import numpy as np

from tierwise.framework.declaration import takes_part
from tierwise.framework.extension import Arguments, CycleView, Filter
from tierwise.model.arrays import Why
from tierwise.model.job import Reason, Shape

__all__ = ["Repair"]


@takes_part(Filter)
class Repair:
    """Keeps pods off unhealthy nodes."""

    def __init__(self, arguments: Arguments, view: CycleView) -> None:
        self._why: Why = np.zeros(len(view.nodes), dtype=np.uint16)
        for row, condition in view.nodes.unhealthy.items():
            reason = Reason("NodeUnhealthy", "repair", f"had condition {condition}")
            self._why[row] = view.reasons.number(reason)

    def why_not(self, shape: Shape) -> Why:
        """An objection to each node with one of the conditions."""
        return self._why.copy()
