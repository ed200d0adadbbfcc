"""What validation says of claims, classes and templates of devices."""

from __future__ import annotations

from typing import Any

import pytest
from tests.support.devices import claim, device_class, exactly, node, objects, pod, template

from tierwise.admission import validate

REQUEST = "spec.devices.requests[0].exactly.selectors[0].cel.expression"
BOMB = "cel.bind(a, lists.range(100), cel.bind(b, a.map(x, a), cel.bind(c, b.map(x, b), c == c)))"


def _said(*raws: Any) -> tuple[list[str], list[str]]:
    found = validate(objects(node("n0"), *raws))
    return [f"{one.path}: {one.message}" for one in found.errors], [
        f"{one.path}: {one.message}" for one in found.warnings
    ]


def test_a_sound_collection_passes() -> None:
    """Nothing to say about what can be honoured."""
    said = _said(device_class(), claim("c", exactly()), template("t", exactly()), pod("p", "c"), pod("q", of="t"))

    assert ([], []) == said


@pytest.mark.parametrize(
    ("raws", "path"),
    [
        ([claim("c")], "spec.devices.requests"),
        ([claim("c", {"name": "r"})], "spec.devices.requests[0]"),
        ([claim("c", exactly(allocationMode="Some"))], "spec.devices.requests[0].exactly.allocationMode"),
        ([claim("c", exactly(allocationMode="All", count=2))], "spec.devices.requests[0].exactly.count"),
        ([claim("c", exactly(), constraints=[{}])], "spec.devices.constraints[0]"),
        ([pod("p", resourceClaims=[{"name": "x"}])], "spec.resourceClaims[0]"),
        ([template("t", exactly(where="device.nothing == 1"))], f"spec.{REQUEST}"),
        ([claim("c", exactly(where="device.driver == 1"))], REQUEST),
        ([claim("c", exactly(where='"a".split("").join() == "a"'))], REQUEST),
        ([device_class("x", expression="1 +")], "spec.selectors[0].cel.expression"),
    ],
)
def test_what_no_server_would_take(raws: list[Any], path: str) -> None:
    """Errors name the field."""
    errors, _ = _said(device_class(), *raws)

    assert [path] == [one.partition(": ")[0] for one in errors]


@pytest.mark.parametrize(
    ("raws", "text"),
    [
        ([pod("p", "none")], "ResourceClaim none does not exist"),
        ([pod("p", of="none")], "ResourceClaimTemplate none does not exist"),
        ([claim("c", exactly(deviceClassName="none"))], "device class none does not exist"),
        ([template("t", exactly(where="ip('::1') == ip('::1')"))], "the function 'ip' is not supported"),
        ([device_class("x", expression=BOMB)], "it costs more than Kubernetes allows a selector"),
    ],
)
def test_what_would_wait(raws: list[Any], text: str) -> None:
    """Warnings say what a pod would wait for."""
    errors, warnings = _said(device_class(), *raws)

    assert [] == errors
    assert any(text in one for one in warnings)
