"""Objects into the snapshot of one cycle. The same objects, in whatever order, give the same snapshot."""

from __future__ import annotations

from tierwise.config.profile import DEFAULT, Profile
from tierwise.dialects.reader import Reader
from tierwise.model.snapshot import Snapshot
from tierwise.port import Objects

__all__ = ["build"]


def build(
    objects: Objects, now: float, profile: Profile = DEFAULT, *, schedulers: frozenset[str] | None = None
) -> Snapshot:
    """What one cycle sees; see `Reader`, which builds many in a row and takes over what has not changed."""
    return Reader(profile, schedulers=schedulers).read(objects, now)
