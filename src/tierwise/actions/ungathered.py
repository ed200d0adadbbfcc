"""Say why a gathered job found no place: how much was asked, in which layer, what the best domains of it take."""

from __future__ import annotations

from tierwise.actions.demand import Lot
from tierwise.actions.gather import ground_of
from tierwise.framework.cycle import Cycle
from tierwise.framework.gathering import Way
from tierwise.framework.ledger import Pool
from tierwise.model.job import Job
from tierwise.model.reason import Reason
from tierwise.model.topology import ROOT

__all__ = ["layer_name", "ungathered"]

_SHOWN = 3
"""How many domains a rejection names."""


def ungathered(cycle: Cycle, job: Job, lot: Lot, widest: Way) -> Reason:
    """Why so many tasks cannot be gathered even in the widest way."""
    where = layer_name(cycle, widest.tier)
    text = f"{lot.need} pods cannot be gathered in {where}"
    offers = _offers(cycle, job, lot, widest) if lot.portions else ""
    if offers:
        text += f": {offers}"
    text += _multiples(cycle, lot.need, widest)
    return Reason("CannotGather", "coscheduling", text, curable=True)


def layer_name(cycle: Cycle, tier: int) -> str:
    """How people call a tier: by its layer, as one of it."""
    if tier >= int(cycle.topology.tier[ROOT]):
        return "the cluster"
    return f"one {_named(cycle, tier)}"


def _named(cycle: Cycle, tier: int) -> str:
    names = (name for name, number in cycle.topology.tier_names.items() if number == tier)
    return next(names, f"tier {tier}" if tier else "node")


def _offers(cycle: Cycle, job: Job, lot: Lot, way: Way) -> str:
    """What the roomiest domains take of the largest class of a lot."""
    shape = max(lot.portions, key=lambda portion: portion.left).part.shape
    places, room = ground_of(cycle, shape, lot.sub, job, Pool.LATER).offers(way)
    names = cycle.nodes.names if way.tier <= 0 else cycle.topology.name
    shown = [
        f"{'it' if place == ROOT and way.tier > 0 else names[place]} takes {max(number, 0)}"
        for place, number in zip(places[:_SHOWN].tolist(), room[:_SHOWN].tolist(), strict=True)
    ]
    more = len(places) - len(shown)
    return ", ".join(shown) + (f", {more} others no more than that" if more > 0 else "")


def _multiples(cycle: Cycle, count: int, way: Way) -> str:
    """The multiples that hold, and whether the number of tasks is none of them."""
    if not way.multiples:
        return ""
    said = ", ".join(f"{number} in each {_named(cycle, tier)}" for tier, number in way.multiples)
    wrong = next((number for _, number in way.multiples if count % number), None)
    text = f"; pods come in multiples of {said}"
    return text if wrong is None else f"{text}, and {count} is no multiple of {wrong}"
