"""Whatever a tenant may write has a cap, a charge and a row: the table, the page and the sources say the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tierwise.api.own_keys import OWN_KEYS
from tierwise.api.tenant_inputs import PREFIX, TENANT_INPUTS, TenantInput
from tierwise.config.actions import ACTIONS
from tierwise.config.volcano import ARGUMENTS

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent
KEY = re.compile(rf"{re.escape(PREFIX)}([a-z][a-z-]*)")
PARTS = ("keys", "takes", "cap", "charge", "switch", "tests")


def _code(words: tuple[str, ...]) -> str:
    return ", ".join(f"`{word}`" for word in words)


def _line(row: TenantInput) -> str:
    """A row as the page shows it."""
    cells = (_code(row.names), row.takes, row.cap, row.charge, row.switch, _code(tuple(row.tests.split())))
    return f"| {' | '.join(cells)} |"


def _known() -> set[str]:
    """The names of all tests and conformance cases."""
    cases = {file.stem for file in (TESTS / "conformance/cases").rglob("*.yaml")}
    texts = (file.read_text() for file in TESTS.rglob("test_*.py"))
    return cases | {name for text in texts for name in re.findall(r"^def (test_\w+)\(", text, re.MULTILINE)}


def test_every_key_that_the_code_reads_has_a_row() -> None:
    """Whoever adds a key says what it takes from others, up to what, and who pays."""
    read = {
        f"{PREFIX}{name.rstrip('-')}" for path in (ROOT / "src").rglob("*.py") for name in KEY.findall(path.read_text())
    }

    assert set() == read - OWN_KEYS
    assert set() == OWN_KEYS - read


def test_no_key_has_two_rows() -> None:
    """What is true of it is said once."""
    names = [name for row in TENANT_INPUTS for name in row.names]

    assert sorted(set(names)) == sorted(names)


@pytest.mark.parametrize("row", TENANT_INPUTS, ids=lambda row: row.keys)
def test_every_row_is_whole(row: TenantInput) -> None:
    """Each says all of it, with tests that exist, and switches that a profile can have."""
    arguments = {name for known in ARGUMENTS.values() for name in known.split()}
    arguments |= {name for action in ACTIONS.values() for name in action.arguments.split()}
    switches = set(re.findall(r"`([^`]+)`", row.switch))

    assert [] == [part for part in PARTS if not getattr(row, part).strip()]
    assert set() == set(row.tests.split()) - _known()
    assert set() == switches - arguments - set(ARGUMENTS)


def test_the_page_shows_the_table() -> None:
    """Line by line, in this order; the page of a changed table is written by hand or copied from this comparison."""
    page = (ROOT / "docs/security-model.md").read_text()
    below = page.partition("## What a tenant writes and the scheduler obeys")[2].partition("\n## ")[0]

    assert [_line(row) for row in TENANT_INPUTS] == re.findall(r"^\| `.*\|$", below, re.MULTILINE)
