"""Which tasks must be evicted from each node so that it takes a given number of new tasks.

All candidates are removed, and then put back while they still fit beside the new tasks: first those that a disruption
budget protects, then by importance. Those that do not fit are the victims. All nodes are counted at once, one number of
tasks after the other; exact for tasks of one plain shape.
"""

from __future__ import annotations

import enum

import msgspec
import numpy as np

from tierwise.framework.cycle import Cycle
from tierwise.framework.ledger import Pool
from tierwise.model.arrays import Bools, Floats, Ints, distinct, ordinals
from tierwise.model.job import Shape
from tierwise.model.running import RunningTable

__all__ = ["NodeCosts", "VictimOrder", "beyond_budgets", "by_importance", "node_keys", "price_nodes", "price_of"]


# How victims that fall one by one are weighed: who comes back first, and which of several choices is the cheapest.
#
# A `VictimOrder` is a custom that users of an action know. Disruption budgets are never a veto here (plugin `pdb`
# is one, where a profile has it): to go beyond them is a price. `by_pod` asks; nothing is changed here.


_FLOOR = 2**31
"""Added to every priority, as Kubernetes does, so that each further victim makes a sum larger."""


class VictimOrder(enum.Enum):
    """Whose customs hold."""

    JOB = "job"  # Koordinator's for whole jobs: fewest evictions, then the least important; budgets decide ties
    QUOTA = "quota"  # the same within a quota, where budgets come first
    POD = "pod"  # Kubernetes': budgets, then the highest priority, the sum of them, their number, their age

    @property
    def budgets_first(self) -> bool:
        return self is not VictimOrder.JOB


def by_importance(running: RunningTable, tasks: Ints, victim_order: VictimOrder) -> tuple[Ints, ...]:
    """Keys for `lexsort`, the least significant first: the most important task comes first."""
    if victim_order is VictimOrder.POD:  # the longer it runs, the more is lost
        single = ~running.jobs.together[running.job[tasks]]  # who takes its whole group along stays before its like
        return running.rank[tasks], running.started[tasks], single, -running.priority[tasks]  # type: ignore[return-value]
    return running.rank[tasks], running.owner[tasks], -running.priority[tasks]


def beyond_budgets(cycle: Cycle, running: RunningTable, tasks: Ints, rows: Ints | None = None) -> Bools:
    """Which tasks find one of their budgets used up by those in front of them; `rows` count each by itself."""
    result = np.zeros(len(tasks), dtype=bool)
    if not running.covered.shape[1] or not len(tasks):
        return result
    place = np.full(len(running), -1)
    place[tasks] = np.arange(len(tasks))
    at = place[running.covered[0]]
    budget = running.covered[1]
    at, budget = at[at >= 0], budget[at >= 0]
    group = budget if rows is None else rows[at] * len(cycle.ledger.budgets) + budget
    order = np.lexsort((at, group))
    ranked = group[order]
    turn = np.arange(len(ranked)) - np.searchsorted(ranked, ranked)
    result[at[order[turn >= cycle.ledger.budgets[budget[order]]]]] = True
    return result


def price_of(
    cycle: Cycle, running: RunningTable, victims: Ints, victim_order: VictimOrder, *, tasks: int, priorities: Ints
) -> tuple[float, ...]:
    """Price of victims that make room for so many tasks; the smallest price wins."""
    ordered = victims[np.lexsort(by_importance(running, victims, victim_order))]
    if victim_order is VictimOrder.POD and tasks == 1:
        return tuple(float(key[0]) for key in node_keys(cycle, running, ordered, np.zeros_like(ordered), 1))
    beyond = float(beyond_budgets(cycle, running, ordered).sum())
    everybody = np.ones((1, len(victims)), dtype=bool)
    ranks = _costs(everybody, running.row[victims], running, victims, len(cycle.nodes), priorities)
    fewest = (float(len(victims)), float(ranks.sum()))
    if victim_order.budgets_first:
        return (beyond, *fewest)
    return (*fewest, beyond)


def node_keys(cycle: Cycle, running: RunningTable, victims: Ints, rows: Ints, size: int) -> tuple[Floats, ...]:
    """What Kubernetes compares nodes by, the most telling first, given who must go from each; rows are below `size`.

    Victims beyond a budget, the highest priority, the sum of priorities, their number, and of those with the highest
    priority the one that has run longest: the later it started, the better.
    """
    priority = running.priority[victims].astype(np.float64)
    started = running.started[victims]
    highest = np.full(size, -np.inf)
    np.maximum.at(highest, rows, priority)
    earliest_start = np.full(size, np.inf)
    top = priority == highest[rows]
    np.minimum.at(earliest_start, rows[top], started[top])
    beyond = beyond_budgets(cycle, running, victims, rows)
    worse: Floats = np.bincount(rows, weights=beyond, minlength=size).astype(np.float64)
    total: Floats = np.bincount(rows, weights=priority + _FLOOR, minlength=size).astype(np.float64)
    number: Floats = np.bincount(rows, minlength=size).astype(np.float64)
    return worse, highest, total, number, -earliest_start


