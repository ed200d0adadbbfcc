"""The Online Boutique on small random clusters: what its placement costs, and what the best one would.

The application is that of document 002, one pod for each of its eleven workloads. `cheapest` finds the optimum
exactly: once the workloads that touch every dependency are placed, the others no longer matter to each other, and a
search with a bound deals them out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
import numpy as np
from tests.support.services import Raw, app_group, network, node, objects, pod

from tierwise.config.profile import Profile
from tierwise.model.arrays import Ints
from tierwise.scheduler import cycle
from tierwise.sim.cluster.driver import reconcile
from tierwise.sim.cluster.store import EmbeddedCluster
from tierwise.snapshot.builder import build

__all__ = ["CALLS", "BoutiqueCluster", "boutique_cluster", "cheapest", "paid", "place"]

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
NAMES: Final = tuple(CALLS)
EDGES: Final = tuple((NAMES.index(a), NAMES.index(b)) for a, callees in CALLS.items() for b in callees)
HUBS: Final = tuple(NAMES.index(name) for name in ("P1", "P8", "P2", "P3"))  # every dependency touches one of them


class BoutiqueCluster(msgspec.Struct, frozen=True):
    """A cluster: pod slots of each node, and what it costs to get from one node to another."""

    slots: tuple[int, ...]
    places: tuple[str, ...]  # region/zone of each node
    cost: Ints
    links: Mapping[str, Mapping[str, int]]  # of the NetworkTopology


def boutique_cluster(seed: int) -> BoutiqueCluster:
    """Two or three regions of one or two zones of one to three nodes, with little more room than is needed."""
    rng = np.random.default_rng(seed)
    places = [
        (f"r{r}", f"z{r}{z}")
        for r in range(int(rng.integers(2, 4)))
        for z in range(int(rng.integers(1, 3)))
        for _ in range(int(rng.integers(1, 4)))
    ]
    slots = rng.integers(1, 5, size=len(places))
    slots[rng.integers(len(places))] += max(0, len(NAMES) - int(slots.sum()))
    regions = sorted({region for region, _ in places})
    zones = sorted({zone for _, zone in places})
    far = _symmetric(rng, len(regions), 15, 60)
    near = _symmetric(rng, len(zones), 3, 12)
    region = np.array([regions.index(name) for name, _ in places])
    zone = np.array([zones.index(name) for _, name in places])
    cost = np.where(region[:, None] != region, far[region[:, None], region], near[zone[:, None], zone])
    cost[zone[:, None] == zone] = 1
    np.fill_diagonal(cost, 0)
    links = {**_links(regions, far), **_links(zones, near)}
    return BoutiqueCluster(tuple(slots.tolist()), tuple(f"{r}/{z}" for r, z in places), cost, links)


def _symmetric(rng: np.random.Generator, count: int, low: int, high: int) -> Ints:
    half = np.triu(rng.integers(low, high + 1, size=(count, count)), 1)
    result: Ints = half + half.T
    return result


def _links(names: Sequence[str], cost: Ints) -> dict[str, dict[str, int]]:
    pairs = ((i, j) for i in range(len(names)) for j in range(len(names)) if i != j)
    return {f"{names[i]}>{names[j]}": {"networkCost": int(cost[i, j])} for i, j in pairs}


def place(where: BoutiqueCluster, order: str, how: Profile) -> list[int]:
    """The node of each workload once a cycle has placed the application."""
    spots = enumerate(zip(where.places, where.slots, strict=True))
    nodes = [node(f"n{i}", spot, cpu=64, pods=slots) for i, (spot, slots) in spots]
    pods = [pod(name.lower(), name, group="boutique", namespace="default") for name in NAMES]
    cluster = EmbeddedCluster(objects(*nodes, *pods, _boutique(order), network(where.links)))
    reconcile(cluster, 0.0)
    snapshot = build(cluster.read(), 0.0, how)
    placed = [pair for decision in cycle(snapshot, how).decisions for pair in decision.places()]
    found = {task.key: int(snapshot.nodes.names[row].removeprefix("n")) for task, row in placed}
    return [found[f"default/{name.lower()}"] for name in NAMES]


def _boutique(order: str) -> Raw:
    """The AppGroup, its workloads in the order of the document."""
    calls = [(caller, callee, {"maxNetworkCost": 10_000}) for caller, callees in CALLS.items() for callee in callees]
    made = app_group(calls, name="boutique", algorithm=order)
    made["metadata"]["namespace"] = "default"
    made["spec"]["workloads"].sort(key=lambda entry: NAMES.index(entry["workload"]["name"]))
    return made


def paid(where: BoutiqueCluster, placed: Sequence[int]) -> int:
    """What a placement costs: the sum over all dependencies."""
    return sum(int(where.cost[placed[a], placed[b]]) for a, b in EDGES)


def cheapest(where: BoutiqueCluster, known: int) -> int:
    """The least that any placement costs, given one that costs `known`."""
    count = len(where.slots)
    grid = np.stack(np.meshgrid(*[np.arange(count)] * len(HUBS), indexing="ij")).reshape(len(HUBS), -1)
    used = np.stack([(grid == at).sum(axis=0) for at in range(count)])
    grid = grid[:, (used <= np.array(where.slots)[:, None]).all(axis=0)]
    place = dict(zip(HUBS, grid, strict=True))
    base = np.zeros(grid.shape[1], dtype=np.int64)
    rest = [i for i in range(len(NAMES)) if i not in HUBS]
    per_node = {i: np.zeros((count, grid.shape[1]), dtype=np.int64) for i in rest}
    for a, b in EDGES:
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
        for hub in HUBS:
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
    for at in sorted(range(len(free)), key=first.__getitem__):
        if free[at]:
            free[at] -= 1
            best = _deal(rest, free, spent + first[at], best)
            free[at] += 1
    return best
