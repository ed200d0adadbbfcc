"""Kinds of inference projects through the command line and the embedded API server, with the vendors' cases."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.commands import manifests, run

from tierwise.apiserver import kinds

CASES = Path(__file__).parents[2] / "conformance" / "cases" / "vendors"
KINDS = {
    "dynamo-decode-over-two-nodes-is-in-one-rack": ("nvidia.com", "v1beta1", "dynamographdeployments"),
    "role-based-group-of-prefill-and-decode-starts-whole": ("workloads.x-k8s.io", "v1alpha2", "rolebasedgroups"),
    "model-serving-starts-with-the-roles-that-it-needs": ("workload.serving.volcano.sh", "v1alpha1", "modelservings"),
    "storm-service-starts-one-replica-whole": ("orchestration.aibrix.ai", "v1alpha1", "stormservices"),
    "kserve-model-over-two-nodes-has-one-worker": ("serving.kserve.io", "v1beta1", "inferenceservices"),
}


@pytest.mark.parametrize(("case", "served"), KINDS.items(), ids=list(KINDS))
def test_every_kind_is_checked_run_and_served(case: str, served: tuple[str, str, str], tmp_path: Path) -> None:
    """`validate` has nothing to say, `submit` starts as many pods as `schedule` binds, and kubectl finds the kind."""
    found: dict[str, Any] = yaml.safe_load((CASES / f"{case}.yaml").read_text())
    file, expected = manifests(tmp_path, *found["objects"]), found["expect"]
    number = expected.get("boundCount") or len(expected["boundPods"])

    checked = json.loads(run("validate", "-f", file, "-o", "json").stdout)
    ran = json.loads(run("submit", "-f", file, "-o", "json").stdout)

    assert ([], []) == (checked["errors"], checked["warnings"])
    assert number == sum(pod["phase"] == "Running" for pod in ran["pods"].values())
    assert [] == ran["problems"]
    assert kinds.find(*served) is not None
