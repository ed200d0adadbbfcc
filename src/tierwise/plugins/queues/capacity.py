"""capacity: queues deserve the amounts that they declare, and borrow what others leave.

    real capability  min(capability, what the parent could use - guarantees of the siblings)
    deserved         max(guarantee, min(declared, real capability))
    share            max held / deserved; 1 where nothing is deserved

A job may use more while every queue of its chain stays within its real capability; deserved matters only for order and
reclaiming, and no queue is ever overused. Order: priority, then shares from the outermost queue of the chain
inwards, so queues are compared where their chains diverge; queues that deserve nothing come after equals. Where the
profile remembers usage, queues that have what they deserve come in the order of what they have used of their shares.

A job may reclaim where all that it needs keeps within the real capabilities and, in at least one resource that it
needs and its queue names in deserved, within deserved. A victim goes where its queue keeps the guarantee and holds
more than it deserves of at least one resource that both the queue's deserved and the victim name, counted before the
victim is taken off; a victim that has no resource in common with what its queue deserves may be evicted. Where two
queues could each reclaim from the other, only the one with the smaller share may (`ReclaimLoopGuard`).

Chains (`Hierarchy`): a parent holds the sum of what its queues hold. Guarantees are kept along the victim's chain up
to the queue that it shares with the reclaimer; with the argument `ancestorReclaimLevel: n` so many ancestors must
exceed their deserved as well, and lend theirs to a reclaimer whose own queue has none left.
"""

from __future__ import annotations

import math
from itertools import takewhile

import msgspec
import numpy as np

from tierwise.config.arguments import number
from tierwise.framework import extension as points
from tierwise.framework.declaration import takes_part
from tierwise.framework.victim_counts import who_goes
from tierwise.model.arrays import Bools, Ints, distinct
from tierwise.model.job import Job, Queue, Reason
from tierwise.plugins.queues.table import QueueLimits, QueueTable, apart, chain, circles, ratio, real_capability

__all__ = ["Capacity", "Hierarchy"]


# The tree of queues for capacity: the parent of each queue, and what each could ever use.
#
# Queues form a tree if some queue names a parent other than "root"; otherwise they are flat, and every chain is the
# queue alone. "root" and no parent both mean directly below the cluster. In a tree, a declared queue "root" represents
# the cluster: its capability bounds everything, and no job may be in it. A queue whose parents do not exist or form a
# cycle is broken: it is reported and not used.


_ROOT = "root"


class Hierarchy(msgspec.Struct, frozen=True):
    """Chains by column of the queue table."""

    chains: tuple[tuple[int, ...], ...]  # the queue itself first, the outermost queue last
    real: Ints  # real capability, (resources x queues)
    depth: int  # length of the longest chain
    unfit: dict[int, str]  # queues that no job may be in -> why

    @classmethod
    def of(cls, table: QueueTable) -> Hierarchy:
        parents = _parents(table)
        chains = tuple(chain(parents, column) for column in range(len(parents)))
        return cls(
            chains=chains,
            real=_real(table, parents, chains),
            depth=max(map(len, chains), default=1),
            unfit=_unfit(table, parents, chains),
        )

    def unshared(self, column: int, other_column: int) -> tuple[int, ...]:
        """The part of a queue's chain that is not part of the other's, itself always included."""
        shared = set(self.chains[other_column]) if other_column >= 0 else set()
        return tuple(c for i, c in enumerate(self.chains[column]) if not i or c not in shared)


def _is_tree(table: QueueTable) -> bool:
    return any(queue.parent not in ("", _ROOT) for queue in table.queues)


def _parents(table: QueueTable) -> list[int]:
    """The column of each queue's parent; -1 directly below the cluster, and where the parents go wrong."""
    parents = [-1 if queue.parent in ("", _ROOT) else table.index.get(queue.parent, -1) for queue in table.queues]
    return [-1 if circles(parents, column) else parent for column, parent in enumerate(parents)]


