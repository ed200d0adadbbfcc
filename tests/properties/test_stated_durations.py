"""What a gang states of its run time moves its place, and gains it nothing over others that are honest."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.support.batches import Batch, drawn_batch, found
from tests.support.depth import size
from tests.support.draw import Gang

from tierwise.api.eviction_terms import EXPECTED_DURATION

HONEST = "2h"
NOW, _SINCE = 7200.0, "1970-01-01T01:00:00Z"


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


def _beside_ends(batch: Batch) -> Batch:
    """The same batch with what runs on other devices of each second node, and ends one after the other."""
    nodes = list(batch.room)[::2]
    standing = [
        Gang(f"runs{i}", 2, "gpu=1", on=f"{node} {node}", since=_SINCE, marks={EXPECTED_DURATION: f"{61 + 2 * i}m"})
        for i, node in enumerate(nodes)
    ]
    return replace(batch, standing=tuple(standing), now=NOW)


@pytest.mark.parametrize("lie", ["1m", "720h"])
@pytest.mark.parametrize("seed", range(size(4, 200, quick=2)))
def test_a_lie_gains_nothing_where_it_is_known_when_others_end(seed: int, lie: str) -> None:
    """Others start as before, and where it starts either way its place is of the same tier and as narrow."""
    batch = _beside_ends(drawn_batch(seed))
    honest = found(_stating(batch, 2, HONEST))
    lying = found(_stating(batch, 2, lie))

    assert [gang.waiting for gang in honest[:2]] == [gang.waiting for gang in lying[:2]]
    assert honest[2].waiting or lying[2].waiting or honest[2] == lying[2]
