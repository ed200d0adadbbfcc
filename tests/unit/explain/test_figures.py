"""Bars, ranges, tables and amounts: the small parts of every page."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierwise.explain.page import ASCII, Page
from tierwise.explain.ranges import compact, numbers, pods
from tierwise.explain.tables import TableColumn, bar, table
from tierwise.explain.usage import short


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (0, 0, "........"),
        (1, 1, "#......."),
        (0, 1, "+......."),
        (99, 99, "#######."),
        (100, 100, "########"),
        (99, 100, "#######+"),
        (50, 75, "####++.."),
        (50, 25, "##......"),
        (130, 130, "########"),
    ],
)
def test_bar(before: int, after: int, expected: str) -> None:
    """Something is never shown as nothing, and only what is full looks full."""
    assert expected == bar(ASCII, 8, before=before, after=after, total=100).plain


@given(before=st.integers(0, 300), after=st.integers(0, 300), total=st.integers(0, 200), width=st.integers(1, 40))
def test_a_bar_is_as_wide_as_asked(before: int, after: int, total: int, width: int) -> None:
    """Whatever the numbers are."""
    assert width == len(bar(ASCII, width, before=before, after=after, total=total).plain)


@given(before=st.integers(0, 199), more=st.integers(1, 200), width=st.integers(1, 40))
def test_what_is_new_is_visible(before: int, more: int, width: int) -> None:
    """However little it is, and however short the bar."""
    assert "+" in bar(ASCII, width, before=before, after=before + more, total=200).plain


def test_runs_of_numbers() -> None:
    """Runs are written as such, and too many of them are counted."""
    assert "0-3,8" == numbers([8, 0, 1, 2, 3, 2])
    assert "0,2,4,6,8 and 5 more" == numbers(range(0, 20, 2))


def test_names_are_folded() -> None:
    """By their last number, in natural order; leading zeros are names of their own."""
    assert "n[2,9-10] and spare" == compact(["n10", "n9", "spare", "n2"])
    assert "n01 and n1" == compact(["n1", "n01"])
    assert "a[0-1], b[0-1] and 3 more" == compact(["a0", "a1", "b0", "b1", "c0", "d7", "e"])


@pytest.mark.parametrize(
    ("names", "role", "expected"),
    [
        (["train-worker-0", "train-worker-1"], "worker", "worker 0-1"),
        (["train-0", "train-1"], "", "pods 0-1"),
        (["train-7"], "", "pod 7"),
        (["p1", "p2"], "", "p[1-2]"),
        (["p1"], "worker", "p1"),
    ],
)
def test_pods_by_what_tells_them_apart(names: list[str], role: str, expected: str) -> None:
    """The job's name is not repeated where the pods are named after it."""
    assert expected == pods("train", names, role)


@pytest.mark.parametrize(
    ("resource", "amount", "expected"),
    [
        ("cpu", 1500, "1.5"),
        ("cpu", 640_000_000, "640000"),
        ("memory", 3 << 30, "3Gi"),
        ("memory", 1_234_567_890_123, "1.1Ti"),
        ("nvidia.com/gpu", 40000, "40000"),
    ],
)
def test_amounts_at_a_glance(resource: str, amount: int, expected: str) -> None:
    """Rounded, with the suffix that fits."""
    assert expected == short(resource, amount)


def test_a_table_fits_its_page() -> None:
    """A column that may wrap gives way first; then one that may shrink is cut in the middle."""
    columns = (
        TableColumn("object", least=8),
        TableColumn("n", right=True),
        TableColumn("message", least=12, wraps=True),
    )
    lines = table(Page(34, ASCII), columns, [("rack-with-a-long-name", "7", "is not there, nor is its parent")])

    assert [
        "  object           n  message",
        "  rack-wi..g-name  7  is not",
        "                      there, nor",
        "                      is its",
        "                      parent",
    ] == [line.plain for line in lines]


def test_a_table_without_rows_is_nothing() -> None:
    """No titles over nothing."""
    assert [] == table(Page(), (TableColumn("a"),), [])
