"""The victims that are chosen against the cheapest that could be: full clusters of whole-node gangs, solved exactly."""

from __future__ import annotations

from tests.support.depth import size

from tierwise.framework.report import CycleReport
from tierwise.scheduler import cycle
from tierwise_lab.bench.evictions import EVICTING, CrowdedCluster, crowded_cluster
from tierwise_lab.bench.worlds import flat_cluster

CLUSTERS = size(200, 600, quick=60)
IMPOSSIBLE = (2**40, 2**40)


def test_the_victims_are_close_to_the_optimum() -> None:
    """Work lost with broken gangs is at most 1.05 times the least possible on average, and never 1.3 times as much;
    where nothing need be broken, nothing is, and the same holds of the nodes that are evicted.
    """
    ratios = []
    for seed in range(CLUSTERS):
        tier = 1 + seed % 2
        full = crowded_cluster(flat_cluster(6, 8 + seed % 9), 14 + seed % 11, need=4 + seed % 5, tier=tier, seed=seed)
        (broken, evicted), best = destroyed(full, cycle(full.snapshot, EVICTING)), cheapest(full, tier)
        assert (broken, evicted) >= best
        assert broken == 0 or best[0] > 0
        ratios.append(broken / best[0] if best[0] else evicted / best[1])

    assert sum(ratios) / len(ratios) <= 1.05
    assert max(ratios) <= 1.3


def destroyed(crowded: CrowdedCluster, report: CycleReport) -> tuple[int, int]:
    """Nodes' worth of work lost with broken gangs, wherever it ran, and nodes evicted."""
    lost: dict[int, int] = {}
    for eviction in report.evictions:
        lost[eviction.job.number] = lost.get(eviction.job.number, 0) + 1
    broken = 0
    for number, gone in lost.items():
        held, least = len(crowded.rows[number - 1]), crowded.minimums[number - 1]
        broken += held if held - gone < least else 0
    return broken, sum(lost.values())


def cheapest(crowded: CrowdedCluster, tier: int) -> tuple[int, int]:
    """The same of the cheapest plan in any domain up to a tier: fewest nodes' worth broken, then fewest evicted."""
    topology = crowded.snapshot.topology
    plans = []
    for group in topology.by_tier(0, tier):
        for domain in group.tolist():
            span = topology.span(domain)
            if span.stop - span.start >= crowded.need:
                plans.append(_cheapest_in(crowded, span))
    return min(plans)


def _cheapest_in(crowded: CrowdedCluster, span: slice) -> tuple[int, int]:
    """Safe tasks cost nothing broken, so all of them come first; the rest is a cover of nodes by whole gangs."""
    cores: list[tuple[int, int]] = []  # nodes freed here, nodes' worth lost anywhere
    safe = 0
    for rows, least in zip(crowded.rows, crowded.minimums, strict=True):
        here = sum(span.start <= row < span.stop for row in rows)
        surplus = min(here, len(rows) - least)
        safe += surplus
        if here > surplus:
            cores.append((here - surplus, len(rows)))
    missing = crowded.need - safe
    if missing <= 0:
        return 0, crowded.need
    best: dict[int, tuple[int, int]] = {0: (0, 0)}  # nodes freed by cores, capped -> nodes' worth lost, nodes freed
    for freed, lost in cores:
        for have, (cost, gone) in list(best.items()):
            reach = min(missing, have + freed)
            offer = (cost + lost, gone + freed)
            if reach not in best or offer < best[reach]:
                best[reach] = offer
    if missing not in best:
        return IMPOSSIBLE
    broken, freed_by_cores = best[missing]
    return broken, max(crowded.need, freed_by_cores)
