"""What is not served, not read, or can never be met is told, and names what is meant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.commands import answer, manifests, run

CONTAINERS = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n0"}, "status": {"allocatable": {"cpu": "9"}}}


def _pod(name: str, **spec: object) -> dict[str, Any]:
    meta = {"name": name, "namespace": "default", "labels": {"app": name}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": CONTAINERS, **spec}}


def _deployment(**spec: object) -> dict[str, Any]:
    pods = {"metadata": {"labels": {"app": "d"}}, "spec": {"containers": CONTAINERS, **spec}}
    body = {"selector": {"matchLabels": {"app": "d"}}, "template": pods}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": body}


def _volcano(**spec: object) -> dict[str, Any]:
    task = {"name": "w", "replicas": 1, "template": {"spec": {"containers": CONTAINERS}}}
    body = {"minAvailable": 1, "tasks": [task], **spec}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "j"}, "spec": body}


@pytest.mark.parametrize(
    "raw", [_pod("p", schedulerName="Peaks"), _deployment(schedulerName="Peaks"), _volcano(schedulerName="Peaks")]
)
def test_pods_of_a_scheduler_that_is_not_served_are_named(raw: dict[str, Any], tmp_path: Path) -> None:
    """Wherever its name is written; the option of that name serves them."""
    file = manifests(tmp_path, NODE, raw)

    warnings = answer("validate", "-f", file)["warnings"]
    told = run("schedule", "-f", file)

    assert ["schedulerName"] == [entry["path"].rpartition(".")[2] for entry in warnings]
    assert f'{raw["kind"]} default/{raw["metadata"]["name"]}: scheduler "Peaks" is not served' in told.stderr
    assert {} == answer("schedule", "-f", file)["bindings"]
    assert 1 == len(answer("schedule", "-f", file, "--scheduler-name", "Peaks")["bindings"])


def test_chosen_schedulers_are_the_only_ones(tmp_path: Path) -> None:
    """Pods of the usual names are counted with the others then."""
    pods = [_pod(f"p{i}", schedulerName="tierwise") for i in range(4)]
    file = manifests(tmp_path, NODE, _pod("mine", schedulerName="Peaks"), *pods)

    assert {"default/mine": "n0"} == answer("schedule", "-f", file, "--scheduler-name", "Peaks")["bindings"]
    assert "(4 in all)" in run("schedule", "-f", file, "--scheduler-name", "Peaks").stderr


def test_pods_that_name_no_scheduler_are_those_of_the_default_one(tmp_path: Path) -> None:
    """As the API server reads them: they are told by that name, and served under it."""
    file = manifests(tmp_path, NODE, _pod("p"))
    told = run("schedule", "-f", file, "--scheduler-name", "Peaks").stderr

    assert 'scheduler "default-scheduler" is not served: such pods wait, unless --scheduler-name default-sch' in told
    assert {"default/p": "n0"} == answer("schedule", "-f", file, "--scheduler-name", "default-scheduler")["bindings"]


def test_a_job_with_a_plugin_of_volcanos_waits(tmp_path: Path) -> None:
    """It would start without ranks; a plugin that acts here does not keep it."""
    plugin = "hcclrank"
    waiting = manifests(tmp_path, NODE, _volcano(plugins={plugin: [], "svc": []}), name="a.yaml")
    acting = manifests(tmp_path, NODE, _volcano(plugins={"env": [], "svc": [], "ssh": []}), name="b.yaml")

    assert ["NotSupported"] == [entry["reason"] for entry in answer("schedule", "-f", waiting)["pending"]]
    assert [f"spec.plugins.{plugin}"] == [entry["path"] for entry in answer("validate", "-f", waiting)["warnings"]]
    assert 1 == len(answer("schedule", "-f", acting)["bindings"])


def test_a_cluster_queue_gets_a_line(tmp_path: Path) -> None:
    """Its quotas are Kueue's."""
    spec: dict[str, Any] = {"resourceGroups": []}
    queue = {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "ClusterQueue", "metadata": {"name": "q"}, "spec": spec}
    file = manifests(tmp_path, NODE, queue)

    assert (
        "ClusterQueue q: spec: a ClusterQueue is Kueue's: its quotas are not read" in run("schedule", "-f", file).stderr
    )
    assert [("ClusterQueue q", "spec")] == [
        (entry["object"], entry["path"]) for entry in answer("validate", "-f", file)["warnings"]
    ]


_PARTS = {"totalPartitions": 1, "partitionSize": 1, "networkTopology": {"highestTierAllowed": 9}}
_TASK = {"name": "w", "replicas": 1, "template": {"spec": {"containers": CONTAINERS}}, "partitionPolicy": _PARTS}
_POLICY = {"name": "s", "matchLabelKeys": ["a"], "networkTopology": {"mode": "soft", "highestTierAllowed": 3}}


def _group(**spec: object) -> dict[str, Any]:
    kind = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": "g"}}
    return {**kind, "spec": {"minMember": 1, **spec}}


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        (_volcano(networkTopology={"mode": "hard", "highestTierAllowed": 3}), "spec.networkTopology"),
        (_volcano(tasks=[_TASK]), "spec.tasks[0].partitionPolicy.networkTopology"),
        (_group(networkTopology={"mode": "hard", "highestTierAllowed": 3}), "spec.networkTopology"),
        (_group(subGroupPolicy=[_POLICY]), "spec.subGroupPolicy[0].networkTopology"),
    ],
)
def test_a_tier_above_the_tree_is_warned_of(raw: dict[str, Any], path: str, tmp_path: Path) -> None:
    """In every place of such a limit; the highest tier itself is none of these, nor any where there is no tree."""
    member = {"type": "Node", "selector": {"exactMatch": {"name": "n0"}}}
    spec = {"tier": 2, "members": [member]}
    rack = {"apiVersion": "topology.volcano.sh/v1alpha1", "kind": "HyperNode", "metadata": {"name": "r"}, "spec": spec}

    def told(*objects: dict[str, Any]) -> list[str]:
        found = answer("validate", "-f", manifests(tmp_path, *objects))["warnings"]
        return [entry["path"] for entry in found if "above tier 2" in entry["message"]]

    assert [f"{path}.highestTierAllowed"] == told(NODE, rack, raw)
    assert [] == told(NODE, raw)
    assert [] == told(NODE, {**rack, "spec": {**spec, "tier": 9}}, raw)


def _term(key: str) -> dict[str, Any]:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": "p"}}}


@pytest.mark.parametrize(
    "spec",
    [
        {"nodeSelector": {"pool": "x"}},
        {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_term("pool")]}}},
        {"topologySpreadConstraints": [{"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **_term("pool")}]},
    ],
)
def test_a_label_that_no_node_has_is_never_and_is_named(spec: dict[str, Any], tmp_path: Path) -> None:
    """Whichever rule needs it."""
    (entry,) = answer("schedule", "-f", manifests(tmp_path, NODE, _pod("p", **spec)))["pending"]

    assert "never" == entry["verdict"]
    assert "lacked the label pool of the " in entry["message"]
