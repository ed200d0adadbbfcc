"""Which differences in the efficiency of evictions count: with small ones other things decide."""

from __future__ import annotations

from typing import Final

__all__ = ["ALIKE", "THRESHOLD", "alike_below"]

THRESHOLD: Final = 0.05
"""Differences in efficiency below this count as none, if a profile says nothing else."""


def alike_below(threshold: float) -> float:
    """The threshold that differences are compared with: a little lower, so that rounding makes no difference."""
    return max(threshold - 1e-9, 1e-9)


ALIKE: Final = alike_below(THRESHOLD)
