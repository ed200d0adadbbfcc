"""Ask for a recommendation before searching a gradient, and try it: whatever comes of it, the search goes on as before.

`units_of` and `groups_units` say what is asked for. A gang of which something stands already, or whose tasks are tied
to other pods, is not asked about: where its siblings are, and what the rules allow, matters more.
"""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from tierwise.actions.placement.demand import Lot
from tierwise.actions.placement.fit import Take, fit, place_tasks
from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import Abstained, Ask, Proposal, Units
from tierwise.framework.ledger import Pool
from tierwise.framework.placer import Picks, place
from tierwise.model.arrays import Ints
from tierwise.model.job import Job
from tierwise.model.shape import Shape

__all__ = ["group_units", "picks_of", "try_proposal", "units_of"]


def units_of(cycle: Cycle, lot: Lot) -> Units | None:
    """A lot as units of one task each; None where nothing can be recommended for it."""
    if lot.sub.constraint is None or any(cycle.pipeline.moving(p.part.shape) for p in lot.portions):
        return None
    if len(lot.portions) > 1:
        return _mixed(cycle, lot)
    portion = lot.portions[0]
    if portion.left < lot.need:
        return None
    held = cycle.rooms.of(portion.part.shape).domains(Pool.NOW)
    return Units(portion.part.shape, lot.need, 1, cycle.topology.own(held), held)


def _mixed(cycle: Cycle, lot: Lot) -> Units:
    """Tasks of several shapes: a domain holds as large a part of the lot as it does of the shape that fares worst."""
    shares: list[Ints] = []
    left = lot.need
    for portion in lot.portions:
        number = min(left, portion.left)
        left -= number
        if number:
            own = cycle.topology.own(cycle.rooms.of(portion.part.shape).domains(Pool.NOW))
            shares.append(np.minimum(own, number) * lot.need // number)
    own = np.minimum.reduce(shares)
    return Units(None, lot.need, 1, own, cycle.topology.roll_up(own))


def group_units(cycle: Cycle, shape: Shape, *, groups: int, size: int, limit: int) -> Units:
    """Alike groups as units: each on rows of one innermost domain within their limit."""
    topology = cycle.topology
    own = topology.own(cycle.rooms.of(shape).domains(Pool.NOW)) // size
    own[topology.tier > limit] = 0
    return Units(shape, groups, size, own, topology.roll_up(own))


def picks_of(cycle: Cycle, ask: Ask, units: Units, proposal: Proposal) -> list[Picks]:
    """The rows that each piece of a proposal gives, by the scores of its nodes."""
    near = replace(ask, settled=True)
    return [
        place(cycle, near, count * units.size, cycle.topology.own_span(piece), Pool.NOW)
        for piece, count in zip(proposal.pieces.tolist(), proposal.counts.tolist(), strict=True)
    ]


def try_proposal(
    cycle: Cycle, job: Job, lot: Lot, units: Units, group: Ints
) -> tuple[Proposal | Abstained | None, list[Take] | None]:
    """What is recommended for a lot, and its placement on the ledger where that works out."""
    said = cycle.pipeline.propose(job, units, group)
    if not isinstance(said, Proposal):
        return said, None
    cycle.report.work.trials += 1
    with cycle.ledger.statement() as statement:
        takes = _placed(cycle, job, lot, units, said)
        if takes is not None:
            statement.keep()
    return said, takes


def _placed(cycle: Cycle, job: Job, lot: Lot, units: Units, proposal: Proposal) -> list[Take] | None:
    if units.shape is None:
        return fit(cycle, job, lot, proposal.domain, (Pool.NOW,))
    part = lot.portions[0].part
    ask = Ask(part.shape, lot.sub, job)
    picked = picks_of(cycle, ask, units, proposal)
    picks = np.concatenate([rows for rows, _ in picked]), np.concatenate([counts for _, counts in picked])
    return [place_tasks(cycle, ask, part, picks, Pool.NOW)] if int(picks[1].sum()) == lot.need else None
