"""Figures that follow from other tenants are told as ranges on a fixed grid."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierwise.explain.tenant import coarse_number, coarse_text, start_range, start_text

HOUR = 3600.0
NOW = 1_767_225_600.0


@given(st.integers(0, 10_000))
def test_numbers_are_told_as_ranges(number: int) -> None:
    """Each number is in its range, and all numbers of a range are told alike."""
    told = coarse_number(number)

    assert told.at_least <= number
    assert told.at_most is None or number <= told.at_most
    assert told == coarse_number(told.at_least)


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0"), (1, "1"), (3, "2 to 5"), (100, "51 to 100"), (101, "more than 100")]
)
def test_ranges_read_well(number: int, text: str) -> None:
    """One number where the range is one, else both ends."""
    assert text == coarse_text(coarse_number(number))


@given(st.floats(0, 3e6), st.floats(0, 3e6))
def test_starts_are_told_on_a_grid(first: float, further: float) -> None:
    """The range holds the times; its ends are whole quarters of an hour of the clock, wherever now is."""
    earliest, latest = start_range(NOW + first, NOW + first + further, NOW)

    assert latest is not None
    assert earliest <= NOW + first <= NOW + first + further <= latest
    assert 0 == earliest % 900 == latest % 900
    assert earliest < latest
    if first >= 24 * HOUR:
        assert 0 == earliest % (24 * HOUR)


@given(st.floats(0, 850), st.floats(2 * HOUR + 1, 3 * HOUR - 1000))
def test_asking_again_does_not_narrow_a_range(passed: float, start: float) -> None:
    """Moments later the same expected start is told with the same ends, as long as it is as far away by the grid."""
    assert start_range(NOW + start, None, NOW) == start_range(NOW + start, None, NOW + passed)


@pytest.mark.parametrize(
    ("earliest", "latest", "text"),
    [
        (0.0, 900.0, "within 15 min"),
        (2 * HOUR, 3 * HOUR, "in 2 h to 3 h"),
        (24 * HOUR, 72 * HOUR, "in 24 h to 3 days"),
        (3 * HOUR, None, "in more than 3 h"),
    ],
)
def test_ranges_of_starts_read_well(earliest: float, latest: float | None, text: str) -> None:
    """From now, in the largest unit that keeps its meaning."""
    end = NOW + latest if latest is not None else None

    assert text == start_text(NOW + earliest, end, NOW)
