"""What `propose` lets domains cost: a price list for each objective that looks at which domains are touched.

`fewest-domains` counts touched domains tier by tier, the outermost first, and then the room of the touched pieces,
which says how much is left over. All of it is one number, with a digit for each tier. Tiers that a branch of the tree
skips are counted as if they were there, so every piece is on every tier.
`pack` lets a domain cost the square of its room by its nodes, so two halves are cheaper than one whole.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tierwise.framework.extension import CycleView, Units
from tierwise.model.arrays import Ints
from tierwise.model.topology import Topology
from tierwise.plugins.propose.min_cost_cover import FAR, CoverCosts, Split

__all__ = ["WaitingSizes", "damage_cells", "fewest_bound", "fewest_domains", "least_damage", "loss", "pack"]

_GRAIN = 1024
"""Squares of room are divided by nodes in steps of a thousandth or so."""


def fewest_domains(topology: Topology, units: Units) -> CoverCosts | None:
    """Domains by tier, then room; None where an integer does not hold so many digits."""
    digit = _digits(topology, units)
    if digit is None:
        return None
    upto = np.concatenate(([0], np.cumsum(digit)))
    lower = np.searchsorted(list(topology.at_tier), topology.tier)  # how many tiers are below a domain's own
    touch = np.zeros(len(topology), dtype=np.int64)
    touch[1:] = upto[lower[topology.parent[1:]]] - upto[lower[1:]]
    return CoverCosts(touch, upto[lower] + units.own)


def _digits(topology: Topology, units: Units) -> Ints | None:
    """What one domain of each tier costs, tiers ascending.

    An optimum leaves less over than its largest piece has, and touches no more domains of a tier than there are units
    or pieces; these are the bases of the digits.
    """
    digit = units.count + int(units.own.max())
    base = 1 + min(units.count, int(np.count_nonzero(units.own)))
    digits = []
    for _ in topology.at_tier:
        digits.append(digit)
        digit *= base
    if digit < FAR:
        return np.array(digits, dtype=np.int64)
    return None


def fewest_bound(topology: Topology, units: Units, prices: CoverCosts, candidates: Ints) -> Ints:
    """What each candidate costs at least: its fewest children that hold the units, with nothing left over.

    Candidates ascend. For an innermost one it is what it costs.
    """
    every = np.arange(len(candidates))
    inner = np.flatnonzero(units.held)
    owner = np.minimum(np.searchsorted(candidates, topology.parent[inner]), len(candidates) - 1)
    child = candidates[owner] == topology.parent[inner]
    owner = np.concatenate((owner[child], every))  # the own rows of a candidate are like one more child
    room = np.concatenate((units.held[inner[child]], units.own[candidates]))
    order = np.lexsort((-room, owner))
    owner = owner[order]
    room = room[order]
    before = np.cumsum(room) - room
    missing = before - before[np.searchsorted(owner, every)][owner] < units.count
    needed = np.bincount(owner, weights=missing, minlength=len(candidates)).astype(np.int64)
    innermost = topology.last[candidates] - candidates == 1
    least_by_piece = (prices.piece - units.own)[candidates]
    bound: Ints = np.where(innermost, prices.piece[candidates], needed * least_by_piece + units.count)
    return bound


def pack(topology: Topology, units: Units) -> CoverCosts:
    """The room of a touched domain, squared, by its nodes; rows in no domain below count as one of their own."""
    rows = topology.end - topology.start
    inner = topology.last - np.arange(len(topology)) > 1
    return CoverCosts(_square(units.held, rows), np.where(inner, _square(units.own, topology.own(rows)), 0))


def _square(room: Ints, rows: Ints) -> Ints:
    squares: Ints = -(-room * room * _GRAIN // np.maximum(rows, 1))  # rounded up: nothing is free
    return squares


# What a placement takes from the gangs that wait: the loss of free slots, and the split that loses least.
#
# A domain with room for n units has `n // g` slots for gangs of g units. Taking x of them costs `g · (n // g - (n - x)
# // g)` slots of that size, weighed by how many such gangs wait, in every domain around the rows. The split that costs
# least over all tiers is found exactly by merging tables of children: what x units cost in a domain, for every x. This
# looks at the amounts taken and not only at what is touched, so it costs more time than `min_cost_cover`.


# Which sizes of gangs wait in the queue, counted in units of another gang: what `least-damage` keeps slots for.


_MOST = 16
"""So many different sizes count, the most frequent ones."""


class WaitingSizes:
    """The pending gangs of a cycle by what their minimum asks for."""

    def __init__(self, view: CycleView) -> None:
        self._jobs = view.jobs
        self._known: dict[tuple[int, int], dict[int, int]] = {}

    def of(self, units: Units) -> dict[int, int]:
        """Sizes, each with the number of gangs that wait with it; one unit where no gang waits.

        A gang's size is the number of units that ask for as much as it does, of the resource that it needs most of.
        """
        assert units.shape is not None
        key = (units.shape.number, units.size)
        if key not in self._known:
            resources = units.shape.asked
            self._known[key] = self._count(units.shape.request[resources] * units.size, resources)
        return self._known[key]

    def _count(self, unit: Ints, resources: Ints) -> dict[int, int]:
        counts: dict[int, int] = {}
        for job in self._jobs:
            amounts = [pod_set.shape.request[resources] * len(pod_set.tasks) for pod_set in job.pod_sets()]
            if amounts:
                size = int((-(-np.sum(amounts, axis=0) // unit)).max())
                counts[size] = counts.get(size, 0) + 1
        frequent = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_MOST]
        return dict(sorted(frequent)) or {1: 1}


def loss(room: Ints, units_taken: Ints, sizes: Mapping[int, int]) -> Ints:
    """Free slots lost by taking units from room, for gangs of these sizes, weighed by their number."""
    total = np.zeros(np.broadcast_shapes(room.shape, units_taken.shape), dtype=np.int64)
    for size, weight in sizes.items():
        total += weight * size * (room // size - (room - units_taken) // size)
    return total


def damage_cells(topology: Topology, units: Units) -> Ints:
    """Per domain, how many sums `least_damage` makes below it, or a few more: each unit meets each on every tier."""
    rooms = topology.roll_up(np.minimum(units.own, units.count))
    return rooms * (units.count + 1) * len(topology.at_tier)


def least_damage(topology: Topology, units: Units, sizes: Mapping[int, int], domain: int) -> Split:
    """The split of all units below a domain that loses the fewest slots there and in the domains around it."""
    tables = _Tables(topology, units, sizes)
    price = int(tables.of(domain)[units.count])
    around = np.array([d for d in topology.ancestors(domain) if d != domain], dtype=np.int64)
    price += int(loss(units.held[around], np.array(units.count), sizes).sum())
    pieces, counts = tables.unwind(domain, units.count)
    order = np.argsort([topology.own_span(piece).start for piece in pieces])
    return Split(price, np.array(pieces)[order], np.array(counts)[order])


class _Tables:
    """For each domain, what taking 0, 1, ... units there costs, and how they are divided among what is below."""

    def __init__(self, topology: Topology, units: Units, sizes: Mapping[int, int]) -> None:
        self._topology = topology
        self._units = units
        self._sizes = sizes
        self._steps: dict[int, list[tuple[int, Ints]]] = {}  # by domain: each child, and its share for every sum

    def of(self, domain: int) -> Ints:
        units = self._units
        least_cost = np.zeros(1, dtype=np.int64)
        steps: list[tuple[int, Ints]] = []
        for child in self._topology.children[domain]:
            if units.held[child]:
                least_cost, share = _merged(least_cost, self.of(child), units.count)
                steps.append((child, share))
        room = int(min(units.own[domain], units.count))
        if room:
            least_cost, share = _merged(least_cost, np.zeros(room + 1, dtype=np.int64), units.count)
            steps.append((domain, share))
        self._steps[domain] = steps
        return least_cost + loss(np.array(units.held[domain]), np.arange(len(least_cost)), self._sizes)

    def unwind(self, domain: int, count: int) -> tuple[list[int], list[int]]:
        """The pieces of the best division, and their units."""
        pieces: list[int] = []
        counts: list[int] = []
        for child, share in reversed(self._steps[domain]):
            number = int(share[count])
            count -= number
            if number and child == domain:
                pieces.append(child)
                counts.append(number)
            elif number:
                below, piece_counts = self.unwind(child, number)
                pieces += below
                counts += piece_counts
        return pieces, counts


def _merged(first_table: Ints, second: Ints, max_units: int) -> tuple[Ints, Ints]:
    """The cheapest way to divide each sum between two tables, and the share of the second; ties go to the first."""
    size = min(max_units, len(first_table) + len(second) - 2) + 1
    least_cost = np.full(size, FAR, dtype=np.int64)
    share = np.zeros(size, dtype=np.int64)
    swapped = len(first_table) < len(second)
    long, short = (second, first_table) if swapped else (first_table, second)
    numbers = range(len(short) - 1, -1, -1) if swapped else range(len(short))
    for number in numbers:
        effect = slice(number, min(size, number + len(long)))
        offer = long[: effect.stop - number] + short[number]
        better = offer < least_cost[effect]
        least_cost[effect][better] = offer[better]
        share[effect][better] = np.arange(effect.stop - number)[better] if swapped else number
    return least_cost, share
