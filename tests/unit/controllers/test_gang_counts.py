"""Counts in the status of Koordinator's PodGroups."""

from __future__ import annotations

import pytest

from tierwise.api.codec import Raw, decode
from tierwise.controllers import run
from tierwise.port import Objects, PatchStatus


def _pod(number: int, phase: str, *, on: str = "n0") -> Raw:
    meta = {"name": f"p{number}", "namespace": "default", "labels": {"pod-group.scheduling.sigs.k8s.io": "g"}}
    spec = {"nodeName": on} if on else {}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": {"phase": phase}}


@pytest.mark.parametrize("group", ["scheduling.sigs.k8s.io", "scheduling.koordinator.sh"])
def test_pods_are_counted_by_phase(group: str) -> None:
    """Only what differs from the status is written, and nothing where nothing does."""
    record: Raw = {
        "apiVersion": f"{group}/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default"},
        "status": {"failed": 1},
    }
    phases = ("Running", "Running", "Succeeded", "Failed")
    raws = [record, *(_pod(i, phase) for i, phase in enumerate(phases)), _pod(9, "Pending", on="")]

    effects = run(Objects.of((decode(raw), raw) for raw in raws), 0.0)

    assert [{"scheduled": 4, "running": 2, "succeeded": 1}] == [e.status for e in effects if isinstance(e, PatchStatus)]
    record["status"] = {"scheduled": 4, "running": 2, "succeeded": 1, "failed": 1}
    assert [] == run(Objects.of((decode(raw), raw) for raw in raws), 0.0)
