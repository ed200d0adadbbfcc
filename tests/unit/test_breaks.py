"""The lists of broken rules stay true: what the fuzzer and the comparisons would change is there, once."""

from __future__ import annotations

import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
LISTS = ("tests/fuzz/breaks.toml", "tools/compare/breaks.toml")


def listed(path: str) -> list[dict[str, Any]]:
    """Every change of a list, with the name of its break; breaks that nothing notices yet are among them."""
    tables: dict[str, list[dict[str, Any]]] = tomllib.loads((ROOT / path).read_text())
    entries = [entry for table in tables.values() for entry in table]
    return [{**change, "name": entry["name"]} for entry in entries for change in (entry, *entry.get("also", ()))]


@pytest.mark.parametrize("path", LISTS)
def test_every_text_is_found_once(path: str) -> None:
    """A text that was changed, or is there twice, breaks no rule any more."""
    sources = {one["file"]: (ROOT / "src" / "tierwise" / one["file"]).read_text() for one in listed(path)}

    assert [] == [one["name"] for one in listed(path) if sources[one["file"]].count(one["find"]) != 1]


@pytest.mark.parametrize("path", LISTS)
def test_every_break_changes_something(path: str) -> None:
    """What is put in place of a text is another text."""
    assert [] == [one["name"] for one in listed(path) if one["find"] == one["replace"]]


@pytest.mark.parametrize("path", LISTS)
def test_names_are_there_once(path: str) -> None:
    """A break is chosen by its name."""
    tables = tomllib.loads((ROOT / path).read_text())
    counts = Counter(entry["name"] for table in tables.values() for entry in table)

    assert [] == [name for name, number in counts.items() if number > 1]
