"""patience: a gang waits a while for a close place before it takes a wide one.

    until = created + time
    wide  = innermost domains touched > stretch * the fewest that would hold the gang in an empty cluster

A wide place is declined until then, and other jobs may use it meanwhile. Afterwards the gang accepts any place, so no
gang waits for ever. Gangs without a topology, smaller than `fromPods`, or with placed tasks are not delayed.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from tierwise.api.duration import seconds
from tierwise.api.meta import format_time
from tierwise.framework.arguments import number
from tierwise.framework.declaration import takes_part
from tierwise.framework.extension import Arguments, CycleView, Delay, Delaying
from tierwise.model.arrays import Ints
from tierwise.model.job import Job
from tierwise.model.reason import Reason
from tierwise.model.shape import Shape

__all__ = ["Patience"]

_NAME = "patience"
_STRETCH = 2
_FROM = 8


@takes_part(Delaying)
class Patience:
    """Declines wide places for a time."""

    def __init__(self, arguments: Arguments, view: CycleView) -> None:
        raw = arguments.get("time")
        self._time = (seconds(raw) if isinstance(raw, str) else None) or 0.0
        self._stretch = max(1.0, number(arguments, "stretch", _STRETCH))
        self._from = number(arguments, "fromPods", _FROM)
        self._topology, self._nodes, self._now = view.topology, view.nodes, view.snapshot.now
        self._known: dict[tuple[int, int], int] = {}

    def defer(self, job: Job, rows: Ints) -> Delay | None:
        """Why a gang had better wait than stand on these rows."""
        until = job.created + self._time
        held = any(len(sub.held) for sub in job.subs)
        if job.constraint is None or held or job.minimum < self._from or self._now >= until:
            return None
        touched, most = len(np.unique(self._topology.leaf[rows])), int(self._stretch * self._fewest(job))
        if touched <= most:
            return None
        when = format_time(until)
        text = f"a place on {touched} innermost hyperNodes is declined until {when}: {most} at most are wanted"
        return Delay(Reason("WaitsForCloserPlace", _NAME, text), until)

    def _fewest(self, job: Job) -> int:
        """A lower bound: shape by shape, as if each had the largest domains for itself."""
        counts: Counter[Shape] = Counter()
        for pod_set in job.pod_sets():
            counts[pod_set.shape] += len(pod_set.tasks)
        return max(self._fewest_of(shape, count) for shape, count in counts.items())

    def _fewest_of(self, shape: Shape, count: int) -> int:
        found = self._known.get((shape.number, count))
        if found is None:
            room = np.where(self._nodes.ready, shape.max_tasks(self._nodes.allocatable[shape.asked]), 0)
            by_domain = np.bincount(self._topology.leaf, weights=room)
            reached = np.cumsum(np.sort(by_domain)[::-1])
            found = self._known[shape.number, count] = 1 + int(np.searchsorted(reached, count))
        return found
