"""Values of CEL beyond Python's own: quantities, versions, optional values, and maps that hold every key."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

import msgspec

from tierwise.api.cel.errors import EvaluationError

__all__ = ["BEYOND", "BoolKey", "EveryKey", "Key", "Named", "Optional", "QuantityValue", "Semver", "UInt", "Value"]

BEYOND: Final = 2**63
"""The first integer that 64 bits with a sign do not hold."""


class UInt(int):
    """An unsigned integer: equal to a signed one of the same value, but not added to it."""


class Named(dict["Key", "Value"]):
    """A map whose keys are names: nothing else is in it."""


class EveryKey(Named):
    """A map of which every key can be looked up; what is not there is an empty map."""


class BoolKey(msgspec.Struct, frozen=True):
    """A key that is true or false: Python takes True and 1 for one key."""

    value: bool


_QUANTITY: Final = re.compile(r"([+-]?)(0*)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[+-]?[0-9]*)")
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_EXPONENT: Final = re.compile(r"[eE]([+-]?[0-9]+)")
_FARTHEST: Final = 1000
"""The largest power of ten that is computed with: nothing depends on more."""

_LONGEST: Final = 1000
"""How long a quantity or a version may be: what is done with it takes the longer."""

_NANO: Final = -9


class QuantityValue(msgspec.Struct, frozen=True, eq=False):
    """An amount of something as Kubernetes keeps it: a number times a power of ten.

    `small` is what Kubernetes keeps in 64 bits: only that can be an integer. What an arithmetic method has made is
    `derived`; Kubernetes cannot compare with that on the right hand of `==`.
    """

    number: int
    scale: int = 0
    small: bool = True
    derived: bool = False

    @classmethod
    @lru_cache(maxsize=4096)
    def of(cls, text: str) -> QuantityValue:
        """The quantity that a text spells, by the rules of Kubernetes' parser."""
        form = _QUANTITY.fullmatch(text) if len(text) <= _LONGEST else None
        if form is None or not text:
            raise EvaluationError("quantities must match the regular expression of Kubernetes")
        sign, zeros, integer_digits, part, suffix = form.groups()
        negative = sign == "-"
        part = part or ""
        if not integer_digits and not part and not suffix and "." not in text:
            return cls(0)
        if integer_digits == "" and form[4] is None and zeros and not suffix:
            return cls(0)
        exponent, factor = _suffix(suffix)
        integer_digits = integer_digits or "0"
        if factor is None:
            room = 18 - len(integer_digits) - len(part)
        else:
            room = -1 if part else 15 - len(integer_digits) - int(factor * 3 / 10) - 1
        scale = exponent - len(part)
        if room >= 0 and scale >= _NANO:
            number = int(integer_digits + part) << (factor or 0)
            if number < BEYOND:
                return cls(-number if negative else number, scale)
        return _large(int(integer_digits + part) << (factor or 0), scale, negative=negative, binary=factor is not None)

    def order(self, other: QuantityValue) -> int:
        """Below zero where it is less than another, above where it is more."""
        low = min(self.scale, other.scale)
        mine: int = self.number * 10 ** (self.scale - low)
        theirs: int = other.number * 10 ** (other.scale - low)
        return (mine > theirs) - (mine < theirs)

    def plus(self, other: QuantityValue, sign: int = 1) -> QuantityValue:
        """The sum with another, or the difference."""
        low = min(self.scale, other.scale)
        mine = self.number * 10 ** (self.scale - low)
        up = 10 ** (other.scale - low)
        if self.small and other.small:
            by = -BEYOND if sign * other.number == BEYOND else sign * other.number  # 64 bits hold no more
            if not by:
                return QuantityValue(self.number, self.scale, derived=True)
            if not self.number:
                return QuantityValue(by, other.scale, derived=True)
            if all(-BEYOND <= number < BEYOND for number in (mine, by * up, mine + by * up)):
                return QuantityValue(mine + by * up, low, derived=True)
        return QuantityValue(mine + sign * other.number * up, low, small=False, derived=True)

    def integer(self) -> int | None:
        """The amount as an integer of 64 bits; None where Kubernetes has none."""
        if not self.small or self.scale < 0:
            return None
        value = self.number * 10**self.scale
        return value if -BEYOND <= value < BEYOND else None

    def approximately(self) -> float:
        """The amount as a double."""
        try:
            base = float(self.number)
        except OverflowError:
            base = float("inf") if self.number > 0 else float("-inf")
        if not self.scale:
            return base
        return base * float(f"1e{self.scale}")


