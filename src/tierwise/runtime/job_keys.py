"""Keys by which the pods of a job log in to each other: made for `tierwise run`, `controllers` and `up`.

A new pair for each job, as Volcano's plugin ssh makes one. Knows nothing of jobs.
"""

from __future__ import annotations

import math
from typing import Final

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from tierwise.controllers.job.frameworks import KeyPair

__all__ = ["JobKeys"]

_MOST: Final = 4
"""Pairs in a second: each takes some 60 ms, and the jobs of a tenant must not keep cycles from running."""
_BITS: Final = 2048


class JobKeys:
    """New pairs of keys, and not too many of them at a time."""

    def __init__(self) -> None:
        self._second = 0
        self._made = 0

    def __call__(self, now: float) -> KeyPair | None:
        """A new pair; None where there were as many in this second as there may be."""
        if self._second != (second := math.floor(now)):
            self._second = second
            self._made = 0
        if self._made >= _MOST:
            return None
        self._made += 1
        key = rsa.generate_private_key(public_exponent=65537, key_size=_BITS)
        private = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
        public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
        return private.decode(), f"{public.decode()}\n"
