"""Place one lot below one domain, on the ledger, or say how far it came.

Called inside a statement: on failure the caller rewinds. The tasks land on idle room first, and, where the caller
allows, on room that is still being released.
"""

from __future__ import annotations

import msgspec
import numpy as np
from msgspec.structs import replace

from tierwise.actions.placement.demand import Demand, Lot, Portion
from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import Ask
from tierwise.framework.ledger import Pool
from tierwise.framework.placer import Picks, place
from tierwise.framework.walk import walk
from tierwise.model.arrays import Bools, Ints
from tierwise.model.job import Job, Part, SubJob
from tierwise.model.running import RunningTable
from tierwise.model.shape import Shape
from tierwise.model.topology import ROOT

__all__ = ["Take", "bound", "bound_with", "fit", "largest_first", "place_tasks", "put", "room_with"]


class Take(msgspec.Struct, frozen=True):
    """Tasks of one part, by the row that each stands on, in topology order."""

    sub: SubJob
    part: Part
    rows: Ints
    pool: Pool


def bound(cycle: Cycle, lot: Lot, domains: Ints, pool: Pool) -> Bools:
    """Which domains may hold a lot, by counting: exact for one plain shape, else never too strict."""
    if len(lot.portions) == 1 and not lot.roles:
        portion = lot.portions[0]
        if portion.left < lot.need:
            return np.zeros(len(domains), dtype=bool)
        enough: Bools = cycle.rooms.of(portion.part.shape).domains(pool)[domains] >= lot.need
        return enough
    total = np.zeros(len(domains), dtype=np.int64)
    roles = {number: np.zeros(len(domains), dtype=np.int64) for number in lot.roles}
    for portion in lot.portions:
        fitting = np.minimum(cycle.rooms.of(portion.part.shape).domains(pool)[domains], portion.left)
        total += fitting
        if portion.part.role_number in roles:
            roles[portion.part.role_number] += fitting
    result: Bools = total >= lot.need
    for role, least in lot.roles.items():
        result &= roles[role] >= least
    return result


def bound_with(cycle: Cycle, asked: Demand, domains: Ints, running: RunningTable, gone: Ints) -> Bools:
    """Which domains may hold a demand if some running tasks were gone, by counting every lot on its own."""
    result = np.ones(len(domains), dtype=bool)
    rooms: dict[int, Ints] = {}
    for lot in asked.lots:
        total = np.zeros(len(domains), dtype=np.int64)
        for portion in lot.portions:
            shape = portion.part.shape
            if shape.number not in rooms:
                rooms[shape.number] = cycle.topology.totals(room_with(cycle, shape, running, gone))
            total += np.minimum(rooms[shape.number][domains], portion.left)
        result &= total >= lot.need
    return result


def room_with(cycle: Cycle, shape: Shape, running: RunningTable, gone: Ints) -> Ints:
    """How many tasks of a shape every row would take if some running tasks were gone."""
    free = cycle.ledger.free(shape.asked, slice(0, len(cycle.nodes)), Pool.LATER)
    for i, r in enumerate(shape.asked.tolist()):
        freed = np.bincount(running.row[gone], weights=running.request[r, gone], minlength=len(cycle.nodes))
        free[i] += freed.astype(np.int64)
    room = shape.room(free)
    room[cycle.rooms.of(shape).why != 0] = 0
    return room


def fit(cycle: Cycle, job: Job, lot: Lot, domain: int, pools: tuple[Pool, ...]) -> list[Take] | None:
    """Place a lot's tasks below a domain; None where the domain does not hold them."""
    takes: list[Take] = []
    used: dict[int, int] = {}
    missing = lot.need

    def place_some(portion: Portion, count: int) -> int:
        ask = Ask(portion.part.shape, lot.sub, job)
        before = used.get(id(portion), 0)
        found = put(cycle, ask, portion.part, min(portion.left - before, count), domain, pools)
        placed = sum(len(t.rows) for t in found)
        used[id(portion)] = before + placed
        takes.extend(found)
        return placed

    roles = dict(lot.roles)
    for portion in lot.portions:
        least = roles.get(portion.part.role_number, 0)
        if least:
            placed = place_some(portion, least)
            roles[portion.part.role_number] = least - placed
            missing -= placed
    if any(roles.values()):
        return None
    for portion in lot.portions:
        if missing > 0:
            missing -= place_some(portion, missing)
    return None if missing > 0 else takes


def largest_first(cycle: Cycle, lot: Lot) -> Lot:
    """The same lot with its largest tasks before the smaller ones, which find a place more easily."""
    scale = np.maximum(cycle.ledger.domain_allocatable[:, ROOT], 1)
    order = sorted(lot.portions, key=lambda p: -float((p.part.shape.request / scale).max()))
    return replace(lot, portions=tuple(order))


def put(cycle: Cycle, ask: Ask, part: Part, count: int, domain: int, pools: tuple[Pool, ...]) -> list[Take]:
    """Place up to `count` tasks of a part below a domain."""
    takes: list[Take] = []
    find = walk if _close(cycle, ask) else _spread
    for pool in pools:
        picks = find(cycle, ask, count, domain, pool)
        if len(picks[0]):
            takes.append(place_tasks(cycle, ask, part, picks, pool))
            count -= int(picks[1].sum())
        if not count or not cycle.ledger.any_releasing:
            break
    return takes


def _close(cycle: Cycle, ask: Ask) -> bool:
    """Whether distance counts: for a sub-job with a topology, and for a job with one where some of it stands."""
    if ask.sub.constraint is not None:
        return True
    return ask.job.constraint is not None and any(cycle.ledger.stands(sub) is not None for sub in ask.job.subs)


def _spread(cycle: Cycle, ask: Ask, count: int, domain: int, pool: Pool) -> Picks:
    """Without a topology to heed, tasks go where the scores say."""
    return place(cycle, ask, count, cycle.topology.span(domain), pool)


def place_tasks(cycle: Cycle, ask: Ask, part: Part, picks: Picks, pool: Pool) -> Take:
    """Write a placement of a part into the ledger."""
    rows, counts = picks
    cycle.ledger.take(part.shape, rows, counts, pool=pool)
    cycle.ledger.stand(ask.sub, part, rows, counts, pool=pool)
    cycle.ledger.charge(ask.job, part.shape.request * counts.sum())
    return Take(ask.sub, part, np.repeat(rows, counts), pool)
