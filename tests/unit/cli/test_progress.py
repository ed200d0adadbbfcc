"""The bar for those who wait is never in the way."""

from __future__ import annotations

import io

import pytest

from tierwise.cli.progress import show_progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_nothing_is_shown_for_what_is_quick(stream: type[io.StringIO], monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither in a pipe nor, within the first second, on a terminal."""
    standard_error = stream()
    monkeypatch.setattr("sys.stderr", standard_error)

    with show_progress("reading", 10) as step:
        step(1)
        step(5, 20)

    assert "" == standard_error.getvalue()
