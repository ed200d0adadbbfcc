"""Windows as a cycle sees them: which rows, when, and who may run there all the same."""

from __future__ import annotations

import msgspec

from tierwise.api.window import Schedule
from tierwise.model.arrays import Bools

__all__ = ["ClosedTime"]


class ClosedTime(msgspec.Struct, frozen=True, eq=False):
    """A window on the rows of one snapshot."""

    name: str
    rows: Bools
    schedule: Schedule
    queues: frozenset[str] = frozenset()
    reason: str = ""
