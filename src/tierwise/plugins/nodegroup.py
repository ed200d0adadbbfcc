"""nodegroup: queues are tied to groups of nodes, which the label `volcano.sh/nodegroup-name` tells apart.

A queue with an affinity uses the groups that it requires or prefers, less those that its anti-affinity requires it to
avoid; groups that it would rather avoid are open to it, and come last. Nodes in a group are closed to queues without an
affinity, and nodes in no group to queues with one; with `strict` (the default) nodes in no group are closed to all, as
soon as some node is in a group.

    score = 100 for a required group, 50 for a preferred one (with `enablePreferredOrder`: 50, falling along the list),
            -1 for one that is rather avoided

With `enableHierarchy`, a queue without an affinity has that of its nearest ancestor with one. Shapes are told apart by
podGroup where a profile has this plugin, so each belongs to one queue.
"""

from __future__ import annotations

import numpy as np

from tierwise.config.arguments import flag
from tierwise.framework.declaration import takes_part
from tierwise.framework.extension import Arguments, Ask, CycleView, Filter, ScoreEffect, Scorer
from tierwise.framework.node_scores import OwnScores
from tierwise.model.arrays import Floats, Rows, Why
from tierwise.model.job import NodeGroups, Reason, Shape

__all__ = ["NodeGroup"]

_LABEL = "volcano.sh/nodegroup-name"
_NO_GROUP = Reason("NodeInNoGroup", "nodegroup", "were in no group of nodes")
_CLOSED = Reason("NodeGroupClosed", "nodegroup", "were in a group of nodes that is not open to the queue")


@takes_part(Scorer, Filter)
class NodeGroup(OwnScores):
    """Keeps queues to their groups of nodes."""

    def __init__(self, arguments: Arguments, view: CycleView) -> None:
        self._reasons = view.reasons
        self._column = view.nodes.labels.column(_LABEL)
        # Where no node is in a group, nothing is divided yet: a profile alone must not close the whole cluster.
        self._strict = flag(arguments, "strict", default=True) and bool(self._column.values)
        self._ordered = flag(arguments, "enablePreferredOrder", default=False)
        inherits = flag(arguments, "enableHierarchy", default=False)
        self._groups = {name: _groups(view, name, inherits=inherits) for name in view.queues}
        self._queue = {pod_set.shape.number: job.queue for job in view.jobs for pod_set in job.every_pod_set()}
        self._scores: dict[str, Floats] = {}

    def why_not(self, shape: Shape) -> Why:
        queue = self._queue.get(shape.number)
        rows = len(self._column.codes)
        if queue is None:
            return np.zeros(rows, dtype=np.uint16)
        groups = self._groups.get(queue)
        why = np.zeros(rows, dtype=np.uint16)
        grouped = self._column.codes >= 0
        if groups is not None or self._strict:
            np.copyto(why, np.uint16(self._reasons.number(_NO_GROUP)), where=~grouped)
        opened = [groups is not None and groups.opens(group) for group in self._column.values]
        closed = grouped & ~self._column.where(opened, missing=False)
        np.copyto(why, np.uint16(self._reasons.number(_CLOSED)), where=closed)
        return why

    def effect(self, ask: Ask) -> ScoreEffect:
        """Scores follow the queue and the node alone."""
        return ScoreEffect.FIXED

    def _scored(self, ask: Ask, rows: Rows) -> Floats:
        queue = ask.job.queue
        if queue not in self._scores:
            self._scores[queue] = self._of(queue)
        return self._scores[queue][rows]

    def _of(self, queue: str) -> Floats:
        groups = self._groups.get(queue)
        likings = [self._liking(groups, group) if groups is not None else 0.0 for group in self._column.values]
        result: Floats = np.array([*likings, 0.0])[self._column.codes]  # code -1 picks the last entry
        return result

    def _liking(self, groups: NodeGroups, group: str) -> float:
        if group in groups.avoided:
            return -1.0
        liking = 100.0 if group in groups.required else 0.0
        if group in groups.preferred:
            share = 1.0 - groups.preferred.index(group) / len(groups.preferred) if self._ordered else 1.0
            liking += 50.0 * share
        return liking


def _groups(view: CycleView, name: str, *, inherits: bool) -> NodeGroups | None:
    """The affinity of a queue, its own or the nearest ancestor's; None where there is none."""
    seen: set[str] = set()
    while name in view.queues and name not in seen:
        seen.add(name)
        queue = view.queues[name]
        if queue.groups is not None or not inherits:
            if queue.groups is not None and queue.groups.any():
                return queue.groups
            return None
        name = queue.parent or "root"
    return None
