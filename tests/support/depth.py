"""How much of a costly check runs: a part in every run, all of it in `make test-deep`."""

from __future__ import annotations

import os

from hypothesis import settings

__all__ = ["DEEP", "examples", "size"]

DEEP = os.environ.get("HYPOTHESIS_PROFILE") == "deep"
_MORE = 30  # about what the deep profile has for each example of the default one


def size(usual: int, deep: int) -> int:
    """A number of cycles, instances or nodes: the first in every run, the second in a deep one."""
    return deep if DEEP else usual


def examples(usual: int) -> settings:
    """A property that looks at so many examples in every run; in a deep one the number grows as everywhere."""
    return settings(max_examples=size(usual, _MORE * usual))
