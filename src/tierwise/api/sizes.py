"""The sizes that a gang may have, as its annotation lists them: `4,8,16`."""

from __future__ import annotations

from typing import Final

from tierwise.api.limits import PODS

__all__ = ["SIZES", "parse_sizes"]

SIZES: Final = "tierwise.io/sizes"
"""On a pod group, the job that it is made for, or its pods: how many pods may run, and no number between."""
_MOST: Final = 32


def parse_sizes(text: str) -> tuple[int, ...] | str:
    """The sizes in ascending order, or why there are none."""
    parts = [part.strip() for part in text.split(",")]
    if len(parts) > _MOST:
        return f"annotation {SIZES}: {len(parts)} sizes are more than {_MOST}"
    if not all(part.isascii() and part.isdigit() and 1 <= len(part) <= len(str(PODS)) for part in parts):
        return f'annotation {SIZES}: "{text}" is not a list of numbers such as 4,8,16'
    sizes = sorted({int(part) for part in parts})
    if not 1 <= sizes[0] <= sizes[-1] <= PODS:
        return f'annotation {SIZES}: "{text}" has sizes that are not from 1 to {PODS}'
    return tuple(sizes)
