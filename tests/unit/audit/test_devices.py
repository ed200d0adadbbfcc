"""The auditor's promises about devices: kept where they are kept, and found broken where they are not."""

from __future__ import annotations

from typing import Any

from tests.support.devices import DRIVER, claim, device, device_class, exactly, node, objects, pod, resource_slice, run

from tierwise.audit import audit


def _held(name: str, *users: str, node_name: str = "n0", number: str = "gpu-0") -> dict[str, Any]:
    only = {"key": "metadata.name", "operator": "In", "values": [node_name]}
    result = {"request": "gpu", "driver": DRIVER, "pool": node_name, "device": number}
    allocation = {"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [only]}]}}
    reserved = [{"resource": "pods", "name": user, "uid": f"uid-{user}"} for user in users]
    return claim(name, exactly(), status={"allocation": allocation, "reservedFor": reserved})


def _rules(*raws: Any) -> list[tuple[str, str]]:
    return [(finding.rule, finding.subject) for finding in audit(objects(*raws))]


def test_what_tierwise_binds_is_sound() -> None:
    """The auditor has nothing to say about what was scheduled."""
    served = device_class(extendedResourceName="example.com/gpu")
    devices = [device(f"gpu-{i}") for i in range(4)]
    plain = pod("plain", requests={"example.com/gpu": "2"})

    history = run(node("n0"), resource_slice("n0", devices), served, claim("c", exactly()), pod("p", "c"), plain)

    assert 2 == len(history.bindings)
    assert [] == audit(history.cluster.read())


def test_a_device_with_two_holders() -> None:
    """Two claims hold what only one can."""
    found = _rules(node("n0"), _held("a", "p"), _held("b", "q"), pod("p", "a", on="n0"), pod("q", "b", on="n0"))

    assert [("device-held-twice", f"Device {DRIVER}/n0/gpu-0")] == found


def test_who_looks_after_a_device_holds_nothing() -> None:
    """A claim with the access of an administrator stands beside the one that holds the device."""
    watches = _held("b", "q")
    watches["status"]["allocation"]["devices"]["results"][0]["adminAccess"] = True

    assert [] == _rules(node("n0"), _held("a", "p"), watches, pod("p", "a", on="n0"), pod("q", "b", on="n0"))


def test_a_pod_without_its_devices() -> None:
    """A claim that is not there, not allocated or not reserved."""
    assert [("without-devices", "Pod default/p")] == _rules(node("n0"), pod("p", "c", on="n0"))
    assert [("without-devices", "Pod default/p")] == _rules(node("n0"), claim("c", exactly()), pod("p", "c", on="n0"))
    assert [("without-devices", "Pod default/p")] == _rules(node("n0"), _held("c", "q"), pod("p", "c", on="n0"))
    assert [] == _rules(node("n0"), _held("c", "p"), pod("p", "c", on="n0"))


def test_a_pod_out_of_reach_of_its_devices() -> None:
    """The devices are on another node."""
    found = _rules(node("n0"), node("n1"), _held("c", "p", node_name="n1"), pod("p", "c", on="n0"))

    assert [("device-out-of-reach", "Pod default/p")] == found
