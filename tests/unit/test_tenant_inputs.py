"""Whatever a tenant may write has a cap, a charge and a row: the page, the known keys and the sources say the same."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tierwise.api.own_keys import OWN_KEYS, PREFIX
from tierwise.config.actions import ACTIONS
from tierwise.config.volcano import ARGUMENTS

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent
KEY = re.compile(rf"{re.escape(PREFIX)}([a-z][a-z-]*)")


class Row(NamedTuple):
    """Keys or fields that belong together, as the page on the security model has them."""

    keys: str
    takes: str
    cap: str
    charge: str
    switch: str
    tests: str


def _rows() -> list[Row]:
    page = (ROOT / "docs/security-model.md").read_text()
    below = page.partition("## What a tenant writes and the scheduler obeys")[2].partition("\n## ")[0]
    return [Row(*line.strip("| ").split(" | ")) for line in re.findall(r"^\| `.*\|$", below, re.MULTILINE)]


def _code(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


ROWS = _rows()


def _sources() -> list[Path]:
    return [path for path in (ROOT / "src").rglob("*.*") if path.suffix in (".py", ".yaml")]


@cache
def _known() -> set[str]:
    """The names of all tests and conformance cases."""
    cases = {file.stem for file in (TESTS / "conformance/cases").rglob("*.yaml")}
    texts = (file.read_text() for file in TESTS.rglob("test_*.py"))
    return cases | {name for text in texts for name in re.findall(r"^def (test_\w+)\(", text, re.MULTILINE)}


def test_every_key_that_the_code_reads_has_a_row() -> None:
    """Whoever adds a key says what it takes from others, up to what, and who pays."""
    read = {f"{PREFIX}{name.rstrip('-')}" for path in _sources() for name in KEY.findall(path.read_text())}
    told = {key for row in ROWS for key in _code(row.keys) if key.startswith(PREFIX) and not key.endswith("*")}

    assert set() == read ^ OWN_KEYS
    assert set() == told ^ OWN_KEYS


def test_no_key_has_two_rows() -> None:
    """What is true of it is said once."""
    names = [name for row in ROWS for name in _code(row.keys)]

    assert sorted(set(names)) == sorted(names)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.keys)
def test_every_row_is_whole(row: Row) -> None:
    """Each says all of it, with tests that exist, and switches that a profile can have."""
    arguments = {name for known in ARGUMENTS.values() for name in known.split()}
    arguments |= {name for action in ACTIONS.values() for name in action.arguments.split()}

    assert all(cell.strip() for cell in row)
    assert _code(row.tests)
    assert set() == set(_code(row.tests)) - _known()
    assert set() == set(_code(row.switch)) - arguments - set(ARGUMENTS)
