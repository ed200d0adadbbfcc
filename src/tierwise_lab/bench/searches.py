"""Rows about gangs that are not placed by counting one group: nested, gathered, on two fabrics, of unlike sub-groups.

Each is one gang alone at nodes of which three in ten are in use by half, read from manifests in the language that has
such gangs; a row is what the cycle takes that places it. Seconds are processor time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from tierwise.config.profile import DEFAULT
from tierwise.model.snapshot import Snapshot
from tierwise.scheduler import cycle
from tierwise.snapshot.builder import build
from tierwise_lab.bench.lab import Lab, Measured, row
from tierwise_lab.bench.manifests import Manifest, manifest, read_manifests
from tierwise_lab.bench.measure import at_most, in_turns

_GPU = "nvidia.com/gpu"
_RACK, _LEAF, _LINK, _FEEDS = 16, 256, 18, 8  # nodes in a rack, below a leaf and on one NVLink; power feeds
_LAYERS = (("RackLayer", "rack"), ("LeafLayer", "leaf"))
_GATHER = "gang.scheduling.koordinator.sh/network-topology-spec"


@row("G1a", at_most(100, 20))
def _g1a(lab: Lab) -> Measured:
    """Groups of groups, all of them alike."""
    groups = max(1, lab.size.gang // 128)
    pods = [[8] * 16] * groups
    what = f"ms for a nested gang of {groups} × 16 groups of 8 pods at {lab.size.small:,} nodes"
    return what, _milliseconds(lab, _nested(pods), ("labels",))


@row("G1b", at_most(200, 50))
def _g1b(lab: Lab) -> Measured:
    """Groups of groups, no two neighbours alike."""
    groups = max(1, lab.size.gang // 128)
    pods = [[4 + 4 * ((i + j) % 3) for j in range(16)] for i in range(groups)]
    what = f"ms for a nested gang of {groups} × 16 groups of 4, 8 or 12 pods at {lab.size.small:,} nodes"
    return what, _milliseconds(lab, _nested(pods), ("labels",))


@row("G2a", at_most(50, 10))
def _g2a(lab: Lab) -> Measured:
    """Koordinator's strategies together: within a layer, in multiples, in pipelines."""
    rules: list[Manifest] = [
        {"layer": "LeafLayer", "strategy": "MustGather"},
        {"layer": "RackLayer", "strategy": "PreferGather", "podCountMultiple": 8},
    ]
    what = f"ms for a gathered gang of {lab.size.gang} pods in pipelines of 8 at {lab.size.small:,} nodes"
    return what, _milliseconds(lab, _gathered(lab.size.gang, 0, rules, 8), ("layers",))


