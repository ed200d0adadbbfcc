"""Patterns are Go's: what RE2 knows beyond them is refused."""

from __future__ import annotations

import pytest

from tierwise.api.go_pattern import compile_pattern


@pytest.mark.parametrize("text", [r"\C", r"a\\\C", r"\Qx\E\C", r"[\C]", b"\\C"])
def test_a_single_byte_is_refused(text: str | bytes) -> None:
    """Go has no escape for it."""
    with pytest.raises(ValueError, match="escape sequence"):
        compile_pattern(text)


@pytest.mark.parametrize("text", ["C", r"\\C", r"\Q\C\E", r"\Q\C", r"\\\\C", ""])
def test_what_only_looks_like_it_is_none(text: str) -> None:
    """An escaped backslash before a letter, and plain text between the marks of one."""
    compile_pattern(text)
