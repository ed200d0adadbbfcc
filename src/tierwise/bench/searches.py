"""Rows about gangs that are not placed by counting one group: nested, gathered, on two fabrics, of unlike sub-groups.

Each is one gang alone at nodes of which three in ten are in use by half, read from manifests in the language that has
such gangs; a row is what the cycle takes that places it. Seconds are processor time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence

from tierwise.bench.lab import Lab
from tierwise.bench.manifests import Manifest, read_manifests
from tierwise.bench.measure import Goal, Row, at_most, in_turns
from tierwise.config.profile import DEFAULT
from tierwise.model.snapshot import Snapshot
from tierwise.scheduler import cycle
from tierwise.snapshot.builder import build

__all__ = ["g1a", "g1b", "g2a", "g2b", "g3", "g4"]

_GPU = "nvidia.com/gpu"
_RACK, _LEAF, _FEEDS = 16, 256, 8  # nodes in a rack and below a leaf, power feeds
_LAYERS = (("RackLayer", "rack"), ("LeafLayer", "leaf"))
_GATHER = "gang.scheduling.koordinator.sh/network-topology-spec"


def g1a(lab: Lab) -> Row:
    """Groups of groups, all of them alike."""
    groups = max(1, lab.size.gang // 128)
    pods = [[8] * 16] * groups
    what = f"ms for a nested gang of {groups} × 16 groups of 8 pods at {lab.size.small:,} nodes"
    return _row(lab, "G1a", what, _nested(pods), ("labels",), at_most(100, 20))


def g1b(lab: Lab) -> Row:
    """The same, no two neighbours alike."""
    groups = max(1, lab.size.gang // 128)
    pods = [[4 + 4 * ((i + j) % 3) for j in range(16)] for i in range(groups)]
    what = f"ms for a nested gang of {groups} × 16 groups of 4, 8 or 12 pods at {lab.size.small:,} nodes"
    return _row(lab, "G1b", what, _nested(pods), ("labels",), at_most(200, 50))


def g2a(lab: Lab) -> Row:
    """Koordinator's strategies together: within a layer, in multiples, in pipelines."""
    rules: list[Manifest] = [
        {"layer": "LeafLayer", "strategy": "MustGather"},
        {"layer": "RackLayer", "strategy": "PreferGather", "podCountMultiple": 8},
    ]
    what = f"ms for a gathered gang of {lab.size.gang} pods in pipelines of 8 at {lab.size.small:,} nodes"
    return _row(lab, "G2a", what, _gathered(lab.size.gang, 0, rules, 8), ("layers",), at_most(50, 10))