@row("G2b", at_most(200, 50))
def _g2b(lab: Lab) -> Measured:
    """Pods of two sizes in multiples."""
    large = max(2, lab.size.gang // 64)
    small = lab.size.gang // 4
    rules: list[Manifest] = [
        {"layer": "LeafLayer", "strategy": "MustGather"},
        {"layer": "RackLayer", "strategy": "PreferGather", "podCountMultiple": 2},
    ]
    what = f"ms for a gathered gang of {large} large and {small} small pods in pairs at {lab.size.small:,} nodes"
    return what, _milliseconds(lab, _gathered(small, large, rules, 0), ("layers",))


@row("G3", at_most(500, 100))
def _g3(lab: Lab) -> Measured:
    """Limits on two trees that cross."""
    groups = max(2, lab.size.gang // 8)
    listed = [{"fabric": "power", "tier": 1, "subGroup": "part"}, {"fabric": "power", "tier": 1, "spread": 2}]
    gang = _volcano([(groups, 4)], listed)
    what = f"ms for a gang of {groups} groups of 4 pods on two fabrics at {lab.size.small:,} nodes"
    return what, _milliseconds(lab, gang, ("racks", "feeds"))


@row("G4", at_most(5_000, 100))
def _g4(lab: Lab) -> Measured:
    """Sub-groups of many sizes, each in a rack."""
    groups_each = max(2, lab.size.gang * 125 // 512)
    what = f"ms for a gang of {4 * groups_each} sub-groups of 1 to 4 pods at {lab.size.small:,} nodes"
    gang = _volcano([(groups_each, size) for size in (4, 1, 3, 2)], [])
    return what, _milliseconds(lab, gang, ("racks",))


@row("G5", at_most(1_000, 200))
def _g5(lab: Lab) -> Measured:
    """Measure the milliseconds of a cycle that refuses ten gangs: three fabrics have no room for them, but would have
    on empty nodes.
    """
    nodes = lab.size.small * 9 // 25
    gangs = 10
    listed = [{"fabric": "nvlink", "tier": 1, "subGroup": "part"}, {"fabric": "power", "tier": 1, "spread": 3}]
    waiting = []
    for i in range(gangs):
        waiting.extend(_volcano([(4, 4)], listed, name=f"g{i}", gpus=8))
    full = []
    for i in range(nodes):
        if i * 2654435761 % 100 < 85:
            full.append(_pod(f"full-{i}", 4, on=f"n{i}"))
    seen = build(read_manifests([*_cluster(nodes, ("racks", "feeds", "links")), *full, *waiting]), 0.0)
    if cycle(seen, DEFAULT).decisions:
        raise RuntimeError("every gang is meant to be refused")
    (seconds,) = in_turns(max(2, lab.size.repeats // 5), partial(cycle, seen, DEFAULT))
    return f"ms for {gangs} gangs that three fabrics at {nodes:,} nodes have no room for", seconds * 1e3


# -- measuring


def _milliseconds(lab: Lab, gang: list[Manifest], trees: tuple[str, ...]) -> float:
    snapshot = build(read_manifests([*_cluster(lab.size.small, trees), *gang]), 0.0)
    pods = sum(raw["kind"] == "Pod" for raw in gang)
    (seconds,) = in_turns(max(2, lab.size.repeats // 5), _placing(snapshot, pods))
    return seconds * 1e3


def _placing(snapshot: Snapshot, pods: int) -> Callable[[], None]:
    def place() -> None:
        if sum(decision.count() for decision in cycle(snapshot, DEFAULT).decisions if decision.bound) != pods:
            raise RuntimeError("the gang is meant to fit, and was refused")

    return place


# -- clusters


def _cluster(nodes: int, trees: Sequence[str]) -> Iterator[Manifest]:
    """Nodes of eight GPUs in racks below leaves, and on power feeds that cross them; the trees that are declared."""
    for i in range(nodes):
        labels = {
            "leaf": f"l{i // _LEAF}",
            "rack": f"r{i // _RACK}",
            "feed": f"f{i % _FEEDS}",
            "link": f"k{i // _LINK}",
        }
        status = {"allocatable": {"cpu": "128", _GPU: "8", "pods": "110"}}
        yield manifest("v1", "Node", f"n{i}", labels=labels, status=status)
        if i % 10 < 3:
            yield _pod(f"busy-{i}", 4, on=f"n{i}")
    if "labels" in trees:
        levels = [{"nodeLabel": key} for key in ("leaf", "rack")]
        yield manifest("kai.scheduler/v1alpha1", "Topology", "net", spec={"levels": levels})
    if "layers" in trees:
        listed: list[Manifest] = [{"topologyLayer": "NodeTopologyLayer", "parentTopologyLayer": "RackLayer"}]
        for (layer, label), (parent, _) in zip(_LAYERS, (*_LAYERS[1:], ("", "")), strict=True):
            listed.append({"topologyLayer": layer, "parentTopologyLayer": parent, "labelKey": [label]})
        spec = {"networkTopologySpec": listed}
        yield manifest("scheduling.koordinator.sh/v1alpha1", "ClusterNetworkTopology", "default", "d", spec=spec)
    if "racks" in trees:
        yield from (_domain(f"r{i}", "rack", {}) for i in range(-(-nodes // _RACK)))
    if "feeds" in trees:
        yield from (_domain(f"f{i}", "feed", {"tierwise.io/fabric": "power"}) for i in range(_FEEDS))
    if "links" in trees:
        yield from (_domain(f"k{i}", "link", {"tierwise.io/fabric": "nvlink"}) for i in range(-(-nodes // _LINK)))


def _domain(name: str, key: str, labels: dict[str, str]) -> Manifest:
    members = [{"type": "Node", "selector": {"labelMatch": {"matchLabels": {key: name}}}}]
    spec = {"tier": 1, "members": members}
    return manifest("topology.volcano.sh/v1alpha1", "HyperNode", name, labels=labels, spec=spec)


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
                labels = {"kai.scheduler/subgroup-name": name}
                pods.append(_pod(f"g-{name}-{k}", 1, labels=labels, marks={"pod-group-name": "g"}))
    spec: Manifest = {"minMember": 1, "minSubGroup": len(groups), "subGroups": subs}
    return [manifest("scheduling.run.ai/v2alpha2", "PodGroup", "g", "d", spec=spec), *pods]


def _near(key: str) -> Manifest:
    return {"topology": "net", "requiredTopologyLevel": key}


def _gathered(small: int, large: int, rules: list[Manifest], pipeline: int) -> list[Manifest]:
    """A gang of Koordinator's, so many of its pods with one GPU and so many with two."""
    strategy: Manifest = {"gatherStrategy": rules}
    if pipeline:
        strategy["parallelModel"] = [{"parallelStrategy": "pipeline-parallel", "parallelism": pipeline}]
    marks = {_GATHER: json.dumps(strategy)}
    spec = {"minMember": small + large}
    labels = {"pod-group.scheduling.sigs.k8s.io": "g"}
    pods = [_pod(f"g-{i}", 1 if i < small else 2, labels=labels) for i in range(small + large)]
    return [manifest("scheduling.sigs.k8s.io/v1alpha1", "PodGroup", "g", "d", marks=marks, spec=spec), *pods]


def _volcano(
    sizes: Sequence[tuple[int, int]], listed: list[Manifest], *, name: str = "g", gpus: int = 1
) -> list[Manifest]:
    """A gang of Volcano's with so many sub-groups of each size, each in one rack, and further constraints."""
    policies: list[Manifest] = []
    pods: list[Manifest] = []
    for number, (count, size) in enumerate(sizes):
        part = "part" if len(sizes) == 1 else f"part{number}"
        near = {"mode": "hard", "highestTierAllowed": 1}
        policy = {"name": part, "subGroupSize": size, "minSubGroups": count, "matchLabelKeys": [part]}
        policies.append({**policy, "networkTopology": near})
        for i in range(count):
            for j in range(size):
                marks = {"scheduling.k8s.io/group-name": name}
                pods.append(_pod(f"{name}-{part}-{i}-{j}", gpus, labels={part: str(i)}, marks=marks))
    spec = {"minMember": len(pods), "queue": "default", "subGroupPolicy": policies}
    annotations = {"tierwise.io/topology-constraints": json.dumps(listed)} if listed else {}
    version = "scheduling.volcano.sh/v1beta1"
    status = {"phase": "Inqueue"}
    return [manifest(version, "PodGroup", name, "d", marks=annotations, spec=spec, status=status), *pods]


def _pod(name: str, gpus: int, on: str = "", **meta: object) -> Manifest:
    container = {"name": "main", "resources": {"requests": {"cpu": "4", _GPU: str(gpus)}}}
    spec = {"schedulerName": "tierwise", "containers": [container], **({"nodeName": on} if on else {})}
    return manifest("v1", "Pod", name, "d", spec=spec, status={"phase": "Running" if on else "Pending"}, **meta)
