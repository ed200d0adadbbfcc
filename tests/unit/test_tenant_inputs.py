"""Whatever a tenant may write has a cap, a charge and a row: the table, the page and the sources say the same."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import msgspec
import pytest
from tests.support.tenant_page import PAGE, page

from tierwise.api.keys import PREFIX
from tierwise.api.own_keys import own_keys
from tierwise.api.tenant_inputs import TENANT_INPUTS, TenantInput
from tierwise.config.actions import ACTIONS
from tierwise.config.profile import Profile
from tierwise.config.volcano import ARGUMENTS

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent
KEY = re.compile(rf"{re.escape(PREFIX)}([a-z][a-z-]*)")


def _code(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


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
    read.discard(f"{PREFIX}v")  # of the version of its API

    assert set() == read ^ own_keys()


def test_the_page_shows_the_table() -> None:
    """`python -m tests.support.tenant_page` writes it."""
    assert page() == PAGE.read_text(encoding="utf-8")


def test_no_key_has_two_rows() -> None:
    """What is true of it is said once."""
    names = [name for row in TENANT_INPUTS for name in row.keys]

    assert sorted(set(names)) == sorted(names)


@pytest.mark.parametrize("row", TENANT_INPUTS, ids=lambda row: row.keys[0])
def test_every_row_is_whole(row: TenantInput) -> None:
    """Each says all of it, with tests that exist, and switches that a profile can have."""
    arguments = {name for known in ARGUMENTS.values() for name in known.split()}
    arguments |= {name for action in ACTIONS.values() for name in action.arguments.split()}
    arguments |= {field.encode_name for field in msgspec.structs.fields(Profile)}

    assert all(row)
    assert set() == set(row.tests) - _known()
    assert set() == set(_code(row.switch)) - arguments - set(ARGUMENTS)
