"""The order in which people expect names: n2 before n10.

Used wherever names are listed or break a tie, so that two runs never differ. A key function, no comparator.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

__all__ = ["NaturalKey", "natural", "natural_order"]

NaturalKey = tuple[tuple[str | tuple[int, str], ...], str]

_NUMBER: Final = re.compile(r"([0-9]+)")


@lru_cache(maxsize=1 << 16)
def natural(name: str) -> NaturalKey:
    """A sort key that compares runs of digits as numbers of any length, and everything else as text.

    Total: names that differ only in leading zeros (n2, n02) are told apart by their text.
    """
    parts = _NUMBER.split(name)
    return tuple(_number(part) if index % 2 else part for index, part in enumerate(parts)), name


def natural_order(names: Sequence[str]) -> list[int]:
    """The positions of names in natural order. Pods of a gang differ in their last number: the rest is split once."""
    stems: dict[str, tuple[str | tuple[int, str], ...]] = {}
    keys: list[NaturalKey] = []
    for name in names:
        stem = name.rstrip("0123456789")
        if stem not in stems:
            stems[stem] = natural(stem)[0]
        digits = name[len(stem) :]
        keys.append(((*stems[stem], _number(digits), "") if digits else stems[stem], name))
    return sorted(range(len(keys)), key=keys.__getitem__)


def _number(digits: str) -> tuple[int, str]:
    # By length, then digit by digit: the order of numbers without the cost and the limits of int().
    significant = digits.lstrip("0")
    return len(significant), significant
