"""Text made to fit a page: words, wraps, cuts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from tierwise.explain import page
from tierwise.explain.page import (
    ASCII,
    UNICODE,
    Text,
    count,
    glyphs_for,
    joined,
    shortened,
    wrapped,
)

texts = st.text(alphabet="ab c-界é", max_size=60)


@pytest.mark.parametrize(("encoding", "expected"), [("utf-8", UNICODE), ("ascii", ASCII), ("cp437x", ASCII)])
def test_glyphs_follow_the_encoding(encoding: str, expected: object) -> None:
    """Box drawing only where it can be written."""
    assert expected == glyphs_for(encoding)


def test_numbers_with_words() -> None:
    """One pod, two pods, and separators where numbers get long."""
    assert ["1 pod", "2 pods", "12,000 pods"] == [count(1, "pod"), count(2, "pod"), count(12_000, "pod")]


def test_lists_of_words() -> None:
    """Few are listed, of many the first ones."""
    assert ["a", "a and b", "a, b and c", "a, b and 2 more"] == [joined("abcd"[:n]) for n in (1, 2, 3, 4)]


def test_names_are_cut_in_the_middle() -> None:
    """Names that share a beginning can still be told apart."""
    assert "rack-l…of-17" == shortened("rack-long-name-of-17", 12, "…")


@given(text=texts, width=st.integers(0, 40))
def test_a_cut_text_fits(text: str, width: int) -> None:
    """Whatever is in it, wide characters included."""
    assert width >= cell_len(shortened(text, width, "…"))


def test_wrapped_lines_hang() -> None:
    """Later lines stand below the text, not below what leads it in."""
    lines = wrapped(Text("tier 1: best of 6 is rack-3"), 22, first="  * ")

    assert ["  * tier 1: best of 6", "    is rack-3"] == [line.plain for line in lines]


@given(text=texts, width=st.integers(24, 60))
def test_wrapping_keeps_every_word_and_fits(text: str, width: int) -> None:
    """Nothing is lost, and no line is wider than the page."""
    lines = wrapped(Text(text), width, first="- ")

    assert width >= max(line.cell_len for line in lines)
    assert "".join(text.split()) == "".join("".join(line.plain[2:] for line in lines).split())


def test_wrapping_keeps_styles() -> None:
    """A word keeps its colour on the next line."""
    lines = wrapped(Text.assemble("aaaa bbbb cccc dddd ", ("eeee", "red")), 20)

    assert [("eeee", "red")] == lines[-1].pieces


def test_a_line_is_appended_to_and_cut_with_its_styles() -> None:
    """What is appended wears the line's style below its own, and a part of a line keeps the styles of its pieces."""
    line = Text("2 jobs", style="bold").append(": 1 runs", "not bold").append("", "red").append(Text("!", "red"))

    assert "2 jobs: 1 runs!" == line.plain
    assert [("2 jobs", "bold"), (": 1 runs", "bold not bold"), ("!", "bold red")] == line.pieces
    assert [("jobs", "bold"), (":", "bold not bold")] == line[2:8].rstrip().pieces


def test_cells_are_counted_as_terminals_draw_them() -> None:
    """As rich counts them: characters of pages are one cell wide each, those of other scripts may be two, or none."""
    texts = ["├─ r0 → 3", "東京", "e\u0301", ""]

    assert [9, 4, 1, 0] == [cell_len(text) for text in texts] == [page.cell_len(text) for text in texts]
