"""capability: no queue and none of its ancestors may use more than its declared capability.

It protects the other queues, so it applies in every profile: the scheduler adds this plugin to each cycle in which a
queue declares a capability, and no configuration names it. proportion and capacity know more about queues (guarantees,
deserved amounts) and are asked first. A queue includes what the queues below it hold; a queue without a parent is below
the queue "root" if that exists. In profiles without elasticquota, the max of an ElasticQuota is a capability too.
"""

from __future__ import annotations

import numpy as np

from tierwise.framework.declaration import takes_part
from tierwise.framework.extension import Arguments, CycleView, EnqueueGate, Quota
from tierwise.model.arrays import Ints
from tierwise.model.job import Job, Queue, Reason
from tierwise.plugins.queues.table import UNLIMITED, QueueLimits, QueueTable

__all__ = ["Capability"]

_ROOT = "root"


@takes_part(EnqueueGate, Quota, rises_with_use=True, by_amounts=True)
class Capability:
    """Limits every queue and its ancestors to their capability."""

    def __init__(self, arguments: Arguments, view: CycleView) -> None:
        self._table = QueueTable.of(view)
        ours = np.array(
            [not queue.elastic or bool(arguments.get("elastic")) for queue in self._table.queues], dtype=bool
        )
        capped = (self._table.capability < UNLIMITED).any(axis=0) & ours
        chains = [_chain(self._table, queue) for queue in self._table.queues]
        self._caps = [[column for column in chain if capped[column]] for chain in chains]
        """Of each queue: itself and its ancestors, those that declare a capability, innermost first."""
        self._limits = QueueLimits("capability", view, self._table, self._caps, self._table.capability)

    def quota_exceeded(self, job: Job, amounts: Ints) -> Reason | None:
        column = self._table.index.get(job.queue)
        return self._limits.exceeded(self._caps[column], amounts) if column is not None else None

    def may_enqueue(self, job: Job) -> Reason | None:
        """The job's minResources must fit each capability beside those of admitted jobs; then they are reserved."""
        return self._limits.refusal(job)


def _chain(table: QueueTable, queue: Queue) -> list[int]:
    """The columns of a queue and of its ancestors; in a cycle of parents, each once."""
    chain: dict[int, None] = {}
    column: int | None = table.index[queue.name]
    while column is not None and column not in chain:
        chain[column] = None
        above = table.queues[column].parent or ("" if table.queues[column].elastic else _ROOT)
        column = table.index.get(above)
    if queue.enclosing and queue.enclosing not in {table.queues[c].name for c in chain}:
        # What a namespace declares for itself frees it of nothing: what holds it otherwise counts as well.
        return [*chain, *_chain(table, table.queues[table.index[queue.enclosing]])]
    return list(chain)
