"""A heuristic division for gangs that are too large, or too mixed, for the exact algorithm: largest first, with
lookahead.

In each domain the largest children are used up until one of the others holds the rest. Which one takes the rest is
found by dividing it in each of the few tightest and comparing costs. The number of those is bounded, so the work is at
most `WIDTH` to the power of the number of tiers.
"""

from __future__ import annotations

import numpy as np

from tierwise.framework.extension import Units
from tierwise.model.arrays import Ints
from tierwise.model.topology import Topology
from tierwise.plugins.propose.min_cost_cover import CoverCosts, Split

__all__ = ["WIDTH", "greedy"]

WIDTH = 4
"""How many children that hold the rest are compared."""


def greedy(topology: Topology, units: Units, prices: CoverCosts, domain: int) -> Split | None:
    """Split all units below a domain; None where estimated rooms do not add up."""
    found = _Greedy(topology, units, prices).split(domain, units.count)
    if found is None:
        return None
    order = np.argsort([topology.own_span(piece).start for piece in found.pieces.tolist()])
    return Split(found.price, found.pieces[order], found.counts[order])


class _Greedy:
    def __init__(self, topology: Topology, units: Units, prices: CoverCosts) -> None:
        self._topology = topology
        self._units = units
        self._prices = prices

    def split(self, domain: int, count: int) -> Split | None:
        """So many units below a domain, its own touch not counted."""
        places = np.array([*self._topology.children[domain], domain], dtype=np.int64)
        room = self._units.held[places]
        room[-1] = self._units.own[domain]
        order = np.lexsort((places, -room))
        parts: list[Split] = []
        for i in order.tolist():
            holders = order[room[order] >= count]
            if len(holders):
                best = self._cheapest(domain, places[holders[::-1][:WIDTH]], count)
                return None if best is None else _joined([*parts, best])
            if not room[i]:
                return None
            parts.append(self._all(domain, int(places[i])))
            count -= int(room[i])
            room[i] = 0
        return None

    def _cheapest(self, domain: int, holders: Ints, count: int) -> Split | None:
        """The rest in one of the places that hold it; the tightest where prices are equal."""
        found = [s for h in holders.tolist() if (s := self._in(domain, h, count)) is not None]
        return min(found, key=lambda split: split.price) if found else None

    def _in(self, domain: int, place: int, count: int) -> Split | None:
        if place == domain:
            return Split(int(self._prices.piece[place]), np.array([place]), np.array([count]))
        inside = self.split(place, count)
        touch = int(self._prices.touch[place])
        return None if inside is None else Split(inside.price + touch, inside.pieces, inside.counts)

    def _all(self, domain: int, place: int) -> Split:
        """Everything that a child holds, or that the domain's own rows hold."""
        own = self._units.own
        if place == domain:
            return Split(int(self._prices.piece[place]), np.array([place]), own[[place]])
        below = np.arange(place, int(self._topology.last[place]))
        touched = below[self._units.held[below] > 0]
        pieces = below[own[below] > 0]
        price = int(self._prices.touch[touched].sum() + self._prices.piece[pieces].sum())
        return Split(price, pieces, own[pieces])


def _joined(parts: list[Split]) -> Split:
    pieces = np.concatenate([part.pieces for part in parts])
    return Split(sum(part.price for part in parts), pieces, np.concatenate([part.counts for part in parts]))
