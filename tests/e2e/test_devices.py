"""Gangs whose pods have claims of devices, on a real API server: allocated, reserved, bound whole; nothing leaks."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from tests.e2e.api import DEVICE_VERSIONS, Json
from tests.e2e.driver import CLASS, TEMPLATE, Driver
from tests.e2e.proxy import Proxy
from tests.e2e.world import PATIENCE, World, job


@pytest.fixture(autouse=True)
def _served(world: World) -> None:
    """In whichever version the server has."""
    world.needs(world.api.devices or DEVICE_VERSIONS[0])


def _task(name: str, replicas: int) -> Json:
    """Pods with one claim each, made from the template."""
    claims = [{"name": "gpu", "resourceClaimTemplateName": TEMPLATE}]
    container = {"name": "c", "image": "image", "resources": {"requests": {"cpu": "1"}, "claims": [{"name": "gpu"}]}}
    spec = {"terminationGracePeriodSeconds": 1, "containers": [container], "resourceClaims": claims}
    return {"name": name, "replicas": replicas, "template": {"spec": spec}}


def _nodes(world: World, driver: Driver, number: int) -> None:
    world.racks(1, number)
    for i in range(number):
        driver.publish(f"n{i}", 4)


def _sound(world: World, driver: Driver) -> None:
    """Every device is held once, on the node of its pod, and every pod that runs has what it asked for."""
    held = driver.held()
    devices = [one for some in held.values() for one in some]
    assert len(devices) == len(set(devices))
    where = {p["metadata"]["uid"]: p["spec"].get("nodeName") for p in world.pods()}
    for claim in world.api.list("ResourceClaim"):
        status = claim.get("status", {})
        for user in status.get("reservedFor", ()):
            pools = {one["pool"] for one in status["allocation"]["devices"]["results"]}
            assert where.get(user["uid"]) in (None, *pools)
    running = set(world.running())
    reserved = {u["name"] for c in world.api.list("ResourceClaim") for u in c.get("status", {}).get("reservedFor", ())}
    assert running <= reserved


def test_a_gang_with_claims_runs(world: World) -> None:
    """Claims are allocated and reserved before pods are bound, with the rights that deploy/ gives."""
    with Driver(world.api, each=2) as driver:
        _nodes(world, driver, 3)
        world.run()
        world.api.create(job("train", _task("w", 6)))
        world.until(lambda: len(world.running("train")) == 6)

        assert 6 == len(driver.held())
        _sound(world, driver)
        world.api.create(job("late", _task("w", 2)))
        world.until(lambda: any("deviceclass/gpu.example.com" in said for said in _messages(world, "late")))
        assert {} == world.running("late")
        _remove(world, "train")
        world.until(lambda: len(world.running("late")) == 2)
        world.until(lambda: len(driver.held()) == 2)
        _sound(world, driver)


def _remove(world: World, name: str) -> None:
    """A job and its pods, as the garbage collector would."""
    world.api.delete("Job", name)
    for found in world.pods(name):
        world.api.delete("Pod", found["metadata"]["name"], now=True)


def _messages(world: World, name: str) -> list[str]:
    return [c.get("message", "") for c in world.group(name).get("status", {}).get("conditions", ())]


def test_slices_that_are_withdrawn(world: World) -> None:
    """A gang waits while a pool is not there or not complete, and runs once it is."""
    with Driver(world.api, each=4) as driver:
        _nodes(world, driver, 2)
        driver.withdraw("n1")
        world.run()
        world.api.create(job("train", _task("w", 2)))
        world.until(lambda: any("deviceclass/gpu.example.com" in said for said in _messages(world, "train")))
        driver.publish("n1", 4, generation=2, slices=2)
        assert {} == world.running("train")
        assert {} == driver.held()
        driver.publish("n1", 4, generation=3)
        world.until(lambda: len(world.running("train")) == 2)
        _sound(world, driver)


def _crash_before_the_first_bind(world: World) -> None:
    """Let a gang of two be decided on, and kill the program when it sends a bind, which never arrives."""
    with Proxy(world.plane, (), share=0.0) as proxy:
        proxy.freezes_at = "/binding"
        process = world.run(kubeconfig=Path(proxy.kubeconfig()))
        world.api.create(job("train", _task("w", 2)))
        assert proxy.frozen.wait(PATIENCE)
        process.send_signal(signal.SIGKILL)
        process.wait()


def test_a_crash_between_allocation_and_bind(world: World) -> None:
    """Devices that were written for a gang which was never bound are used by the next process, or given back."""
    with Driver(world.api, each=4) as driver:
        _nodes(world, driver, 2)
        _crash_before_the_first_bind(world)
        assert len(driver.held()) == 2

        assert {} == world.running("train")
        before = driver.held()
        world.run()
        world.until(lambda: len(world.running("train")) == 2)
        assert before == driver.held()
        _sound(world, driver)
        _remove(world, "train")
        world.until(lambda: not driver.held() and not world.pods("train"))


def test_devices_of_a_gang_that_cannot_start_are_given_back(world: World) -> None:
    """The node that a gang's devices are on is gone for it: it gives them back and starts elsewhere."""
    with Driver(world.api, each=4) as driver:
        _nodes(world, driver, 2)
        _crash_before_the_first_bind(world)
        assert len(driver.held()) == 2
        world.api.patch("Node", "n0", {"spec": {"unschedulable": True}})
        world.run()
        world.until(lambda: not driver.held())
        assert {} == world.running("train")
        world.api.patch("Node", "n0", {"spec": {"unschedulable": False}})
        world.until(lambda: len(world.running("train")) == 2)
        _sound(world, driver)


