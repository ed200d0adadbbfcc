"""The best node for the next task of a shape, kept from task to task: cost follows what has changed since the last one.

Where pods of many shapes wait among each other, each of them is placed after tasks of other shapes. `KeptScores` keeps
what each node scores by itself for each shape, and scores the rows again that have changed on the ledger. What nodes
score by their domain is added each time, since a task moves the domains around it, and so all scores by a little.
Where tasks raise their own node most, a node that was the best stays so while all tasks go there and it has room.

The row is the one that `placer.best_row` chooses for one task: a property compares both.
"""

from __future__ import annotations

from functools import cached_property

import msgspec
import numpy as np

from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import Ask, ScoreEffect
from tierwise.framework.ledger import Pool
from tierwise.framework.placer import GRAIN
from tierwise.model.arrays import Bools, Floats, Ints, Rows
from tierwise.model.shape import Shape

__all__ = ["KeptScores"]


class _Kept(msgspec.Struct):
    """What is kept of one shape."""

    ask: Ask  # the first one; others of the shape score the same
    asked: Ints
    request: Ints  # of what it asks for
    open: Bools  # by row: no static filter objects
    scores: Floats  # by position, in steps of `GRAIN`, without what domains add; minus infinity where it does not fit
    read: int  # how many of the rows that changed are in them
    packs: bool  # a task of whatever shape raises its own node at least as much as any other
    best: int = -1  # the row that was the best, and up to which change it is known to be
    known: int = -1


class KeptScores:
    """What nodes score for tasks of each shape that was asked for, by position: the natural order of their names."""

    def __init__(self, cycle: Cycle) -> None:
        self._cycle = cycle
        self._kept: dict[object, _Kept | None] = {}

    # Found when first asked for: most gangs have constraints, and many cycles place no task.

    @cached_property
    def _row(self) -> Ints:
        """By position."""
        return np.argsort(self._cycle.nodes.rank, kind="stable")

    @cached_property
    def _position(self) -> Ints:
        """By row."""
        return np.argsort(self._row)

    @cached_property
    def _leaf(self) -> Ints:
        """By position, the innermost domain."""
        leaf: Ints = self._cycle.topology.leaf[self._row]
        return leaf

    def best(self, ask: Ask) -> int | None:
        """The row for the next task of a job without constraints, -1 if it fits nowhere.

        None where scores or filters depend on more than the tasks of each node and the amounts of each domain.
        """
        shape, job = ask.shape, ask.job
        who = shape.number if self._cycle.pipeline.scores_by_shape else (shape.number, job.queue, job.lone)
        if who not in self._kept and not self.has_room(shape):
            return -1  # a backlog of many shapes costs a look at each
        kept = self._kept[who] if who in self._kept else self._first(who, ask)
        if kept is None:
            return None
        if not self._stays(kept):
            kept.best = self._found(kept)
        kept.known = self._cycle.ledger.moved.length
        return kept.best

    def has_room(self, shape: Shape) -> bool:
        """Whether some node has the amounts, whatever filters say."""
        free = self._cycle.ledger.idle[shape.asked]
        return bool(np.logical_and.reduce(free >= shape.request[shape.asked, None], axis=0).any())

    def _stays(self, kept: _Kept) -> bool:
        """Whether the row that was the best is known to be so still."""
        ledger = self._cycle.ledger
        if kept.known == ledger.moved.length:
            return True
        if kept.best < 0 or not kept.packs or ledger.any_pipelined or ledger.any_releasing:
            return False
        if not ledger.moved.taken_only_on(kept.best, kept.known):
            return False
        return bool((ledger.idle[kept.asked, kept.best] >= kept.request[:, 0]).all())

    def _found(self, kept: _Kept) -> int:
        moved = self._cycle.ledger.moved
        if kept.read < moved.length:
            self._score(kept, moved.since(kept.read, len(self._row)))
            kept.read = moved.length
        total = kept.scores
        if not len(total):
            return -1  # a cluster may have no node
        for part in self._cycle.pipeline.score_leaves(kept.ask) or ():
            added = (GRAIN * part).take(self._leaf)
            total = np.add(total, added, out=added)
        first = int(np.rint(total).argmax())
        return int(self._row[first]) if kept.scores[first] > -np.inf else -1

    def _first(self, who: object, ask: Ask) -> _Kept | None:
        """Score all nodes for a shape that was not asked for before."""
        cycle, shape = self._cycle, ask.shape
        kept = None
        if not cycle.pipeline.moving(shape) and cycle.pipeline.score_leaves(ask) is not None:
            kept = _Kept(
                ask=ask,
                asked=shape.asked,
                request=shape.request[shape.asked, None],
                open=cycle.pipeline.why_not(shape) == 0,
                scores=np.empty(len(self._row)),
                read=cycle.ledger.moved.length,
                packs=cycle.pipeline.effect(ask) <= ScoreEffect.SPAN,
            )
            kept = kept if self._score(kept, slice(0, len(self._row))) else None
        self._kept[who] = kept
        return kept

    def _score(self, kept: _Kept, rows: Rows) -> bool:
        """Score some rows again; whether the plugins can tell."""
        scores = self._cycle.pipeline.score_rows(kept.ask, rows)
        if scores is None:
            return False
        free = self._cycle.ledger.free(kept.asked, rows, Pool.IDLE)
        fits = np.logical_and.reduce(free >= kept.request, axis=0)
        fits &= kept.open[rows]
        scores *= GRAIN  # a power of two: no digit is lost, and sums are the same
        scores[~fits] = -np.inf
        kept.scores[self._position[rows]] = scores
        return True
