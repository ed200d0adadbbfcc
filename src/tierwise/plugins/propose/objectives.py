"""What `propose` lets domains cost: a price list for each objective that looks at which domains are touched.

`fewest-domains` counts touched domains tier by tier, the outermost first, and then the room of the touched pieces,
which says how much is left over. All of it is one number, with a digit for each tier. Tiers that a branch of the tree
skips are counted as if they were there, so every piece is on every tier.
`pack` lets a domain cost the square of its room by its nodes, so two halves are cheaper than one whole.
"""

from __future__ import annotations

import numpy as np

from tierwise.framework.extension import Units
from tierwise.model.arrays import Ints
from tierwise.model.topology import Topology
from tierwise.plugins.propose.min_cost_cover import FAR, CoverCosts

__all__ = ["fewest_bound", "fewest_domains", "pack"]

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
    found = []
    for _ in topology.at_tier:
        found.append(digit)
        digit *= base
    return np.array(found, dtype=np.int64) if digit < FAR else None


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
    owner, room = owner[order], room[order]
    before = np.cumsum(room) - room
    missing = before - before[np.searchsorted(owner, every)][owner] < units.count
    needed = np.bincount(owner, weights=missing, minlength=len(candidates)).astype(np.int64)
    innermost = topology.last[candidates] - candidates == 1
    each = (prices.piece - units.own)[candidates]
    bound: Ints = np.where(innermost, prices.piece[candidates], needed * each + units.count)
    return bound


def pack(topology: Topology, units: Units) -> CoverCosts:
    """The room of a touched domain, squared, by its nodes; rows in no domain below count as one of their own."""
    rows = topology.end - topology.start
    inner = topology.last - np.arange(len(topology)) > 1
    return CoverCosts(_square(units.held, rows), np.where(inner, _square(units.own, topology.own(rows)), 0))


def _square(room: Ints, rows: Ints) -> Ints:
    squares: Ints = -(-room * room * _GRAIN // np.maximum(rows, 1))  # rounded up: nothing is free
    return squares
