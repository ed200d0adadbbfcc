"""How full domains would be with a request added: the bin-packing measure of network-topology-aware.

Per weighted resource that is asked for: (used + request) / allocatable, averaged by weight; 0 where it would not fit.
Whole columns are cheaper than picking from them, so all domains are measured at once.
"""

from __future__ import annotations

import numpy as np

from tierwise.framework.extension import CycleView
from tierwise.model.arrays import Floats, Ints

__all__ = ["Fullness"]


class Fullness:
    """Weighted fullness of the domains of a cycle; pipelined tasks count as used."""

    def __init__(self, view: CycleView, weights: dict[str, float]) -> None:
        self._ledger = view.ledger
        self._index = np.array([i for i, name in enumerate(view.axis.names) if name in weights], dtype=np.int64)
        self._weights = np.array([weights[view.axis.names[i]] for i in self._index])
        self._shares: dict[bytes, Floats] = {}

    def of(self, request: Ints) -> Floats:
        """Every domain, with one request added."""
        weighted = self._weighted(request)
        ratio = np.zeros(self._ledger.domain_idle.shape[1])
        over = np.zeros(len(ratio), dtype=bool)
        for r, share in zip(weighted.tolist(), self._share(weighted), strict=True):
            asked, idle = int(request[r]), self._ledger.domain_idle[r]
            ratio += share * (self._ledger.domain_allocatable[r] - idle + asked)
            over |= idle < asked
        ratio[over] = 0.0
        return ratio

    def sums(self, request: Ints, domains: Ints, copies: Ints) -> Floats:
        """Some domains, with so many requests added one after the other: the sum of the fullness after each."""
        weighted = self._weighted(request)
        total = np.zeros(len(domains))
        over = np.zeros(len(domains), dtype=bool)
        for r, share in zip(weighted.tolist(), self._share(weighted), strict=True):
            asked, idle = int(request[r]), self._ledger.domain_idle[r][domains]
            used = self._ledger.domain_allocatable[r][domains] - idle
            total += share[domains] * (copies * used + asked * (copies * (copies + 1) // 2))
            over |= idle < asked * copies
        total[over] = 0.0
        return total

    def _weighted(self, request: Ints) -> Ints:
        return self._index[request[self._index] > 0]

    def _share(self, weighted: Ints) -> Floats:
        """What one unit of each resource adds to a domain's fullness, (resources x domains)."""
        key = weighted.tobytes()
        found = self._shares.get(key)
        if found is None:
            weights = self._weights[np.isin(self._index, weighted)]
            whole = np.maximum(self._ledger.domain_allocatable[weighted], 1)
            found = self._shares[key] = weights[:, None] / whole / max(float(weights.sum()), 1e-9)
        return found
