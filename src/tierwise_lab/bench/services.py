"""Rows about services: what many dependencies and looking ahead cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import process_time

import numpy as np

from tierwise.api.codec import Raw
from tierwise.api.network_aware import REGION, ZONE
from tierwise.config.kube import read_kube
from tierwise.config.profile import Profile
from tierwise.dialects.network_aware.services import GROUP_LABEL, WORKLOAD_LABEL
from tierwise.framework.extension import Ask
from tierwise.framework.ledger import Pool
from tierwise.model.arrays import Ints
from tierwise.port import Objects
from tierwise.scheduler import cycle, open_cycle
from tierwise.snapshot.builder import build
from tierwise_lab.bench.lab import Lab, Measured, row
from tierwise_lab.bench.manifests import Manifest, manifest, read_manifests
from tierwise_lab.bench.measure import at_most, best_of, compared, in_turns

__all__ = ["chains"]

_ZONES = 64


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


def _profile(*, look_ahead: bool = False) -> Profile:
    """Nothing but the network decides."""
    name = "NetworkOverhead"
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
            "profiles": [{"plugins": plugins, "pluginConfig": [{"name": name, "args": {"lookAhead": look_ahead}}]}],
        }
    )


def _node(name: str, region: str, zone: str, pods: int) -> Manifest:
    status = {"allocatable": {"cpu": "64", "pods": str(pods)}}
    return manifest("v1", "Node", name, labels={REGION: region, ZONE: zone}, status=status)


def _pod(name: str, workload: str, on: str = "", *, group: str = "shop") -> Manifest:
    spec = {"containers": [{"name": "server"}], **({"nodeName": on} if on else {})}
    return manifest("v1", "Pod", name, labels={GROUP_LABEL: group, WORKLOAD_LABEL: workload}, spec=spec)


def _app_group(name: str, calls: Mapping[str, Sequence[str]]) -> Manifest:
    """An application: which of its workloads calls which."""
    refs = {workload: {"kind": "Deployment", "name": workload, "selector": workload} for workload in calls}
    workloads = [
        {"workload": refs[caller], "dependencies": [{"workload": refs[c], "maxNetworkCost": 10_000} for c in callees]}
        for caller, callees in calls.items()
    ]
    spec = {"numMembers": len(calls), "topologySortingAlgorithm": "KahnSort", "workloads": workloads}
    return manifest("appgroup.diktyo.x-k8s.io/v1alpha1", "AppGroup", name, spec=spec)


def _network(weights: list[Raw]) -> Manifest:
    spec = {"configmapName": "none", "weights": [{"name": "UserDefined", "topologyList": weights}]}
    return manifest("networktopology.diktyo.x-k8s.io/v1alpha1", "NetworkTopology", "nt-default", spec=spec)


@row("P11", at_most(2, 1.2))
def _p11(lab: Lab) -> Measured:
    """Cost of a filter and a score with many placed dependencies, relative to few."""
    many, few = in_turns(10 * lab.size.repeats, *(_scoring(lab, placed) for placed in (1_000, 10)))
    what = f"network filter and score at {lab.size.small:,} nodes in {_ZONES} zones, 1,000 placed dependencies ÷ 10"
    return compared(what, many, few)


def _scoring(lab: Lab, placed: int) -> Callable[[], None]:
    """Filters and scores all nodes for one pod."""
    current = open_cycle(build(_services(lab.size.small, placed), 0.0, _profile()), _profile())
    job = next(job for job in current.snapshot.jobs if any(job.pod_sets()))
    ask = Ask(job.subs[0].pod_sets[0].shape, job.subs[0], job)
    everything = slice(0, len(current.nodes))

    def score() -> None:
        current.pipeline.score(ask, everything, current.fits(ask, everything, Pool.IDLE))

    return score


@row("C14", at_most(5, 2))
def _c14(lab: Lab) -> Measured:
    """Cost of looking ahead, in milliseconds for each pod."""
    nodes = max(20, lab.size.everyday // 20)
    groups = max(2, lab.size.everyday // 500)
    members = 10
    how = _profile(look_ahead=True)
    snapshot = build(chains(nodes, groups, members), 0.0, how)
    placed = sum(decision.count() for decision in cycle(snapshot, how).decisions)
    if placed != groups * members:
        raise RuntimeError("the applications are meant to fit, and a pod of them waits")
    seconds = best_of(max(1, lab.size.repeats // 10), lambda: cycle(snapshot, how), clock=process_time)
    what = f"milliseconds a pod with lookAhead, {groups} applications of {members} pods at {nodes:,} nodes in 20 zones"
    return what, seconds / placed * 1e3


def chains(nodes: int, groups: int, members: int) -> Objects:
    """Applications in which each pod calls the next one and the one after it, and nodes with room for a few pods."""
    manifests_made: list[Manifest] = []
    for group in range(groups):
        names = [f"w{i}" for i in range(members)]
        manifests_made += [_pod(f"a{group}-{name}", name, group=f"a{group}") for name in names]
        manifests_made.append(_app_group(f"a{group}", {name: names[i + 1 : i + 3] for i, name in enumerate(names)}))
    return read_manifests([*_zoned(nodes, 20, pods=4), *manifests_made])


def _zoned(nodes: int, zones: int, *, pods: int) -> list[Manifest]:
    """Nodes, zone after zone, and what it costs to get from one zone to another."""
    names = [f"z{i}" for i in range(zones)]
    cost = np.array([[1 + (i * j) % 50 for j in range(zones)] for i in range(zones)])
    nodes_made = [_node(f"n{i}", "r", names[i % zones], pods) for i in range(nodes)]
    return [*nodes_made, _network([_weights(ZONE, names, cost)])]


def _services(nodes: int, placed: int) -> Objects:
    """A service that waits, and so many pods that it calls, all over the zones."""
    stores = [_pod(f"store-{i}", "store", f"n{i * 7 % nodes}") for i in range(placed)]
    calls = {"web": ("store",), "store": ()}
    return read_manifests([*_zoned(nodes, _ZONES, pods=110), _pod("web", "web"), *stores, _app_group("shop", calls)])
