"""A few hundred cycles of fuzz in every run; `fuzz_eviction` and `fuzz_mixed` run any number when called as modules."""

from __future__ import annotations

from tests.fuzz.fuzz_eviction import fuzz, history
from tests.fuzz.fuzz_mixed import Total
from tests.fuzz.fuzz_mixed import fuzz as fuzz_mixed
from tests.fuzz.fuzz_mixed import history as mixed_history
from tests.support.depth import size


def test_histories_without_fault() -> None:
    """No wasted eviction, no oversubscribed node, no broken guarantee and no livelock in a few random histories."""
    total = fuzz(cycles=size(150, 5_000, quick=60), seed=700, workers=1)

    assert [] == total.faults
    assert total.evictions > 0


def test_two_evicting_actions_do_not_serve_one_gang_twice() -> None:
    """A gang that one action nominated is left alone by the next; once, a pod was evicted for it in vain."""
    assert [] == history(3247).faults


def test_who_is_held_gets_no_place() -> None:
    """Gangs and queues that are held and released on the way; without the annotation these histories have faults."""
    assert [] == [fault for seed in (3, 10) for fault in history(seed).faults]


def test_two_languages_without_fault() -> None:
    """Gangs of two languages, giant amounts and hostile objects in a few random clusters break no promise."""
    total = fuzz_mixed(cycles=size(40, 400, quick=20), seed=200)

    assert [] == total.faults
    assert total.evictions > 0


def test_a_best_effort_pod_does_not_start_before_its_gang() -> None:
    """A later action leaves the best-effort pod of a gang that is only nominated waiting; once, it was bound."""
    total = Total()
    mixed_history(3047, total)

    assert [] == total.faults


def test_who_goes_for_the_min_resources_of_a_gang_does_not_go_in_vain() -> None:
    """A rack has room for the pods of a gang, and not for what its minResources say: one pod goes for the rest."""
    total = Total()
    mixed_history(430070, total)

    assert [] == total.faults
