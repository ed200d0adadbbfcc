"""A few hundred cycles of the eviction fuzz in every run; `python -m tests.fuzz.fuzz_eviction` runs any number."""

from __future__ import annotations

from tests.fuzz.fuzz_eviction import fuzz


def test_histories_without_fault() -> None:
    """No wasted eviction, no oversubscribed node, no broken guarantee and no livelock in a few random histories."""
    total = fuzz(cycles=250, seed=700, workers=1)

    assert [] == total.faults
    assert total.evictions > 0
