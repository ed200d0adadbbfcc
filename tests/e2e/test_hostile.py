"""Objects that a real API server takes and a scheduler cannot: it waits with a word why, the rest goes on."""

from __future__ import annotations

import re
import urllib.request
from typing import Any

import pytest
from tests.e2e.api import Json
from tests.e2e.world import World, job, task
from tests.support.ports import free_port


def _pod(name: str, *, requests: Json | None = None, marks: Json | None = None, **spec: Any) -> Json:
    """A pod of ours that asks for little, if nothing else is said."""
    resources = {"requests": requests or {"cpu": "1"}}
    container = {"name": "c", "image": "image", "resources": resources}
    meta = {"name": name, "namespace": "default", **(marks or {})}
    full = {"schedulerName": "tierwise", "containers": [container], **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": full}


def _group(name: str, **spec: Any) -> Json:
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": meta, "spec": spec}


def _scheduled(world: World, name: str) -> Json:
    """The condition that says whether a pod has a node, and why not; nothing before somebody has written it."""
    conditions: list[Json] = world.api.get("Pod", name)["status"].get("conditions", [])
    return next((c for c in conditions if c["type"] == "PodScheduled"), {})


def _crashes(port: int) -> dict[str, float]:
    """How often stages raised, by the kind of the object that was set aside."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    found = (re.fullmatch(r'tierwise_crashes_total\{kind="(\w*)",.*\} (\S+)', line) for line in lines)
    return {match[1]: float(match[2]) for match in found if match}


LARGEST = str(2**63 - 1)


def test_amounts_of_any_size_stop_nobody(world: World) -> None:
    """Requests whose sums are more than any number holds are told that no node has so much; a gang beside them runs."""
    port = free_port()
    world.racks(racks=2, size=2)
    process = world.run("--listen", f"127.0.0.1:{port}")
    amounts = [
        {"memory": "16Pi"},
        {"memory": "7Ei"},
        {"memory": LARGEST},
        {"cpu": LARGEST},
        {"ephemeral-storage": "7Ei"},
    ]
    huge = [_pod(f"huge-{i}-{j}", requests=amount) for i, amount in enumerate(amounts) for j in range(3)]
    everything = {"cpu": LARGEST, "memory": LARGEST, "nvidia.com/gpu": LARGEST}
    queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "wide"}}
    world.api.create({**queue, "spec": {"weight": 2**31 - 1, "capability": everything, "guarantee": {}}})
    world.api.create(
        _group("claims", minMember=100_000, queue="wide", minResources=everything),
        _group("tall", minMember=1, queue="wide", networkTopology={"mode": "hard", "highestTierAllowed": 2**31 - 1}),
        *huge,
    )
    world.api.create(job("train", task("w", 2), networkTopology={"mode": "hard", "highestTierAllowed": 1}))
    world.until(lambda: len(world.running("train")) == 2)
    names = [pod["metadata"]["name"] for pod in huge]
    world.until(lambda: all("message" in _scheduled(world, name) for name in names))

    assert {"Unschedulable"} == {_scheduled(world, name)["reason"] for name in names}
    assert [] == [p["metadata"]["name"] for p in world.pods("huge") if p["spec"].get("nodeName")]
    assert process.poll() is None
    assert {} == _crashes(port)
    assert [] == world.audit()


def test_what_raises_is_set_aside_by_name(world: World) -> None:
    """A pod that makes a stage raise gets an event and is counted; gangs before and after it run."""
    port = free_port()
    world.racks(racks=2, size=2)
    process = world.run("--listen", f"127.0.0.1:{port}", defective=True)
    world.api.create(_pod("evil", marks={"labels": {"defect": ""}}), job("train", task("w", 2)))
    world.until(lambda: len(world.running("train")) == 2)
    world.until(lambda: any(said.startswith("set aside, because") for said in world.told("evil")))
    world.api.create(job("later", task("w", 2)))
    world.until(lambda: len(world.running("later")) == 2)

    assert process.poll() is None
    assert {"Pod"} == _crashes(port).keys()
    assert "nodeName" not in world.api.get("Pod", "evil")["spec"]
    assert 1 == world.said().count("Traceback")
    assert [] == world.audit()


CLAIM = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
DEVICE = {"name": "gpu", "resourceClaimName": "gpu"}


@pytest.mark.parametrize(
    ("spec", "missing", "reason"),
    [
        ({"volumes": [CLAIM]}, "claim default/data does not exist", "NotAllowed"),
        ({"resourceClaims": [DEVICE]}, "ResourceClaim gpu does not exist", "NotNow"),
    ],
    ids=["volume", "device"],
)
def test_claims_that_do_not_exist_are_waited_for(world: World, spec: Json, missing: str, reason: str) -> None:
    """Alone, and with its whole gang: not bound as if the claim were not there, and the claim is named."""
    world.racks(racks=1, size=2)
    world.run()
    mark = {"annotations": {"scheduling.k8s.io/group-name": "gang"}}
    world.api.create(_group("gang", minMember=2, queue="default"))
    world.api.create(
        _pod("alone", **spec), _pod("gang-0", marks=mark, **spec), _pod("gang-1", marks=mark), _pod("plain")
    )
    world.until(lambda: "plain" in world.running())
    names = ("alone", "gang-0", "gang-1")
    world.until(lambda: all(missing in _scheduled(world, name).get("message", "") for name in names))
    world.until(lambda: missing in _unschedulable(world.api.get("PodGroup", "gang")).get("message", ""))

    assert {reason} == {_scheduled(world, name)["reason"] for name in names}
    assert {"plain"} == set(world.running())


def test_three_answers(world: World) -> None:
    """What never fits, what does not fit now and what is not allowed are told apart in conditions."""
    world.racks(racks=2, size=2)
    queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "small"}}
    world.api.create({**queue, "spec": {"weight": 1, "capability": {"nvidia.com/gpu": "1"}}})
    world.run()
    rack = {"mode": "hard", "highestTierAllowed": 1}
    world.api.create(job("first", task("w", 3)))
    world.until(lambda: len(world.running("first")) == 3)
    world.api.create(
        job("huge", task("w", 3), networkTopology=rack),
        job("later", task("w", 2), networkTopology=rack),
        job("capped", task("w", 1), queue="small"),
    )
    expected = {"huge": "Never", "later": "NotNow", "capped": "NotAllowed"}

    def answers() -> dict[str, str]:
        reasons = {name: _unschedulable(world.group(name)).get("reason", "") for name in expected}
        return {name: reason.partition(":")[0] for name, reason in reasons.items()}

    # The last word: before its pods exist a group may hear that they are missing.
    world.until(lambda: answers() == expected)
    assert [] == world.audit()


def _unschedulable(group: Json) -> Json:
    """The condition that says why a group waits; nothing before somebody has written it."""
    conditions: list[Json] = group.get("status", {}).get("conditions", [])
    return next((c for c in conditions if c["type"] == "Unschedulable"), {})
