"""Clusters with devices, as manifests: nodes and what drivers publish for them, classes, claims and pods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.support.sight import schedule

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.api.resource import ResourceClaim
from tierwise.config.profile import DEFAULT, Profile
from tierwise.port import Objects
from tierwise.sim.cluster.rounds import Rounds

__all__ = [
    "DRIVER",
    "claim",
    "device",
    "device_class",
    "exactly",
    "given",
    "node",
    "objects",
    "pod",
    "prepared",
    "resource_slice",
    "run",
    "template",
]

DRIVER = "gpu.example.com"
_VERSION = "resource.k8s.io/v1"


def node(
    name: str, cpu: int = 8, labels: Mapping[str, str] | None = None, amounts: Mapping[str, str] | None = None
) -> Raw:
    """A node; further amounts by name."""
    amounts = {"cpu": str(cpu), "memory": "64Gi", "pods": "110", **(amounts or {})}
    meta = {"name": name, "labels": dict(labels or {})}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": {"allocatable": amounts}}


def device(name: str, taints: Sequence[Raw] = (), capacity: Mapping[str, Any] | None = None, **attributes: Any) -> Raw:
    """A device; attributes by name, with the type of their value."""
    typed = {str: "string", int: "int", bool: "bool"}
    found: Raw = {"name": name, "attributes": {k: {typed[type(v)]: v} for k, v in attributes.items()}}
    if taints:
        found["taints"] = list(taints)
    if capacity:
        found["capacity"] = {k: v if isinstance(v, dict) else {"value": v} for k, v in capacity.items()}
    return found


def resource_slice(where: str, devices: Sequence[Raw], driver: str = DRIVER, name: str = "", **more: Any) -> Raw:
    """The only slice of a node's pool, unless `more` says otherwise."""
    pool = {"name": where, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": driver, "nodeName": where, "pool": pool, "devices": list(devices), **more}
    spec = {key: value for key, value in spec.items() if value is not None}
    return {
        "apiVersion": _VERSION,
        "kind": "ResourceSlice",
        "metadata": {"name": name or f"{where}-{driver}"},
        "spec": spec,
    }


def device_class(name: str = DRIVER, expression: str | None = None, **more: Any) -> Raw:
    """A class of all devices of the driver of the same name, unless an expression says otherwise."""
    text = f'device.driver == "{name}"' if expression is None else expression
    spec = {"selectors": [{"cel": {"expression": text}}] if text else [], **more}
    return {"apiVersion": _VERSION, "kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}


def exactly(count: int = 1, name: str = "gpu", where: str = "", **more: Any) -> dict[str, Any]:
    """A request for a number of devices that meet a condition."""
    fields = {"deviceClassName": DRIVER, "count": count, **more}
    if where:
        fields["selectors"] = [{"cel": {"expression": where}}]
    return {"name": name, "exactly": fields}


def claim(name: str, *requests: Any, **more: Any) -> dict[str, Any]:
    """A claim with these requests; `status` and further fields of its devices as they are."""
    status = more.pop("status", None)
    found: dict[str, Any] = {
        "apiVersion": _VERSION,
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"devices": {"requests": list(requests), **more}},
    }
    return found if status is None else {**found, "status": status}


def template(name: str, *requests: Any, **more: Any) -> Raw:
    """A template of such claims."""
    return {
        "apiVersion": _VERSION,
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"spec": {"devices": {"requests": list(requests), **more}}},
    }


def pod(name: str, *claims: str, of: str = "", group: str = "", on: str = "", cpu: int = 1, **more: Any) -> Raw:
    """A pod with claims by name, or with one made from the template `of`."""
    entries = [{"name": f"c{i}", "resourceClaimName": one} for i, one in enumerate(claims)]
    if of:
        entries.append({"name": "made", "resourceClaimTemplateName": of})
    meta: Raw = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    if group:
        meta["annotations"] = {"scheduling.k8s.io/group-name": group}
    requests = {"cpu": str(cpu), **more.pop("requests", {})}
    spec = {"schedulerName": "tierwise", "containers": [{"name": "main", "resources": {"requests": requests}}], **more}
    if entries:
        spec["resourceClaims"] = entries
    status = {"phase": "Running" if on else "Pending"}
    if on:
        spec["nodeName"] = on
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": status}


def prepared(name: str, user: str = "p", since: str = "", where: str = "n0", **conditions: str) -> Raw:
    """A claim that holds device d0 of a node, whose driver reports these conditions: `ready` it waits for."""
    result: Raw = {"request": "gpu", "driver": DRIVER, "pool": where, "device": "d0"}
    result |= {"bindingConditions": ["ready"], "bindingFailureConditions": ["broken"]}
    fields = [{"key": "metadata.name", "operator": "In", "values": [where]}]
    allocation: Raw = {
        "devices": {"results": [result]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": fields}]},
    }
    if since:
        allocation["allocationTimestamp"] = since
    told = [{"type": kind, "status": status, "reason": "Fabric"} for kind, status in conditions.items()]
    status: Raw = {
        "allocation": allocation,
        "reservedFor": [{"resource": "pods", "name": user, "uid": f"uid-{user}"}] if user else [],
        "devices": [{"driver": DRIVER, "pool": where, "device": "d0", "conditions": told}] if told else [],
    }
    return claim(name, exactly(), status=status)


def objects(*raws: Raw | Sequence[Raw]) -> Objects:
    """Manifests, or lists of them, as a cluster holds them."""
    flat: list[Raw] = []
    for raw in raws:
        flat += [raw] if isinstance(raw, dict) else list(raw)
    return Objects.of([(codec.decode(raw), raw) for raw in flat])


def run(*raws: Raw | Sequence[Raw], profile: Profile = DEFAULT) -> Rounds:
    """Cycles on the embedded cluster until nothing changes."""
    return schedule(objects(*raws), profile, now=0.0)


def given(history: Rounds, name: str) -> list[str]:
    """The devices that a claim holds, in order."""
    found = history.cluster.read().every(ResourceClaim)[f"default/{name}"]
    allocation = found.status.allocation
    return [result.device for result in allocation.devices.results] if allocation is not None else []
