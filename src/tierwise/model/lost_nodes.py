"""Which nodes are lost to a pod: the one definition, for placing, repair, drains, forecasts and pages.

A node is lost to a pod if it is gone; if it is not ready, unless the pod tolerates that for good; if it has a taint
with effect NoExecute that the pod does not tolerate for good; or if it has a condition that the profile lists. A
toleration for some seconds only delays the end, so it does not count.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from tierwise.api.core import Taint, Toleration
from tierwise.api.repair import OnNodeLoss, RepairTerms
from tierwise.api.selector import stays_for
from tierwise.model.arrays import Bools
from tierwise.model.job import Job, Task
from tierwise.model.node import NodeTable

__all__ = ["LostNodes", "repaired_jobs"]

_UNREACHABLE = Taint(key="node.kubernetes.io/unreachable", effect="NoExecute")
_NOT_READY = Taint(key="node.kubernetes.io/not-ready", effect="NoExecute")
_NO_TERMS = RepairTerms()


class LostNodes:
    """Why nodes of one snapshot are lost to pods."""

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._evicting = [tuple(t for t in taints if t.effect == "NoExecute") for taints in nodes.taints]
        self._known: dict[tuple[Toleration, ...], list[Taint | None]] = {}  # what `taints` returned

    @property
    def any(self) -> bool:
        """True if some node of the snapshot may be lost to some pod."""
        return bool(self._nodes.unhealthy) or not self._nodes.ready.all() or any(self._evicting)

    @property
    def down(self) -> Bools:
        """Rows that are not ready or have a condition that the profile lists, whatever pods tolerate."""
        rows: Bools = ~self._nodes.ready
        rows[list(self._nodes.unhealthy)] = True
        return rows

    def why(self, task: Task) -> str:
        """Why the node of a task that holds one is lost to it, as the end of a sentence; "" if it is not.

        Conditions that the profile lists are left out: pods may go on there, see `unhealthy`.
        """
        if task.node >= 0:
            return self.reason(int(self._nodes.rows[task.node]), task.tolerations)
        return "is gone"

    def unhealthy(self, task: Task) -> str:
        """Which listed condition the node of a task has, as the end of a sentence; "" if it has none."""
        condition = self._nodes.unhealthy.get(int(self._nodes.rows[task.node]), "")
        return f"has condition {condition}" if condition else ""

    def reason(self, row: int, tolerations: tuple[Toleration, ...]) -> str:
        """Why a node is lost to a pod with these tolerations, as the end of a sentence; "" if it is not.

        Conditions that the profile lists are left out.
        """
        if not self._nodes.ready[row] and not _stays_unready(tolerations):
            return "is not ready"
        taint = self.taints(tolerations)[self._nodes.taint_set[row]]
        if taint is not None:
            return f"has taint {taint.key}:NoExecute"
        return ""

    def taints(self, tolerations: tuple[Toleration, ...]) -> list[Taint | None]:
        """By set of taints, the first one with effect NoExecute that these do not tolerate for good."""
        found = self._known.get(tolerations)
        if found is None:
            found = [next((t for t in taints if not _stays(tolerations, t)), None) for taints in self._evicting]
            self._known[tolerations] = found
        return found

    def unready(self, tolerations: tuple[Toleration, ...]) -> Bools:
        """Rows that are not ready; none if these tolerate that for good."""
        if _stays_unready(tolerations):
            return np.zeros(len(self._nodes), dtype=bool)
        return ~self._nodes.ready

    def rows(self, tolerations: tuple[Toleration, ...]) -> Bools:
        """Rows that are lost to a pod with these tolerations, those with a listed condition included."""
        lost = self.unready(tolerations)
        if any(self._evicting):
            per_set = np.array([taint is not None for taint in self.taints(tolerations)], dtype=bool)
            lost |= per_set[self._nodes.taint_set]
        lost[list(self._nodes.unhealthy)] = True
        return lost


def _stays(tolerations: tuple[Toleration, ...], taint: Taint) -> bool:
    """True if a pod tolerates a taint for good."""
    return stays_for(tolerations, taint) == math.inf


def _stays_unready(tolerations: tuple[Toleration, ...]) -> bool:
    """True if a pod tolerates for good that its node is not ready."""
    return all(_stays(tolerations, taint) for taint in (_UNREACHABLE, _NOT_READY))


def repaired_jobs(jobs: Iterable[Job], usual: OnNodeLoss | None) -> dict[str, OnNodeLoss]:
    """What jobs want when they lose nodes, by key, where the profile says the `usual` for jobs that do not say it.

    Jobs that want nothing are left out.
    """
    if usual is None:
        said = ((job, job.repair) for job in jobs if job.repair is not None)
        return {job.key: wish for job, terms in said if (wish := terms.wish(None)) is not None}
    every = ((job, (job.repair or _NO_TERMS).wish(usual)) for job in jobs if job.declared)
    return {job.key: wish for job, wish in every if wish is not None}
