"""What queues declare, as columns: the common input of proportion and capacity.

Columns are in the order of the ledger's `queue_index`. Host ports belong to nodes and are not counted in quotas. A
queue's real capability is what it could ever use: the cluster minus the guarantees of other queues, and at most what it
declares.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from tierwise.dialects.kubernetes.requests import nominal
from tierwise.framework.extension import CycleView
from tierwise.framework.ledger import Ledger
from tierwise.model.arrays import CPU, MEMORY, MOST, Axis, Bools, Ints
from tierwise.model.job import Job, Phase, Queue, Reason
from tierwise.model.node import NodeTable
from tierwise.model.snapshot import Snapshot

__all__ = [
    "UNLIMITED",
    "QueueLimits",
    "QueueTable",
    "apart",
    "by_weight",
    "chain",
    "circles",
    "columns",
    "counted",
    "figures",
    "members",
    "owed",
    "pending",
    "ratio",
    "real_capability",
    "total",
]

UNLIMITED = MOST
"""Means "no limit": above any total, and two of them still add up inside 64 bits."""


_SHOWN = 3
"""Resources whose amounts a message has."""


class QueueTable(msgspec.Struct, frozen=True):
    """Queues as columns; amounts are (resources x queues)."""

    index: Mapping[str, int]
    queues: tuple[Queue, ...]
    names: tuple[str, ...]  # of the resources
    counted: Bools  # the resources that quotas look at
    total: Ints
    guarantee: Ints
    capability: Ints  # UNLIMITED where none is declared
    deserved: Ints  # 0 where none is declared
    named: Bools  # the resources that `deserved` or the guarantee lists
    reclaimable: Bools
    of_job: Ints  # column of each job's queue; -1 where it does not exist

    @classmethod
    def of(cls, view: CycleView) -> QueueTable:
        queues = tuple(view.queues.values())
        axis = view.axis
        everything = total(view.nodes)
        max_amounts = np.minimum(everything, 2**62 // max(1, len(queues)))  # no sum over queues overflows
        guarantee = np.minimum(columns(axis, [q.guarantee for q in queues]), max_amounts[:, None])
        deserved = columns(axis, [q.deserved for q in queues])
        index = view.ledger.queue_index
        return cls(
            index=index,
            queues=queues,
            names=axis.names,
            counted=counted(axis),
            total=everything,
            guarantee=guarantee,
            capability=columns(axis, [_limits(q.capability) for q in queues], UNLIMITED),
            deserved=deserved,
            named=columns(axis, [dict.fromkeys([*q.deserved, *q.guarantee], 1) for q in queues]) > 0,
            reclaimable=np.array([q.reclaimable for q in queues], dtype=bool),
            of_job=np.array([index.get(job.queue, -1) for job in view.jobs], dtype=np.int64),
        )

    def figures(self, which: Bools, **amounts: Ints) -> str:
        """Amounts of these resources in words: "(cpu: 2 asked, 3 used, 4 allowed)"."""
        return figures(self.names, which, **amounts)

    def exceeded(
        self,
        code: str,
        plugin: str,
        words: tuple[str, str],
        *,
        requested: Ints,
        reserved: Ints | None = None,
        **amounts: Ints,
    ) -> Reason | None:
        """Why so much more is not given: what is held and what is asked for exceed a limit; None where they do not.

        The `amounts` are two: what the queue holds, and its limit, each with its word. The `words` come
        before and behind the resources that are short. What is `reserved` is a part of what the queue holds, and the
        message lists it by itself.
        """
        held_amounts, limit = amounts.values()
        short = self.counted & (requested > 0) & (held_amounts + requested > limit)
        if not short.any():
            return None
        listed = ", ".join(self.names[r] for r in np.flatnonzero(short).tolist())
        if reserved is not None:
            amounts = apart(short, reserved, **amounts)
        figures_text = self.figures(short, asked=requested, **amounts)
        return Reason(code, plugin, f"{words[0]} {listed}{words[1]} {figures_text}")


def apart(which: Bools, reserved: Ints, **amounts: Ints) -> dict[str, Ints]:
    """What is held, and the rest of the amounts, with what is only reserved of these resources by a word of its own."""
    if not reserved[which].any():
        return amounts
    (word, held_amounts), *other_amounts = amounts.items()
    return {word: held_amounts - reserved, "reserved": reserved, **dict(other_amounts)}


def figures(names: Sequence[str], which: Bools, **amounts: Ints) -> str:
    """Amounts of some resources, each with its word, in brackets; of many resources the first few."""
    from tierwise.api.quantity import show  # exact fractions are slow to import, and few cycles refuse anything

    rows = np.flatnonzero(which).tolist()
    parts = [
        f"{names[r]}: {', '.join(f'{show(names[r], int(vector[r]))} {word}' for word, vector in amounts.items())}"
        for r in rows[:_SHOWN]
    ]
    return f"({'; '.join([*parts, *(['and others'] if len(rows) > _SHOWN else [])])})"


def counted(axis: Axis) -> Bools:
    """The resources that quotas look at."""
    return np.array([nominal(name) for name in axis.names], dtype=bool)


def total(nodes: NodeTable) -> Ints:
    """What the cluster has: everything that its ready nodes can allocate."""
    result: Ints = np.minimum(nodes.allocatable[:, nodes.ready].sum(axis=1), UNLIMITED)
    return result


def real_capability(everything: Ints, guarantee: Ints, capability: Ints) -> Ints:
    """What queues side by side could ever use: min(capability, everything - guarantees of the others), never below 0.

    `guarantee` and `capability` are (resources x queues); a queue's own guarantee is always its to use.
    """
    open_to_all = np.maximum(everything - guarantee.sum(axis=1), 0)
    result: Ints = np.minimum(open_to_all[:, None] + guarantee, capability)
    return result


def pending(snapshot: Snapshot, ledger: Ledger) -> Ints:
    """What pending tasks ask for, per queue: counted by shape, so that tasks are not added one by one."""
    counts: dict[tuple[int, int], int] = {}
    for job in snapshot.jobs:
        column = ledger.queue_index.get(job.queue)
        if column is None:
            continue
        for pod_set in job.every_pod_set():
            key = (column, pod_set.shape.number)
            counts[key] = counts.get(key, 0) + len(pod_set.tasks)
    result = np.zeros_like(ledger.queue_used)
    for (column, shape), count in counts.items():
        result[:, column] += snapshot.shapes[shape].request * count
    return result


def ratio(used: Ints, of: Ints) -> float:
    """The largest `used / of` over the resources of which there is any; 0 where there are none."""
    any_of_it = of > 0
    if any_of_it.any():
        return float((used[any_of_it] / of[any_of_it]).max())
    return 0.0


def circles(parents: Sequence[int], column: int) -> bool:
    """Whether a queue is its own ancestor; `parents` are columns, -1 for none."""
    seen = {column}
    above = parents[column]
    while above >= 0 and above not in seen:
        seen.add(above)
        above = parents[above]
    return above == column


def chain(parents: Sequence[int], column: int) -> tuple[int, ...]:
    """A queue and those around it, the outermost last."""
    columns = [column]
    while parents[columns[-1]] >= 0:
        columns.append(parents[columns[-1]])
    return tuple(columns)


def members(chains: Sequence[Sequence[int]]) -> tuple[Ints, ...]:
    """Each queue with all below it, from the chain of every queue."""
    below: list[list[int]] = [[] for _ in chains]
    for column, around in enumerate(chains):
        for above in dict.fromkeys(around):
            below[above].append(column)
    return tuple(np.array(columns, dtype=np.int64) for columns in below)


def by_weight(total: int, weights: Sequence[int]) -> list[int]:
    """Whole parts of the total in proportion to the weights; what rounding leaves goes to the largest fractions."""
    whole = sum(weights)
    parts = [total * weight // whole for weight in weights]
    by_fraction = sorted(range(len(weights)), key=lambda i: (-(total * weights[i] % whole), i))
    for i in by_fraction[: total - sum(parts)]:
        parts[i] += 1
    return parts


def columns(axis: Axis, amounts: Sequence[Mapping[str, int]], absent: int = 0) -> Ints:
    """Amounts by name as columns; names that nothing in the cluster uses are left out."""
    result = np.full((len(axis), len(amounts)), absent, dtype=np.int64)
    for column, given in enumerate(amounts):
        for name, amount in given.items():
            if name in axis.index:
                result[axis.index[name], column] = min(amount, UNLIMITED)
    return result


def _limits(capability: Mapping[str, int]) -> Mapping[str, int]:
    """A capability of no cpu or no memory is none: Volcano takes it for one that was left out, and so do we."""
    return {name: amount for name, amount in capability.items() if amount > 0 or name not in (CPU, MEMORY)}


def _least(view: CycleView) -> Ints:
    """The minResources of jobs, (resources x jobs), at most what their pods ask for; 0 where a job states none.

    What a job is let in for in this cycle counts as stated (`grant`): the controllers make its pods after that.
    """
    result = np.zeros((len(view.axis), len(view.jobs)), dtype=np.int64)
    stated = [(job.number, job.min_resources) for job in view.jobs if job.min_resources is not None]
    if stated:
        result[:, [number for number, _ in stated]] = np.stack([least for _, least in stated], axis=1)
    result[:, (result >= UNLIMITED).any(axis=0)] = 0
    if stated:
        # A claim costs nothing, pods count in the resource quota of their namespace: who has none claims nothing.
        numbers = [number for number, _ in stated]
        asked = np.stack([_asked(view.jobs[number], len(view.axis)) for number in numbers], axis=1)
        result[:, numbers] = np.minimum(result[:, numbers], asked)
    return np.minimum(result, UNLIMITED // max(1, len(view.jobs)))


def _asked(job: Job, resources: int) -> Ints:
    """What the pods of a job ask for together."""
    if len(job.subs) == 1:
        return job.subs[0].request
    return sum((sub.request for sub in job.subs), start=np.zeros(resources, dtype=np.int64))


def _enqueued(view: CycleView) -> Bools:
    """Jobs that may still claim their minResources: those that wait for it, and those that run with their minimum.

    A running job with fewer tasks than its minimum has given room back (its driver has ended, say): Volcano lets it
    claim nothing, and so do we.
    """
    running = [sum(len(sub.held) for sub in job.subs) for job in view.jobs]
    heads = _heads(view, running) if view.reserves else set()
    return np.array(
        [
            (job.phase is Phase.INQUEUE and job.number not in heads)
            or (job.phase is Phase.RUNNING and n >= job.minimum)
            for job, n in zip(view.jobs, running, strict=True)
        ],
        dtype=bool,
    )


def _heads(view: CycleView, running: list[int]) -> set[int]:
    """By queue, the first job that was let in and holds nothing: what it needs is reserved for it, and not promised.

    A promise besides would keep out jobs that end before its moment, and has no bound.
    """
    found: dict[str, Job] = {}
    for job, number in zip(view.jobs, running, strict=True):
        if job.phase is Phase.INQUEUE and not number:
            before = found.get(job.queue)
            key = (-job.priority, job.created, job.order)
            if before is None or key < (-before.priority, before.created, before.order):
                found[job.queue] = job
    return {job.number for job in found.values()}


def owed(view: CycleView) -> Ints:
    """What the jobs that were let in still lack of their minResources, in all."""
    lack = np.maximum(_least(view) - view.ledger.job_used, 0)
    result: Ints = lack[:, _enqueued(view)].sum(axis=1)
    return result


class QueueLimits:
    """Limits of queues that hold for all around a queue as well: on what is used, and on what is promised.

    Promised are minResources of jobs let in, held or not, and of others what they hold. What jobs hold beyond their
    minResources is promised to no job: Volcano calls it elastic and leaves it out when it lets a job in. The sums are
    those at the start of the cycle, plus the jobs granted since; one that another gate refuses after all stays granted
    until the cycle ends.
    """

    def __init__(
        self, plugin: str, view: CycleView, table: QueueTable, chains: Sequence[Sequence[int]], limit: Ints
    ) -> None:
        """`chains` are, of each queue, those whose limits hold for it, innermost first."""
        self.members = members(chains)
        self._plugin = plugin
        self._table = table
        self._chains = chains
        self._limit = limit
        self._used = view.ledger.queue_used  # read, never written: always current
        self._kept = view.ledger.queue_kept
        least = _least(view)
        kept = np.where(_enqueued(view), least, np.minimum(least, view.ledger.job_used))
        known = np.flatnonzero(table.of_job >= 0)
        self._sums: Ints = np.zeros((len(view.axis), len(table.queues)), dtype=np.int64)
        np.add.at(self._sums.T, table.of_job[known], kept[:, known].T)
        self._granted: set[int] = set()

    def held(self, column: int) -> Ints:
        """What a queue and the queues below it hold."""
        result: Ints = self._used[:, self.members[column]].sum(axis=1)
        return result

    def kept(self, column: int) -> Ints:
        """What of it is only reserved, for jobs that wait."""
        result: Ints = self._kept[:, self.members[column]].sum(axis=1)
        return result

    def exceeded(self, chain: Sequence[int], amounts: Ints) -> Reason | None:
        """Why one of these queues may not use so much more; None where all may."""
        for above in chain:
            words = f"queue {self._table.queues[above].name} would have more", " than its capability allows"
            used = self.held(above)
            allowed = self._limit[:, above]
            reason = self._table.exceeded(
                "QueueOverCapability",
                self._plugin,
                words,
                requested=amounts,
                reserved=self.kept(above),
                used=used,
                allowed=allowed,
            )
            if reason is not None:
                return reason
        return None

    def refusal(self, job: Job) -> Reason | None:
        """Why a queue cannot promise a job its minResources; None where all can, and from then on they are promised.

        A job that states none needs no promise, and gets one once, however often it asks.
        """
        asked = job.min_resources
        own = self._table.index.get(job.queue)
        if own is None or asked is None or job.number in self._granted:
            return None
        for column in self._chains[own]:
            words = f"queue {self._table.queues[column].name} cannot promise it enough", ""
            promised = self._sums[:, self.members[column]].sum(axis=1)
            allowed = self._limit[:, column]
            reason = self._table.exceeded(
                "QueueQuotaExceeded", self._plugin, words, requested=asked, promised=promised, allowed=allowed
            )
            if reason is not None:
                return reason
        self._granted.add(job.number)
        self._sums[:, own] += asked
        return None