def g2b(lab: Lab) -> Row:
    """Pods of two sizes in multiples."""
    large, small = max(2, lab.size.gang // 64), lab.size.gang // 4
    rules: list[Manifest] = [
        {"layer": "LeafLayer", "strategy": "MustGather"},
        {"layer": "RackLayer", "strategy": "PreferGather", "podCountMultiple": 2},
    ]
    what = f"ms for a gathered gang of {large} large and {small} small pods in pairs at {lab.size.small:,} nodes"
    return _row(lab, "G2b", what, _gathered(small, large, rules, 0), ("layers",), at_most(200, 50))


def g3(lab: Lab) -> Row:
    """Limits on two trees that cross."""
    groups = max(2, lab.size.gang // 8)
    listed = [{"fabric": "power", "tier": 1, "subGroup": "part"}, {"fabric": "power", "tier": 1, "spread": 2}]
    gang = _volcano([(groups, 4)], listed)
    what = f"ms for a gang of {groups} groups of 4 pods on two fabrics at {lab.size.small:,} nodes"
    return _row(lab, "G3", what, gang, ("racks", "feeds"), at_most(500, 100))


def g4(lab: Lab) -> Row:
    """Sub-groups of many sizes, each in a rack."""
    each = max(2, lab.size.gang * 125 // 512)
    what = f"ms for a gang of {4 * each} sub-groups of 1 to 4 pods at {lab.size.small:,} nodes"
    gang = _volcano([(each, size) for size in (4, 1, 3, 2)], [])
    return _row(lab, "G4", what, gang, ("racks",), at_most(5_000, 100))


# -- measuring


def _row(lab: Lab, name: str, what: str, gang: list[Manifest], trees: tuple[str, ...], goal: Goal) -> Row:
    snapshot = build(read_manifests([*_cluster(lab.size.small, trees), *gang]), 0.0)
    pods = sum(raw["kind"] == "Pod" for raw in gang)
    (seconds,) = in_turns(max(2, lab.size.repeats // 5), _placing(snapshot, pods))
    return Row(name, what, seconds * 1e3, goal)


def _placing(snapshot: Snapshot, pods: int) -> Callable[[], None]:
    def place() -> None:
        if sum(decision.count() for decision in cycle(snapshot, DEFAULT).decisions if decision.bound) != pods:
            raise RuntimeError("the gang is meant to fit, and was refused")

    return place


# -- clusters


def _cluster(nodes: int, trees: Sequence[str]) -> Iterator[Manifest]:
    """Nodes of eight GPUs in racks below leaves, and on power feeds that cross them; the trees that are declared."""
    for i in range(nodes):
        labels = {"leaf": f"l{i // _LEAF}", "rack": f"r{i // _RACK}", "feed": f"f{i % _FEEDS}"}
        status = {"allocatable": {"cpu": "128", _GPU: "8", "pods": "110"}}
        yield {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"n{i}", "labels": labels}, "status": status}
        if i % 10 < 3:
            yield _pod(f"busy-{i}", 4, on=f"n{i}")
    if "labels" in trees:
        levels = [{"nodeLabel": key} for key in ("leaf", "rack")]
        yield _object("kai.scheduler/v1alpha1", "Topology", "net", {"levels": levels})
    if "layers" in trees:
        listed: list[Manifest] = [{"topologyLayer": "NodeTopologyLayer", "parentTopologyLayer": "RackLayer"}]
        for (layer, label), (parent, _) in zip(_LAYERS, (*_LAYERS[1:], ("", "")), strict=True):
            listed.append({"topologyLayer": layer, "parentTopologyLayer": parent, "labelKey": [label]})
        spec = {"networkTopologySpec": listed}
        yield _object("scheduling.koordinator.sh/v1alpha1", "ClusterNetworkTopology", "default", spec)
    if "racks" in trees:
        yield from (_domain(f"r{i}", "rack", {}) for i in range(-(-nodes // _RACK)))
    if "feeds" in trees:
        yield from (_domain(f"f{i}", "feed", {"tierwise.io/fabric": "power"}) for i in range(_FEEDS))


def _domain(name: str, key: str, labels: dict[str, str]) -> Manifest:
    members = [{"type": "Node", "selector": {"labelMatch": {"matchLabels": {key: name}}}}]
    raw = _object("topology.volcano.sh/v1alpha1", "HyperNode", name, {"tier": 1, "members": members})
    raw["metadata"]["labels"] = labels
    return raw


# -- gangs


def _nested(groups: Sequence[Sequence[int]]) -> list[Manifest]:
    """A gang of KAI's: each group below one leaf, each of its parts in one rack."""
    subs: list[Manifest] = []
    pods: list[Manifest] = []
    for i, parts in enumerate(groups):
        subs.append({"name": f"m{i}", "minMember": 0, "minSubGroup": len(parts), "topologyConstraint": _near("leaf")})
        for j, size in enumerate(parts):
            name = f"m{i}p{j}"
            subs.append({"name": name, "parent": f"m{i}", "minMember": size, "topologyConstraint": _near("rack")})
            for k in range(size):
                pods.append(_pod(f"g-{name}-{k}", 1))
                pods[-1]["metadata"]["labels"] = {"kai.scheduler/subgroup-name": name}
                pods[-1]["metadata"]["annotations"] = {"pod-group-name": "g"}
    spec: Manifest = {"minMember": 1, "minSubGroup": len(groups), "subGroups": subs}
    return [_object("scheduling.run.ai/v2alpha2", "PodGroup", "g", spec), *pods]


def _near(key: str) -> Manifest:
    return {"topology": "net", "requiredTopologyLevel": key}


def _gathered(small: int, large: int, rules: list[Manifest], pipeline: int) -> list[Manifest]:
    """A gang of Koordinator's, so many of its pods with one GPU and so many with two."""
    asked: Manifest = {"gatherStrategy": rules}
    if pipeline:
        asked["parallelModel"] = [{"parallelStrategy": "pipeline-parallel", "parallelism": pipeline}]
    group = _object("scheduling.sigs.k8s.io/v1alpha1", "PodGroup", "g", {"minMember": small + large})
    group["metadata"]["annotations"] = {_GATHER: json.dumps(asked)}
    pods = [_pod(f"g-{i}", 1 if i < small else 2) for i in range(small + large)]
    for raw in pods:
        raw["metadata"]["labels"] = {"pod-group.scheduling.sigs.k8s.io": "g"}
    return [group, *pods]


def _volcano(sizes: Sequence[tuple[int, int]], listed: list[Manifest]) -> list[Manifest]:
    """A gang of Volcano's with so many sub-groups of each size, each in one rack, and further constraints."""
    policies: list[Manifest] = []
    pods: list[Manifest] = []
    for number, (count, size) in enumerate(sizes):
        name = "part" if len(sizes) == 1 else f"part{number}"
        near = {"mode": "hard", "highestTierAllowed": 1}
        policy = {"name": name, "subGroupSize": size, "minSubGroups": count, "matchLabelKeys": [name]}
        policies.append({**policy, "networkTopology": near})
        for i in range(count):
            for j in range(size):
                pods.append(_pod(f"g-{name}-{i}-{j}", 1))
                pods[-1]["metadata"]["labels"] = {name: str(i)}
                pods[-1]["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": "g"}
    spec = {"minMember": len(pods), "queue": "default", "subGroupPolicy": policies}
    group = _object("scheduling.volcano.sh/v1beta1", "PodGroup", "g", spec)
    group["status"] = {"phase": "Inqueue"}
    if listed:
        group["metadata"]["annotations"] = {"tierwise.io/topology-constraints": json.dumps(listed)}
    return [group, *pods]


def _object(version: str, kind: str, name: str, spec: Manifest) -> Manifest:
    meta: Manifest = {"name": name} if kind in ("Topology", "HyperNode") else {"name": name, "namespace": "d"}
    return {"apiVersion": version, "kind": kind, "metadata": meta, "spec": spec}


def _pod(name: str, gpus: int, on: str = "") -> Manifest:
    asks = {"resources": {"requests": {"cpu": "4", _GPU: str(gpus)}}}
    raw = _object("v1", "Pod", name, {"schedulerName": "tierwise", "containers": [{"name": "main", **asks}]})
    if on:
        raw["spec"]["nodeName"] = on
    return {**raw, "status": {"phase": "Running" if on else "Pending"}}
