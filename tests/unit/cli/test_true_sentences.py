"""Sentences that were once untrue, through the command line: what each says now of clusters of its kind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.commands import manifests, run

Raw = dict[str, Any]


def _node(name: str, **labels: str) -> Raw:
    status = {"allocatable": {"cpu": "1", "pods": "10"}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status}


def _pod(name: str, cpu: str = "1", *, on: str = "", priority: int = 0, **meta: Raw) -> Raw:
    asks = {"resources": {"requests": {"cpu": cpu}}} if cpu else {}
    spec: Raw = {"priority": priority, "containers": [{"name": "c", "image": "i", **asks}]}
    found = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default", **meta}}
    return {
        **found,
        "spec": spec | ({"nodeName": on} if on else {}),
        "status": {"phase": "Running" if on else "Pending"},
    }


def _hypernode(name: str, *nodes: str, tier: int = 1) -> Raw:
    members = [{"type": "Node", "selector": {"exactMatch": {"name": node}}} for node in nodes]
    kind = {"apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode", "metadata": {"name": name}}
    return {**kind, "spec": {"tier": tier, "members": members}}


def _child(name: str) -> Raw:
    return {"type": "HyperNode", "selector": {"exactMatch": {"name": name}}}


def _group(name: str, **spec: object) -> Raw:
    kind = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup"}
    return {**kind, "metadata": {"name": name, "namespace": "default"}, "spec": spec, "status": {"phase": "Inqueue"}}


def _member(name: str, group: str, cpu: str = "1", **labels: str) -> Raw:
    return _pod(name, cpu, annotations={"scheduling.k8s.io/group-name": group}, labels=labels)


def _config(folder: Path, actions: str) -> list[str]:
    plugins = ("priority", "gang", "conformance", "predicates", "coscheduling", "network-topology-aware")
    names = ", ".join(f"{{name: {plugin}}}" for plugin in plugins)
    file = folder / "scheduler.conf"
    file.write_text(f'actions: "{actions}"\ntiers:\n- plugins: [{names}]\n')
    return ["--config", str(file)]


def _messages(folder: Path, *objects: Raw, actions: str = "enqueue, allocate, backfill") -> dict[str, str]:
    words = ["schedule", "-f", str(manifests(folder, *objects)), *_config(folder, actions), "-o", "json"]
    return {row["pod"]: row["message"] for row in json.loads(run(*words).stdout)["pending"]}


ZONES = [_node(f"n{i}") for i in range(6)]
ZONES += [_hypernode(f"z{i}", f"n{2 * i}", f"n{2 * i + 1}") for i in range(3)]


@pytest.mark.parametrize(("outer", "place"), [(None, "it would have no place for"), (1, "")])
def test_sub_groups_that_fit_no_zone_are_not_said_to_be_too_many_pods(
    tmp_path: Path, outer: int | None, place: str
) -> None:
    """Six nodes hold six pods; what they do not hold is two sub-groups of three in zones of two."""
    policy = {"name": "p", "subGroupSize": 3, "minSubGroups": 2, "matchLabelKeys": ["part"]}
    policy["networkTopology"] = {"mode": "hard", "highestTierAllowed": 1}
    whole = {"networkTopology": {"mode": "hard", "highestTierAllowed": outer}} if outer else {}
    pods = [_member(f"w{i}", "g", part=str(i // 3)) for i in range(6)]
    said = _messages(tmp_path, *ZONES, _group("g", minMember=6, subGroupPolicy=[policy], **whole), *pods)["default/w0"]

    assert "not hold its 6 pods" not in said
    assert said.startswith("even if the cluster were empty, ")
    assert place in said
    assert "its 6 pods in sub-groups of 3" in said


@pytest.mark.parametrize("action", ["preempt", "gangpreempt", "jobpreempt", "podpreempt", "quotapreempt"])
def test_who_is_marked_to_evict_nobody_hears_of_that_mark(tmp_path: Path, action: str) -> None:
    """The label of Koordinator is named where it is the cause, and no policy that the pod does not have."""
    mark = "quota.scheduling.koordinator.sh/can-preempible"
    pods = [_pod("v", on="n0"), _pod("p", priority=9, labels={mark: "false"})]
    said = _messages(tmp_path, _node("n0"), *pods, actions=f"enqueue, allocate, {action}")["default/p"]

    assert f"{action}: it must not cause evictions (label {mark} is false)" in said
    assert "preemptionPolicy" not in said


def test_the_whole_cluster_has_no_tier_and_no_made_up_name(tmp_path: Path) -> None:
    """A gang that only the root of the tree holds is told so in plain words."""
    pods = [_member(f"w{i}", "g") for i in range(6)]
    cluster = str(manifests(tmp_path, *ZONES, _group("g", minMember=6, networkTopology={"mode": "soft"}), *pods))
    shown = run("schedule", "-f", cluster).stdout + run("explain", "-f", cluster, "--job", "default/g").stdout

    assert "only the whole cluster holds the gang" in shown
    assert "tier 2" not in shown
    assert "cluster-top" not in shown


def _layers(strategy: str, number: int) -> list[Raw]:
    """A gang that is gathered by racks of a ClusterNetworkTopology, which cross the hyperNodes."""
    nodes = [_node(f"n{i}", rack=f"r{i // 2}", spine="s0") for i in range(4)]
    names = [
        ("SpineLayer", "", ["spine"]),
        ("RackLayer", "SpineLayer", ["rack"]),
        ("NodeTopologyLayer", "RackLayer", []),
    ]
    layers = [
        {"topologyLayer": own}
        | ({"parentTopologyLayer": above} if above else {})
        | ({"labelKey": keys} if keys else {})
        for own, above, keys in names
    ]
    koordinator = "scheduling.koordinator.sh/v1alpha1"
    tree = {"apiVersion": koordinator, "kind": "ClusterNetworkTopology", "metadata": {"name": "default"}}
    tree["spec"] = {"networkTopologySpec": layers}
    asked = json.dumps({"gatherStrategy": [{"layer": "RackLayer", "strategy": strategy}]})
    meta = {"name": "g", "namespace": "default"}
    meta["annotations"] = {"gang.scheduling.koordinator.sh/network-topology-spec": asked}  # type: ignore[assignment]
    group = {"apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "PodGroup", "metadata": meta}
    group["spec"] = {"minMember": number}
    pods = [_pod(f"g-{i}", labels={"pod-group.scheduling.sigs.k8s.io": "g"}) for i in range(number)]
    return [*nodes, _hypernode("h0", "n0", "n2"), _hypernode("h1", "n1", "n3"), tree, group, *pods]


@pytest.mark.parametrize(
    ("strategy", "number", "place"),
    [
        ("MustGather", 2, "r0, tier 1 (RackLayer) of ClusterNetworkTopology"),
        ("PreferGather", 3, "s0, tier 2 (SpineLayer) of ClusterNetworkTopology"),
    ],
)
def test_a_gang_of_another_tree_is_where_that_tree_has_it(
    tmp_path: Path, strategy: str, number: int, place: str
) -> None:
    """Beside HyperNodes that its racks cross, a gathered gang is not said to be in the whole cluster."""
    cluster = str(manifests(tmp_path, *_layers(strategy, number)))
    shown = run("schedule", "-f", cluster).stdout
    story = run("explain", "-f", cluster, "--job", "default/g").stdout

    assert f"{number} of {number} pods in {place}" in shown
    assert f"cycle 1 found {place}" in story
    assert "whole cluster" not in shown + story


def test_pods_that_ask_for_nothing_hear_that_nobody_serves_them(tmp_path: Path) -> None:
    """Alone, in a gang of their own, or beside others of their gang that run: more cycles would not help."""
    pods = [_pod("q", ""), _member("p", "g", ""), _member("a", "h"), _member("b", "h", "")]
    objects = [_node("n0"), _group("g", minMember=1), _group("h", minMember=1), *pods]
    said = _messages(tmp_path, *objects, actions="enqueue, allocate")
    served = _messages(tmp_path, *objects)

    told = "no action of the profile looks for a place for pods that ask for nothing (backfill does)"
    assert dict.fromkeys(("default/q", "default/p", "default/b"), told) == said
    assert {} == served


@pytest.mark.parametrize("verb", ["validate", "schedule"])
def test_a_pod_that_is_claimed_twice_is_told_which_claim_counts(tmp_path: Path, verb: str) -> None:
    """Volcano's annotation comes before Koordinator's label."""
    both = _member("p", "g", "1", **{"pod-group.scheduling.sigs.k8s.io": "h"})
    shown = run(verb, "-f", str(manifests(tmp_path, _node("n0"), _group("g", minMember=1), both)))

    text = " ".join((shown.stdout + shown.stderr).split())
    assert "names several groups: default/g counts, and default/h (scheduling.sigs.k8s.io) does not" in text


RACKS = [_node(f"n{i}") for i in range(4)]
RACKS += [_hypernode(f"r{i}", f"n{2 * i}", f"n{2 * i + 1}") for i in range(2)]
RACKS += [_hypernode("s0", tier=2) | {"spec": {"tier": 2, "members": [_child("r0"), _child("r1")]}}]


def _parts(name: str, size: int, number: int) -> list[Raw]:
    """A gang of sub-groups that must each be in one rack."""
    limit = {"mode": "hard", "highestTierAllowed": 1}
    policy = {"name": "p", "subGroupSize": size, "matchLabelKeys": ["part"], "networkTopology": limit}
    outer = {"mode": "hard", "highestTierAllowed": 2}
    group = _group(name, minMember=size * number, networkTopology=outer, subGroupPolicy=[policy])
    return [group, *(_member(f"{name}-{i}-{j}", name, part=str(i)) for i in range(number) for j in range(size))]


def test_a_sub_group_that_no_rack_holds_does_not_fit_by_itself(tmp_path: Path) -> None:
    """The spine has room for its pods, and they may not be spread over it."""
    text = _messages(tmp_path, *RACKS, *_parts("g", 3, 1))["default/g-0-0"]

    assert "tier 2: in s0, the only hyperNode: 0 of 1 sub-group would fit (of 3 pods)" in text
    assert "by itself" not in text


def test_nodes_are_full_only_where_all_pods_are_too_many(tmp_path: Path) -> None:
    """Four nodes with room for six pods of one node each would not be full; two racks of two are no place for three."""
    wide = [*RACKS, *(_node(f"n{i}") for i in range(4, 8))]
    wide += [_hypernode("r2", "n4", "n5"), _hypernode("r3", "n6", "n7")]
    wide += [_hypernode("s1", tier=2) | {"spec": {"tier": 2, "members": [_child("r2"), _child("r3")]}}]
    wide += [_hypernode("top", tier=3) | {"spec": {"tier": 3, "members": [_child("s0"), _child("s1")]}}]
    group, *pods = _parts("g", 3, 2)
    group["spec"]["networkTopology"]["highestTierAllowed"] = 3
    text = _messages(tmp_path, *wide, group, *pods)["default/g-0-0"]

    assert "tier 3: in top, the only hyperNode: 0 of 2 sub-groups would fit (of 3 pods each);" in text
    assert "tier 2: best of 2 hyperNodes is s0: 0 of 2 sub-groups would fit (of 3 pods each) (4 nodes then" in text


def test_what_limits_nothing_was_looked_for_everywhere(tmp_path: Path) -> None:
    """No hyperNode has the tier name, so no hyperNode was asked whether it holds the gang."""
    limit = {"mode": "hard", "highestTierName": "nope"}
    file = manifests(tmp_path, *RACKS, _group("g", minMember=1, networkTopology=limit), _member("g-0", "g"))
    text = run("schedule", "-f", file).stdout

    assert "looked for in the whole cluster" in text
    assert "holds the gang" not in text
