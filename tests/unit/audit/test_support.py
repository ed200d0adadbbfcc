"""A pod that was bound although it names what cannot be honoured."""

from __future__ import annotations

from tierwise.api import codec
from tierwise.audit import audit
from tierwise.port import Objects


def _rules(scheduler: str, *, on: str) -> list[str]:
    node: codec.Raw = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n0"},
        "status": {"allocatable": {"pods": "9"}},
    }
    spec = {"schedulerName": scheduler, "workloadRef": {"name": "w"}, **({"nodeName": on} if on else {})}
    pod: codec.Raw = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default"},
        "spec": spec,
    }
    return [finding.rule for finding in audit(Objects.of((codec.decode(raw), raw) for raw in (node, pod)))]


def test_a_bound_pod_that_was_not_understood_is_reported() -> None:
    """It should still wait; a pod that waits, or that another scheduler bound, breaks nothing."""
    assert ["not-supported"] == _rules("tierwise", on="n0")
    assert [] == _rules("tierwise", on="")
    assert [] == _rules("default-scheduler", on="n0")
