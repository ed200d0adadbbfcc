"""Names in the order in which people expect them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tierwise.api.natural import natural, natural_order

NAMES = st.lists(st.text(alphabet="ab-/0129\0", max_size=6), max_size=12)


@given(NAMES)
def test_the_order_of_many_is_that_of_their_keys(names: list[str]) -> None:
    """Splitting what names have in common once changes nothing."""
    assert sorted(range(len(names)), key=lambda i: natural(names[i])) == natural_order(names)


def test_numbers_count() -> None:
    """Of two names that differ in leading zeros alone, the text decides."""
    names = ["g10", "g2", "g", "g02", "g2-10", "g2-9"]

    assert ["g", "g02", "g2", "g2-9", "g2-10", "g10"] == [names[i] for i in natural_order(names)]
