"""Uids for manifests that carry none: they follow from the name, so that the same input gives the same names."""

from __future__ import annotations

import uuid
from functools import lru_cache
from hashlib import sha1
from typing import Final

__all__ = ["made_up_uid"]

_UIDS: Final = uuid.UUID("6b0f3a54-4c1c-5d0e-9a53-0c1f6f1c7a11").bytes
_JOB: Final = "Job"


@lru_cache(maxsize=1 << 14)
def made_up_uid(kind: str, namespace: str, name: str) -> str:
    """A stable uid for an object of a kind; a job's follows from its path alone.

    As `uuid.uuid5` makes it, in a quarter of its time: a simulated cluster makes up several for each job.
    """
    path = f"{namespace}/{name}" if kind == _JOB else f"{kind} {namespace}/{name}"
    digest = bytearray(sha1(_UIDS + path.encode(), usedforsecurity=False).digest())
    digest[6] = digest[6] & 0x0F | 0x50  # version 5
    digest[8] = digest[8] & 0x3F | 0x80  # of RFC 4122
    text = digest.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:32]}"
