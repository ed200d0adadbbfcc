"""Claims, classes and slices of devices as records."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.api.core import Pod
from tierwise.api.errors import InputError
from tierwise.api.resource import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice


def _object(kind: str, **fields: Any) -> Any:
    meta = {"name": "x", "namespace": "default"} if "Claim" in kind else {"name": "x"}
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": meta, **fields}


def test_a_claim_keeps_what_it_asks_for_and_what_it_was_given() -> None:
    """Requests, constraints and the allocation are read, opaque settings as they were written."""
    exactly = {"deviceClassName": "gpu", "count": 2, "allocationMode": "ExactCount"}
    parameters = {"apiVersion": "gpu.example.com/v1", "kind": "Config", "sharing": None}
    spec = {
        "devices": {
            "requests": [{"name": "gpus", "exactly": exactly}],
            "constraints": [{"requests": ["gpus"], "matchAttribute": "gpu.example.com/numa"}],
            "config": [{"opaque": {"driver": "gpu.example.com", "parameters": parameters}}],
        }
    }
    result = {"request": "gpus", "driver": "gpu.example.com", "pool": "n0", "device": "gpu-0"}
    status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": [{"resource": "pods", "uid": "1"}]}

    claim = codec.decode(_object("ResourceClaim", spec=spec, status=status))

    assert isinstance(claim, ResourceClaim)
    assert 2 == claim.spec.devices.requests[0].exactly.count  # type: ignore[union-attr]
    assert "gpu.example.com/numa" == claim.spec.devices.constraints[0].match_attribute
    assert parameters == claim.spec.devices.config[0].opaque.parameters  # type: ignore[union-attr]
    assert "gpu-0" == claim.status.allocation.devices.results[0].device  # type: ignore[union-attr]
    assert "1" == claim.status.reserved_for[0].uid


def test_a_slice_tells_absent_values_from_false_ones() -> None:
    """An attribute that is false or zero is there."""
    attributes = {"ecc": {"bool": False}, "numa": {"int": 0}, "driver": {"version": "1.2.3"}}
    device = {"name": "gpu-0", "attributes": attributes, "capacity": {"memory": {"value": "80Gi"}}}

    found = codec.decode(_object("ResourceSlice", spec={"driver": "d", "devices": [device]}))

    assert isinstance(found, ResourceSlice)
    read = found.spec.devices[0].attributes
    assert read["ecc"].bool_value is False
    assert 0 == read["numa"].int_value
    assert read["numa"].bool_value is None


@pytest.mark.parametrize(
    ("kind", "spec", "field"),
    [
        ("ResourceSlice", {"devices": [{"capacity": {"memory": {"value": "x"}}}]}, "spec.devices[0].capacity.memory"),
        (
            "ResourceSlice",
            {"sharedCounters": [{"counters": {"memory": {"value": "-1"}}}]},
            "spec.sharedCounters[0].counters.memory",
        ),
        (
            "ResourceClaim",
            {"devices": {"requests": [{"exactly": {"capacity": {"requests": {"memory": "lots"}}}}]}},
            "spec.devices.requests[0].exactly.capacity.requests.memory",
        ),
        (
            "ResourceClaimTemplate",
            {"spec": {"devices": {"requests": [{"exactly": {"count": "two"}}]}}},
            "spec.spec.devices.requests[0].exactly.count",
        ),
    ],
)
def test_what_cannot_be_counted_is_refused(kind: str, spec: Any, field: str) -> None:
    """The message names the field."""
    with pytest.raises(InputError) as caught:
        codec.decode(_object(kind, spec=spec))

    assert field in str(caught.value)


def test_classes_and_templates_are_kinds() -> None:
    """All four kinds are known to the codec."""
    assert isinstance(codec.decode(_object("DeviceClass", spec={"extendedResourceName": "a/b"})), DeviceClass)
    assert isinstance(codec.decode(_object("ResourceClaimTemplate", spec={"spec": {}})), ResourceClaimTemplate)


def test_a_pod_names_its_claims() -> None:
    """By name, or by the template that a claim was made from; the status says which."""
    pod = codec.decode(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p"},
            "spec": {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]},
            "status": {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "p-gpu-x1"}]},
        }
    )

    assert isinstance(pod, Pod)
    assert "one-gpu" == pod.spec.resource_claims[0].resource_claim_template_name
    assert "p-gpu-x1" == pod.status.resource_claim_statuses[0].resource_claim_name


_V1: Raw = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "metadata": {"name": "c", "namespace": "default"},
    "spec": {
        "devices": {
            "requests": [
                {
                    "name": "gpu",
                    "exactly": {
                        "deviceClassName": "gpu",
                        "count": 2,
                        "allocationMode": "ExactCount",
                        "adminAccess": True,
                        "selectors": [{"cel": {"expression": "true"}}],
                        "tolerations": [{"key": "k", "operator": "Exists"}],
                    },
                },
                {"name": "nic", "firstAvailable": [{"name": "a", "deviceClassName": "nic", "count": 1}]},
            ]
        }
    },
}


def test_requests_of_v1beta1_are_those_of_v1() -> None:
    """Their fields stand in the request itself; alternatives are as they are today."""
    old: Any = copy.deepcopy(_V1)
    old["apiVersion"] = "resource.k8s.io/v1beta1"
    first = old["spec"]["devices"]["requests"][0]
    first |= first.pop("exactly")

    assert codec.decode(_V1) == codec.decode(old)
    assert codec.decode(_V1) == codec.decode_json(json.dumps(old).encode(), ResourceClaim)


def test_devices_of_v1beta1_are_those_of_v1() -> None:
    """What is said of them stands one level deeper."""
    said: Raw = {
        "attributes": {"model": {"string": "a"}},
        "capacity": {"memory": {"value": "40Gi"}},
        "taints": [{"key": "k", "effect": "NoSchedule"}],
        "consumesCounters": [{"counterSet": "card", "counters": {"memory": {"value": "40Gi"}}}],
    }

    def made(version: str, device: Raw) -> Raw:
        pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
        spec: Raw = {"driver": "d", "nodeName": "n0", "pool": pool, "devices": [device]}
        meta = {"name": "s"}
        return {"apiVersion": f"resource.k8s.io/{version}", "kind": "ResourceSlice", "metadata": meta, "spec": spec}

    old = made("v1beta1", {"name": "d0", "basic": said})

    assert codec.decode(made("v1", {"name": "d0", **said})) == codec.decode(old)
    assert codec.decode(old) == codec.decode_json(json.dumps(old).encode(), ResourceSlice)
    assert ("v1", "v1beta2", "v1beta1") == codec.versions_of("resource.k8s.io", "ResourceSlice")
