"""Rows about services: how near the placed Online Boutique comes to the optimum, and what many dependencies cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import process_time
from typing import Final

import msgspec
import numpy as np

from tierwise.api.codec import Raw
from tierwise.api.network_aware import REGION, ZONE
from tierwise.bench.lab import Lab, Measured, row
from tierwise.bench.manifests import Manifest, manifest, read_manifests
from tierwise.bench.measure import at_most, best_of, compared, in_turns
from tierwise.config.kube import read_kube
from tierwise.config.profile import Profile
from tierwise.dialects.network_aware.services import GROUP_LABEL, WORKLOAD_LABEL
from tierwise.framework.extension import Ask
from tierwise.framework.ledger import Pool
from tierwise.model.arrays import Ints
from tierwise.port import Objects
from tierwise.scheduler import cycle, open_cycle
from tierwise.sim.cluster.driver import reconcile
from tierwise.sim.cluster.store import EmbeddedCluster
from tierwise.snapshot.builder import build

__all__ = ["ORDERS", "ServiceCluster", "chains", "cheapest", "paid", "place_services", "profile", "service_cluster"]


# The Online Boutique on small random clusters: what its placement costs, and what the best one would.
#
# The application is that of document 002, one pod for each of its eleven workloads. `cheapest` finds the optimum
# exactly: once the workloads that touch every dependency are placed, the others no longer matter to each other, and a
# search with a bound deals them out.


CALLS: Final[Mapping[str, tuple[str, ...]]] = {
    "P1": ("P2", "P3", "P4", "P6", "P8", "P9", "P10"),
    "P2": ("P11",),
    "P3": (),
    "P4": (),
    "P5": (),
    "P6": (),
    "P7": (),
    "P8": ("P2", "P3", "P4", "P5", "P6", "P7"),
    "P9": ("P3",),
    "P10": (),
    "P11": (),
}
_NAMES: Final = tuple(CALLS)
_EDGES: Final = tuple((_NAMES.index(a), _NAMES.index(b)) for a, callees in CALLS.items() for b in callees)
_HUBS: Final = tuple(_NAMES.index(name) for name in ("P1", "P8", "P2", "P3"))  # every dependency touches one of them
ORDERS: Final = ("KahnSort", "TarjanSort", "AlternateKahn", "AlternateTarjan", "ReverseKahn", "ReverseTarjan")


class ServiceCluster(msgspec.Struct, frozen=True):
    """A cluster: pod slots of each node, and what it costs to get from one node to another."""

    slots: tuple[int, ...]
    places: tuple[tuple[str, str], ...]  # region and zone of each node
    cost: Ints
    weights: tuple[Raw, ...]  # of the NetworkTopology, by topology key


def service_cluster(seed: int) -> ServiceCluster:
    """Two or three regions of one or two zones of one to three nodes, with little more room than is needed."""
    rng = np.random.default_rng(seed)
    places = [
        (f"r{r}", f"z{r}{z}")
        for r in range(int(rng.integers(2, 4)))
        for z in range(int(rng.integers(1, 3)))
        for _ in range(int(rng.integers(1, 4)))
    ]
    slots = rng.integers(1, 5, size=len(places))
    slots[rng.integers(len(places))] += max(0, len(_NAMES) - int(slots.sum()))
    regions = sorted({region for region, _ in places})
    zones = sorted({zone for _, zone in places})
    far = _symmetric(rng, len(regions), 15, 60)
    near = _symmetric(rng, len(zones), 3, 12)
    region = np.array([regions.index(name) for name, _ in places])
    zone = np.array([zones.index(name) for _, name in places])
    cost = np.where(region[:, None] != region, far[region[:, None], region], near[zone[:, None], zone])
    cost[zone[:, None] == zone] = 1
    np.fill_diagonal(cost, 0)
    weights = (_weights(REGION, regions, far), _weights(ZONE, zones, near))
    return ServiceCluster(tuple(slots.tolist()), tuple(places), cost, weights)


def _symmetric(rng: np.random.Generator, size: int, low: int, high: int) -> Ints:
    half = np.triu(rng.integers(low, high + 1, size=(size, size)), 1)
    result: Ints = half + half.T
    return result


def _weights(key: str, names: Sequence[str], cost: Ints) -> Raw:
    return {
        "topologyKey": key,
        "originList": [
            {
                "origin": a,
                "costList": [{"destination": b, "networkCost": int(cost[i, j])} for j, b in enumerate(names) if i != j],
            }
            for i, a in enumerate(names)
        ],
    }


def profile(*, both_ways: bool = False, look_ahead: bool = False) -> Profile:
    """Nothing but the network decides."""
    name = "NetworkOverhead"
    arguments = {"bothWays": both_ways, "lookAhead": look_ahead}
    only = {"disabled": [{"name": "*"}]}
    plugins = {
        "queueSort": {**only, "enabled": [{"name": "TopologicalSort"}]},
        "filter": {"enabled": [{"name": name}]},
        "score": {**only, "enabled": [{"name": name}]},
    }
    return read_kube(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [{"plugins": plugins, "pluginConfig": [{"name": name, "args": arguments}]}],
        }
    )


def place_services(where: ServiceCluster, order: str, how: Profile) -> list[int]:
    """The node of each workload once a cycle has placed the application."""
    cluster = EmbeddedCluster(_objects(where, order))
    reconcile(cluster, 0.0)
    snapshot = build(cluster.read(), 0.0, how)
    decisions = cycle(snapshot, how).decisions
    names = {task.key: snapshot.nodes.names[at] for decision in decisions for task, at in decision.places()}
    found = {key: int(name.removeprefix("n")) for key, name in names.items()}
    if len(found) != len(_NAMES):
        raise RuntimeError("the application is meant to fit, and a pod of it waits")
    return [found[f"default/{name.lower()}"] for name in _NAMES]


def _objects(where: ServiceCluster, order: str) -> Objects:
    places = enumerate(zip(where.places, where.slots, strict=True))
    nodes = [_node(f"n{i}", region, zone, slots) for i, ((region, zone), slots) in places]
    pods = [_pod(name.lower(), name, group="boutique") for name in _NAMES]
    return read_manifests([*nodes, *pods, _app_group("boutique", CALLS, order), _network(list(where.weights))])


def _node(name: str, region: str, zone: str, pods: int) -> Manifest:
    status = {"allocatable": {"cpu": "64", "pods": str(pods)}}
    return manifest("v1", "Node", name, labels={REGION: region, ZONE: zone}, status=status)


def _pod(name: str, workload: str, on: str = "", *, group: str = "shop") -> Manifest:
    spec = {"containers": [{"name": "server"}], **({"nodeName": on} if on else {})}
    return manifest("v1", "Pod", name, labels={GROUP_LABEL: group, WORKLOAD_LABEL: workload}, spec=spec)


def _app_group(name: str, calls: Mapping[str, Sequence[str]], order: str = "KahnSort") -> Manifest:
    """An application: which of its workloads calls which."""
    refs = {workload: {"kind": "Deployment", "name": workload, "selector": workload} for workload in calls}
    workloads = [
        {"workload": refs[caller], "dependencies": [{"workload": refs[c], "maxNetworkCost": 10_000} for c in callees]}
        for caller, callees in calls.items()
    ]
    spec = {"numMembers": len(calls), "topologySortingAlgorithm": order, "workloads": workloads}
    return manifest("appgroup.diktyo.x-k8s.io/v1alpha1", "AppGroup", name, spec=spec)


def _network(weights: list[Raw]) -> Manifest:
    spec = {"configmapName": "none", "weights": [{"name": "UserDefined", "topologyList": weights}]}
    return manifest("networktopology.diktyo.x-k8s.io/v1alpha1", "NetworkTopology", "nt-default", spec=spec)


def paid(where: ServiceCluster, placed: Sequence[int]) -> int:
    """What a placement costs: the sum over all dependencies."""
    return sum(int(where.cost[placed[a], placed[b]]) for a, b in _EDGES)


def cheapest(where: ServiceCluster, known: int) -> int:
    """The least that any placement costs, given one that costs `known`."""
    count = len(where.slots)
    grid = np.stack(np.meshgrid(*[np.arange(count)] * len(_HUBS), indexing="ij")).reshape(len(_HUBS), -1)
    used = np.stack([(grid == node).sum(axis=0) for node in range(count)])
    grid = grid[:, (used <= np.array(where.slots)[:, None]).all(axis=0)]
    place = dict(zip(_HUBS, grid, strict=True))
    base = np.zeros(grid.shape[1], dtype=np.int64)
    rest = [i for i in range(len(_NAMES)) if i not in _HUBS]
    per_node = {i: np.zeros((count, grid.shape[1]), dtype=np.int64) for i in rest}
    for a, b in _EDGES:
        if a in place and b in place:
            base += where.cost[place[a], place[b]]
        elif a in place:
            per_node[b] += where.cost[place[a], :].T
        else:
            per_node[a] += where.cost[:, place[b]]
    bound = base + sum(costs.min(axis=0) for costs in per_node.values())
    best = known
    for choice in np.argsort(bound, kind="stable").tolist():
        if bound[choice] >= best:
            break
        free = list(where.slots)
        for hub in _HUBS:
            free[int(place[hub][choice])] -= 1
        table = sorted((per_node[i][:, choice].tolist() for i in rest), key=lambda costs: min(costs) - max(costs))
        best = _deal(table, free, int(base[choice]), best)
    return best


def _deal(table: list[list[int]], free: list[int], spent: int, best: int) -> int:
    """The least cost of giving each remaining workload a node with a free slot, if it is less than `best`."""
    if not table:
        return min(spent, best)
    if spent + sum(min(costs) for costs in table) >= best:
        return best
    first, *rest = table
    for node in sorted(range(len(free)), key=first.__getitem__):
        if free[node]:
            free[node] -= 1
            best = _deal(rest, free, spent + first[node], best)
            free[node] += 1
    return best


_ZONES = 64
_SETTINGS = {
    "plain": profile(),
    "bothWays": profile(both_ways=True),
    "lookAhead": profile(look_ahead=True),
}


@row("N1", at_most(1.25, 1.05))
def _n1(lab: Lab) -> Measured:
    """Mean cost of the placed application against the exact optimum, for every order and setting."""
    ratios: dict[tuple[str, str], list[float]] = {}
    towns = max(2, lab.size.contests // 5)
    for seed in range(towns):
        where = service_cluster(seed)
        costs = {(s, o): paid(where, place_services(where, o, how)) for s, how in _SETTINGS.items() for o in ORDERS}
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
    return what, means[best]


@row("P11", at_most(2, 1.2))
def _p11(lab: Lab) -> Measured:
    """What a filter and a score cost where many dependencies are placed, against few."""
    many, few = in_turns(10 * lab.size.repeats, *(_scoring(lab, placed) for placed in (1_000, 10)))
    what = f"network filter and score at {lab.size.small:,} nodes in {_ZONES} zones, 1,000 placed dependencies ÷ 10"
    return compared(what, many, few)


def _scoring(lab: Lab, placed: int) -> Callable[[], None]:
    """Filters and scores all nodes for one pod."""
    current = open_cycle(build(_services(lab.size.small, placed), 0.0, profile()), profile())
    job = next(job for job in current.snapshot.jobs if any(job.pod_sets()))
    ask = Ask(job.subs[0].pod_sets[0].shape, job.subs[0], job)
    everything = slice(0, len(current.nodes))

    def score() -> None:
        current.pipeline.score(ask, everything, current.fits(ask, everything, Pool.IDLE))

    return score


@row("C14", at_most(5, 2))
def _c14(lab: Lab) -> Measured:
    """What looking ahead costs a pod."""
    nodes, groups, members = max(20, lab.size.everyday // 20), max(2, lab.size.everyday // 500), 10
    how = profile(look_ahead=True)
    snapshot = build(chains(nodes, groups, members), 0.0, how)
    placed = sum(decision.count() for decision in cycle(snapshot, how).decisions)
    if placed != groups * members:
        raise RuntimeError("the applications are meant to fit, and a pod of them waits")
    seconds = best_of(max(1, lab.size.repeats // 10), lambda: cycle(snapshot, how), clock=process_time)
    what = f"milliseconds a pod with lookAhead, {groups} applications of {members} pods at {nodes:,} nodes in 20 zones"
    return what, seconds / placed * 1e3


def chains(nodes: int, groups: int, members: int) -> Objects:
    """Applications in which each pod calls the next one and the one after it, and nodes with room for a few pods."""
    made: list[Manifest] = []
    for group in range(groups):
        names = [f"w{i}" for i in range(members)]
        made += [_pod(f"a{group}-{name}", name, group=f"a{group}") for name in names]
        made.append(_app_group(f"a{group}", {name: names[i + 1 : i + 3] for i, name in enumerate(names)}))
    return read_manifests([*_zoned(nodes, 20, pods=4), *made])


def _zoned(nodes: int, zones: int, *, pods: int) -> list[Manifest]:
    """Nodes, zone after zone, and what it costs to get from one zone to another."""
    names = [f"z{i}" for i in range(zones)]
    cost = np.array([[1 + (i * j) % 50 for j in range(zones)] for i in range(zones)])
    made = [_node(f"n{i}", "r", names[i % zones], pods) for i in range(nodes)]
    return [*made, _network([_weights(ZONE, names, cost)])]


def _services(nodes: int, placed: int) -> Objects:
    """A service that waits, and so many pods that it calls, all over the zones."""
    stores = [_pod(f"store-{i}", "store", f"n{i * 7 % nodes}") for i in range(placed)]
    calls = {"web": ("store",), "store": ()}
    return read_manifests([*_zoned(nodes, _ZONES, pods=110), _pod("web", "web"), *stores, _app_group("shop", calls)])