def _real(table: QueueTable, parents: list[int], chains: tuple[tuple[int, ...], ...]) -> Ints:
    """Real capabilities from the outermost queues inwards: siblings share what their parent could ever use."""
    everything = table.total
    stands_for_all = table.index.get(_ROOT, -1) if _is_tree(table) else -1
    if stands_for_all >= 0:
        everything = np.minimum(everything, table.capability[:, stands_for_all])
    result = np.empty_like(table.capability)
    children: dict[int, list[int]] = {}
    for column in sorted(range(len(parents)), key=lambda column: len(chains[column])):
        if column != stands_for_all:
            children.setdefault(parents[column], []).append(column)
    for parent, below in children.items():  # outer queues were met first
        above = everything if parent < 0 else result[:, parent]
        result[:, below] = real_capability(above, table.guarantee[:, below], table.capability[:, below])
    if stands_for_all >= 0:
        result[:, stands_for_all] = everything
    return result


def _unfit(table: QueueTable, parents: list[int], chains: tuple[tuple[int, ...], ...]) -> dict[int, str]:
    """Queues whose parents go wrong, those below such queues, and queues with others below them."""
    if not _is_tree(table):
        return {}
    broken = {}
    for column, queue in enumerate(table.queues):
        if queue.parent in ("", _ROOT) or parents[column] >= 0:
            continue
        missing = f"the parent {queue.parent} of queue {queue.name} does not exist"
        broken[column] = missing if queue.parent not in table.index else f"queue {queue.name} is its own ancestor"
    result = {}
    above = set(parents)
    for column, queue in enumerate(table.queues):
        wrong = next((broken[c] for c in chains[column] if c in broken), None)
        if wrong is not None:
            result[column] = wrong
        elif queue.name == _ROOT or column in above:
            result[column] = f"queue {queue.name} has queues below it"
    return result


# Keeps two queues from reclaiming the same resources from each other for ever.
#
# Where a queue may reclaim as soon as it keeps within deserved in one resource, and may lose as soon as it exceeds it
# in one, two queues can each be in both states at once: rich in one resource, poor in another. Whatever one takes the
# other may take back, for ever. Of such a pair only the queue with the smaller share takes: then the share of the
# taker afterwards is below the share that the other would have after taking it back, so it does not. `capacity` uses
# it; docs/decisions/0013 has the argument in full.


class ReclaimLoopGuard(msgspec.Struct, frozen=True):
    """The reclaiming queue: whether it could lose again what it takes, and its share afterwards."""

    liable: bool
    share: float

    @classmethod
    def of(cls, would: Ints, deserved: Ints, disputed: Bools) -> ReclaimLoopGuard:
        """`would` is what the taker's queue would hold, `disputed` the resources that it needs and `deserved` names."""
        beyond_all = (disputed & (deserved <= 0) & (would > 0)).any()  # of what it deserves none of
        return cls(bool((disputed & (would > deserved)).any()), math.inf if beyond_all else ratio(would, deserved))

    def refuses(self, held_by_queue: Ints, deserved: Ints, disputed: Bools) -> Bools:
        """Victims that are refused, because their queue could take the resources back and has no larger share.

        All arguments are (resources x victims), as they are before the loss. Who is refused with some holding is
        refused with every smaller one.
        """
        if not self.liable:
            return np.zeros(held_by_queue.shape[1], dtype=bool)
        entitled = (disputed & (held_by_queue <= deserved)).any(axis=0)
        shares = np.divide(held_by_queue, deserved, out=np.zeros(held_by_queue.shape), where=deserved > 0)
        shares[disputed & (deserved <= 0) & (held_by_queue > 0)] = math.inf
        return np.asarray(entitled & (shares.max(axis=0, initial=0.0) <= self.share))


