"""Usage that fades, in one cycle: what everybody has used, and the one vector of corrected shares that queues share by.

`proportion`, `capacity`, `drf` and `fairshare` read it here, each for the tree of queues that it shares by:

    target      weight / weights of the siblings that hold or wait for something
    used        (usage + target x what nobody used) / what the siblings could have used
    ratio       used / target                    1: as much as its share; the smallest goes first
    correction  target / used                    at least 1/16 and at most 16, times those of the queues around it

What nobody used counts as used by all in their shares, so that little usage on an idle cluster changes little. What a
queue holds more than at the start of the cycle is charged its price of entry at once, so nobody passes at an old price.

Who pays: the owner of what holds room, however it ends, for all that pods hold until they are gone; for room that is
kept idle the one for whom it is kept; the price of entry of pods that are evicted is given back as far as it was not
used. What is lost when nodes fail or work is evicted is told by reports and not given back: what of it was saved only
its owner knows.

The core keeps nothing: `UsageState` goes from the report of one cycle to the snapshot of the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec
import numpy as np
from msgspec.structs import replace

from tierwise.config.usage import UsageRules, Weights
from tierwise.dialects.kubernetes.requests import nominal
from tierwise.framework.ledger import Ledger
from tierwise.model.arrays import CPU, MEMORY, Floats, Ints
from tierwise.model.job import Job, Queue, Shape, namespace_of
from tierwise.model.snapshot import Snapshot
from tierwise.model.usage import Standing, UsageOwner, UsageState

__all__ = ["MOST_CORRECTED", "MOST_OF_QUEUE", "MOST_OWNERS", "FairUsage", "Ratios", "corrected", "ratios"]

MOST_CORRECTED: Final = 16.0
"""How many times more, or less, than its weight a queue gets at a level of the tree."""
MOST_OWNERS: Final = 4000
MOST_OF_QUEUE: Final = 200
"""Namespaces of a queue whose usage is kept apart, those that have used most; the rest of it is one."""
_Held = tuple[tuple[Shape, Ints, Ints], ...]
"""Shapes, rows and counts."""
_WHOLE: Final = 1_000_000_000
"""The rate of whoever holds the whole cluster, where resources have no weights."""
_PARTS: Final = 1 << 12
"""Parts of a weight, so that corrected weights are whole numbers."""
_UNITS: Final = {CPU: 1000, MEMORY: 1 << 30, "ephemeral-storage": 1 << 30}
"""How much one of a resource is, in the amounts of the axis; 1 of any other."""


class Ratios(msgspec.Struct, frozen=True):
    """How the queues of a tree stand among their siblings."""

    share: Floats  # of what these have used
    target: Floats  # of what they may use; 0 for queues that neither hold nor wait for anything
    ratio: Floats  # the one divided by the other, as if what nobody used were used by all in their shares
    could: Floats  # what each could have used


def ratios(parents: Ints, weights: Floats, used: Floats, active: Ints, whole: float) -> Ratios:
    """How the queues of a tree stand among their siblings.

    `parents` are columns, -1 for none, each before its children in `_top_down`; `used` is each queue's own. `whole` is
    what the cluster could have used. Queues that are not `active`, nor any below them, have a ratio of 1.
    """
    order, depth = _top_down(parents)
    total = used.copy()
    busy = active.astype(np.float64)
    for column in order[::-1]:
        if parents[column] >= 0:
            total[parents[column]] += total[column]
            busy[parents[column]] = max(busy[parents[column]], busy[column])
    size = len(parents)
    families = np.where(parents >= 0, parents, size)
    shared = np.bincount(families, weights * busy, size + 1)
    spent = np.bincount(families, total * busy, size + 1)
    target = np.divide(weights * busy, shared[families], out=np.zeros(size), where=shared[families] > 0)
    could = np.full(size + 1, whole)
    for level in range(int(depth.max(initial=0)) + 1):
        columns_here = np.flatnonzero(depth == level)
        could[columns_here] = could[families[columns_here]] * target[columns_here]
    room = np.maximum(could[families], spent[families])
    part = np.divide(
        total + target * (room - spent[families]), room, out=np.ones(size), where=(room > 0) & (target > 0)
    )
    ratio = np.divide(part, target, out=np.ones(size), where=(target > 0) & (room > 0))
    share = np.divide(total * busy, spent[families], out=np.zeros(size), where=spent[families] > 0)
    return Ratios(share, target, ratio, could[:size])


def corrected(parents: Ints, weights: Sequence[int], ratio: Floats) -> list[int]:
    """The weights, in parts of one, times the corrections of each queue and of those around it."""
    order, _ = _top_down(parents)
    factor = _correction(ratio)
    for column in order:
        if parents[column] >= 0:
            factor[column] *= factor[parents[column]]
    return [max(1, round(weight * _PARTS * by)) for weight, by in zip(weights, factor.tolist(), strict=True)]


def _correction(ratio: Floats) -> Floats:
    """By how much a queue gets more than its weight: less where it has used more than its share."""
    correction: Floats = 1.0 / np.clip(ratio, 1.0 / MOST_CORRECTED, MOST_CORRECTED)
    return correction


def _top_down(parents: Ints) -> tuple[list[int], Ints]:
    """The columns, each behind its parent, and how deep each is."""
    depth = np.zeros(len(parents), dtype=np.int64)
    above = parents.copy()
    while (above >= 0).any():
        inside = above >= 0
        depth[inside] += 1
        above[inside] = parents[above[inside]]
    return np.argsort(depth, kind="stable").tolist(), depth


class FairUsage:
    """The usage of everybody when a cycle begins, and the usage that the cycle adds."""

    def __init__(self, snapshot: Snapshot, ledger: Ledger, rules: UsageRules, *, orders_queues: bool = False) -> None:
        """`orders_queues`: nobody but the plugin that remembers usage orders queues."""
        self.rules = rules
        self.orders_queues = orders_queues
        self._snapshot = snapshot
        self._ledger = ledger
        self._charges = _charges(snapshot, rules)
        self.state = _begun(snapshot, rules).now(snapshot.now)
        self._own: dict[str, int] = {}
        counted = self.state.counted()
        self.counted = counted
        for (queue, _), number in counted.items():
            self._own[queue] = self._own.get(queue, 0) + number
        memory = rules.half_life / np.log(2.0)
        total = snapshot.nodes.allocatable[:, snapshot.nodes.ready].sum(axis=1)
        self.whole = float(self.rate("", total)) * memory
        self._standing: dict[str, Standing] | None = None
        self._at_start: Ints
        self._seen: Ints
        self._added: Ints
        self._inner_levels: list[Ints]
        self._ratios: Ratios
        self._parents: Ints

    # -- rates

    def rate(self, queue: str, amounts: Ints) -> int:
        """The price of holding these amounts for a second."""
        rate = 0
        for row, weight, unit in self._charges.get(queue, self._charges[""]):
            rate += int(amounts[row]) * weight // unit
        return rate

    def price(self, queue: str, amounts: Ints) -> float:
        """The price of starting so much, paid at once."""
        return self.rate(queue, amounts) * max(self.rules.entry, 1.0)

    # -- who has used how much

    def used_by(self, queue: str) -> int:
        """The usage of a queue by itself, as it counts now."""
        return self._own.get(queue, 0)

    def used_in(self, queue: str, namespace: str) -> int:
        """The usage of the jobs of a namespace in a queue, as it counts now."""
        return self.counted.get((queue, namespace), 0)

    # -- the vector

    def corrections(self, parents: Ints, weights: Floats, used: Floats, active: Ints) -> Floats:
        """The corrections of the queues of any tree, each without those of the queues around it."""
        return _correction(ratios(parents, weights, used, active, self.whole).ratio)

    def corrected_weights(self, queues: Sequence[Queue]) -> list[int]:
        """The weight of each queue of the cycle, corrected by what it and those around it have used."""
        self._work_out()
        weights = [max(1, queue.weight) for queue in queues]
        if not self.rules.between_queues:
            return weights
        return corrected(self._parents, weights, self._ratios.ratio)

    def queue_ratio(self, column: int) -> float:
        """The usage of a queue of the cycle and of those below it, as a multiple of its share; 1 is its share.

        What they hold more than at the start of the cycle is in it, at the price of entry.
        """
        self._work_out()
        if not self.rules.between_queues:
            return 1.0
        could = float(self._ratios.could[column])
        return float(self._ratios.ratio[column]) + (self._entered(column) / could if could > 0 else 0.0)

    def standing(self, queue: str) -> Standing | None:
        """How a queue stands beside its siblings; None for one that holds nothing and waits for nothing."""
        self._work_out()
        assert self._standing is not None
        return self._standing.get(queue)

    def path(self, queue: str) -> list[str]:
        """A queue and those around it, the outermost first."""
        self._work_out()
        names = list(self._ledger.queue_index)
        result = []
        column = self._ledger.queue_index.get(queue, -1)
        while column >= 0:
            result.append(names[column])
            column = int(self._parents[column])
        return result[::-1]

    def path_ratios(self, queue: str) -> list[float]:
        """The ratio of a queue and of those around it, the outermost first, all paths of one length."""
        self._work_out()
        result = [self.queue_ratio(self._ledger.queue_index[name]) for name in self.path(queue)]
        return result + [0.0] * (self._depth - len(result))

    def _entered(self, column: int) -> float:
        """How much a queue and those below it have taken since the cycle began, at its price of entry."""
        used = self._ledger.queue_used
        if not np.array_equal(used, self._seen):
            self._seen = used.copy()
            self._added = np.maximum(used - self._at_start, 0)
            for columns in self._inner_levels:
                np.add.at(self._added.T, self._parents[columns], self._added[:, columns].T)
        added = self._added[:, column]
        if not added.any():
            return 0.0
        return self.price(self._names[column], added)

    def _work_out(self) -> None:
        if self._standing is not None:
            return
        queues = tuple(self._snapshot.queues.values())
        index = self._ledger.queue_index
        self._names = tuple(index)
        self._parents = _parents(queues, index)
        _, depth = _top_down(self._parents)
        self._depth = int(depth.max(initial=0)) + 1
        self._at_start = self._ledger.queue_used.copy()
        self._seen = self._at_start
        self._added = np.zeros_like(self._at_start)
        self._inner_levels = [np.flatnonzero(depth == level) for level in range(self._depth - 1, 0, -1)]
        weights = np.array([max(1, queue.weight) for queue in queues], dtype=np.float64)
        used = np.array([float(self.used_by(queue.name)) for queue in queues])
        active = self._active()
        result = self._ratios = ratios(self._parents, weights, used, active, self.whole)
        self._standing = {
            queue.name: Standing(float(result.share[i]), float(result.target[i]), float(result.ratio[i]))
            for i, queue in enumerate(queues)
            if result.target[i] > 0
        }

    def _active(self) -> Ints:
        """Which queues hold something or wait for something."""
        result: Ints = (self._ledger.queue_used > 0).sum(axis=0)
        for job in self._snapshot.waiting:
            column = self._ledger.queue_index.get(job.queue)
            if column is not None:
                result[column] += 1
        return np.minimum(result, 1)

    # -- what the cycle adds

    def after(
        self,
        starting: Iterable[tuple[Job, _Held]],
        evicted: Iterable[tuple[Job, Shape]],
        kept_rooms: Iterable[tuple[Job, _Held]],
    ) -> UsageState:
        """Usage for the next cycle, given what this one has begun and evicted, and what is kept for whom."""
        snapshot = self._snapshot
        state = _refunded(self.state, self._lost(evicted))
        holding_by_job = self._ledger.held_by_jobs()
        holding = np.flatnonzero(holding_by_job.any(axis=0)).tolist()
        amounts: dict[UsageOwner, Ints] = {}
        rates_of_jobs: dict[str, int] = {}
        paying = {paid.job for paid in state.prepaid}
        for number in holding:
            job = snapshot.jobs[number]
            _add(amounts, _owner(job), holding_by_job[:, number])
            if job.key in paying:
                rates_of_jobs[job.key] = self.rate(job.queue, holding_by_job[:, number])
        for queue, queue_amounts in snapshot.standing_in.items():
            _add(amounts, (queue, ""), queue_amounts)
        if not snapshot.standing_in:  # there jobs that run are not told apart
            state = _cut(state, rates_of_jobs)
        for job, tasks in starting:
            entering = _sum(tasks, len(snapshot.axis))
            _add(amounts, _owner(job), entering)
            state = state.started(job.key, _owner(job), self.rate(job.queue, entering), self.rules.entry)
        for job, idle in _idle_amounts(kept_rooms, self._ledger.idle):
            _add(amounts, _owner(job), idle)
        rates = {owner: rate for owner, result in amounts.items() if (rate := self.rate(owner[0], result))}
        return replace(state, rates=rates, used=_bounded(state.used), standings=self.standings())

    def standings(self) -> dict[str, Standing]:
        """How the queues stand that hold or wait for something."""
        self._work_out()
        assert self._standing is not None
        return self._standing

    def _lost(self, evicted: Iterable[tuple[Job, Shape]]) -> dict[str, int]:
        """By job, the rate of its pods that this cycle evicts."""
        result: dict[str, int] = {}
        for job, shape in evicted:
            result[job.key] = result.get(job.key, 0) + self.rate(job.queue, shape.request)
        return result


def _owner(job: Job) -> UsageOwner:
    return job.queue, namespace_of(job.key)


def _add(amounts: dict[UsageOwner, Ints], owner: UsageOwner, added: Ints) -> None:
    before = amounts.get(owner)
    amounts[owner] = added if before is None else before + added


def _sum(holding_by_job: _Held, resources: int) -> Ints:
    """All amounts that tasks ask for."""
    result = np.zeros(resources, dtype=np.int64)
    for shape, _, counts in holding_by_job:
        result += shape.request * int(counts.sum())
    return result


def _idle_amounts(kept_rooms: Iterable[tuple[Job, _Held]], idle: Ints) -> Iterable[tuple[Job, Ints]]:
    """Amounts kept for each job, as far as they are idle now; no room is counted twice."""
    remaining: Ints | None = None
    for job, holding_by_job in kept_rooms:
        if remaining is None:
            remaining = np.maximum(idle, 0)
        result = np.zeros(len(idle), dtype=np.int64)
        for shape, rows, counts in holding_by_job:
            amounts_taken = np.minimum(shape.request[:, None] * counts, remaining[:, rows])
            remaining[:, rows] -= amounts_taken
            result += amounts_taken.sum(axis=1)
        if result.any():
            yield job, result


def _refunded(state: UsageState, lost_rates: Mapping[str, int]) -> UsageState:
    """The price of entry of what is evicted is given back as far as it was not used."""
    if not lost_rates or not state.prepaid:
        return state
    remaining = dict(lost_rates)
    used, kept_rooms = dict(state.used), []
    for paid in state.prepaid:
        back = min(paid.rate, remaining.get(paid.job, 0))
        if back:
            remaining[paid.job] -= back
            used[paid.owner] = max(0, used.get(paid.owner, 0) - state.price(back, paid.until))
        if paid.rate > back:
            kept_rooms.append(replace(paid, rate=paid.rate - back))
    return replace(state, used=used, prepaid=tuple(kept_rooms))


def _cut(state: UsageState, rates: Mapping[str, int]) -> UsageState:
    """Charges paid ahead for pods that are gone are dropped."""
    if not state.prepaid:
        return state
    remaining = dict(rates)
    kept_rooms = []
    for paid in state.prepaid:
        rate = min(paid.rate, remaining.get(paid.job, 0))
        if rate:
            remaining[paid.job] -= rate
            kept_rooms.append(replace(paid, rate=rate) if rate != paid.rate else paid)
    return replace(state, prepaid=tuple(kept_rooms))


def _bounded(used: Mapping[UsageOwner, int]) -> Mapping[UsageOwner, int]:
    """The owners that have used most: of a queue so many, and of all so many; others count for their queue."""
    if len(used) <= MOST_OF_QUEUE:
        return used
    of_queue: dict[str, int] = {}
    result: dict[UsageOwner, int] = {}
    for owner in sorted(used, key=lambda owner: (-used[owner], owner)):
        queue, namespace = owner
        number = of_queue.get(queue, 0)
        if namespace and (number >= MOST_OF_QUEUE or len(result) >= MOST_OWNERS):
            owner = (queue, "")
        elif namespace:
            of_queue[queue] = number + 1
        result[owner] = result.get(owner, 0) + used[(queue, namespace)]
    return result


def _begun(snapshot: Snapshot, rules: UsageRules) -> UsageState:
    """Usage as remembered before the cycle: by the cycle before, or in the record; else all start even.

    The record counts where another scheduler has written it since this one did.
    """
    before = snapshot.turns.usage
    memory = snapshot.usage_memory
    recorded = memory.recorded if memory is not None else None
    if recorded is not None and recorded.writes > before.writes:
        before = recorded if recorded.at > before.at else replace(before, writes=recorded.writes)
    resets = memory.resets if memory is not None else {}
    if before.unit != rules.unit or not before.at:
        return UsageState(
            at=snapshot.now,
            half_life=rules.half_life,
            unit=rules.unit,
            since=snapshot.now,
            writes=before.writes,
            resets=resets,
        )
    before = before.with_half_life(rules.half_life)
    due = [queue for queue, when in resets.items() if before.resets.get(queue, -1.0) < when]
    if due:
        before = replace(before.forgotten(due), resets={**before.resets, **{q: resets[q] for q in due}})
    return before


def _charges(snapshot: Snapshot, rules: UsageRules) -> dict[str, list[tuple[int, int, int]]]:
    """By queue, "" for all others: rows of the axis, with what so many units of each cost in a second."""
    if rules.weights:
        by_queue = {"": rules.weights, **rules.weights_of}
        return {queue: _weighted(snapshot, weights) for queue, weights in by_queue.items()}
    nodes = snapshot.nodes
    total = nodes.allocatable[:, nodes.ready].sum(axis=1)
    names = snapshot.axis.names
    rows = [row for row, name in enumerate(names) if nominal(name) and name != "pods" and total[row] > 0]
    weight_of_each = _WHOLE // max(1, len(rows))
    return {"": [(row, weight_of_each, int(total[row])) for row in rows]}


def _weighted(snapshot: Snapshot, weights: Weights) -> list[tuple[int, int, int]]:
    index = snapshot.axis.index
    return [(index[name], weight, _UNITS.get(name, 1)) for name, weight in weights if name in index]


def _parents(queues: Sequence[Queue], index: Mapping[str, int]) -> Ints:
    """The column of each queue's parent; -1 at the top, and for queues that are their own ancestors."""
    parents = [index.get(queue.parent, -1) if queue.parent not in ("", "root") else -1 for queue in queues]
    result = np.array(parents, dtype=np.int64)
    above = result.copy()
    for _ in range(len(queues)):
        inside = above >= 0
        if not inside.any():
            return result
        above[inside] = result[above[inside]]
    result[above >= 0] = -1
    return result
