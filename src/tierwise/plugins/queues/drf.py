"""drf: orders jobs by dominant resource fairness, the smallest share first.

    share = max over resources of held / total

Jobs are ordered by share, the smallest first. A task may be preempted only if the victim's job, after losing it
and all preceding candidates of the same job, still has at least the share that the preemptor would have; shares
that differ by no more than 0.000001 are equal, as in Volcano. Reclaim is not filtered.

Where a queue declares a path (annotations volcano.sh/hierarchy and volcano.sh/hierarchy-weights), queues are ordered
by hierarchical share as well: see `hdrf`.
"""

from __future__ import annotations

import numpy as np

from tierwise.framework.declaration import chooses, takes_part
from tierwise.framework.extension import Arguments, CycleView, JobOrder, Preemptor, Purpose, QueueOrder, VictimFilter
from tierwise.framework.victim_counts import sums_before
from tierwise.model.arrays import Bools, Floats, Ints
from tierwise.model.job import Job
from tierwise.model.queue import Queue
from tierwise.plugins.queues.hdrf import FairTree
from tierwise.plugins.queues.table import counted, total

__all__ = ["Drf", "HierarchicalDrf", "drf"]

_EQUAL = 1e-6


@takes_part(JobOrder, VictimFilter, ignores_names=True, rises_with_use=True)
class Drf:
    """Orders jobs by dominant share, and protects jobs that preemption would leave with a smaller share."""

    answers = frozenset((Purpose.PREEMPT,))
    counts = True

    def __init__(self, view: CycleView) -> None:
        self._held = view.ledger.job_used  # read, never written: always current
        everything = np.where(counted(view.axis), total(view.nodes), 0)
        self._some = np.flatnonzero(everything > 0)
        self._total = everything[self._some, None].astype(np.float64)

    def share(self, held: Ints) -> Floats:
        """The dominant share of each column of `held` (resources x n)."""
        result: Floats = (held[self._some] / self._total).max(axis=0, initial=0.0)
        return result

    def job_key(self, job: Job) -> tuple[float, ...]:
        return (float(self.share(self._held[:, [job.number]])[0]),)

    def spare(self, preemptor: Preemptor, victims: Ints) -> Bools:
        """Protects tasks whose job would be left with a smaller share than the preemptor's; none when reclaiming."""
        if preemptor.purpose is Purpose.RECLAIM:
            return np.zeros(len(victims), dtype=bool)
        jobs = preemptor.running.job[victims]
        lost = preemptor.running.request[:, victims]
        gains = float(self.share(self._held[:, [preemptor.job.number]] + preemptor.need[:, None])[0])
        keeps = self.share(self._held[:, jobs] - sums_before(lost, jobs) - lost)
        result: Bools = keeps < gains - _EQUAL
        return result


@takes_part(JobOrder, QueueOrder, VictimFilter, ignores_names=True)
class HierarchicalDrf(Drf):
    """The same, with an order of queues."""

    def __init__(self, view: CycleView) -> None:
        super().__init__(view)
        self._queues = FairTree(view, np.where(counted(view.axis), total(view.nodes), 0))

    def queue_key(self, queue: Queue) -> tuple[float, ...]:
        return self._queues.key(queue)


@chooses(Drf, HierarchicalDrf)
def drf(arguments: Arguments, view: CycleView) -> Drf | HierarchicalDrf:
    """The plugin; queues are ordered only if one of them declares a path."""
    declared = any(queue.hierarchy for queue in view.queues.values())
    return HierarchicalDrf(view) if declared else Drf(view)
