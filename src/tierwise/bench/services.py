"""Rows about services: how near the placed Online Boutique comes to the optimum, and what many dependencies cost."""

from __future__ import annotations

import numpy as np

from tierwise.api.codec import Raw, decode
from tierwise.api.network_aware import REGION, ZONE
from tierwise.bench.boutique import ORDERS, cheapest, paid, profile, settle, town
from tierwise.bench.goals import Row, at_most
from tierwise.bench.lab import Lab
from tierwise.bench.measure import best_of
from tierwise.dialects.build import build
from tierwise.dialects.services import GROUP_LABEL, WORKLOAD_LABEL
from tierwise.framework.extension import Ask
from tierwise.framework.ledger import Pool
from tierwise.port import Objects
from tierwise.scheduler import open_cycle

__all__ = ["n1", "p11"]

_ZONES = 64
_SETTINGS = {
    "plain": profile(),
    "bothWays": profile(both_ways=True),
    "lookAhead": profile(look_ahead=True),
}


def n1(lab: Lab) -> Row:
    """Mean cost of the placed application against the exact optimum, for every order and setting."""
    ratios: dict[tuple[str, str], list[float]] = {}
    towns = max(2, lab.size.contests // 5)
    for seed in range(towns):
        where = town(seed)
        costs = {(s, o): paid(where, settle(where, o, how)) for s, how in _SETTINGS.items() for o in ORDERS}
        least = cheapest(where, min(costs.values()))
        for setting, cost in costs.items():
            ratios.setdefault(setting, []).append(cost / least)
    means = {setting: float(np.mean(found)) for setting, found in ratios.items()}
    best = min(means, key=means.__getitem__)
    listed = "; ".join(f"{s}: {', '.join(f'{o} {means[s, o]:.3g}' for o in ORDERS)}" for s in _SETTINGS)
    what = (
        f"dependency cost of the Online Boutique ÷ exact optimum, mean over {towns} small clusters,"
        f" best setting ({best[1]} with {best[0]}). {listed}"
    )
    return Row("N1", what, means[best], at_most(1.25, 1.05))


def p11(lab: Lab) -> Row:
    """What a filter and a score cost where many dependencies are placed, against few."""
    many, few = (_scoring(lab, placed) for placed in (1_000, 10))
    what = (
        f"network filter and score at {lab.size.small:,} nodes in {_ZONES} zones, 1,000 placed dependencies ÷ 10"
        f" ({many * 1e6:.0f} µs ÷ {few * 1e6:.0f} µs)"
    )
    return Row("P11", what, many / few, at_most(2, 1.2))


def _scoring(lab: Lab, placed: int) -> float:
    """Seconds to filter and score all nodes for one pod."""
    current = open_cycle(build(_services(lab.size.small, placed), 0.0, profile()), profile())
    job = next(job for job in current.snapshot.jobs if any(job.parts()))
    ask = Ask(job.subs[0].parts[0].shape, job.subs[0], job)
    everything = slice(0, len(current.nodes))

    def score() -> None:
        current.pipeline.score(ask, everything, current.fits(ask, everything, Pool.NOW))

    return best_of(10 * lab.size.repeats, score)


def _services(nodes: int, placed: int) -> Objects:
    """A service that waits, and so many pods that it calls, all over the zones."""
    zones = [f"z{i}" for i in range(_ZONES)]
    raws: list[Raw] = [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": f"n{i}", "labels": {REGION: "r", ZONE: zones[i % _ZONES]}},
            "status": {"allocatable": {"cpu": "64", "pods": "110"}},
        }
        for i in range(nodes)
    ]
    raws += [_pod("web", "web", "")] + [_pod(f"store-{i}", "store", f"n{i * 7 % nodes}") for i in range(placed)]
    ref = {"kind": "Deployment", "name": "store", "selector": "store"}
    calls = [{"workload": ref, "maxNetworkCost": 10_000}]
    workloads = [
        {"workload": {**ref, "name": "web", "selector": "web"}, "dependencies": calls},
        {"workload": ref},
    ]
    raws.append(
        {
            "apiVersion": "appgroup.diktyo.x-k8s.io/v1alpha1",
            "kind": "AppGroup",
            "metadata": {"name": "shop"},
            "spec": {"workloads": workloads},
        }
    )
    origins = [
        {"origin": a, "costList": [{"destination": b, "networkCost": 1 + (i * j) % 50} for j, b in enumerate(zones)]}
        for i, a in enumerate(zones)
    ]
    weights = [{"name": "UserDefined", "topologyList": [{"topologyKey": ZONE, "originList": origins}]}]
    raws.append(
        {
            "apiVersion": "networktopology.diktyo.x-k8s.io/v1alpha1",
            "kind": "NetworkTopology",
            "metadata": {"name": "nt-default"},
            "spec": {"weights": weights},
        }
    )
    return Objects.of((decode(raw), raw) for raw in raws)


def _pod(name: str, workload: str, node: str) -> Raw:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {GROUP_LABEL: "shop", WORKLOAD_LABEL: workload}},
        "spec": {"containers": [{"name": "server"}], **({"nodeName": node} if node else {})},
    }
