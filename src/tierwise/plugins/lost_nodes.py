"""lost-nodes: keeps pods of jobs that are repaired off nodes that are lost to them.

Kubernetes lets a pod onto a node whose NoExecute taint it tolerates for a time, and leaves readiness to taints. Repair
would evict the pod in the next cycle. The scheduler adds this plugin itself if a job wants repair and some node may be
lost; `model.lost_nodes` says which.
"""

from __future__ import annotations

import numpy as np

from tierwise.api.core import Taint
from tierwise.api.repair import OnNodeLoss
from tierwise.framework.declaration import takes_part
from tierwise.framework.extension import Arguments, CycleView, Filter
from tierwise.model.arrays import Why
from tierwise.model.job import Reason, Shape, Status
from tierwise.model.lost_nodes import LostNodes, repaired_jobs

__all__ = ["KeptOffLostNodes"]

_NAME = "repair"
_NOT_READY = Reason("NodeNotReady", _NAME, "were not ready")


@takes_part(Filter)
class KeptOffLostNodes:
    """Objects to nodes that are lost to pods of a shape, if a job that is repaired has pending pods of it."""

    def __init__(self, arguments: Arguments, view: CycleView) -> None:
        self._view = view
        self._lost = LostNodes(view.nodes)
        usual = arguments.get("onNodeLoss")
        wishes = repaired_jobs(view.jobs, OnNodeLoss(str(usual)) if usual else None)
        # A pod that nobody would make again is not evicted.
        self._shapes = {
            task.shape.number
            for job in view.jobs
            if job.key in wishes
            for task in job.tasks
            if task.status is Status.PENDING and not task.unowned
        }

    def why_not(self, shape: Shape) -> Why:
        """Objections by row: the node has a listed condition, is not ready, or has a taint not tolerated for good."""
        nodes = self._view.nodes
        number = self._view.reasons.number
        if shape.number not in self._shapes:
            return np.zeros(len(nodes), dtype=np.uint16)
        taints = [number(_tainted(taint)) if taint is not None else 0 for taint in self._lost.taints(shape.tolerations)]
        why: Why = np.array([*taints, 0], dtype=np.uint16)[nodes.taint_set]
        np.copyto(why, np.uint16(number(_NOT_READY)), where=self._lost.unready(shape.tolerations))
        for row, condition in nodes.unhealthy.items():
            why[row] = number(Reason("NodeUnhealthy", _NAME, f"had condition {condition}"))
        return why


def _tainted(taint: Taint) -> Reason:
    text = f"had taint {taint.key}:NoExecute, which is not tolerated for good"
    return Reason("NotToleratedForGood", _NAME, text)
