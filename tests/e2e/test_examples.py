"""Examples on a real API server: what runs in the end is what `tierwise schedule` says of the same manifests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.api import Json
from tests.e2e.world import World
from tests.support.commands import EXAMPLES, run

from tierwise.manifests.files import read

BOUTIQUE = EXAMPLES / "09-online-boutique"
QUOTA = EXAMPLES / "07-elastic-quota"


@pytest.mark.parametrize(
    ("files", "config", "name"),
    [
        ([BOUTIQUE / "cluster.yaml", BOUTIQUE / "application.yaml"], "scheduler.conf", "network-aware-scheduler"),
        (
            [QUOTA / f"{part}.yaml" for part in ("cluster", "quotas", "standing", "story-3")],
            "scheduler.yaml",
            "koord-scheduler",
        ),
    ],
    ids=["app-group", "elastic-quota"],
)
def test_the_same_pods_run(world: World, files: list[Path], config: str, name: str) -> None:
    """Services with network demands; elastic quotas whose owners get back what they lent."""
    names = [word for file in files for word in ("-f", file)]
    printed = run("schedule", *names, "--config", files[0].parent / config, "-o", "json")
    expected = json.loads(printed.stdout)
    manifests = [entry.raw for entry in read([str(file) for file in files], None)]
    made = list(_create(world, manifests))
    try:
        world.run("--config", str(files[0].parent / config), "--scheduler-name", name)
        standing = {m["metadata"]["name"] for m in map(_json, manifests) if m["spec"].get("nodeName")}
        gone = {eviction["pod"].removeprefix("default/") for eviction in expected["evictions"]}
        wanted = (standing | {pod.removeprefix("default/") for pod in expected["bindings"]}) - gone
        world.until(lambda: set(world.running()) == wanted)

        assert [] == world.audit()
    finally:
        for path in made:
            world.api.ask("DELETE", path, {"gracePeriodSeconds": 0})


def _create(world: World, manifests: list[dict[str, object]]) -> Iterator[str]:
    """Make objects as the API server takes them; the paths of those that `World` does not take away itself."""
    for raw in sorted(manifests, key=lambda m: m["kind"] == "Pod"):
        manifest = _json(raw)
        if manifest["kind"] == "Pod":
            _complete(world, manifest)
        path, namespaced = _collection(world, manifest)
        if namespaced:
            manifest["metadata"].setdefault("namespace", "default")
        world.api.ask("POST", path, manifest)
        if manifest["kind"] not in ("Node", "Pod"):
            yield f"{path}/{manifest['metadata']['name']}"


def _collection(world: World, manifest: Json) -> tuple[str, bool]:
    version = manifest["apiVersion"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    served = next(r for r in world.api.ask("GET", root)["resources"] if r["kind"] == manifest["kind"])
    inside = f"/namespaces/{manifest['metadata'].get('namespace', 'default')}" if served["namespaced"] else ""
    return f"{root}{inside}/{served['name']}", served["namespaced"]


def _complete(world: World, pod: Json) -> None:
    """What a real API server asks of a pod beyond what an example needs: images, device limits, named priorities."""
    for container in pod["spec"]["containers"]:
        container.setdefault("image", "image")
        resources: Json = container.get("resources", {})
        devices = {name: amount for name, amount in resources.get("requests", {}).items() if "/" in name}
        if devices:
            resources["limits"] = {**resources.get("limits", {}), **devices}
    priority: Any = pod["spec"].pop("priority", None)
    if priority is not None:
        pod["spec"]["priorityClassName"] = f"p{priority}"
        class_ = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": f"p{priority}"}}
        world.api.apply({**class_, "value": priority})


def _json(raw: dict[str, object]) -> Json:
    copied: Json = json.loads(json.dumps(raw))
    copied.setdefault("spec", {})
    return copied
