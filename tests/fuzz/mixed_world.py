"""Random clusters in which everything comes together, as plain manifests.

Volcano's pod groups with hyperNodes stand beside Koordinator's gangs with layers and elastic quotas, on the same nodes;
pods of several sizes, of none and near the largest legal amounts, gangs in two levels and gangs that have lost pods,
budgets that gangs share, and objects that nobody in their right mind would write.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from random import Random
from typing import Any

__all__ = ["GIANTS", "World", "hostile"]

Manifest = dict[str, Any]

GIANTS = ("9223372036854775807", "9223372036854775806", "4611686018427387904", "8Ei", "7E", "9007199254740993", "16Pi")
"""Amounts up to the largest that the API server keeps; of cpu these are cores."""

GPU = "nvidia.com/gpu"
LAYERS = ("BlockLayer", "SpineLayer")
_SIZES: tuple[Manifest, ...] = (
    {"cpu": "1"},
    {"cpu": "1"},
    {"cpu": "2"},
    {"cpu": "1", GPU: "1"},
    {"cpu": "1500m", "memory": "1Gi"},
    {"memory": "2Gi"},
)
_VOLCANO, _SIGS = "scheduling.volcano.sh/v1beta1", "scheduling.sigs.k8s.io/v1alpha1"
_GATHER = "gang.scheduling.koordinator.sh/network-topology-spec"
_QUOTA = "quota.scheduling.koordinator.sh/"


def _object(version: str, kind: str, name: str, spec: Manifest, **rest: object) -> Manifest:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, **rest}, "spec": spec}


class World:
    """Draws one cluster, and later what comes to it."""

    def __init__(self, pick: Random, *, giants: bool) -> None:
        self._pick = pick
        self._giants = giants
        self._serial = 0
        self.nodes = [f"n{i}" for i in range(pick.randint(2, 6))]
        self._free: dict[str, dict[str, int]] = {}

    # -- what does not change

    def cluster(self) -> list[Manifest]:
        """Nodes under both trees, queues, quotas and budgets."""
        pick = self._pick
        found = [self._node(name) for name in self.nodes]
        racks: dict[str, list[str]] = {}
        for name in self.nodes:
            if pick.random() < 0.9:
                racks.setdefault(f"r{pick.randint(0, 2)}", []).append(name)
        found += [_hypernode(rack, 1, "Node", inside) for rack, inside in racks.items()]
        zone = pick.sample(sorted(racks), pick.randint(1, len(racks))) if racks else []
        found += [_hypernode("zone", 2, "HyperNode", zone)] if zone else []
        chain = ("NodeTopologyLayer", *LAYERS, "")
        listed = [
            {"topologyLayer": name, "parentTopologyLayer": above, "labelKey": [name]} for name, above in pairwise(chain)
        ]
        kind = "ClusterNetworkTopology"
        found.append(_object("scheduling.koordinator.sh/v1alpha1", kind, "default", {"networkTopologySpec": listed}))
        found += [_object(_VOLCANO, "Queue", name, self._queue()) for name in ("default", "q0", "q1")]
        found += [self._elastic(f"e{i}") for i in range(2)]
        found += [self._budget(app) for app in ("a", "b") if pick.random() < 0.6]
        found += [{**_object("scheduling.k8s.io/v1", "PriorityClass", f"p{p}", {}), "value": p} for p in range(10)]
        return found

    def _node(self, name: str) -> Manifest:
        pick, block = self._pick, self._pick.randint(0, 3)
        labels = {"kubernetes.io/hostname": name, "BlockLayer": f"b{block}", "SpineLayer": f"s{block % 2}"}
        if pick.random() < 0.1:
            del labels["BlockLayer"]
        has = {"cpu": pick.randint(2, 5), "memory": pick.choice((4, 8)) << 30, GPU: pick.choice((0, 2))}
        has["pods"] = pick.choice((110, 110, 3))
        self._free[name] = dict(has)
        status: Manifest = {"allocatable": {resource: str(n) for resource, n in has.items()}}
        if self._giants and pick.random() < 0.2:
            status["allocatable"]["memory"] = "9223372036854775807"
            self._free[name]["memory"] = 2**63 - 1
        spec: Manifest = {"unschedulable": True} if pick.random() < 0.08 else {}
        return {**_object("v1", "Node", name, spec, labels=labels), "status": status}

    def _limit(self, chance: float, least: int = 2, most: int = 10) -> Manifest:
        pick = self._pick
        if pick.random() >= chance:
            return {}
        limit: Manifest = {"cpu": str(pick.randint(least, most))}
        if pick.random() < 0.4:
            limit["memory"] = f"{pick.randint(1, 12)}Gi"
        if self._giants and pick.random() < 0.6:
            limit[pick.choice(("cpu", "memory", GPU))] = pick.choice(GIANTS)
        return limit

    def _queue(self) -> Manifest:
        spec: Manifest = {"weight": self._pick.choice((1, 1, 3, 2**31 - 1)), "reclaimable": self._pick.random() < 0.9}
        return spec | {"capability": self._limit(0.4, 3, 12), "deserved": self._limit(0.4, 1, 6)}

    def _elastic(self, name: str) -> Manifest:
        spec: Manifest = {"max": self._limit(1.0, 2, 9), "min": {"cpu": str(self._pick.choice((0, 1, 3)))}}
        return _object(_SIGS, "ElasticQuota", name, spec, namespace="koordinator-system")

    def _budget(self, app: str) -> Manifest:
        spec: Manifest = {"selector": {"matchLabels": {"app": app}}}
        raw = _object("policy/v1", "PodDisruptionBudget", f"budget-{app}", spec, namespace="default")
        return raw | {"status": {"disruptionsAllowed": self._pick.choice((0, 0, 1, 2))}}

    # -- gangs and pods

    def crowd(self, *, running: int, waiting: int) -> list[Manifest]:
        """So many gangs and single pods of each kind, running ones where there is room."""
        found: list[Manifest] = []
        for number in range(running + waiting):
            found += self.gang(runs=number < running)
        return found

    def gang(self, *, runs: bool) -> list[Manifest]:
        """A gang of some language, or a pod by itself; one that runs may have lost pods, which wait."""
        pick, number = self._pick, self._serial
        self._serial += 1
        name, language = f"g{number}", pick.choice(("volcano", "volcano", "koordinator", "koordinator", "none"))
        count = pick.randint(1, 4) if language != "none" else 1
        priority = pick.choice((0, 0, 1, 2)) if runs else pick.choice((0, 1, 5, 9))
        sizes = pick.sample(range(len(_SIZES)), pick.choice((1, 1, 2)))
        quota = pick.choice(("", "e0", "e1")) if language != "volcano" else ""
        firm, app = pick.random() < 0.1, pick.choice(("", "a", "b"))
        pods: list[Manifest] = []
        for i in range(count):
            asks = dict(_SIZES[pick.choice(sizes)]) if pick.random() < 0.93 else {}
            if not runs and self._giants and pick.random() < 0.08:
                asks[pick.choice(("cpu", "memory", GPU))] = pick.choice(GIANTS)
            labels = {"gang": name, "part": str(i // 2)} | ({"app": app} if app else {})
            labels |= {f"{_QUOTA}name": quota} if quota else {}
            labels |= {f"{_QUOTA}preemptible": "false"} if firm and quota else {}
            pods.append(self._pod(f"{name}-{i}", asks, labels, priority))
        least = pick.choice((count, count, pick.randint(1, count)))
        group = self._volcano(name, count, least, priority) if language == "volcano" else None
        group = self._koordinator(name, least) if language == "koordinator" else group
        for pod in pods if group is not None else ():
            meta: Manifest = pod["metadata"]
            if language == "volcano":
                meta["annotations"] = {"scheduling.k8s.io/group-name": name}
            else:
                meta["labels"] = {**meta["labels"], "pod-group.scheduling.sigs.k8s.io": name}
        if runs:
            self._settle(pods, group, broken=pick.random() < 0.25)
        return [*([group] if group else []), *pods]

    def _pod(self, name: str, asks: Manifest, labels: dict[str, str], priority: int) -> Manifest:
        pick = self._pick
        containers: list[Manifest] = [{"name": "main", "resources": {"requests": asks} if asks else {}}]
        spec: Manifest = {"containers": containers, "priority": priority}
        if pick.random() < 0.05:
            spec["preemptionPolicy"] = "Never"
        if pick.random() < 0.03:
            spec["priorityClassName"] = "system-node-critical"
        created = f"2026-01-01T00:00:{pick.randint(0, 59):02}Z"
        raw = _object("v1", "Pod", name, spec, namespace="default", labels=labels, creationTimestamp=created)
        return raw | {"status": {"phase": "Pending"}}

    def _volcano(self, name: str, count: int, least: int, priority: int) -> Manifest:
        pick = self._pick
        spec: Manifest = {"minMember": least, "queue": pick.choice(("default", "q0", "q1"))}
        spec["priorityClassName"] = f"p{priority}"
        tier = pick.choice((None, None, 1, 1, 2))
        if tier is not None:
            spec["networkTopology"] = {"mode": pick.choice(("hard", "hard", "soft")), "highestTierAllowed": tier}
        if count > 1 and pick.random() < 0.3:
            part: Manifest = {"name": "part", "subGroupSize": pick.randint(1, 2), "matchLabelKeys": ["part"]}
            part["minSubGroups"] = pick.randint(0, (count + 1) // 2)
            if pick.random() < 0.6:
                part["networkTopology"] = {"mode": "hard", "highestTierAllowed": 1}
            spec["subGroupPolicy"] = [part]
        if pick.random() < 0.15:
            spec["minResources"] = {"cpu": pick.choice(GIANTS) if self._giants else "2"}
        meta = {"namespace": "default", "creationTimestamp": f"2026-01-01T00:00:{pick.randint(0, 59):02}Z"}
        return _object(_VOLCANO, "PodGroup", name, spec, **meta) | {"status": {"phase": "Inqueue"}}

    def _koordinator(self, name: str, least: int) -> Manifest:
        pick = self._pick
        asks: Manifest = {
            "gatherStrategy": [{"layer": pick.choice(LAYERS), "strategy": pick.choice(("MustGather", "PreferGather"))}]
        }
        noted = {_GATHER: json.dumps(asks)} if pick.random() < 0.7 else {}
        meta = {"namespace": "default", "annotations": noted}
        return _object(_SIGS, "PodGroup", name, {"minMember": least}, **meta)

    def _settle(self, pods: list[Manifest], group: Manifest | None, *, broken: bool) -> None:
        """Put pods where there is room; a gang that runs has no limits on where, and has been whole."""
        spec: Manifest = group["spec"] if group is not None else {}
        spec.pop("networkTopology", None)
        for policy in spec.get("subGroupPolicy", ()):
            policy.pop("networkTopology", None)
        if group is not None and _GATHER in group["metadata"].get("annotations", {}):
            group["metadata"]["annotations"] = {}
        placed = []
        for pod in pods:
            asks = _asks(pod)
            here = [n for n in self.nodes if all(self._free[n].get(r, 0) >= k for r, k in asks.items())]
            if not here:
                continue
            node = self._pick.choice(here)
            for resource, number in asks.items():
                self._free[node][resource] -= number
            pod["spec"]["nodeName"] = node
            pod["status"] = {"phase": "Running"}
            placed.append(pod)
            if self._pick.random() < 0.06:
                pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:01:00Z"
        if broken:
            return  # those without a node wait for it to be healed
        pods[:] = placed
        if group is not None and len(placed) < spec["minMember"]:
            spec["minMember"] = max(1, len(placed))


def _asks(pod: Manifest) -> dict[str, int]:
    """What a drawn pod of an ordinary size asks for, in cores, bytes and whole things."""
    asks: Manifest = pod["spec"]["containers"][0]["resources"].get("requests", {})
    found = {"pods": 1}
    for resource, text in asks.items():
        whole = {"1500m": 2}.get(str(text))
        gib = str(text).endswith("Gi")
        found[resource] = whole or (int(str(text)[:-2]) << 30 if gib else int(str(text)))
    return found


def _hypernode(name: str, tier: int, kind: str, members: list[str]) -> Manifest:
    listed = [{"type": kind, "selector": {"exactMatch": {"name": member}}} for member in members]
    return _object("topology.volcano.sh/v1alpha1", "HyperNode", name, {"tier": tier, "members": listed})


def hostile(pick: Random) -> list[Manifest]:
    """Objects of a namespace of its own that can take nothing: nothing of them fits, or nothing in them is meant."""
    return [raw for raws in pick.sample(list(_hostile(pick)), pick.randint(1, 3)) for raw in raws]


def _hostile(pick: Random) -> Iterator[list[Manifest]]:
    giant = pick.choice(GIANTS)
    space = {"namespace": "evil"}

    def pod(name: str, requests: Manifest, **meta: object) -> Manifest:
        one: Manifest = {"name": "c", "resources": {"requests": requests}}
        spec: Manifest = {"priority": pick.choice((0, 9, 10**9)), "containers": [one, {**one, "name": "d"}]}
        return _object("v1", "Pod", name, spec, **space, **meta)

    everything: Manifest = {"cpu": giant, "memory": giant, GPU: giant}
    yield [pod(f"evil-{i}", everything) for i in range(3)]
    yield [
        _object(_VOLCANO, "PodGroup", "evil", {"minMember": 2**31 - 1, "minResources": everything}, **space),
        pod("evil-member", {"cpu": "1"}, annotations={"scheduling.k8s.io/group-name": "evil"}),
    ]
    yield [pod("evil-orphan", {"cpu": "1"}, annotations={"scheduling.k8s.io/group-name": "nobody"})]
    yield [
        _object(_SIGS, "PodGroup", "evil-k", {"minMember": 100}, **space, annotations={_GATHER: "{["}),
        pod("evil-k-0", {"cpu": "1"}, labels={"pod-group.scheduling.sigs.k8s.io": "evil-k"}),
    ]
    labels = {f"{_QUOTA}parent": "e0", f"{_QUOTA}is-parent": "true", f"{_QUOTA}tree-id": "t"}
    most: Manifest = {"max": everything, "min": everything}
    yield [_object(_SIGS, "ElasticQuota", name, most, **space, labels=labels) for name in ("e0", "e1", "default")]
    topology: Manifest = {"mode": "hard", "highestTierAllowed": 2**31 - 1, "highestTierName": "nowhere"}
    policy: Manifest = {"name": "p", "subGroupSize": 2**31 - 1, "minSubGroups": 2**31 - 1, "matchLabelKeys": ["part"]}
    spec: Manifest = {"minMember": 1, "networkTopology": topology, "subGroupPolicy": [policy]}
    yield [
        _object(_VOLCANO, "PodGroup", "evil-t", spec, **space),
        pod("evil-t-0", everything, annotations={"scheduling.k8s.io/group-name": "evil-t"}, labels={"part": "0"}),
    ]
    wide: Manifest = {"selector": {}, "maxUnavailable": 0}
    yield [_object("policy/v1", "PodDisruptionBudget", "evil", wide, **space) | {"status": {"disruptionsAllowed": 0}}]
    unfit = pod("evil-selector", {"cpu": "1"}, labels={"app": "a", "gang": "g0"})
    unfit["spec"]["nodeSelector"] = {"no": "node"}
    yield [unfit]
