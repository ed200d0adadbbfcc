"""An object that a job plugin wants beside the pods of its job."""

from __future__ import annotations

from dataclasses import dataclass

from tierwise.api.codec import Raw

__all__ = ["Prop"]


@dataclass(frozen=True, slots=True)
class Prop:
    """A manifest, and which of its fields follow the job for as long as it lives."""

    raw: Raw
    follows: tuple[str, ...] = ()
