"""Codes of reasons lead to their cause and cure: on the page, and from whatever shows a code."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.support.commands import EXAMPLES, answer, run
from tests.support.reasons_page import PAGE, page

from tierwise.explain.reasons import Described, described, sections


def _rows() -> Iterator[Described]:
    for rows in sections().values():
        yield from rows


def test_the_page_is_made_from_the_table() -> None:
    """`python -m tests.support.reasons_page` writes it."""
    assert page() == PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("section", sections())
def test_every_code_has_a_cause_and_a_cure(section: str) -> None:
    """And one row in each table that it is in."""
    rows = sections()[section]
    codes = [row.cells["Code"] for row in rows]

    assert [] == [row.cells["Code"] for row in rows if not (row.plain("Means") and row.plain("What to do"))]
    assert sorted(set(codes)) == sorted(codes)


def test_who_waits_is_told_what_to_do() -> None:
    """In text and as JSON, with the address of the row."""
    words = ("why", "-f", EXAMPLES / "02-why-not", "train-0")
    (row,) = described("NotEnoughResources")
    found = answer(*words)

    assert row.plain("What to do") == found["cure"]
    assert "docs/reference/reasons.md#NotEnoughResources" == found["reference"]
    assert "what to do: read which resource" in run(*words).stdout


def test_a_code_is_looked_up() -> None:
    """No cluster is needed for that."""
    printed = run("why", "QueueOverDeserved").stdout

    assert printed.startswith("QueueOverDeserved\n    Why a job waits: the queue would have more than it deserves;")
    assert ["Why a job waits"] == [row["about"] for row in answer("why", "QueueOverDeserved")["meanings"]]


def test_marks_of_pages_are_not_shown() -> None:
    """Cells are Markdown; people at a terminal read words."""
    assert [] == [row.cells["Code"] for row in _rows() if "](" in row.plain("Means") or "`" in row.plain("What to do")]
