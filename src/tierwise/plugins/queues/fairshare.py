"""fairshare: who has used more than others of late goes after them.

It remembers usage (`framework.usage`), which proportion, capacity and drf then share by as well. Its own orders:

    jobs      in a queue: those that have waited for the argument `aging` first, the oldest of them before all; then by
              what their namespace has used there, as a multiple of its part, less the part of `aging` that they waited
    queues    where no other plugin orders them: by what each has used of its share, from the outermost queue inwards

The price of what starts counts at once: each job of a namespace counts as if those of the namespace that come before it
had just started, so that a burst of jobs takes turns with others as it would if they came one by one.

Arguments: `halfLife` (needed), `weights`, `entry`, `aging`, `record`, `modelLabel`; or Volcano's (`config.usage`), by
which namespaces take turns and queues share as before.
"""

from __future__ import annotations

from math import inf

import numpy as np

from tierwise.framework.declaration import Idle, chooses, takes_part
from tierwise.framework.extension import Arguments, CycleView, JobOrder, QueueOrder
from tierwise.framework.usage import FairUsage
from tierwise.model.arrays import Ints
from tierwise.model.job import Job, Queue, namespace_of

__all__ = ["FairTurns", "fairshare"]


@takes_part(JobOrder, rises_with_use=True, by_amounts=True)
class FairTurns:
    """Orders the jobs of a queue by what their namespaces have used."""

    def __init__(self, view: CycleView, fair: FairUsage) -> None:
        self._view = view
        self._fair = fair
        self._tags: dict[str, float] | None = None

    def job_key(self, job: Job) -> tuple[float, ...]:
        rules = self._fair.rules
        if rules.queues and job.queue not in rules.queues:
            return (2.0, 0.0)
        waited = max(self._view.snapshot.now - job.created, 0.0)
        if waited >= rules.aging:
            return (0.0, job.created)
        tag = self._tag(job)
        return (1.0, tag * (1.0 - waited / rules.aging) if rules.aging < inf else tag)

    def _tag(self, job: Job) -> float:
        """How much the job's namespace will have used when its turn comes, as a multiple of its part of the queue."""
        if self._tags is None:
            self._tags = self._tags_of_waiting()
        tag = self._tags.get(job.key)
        if tag is None:
            tag = self._fair.used_in(job.queue, namespace_of(job.key)) / self._part(job.queue, 1)
        return tag

    def _tags_of_waiting(self) -> dict[str, float]:
        queues: dict[str, dict[str, list[Job]]] = {}
        for job in self._view.snapshot.waiting:
            queues.setdefault(job.queue, {}).setdefault(namespace_of(job.key), []).append(job)
        tags: dict[str, float] = {}
        for queue, namespaces in queues.items():
            part = self._part(queue, len(namespaces))
            for namespace, jobs in namespaces.items():
                used = float(self._fair.used_in(queue, namespace))
                for job in sorted(jobs, key=lambda one: (-one.priority, one.created, one.order)):
                    tags[job.key] = used / part
                    used += self._price(job)
        return tags

    def _part(self, queue: str, namespaces: int) -> float:
        """How much one of so many namespaces could have used of what the queue has."""
        could: float = max(float(self._fair.used_by(queue)), self._fair.whole)
        return max(1.0, could / max(namespaces, 1))

    def _price(self, job: Job) -> float:
        amounts: Ints = np.zeros(len(self._view.axis), dtype=np.int64)
        for pod_set in job.pod_sets():
            amounts += pod_set.shape.request * len(pod_set.tasks)
        return self._fair.price(job.queue, amounts)


@takes_part(JobOrder, QueueOrder, rises_with_use=True, by_amounts=True)
class FairQueues(FairTurns):
    """Orders queues as well, where nobody else does."""

    def queue_key(self, queue: Queue) -> tuple[float, ...]:
        return (-queue.priority, *self._fair.path_ratios(queue.name))

    def victim_queue_key(self, queue: Queue, taker: Queue) -> tuple[float, ...]:
        """The reverse order: the least important queue loses first, then the one that has used most of its share."""
        return (queue.priority, *(-ratio for ratio in self._fair.path_ratios(queue.name)))


@chooses(FairTurns, FairQueues)
def fairshare(arguments: Arguments, view: CycleView) -> FairTurns | FairQueues | Idle:
    """The plugin; it orders queues only if no plugin of the profile that shares by queues does."""
    fair = view.usage
    if fair is None:
        return Idle()
    return FairQueues(view, fair) if fair.orders_queues else FairTurns(view, fair)
