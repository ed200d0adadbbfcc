"""Devices that drivers prepare once they are given away: pods wait for them, and do not wait for ever."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.devices import (
    DRIVER,
    claim,
    device,
    device_class,
    exactly,
    node,
    objects,
    pod,
    prepared,
    resource_slice,
    run,
    template,
)

from tierwise.api.codec import Raw
from tierwise.api.core import format_time
from tierwise.api.resource import ResourceClaim
from tierwise.config.kube import read_kube
from tierwise.config.profile import DEFAULT
from tierwise.framework.report import CycleReport
from tierwise.port import Bind, Effect, Nominate, Objects, Prepare
from tierwise.scheduler import cycle
from tierwise.scheduler.effects import effects
from tierwise.snapshot.builder import build

NOW = 1_000_000.0
FABRIC: Raw = {**device("d0"), "bindingConditions": ["ready"], "bindingFailureConditions": ["broken"]}
GROUP: Any = {
    "apiVersion": "scheduling.volcano.sh/v1beta1",
    "kind": "PodGroup",
    "metadata": {"name": "g", "namespace": "default"},
    "spec": {"minMember": 2},
    "status": {"phase": "Inqueue"},
}


def _decided(world: Objects, now: float = NOW) -> tuple[CycleReport, list[Effect]]:
    snapshot = build(world, now)
    report = cycle(snapshot, DEFAULT)
    return report, effects(snapshot, report)


def _machine(*devices: Raw, **more: Any) -> list[Raw]:
    return [node("n0"), resource_slice("n0", devices, **more), device_class()]


def test_a_pod_waits_until_its_device_is_ready() -> None:
    """Its claim is written, the node is kept for it, and it is not bound."""
    report, asked = _decided(objects(_machine(FABRIC), claim("c", exactly()), pod("p", "c")))

    assert "WaitsForDevice" == report.rejections["pod default/p"].reason.code
    assert NOW + 600 == report.retry_after(NOW)
    assert [] == [effect for effect in asked if isinstance(effect, Bind)]
    assert ["n0"] == [effect.node for effect in asked if isinstance(effect, Nominate)]
    (status,) = [effect.patch["status"] for effect in asked if isinstance(effect, Prepare) and effect.status]
    assert isinstance(status, dict)
    allocation: Any = status["allocation"]
    assert format_time(NOW) == allocation["allocationTimestamp"]
    assert [(["ready"], ["broken"])] == [
        (one["bindingConditions"], one["bindingFailureConditions"]) for one in allocation["devices"]["results"]
    ]


def test_a_gang_is_bound_when_all_of_its_devices_are_ready() -> None:
    """One that is not ready keeps all of them waiting."""
    pods = [pod(f"p{i}", of="t", group="g") for i in range(2)]
    history = run(_machine(FABRIC, {**FABRIC, "name": "d1"}), template("t", exactly()), GROUP, pods)
    cluster = history.cluster
    claims = cluster.read().every(ResourceClaim)
    assert {} == history.bindings
    assert ["d0", "d1"] == sorted(r.device for c in claims.values() for r in _results(c))

    def told(*devices: str) -> Objects:
        raws = []
        for key in cluster.read():
            raw: Any = cluster.read().raw(key)
            if key.kind == "ResourceClaim":
                name = raw["status"]["allocation"]["devices"]["results"][0]["device"]
                conditions = [{"type": "ready", "status": "True"}] if name in devices else []
                about = {"driver": DRIVER, "pool": "n0", "device": name, "conditions": conditions}
                raw = {**raw, "status": {**raw["status"], "devices": [about]}}
            raws.append(raw)
        return objects(raws)

    assert [] == [effect for effect in _decided(told("d0"))[1] if isinstance(effect, Bind)]
    assert 2 == len([effect for effect in _decided(told("d0", "d1"))[1] if isinstance(effect, Bind)])


def _results(found: ResourceClaim) -> Any:
    return found.status.allocation.devices.results if found.status.allocation is not None else ()


@pytest.mark.parametrize(
    ("conditions", "after", "code"),
    [
        ({"broken": "True"}, 5, "DeviceBindingFailed"),
        ({"broken": "True", "ready": "True"}, 5, "DeviceBindingFailed"),
        ({}, 600, "DeviceBindingTimedOut"),
        ({"broken": "False"}, 700, "DeviceBindingTimedOut"),
    ],
)
def test_devices_that_will_not_be_ready_are_taken_back(conditions: dict[str, str], after: float, code: str) -> None:
    """The driver says that they failed, or says nothing in time; the message names the device."""
    held = prepared("c", since=format_time(NOW), **conditions)
    report, asked = _decided(objects(_machine(FABRIC), held, pod("p", "c")), NOW + after)

    assert [code] == list(report.undone.values())
    assert code in str(report.rejections["pod default/p"])
    assert "device d0 of ResourceClaim c" in str(report.rejections["pod default/p"])
    writes = [effect for effect in asked if isinstance(effect, Prepare)]
    assert [{"allocation": None, "reservedFor": None, "devices": None}] == [
        w.patch["status"] for w in writes if w.status
    ]
    marks: Any = [w.patch["metadata"] for w in writes if not w.status]
    assert [{"annotations": {"tierwise.io/device-binding-failed-at": format_time(NOW + after)}}] == marks


def test_devices_that_others_use_are_not_taken_back() -> None:
    """A running pod that shares the claim keeps it."""
    held: Any = prepared("c", since=format_time(NOW), broken="True")
    held["status"]["reservedFor"].append({"resource": "pods", "name": "q", "uid": "uid-q"})
    report, asked = _decided(objects(_machine(FABRIC), held, pod("q", "c", on="n0"), pod("p", "c")), NOW + 5)

    assert {} == report.undone
    assert [] == [effect for effect in asked if isinstance(effect, Prepare | Bind)]


def test_a_device_that_failed_is_tried_again_after_a_pause() -> None:
    """A driver that says no is not asked without end; the mark goes with the next allocation."""
    held = claim("c", exactly())
    held["metadata"]["annotations"] = {"tierwise.io/device-binding-failed-at": format_time(NOW)}
    world = objects(_machine(FABRIC), held, pod("p", "c"))

    report, asked = _decided(world, NOW + 5)
    assert "DeviceBindingFailed" == report.rejections["pod default/p"].reason.code
    assert NOW + 10 == report.retry_after(NOW)
    assert [] == [effect for effect in asked if isinstance(effect, Prepare | Bind)]
    _, asked = _decided(world, NOW + 10)
    (meta,) = [effect.patch["metadata"] for effect in asked if isinstance(effect, Prepare) and not effect.status]
    assert isinstance(meta, dict)
    assert {"tierwise.io/device-binding-failed-at": None} == meta["annotations"]


def test_devices_that_need_no_preparation_come_first() -> None:
    """Pools with devices that must be prepared are looked through last, whatever their names."""
    early = resource_slice("n0", [FABRIC], name="a", pool={"name": "a", "generation": 1, "resourceSliceCount": 1})
    late = resource_slice("n0", [device("d9")], name="b", pool={"name": "b", "generation": 1, "resourceSliceCount": 1})
    report, _ = _decided(objects(node("n0"), early, late, device_class(), claim("c", exactly()), pod("p", "c")))

    assert {} == report.rejections
    assert "d9" in str(report.writes)


def test_the_time_to_wait_is_an_argument() -> None:
    """In the words of Kubernetes' configuration, or as an argument of predicates."""
    text: Raw = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"pluginConfig": [{"name": "DynamicResources", "args": {"bindingTimeout": "5s"}}]}],
    }
    world = objects(
        _machine(FABRIC), prepared("c", since=format_time(NOW)), pod("p", "c", schedulerName="default-scheduler")
    )
    profile = read_kube(text)
    codes = [str(cycle(build(world, NOW + after, profile), profile).rejections) for after in (4, 6)]

    assert "WaitsForDevice" in codes[0]
    assert "DeviceBindingTimedOut" in codes[1]
