"""Sets of gangs: which set a gang is part of, and what it says of the other parts.

A set is a path in a namespace, such as `serve/0`. Its parts are the gangs that name it and the sets one level below.
What a gang asks of the parts of its sets are entries of `tierwise.io/topology-constraints` (`api.fabric`).
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

__all__ = [
    "NO_SET",
    "PARTS",
    "RULES",
    "SELECTIONS",
    "SET",
    "SET_START",
    "WHOLE",
    "Most",
    "marks_fault",
    "most_of",
    "parse_start",
    "percent",
    "set_fault",
    "within",
]

SET: Final = "tierwise.io/set"
"""On a group: the path of the set that it is part of."""

SET_START: Final = "tierwise.io/set-start"
"""On a group: how many parts of its set start together."""

NO_SET: Final = f"it names no set to start with ({SET})"

PARTS: Final = 256
RULES: Final = 8
SELECTIONS: Final = 64
"""Ways in which rules of a namespace may select gangs by their labels."""
WHOLE: Final = 1000
"""All of something, in the unit of shares."""
_DEPTH: Final = 4
_STEP: Final = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"


class Most(msgspec.Struct, frozen=True):
    """How many parts of a set one domain holds at most: a number, or a share of the parts that stand."""

    number: int = 0
    share: int = 0  # in thousandths; 0 where it is a number


def set_fault(path: str) -> str:
    """Error text for the path of a set; "" if the path is valid."""
    steps = path.split("/")
    if not all(re.fullmatch(_STEP, step) for step in steps):
        return f'"{path}" cannot be the path of a set: names of letters, digits, "-", "_" and ".", with "/" between'
    if len(steps) <= _DEPTH:
        return ""
    return f'"{path}" is deeper than {_DEPTH} sets in each other'


def marks_fault(path: str, start: str) -> tuple[str, str] | None:
    """The first of the two annotations that cannot be read, and what is wrong with it."""
    if path and set_fault(path):
        return SET, set_fault(path)
    if parse_start(start) is None:
        return (SET_START, f'"{start}" is not a number from 2 to {PARTS}')
    return None


def within(path: str, outer: str) -> str:
    """Why a gang of a set may not say anything about another; "" where that is around it, or the same."""
    if path == outer or path.startswith(f"{outer}/"):
        return ""
    own = f'in "{path}"' if path else "in none"
    return f'it is not in set "{outer}" but {own} ({SET})'


def most_of(apart: int | str) -> Most | None:
    """How many parts may be in one domain; None where that cannot be read."""
    if isinstance(apart, int):
        return Most(apart) if 1 <= apart <= PARTS else None
    found = re.fullmatch(r"([0-9]{1,3})%", apart)
    if found and 1 <= int(found[1]) <= 100:
        return Most(share=int(found[1]) * WHOLE // 100)
    return None


def percent(share: int) -> str:
    """A share in thousandths, as people write it: 45%, or 12.5%."""
    return f"{share * 100 / WHOLE:g}%"


def parse_start(text: str) -> int | None:
    """How many parts start together, None where that cannot be read; 0 where nothing is said."""
    if not text.strip():
        return 0
    found = re.fullmatch(r"[0-9]{1,3}", text.strip())
    if found and 2 <= int(text) <= PARTS:
        return int(text)
    return None
