"""What a gang states of its run time moves its place, and gains it nothing over others that are honest."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.support.batches import Batch, drawn_batch, found
from tests.support.depth import size

from tierwise.api.eviction_terms import EXPECTED_DURATION

HONEST = "2h"


def _stating(batch: Batch, number: int, text: str) -> Batch:
    """The same batch, whose gangs state their run time, one of them another than the others."""
    told = [text if i == number else HONEST for i in range(len(batch.gangs))]
    gangs = (replace(gang, marks={EXPECTED_DURATION: said}) for gang, said in zip(batch.gangs, told, strict=True))
    return replace(batch, gangs=tuple(gangs))


@pytest.mark.parametrize("lie", ["1m", "720h"])
@pytest.mark.parametrize("seed", range(size(10, 200, quick=3)))
def test_a_lie_starts_nobody_else_later_and_brings_no_closer_place(seed: int, lie: str) -> None:
    """Whatever one of three gangs states, the same gangs start, and its own place is of the same tier and as narrow."""
    batch = drawn_batch(seed)
    honest = found(_stating(batch, 2, HONEST))
    lying = found(_stating(batch, 2, lie))

    assert [gang.waiting for gang in honest] == [gang.waiting for gang in lying]
    assert honest[2] == lying[2]
