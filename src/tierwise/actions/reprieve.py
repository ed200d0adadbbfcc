"""Who must go from each node so that it takes so many tasks: all are thought away, and come back while there is room.

Candidates come back the most important first, as `weighing` has it, and before them those whose going a disruption
budget forbids; whoever finds no room any more beside the new tasks is a victim. All nodes are counted at once, one
number of tasks after the other; exact for tasks of one plain shape.
"""

from __future__ import annotations

import msgspec
import numpy as np

from tierwise.actions.weighing import Manner, beyond_budgets, by_importance
from tierwise.framework.cycle import Cycle
from tierwise.framework.ledger import Pool
from tierwise.model.arrays import Bools, Ints
from tierwise.model.running import RunningTable
from tierwise.model.shape import Shape

__all__ = ["Prices", "price_nodes"]


class Prices(msgspec.Struct, frozen=True):
    """What so many tasks cost on each row; arrays of numbers are (tasks x rows), row 0 standing for no task."""

    free: Ints  # how many tasks each row takes as things are
    room: Ints  # how many with every candidate gone
    price: Ints  # what those who must go cost, in one number: more victims cost more than dearer ones
    candidates: Ints  # positions in the running table, the last to go first within a row
    rows: Ints  # of the candidates
    gone: Bools  # (tasks x candidates)

    def of(self, numbers: Ints) -> Ints:
        """Who goes where each row takes so many tasks, by position in the running table."""
        result: Ints = np.sort(self.candidates[self.gone[numbers[self.rows], np.arange(len(self.rows))]])
        return result


def price_nodes(
    cycle: Cycle, shape: Shape, running: RunningTable, candidates: Ints, most: int, manner: Manner
) -> Prices:
    """The prices of up to `most` tasks of a shape on every node, if these candidates may go."""
    candidates = _in_order(cycle, running, candidates, manner)
    rows = running.row[candidates]
    idle = cycle.ledger.free(shape.asked, slice(0, len(cycle.nodes)), Pool.LATER)
    request = running.request[np.ix_(shape.asked, candidates)]
    cleared = idle.copy()
    np.add.at(cleared.T, rows, request.T)
    asked = shape.request[shape.asked, None]
    free, room = (np.maximum((amounts // asked).min(axis=0), 0) for amounts in (idle, cleared))
    closed = cycle.rooms.of(shape).why != 0
    free[closed], room[closed] = 0, 0
    most = min(most, int(room.max(initial=0)))
    gone = np.zeros((most + 1, len(candidates)), dtype=bool)
    for number in range(1, most + 1):
        gone[number] = _without_room(cleared - asked * number, rows, request)
    return Prices(free, room, _prices(cycle, running, candidates, gone, manner), candidates, rows, gone)


def _in_order(cycle: Cycle, running: RunningTable, candidates: Ints, manner: Manner) -> Ints:
    """Row by row, the first to come back first."""
    importance = by_importance(running, candidates, manner)
    candidates = candidates[np.lexsort((*importance, running.row[candidates]))]
    if not manner.budgets_first:
        return candidates
    rows = running.row[candidates]
    beyond = beyond_budgets(cycle, running, candidates, rows)
    return candidates[np.lexsort((~beyond, rows))]  # stable: the rest stays in order


def _without_room(left: Ints, rows: Ints, request: Ints) -> Bools:
    """Who finds no room: on every row one candidate after the other takes what is left, if it is enough."""
    result = np.zeros(len(rows), dtype=bool)
    turn = np.arange(len(rows)) - np.searchsorted(rows, rows)
    for i in range(int(turn.max(initial=-1)) + 1):
        now = np.flatnonzero(turn == i)
        fits = (request[:, now] <= left[:, rows[now]]).all(axis=0)
        result[now[~fits]] = True
        left[:, rows[now[fits]]] -= request[:, now[fits]]  # one candidate per row and turn: no row stands here twice
    return result


def _prices(cycle: Cycle, running: RunningTable, candidates: Ints, gone: Bools, manner: Manner) -> Ints:
    """What those who go cost on each row, (tasks x rows); one victim more costs more than all ranks together."""
    rows, nodes = running.row[candidates], len(cycle.nodes)
    numbers = [np.bincount(rows, weights=g, minlength=nodes).astype(np.int64) for g in gone]
    ranks = _costs(gone, rows, running, candidates, nodes)
    price: Ints = np.stack(numbers) * (int(ranks.max(axis=0).sum()) + 1) + ranks
    if not running.covered.shape[1]:
        return price
    beyond = [beyond_budgets(cycle, running, candidates[g], rows[g]) for g in gone]
    worse = [np.bincount(rows[g], weights=b, minlength=nodes) for g, b in zip(gone, beyond, strict=True)]
    forbidden = np.stack(worse).astype(np.int64)
    if manner.budgets_first:
        return forbidden * (int(price.max(axis=0).sum()) + 1) + price
    return price * (int(forbidden.max(axis=0).sum()) + 1) + forbidden


def _costs(gone: Bools, rows: Ints, running: RunningTable, candidates: Ints, nodes: int) -> Ints:
    """Per row, the rank of the most important victim of each owner, added up, (tasks x rows)."""
    priority, kin = running.priority[candidates], running.kin[candidates]
    ranks = np.searchsorted(np.unique(priority), priority)
    pairs, pair = np.unique(rows * (int(kin.max(initial=0)) + 1) + kin, return_inverse=True)
    row_of = np.zeros(len(pairs), dtype=np.int64)
    row_of[pair] = rows
    result = np.zeros((len(gone), nodes), dtype=np.int64)
    for number, mask in enumerate(gone):
        highest = np.zeros(len(pairs), dtype=np.int64)
        np.maximum.at(highest, pair[mask], ranks[mask])
        result[number] = np.bincount(row_of, weights=highest, minlength=nodes)
    return result
