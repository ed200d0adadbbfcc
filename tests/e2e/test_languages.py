"""Gangs in other languages on a real API server: whole or not at all, near as they ask, with a status of their own."""

from __future__ import annotations

import pytest
from tests.e2e.api import Json
from tests.e2e.world import GROUPS, World, node

RACK = "example.com/rack"
*KUBERNETES, PLUGINS = GROUPS


def _pods(name: str, number: int, *, kubernetes: bool) -> list[Json]:
    resources = {"limits": {"nvidia.com/gpu": "8"}}
    own: Json = {"schedulingGroup": {"podGroupName": name}} if kubernetes else {}
    labels = {} if kubernetes else {"scheduling.x-k8s.io/pod-group": name}
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"{name}-{i}", "labels": labels},
            "spec": {
                "schedulerName": "tierwise",
                "terminationGracePeriodSeconds": 1,
                "containers": [{"name": "c", "image": "image", "resources": resources}],
                **own,
            },
        }
        for i in range(number)
    ]


def _group(world: World, version: str, name: str, spec: Json) -> None:
    manifest = {"apiVersion": version, "kind": "PodGroup", "metadata": {"name": name}, "spec": spec}
    world.api.ask("POST", f"/apis/{version}/namespaces/default/podgroups", manifest)


def _status(world: World, version: str, name: str) -> Json:
    found: Json = world.api.ask("GET", f"/apis/{version}/namespaces/default/podgroups/{name}").get("status") or {}
    return found


def _conditions(world: World, version: str, name: str) -> dict[str, tuple[str, str]]:
    found = _status(world, version, name).get("conditions") or []
    return {c["type"]: (c["status"], c["reason"]) for c in found}


def _labelled_racks(world: World) -> None:
    world.api.create(*(node(f"n{i}", labels={RACK: f"r{i // 2}"}) for i in range(6)))


def test_a_group_of_kubernetes_own_starts_in_a_domain_of_its_key(world: World) -> None:
    """Its pods wait for it, then start in one rack; a larger one waits, and the condition of either says so."""
    version = next((one for one in KUBERNETES if world.api.serves(one, "podgroups")), "")
    if not version:
        pytest.skip("this Kubernetes serves no PodGroups of its own")
    _labelled_racks(world)
    world.run()
    constraint = {"topology": [{"key": RACK}]}
    world.api.create(*_pods("small", 2, kubernetes=True), *_pods("large", 3, kubernetes=True))
    for name, number in (("small", 2), ("large", 3)):
        spec = {"schedulingPolicy": {"gang": {"minCount": number}}, "schedulingConstraints": constraint}
        _group(world, version, name, spec)

    world.until(lambda: len(world.running("small")) == 2)
    told = "PodGroupScheduled" if version.endswith("v1alpha2") else "PodGroupInitiallyScheduled"
    world.until(lambda: _conditions(world, version, "small").get(told) == ("True", "Scheduled"))
    world.until(lambda: _conditions(world, version, "large").get(told) == ("False", "Unschedulable"))

    assert 1 == len(world.racks_of("small", 2))
    assert {} == world.running("large")
    assert [] == world.audit()


@pytest.mark.parametrize("number", [3, 7])
def test_a_group_of_scheduler_plugins_starts_whole_or_not_at_all(world: World, number: int) -> None:
    """Six nodes hold three pods of eight GPUs, and seven not; its phase is that of its own controller."""
    _labelled_racks(world)
    world.run()
    _group(world, PLUGINS, "gang", {"minMember": number})
    world.api.create(*_pods("gang", number, kubernetes=False))

    if number == 3:
        world.until(lambda: len(world.running("gang")) == 3)
        world.until(lambda: _status(world, PLUGINS, "gang").get("phase") == "Running")
    else:
        world.until(lambda: _status(world, PLUGINS, "gang").get("phase") == "Scheduling")
        world.until(lambda: any("7 pods" in text for text in world.told("gang")))
        assert {} == world.running("gang")
    assert [] == world.audit()