def test_a_claim_that_is_deleted_between_allocation_and_bind(world: World) -> None:
    """The gang waits for the claim that takes its place, and is bound with that."""
    with Driver(world.api, each=4) as driver:
        _nodes(world, driver, 2)
        _crash_before_the_first_bind(world)
        assert len(driver.held()) == 2
        lost = min(driver.held())
        world.api.patch("ResourceClaim", lost, {"status": {"allocation": None, "reservedFor": None}}, status=True)
        world.api.patch("ResourceClaim", lost, {"metadata": {"finalizers": None}})
        world.api.delete("ResourceClaim", lost)
        assert {} == world.running("train")
        world.run()
        world.until(lambda: len(world.running("train")) == 2)
        assert lost not in driver.held()
        _sound(world, driver)


def test_devices_that_drivers_prepare(world: World) -> None:
    """No pod of a gang is bound before all devices are ready; those that failed are given back and tried again."""
    world.needs_field("bindingConditions")
    with Driver(world.api, each=4) as driver:
        world.racks(1, 2)
        for i in range(2):
            driver.publish(f"n{i}", 4, prepared=True)
        world.needs_field("bindingConditions", "ResourceSlice", "n0-gpus")
        world.run()
        world.api.create(job("train", _task("w", 2)))
        world.until(lambda: len(driver.held()) == 2)
        first, second = sorted(driver.held())
        driver.tell(first, "Ready")
        world.until(lambda: any("is not Ready yet" in said for said in _messages(world, "train")))
        driver.tell(second, "Broken")
        world.until(lambda: _failed(world, second) and second not in driver.held())
        assert {} == world.running("train")
        world.until(lambda: len(driver.held()) == 2)  # after a pause
        for claim in (first, second):
            driver.tell(claim, "Ready")
        world.until(lambda: len(world.running("train")) == 2)
        _sound(world, driver)
        _remove(world, "train")
        world.until(lambda: not driver.held() and not world.pods("train"))


def _failed(world: World, claim: str) -> bool:
    marks = world.api.get("ResourceClaim", claim)["metadata"].get("annotations", {})
    return "tierwise.io/device-binding-failed-at" in marks


def test_pods_that_share_a_claim(world: World) -> None:
    """A claim that several pods name is allocated once and reserved for all of them."""
    with Driver(world.api, each=1) as driver:
        _nodes(world, driver, 2)
        request = {"name": "gpu", "exactly": {"deviceClassName": CLASS, "count": 1}}
        meta = {"name": "shared", "namespace": "default"}
        spec = {"devices": {"requests": [request]}}
        world.api.create({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": meta, "spec": spec})
        shared = _task("w", 3)
        shared["template"]["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "shared"}]
        world.run()
        world.api.create(job("train", shared))
        world.until(lambda: len(world.running("train")) == 3)

        assert 1 == len(set(world.running("train").values()))
        assert 1 == len(driver.held()["shared"])
        claim = world.api.get("ResourceClaim", "shared")
        assert {p["metadata"]["uid"] for p in world.pods("train")} == {u["uid"] for u in claim["status"]["reservedFor"]}
        _sound(world, driver)


def test_extended_resources_that_a_class_serves(world: World) -> None:
    """Pods that ask for a number of GPUs get claims that are made for them, and are told of them."""
    with Driver(world.api, each=1) as driver:
        _nodes(world, driver, 1)
        world.api.patch("DeviceClass", CLASS, {"spec": {"extendedResourceName": "example.com/gpu"}})
        world.needs_field("extendedResourceName", "DeviceClass", CLASS)
        plain = _task("w", 2)
        del plain["template"]["spec"]["resourceClaims"]
        amounts = {"example.com/gpu": "2"}
        resources = {"requests": {"cpu": "1", **amounts}, "limits": amounts}
        plain["template"]["spec"]["containers"][0]["resources"] = resources
        world.run()
        world.api.create(job("train", plain))
        world.until(lambda: len(world.running("train")) == 2)

        held = driver.held()
        assert [2, 2] == [len(some) for some in held.values()]
        told = {p["status"]["extendedResourceClaimStatus"]["resourceClaimName"] for p in world.pods("train")}
        assert told == set(held)
        _sound(world, driver)
