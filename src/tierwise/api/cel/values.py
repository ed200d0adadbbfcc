"""Values of CEL beyond Python's own: quantities, versions, optional values, and maps that hold every key."""

from __future__ import annotations

import re
from fractions import Fraction
from functools import total_ordering
from typing import Final

import msgspec

from tierwise.api.cel.errors import EvaluationError
from tierwise.api.quantity import parse as parse_quantity

__all__ = ["EveryKey", "Optional", "QuantityValue", "Semver", "UInt", "Value"]


class UInt(int):
    """An unsigned integer: equal to a signed one of the same value, but not added to it."""


class EveryKey(dict["Value", "Value"]):
    """A map of which every key can be looked up; what is not there is an empty map."""


@total_ordering
class QuantityValue(msgspec.Struct, frozen=True):
    """An amount of something, as Kubernetes writes it."""

    value: Fraction

    def __lt__(self, other: QuantityValue) -> bool:
        return self.value < other.value

    @classmethod
    def of(cls, text: str | int | float) -> QuantityValue:
        try:
            return cls(parse_quantity(text))
        except ValueError as error:
            raise EvaluationError(str(error)) from None


_SEMVER: Final = re.compile(
    r"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(?:-([0-9A-Za-z.-]+))?(?:\+([0-9A-Za-z.-]+))?"
)
_DIGITS: Final = 18


@total_ordering
class Semver(msgspec.Struct, frozen=True):
    """A semantic version; what follows a plus does not count when two are compared."""

    numbers: tuple[int, int, int]
    pre: tuple[str, ...] = ()

    def __lt__(self, other: Semver) -> bool:
        return (self.numbers, not self.pre, self._parts()) < (other.numbers, not other.pre, other._parts())

    def _parts(self) -> list[tuple[bool, int, str]]:
        """Numbers come before words, and compare as numbers."""
        return [(not part.isdigit(), int(part) if part.isdigit() else 0, part) for part in self.pre]

    @classmethod
    def of(cls, text: str, *, normalize: bool = False) -> Semver:
        """The version that a text spells; `normalize` lets a leading v, missing parts and leading zeros pass."""
        found = _SEMVER.fullmatch(_normalized(text) if normalize else text)
        parts = tuple(found[4].split(".")) if found is not None and found[4] else ()
        plain = found is not None and all(len(found[i]) <= _DIGITS for i in (1, 2, 3))
        if found is None or not plain or not all(map(_is_part, parts)):
            raise EvaluationError(f'"{text}" is not a semantic version')
        return cls((int(found[1]), int(found[2]), int(found[3])), parts)


def _is_part(part: str) -> bool:
    return bool(part) and len(part) <= 64 and not (part.isdigit() and len(part) > 1 and part[0] == "0")


def _normalized(text: str) -> str:
    text = text.strip().removeprefix("v")
    numbers, mark, rest = text, "", ""
    for i, sign in enumerate(text):
        if sign in "-+":
            numbers, mark, rest = text[:i], sign, text[i + 1 :]
            break
    parts = [part.lstrip("0") or "0" if part.isdigit() else part for part in numbers.split(".")]
    return ".".join([*parts, *["0"] * (3 - len(parts))]) + mark + rest


class Optional(msgspec.Struct, frozen=True):
    """A value that may not be there."""

    value: Value = None
    there: bool = False


Value = (
    None | bool | int | float | str | bytes | list["Value"] | dict["Value", "Value"] | QuantityValue | Semver | Optional
)
