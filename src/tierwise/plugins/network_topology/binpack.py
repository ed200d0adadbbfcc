"""Scores for pods without a topology of their own: fuller domains first, inner tiers weighing more than outer ones.

Part of network-topology-aware. A tier t weighs fading^(t-1); a node that is in no domain of a tier counts as
if that domain were full, so that pods which do not care leave the domains to gangs that do.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from tierwise.framework.extension import CycleView
from tierwise.model.arrays import Floats, Ints

__all__ = ["DomainUsage", "TierDecay"]


# How full domains would be with a request added: the bin-packing measure of network-topology-aware.
#
# Per weighted resource that is asked for: (used + request) / allocatable, averaged by weight; 0 where it would not
# fit. Whole columns are cheaper than picking from them, so all domains are measured at once.


class DomainUsage:
    """Weighted fullness of the domains of a cycle; pipelined tasks count as used."""

    def __init__(self, view: CycleView, weights: dict[str, float]) -> None:
        self._ledger = view.ledger
        self._index = np.array([i for i, name in enumerate(view.axis.names) if name in weights], dtype=np.int64)
        self._weights = np.array([weights[view.axis.names[i]] for i in self._index])
        self._shares: dict[bytes, tuple[Ints, Ints, Floats]] = {}

    def weighs(self, request: Ints) -> bool:
        """Whether a request asks for anything that is weighed; else no domain is ever fuller than empty."""
        return bool((request[self._index] > 0).any())

    def of(self, request: Ints) -> Floats:
        """Every domain, with one request added."""
        counted, allocatable, share = self._shares_of(request)
        asked, idle = request[counted, None], self._ledger.domain_idle[counted]
        ratio: Floats = np.add.reduce(share * (allocatable - idle + asked), axis=0)
        ratio[np.logical_or.reduce(idle < asked, axis=0)] = 0.0
        return ratio

    def sums(self, request: Ints, domains: Ints, copies: Ints) -> Floats:
        """Some domains, with so many requests added one after the other: the sum of the fullness after each."""
        counted, _, shares = self._shares_of(request)
        total = np.zeros(len(domains))
        over = np.zeros(len(domains), dtype=bool)
        for r, share in zip(counted.tolist(), shares, strict=True):
            asked, idle = int(request[r]), self._ledger.domain_idle[r][domains]
            used = self._ledger.domain_allocatable[r][domains] - idle
            total += share[domains] * (copies * used + asked * (copies * (copies + 1) // 2))
            over |= idle < asked * copies
        total[over] = 0.0
        return total

    def _shares_of(self, request: Ints) -> tuple[Ints, Ints, Floats]:
        """The weighted resources that are asked for, what domains have of them, and what one unit adds to fullness."""
        asks = request[self._index] > 0
        key = asks.tobytes()
        found = self._shares.get(key)
        if found is None:
            counted, weights = self._index[asks], self._weights[asks]
            allocatable = self._ledger.domain_allocatable[counted]
            share = weights[:, None] / np.maximum(allocatable, 1) / max(float(weights.sum()), 1e-9)
            found = self._shares[key] = counted, allocatable, share
        return found


class TierDecay:
    """The tier-weighted fullness of the domains above each node."""

    def __init__(self, view: CycleView, fullness: DomainUsage, fading: float) -> None:
        self._topology = view.topology
        self._fullness = fullness
        self._fading = fading

    # Found when first asked for: gangs with a topology never do.

    @cached_property
    def _tier_weight(self) -> Floats:
        weight: Floats = np.power(self._fading, np.maximum(self._topology.tier - 1, 0).astype(float))
        return weight

    @cached_property
    def _sum(self) -> float:
        return _geometric(self._fading, int(self._topology.tier.min()), int(self._topology.tier.max()))

    @cached_property
    def _levels(self) -> list[tuple[Ints, Ints]]:
        """Domains below the root by their depth, outermost first, and their parents."""
        parent = self._topology.parent
        return [(level, parent[level]) for level in _levels(parent)[1:]]

    def score(self, request: Ints) -> Floats:
        """Between 0 and 1 for the nodes of each domain."""
        if not self._sum:
            return np.zeros(len(self._topology))
        share = self._tier_weight * (self._fullness.of(request) - 1.0)
        for level, parents in self._levels:
            share[level] += share[parents]
        result: Floats = 1.0 + share / self._sum
        return result


def _geometric(fading: float, lowest: int, highest: int) -> float:
    """The sum of fading^(t-1) over every whole tier from the lowest to the highest, gaps included."""
    first, count = max(lowest - 1, 0), highest - lowest + 1
    if fading == 1.0:
        return float(count)
    if fading == 0.0:
        return 1.0 if first == 0 else 0.0
    with np.errstate(over="ignore"):
        total = np.power(fading, float(first)) * (1 - np.power(fading, float(count))) / (1 - fading)
    return float(total) if np.isfinite(total) else 0.0


def _levels(parent: Ints) -> list[Ints]:
    """Domains by their depth: the root, its children, and so on."""
    levels = [np.array([0])]
    while True:
        below = np.flatnonzero(np.isin(parent, levels[-1]))
        if not len(below):
            return levels
        levels.append(below)
