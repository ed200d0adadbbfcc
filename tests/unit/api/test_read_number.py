"""Whole numbers, durations and quantities from labels and annotations, which anybody may write."""

from __future__ import annotations

import pytest

from tierwise.api.core import read_number
from tierwise.api.duration import seconds
from tierwise.api.quantity import ratio

LONG = "9" * 200_000
"""As long as an annotation may be: whoever takes the square of it takes hours."""


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("-7", -7),
        ("007", 7),
        ("", None),
        ("-", None),
        ("1.5", None),
        ("²", None),
        ("\uff11", None),
        (LONG, 2**63 - 1),
        (f"-{LONG}", -(2**63 - 1)),
    ],
)
def test_a_number_is_plain_digits(text: str, number: int | None) -> None:
    """Digits of other scripts are none, and more than 64 bits count as the largest."""
    assert number == read_number(text)


def test_long_texts_are_read_in_no_time() -> None:
    """A duration of so many digits is none; what only looks like a quantity is refused."""
    assert seconds(LONG) is None
    with pytest.raises(ValueError, match="is not a quantity"):
        ratio(f"{LONG}x")