def _suffix(text: str) -> tuple[int, int | None]:
    """The power of ten or of two that a suffix means."""
    if text in _DECIMAL:
        return _DECIMAL[text], None
    if text in _BINARY:
        return 0, _BINARY[text]
    form = _EXPONENT.fullmatch(text)
    if form is None or not -BEYOND <= int(form[1][:25]) < BEYOND:
        raise EvaluationError("unable to parse quantity's suffix")
    return max(-_FARTHEST, min(int(form[1]), _FARTHEST)), None


def _large(number: int, scale: int, *, negative: bool, binary: bool) -> QuantityValue:
    """A quantity beyond 64 bits or below a nano unit: rounded away from zero, and binary ones are capped."""
    if scale < _NANO:
        number = -(-number // 10 ** (_NANO - scale))
        scale = _NANO
    if binary and number > (BEYOND - 1) * 10**-scale:
        number = BEYOND - 1
        scale = 0
    return QuantityValue(-number if negative else number, scale, small=False)


_SEMVER: Final = re.compile(r"([0-9]+)\.([0-9]+)\.([0-9]+)(?:-([^+]*))?(?:\+(.*))?", re.DOTALL)
_PART: Final = re.compile(r"[0-9A-Za-z-]+")
_DIGITS: Final = re.compile(r"[0-9]+")


class Semver(msgspec.Struct, frozen=True):
    """A semantic version; what follows a plus does not count when two are compared."""

    numbers: tuple[int, int, int]
    pre: tuple[str, ...] = ()

    def order(self, other: Semver) -> int:
        """Below zero where it comes before another, above where it comes behind."""
        mine = (self.numbers, not self.pre, self._parts())
        theirs = (other.numbers, not other.pre, other._parts())
        return (mine > theirs) - (mine < theirs)

    def _parts(self) -> list[tuple[bool, int, str]]:
        """Numbers come before words, and compare as numbers."""
        return [(not part.isdigit(), int(part) if part.isdigit() else 0, part) for part in self.pre]

    @classmethod
    @lru_cache(maxsize=4096)
    def of(cls, text: str, *, normalize: bool = False) -> Semver:
        """The version that a text spells; `normalize` lets a leading v, missing parts and leading zeros pass."""
        match = _SEMVER.fullmatch(_normalized(text) if normalize else text) if len(text) <= _LONGEST else None
        if match is None:
            raise EvaluationError(f'"{text[:40]}" is not a semantic version')
        pre = tuple(match[4].split(".")) if match[4] is not None else ()
        build = tuple(match[5].split(".")) if match[5] is not None else ()
        numbers = [match[1], match[2], match[3], *(part for part in pre if _DIGITS.fullmatch(part))]
        if not all(map(_is_number, numbers)) or not all(map(_PART.fullmatch, (*pre, *build))):
            raise EvaluationError(f'"{text[:40]}" is not a semantic version')
        return cls((int(match[1]), int(match[2]), int(match[3])), pre)


def _is_number(digits: str) -> bool:
    return len(digits) <= 20 and int(digits) < 2 * BEYOND and (len(digits) == 1 or digits[0] != "0")


def _normalized(text: str) -> str:
    parts = text.removeprefix("v").split(".", 2)
    for i, part in enumerate(parts):
        if len(part) > 1:
            bare = part.lstrip("0")
            parts[i] = bare if bare[:1] in tuple("0123456789") else f"0{bare}"
    if len(parts) < 3 and any(sign in parts[-1] for sign in "+-"):
        raise EvaluationError("a short version has no parts behind - or +")
    return ".".join([*parts, *["0"] * (3 - len(parts))])


class Optional(msgspec.Struct, frozen=True, eq=False):
    """A value that may not be there."""

    value: Value = None
    there: bool = False


Key = None | str | int | float | BoolKey
Value = None | bool | int | float | str | bytes | list["Value"] | dict[Key, "Value"] | QuantityValue | Semver | Optional