@takes_part(
    points.EnqueueGate,
    points.Reporter,
    points.QueueOrder,
    points.Quota,
    points.VictimFilter,
    rises_with_use=True,
    by_amounts=True,
)
class Capacity:
    """Limits queues to their capability, and lets them reclaim what they deserve."""

    answers = frozenset((points.Purpose.RECLAIM,))
    counts = True

    def __init__(self, arguments: points.Arguments, view: points.CycleView) -> None:
        self._table = QueueTable.of(view)
        self._tree = Hierarchy.of(self._table)
        self._used, self._kept = view.ledger.queue_used, view.ledger.queue_kept  # never written: always current
        self._limits = QueueLimits("capacity", view, self._table, self._tree.chains, self._tree.real)
        self._lent = int(number(arguments, "ancestorReclaimLevel", 0))
        self.deserved: Ints = np.maximum(np.minimum(self._table.deserved, self._tree.real), self._table.guarantee)
        self.deserved[~self._table.counted] = 0
        self._fair = view.usage if view.usage is not None and view.usage.rules.between_queues else None
        self._keys = 2 if self._fair is None else 3  # of each queue of a chain

    def _holdings(self) -> Ints:
        """What all queues use, without what is only kept free for their jobs (resources x queues)."""
        used_by_tasks: Ints = self._used - self._kept
        if self._tree.depth == 1:
            return used_by_tasks
        return np.stack([used_by_tasks[:, members].sum(axis=1) for members in self._limits.members], axis=1)

    # -- orders

    def queue_key(self, queue: Queue) -> tuple[float, ...]:
        return (-queue.priority, *self._path(queue))

    def victim_queue_key(self, queue: Queue, taker: Queue) -> tuple[float, ...]:
        """The nearest relatives of the reclaiming queue first, then the reverse of the queue order."""
        return (-self._kinship(queue, taker), queue.priority, *(-key for key in self._path(queue)))

    def _kinship(self, queue: Queue, other_queue: Queue) -> int:
        """How many queues the chains of two queues share, from the outermost on."""
        chains = (self._tree.chains[self._table.index[q.name]] for q in (queue, other_queue))
        outermost_first, second = (tuple(reversed(chain)) for chain in chains)
        return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(outermost_first, second, strict=False)))

    def _path(self, queue: Queue) -> list[float]:
        """Share, and whether nothing is deserved, of each queue of the chain from the outermost on.

        Where usage is remembered, queues that have what they deserve come in the order of that.
        """
        chain = self._tree.chains[self._table.index[queue.name]]
        path = [key for column in reversed(chain) for key in self._rank(column)]
        return path + [0.0] * (
            self._keys * self._tree.depth - len(path)
        )  # one length, or keys of other plugins would mix in

    def _rank(self, column: int) -> tuple[float, ...]:
        deserved = self.deserved[:, column]
        share = ratio(self._limits.held(column), deserved) if deserved.any() else 1.0
        nothing = float(not deserved.any())
        if self._fair is None:
            return share, nothing
        if share < 1.0:
            return share, 0.0, 0.0
        return 1.0, self._fair.queue_ratio(column), share + nothing

    def entitled(self) -> Ints:
        return self.deserved

    # -- quotas

    def quota_exceeded(self, job: Job, amounts: Ints) -> Reason | None:
        column = self._table.index.get(job.queue)
        if column is None:
            return None
        return self._closed(column) or self._limits.exceeded(self._tree.chains[column], amounts)

    def _closed(self, column: int) -> Reason | None:
        """Why no job may be in a queue: it is not open, or its place in the tree is not for jobs."""
        queue = self._table.queues[column]
        closed = Reason("QueueClosed", "capacity", f"queue {queue.name} is not open")
        return self._misplaced(column) if queue.open else closed

    def _misplaced(self, column: int) -> Reason | None:
        why = self._tree.unfit.get(column)
        return Reason("QueueUnfit", "capacity", why) if why is not None else None

    def may_enqueue(self, job: Job) -> Reason | None:
        """The job's minResources must fit each real capability beside those of admitted jobs; they are reserved."""
        column = self._table.index.get(job.queue)
        if column is None:
            return None
        return self._misplaced(column) or self._limits.refusal(job)

    # -- reclaim

    def protects_up_to(self) -> Ints:
        return np.where(self._table.named & self._table.counted[:, None], self.deserved, -1)

    def may_reclaim(self, job: Job, need: Ints) -> Reason | None:
        """What victims free counts for all queues above both, so only the job's own queue must have room as it is."""
        column = self._table.index.get(job.queue)
        if column is None:
            return None
        reason = self._closed(column) or self._limits.exceeded(self._tree.chains[column][:1], need)
        if reason is not None:
            return reason
        if any(self._within_deserved(c, need) for c in self._tree.chains[column][: 1 + self._lent]):
            return None
        text = f"queue {job.queue} would have more than it deserves of everything that the job needs"
        resources_needed = self._table.counted & (need > 0)
        used = self._limits.held(column)
        amounts_text = apart(resources_needed, self._limits.kept(column), used=used, deserved=self.deserved[:, column])
        figures_text = self._table.figures(resources_needed, asked=need, **amounts_text)
        return Reason("QueueOverDeserved", "capacity", f"{text} {figures_text}")

    def _within_deserved(self, column: int, need: Ints) -> bool:
        """Whether the need keeps within deserved in at least one resource that both name."""
        common = self._table.named[:, column] & self._table.counted & (need > 0)
        return bool((common & (self._limits.held(column) + need <= self.deserved[:, column])).any())

    def protect(self, preemptor: points.Preemptor, victims: Ints) -> Bools:
        """Protects tasks that their queue may not lose; not for preemption, which stays inside a queue."""
        return self.protect_whole(preemptor, victims, np.arange(len(victims)))

    def protect_whole(self, preemptor: points.Preemptor, victims: Ints, bundles: Ints) -> Bools:
        if preemptor.purpose is points.Purpose.PREEMPT:
            return np.zeros(len(victims), dtype=bool)
        table = self._table
        columns = table.of_job[preemptor.running.job[victims]]
        columns = np.where((columns >= 0) & table.reclaimable[columns], columns, -1)
        requests = preemptor.running.request[:, victims]
        is_counted = (requests > 0) & table.counted[:, None]
        taker = table.index.get(preemptor.job.queue, -1)
        accounts = self._accounts(columns, taker)
        signal = self._signals(preemptor)
        turnabout = self._turnabout(taker, preemptor.need)

        def may_lose(level: int, held_by_queue: Ints, queues: Ints, which: Ints) -> Bools:
            keeps_guarantee = (held_by_queue - requests[:, which] >= table.guarantee[:, queues])[table.counted].all(
                axis=0
            )
            if level > self._lent:
                return np.asarray(keeps_guarantee)
            deserved = self.deserved[:, queues]
            strange = ~(is_counted[:, which] & (deserved > 0)).any(axis=0)
            if not level:
                strange &= signal[queues]
            disputed = is_counted[:, which] & table.named[:, queues]
            exceeds = (disputed & (held_by_queue > deserved)).any(axis=0)
            if not level:
                exceeds &= ~turnabout.refuses(held_by_queue, deserved, disputed)
            return np.asarray(keeps_guarantee & (strange | exceeds))

        goes: Bools = who_goes(self._holdings(), requests, accounts, may_lose, bundles) & (columns >= 0)
        return ~goes

    def _turnabout(self, taker: int, need: Ints) -> ReclaimLoopGuard:
        if taker < 0:
            return ReclaimLoopGuard(liable=False, share=0.0)
        disputed = self._table.named[:, taker] & self._table.counted & (need > 0)
        return ReclaimLoopGuard.of(self._limits.held(taker) + need, self.deserved[:, taker], disputed)

    def _accounts(self, columns: Ints, reclaimer: int) -> Ints:
        """The queues that each victim's loss concerns, (levels x victims): its own, and ancestors not shared."""
        result = np.full((self._tree.depth, len(columns)), -1, dtype=np.int64)
        for column in distinct(columns[columns >= 0]).tolist():
            concerned = self._tree.unshared(column, reclaimer)
            result[: len(concerned), columns == column] = np.array(concerned, dtype=np.int64)[:, None]
        return result

    def _signals(self, preemptor: points.Preemptor) -> Bools:
        """Queues from which tasks may go that have nothing to do with what their queue deserves.

        Where ancestors lend their deserved, near relatives that both deserve nothing would take from each other for
        ever; so a reclaimer whose queue deserves none of what it needs leaves its near relatives alone.
        """
        result = np.ones(len(self._table.queues), dtype=bool)
        column = self._table.index.get(preemptor.job.queue, -1)
        if not self._lent or column < 0 or ((preemptor.need > 0) & (self.deserved[:, column] > 0)).any():
            return result
        near = set(self._tree.chains[column][1 : 1 + self._lent])
        for other_queue, around in enumerate(self._tree.chains):
            result[other_queue] = not near & set(around[1 : 1 + self._lent])
        return result
