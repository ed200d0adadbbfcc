"""Say why a gathered job found no place: how much was asked, in which layer, what the best domains of it take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from tierwise.actions.causes import causes, once_full
from tierwise.actions.demand import Lot
from tierwise.actions.gather import ground_of, rows_of
from tierwise.framework.cycle import Cycle
from tierwise.framework.gathering import Ground, Way
from tierwise.framework.ledger import Pool
from tierwise.model.arrays import Ints
from tierwise.model.job import Job
from tierwise.model.reason import Reason, Tried
from tierwise.model.shape import Shape
from tierwise.model.topology import ROOT

__all__ = ["tried_ways", "ungathered"]

_SHOWN = 3
"""How many domains a rejection names."""


def ungathered(cycle: Cycle, job: Job, lot: Lot, ways: Sequence[Way]) -> tuple[Reason, tuple[Tried, ...]]:
    """Why so many tasks cannot be gathered in any way, and how far each layer came."""
    shape = max(lot.portions, key=lambda portion: portion.left).part.shape
    ground = ground_of(cycle, shape, lot.sub, job, Pool.LATER)
    widest = ways[-1]
    where = "the cluster" if widest.tier == int(ground.topology.tier[ROOT]) else f"one {_layer(ground, widest.tier)}"
    text = f"{lot.need} pods cannot be gathered in {where}{_offers(cycle, job, ground, widest)}"
    reason = Reason("CannotGather", "coscheduling", text + _multiples(ground, lot.need, widest), curable=True)
    return reason, tried_ways(cycle, job, ground, shape, lot.need, ways)


def tried_ways(
    cycle: Cycle, job: Job, ground: Ground, shape: Shape, count: int, ways: Sequence[Way]
) -> tuple[Tried, ...]:
    """Layer by layer, how many of so many tasks its best domain takes, and what keeps the others out."""
    by_tier = {way.tier: way for way in ways if way.tier > 0}  # of several ways in one tier the last asks the least
    found = (_tried(cycle, job, ground, shape, count, way, widest=way is ways[-1]) for way in by_tier.values())
    return tuple(tried for tried in found if tried is not None)


def _tried(cycle: Cycle, job: Job, ground: Ground, shape: Shape, count: int, way: Way, *, widest: bool) -> Tried | None:
    places, room = ground.offers(way)
    if not len(places):
        return None
    best = int(places[0])
    span = ground.topology.span(best)
    runs = _runs(rows_of(cycle, job, np.arange(span.start, span.stop)))
    short = _added(causes(cycle, shape, run) for run in runs)
    if widest and not short:
        short = _added(once_full(cycle, shape, run) for run in runs)
    return Tried(
        tier=way.tier,
        domains=len(places),
        best=ground.topology.name[best],
        fits=min(max(int(room[0]), 0), count),
        asked=count,
        nodes=span.stop - span.start,
        causes=short,
        layer=_layer(ground, way.tier),
    )


def _runs(rows: Ints) -> list[slice]:
    """Rows as stretches of the cluster's."""
    rows = np.sort(rows)
    parts = np.split(rows, np.flatnonzero(np.diff(rows) != 1) + 1)
    return [slice(int(part[0]), int(part[-1]) + 1) for part in parts if len(part)]


def _added(found: Iterable[tuple[tuple[Reason, int], ...]]) -> tuple[tuple[Reason, int], ...]:
    """The counts of several stretches together, the most frequent first."""
    total: Counter[Reason] = Counter()
    for reasons in found:
        total.update(dict(reasons))
    return tuple(sorted(total.items(), key=lambda item: (-item[1], item[0].code, item[0].text)))


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


def _multiples(ground: Ground, count: int, way: Way) -> str:
    """The multiples that hold, and whether the number of tasks is none of them."""
    if not way.multiples:
        return ""
    said = ", ".join(f"{number} in each {_layer(ground, tier)}" for tier, number in way.multiples)
    wrong = next((number for _, number in way.multiples if count % number), None)
    text = f"; pods come in multiples of {said}"
    return text if wrong is None else f"{text}, and {count} is no multiple of {wrong}"
