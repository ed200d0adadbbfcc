"""Some cycles of the eviction fuzz in every run; `python -m tests.fuzz.fuzz_eviction` runs any number."""

from __future__ import annotations

from tests.fuzz.fuzz_eviction import fuzz, history
from tests.support.depth import size


def test_histories_without_fault() -> None:
    """No wasted eviction, no oversubscribed node, no broken guarantee and no livelock in a few random histories."""
    total = fuzz(cycles=size(150, 5_000), seed=700, workers=1)

    assert [] == total.faults
    assert total.evictions > 0


def test_two_evicting_actions_do_not_serve_one_gang_twice() -> None:
    """A gang that one action nominated is left alone by the next; once, a pod was evicted for it in vain."""
    assert [] == history(3247).faults
