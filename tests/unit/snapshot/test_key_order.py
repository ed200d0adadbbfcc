"""The order in which a manifest names resources says nothing."""

from __future__ import annotations

from itertools import permutations

from tests.support.koordinator import objects_of
from tests.support.languages import nodes, pod

from tierwise.api.codec import Raw
from tierwise.snapshot.builder import build

ASKED = (("cpu", "1"), ("memory", "1Gi"), ("example.com/card", "1"))


def test_pods_that_ask_for_the_same_in_another_order_share_a_shape() -> None:
    """Clients write maps in any order; read one by one or one after the other, the pods are one pod set."""
    orders = [dict(order) for order in permutations(ASKED)]
    specs: list[Raw] = [{"containers": [{"name": "c", "resources": {"requests": asked}}]} for asked in orders]
    world = nodes({"s": {"r": "n0"}})

    snapshot = build(objects_of([*world, *(pod(f"p{i}", spec=spec) for i, spec in enumerate(specs))]), 0.0)

    assert 1 == len(snapshot.shapes)
