"""`make browser ARGS=--update-pictures` takes the pictures of the documents anew: look at them before committing."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """The one way to change pictures."""
    parser.addoption("--update-pictures", action="store_true", help="write the pictures instead of comparing")
