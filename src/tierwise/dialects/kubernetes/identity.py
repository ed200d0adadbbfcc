"""Uids for manifests that carry none: they follow from the name, so that the same input gives the same names."""

from __future__ import annotations

import uuid
from functools import lru_cache
from typing import Final

__all__ = ["made_up_uid"]

_UIDS: Final = uuid.UUID("6b0f3a54-4c1c-5d0e-9a53-0c1f6f1c7a11")
_JOB: Final = "Job"


@lru_cache(maxsize=1 << 14)
def made_up_uid(kind: str, namespace: str, name: str) -> str:
    """A stable uid for an object of a kind; a job's follows from its path alone."""
    path = f"{namespace}/{name}"
    return str(uuid.uuid5(_UIDS, path if kind == _JOB else f"{kind} {path}"))
