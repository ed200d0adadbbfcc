"""The identity of a decision: the same in the log, in the event that users see, and in the last cycle's report."""

from __future__ import annotations

from hashlib import blake2s

__all__ = ["DECISION", "decision_id"]

DECISION = "tierwise.io/decision"
"""The annotation of an event that holds the id of the decision it tells of."""


def decision_id(now: float, job: str) -> str:
    """Ten hexadecimal digits for what the cycle of this moment decided about a job: replaying it gives them again."""
    return blake2s(f"{now!r} {job}".encode(), digest_size=5).hexdigest()
