"""Each promise of the auditor: kept where it is kept, and found broken where it is not."""

from __future__ import annotations

from typing import Any

import pytest
import re2
from tests.contract.manifests import node, pod, pod_group

from tierwise.api import codec
from tierwise.audit import audit
from tierwise.port import Objects

Json = dict[str, Any]


def _rules(*manifests: Json) -> list[tuple[str, str]]:
    objects = Objects.of((codec.decode(m), m) for m in manifests)
    return [(finding.rule, finding.subject) for finding in audit(objects)]


def _hypernode(name: str, tier: int, *members: str, kind: str = "Node") -> Json:
    spec = {
        "tier": tier,
        "members": [{"type": kind, "selector": {"exactMatch": {"name": member}}} for member in members],
    }
    return {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": name},
        "spec": spec,
    }


NODES = [node(f"n{i}") for i in range(4)]
TREE = [
    _hypernode("r0", 1, "n0", "n1"),
    _hypernode("r1", 1, "n2", "n3"),
    _hypernode("s0", 2, "r0", "r1", kind="HyperNode"),
]


def test_full_node_is_fine_and_one_more_is_not() -> None:
    """A node may be filled to the last of what it has."""
    full = [pod(f"p{i}", cpu="4", on="n0") for i in range(2)]

    assert [] == _rules(node("n0"), *full)
    assert [("oversubscribed", "Node n0")] == _rules(node("n0"), *full, pod("more", cpu="1m", on="n0"))


def test_ended_pods_take_no_room_and_leaving_ones_do() -> None:
    """A pod takes up room until it has ended, also while it terminates."""
    ended, leaving = pod("e", cpu="8", on="n0"), pod("l", cpu="8", on="n0")
    ended["status"]["phase"] = "Succeeded"
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"

    assert [] == _rules(node("n0"), ended, pod("p", cpu="8", on="n0"))
    assert [("oversubscribed", "Node n0")] == _rules(node("n0"), leaving, pod("p", cpu="8", on="n0"))


def test_init_containers_and_sidecars_count() -> None:
    """A sidecar adds to the containers, another init container counts by itself beside the sidecars before it."""
    heavy = pod("p", cpu="5", on="n0")
    sidecar = {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "2"}}}
    heavy["spec"]["initContainers"] = [sidecar, {"name": "i", "resources": {"requests": {"cpu": "6"}}}]

    assert [] == _rules(node("n0", cpu="8"), heavy)
    assert [("oversubscribed", "Node n0")] == _rules(node("n0", cpu="7"), heavy)


def test_a_sidecar_runs_beside_the_containers() -> None:
    """Where no other init container asks for more, the two are added up."""
    beside = pod("p", cpu="5", on="n0")
    beside["spec"]["initContainers"] = [
        {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "2"}}}
    ]

    assert [] == _rules(node("n0", cpu="7"), beside)
    assert [("oversubscribed", "Node n0")] == _rules(node("n0", cpu="6"), beside)


def test_unknown_node_is_found() -> None:
    """A pod cannot stand where nothing is."""
    assert [("unknown-node", "Pod default/p")] == _rules(node("n0"), pod("p", on="gone"))


@pytest.mark.parametrize(("standing", "broken"), [(0, False), (1, True), (2, False), (3, False)])
def test_gang_is_whole_or_absent(standing: int, broken: bool) -> None:
    """Nothing between none and the minimum."""
    pods = [pod(f"p{i}", group="g", on="n0" if i < standing else "") for i in range(3)]

    assert ([("part-of-gang", "PodGroup default/g")] if broken else []) == _rules(NODES[0], pod_group("g", 2), *pods)


def test_pod_that_leaves_is_no_longer_one_of_its_gang() -> None:
    """It still takes up room, but a gang of which it is needed does not stand."""
    leaving = pod("p1", group="g", on="n0")
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"

    part = [("part-of-gang", "PodGroup default/g")]
    assert part == _rules(NODES[0], pod_group("g", 2), pod("p0", group="g", on="n0"), leaving)


def test_mark_of_a_part_counts_more_than_a_phase() -> None:
    """A gang that was bound in part and is said to run was never whole."""
    group = pod_group("g", 2, status={"phase": "Running"})
    group["metadata"]["annotations"] = {"tierwise.io/partial-since": "2026-01-01T00:00:00Z"}

    assert [("part-of-gang", "PodGroup default/g")] == _rules(NODES[0], group, pod("p0", group="g", on="n0"))


