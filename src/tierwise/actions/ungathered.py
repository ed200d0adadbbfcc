"""Say why a gathered job found no place: how much was asked, in which layer, what the best domains of it take."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tierwise.actions.causes import causes, once_full
from tierwise.actions.demand import Lot
from tierwise.actions.gather import everything, ground_of, rows_of
from tierwise.api.plurals import count
from tierwise.framework.cycle import Cycle
from tierwise.framework.gathering import Ground, Way
from tierwise.framework.ledger import Pool
from tierwise.model.job import Job
from tierwise.model.reason import Reason, Tried
from tierwise.model.shape import Shape
from tierwise.model.topology import ROOT

__all__ = ["tried_ways", "ungathered"]

_SHOWN = 3
"""How many domains a rejection names."""


def ungathered(cycle: Cycle, job: Job, lot: Lot, ways: Sequence[Way]) -> tuple[Reason, tuple[Tried, ...]]:
    """Why so many tasks cannot be gathered in any way, and how far each layer came."""
    whole = everything(lot)
    if _odd(lot.need, ways[-1]) and not _odd(whole.need, ways[-1]):
        lot = whole  # the minimum alone could not come in multiples: all of it was looked for
    shape = max(lot.portions, key=lambda portion: portion.left).part.shape
    ground = ground_of(cycle, shape, lot.sub, job, Pool.LATER)
    widest = ways[-1]
    where = "the cluster" if widest.tier == int(ground.topology.tier[ROOT]) else f"one {_layer(ground, widest.tier)}"
    text = f"{count(lot.need, 'pod')} cannot be gathered in {where}"
    odd = _odd(lot.need, widest)
    if odd:  # whatever room there is
        said = f"pods come in multiples of {_multiples(ground, widest)}, and {lot.need} is no multiple of {odd}"
        return Reason("CannotGather", "coscheduling", f"{text}: {said}"), ()
    text += _offers(cycle, job, ground, widest)
    if widest.multiples:
        text += f"; pods come in multiples of {_multiples(ground, widest)}"
    tried = tried_ways(cycle, job, ground, shape, lot.need, ways)
    return Reason("CannotGather", "coscheduling", text, curable=True), tried


def tried_ways(
    cycle: Cycle, job: Job, ground: Ground, shape: Shape, tasks: int, ways: Sequence[Way]
) -> tuple[Tried, ...]:
    """Layer by layer, how many of so many tasks its best domain takes, and what keeps the others out."""
    by_tier = {way.tier: way for way in ways if way.tier > 0}  # of several ways in one tier the last asks the least
    found = (_tried(cycle, job, ground, shape, tasks, way, widest=way is ways[-1]) for way in by_tier.values())
    return tuple(tried for tried in found if tried is not None)


def _tried(cycle: Cycle, job: Job, ground: Ground, shape: Shape, tasks: int, way: Way, *, widest: bool) -> Tried | None:
    places, room = ground.offers(way)
    if not len(places):
        return None
    best = int(places[0])
    span = ground.topology.span(best)
    rows = rows_of(cycle, job, np.arange(span.start, span.stop))
    short = causes(cycle, shape, rows)
    if widest and not short and not way.multiples:  # which leave nodes that are not full
        short = once_full(cycle, shape, rows)
    return Tried(
        tier=way.tier,
        domains=len(places),
        best=ground.topology.name[best],
        fits=min(max(int(room[0]), 0), tasks),
        asked=tasks,
        nodes=span.stop - span.start,
        causes=short,
        layer=_layer(ground, way.tier),
    )


def _layer(ground: Ground, tier: int) -> str:
    names = (name for name, number in ground.topology.tier_names.items() if number == tier)
    return next(names, f"domain of tier {tier}" if tier else "node")


def _offers(cycle: Cycle, job: Job, ground: Ground, way: Way) -> str:
    """What the roomiest domains take."""
    places, room = ground.offers(way)
    if not len(places):
        return ", none of which holds its running pods" if ground.standing.any() else ", of which there is none"
    if way.tier <= 0:
        places = rows_of(cycle, job, places)
    names = cycle.nodes.names if way.tier <= 0 else ground.topology.name
    shown = [
        f"{names[place] if place != ROOT or way.tier <= 0 else 'it'} takes {max(number, 0)}"
        for place, number in zip(places[:_SHOWN].tolist(), room[:_SHOWN].tolist(), strict=True)
    ]
    more = len(places) - len(shown)
    return ": " + ", ".join(shown) + (f", {more} more take no more than that" if more else "")


def _multiples(ground: Ground, way: Way) -> str:
    return ", ".join(f"{number} in each {_layer(ground, tier)}" for tier, number in way.multiples)


def _odd(tasks: int, way: Way) -> int:
    """A multiple that so many tasks are none of, 0 where there is none such."""
    return next((number for _, number in way.multiples if tasks % number), 0)