class NodeCosts(msgspec.Struct, frozen=True):
    """Price of each number of tasks on each row. Arrays are (tasks x rows), with row 0 for no task."""

    free: Ints  # how many tasks each row takes as things are
    room: Ints  # how many with every candidate gone
    price: Ints  # cost of the victims; one victim more outweighs any importance
    candidates: Ints  # positions in the running table, the last to go first within a row
    rows: Ints  # of the candidates
    gone: Bools  # (tasks x candidates)
    units: tuple[int, ...]  # what each number of a plan's price counts in `price`, as `price_of` orders them

    def told(self, price: int) -> tuple[float, ...]:
        """A sum of prices as the numbers that plans are compared by; disruption budgets are counted row by row."""
        numbers = []
        for unit in self.units:
            number, price = divmod(price, unit)
            numbers.append(float(number))
        return tuple(numbers)

    def on_row(self, row: int, number: int) -> Ints:
        """Who goes where a row takes so many tasks, by position in the running table."""
        row_start, row_end = np.searchsorted(self.rows, [row, row + 1])
        result: Ints = self.candidates[row_start:row_end][self.gone[number, row_start:row_end]]
        return result

    def of(self, numbers: Ints) -> Ints:
        """Who goes where each row takes so many tasks, by position in the running table."""
        result: Ints = np.sort(self.candidates[self.gone[numbers[self.rows], np.arange(len(self.rows))]])
        return result


def price_nodes(
    cycle: Cycle, shape: Shape, running: RunningTable, candidates: Ints, max_tasks: int, victim_order: VictimOrder
) -> NodeCosts:
    """The prices of up to `max_tasks` tasks of a shape on every node, if these candidates may go."""
    candidates = _in_order(cycle, running, candidates, victim_order)
    rows = running.row[candidates]
    idle = cycle.ledger.free(shape.asked, slice(0, len(cycle.nodes)), Pool.FUTURE_IDLE)
    request = running.request[shape.asked[:, None], candidates]
    cleared = idle.copy()
    np.add.at(cleared.T, rows, request.T)
    requested = shape.request[shape.asked, None]
    free, room = (np.maximum((amounts // requested).min(axis=0), 0) for amounts in (idle, cleared))
    closed = cycle.fit_counts.why(shape) != 0
    free[closed], room[closed] = 0, 0
    max_tasks = min(max_tasks, int(room.max(initial=0)))
    gone = np.zeros((max_tasks + 1, len(candidates)), dtype=bool)
    for number in range(1, max_tasks + 1):
        gone[number] = _without_room(cleared - requested * number, rows, request)
    price, units = _prices(cycle, running, candidates, gone, victim_order)
    return NodeCosts(free, room, price, candidates, rows, gone, units)


def _in_order(cycle: Cycle, running: RunningTable, candidates: Ints, victim_order: VictimOrder) -> Ints:
    """Row by row, the first to come back first."""
    importance = by_importance(running, candidates, victim_order)
    candidates = candidates[np.lexsort((*importance, running.row[candidates]))]
    if not victim_order.budgets_first:
        return candidates
    rows = running.row[candidates]
    beyond = beyond_budgets(cycle, running, candidates, rows)
    return candidates[np.lexsort((~beyond, rows))]  # stable: the rest stays in order


def _without_room(free: Ints, rows: Ints, request: Ints) -> Bools:
    """Who finds no room: on every row one candidate after the other takes what is left, if it is enough."""
    result = np.zeros(len(rows), dtype=bool)
    place = ordinals(rows)
    for i in range(int(place.max(initial=-1)) + 1):
        placed_now = np.flatnonzero(place == i)
        fits = (request[:, placed_now] <= free[:, rows[placed_now]]).all(axis=0)
        result[placed_now[~fits]] = True
        free[:, rows[placed_now[fits]]] -= request[
            :, placed_now[fits]
        ]  # one candidate of each row at a time: no row is here twice
    return result


def _prices(
    cycle: Cycle, running: RunningTable, candidates: Ints, gone: Bools, victim_order: VictimOrder
) -> tuple[Ints, tuple[int, ...]]:
    """The cost of the victims on each row, (tasks x rows), and what its units are.

    One victim more costs more than all ranks together.
    """
    rows = running.row[candidates]
    nodes = len(cycle.nodes)
    numbers = [np.bincount(rows, weights=g, minlength=nodes).astype(np.int64) for g in gone]
    ranks = _costs(gone, rows, running, candidates, nodes, distinct(running.priority[candidates]))
    victim = int(ranks.max(axis=0).sum()) + 1
    price: Ints = np.stack(numbers) * victim + ranks
    forbidden = np.zeros_like(price)
    if running.covered.shape[1]:
        beyond = [beyond_budgets(cycle, running, candidates[g], rows[g]) for g in gone]
        worse = [np.bincount(rows[g], weights=b, minlength=nodes) for g, b in zip(gone, beyond, strict=True)]
        forbidden = np.stack(worse).astype(np.int64)
    if victim_order.budgets_first:
        broken = int(price.max(axis=0).sum()) + 1
        return forbidden * broken + price, (broken, victim, 1)
    rank = int(forbidden.max(axis=0).sum()) + 1
    return price * rank + forbidden, (victim * rank, rank, 1)


def _costs(gone: Bools, rows: Ints, running: RunningTable, candidates: Ints, nodes: int, priorities: Ints) -> Ints:
    """Per row, the rank of the most important victim of each owner, added up, (tasks x rows)."""
    owner, ranks = running.owner[candidates], np.searchsorted(priorities, running.priority[candidates])
    pairs, pair = np.unique(rows * (int(owner.max(initial=0)) + 1) + owner, return_inverse=True)
    row_of = np.zeros(len(pairs), dtype=np.int64)
    row_of[pair] = rows
    result = np.zeros((len(gone), nodes), dtype=np.int64)
    for number, mask in enumerate(gone):
        highest = np.zeros(len(pairs), dtype=np.int64)
        np.maximum.at(highest, pair[mask], ranks[mask])
        result[number] = np.bincount(row_of, weights=highest, minlength=nodes)
    return result
