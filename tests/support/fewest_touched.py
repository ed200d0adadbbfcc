"""The fewest domains that a gang can touch, found another way than `propose` does.

Bottom up: for every domain, the most units that it holds with so many racks touched, with so many of everything. A
child matters only by the most units that it holds at each cost, so a merge is one shifted minimum for each of these.
"""

from __future__ import annotations

import numpy as np

from tierwise.framework.report import Decision
from tierwise.model.arrays import Ints
from tierwise.model.topology import Topology

__all__ = ["fewest_touched", "touched"]

_FAR = 2**60


def fewest_touched(topology: Topology, room: Ints, count: int, domains: Ints) -> tuple[int, ...]:
    """Of the given domains the best one's fewest touched domains, tier by tier from the outside, racks last.

    `room` is in units, per rack; all racks are of the lowest tier and every branch has every tier.
    """
    base = 1 + int(np.count_nonzero(room))
    costs = [int(_table(topology, room, count, d, base)[count]) for d in domains.tolist()]
    return _digits(min(costs), base, len(topology.at_tier) - 1)


def _table(topology: Topology, room: Ints, count: int, domain: int, base: int) -> Ints:
    """The cost of holding 0, 1, ... units below a domain, the domain itself not counted."""
    least = np.full(count + 1, _FAR, dtype=np.int64)
    least[0] = 0
    children = topology.children[domain]
    if not children:
        least[: int(min(room[domain], count)) + 1] = 0
        return least
    worth = base ** (int(topology.tier[children[0]]) - 1)
    for child in children:
        below = _table(topology, room, count, child, base)
        before = least.copy()
        for units in _steps(below):
            offer = np.concatenate((np.full(units, before[0]), before))[: count + 1] + int(below[units]) + worth
            np.minimum(least, offer, out=least)
    return least


def _steps(table: Ints) -> list[int]:
    """At each cost the most units."""
    reached = np.flatnonzero(table < _FAR)
    rises = np.flatnonzero(np.diff(table[: len(reached)]))
    return [units for units in [*rises.tolist(), len(reached) - 1] if units]


def _digits(cost: int, base: int, number: int) -> tuple[int, ...]:
    return tuple(cost // base**i % base for i in reversed(range(number)))


def touched(topology: Topology, decision: Decision) -> tuple[int, ...]:
    """How many domains of each tier a decision touches, from the outside; 0 from the tier of its own domain on."""
    leaves = np.concatenate([topology.leaf[placed.rows] for placed in decision.placed])
    counts = []
    tiers = [tier for tier in topology.at_tier if tier < topology.tier[0]]
    for tier in reversed(tiers):
        inside = tier < topology.tier[decision.domain]
        found = {topology.highest(leaf, tier) for leaf in set(leaves.tolist())} if inside else set()
        counts.append(len(found))
    return tuple(counts)
