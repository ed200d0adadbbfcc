"""Numbers with their words."""

from __future__ import annotations

import pytest

from tierwise.api.plurals import count, joined, of, verb


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 pods"), (1, "1 pod"), (2, "2 pods"), (9999, "9999 pods"), (12000, "12,000 pods")]
)
def test_a_number_has_the_right_form_of_its_word(number: int, text: str) -> None:
    """One is singular, and nothing else is."""
    assert text == count(number, "pod")


def test_a_plural_may_be_irregular() -> None:
    """Words that do not end in s bring their plural."""
    assert ("1 entry", "2 entries") == (count(1, "entry", "entries"), count(2, "entry", "entries"))


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [(0, 1, "0 of 1 pod fits"), (1, 1, "1 of 1 pod fits"), (0, 4, "0 of 4 pods fit"), (1, 4, "1 of 4 pods fits")],
)
def test_a_part_of_a_whole_has_the_right_verb(part: int, whole: int, text: str) -> None:
    """The verb follows the part, the noun follows the whole."""
    assert text == of(part, whole, "pod", "fits", "fit")


def test_a_part_may_have_no_verb() -> None:
    """The noun follows the whole all the same."""
    assert "2 of 4 pods" == of(2, 4, "pod")


def test_a_verb_follows_its_number() -> None:
    """One is, two are."""
    assert ("is", "are", "are") == tuple(verb(n, "is", "are") for n in (1, 2, 0))


def test_words_in_a_row() -> None:
    """The last is joined by "and", and a long row is cut."""
    assert ["", "a", "a and b", "a, b and c", "a, b and 2 more"] == [joined("abcd"[:n]) for n in range(5)]
