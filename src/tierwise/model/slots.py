"""Free slots: how many more gangs of a size fit, tier by tier, and how much of what is free they cannot use.

A gang of a size asks for so many units of one resource (GPUs) inside one domain. Gangs of a node or more take whole
nodes, smaller ones part of a node each, as pods of such gangs do. Pure functions over the tree and two arrays; the
pages, the metrics and the simulator all count with them.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from tierwise.model.arrays import Ints
from tierwise.model.topology import Topology

__all__ = ["SIZES", "TierSlots", "count_slots", "gangs_in", "histogram", "share_lost"]

SIZES = (8, 64, 512)
"""The sizes that are looked at unless others are asked for."""

_NAMED = 6
"""Domains with room that are named, of each tier and size."""


class TierSlots(msgspec.Struct, frozen=True):
    """The domains of one tier as gangs of one size see them."""

    tier: int
    size: int
    gangs: int  # so many fit now, side by side, each inside one domain
    most: int  # so many would fit if nothing ran
    free: int  # units that are free below the domains
    roomiest: tuple[tuple[int, int], ...] = ()  # the domains that take most, with the gangs that each takes

    @property
    def usable(self) -> int:
        """The free units that gangs of this size can fill."""
        return self.gangs * self.size

    @property
    def fragmentation(self) -> float:
        """The share of the free units that gangs of this size cannot use; 0 where nothing is free."""
        return share_lost(self.free, self.usable)


def share_lost(free: int, usable: int) -> float:
    """The share of free units that is of no use."""
    return 1.0 - usable / free if free else 0.0


def count_slots(topology: Topology, idle: Ints, total: Ints, sizes: Sequence[int] = SIZES) -> tuple[TierSlots, ...]:
    """Slots on every tier for every size, tiers ascending, given each row's idle and whole units.

    Rows that take no pods have neither: the caller sets both to 0.
    """
    free = topology.totals(idle)
    found: list[TierSlots] = []
    for size in sizes:
        now, most = (gangs_in(topology, units, total, size) for units in (idle, total))
        found += [
            TierSlots(tier, size, *_sums(now, most, free, domains), _roomiest(domains, now[domains]))
            for tier, domains in topology.at_tier.items()
        ]
    return tuple(sorted(found, key=lambda slots: (slots.tier, slots.size)))


def _sums(now: Ints, most: Ints, free: Ints, domains: Ints) -> tuple[int, int, int]:
    return int(now[domains].sum()), int(most[domains].sum()), int(free[domains].sum())


def _roomiest(domains: Ints, gangs: Ints) -> tuple[tuple[int, int], ...]:
    most = np.argsort(-gangs, kind="stable")[:_NAMED]
    return tuple((int(domains[i]), int(gangs[i])) for i in most if gangs[i])


def gangs_in(topology: Topology, units: Ints, total: Ints, size: int) -> Ints:
    """By domain, how many gangs of a size fit there side by side; they use all or none of a node, or parts of it."""
    fitting = np.where(total > size, units // size * size, np.where(units == total, total, 0))
    return topology.totals(fitting) // size


def histogram(topology: Topology, idle: Ints, total: Ints) -> dict[int, tuple[int, ...]]:
    """By tier, how many domains are full, up to a half free, more than that, and wholly free; empty ones left out."""
    free = topology.totals(idle)
    whole = topology.totals(total)
    found = {}
    for tier, domains in topology.at_tier.items():
        have = domains[whole[domains] > 0]
        share = 2 * free[have]
        full = share == 0
        empty = free[have] == whole[have]
        half = ~full & ~empty & (share <= whole[have])
        bins = (full, half, ~full & ~empty & ~half, empty)
        found[tier] = tuple(int(some.sum()) for some in bins)
    return found
