"""Defaults of custom resources on the embedded cluster, as a real API server adds them."""

from __future__ import annotations

from typing import Any

from tests.support.playground import Playground, nodes

from tierwise.apiserver.structural_defaults import with_defaults

TEMPLATE = {"spec": {"containers": [{"name": "c", "image": "x"}]}}


def _made(version: str, kind: str, plural: str, spec: dict[str, Any]) -> Any:
    ground = Playground(nodes("n0"))
    raw = {"apiVersion": version, "kind": kind, "metadata": {"name": "x", "namespace": "default"}, "spec": spec}
    ground.create(f"{version}/{plural}", raw)
    return ground.get(f"{version}/{plural}", "x")["spec"]


def test_a_pod_group_without_a_mode_is_hard() -> None:
    """Inside an object that is there; a constraint that is not there is not made."""
    told = _made(
        "scheduling.volcano.sh/v1beta1", "PodGroup", "podgroups", {"networkTopology": {"highestTierAllowed": 1}}
    )
    bare = _made("scheduling.volcano.sh/v1beta1", "PodGroup", "podgroups", {"minMember": 2})

    assert "hard" == told["networkTopology"]["mode"]
    assert "default" == bare["queue"]
    assert "networkTopology" not in bare


def test_a_job_has_defaults_at_every_depth() -> None:
    """Of the job, of its constraint, and of the constraint in the partitions of a task."""
    partition = {"totalPartitions": 1, "partitionSize": 1, "networkTopology": {"highestTierAllowed": 1}}
    task = {"name": "w", "replicas": 1, "template": TEMPLATE, "partitionPolicy": partition}
    given = {"tasks": [task], "networkTopology": {"highestTierAllowed": 1}, "maxRetry": 7}

    spec = _made("batch.volcano.sh/v1alpha1", "Job", "jobs", given)

    assert ("hard", 7, "default") == (spec["networkTopology"]["mode"], spec["maxRetry"], spec["queue"])
    assert "hard" == spec["tasks"][0]["partitionPolicy"]["networkTopology"]["mode"]


def test_the_rules_of_defaults() -> None:
    """What is said stays; null counts as missing unless it may be said; lists and maps are gone into."""
    leaf: dict[str, Any] = {
        "type": "object",
        "properties": {"a": {"default": 1}, "b": {"default": 2, "nullable": True}},
    }
    schema: dict[str, Any] = {
        "properties": {
            "list": {"items": leaf},
            "map": {"additionalProperties": leaf},
            "made": {**leaf, "default": {}},
            "absent": leaf,
        }
    }
    raw: dict[str, Any] = {"list": [{}, {"a": 5}], "map": {"k": {"a": None, "b": None}}, "other": 3}
    before = repr(raw)

    found = with_defaults(schema, raw)

    assert before == repr(raw)
    assert {
        "list": [{"a": 1, "b": 2}, {"a": 5, "b": 2}],
        "map": {"k": {"a": 1, "b": None}},
        "made": {"a": 1, "b": 2},
        "other": 3,
    } == found
    assert found == with_defaults(schema, found)
