"""Updates on a real API server: the place of a pod that is deleted is its successor's, whoever waits for it."""

from __future__ import annotations

from pathlib import Path

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
    keptPlaces: {NAMESPACE}
    keptPlacesFor: 1h
"""
_OWNER: Json = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "web", "controller": True}


def _pod(name: str, owner: Json | None = None) -> Json:
    meta: Json = {"name": name, "namespace": "default", **({"ownerReferences": [owner]} if owner else {})}
    limits = {"nvidia.com/gpu": "8"}
    containers = [{"name": "c", "image": "x", "resources": {"limits": limits, "requests": limits}}]
    spec = {"schedulerName": "tierwise", "containers": containers}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def _recorded(world: World) -> str:
    found = [m for m in world.api.list("ConfigMap", NAMESPACE) if m["metadata"]["name"] == "tierwise-kept-places"]
    return str(found[0]["data"]["places"]) if found else ""


def _is_gone(world: World, pod: str) -> bool:
    lines = [line for line in _recorded(world).splitlines() if pod in line]
    return bool(lines) and not any(line.endswith(",0.0]") for line in lines)


def test_a_pod_that_is_updated_comes_back_to_its_node(world: World, tmp_path: Path) -> None:
    """The rack is full, and a rival has waited for longer: it waits on, and the successor has the node."""
    world.racks(racks=1, size=3)
    config = tmp_path / "keeps.conf"
    config.write_text(_PROFILE)
    world.run("--config", str(config))
    for i in range(3):
        world.api.create(_pod(f"web-{i}", _OWNER))
    world.until(lambda: len(world.running("web")) == 3 and _recorded(world).count("\n") == 3)
    before = world.running("web")
    world.api.create(_pod("rival"))
    world.until(lambda: bool(world.api.get("Pod", "rival")["status"].get("conditions")), 40)
    world.api.delete("Pod", "web-1")
    world.until(lambda: _is_gone(world, "default/web-1"), 40)
    assert "rival" not in world.running()
    world.api.create(_pod("web-1", _OWNER))
    world.until(lambda: len(world.running("web")) == 3, 40)

    assert before == world.running("web")
    assert "rival" not in world.running()
