"""Put k tasks of one shape into a span of nodes: four kernels, one contract.

Each kernel answers which rows take how many tasks when tasks are placed one after the other, each on the node
with the highest total score, ties to the natural order of names; it leaves the ledger as it was.
`reference` does literally that; the others are faster and exact where their condition holds, which a property
test checks. `place` picks the fastest that is exact for the plugins at hand.

| kernel    | exact when                                              | work for k tasks on n nodes  |
|-----------|---------------------------------------------------------|------------------------------|
| reference | always                                                  | k scans of all n             |
| step      | always: rescores stale rows only                        | k small updates and k argmax |
| runs      | a task raises its own node at least as much as any other | nodes used, not k            |
| fill      | and changes no other node's score                       | one sort                     |

Where filters move as tasks are placed, `fill` is not exact, and `runs` is where they move on the task's own row alone
(`OwnRowFilter`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import Ask, ScoreEffect
from tierwise.framework.ledger import Pool
from tierwise.model.arrays import Bools, Ints

__all__ = ["GRAIN", "Kernel", "Picks", "fill", "kernel_for", "place", "place_in_order", "reference", "runs", "step"]

Picks = tuple[Ints, Ints]
"""Distinct rows in ascending order, and how many tasks each takes."""

Kernel = Callable[[Cycle, Ask, int, slice, Pool], Picks]

GRAIN = 2.0**20
"""Scores are compared in steps of a millionth, so that rounding noise decides nothing."""


def place(cycle: Cycle, ask: Ask, count: int, span: slice, pool: Pool) -> Picks:
    """Choose rows for up to `count` tasks in a span, with the fastest kernel that is exact here."""
    if not cycle.pipeline.moving(ask.shape):
        room = cycle.fit_counts.of(ask.shape).rows(pool)[span]
        rows = room.nonzero()[0]
        if count and (len(rows) <= 1 or int(room.sum()) <= count):  # nothing to choose
            return rows + span.start, np.minimum(room[rows], count)
    return kernel_for(cycle, ask, pool)(cycle, ask, count, span, pool)


def place_in_order(cycle: Cycle, ask: Ask, count: int, span: slice, pool: Pool) -> Ints:
    """The rows of up to `count` tasks in the order in which they would be placed, one entry for each."""
    kernel = kernel_for(cycle, ask, pool)
    if kernel is fill:
        rows, counts = _fill_order(cycle, ask, count, span, pool)
    else:
        rows, counts = _visits(cycle, ask, count, span, pool, whole_node=kernel is runs)
    return np.repeat(rows + span.start, counts)


def kernel_for(cycle: Cycle, ask: Ask, pool: Pool) -> Kernel:
    """The fastest kernel that is exact for this shape and these plugins."""
    moving = cycle.pipeline.moving(ask.shape)
    if moving and not cycle.pipeline.moving_own_rows(ask.shape):
        return step
    effect = cycle.pipeline.effect(ask)
    pipelined = cycle.ledger.any_pipelined or (pool is not Pool.IDLE and cycle.ledger.any_releasing)
    if effect is ScoreEffect.SPAN and pipelined:
        return step  # pipelined tasks can make a domain overfull, which lowers the score of the node that took one
    if effect <= ScoreEffect.ROW:
        return runs if moving else fill  # how many a node takes is known only as tasks are placed there
    return runs if effect is ScoreEffect.SPAN else step


def reference(cycle: Cycle, ask: Ask, count: int, span: slice, pool: Pool) -> Picks:
    """Place one task after the other, with all scores computed again each time. For tests and benchmarks only."""
    taken = np.zeros(span.stop - span.start, dtype=np.int64)
    with cycle.ledger.statement():
        for _ in range(count):
            fits = cycle.fits(ask, span, pool)
            if not fits.any():
                break
            best = _best(_keys(cycle, ask, span, fits), cycle.nodes.rank[span], fits)
            cycle.ledger.place(ask.shape, np.array([span.start + best]), np.array([1]), pool=pool)
            taken[best] += 1
    return _picks(taken, span)


def fill(cycle: Cycle, ask: Ask, count: int, span: slice, pool: Pool) -> Picks:
    """Sort the nodes once, then fill one after the other."""
    rows, room = _fill_order(cycle, ask, count, span, pool)
    again = np.argsort(rows)
    return rows[again] + span.start, room[again]


def _fill_order(cycle: Cycle, ask: Ask, count: int, span: slice, pool: Pool) -> Picks:
    """Positions in the span in the order in which they are filled, and how many tasks each takes."""
    whole = cycle.fit_counts.of(ask.shape).rows(pool)[span]
    rows = whole.nonzero()[0]
    keys = _keys(cycle, ask, span, whole > 0)[rows]
    order = np.lexsort((cycle.nodes.rank[span][rows], -keys))
    upto = np.cumsum(whole[rows][order])
    used = min(int(np.searchsorted(upto, count)) + 1, len(order)) if count else 0
    order = order[:used]
    counts = whole[rows][order]
    if used:
        counts[-1] -= max(int(upto[used - 1]) - count, 0)
    return rows[order], counts


def runs(cycle: Cycle, ask: Ask, count: int, span: slice, pool: Pool) -> Picks:
    """Fill the best node, then rescore the rows that changed."""
    return _ascending(_visits(cycle, ask, count, span, pool, whole_node=True), span)


def step(cycle: Cycle, ask: Ask, count: int, span: slice, pool: Pool) -> Picks:
    """Place one task after the other, rescoring only the rows that the last one made stale."""
    return _ascending(_visits(cycle, ask, count, span, pool, whole_node=False), span)


def _visits(cycle: Cycle, ask: Ask, count: int, span: slice, pool: Pool, *, whole_node: bool) -> Picks:
    """Positions in the span in the order in which they are chosen, which may repeat, and how many tasks each takes."""
    chosen: list[int] = []
    numbers: list[int] = []
    rank = cycle.nodes.rank[span]
    moving = cycle.pipeline.moving(ask.shape)
    fits = cycle.fits(ask, span, pool)
    keys = _keys(cycle, ask, span, fits)
    left = count
    with cycle.ledger.statement():
        while left and fits.any():
            best = _best(keys, rank, fits)
            row = span.start + best
            room = int(cycle.fit_counts.of(ask.shape).rows(pool)[row])
            number = min(left, room) if whole_node else 1
            more = room > number
            if moving and whole_node:
                number, more = _fill_row(cycle, ask, number, row, pool)
            chosen.append(best)
            numbers.append(number)
            left -= number
            if not left:
                break
            if not (moving and whole_node):
                cycle.ledger.place(ask.shape, np.array([row]), np.array([number]), pool=pool)
            if moving and not whole_node:
                fits = cycle.fits(ask, span, pool)
            else:
                fits[best] = more
            stale = cycle.pipeline.stale(ask, row)
            part = slice(max(stale.start, span.start), min(stale.stop, span.stop))
            inside = slice(part.start - span.start, part.stop - span.start)
            keys[inside] = _keys(cycle, ask, part, fits[inside])
    return np.array(chosen, dtype=np.int64), np.array(numbers, dtype=np.int64)


def _fill_row(cycle: Cycle, ask: Ask, most: int, row: int, pool: Pool) -> tuple[int, bool]:
    """Place tasks on a row, one after the other, as long as filters let them: how many, and if one more would fit."""
    number, more = 0, True
    while more and number < most:
        cycle.ledger.place(ask.shape, np.array([row]), np.array([1]), pool=pool)
        number += 1
        more = bool(cycle.fits(ask, slice(row, row + 1), pool)[0])
    return number, more


def _ascending(visits: Picks, span: slice) -> Picks:
    positions, numbers = visits
    taken = np.zeros(span.stop - span.start, dtype=np.int64)
    np.add.at(taken, positions, numbers)
    return _picks(taken, span)


def _keys(cycle: Cycle, ask: Ask, span: slice, fits: Bools) -> Ints:
    return np.rint(cycle.pipeline.score(ask, span, fits) * GRAIN).astype(np.int64)


def _best(keys: Ints, rank: Ints, fits: Bools) -> int:
    """The position with the highest key, then the lowest rank, among those that fit."""
    candidates = np.flatnonzero(fits)
    top = candidates[keys[candidates] == keys[candidates].max()]
    return int(top[np.argmin(rank[top])])


def _picks(taken: Ints, span: slice) -> Picks:
    rows = np.flatnonzero(taken)
    return rows + span.start, taken[rows]
