"""How far disruption budgets and marks protect running tasks from one preemptor.

Protection ends in two cases. The queue of the task holds more than the amount up to which it is protected (what it
deserves, or the minimum of its quota), and the preemptor is another tenant: of another queue or another namespace. Or
the preemptor's priority is higher by at least the difference that the profile names. Evictions for operators (drain,
repair, defragmentation) never ask: there budgets and marks hold without an end.
"""

from __future__ import annotations

import msgspec
import numpy as np

from tierwise.framework.victim_counts import who_goes
from tierwise.model.arrays import Bools, Ints, seal
from tierwise.model.running import RunningTable

__all__ = ["Protection"]


class Protection(msgspec.Struct, frozen=True):
    """What ends the protection of running tasks from one preemptor.

    `amounts` and `held` are (resources x queues). An amount of -1 means that the queue says nothing of the resource. A
    task that asks for nothing of what its queue names is beyond the amounts of its queue.
    """

    queue: Ints  # by running task: the column of its queue; -1 where no amount ends its protection
    amounts: Ints  # up to which queues are protected
    held: Ints  # what queues hold, without what is only kept free for them
    outranked: Bools  # by running task: the preemptor's priority is high enough

    def __post_init__(self) -> None:
        seal(self.queue, self.amounts, self.held, self.outranked)

    def ended(self, running: RunningTable, victims: Ints, guarded: Bools, bundles: Ints | None = None) -> Bools:
        """Which of the `guarded` victims lose their protection when the victims are evicted in this order.

        Each eviction reduces what the queue still holds for those behind it. The numbers in `bundles` ascend, and the
        victims of one bundle lose their protection together or not at all.
        """
        queue = self.queue[victims]
        outside = self.amounts.shape[1]
        account = np.where(queue >= 0, queue, outside)[None, :]
        held_by_queue = np.concatenate((self.held, np.zeros_like(self.held[:, :1])), axis=1)
        requests = running.request[:, victims]
        outranked = self.outranked[victims]

        def may_lose(_: int, held_then: Ints, queues: Ints, which: Ints) -> Bools:
            inside = np.minimum(queues, outside - 1)
            beyond = self._beyond(held_then, inside, requests[:, which]) & (queues < outside)
            return np.asarray(~guarded[which] | outranked[which] | beyond)

        return np.asarray(who_goes(held_by_queue, requests, account, may_lose, bundles) & guarded)

    def ended_alone(self, running: RunningTable) -> Bools:
        """Which running tasks are not protected where no other task is evicted."""
        in_queues = np.flatnonzero(self.queue >= 0)
        result = self.outranked.copy()
        queues = self.queue[in_queues]
        result[in_queues] |= self._beyond(self.held[:, queues], queues, running.request[:, in_queues])
        return result

    def _beyond(self, held_by_queue: Ints, queues: Ints, requests: Ints) -> Bools:
        named = (requests > 0) & (self.amounts[:, queues] >= 0)
        is_beyond = (named & (held_by_queue > self.amounts[:, queues])).any(axis=0)
        return np.asarray(is_beyond | ~named.any(axis=0))
