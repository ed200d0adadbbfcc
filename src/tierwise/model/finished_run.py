"""A job that is over: from how long such jobs ran, ends of others are expected."""

from __future__ import annotations

import msgspec

__all__ = ["FinishedRun"]


class FinishedRun(msgspec.Struct, frozen=True):
    """A job that has run to its end; times in seconds."""

    job: str  # namespace/name, the name being that of its owner where its group was made for one
    queue: str
    pods: int
    seconds: float
    ended: float  # since the epoch
    stated: float = 0.0  # how long it had said that it runs; 0 where it had not
