"""An object that a job plugin wants beside the pods of its job."""

from __future__ import annotations

import msgspec

from tierwise.api.codec import Raw

__all__ = ["Prop"]


class Prop(msgspec.Struct, frozen=True):
    """A manifest, and which of its fields follow the job for as long as it lives."""

    raw: Raw
    follows: tuple[str, ...] = ()
