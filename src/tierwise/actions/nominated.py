"""Place a nominated gang where room was kept for it, or say that it no longer can be."""

from __future__ import annotations

import numpy as np

from tierwise.actions.demand import Demand, Lot
from tierwise.actions.fit import Take, take
from tierwise.actions.search import Found, home
from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import Ask
from tierwise.framework.ledger import Pool
from tierwise.model.arrays import Ints
from tierwise.model.job import Job, Part, SubJob
from tierwise.model.topology import ROOT

__all__ = ["place_nominated"]


def place_nominated(cycle: Cycle, job: Job, asked: Demand) -> Found | None:
    """Every demanded task on the node that it was nominated to; None, and no trace, where one of them does not fit."""
    with cycle.ledger.statement() as statement:
        takes: list[Take] = []
        for lot in asked.lots:
            found = _lot(cycle, job, lot)
            if found is None:
                return None
            takes += found
        if not _within_limits(cycle, job):
            return None
        statement.keep()
        domain = home(cycle, job)
        return Found(ROOT if domain is None else domain, tuple(takes), 0.0)


def _lot(cycle: Cycle, job: Job, lot: Lot) -> list[Take] | None:
    takes: list[Take] = []
    missing = lot.need
    for portion in lot.portions:
        rows = _nominated(cycle, portion.part, min(portion.left, missing))
        placed = _place(cycle, Ask(portion.part.shape, lot.sub, job), portion.part, rows)
        if placed is None:
            return None
        takes += placed
        missing -= len(rows)
    return takes if missing <= 0 else None


def _nominated(cycle: Cycle, part: Part, most: int) -> Ints:
    """The rows of the next tasks in rank order, as far as they are nominated."""
    rows = []
    for task in cycle.backlog.next(part, most):
        if task.nominated < 0:
            break
        rows.append(task.nominated)
    return np.array(rows, dtype=np.int64)


def _place(cycle: Cycle, ask: Ask, part: Part, rows: Ints) -> list[Take] | None:
    """On idle room where every node has it, else on room that is still being released."""
    if not len(rows):
        return []
    numbers = np.bincount(rows)
    distinct = np.flatnonzero(numbers)
    for pool in (Pool.NOW, Pool.LATER):
        room = cycle.rooms.of(ask.shape).rows(pool)[distinct]
        if (room >= numbers[distinct]).all() and _allowed(cycle, ask, distinct, pool):
            placed = take(cycle, ask, part, (distinct, numbers[distinct]), pool)
            return [Take(placed.sub, part, rows, pool)]  # each task on its own node, not dealt out anew
    return None


def _allowed(cycle: Cycle, ask: Ask, rows: Ints, pool: Pool) -> bool:
    moving = cycle.pipeline.moving(ask.shape)
    return not moving or all(cycle.fits(ask, slice(row, row + 1), pool)[0] for row in rows.tolist())


def _within_limits(cycle: Cycle, job: Job) -> bool:
    fabric = cycle.fabric(job)
    if fabric is not None:
        ways = cycle.pipeline.ways(job, job.minimum)
        rows = [stands[0] for stands in map(cycle.ledger.stands, job.subs) if stands is not None]
        if not ways or not rows:
            return True
        spread = fabric.topology.meet_rows(fabric.positions[np.concatenate(rows)])
        return int(fabric.topology.tier[spread]) <= max(ways[-1].tier, 1)
    gangs: tuple[Job | SubJob, ...] = (job, *job.subs)
    for gang in gangs:
        limit, here = cycle.pipeline.limit(gang), home(cycle, gang)
        if limit is not None and here is not None and int(cycle.topology.tier[here]) > limit:
            return False
    return True
