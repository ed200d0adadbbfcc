"""proportion: queues deserve shares of the cluster by weight.

Per resource, computed once per cycle:

    deserved = max(guarantee, min(real capability, request, level * weight))

with the highest level at which the sum does not exceed the cluster (`water_fill`). Where the profile remembers usage,
the weights are those that are corrected by it (`framework.usage`). The request of a queue
is what it holds and what its pending tasks ask for, whatever the phase of their job: Volcano counts so, and so do we.
Everything else compares what a queue holds now, which follows the ledger, with what it deserves:

    share     max held / deserved                       queues: by priority, then share
    overused  deserved <= held, every resource          is not served
    over      held + asked > deserved, any asked one    is given no more, and may not reclaim it
    victim    held > deserved, any resource             may lose a task, but never goes below its guarantee

A counting filter: victims are decided in order, each against what the queue holds after the ones before it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tierwise.framework import extension as points
from tierwise.framework.declaration import takes_part
from tierwise.framework.victim_counts import who_goes
from tierwise.model.arrays import Bools, Ints
from tierwise.model.job import Job, Queue, Reason
from tierwise.plugins.queues.table import (
    UNLIMITED,
    QueueLimits,
    QueueTable,
    apart,
    by_weight,
    pending,
    ratio,
    real_capability,
)

__all__ = ["Proportion", "water_fill"]


# Share one resource by weight: the same level for all queues, but none below its floor or above its cap.
#
# share = max(floor, min(cap, level * weight))
#
# with the highest level for which the shares add up to no more than there is. Exact: whole units throughout; what
# rounding down leaves goes unit by unit to the largest fractions, the first in order first. This is where Volcano's
# rounds (remaining x weight / sum of weights, capped, raised, again) end up, without depending on how many are made.


def water_fill(total: int, weights: Sequence[int], floors: Sequence[int], caps: Sequence[int]) -> list[int]:
    """The share of each; weights are positive. The sum exceeds the total only where the floors alone do.

    Each round tries the level of those not settled yet. Where that puts some below their floor and others above
    their cap, the larger violation in sum settles its side; the other side may yet turn out to be none.
    """
    tops = [max(cap, floor) for cap, floor in zip(caps, floors, strict=True)]
    shares = list(floors)
    rising = [i for i, (top, floor) in enumerate(zip(tops, floors, strict=True)) if top > floor]
    remaining = total - sum(floors) + sum(floors[i] for i in rising)
    while rising:
        weight = sum(weights[i] for i in rising)
        below = [i for i in rising if floors[i] * weight > remaining * weights[i]]
        above = [i for i in rising if tops[i] * weight < remaining * weights[i]]
        if not below and not above:
            break
        lack = sum(floors[i] * weight - remaining * weights[i] for i in below)
        excess = sum(remaining * weights[i] - tops[i] * weight for i in above)
        settled = ([(i, floors[i]) for i in below] if lack >= excess else []) + (
            [(i, tops[i]) for i in above] if excess >= lack else []
        )
        for i, share in settled:
            shares[i] = share
            remaining -= share
        gone = {i for i, _ in settled}
        rising = [i for i in rising if i not in gone]
    for i, share in zip(rising, by_weight(remaining, [weights[i] for i in rising]), strict=True) if rising else ():
        shares[i] = share
    return shares


@takes_part(
    points.EnqueueGate,
    points.Reporter,
    points.Quota,
    points.QueueOrder,
    points.VictimFilter,
    rises_with_use=True,
    by_amounts=True,
)
class Proportion:
    """Limits every queue to what it deserves by weight."""

    answers = frozenset((points.Purpose.RECLAIM,))
    counts = True

    def __init__(self, arguments: points.Arguments, view: points.CycleView) -> None:
        self._table = QueueTable.of(view)
        self._used, self._kept = view.ledger.queue_used, view.ledger.queue_kept  # never written: always current
        self._real = real_capability(self._table.total, self._table.guarantee, self._table.capability)
        alone = [(column,) for column in range(len(self._table.queues))]
        self._limits = QueueLimits("proportion", view, self._table, alone, self._real)
        queues = self._table.queues
        fair = view.usage
        weights = [max(1, q.weight) for q in queues] if fair is None else fair.corrected_weights(queues)
        request = self._used + pending(view.snapshot, view.ledger)
        self.deserved = _deserved(self._table, self._real, request, weights)

    # -- orders

    def queue_key(self, queue: Queue) -> tuple[float, ...]:
        return (-queue.priority, self._share(queue))

    def victim_queue_key(self, queue: Queue, taker: Queue) -> tuple[float, ...]:
        """The reverse order: the least important queue loses first, then the one furthest above its deserved amount."""
        return (queue.priority, -self._share(queue))

    def _share(self, queue: Queue) -> float:
        column = self._table.index[queue.name]
        counted = self._table.counted
        return ratio(self._used[counted, column], self.deserved[counted, column])

    def entitled(self) -> Ints:
        return self.deserved

    # -- quotas

    def overused(self, queue: Queue) -> Reason | None:
        column = self._table.index[queue.name]
        has_room = self._table.counted & (self.deserved[:, column] > self._used[:, column])
        if has_room.any():
            return None
        used = self._used[:, column]
        deserved = self.deserved[:, column]
        which = self._table.counted & (used > 0)
        figures_text = self._table.figures(which, **apart(which, self._kept[:, column], used=used, deserved=deserved))
        text = f"queue {queue.name} has all that it deserves"
        return Reason("QueueOverused", "proportion", f"{text} {figures_text}" if used.any() else text)

    def quota_exceeded(self, job: Job, amounts: Ints) -> Reason | None:
        column = self._table.index.get(job.queue)
        if column is None:
            return None
        words = f"queue {job.queue} would have more", " than it deserves"
        used = self._used[:, column]
        deserved = self.deserved[:, column]
        return self._table.exceeded(
            "QueueOverDeserved",
            "proportion",
            words,
            requested=amounts,
            reserved=self._kept[:, column],
            used=used,
            deserved=deserved,
        )

    def may_reclaim(self, job: Job, need: Ints) -> Reason | None:
        return self.quota_exceeded(job, need)

    def may_enqueue(self, job: Job) -> Reason | None:
        """The job's minResources must fit the real capability beside those of admitted jobs; then they are reserved."""
        return self._limits.refusal(job)

    # -- victims

    def protects_up_to(self) -> Ints:
        return np.where(self._table.counted[:, None], self.deserved, -1)

    def protect(self, preemptor: points.Preemptor, victims: Ints) -> Bools:
        """Protects queues at or below deserved, or that would fall below their guarantee; not for preemption."""
        return self.protect_whole(preemptor, victims, np.arange(len(victims)))

    def protect_whole(self, preemptor: points.Preemptor, victims: Ints, bundles: Ints) -> Bools:
        if preemptor.purpose is points.Purpose.PREEMPT:
            return np.zeros(len(victims), dtype=bool)
        table = self._table
        running = preemptor.running
        columns = table.of_job[running.job[victims]]
        columns = np.where((columns >= 0) & table.reclaimable[columns], columns, -1)
        requests = running.request[:, victims]

        def may_lose(level: int, held_by_queue: Ints, accounts: Ints, which: Ints) -> Bools:
            above = (held_by_queue > self.deserved[:, accounts])[table.counted].any(axis=0)
            after = held_by_queue - requests[:, which]
            keeps_guarantee = (after >= table.guarantee[:, accounts])[table.counted].all(axis=0)
            return np.asarray(above & keeps_guarantee)

        goes: Bools = who_goes(self._used - self._kept, requests, columns[None, :], may_lose, bundles) & (columns >= 0)
        return ~goes


def _deserved(table: QueueTable, real: Ints, request: Ints, by_queue: Sequence[int]) -> Ints:
    """Shares by weight, resource by resource; what no quota counts is not limited."""
    result = np.full_like(real, UNLIMITED)
    order = sorted(range(len(table.queues)), key=lambda column: table.queues[column].order)  # ties: by name
    weights = [by_queue[column] for column in order]  # a weight below 1 is Volcano's default of 1
    caps = np.minimum(real, request)[:, order]
    for r in np.flatnonzero(table.counted).tolist():
        floors = table.guarantee[r, order].tolist()
        result[r, order] = water_fill(int(table.total[r]), weights, floors, caps[r].tolist())
    return result
