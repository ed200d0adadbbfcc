"""Jobs and queues that are held: they wait until they are released, whatever room there is.

An annotation of the object that declares a job, or of a queue, so that it outlasts every restart; who may write that
object may hold and release it. Its text is the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["HOLD", "held"]

HOLD: Final = "tierwise.io/hold"
"""On a job, a queue or a quota: why it is held."""
_LONGEST: Final = 200
"""Characters of a reason that are shown."""


def held(marks: Mapping[str, str]) -> str:
    """Why an object with such annotations is held, in one line; "" where it is not."""
    if HOLD not in marks:
        return ""
    text = " ".join(marks[HOLD].split())
    if len(text) > _LONGEST:
        return f"{text[:_LONGEST]}…"
    return text or "no reason is given"
