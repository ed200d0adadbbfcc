"""resourcequota: a job is admitted only if the ResourceQuotas of its namespace have enough left for its minimum.

    used + minResources of jobs admitted in this cycle + this job's minResources <= hard

per resource that both a quota and the job's minResources name, for every quota of the namespace. Jobs without
minResources pass. What quotas leave is read from the snapshot: see `snapshot.quotas`.
"""

from __future__ import annotations

import numpy as np

from tierwise.framework.declaration import takes_part
from tierwise.framework.extension import Arguments, CycleView, EnqueueGate
from tierwise.model.arrays import Ints
from tierwise.model.job import Job, Reason
from tierwise.plugins.queues.table import figures

__all__ = ["ResourceQuotas"]


@takes_part(EnqueueGate)
class ResourceQuotas:
    """Holds jobs in phase Pending whose pods the API server would refuse."""

    def __init__(self, arguments: Arguments, view: CycleView) -> None:
        self._names = view.axis.names
        self._left = view.snapshot.resource_quotas
        self._granted: dict[str, dict[int, Ints]] = {}

    def may_enqueue(self, job: Job) -> Reason | None:
        """A job that passes counts for those after it; once, however often it asks."""
        namespace = job.key.partition("/")[0]
        granted = self._granted.setdefault(namespace, {})
        if job.min_resources is None or namespace not in self._left or job.number in granted:
            return None
        left = self._left[namespace] - sum(granted.values(), start=np.zeros_like(job.min_resources))
        short = (job.min_resources > 0) & (job.min_resources > left)
        if not short.any():
            granted[job.number] = job.min_resources
            return None
        names = ", ".join(self._names[r] for r in np.flatnonzero(short).tolist())
        told = figures(self._names, short, asked=job.min_resources, left=np.maximum(left, 0))
        text = f"the resource quotas of namespace {namespace} leave too little {names} {told}"
        return Reason("ResourceQuotaExceeded", "resourcequota", text)
