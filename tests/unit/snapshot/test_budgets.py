"""Disruption budgets without a status: how many pods may go follows from their spec and the pods."""

from __future__ import annotations

import pytest

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.api.core import Pod
from tierwise.port import Objects
from tierwise.snapshot.builder import build


def pod(name: str) -> Raw:
    """A running pod with a label."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": "x"}},
        "spec": {"nodeName": "n0", "containers": [{"name": "main"}]},
        "status": {"phase": "Running"},
    }


@pytest.mark.parametrize(
    ("spec", "allowed"),
    [
        ({"minAvailable": 2}, 1),
        ({"minAvailable": "50%"}, 1),
        ({"minAvailable": 5}, 0),
        ({"maxUnavailable": "30%"}, 1),
        ({"maxUnavailable": 0}, 0),
    ],
)
def test_percentages_are_rounded_up_and_nothing_is_below_none(spec: Raw, allowed: int) -> None:
    """As Kubernetes counts, over three running pods."""
    budget: Raw = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "x"}}, **spec},
    }
    raws = [budget, *(pod(f"p{i}") for i in range(3))]
    objects = Objects.of((codec.decode(raw), raw) for raw in raws)

    assert 3 == len(objects.every(Pod))
    assert (allowed,) == build(objects, now=0.0).budgets
