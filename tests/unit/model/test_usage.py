"""Usage that fades: what time costs, how it is forgotten, and what a clock that jumps does to it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tierwise.model.usage import UsageState, fraction_of_growth, grown

HOUR = 3600.0
OWNER = ("a", "team")


def state(half_life: float = HOUR, **fields: object) -> UsageState:
    """What is remembered at 1,000 seconds: one owner that holds a rate of 1,000."""
    begun = UsageState(at=1000.0, half_life=half_life, unit="u", rates={OWNER: 1000}, since=1000.0)
    return replace(begun, **fields)


@pytest.mark.parametrize("parts", [1, 2, 7, 360])
def test_a_stretch_of_time_costs_the_same_however_often_it_is_looked_at(parts: int) -> None:
    """To the last digit: charges of parts add up to the charge of the whole."""
    found = state()
    for part in range(1, parts + 1):
        found = found.now(1000.0 + HOUR * part / parts)

    assert state().now(1000.0 + HOUR).used[OWNER] == pytest.approx(found.used[OWNER], rel=1e-12)
    if parts in (1, 2):
        assert state().now(1000.0 + HOUR).used == found.used


def test_after_a_half_life_half_of_it_counts() -> None:
    """Who holds nothing any more."""
    used = state().now(1000.0 + HOUR)
    idle = replace(used, rates={})

    assert idle.counted()[OWNER] // 2 == pytest.approx(idle.now(used.at + HOUR).counted()[OWNER], abs=2)


def test_whoever_always_holds_the_same_comes_to_what_memory_holds() -> None:
    """Its rate times half-life / ln 2."""
    found = state()
    for hour in range(1, 60):
        found = found.now(1000.0 + hour * HOUR)

    assert 1000 * HOUR / 0.6931471805599453 == pytest.approx(found.counted()[OWNER], rel=1e-6)


def test_numbers_stay_short_for_years() -> None:
    """The clock of the record begins anew, and what counts stays."""
    found = state()
    for hour in range(1, 2000):
        found = found.now(1000.0 + hour * HOUR)

    assert found.used[OWNER].bit_length() < 100
    assert found.time < 33 * HOUR


def test_putting_the_clock_back_by_half_lives_changes_nothing() -> None:
    """Halving all together leaves what counts as it was."""
    used = state().now(1000.0 + HOUR / 2).now(1000.0 + HOUR).now(1000.0 + 2 * HOUR)

    assert used.counted()[OWNER] == pytest.approx(used.shifted(1).counted()[OWNER], abs=1)


def test_a_clock_that_is_put_back_costs_nobody_anything_and_goes_on_from_there() -> None:
    """No time passes; what is held afterwards is charged as ever."""
    used = state().now(1000.0 + HOUR)
    back = used.now(10.0)

    assert used.used == back.used
    assert used.now(used.at + 60).used == back.now(70.0).used


def test_a_clock_that_jumps_ahead_counts_as_one_half_life() -> None:
    """Nobody pays for ten years, and nobody's past is gone."""
    used = state().now(1000.0 + HOUR)
    decade = 10 * 365 * 24 * HOUR

    assert used.now(used.at + HOUR).used == used.now(used.at + decade).used


def test_the_price_of_entry_is_paid_at_once_and_not_twice() -> None:
    """After its first seconds a job has paid what it holds, and no more."""
    begun = state(rates={})
    entered = begun.started("j", OWNER, 1000, 300.0)
    later = replace(entered, rates={OWNER: 1000}).now(1300.0)
    without = state().now(1300.0)

    assert entered.used[OWNER] > 0
    assert without.used == later.used
    assert () == later.prepaid


def test_another_half_life_keeps_what_counts() -> None:
    """A profile that is changed forgets nobody's usage."""
    used = state().now(1000.0 + HOUR)

    assert used.counted()[OWNER] == pytest.approx(used.with_half_life(7 * HOUR).counted()[OWNER], rel=1e-6)


def test_a_queue_can_be_forgiven() -> None:
    """And no other."""
    used = replace(state().now(2000.0), used={("a", "x"): 1, ("a", "y"): 2, ("b", "x"): 3})

    assert {("b", "x"): 3} == used.forgotten(["a"]).used


def test_growth_and_its_fraction_agree() -> None:
    """A second that was held just now counts for one second."""
    for time in (0.0, 1000.0, 20 * HOUR):
        assert 1.0 == pytest.approx(
            fraction_of_growth((grown(time, HOUR) - grown(time - 1, HOUR)) * 1000, time, HOUR) / 1000, rel=1e-2
        )
