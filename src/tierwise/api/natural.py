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
_BELOW: Final = "\0"


@lru_cache(maxsize=1 << 16)
def natural(name: str) -> NaturalKey:
    """A sort key that compares runs of digits as numbers of any length, and everything else as text.

    Total: names that differ only in leading zeros (n2, n02) are told apart by their text.
    """
    parts = _NUMBER.split(name)
    return tuple(_number(part) if index % 2 else part for index, part in enumerate(parts)), name


def natural_order(names: Sequence[str]) -> list[int]:
    """The positions of names in natural order. Pods of one owner differ in what follows the last dash: the rest is
    split once.

    A key is written as one text, which compares faster than its parts: every number behind a character that is below
    all others and one for its length.
    """
    if _BELOW in "".join(names):
        return sorted(range(len(names)), key=lambda position: natural(names[position]))
    stems: dict[str, str] = {}
    keys: list[str] = []
    for name in names:
        stem, dash, ending_text = name.rpartition("-")
        written = stems.get(stem)
        if written is None:
            written = stems[stem] = _NUMBER.sub(_written, stem)
        ending = (
            _digits(ending_text)
            if ending_text.isdecimal() and ending_text.isascii()
            else _NUMBER.sub(_written, ending_text)
        )
        keys.append(f"{written}{dash}{ending}{_BELOW}{_BELOW}{name}")
    return sorted(range(len(keys)), key=keys.__getitem__)


def _written(number: re.Match[str]) -> str:
    return _digits(number[0])


def _digits(number: str) -> str:
    digits = number.lstrip("0")
    return f"{_BELOW}{chr(len(digits) + 1)}{digits}"


def _number(digits: str) -> tuple[int, str]:
    # By length, then digit by digit: the order of numbers without the cost and the limits of int().
    significant = digits.lstrip("0")
    return len(significant), significant
