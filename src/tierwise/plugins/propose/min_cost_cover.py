"""The cheapest pieces below a domain that hold so many units together: an exact dynamic programme.

A piece is the rows of a domain that stand in no domain below it. Touching a domain has a price, whatever is taken in
it, and taking a piece has another; their sum is made as small as it can be. `least[s]` is the lowest price of pieces
seen so far that hold s units or more. Domains are visited in tree order: entering one adds its price to the
prices so far, and leaving it keeps the minimum of having entered and not. So no tables are merged, and the work is one
pass over an array of the units for each domain with free capacity.
"""

from __future__ import annotations

import msgspec
import numpy as np

from tierwise.framework.extension import Units
from tierwise.model.arrays import Bools, Ints
from tierwise.model.topology import Topology

__all__ = ["FAR", "WIDTH", "CoverCosts", "Split", "cells", "cover", "fill", "greedy"]


FAR = 2**62
"""More than any price; twice as much is still an integer of 64 bits."""


class CoverCosts(msgspec.Struct, frozen=True):
    """Per domain, what touching it costs, and what taking its piece does. All pieces cost something."""

    touch: Ints
    piece: Ints


class Split(msgspec.Struct, frozen=True):
    """Pieces and how many units each takes, and what that costs."""

    price: int
    pieces: Ints
    counts: Ints


def cells(topology: Topology, units: Units) -> Ints:
    """Per domain, how many cells `cover` fills below it."""
    return topology.roll_up((units.held > 0).astype(np.int64)) * (units.count + 1)


def cover(topology: Topology, units: Units, prices: CoverCosts, domain: int) -> Split:
    """The cheapest split of all units below a domain that holds them, the touch of the domain itself not counted.

    Of equal ones it is the one whose last piece comes first.
    """
    return _Cover(topology, units, prices).run(domain)


class _Cover:
    def __init__(self, topology: Topology, units: Units, prices: CoverCosts) -> None:
        self._children = topology.children
        self._own = units.own
        self._held = units.held
        self._touch = prices.touch
        self._piece = prices.piece
        self._count = units.count
        self._entered: dict[int, Bools] = {}  # by domain and number of units: whether entering it is cheaper
        self._taken: dict[int, Bools] = {}  # the same of its piece

    def run(self, domain: int) -> Split:
        least_price = np.full(self._count + 1, FAR, dtype=np.int64)
        least_price[0] = 0
        price = int(self._inside(domain, least_price)[-1])
        pieces: list[int] = []
        self._unwind_inside(domain, self._count, pieces)
        chosen_pieces = np.array(pieces[::-1], dtype=np.int64)
        return Split(price, chosen_pieces, fill(self._own[chosen_pieces], self._count))

    def _inside(self, domain: int, least_price: Ints) -> Ints:
        """The prices once everything below a domain that was entered has been looked at."""
        for child in self._children[domain]:
            if self._held[child]:
                inside = self._inside(child, least_price + self._touch[child])
                self._entered[child] = inside < least_price
                least_price = np.minimum(least_price, inside)
        room = int(self._own[domain])
        if not room:
            return least_price
        inside = np.empty_like(least_price)
        inside[: room + 1] = least_price[0]
        inside[room + 1 :] = least_price[1 : max(1, self._count + 1 - room)]
        inside += self._piece[domain]
        self._taken[domain] = inside < least_price
        return np.minimum(least_price, inside)

    def _unwind_inside(self, domain: int, units_left: int, pieces: list[int]) -> int:
        """Go back through the choices that led to `units_left` units; what is still to be held before this domain."""
        is_taken = self._taken.get(domain)
        if is_taken is not None and is_taken[units_left]:
            pieces.append(domain)
            units_left = max(0, units_left - int(self._own[domain]))
        for child in reversed(self._children[domain]):
            entered = self._entered.get(child)
            if entered is not None and entered[units_left]:
                units_left = self._unwind_inside(child, units_left, pieces)
        return units_left


def fill(rooms: Ints, count: int) -> Ints:
    """Use up every piece but the largest, which keeps what is left over."""
    counts = rooms.copy()
    counts[np.argmax(rooms)] -= int(rooms.sum()) - count
    return counts


# A heuristic division for gangs that are too large, or too mixed, for the exact algorithm: largest first, with
# lookahead.
#
# In each domain the largest children are used up until one of the others holds the rest. Which one takes the rest is
# found by dividing it in each of the few tightest and comparing costs. The number of those is bounded, so the work is
# at most `WIDTH` to the power of the number of tiers.


WIDTH = 4
"""How many children that hold the rest are compared."""


def greedy(topology: Topology, units: Units, prices: CoverCosts, domain: int) -> Split | None:
    """Split all units below a domain; None where estimated rooms do not add up."""
    split = _Greedy(topology, units, prices).split(domain, units.count)
    if split is None:
        return None
    order = np.argsort([topology.own_span(piece).start for piece in split.pieces.tolist()])
    return Split(split.price, split.pieces[order], split.counts[order])


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
        splits = [s for h in holders.tolist() if (s := self._in(domain, h, count)) is not None]
        if splits:
            return min(splits, key=lambda split: split.price)
        return None

    def _in(self, domain: int, place: int, count: int) -> Split | None:
        if place == domain:
            return Split(int(self._prices.piece[place]), np.array([place]), np.array([count]))
        inside = self.split(place, count)
        touch = int(self._prices.touch[place])
        if inside is None:
            return None
        return Split(inside.price + touch, inside.pieces, inside.counts)

    def _all(self, domain: int, place: int) -> Split:
        """Everything that a child holds, or that the domain's own rows hold."""
        own_room = self._units.own
        if place == domain:
            return Split(int(self._prices.piece[place]), np.array([place]), own_room[[place]])
        below = np.arange(place, int(self._topology.last[place]))
        touched = below[self._units.held[below] > 0]
        pieces = below[own_room[below] > 0]
        price = int(self._prices.touch[touched].sum() + self._prices.piece[pieces].sum())
        return Split(price, pieces, own_room[pieces])


def _joined(parts: list[Split]) -> Split:
    pieces = np.concatenate([part.pieces for part in parts])
    return Split(sum(part.price for part in parts), pieces, np.concatenate([part.counts for part in parts]))
