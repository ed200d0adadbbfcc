"""How much of a costly check runs: a part in every run, all of it in `make test-deep`."""

from __future__ import annotations

import os

__all__ = ["DEEP", "size"]

DEEP = os.environ.get("HYPOTHESIS_PROFILE") == "deep"


def size(usual: int, deep: int) -> int:
    """A number of examples, cycles or nodes: the first in every run, the second in a deep one."""
    return deep if DEEP else usual
