"""The victims that are chosen against the cheapest that could be: full clusters of whole-node gangs, solved exactly."""

from __future__ import annotations

from tierwise.bench.evictions import EVICTING, cheapest, crowded_cluster, destroyed
from tierwise.bench.worlds import flat_cluster
from tierwise.scheduler import cycle

CLUSTERS = 60


def test_the_victims_are_close_to_the_optimum() -> None:
    """Work lost with broken gangs is at most 1.10 times the least possible on average, and never twice as much."""
    ratios = []
    for seed in range(CLUSTERS):
        tier = 1 + seed % 2
        full = crowded_cluster(flat_cluster(5, 6 + seed % 7), 10 + seed % 9, need=3 + seed % 4, tier=tier, seed=seed)
        (broken, evicted), best = destroyed(full, cycle(full.snapshot, EVICTING)), cheapest(full, tier)
        assert (broken, evicted) >= best
        ratios.append(broken / best[0] if best[0] else 1.0 + broken)

    assert sum(ratios) / len(ratios) <= 1.10
    assert max(ratios) <= 2
