"""Failed starts on a real API server: a pod that a kubelet refused goes elsewhere, and the record says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.e2e.accounts import NAMESPACE
from tests.e2e.api import Json
from tests.e2e.world import World

_PROFILE = f"""
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: predicates
  - name: network-topology-aware
  - name: binpack
configurations:
- name: allocate
  arguments:
    failedStarts: {NAMESPACE}
"""


def _pod() -> Json:
    limits = {"nvidia.com/gpu": "8"}
    containers = [{"name": "c", "image": "x", "resources": {"limits": limits, "requests": limits}}]
    spec = {"schedulerName": "tierwise", "containers": containers}
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "train", "uid": "train", "controller": True}
    meta = {"name": "train-0", "namespace": "default", "ownerReferences": [owner]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def _runs(world: World) -> bool:
    found = [pod for pod in world.api.list("Pod", "default") if pod["metadata"]["name"] == "train-0"]
    return bool(found) and found[0]["status"].get("phase") == "Running"


def _recorded(world: World) -> list[Any]:
    found = [m for m in world.api.list("ConfigMap", NAMESPACE) if m["metadata"]["name"] == "tierwise-failed-starts"]
    return [json.loads(line) for line in found[0]["data"]["starts"].splitlines()] if found else []


def test_a_pod_that_a_kubelet_refused_goes_elsewhere(world: World, tmp_path: Path) -> None:
    """All nodes of the rack are free: without a memory it would go to the first of them again."""
    world.racks(racks=1, size=3)
    config = tmp_path / "remembers.conf"
    config.write_text(_PROFILE)
    world.run("--config", str(config))
    world.api.create(_pod())
    world.until(lambda: _runs(world), 40)
    node = world.running("train")["train-0"]
    refused = {"phase": "Failed", "reason": "UnexpectedAdmissionError"}
    world.api.patch("Pod", "train-0", {"status": refused}, status=True)
    world.until(lambda: bool(_recorded(world)), 40)
    (_, _, failed_on, _, why, alone) = _recorded(world)[0]
    assert (node, "UnexpectedAdmissionError", True) == (failed_on, why, alone)

    world.api.delete("Pod", "train-0", now=True)
    world.until(lambda: not world.pods("train"), 40)
    world.api.create(_pod())
    world.until(lambda: _runs(world), 40)
    assert node != world.running("train")["train-0"]
    world.until(lambda: [False] == [line[5] for line in _recorded(world)], 40)  # it has come up elsewhere since
