"""Which domains of a tree are asked for by tier."""

from __future__ import annotations

import pytest
from tests.support.draw import draw, objects_of

from tierwise.model.topology import ROOT_NAME
from tierwise.snapshot.builder import build


@pytest.mark.parametrize(
    ("tier", "within", "expected"),
    [
        (1, ROOT_NAME, ["r0", "r1", "r2"]),
        (2, ROOT_NAME, ["r2", "s0"]),
        (9, ROOT_NAME, [ROOT_NAME]),
        (0, ROOT_NAME, []),
        (1, "s0", ["r0", "r1"]),
        (2, "r1", ["r1"]),
    ],
)
def test_outermost_domains_within_a_tier(tier: int, within: str, expected: list[str]) -> None:
    """Each row is in one of them at most; a domain beside wider ones counts by itself."""
    topology = build(objects_of(draw("s0[r0[n0 n1] r1[n2]] r2[n3]", node="cpu=4")), 0.0).topology
    found = topology.outermost(tier, topology.index[within])
    assert expected == sorted(topology.name[domain] for domain in found.tolist())