def test_sub_groups_stand_whole() -> None:
    """Enough pods in all, but not enough in as many sub-groups as are needed."""
    group = pod_group("g", 4)
    policy = {"name": "part", "subGroupSize": 2, "minSubGroups": 2, "matchLabelKeys": ["index"]}
    group["spec"]["subGroupPolicy"] = [policy]
    pods = [pod(f"p{i}", group="g", on="n0") for i in range(4)]
    for i, found in enumerate(pods):
        found["metadata"]["labels"] = {"index": str(i // 2)}
    assert [] == _rules(NODES[0], group, *pods)
    pods[2]["metadata"]["labels"]["index"] = "0"

    assert [("part-of-gang", "PodGroup default/g")] == _rules(NODES[0], group, *pods)


def test_sub_groups_of_a_policy_without_keys_stand_whole() -> None:
    """All pods that its selector takes are one sub-group."""
    group = pod_group("g", 2)
    policy = {"name": "part", "subGroupSize": 2, "minSubGroups": 1, "labelSelector": {"matchLabels": {"role": "w"}}}
    group["spec"]["subGroupPolicy"] = [policy]
    pods = [pod(f"p{i}", group="g", on="n0") for i in range(2)]
    pods[0]["metadata"]["labels"] = {"role": "w"}

    assert [("part-of-gang", "PodGroup default/g")] == _rules(NODES[0], group, *pods)
    pods[1]["metadata"]["labels"] = {"role": "w"}
    assert [] == _rules(NODES[0], group, *pods)


def test_gang_that_ran_may_lose_pods() -> None:
    """Losing a node is not a broken promise."""
    group = pod_group("g", 2, status={"phase": "Running"})

    assert [] == _rules(NODES[0], group, pod("p0", group="g", on="n0"))


@pytest.mark.parametrize(
    ("mode", "tier", "on", "broken"),
    [
        ("hard", 1, ("n0", "n1"), False),
        ("hard", 1, ("n0", "n2"), True),
        ("hard", 2, ("n0", "n2"), False),
        ("soft", 1, ("n0", "n2"), False),
        ("hard", 3, ("n0", "n2"), False),
    ],
)
def test_hard_topology_is_kept(mode: str, tier: int, on: tuple[str, str], broken: bool) -> None:
    """Pods of a hard gang stand within one hyperNode of the tier."""
    group = pod_group("g", 2)
    group["spec"]["networkTopology"] = {"mode": mode, "highestTierAllowed": tier}
    pods = [pod(f"p{i}", group="g", on=name) for i, name in enumerate(on)]

    assert ([("too-wide", "PodGroup default/g")] if broken else []) == _rules(*NODES, *TREE, group, *pods)


def test_sub_groups_have_limits_of_their_own() -> None:
    """Each sub-group is held against its policy's tier."""
    group = pod_group("g", 4)
    group["spec"]["subGroupPolicy"] = [
        {
            "name": "part",
            "subGroupSize": 2,
            "minSubGroups": 2,
            "matchLabelKeys": ["index"],
            "networkTopology": {"mode": "hard", "highestTierAllowed": 1},
        }
    ]
    pods = [pod(f"p{i}", group="g", on=f"n{i}") for i in range(4)]
    for i, found in enumerate(pods):
        found["metadata"]["labels"] = {"index": str(i // 2)}
    assert [] == _rules(*NODES, *TREE, group, *pods)
    for i, found in enumerate(pods):
        found["metadata"]["labels"] = {"index": str(i % 2)}
    wide = [("too-wide", f"PodGroup default/g, sub-group part-{i}") for i in range(2)]
    assert wide == _rules(*NODES, *TREE, group, *pods)


def test_queue_stays_within_its_capability() -> None:
    """What a queue's gangs hold counts for the queue and for those above it."""
    queues: list[Json] = [
        {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "Queue",
            "metadata": {"name": name},
            "spec": {"capability": {"cpu": most}, **({"parent": parent} if parent else {})},
        }
        for name, most, parent in (("team", "4", ""), ("child", "8", "team"))
    ]
    group = pod_group("g", 1)
    group["spec"]["queue"] = "child"
    standing = pod("p", cpu="5", group="g", on="n0")

    assert [("over-capability", "Queue team")] == _rules(NODES[0], *queues, group, standing)
    gone = _rules(*queues, group, standing)
    assert [("unknown-node", "Pod default/p")] == gone  # a pod whose node is gone uses nothing


def test_hypernodes_by_label_hold_those_that_match_all_of_it() -> None:
    """Whoever has one of the labels that a hyperNode asks for is not below it yet."""
    labelled = [{**node(name), "metadata": {"name": name, "labels": labels}} for name, labels in _LABELLED.items()]
    asked = {"matchLabels": {"zone": "a"}, "matchExpressions": [{"key": "rack", "operator": "In", "values": ["1"]}]}
    rack = _hypernode("r0", 1)
    rack["spec"]["members"] = [{"type": "Node", "selector": {"labelMatch": asked}}]
    gang = pod_group("g", 2)
    gang["spec"]["networkTopology"] = {"mode": "hard", "highestTierAllowed": 1}

    def on(*nodes: str) -> list[tuple[str, str]]:
        return _rules(*labelled, rack, gang, *(pod(f"p{i}", group="g", on=name) for i, name in enumerate(nodes)))

    assert [] == on("n0", "n1")
    assert [("too-wide", "PodGroup default/g")] == on("n0", "n2")
    assert [("too-wide", "PodGroup default/g")] == on("n2", "n2")


_LABELLED = {
    "n0": {"zone": "a", "rack": "1"},
    "n1": {"zone": "a", "rack": "1"},
    "n2": {"zone": "a", "rack": "2"},
}


def test_a_tree_is_grown_once_for_all_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many podGroups there are, the pattern of a hyperNode is compiled once."""
    compiled: list[str] = []
    really = re2.compile

    def counted(pattern: str, **options: Any) -> Any:
        compiled.append(pattern)
        return really(pattern, **options)

    monkeypatch.setattr(re2, "compile", counted)
    rack = _hypernode("r0", 1)
    rack["spec"]["members"] = [{"type": "Node", "selector": {"regexMatch": {"pattern": "^n[01]$"}}}]
    _rules(*NODES, rack, *(pod_group(f"g{i}", 1) for i in range(5)))

    assert ["^n[01]$"] == compiled
