"""The list of rules that the comparisons with other schedulers must notice when they are broken."""

from __future__ import annotations

import tomllib

import pytest
from tests.fuzz.broken import ROOT, Change

FOLDER = ROOT / "tools" / "compare"
ENTRIES = tomllib.loads((FOLDER / "breaks.toml").read_text())["break"]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry["name"])
def test_the_text_of_a_break_stands_once_in_its_file(entry: dict[str, str]) -> None:
    """What is broken is there, and the broken file is Python."""
    change = Change(entry["file"], entry["find"], entry["replace"])
    compile(change.source(), change.file, "exec")

    assert (FOLDER / f"{entry['comparison'].split()[0]}.py").is_file()


def test_no_two_breaks_have_one_name() -> None:
    """A break is run by its name."""
    names = [entry["name"] for entry in ENTRIES]

    assert len(names) == len(set(names))
