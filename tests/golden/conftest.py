"""`pytest tests/golden --update-golden` writes the golden files anew: look at the difference before you commit it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent


def pytest_addoption(parser: pytest.Parser) -> None:
    """The one way to change golden files."""
    parser.addoption("--update-golden", action="store_true", help="write the golden files instead of comparing")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], str]:
    """A function that takes a file's name and the text of this run, and returns the text that should be there."""
    updating = bool(request.config.getoption("--update-golden", default=False))

    def expected(name: str, actual: str) -> str:
        file = FOLDER / name
        if updating:
            file.write_text(actual, encoding="utf-8")
        assert file.exists(), f"{file.name} is missing: pytest tests/golden --update-golden writes it"
        return file.read_text(encoding="utf-8")

    return expected
