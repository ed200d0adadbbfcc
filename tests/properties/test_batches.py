"""Batches of three gangs beside the best that can be done for all of them, by an exact solver."""

from __future__ import annotations

import pytest
from tests.support.batches import best, drawn_batch, found, in_turn, summed
from tests.support.depth import size


@pytest.mark.parametrize("roles", [1, 2])
def test_batches_are_as_good_as_can_be(roles: int) -> None:
    """Of arrangements in which nobody has a wider place than in its turn, unless another starts for it, the best."""
    seeds = range(size(8, 300))
    batches = [drawn_batch(seed, roles=roles) for seed in seeds]
    as_good = [summed(found(batch)) <= best(batch, in_turn(batch)) for batch in batches]

    assert sum(as_good) >= 0.95 * len(as_good)
