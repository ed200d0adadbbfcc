"""How much of a pattern crosses domains."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.draw import draw, objects_of

from tierwise.api.pattern import Pattern
from tierwise.model.ranks import crossing
from tierwise.snapshot.builder import build


@pytest.mark.parametrize(
    ("pattern", "rows", "edges"),
    [
        (Pattern("all-to-all"), [0, 1, 2, 3], 4),  # two ranks in each rack: each of one with each of the other
        (Pattern("all-to-all"), [0, 1, 2], 2),
        (Pattern("all-to-all"), [0, 1], 0),
        (Pattern("ring"), [0, 1, 2, 3], 2),
        (Pattern("ring"), [0, 2, 1, 3], 4),
    ],
)
def test_an_edge_that_leaves_a_domain_is_counted_once(pattern: Pattern, rows: list[int], edges: int) -> None:
    """Whichever of its two ranks is asked."""
    topology = build(objects_of(draw("s0[r0[n0 n1] r1[n2 n3]]", node="gpu=8")), now=0.0).topology

    assert edges == crossing(topology, np.array(rows), pattern, 1)
