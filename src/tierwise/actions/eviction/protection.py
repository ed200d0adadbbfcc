"""What ends the protection of running tasks in a cycle, computed for one preemptor after the other."""

from __future__ import annotations

import msgspec
import numpy as np

from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import Purpose
from tierwise.framework.protection import Protection
from tierwise.model.arrays import Bools, Ints, seal
from tierwise.model.job import Job, namespace_of

__all__ = ["ProtectionLimits"]


class ProtectionLimits(msgspec.Struct, frozen=True):
    """What can end protection in a cycle: amounts of queues, and a difference of priority."""

    cycle: Cycle
    amounts: Ints | None  # (resources x queues); None where no plugin of the profile names any
    gap: int  # difference of priority; 0 for none
    namespace: Ints  # by job: the number of its namespace
    column: Ints  # by job: the ledger's column of its queue; -1 where the queue does not exist
    declared: Bools  # by column: the queue names some amount

    def __post_init__(self) -> None:
        seal(self.amounts, self.namespace, self.column, self.declared)

    @classmethod
    def of(cls, cycle: Cycle) -> ProtectionLimits | None:
        """Limits of protection in a cycle; None if nothing is protected, or nothing ends it."""
        running = cycle.running
        gap = cycle.pipeline.protection_gap
        if not (running.not_preemptable.any() or running.covered.shape[1]):
            return None
        amounts = cycle.pipeline.protects_up_to()
        if amounts is None and not gap:
            return None
        jobs = cycle.snapshot.jobs
        index = cycle.ledger.queue_index
        numbers: dict[str, int] = {}
        spaces = [numbers.setdefault(namespace_of(job.key), len(numbers)) for job in jobs]
        return cls(
            cycle=cycle,
            amounts=amounts,
            gap=gap,
            namespace=np.array(spaces, dtype=np.int64),
            column=np.array([index.get(job.queue, -1) for job in jobs], dtype=np.int64),
            declared=np.zeros(0, dtype=bool) if amounts is None else np.asarray((amounts >= 0).any(axis=0)),
        )

    def against(self, job: Job, purpose: Purpose, *, priority: int, by_pod: bool) -> Protection:
        """What ends protection from this job: its `priority` counts against that of pods (`by_pod`) or of jobs.

        Inside a queue that names no amount nothing is borrowed, so no amount ends protection there.
        """
        cycle = self.cycle
        running = self.cycle.running
        theirs = running.priority if by_pod else running.jobs.priority[running.job]
        outranked = theirs <= priority - self.gap if self.gap else np.zeros(len(running), dtype=bool)
        amounts = self.amounts
        queue = np.full(len(running), -1)
        if amounts is not None:
            column = self.column[running.job]
            own_column = int(self.column[job.number])
            of_other_queue = (column != own_column) | (self.namespace[running.job] != self.namespace[job.number])
            is_protected = (column >= 0) & of_other_queue
            if purpose is Purpose.PREEMPT:
                is_protected &= self.declared[column]
            queue = np.where(is_protected, column, -1)
        else:
            amounts = np.full_like(cycle.ledger.queue_used, -1)
        return Protection(queue, amounts, cycle.ledger.queue_used - cycle.ledger.queue_kept, outranked)
