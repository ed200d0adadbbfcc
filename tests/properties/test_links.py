"""No link is ever oversubscribed, and the controller's sums are those that pairs of pods add up to."""

from __future__ import annotations

import pytest
from tests.fuzz.fuzz_link_room import histories
from tests.fuzz.fuzz_links import history


@pytest.mark.parametrize("start", range(0, 60, 20))
def test_no_link_is_oversubscribed(start: int) -> None:
    """Through additions, moves, deletions, gangs and evictions; `tests.fuzz.fuzz_links` runs as many as one likes."""
    assert [] == [fault for seed in range(start, start + 20) for fault in history(seed)]


def test_the_ledger_keeps_every_link_through_placements_and_rewinds() -> None:
    """Sums are those of all pairs of pods, and none is above its capacity; `tests.fuzz.fuzz_link_room` runs more."""
    assert [] == [fault for seed in range(20) for fault in histories(seed, 20)]
