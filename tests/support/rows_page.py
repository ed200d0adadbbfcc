"""The page with every row of the benchmark: gates from the code, words and last figures from a table.

`python -m tests.support.rows_page` writes the page from `tools/benchmark_rows.csv` and the registered rows;
`tests/unit/test_docs.py` holds the page against them.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from typing import Final

from tests.support.commands import ROOT

from tierwise_lab.bench.measure import Goal
from tierwise_lab.bench.rows import GOALS

__all__ = ["PAGE", "page"]

PAGE: Final = ROOT / "docs" / "reference" / "benchmark-rows.md"
_TABLE: Final = ROOT / "tools" / "benchmark_rows.csv"
_HEAD: Final = """\
# Rows of the benchmark

[Benchmarks](../benchmarks.md) says how they are measured; `tierwise bench --row ID` measures one.
A gate is the least that is accepted, and the stretch is what is aimed at.
Figures are the last that were measured, in November 2026 on two shared cores; single minutes differ by half.

This page is made from the code and [a table](../../tools/benchmark_rows.csv) by `python -m tests.support.rows_page`.

| Row | What | Measured | Gate | Stretch |
|---|---|---|---|---|
"""


def page() -> str:
    """The text of the page; KeyError where a row has no words, ValueError where words have no row."""
    with _TABLE.open(encoding="utf-8", newline="") as file:
        listed = {line["row"]: line for line in csv.DictReader(file)}
    if left := listed.keys() - GOALS.keys():
        raise ValueError(f"no rows of the benchmark: {', '.join(sorted(left))}")
    rows = (_row(name, goal, listed[name]["says"], listed[name]["measured"]) for name, goal in GOALS.items())
    return _HEAD + "".join(rows)


def _row(name: str, goal: Goal, says: str, measured: str) -> str:
    return f"| {' | '.join((name, says, measured, *_goals(goal, measured)))} |\n"


def _goals(goal: Goal, measured: str) -> Iterator[str]:
    """Gate and stretch, each with whether the figure meets it; "" for a stretch that is not there."""
    for bound in (goal.gate, goal.stretch):
        if bound is None:
            yield ""
            continue
        met = ""
        if measured:
            met = "✓ " if goal.met(float(measured.replace(",", "")), bound) else "✗ "
        yield f"{met}{'≤' if goal.most else '≥'} {bound:,g}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
