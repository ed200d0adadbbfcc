"""Long values in messages: whoever writes one is shown its beginning, and nobody is sent all of it."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["LONG", "LONGEST", "brief"]

LONGEST: Final = 16_000
"""Characters of a message, whatever is in it."""
LONG: Final = 320
"""Characters of a value in one; a namespace with a name has at most 317."""
_SHOWN: Final = 160
_VALUES: Final = re.compile(rf'"[^"\n]*"|\S{{{LONG},}}')
"""What is quoted, pair by pair, so that nothing between two quotations is taken for one; and words without an end."""


def brief(text: str) -> str:
    """A message with values that are cut where they are long, and said to be; most messages are as they were."""
    if len(text) <= LONG:
        return text
    text = _VALUES.sub(lambda match: _cut(match[0], _SHOWN) if len(match[0]) > LONG else match[0], text)
    if len(text) <= LONGEST:
        return text
    return _cut(text, LONGEST - 100)


def _cut(value: str, shown: int) -> str:
    end = '"' if value[0] == value[-1] == '"' else ""
    return f"{value[:shown]}…{end} ({len(value) - 2 * len(end)} characters)"
