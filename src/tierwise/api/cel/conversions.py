"""Values of one type as values of another, in the forms that Go reads and prints."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Final, cast

from tierwise.api.cel.errors import EvaluationError, TooMuchWorkError
from tierwise.api.cel.operators import Function, Work, is_int, no_overload, text_of, whole
from tierwise.api.cel.values import BEYOND, Semver, UInt, Value

__all__ = [
    "can_be_read",
    "size_of",
    "to_bool",
    "to_bytes",
    "to_double",
    "to_int",
    "to_semver",
    "to_string",
    "to_uint",
]


def size_of(_: Work, value: Value) -> Value:
    """How many a value holds: characters, bytes or entries."""
    if isinstance(value, str | bytes | list | dict):
        return len(value)
    raise no_overload("size", value)


_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_NATURAL: Final = re.compile(r"[0-9]+")
_DIGITS: Final = r"[0-9]+(?:_[0-9]+)*"
_DOUBLE: Final = re.compile(rf"[+-]?(?:{_DIGITS}(?:\.(?:{_DIGITS})?)?|\.{_DIGITS})(?:[eE][+-]?{_DIGITS})?")
_HEX_DIGITS: Final = r"[0-9a-fA-F]+(?:_[0-9a-fA-F]+)*"
_HEX: Final = re.compile(rf"[+-]?0[xX]_?(?:{_HEX_DIGITS}(?:\.(?:{_HEX_DIGITS})?)?|\.{_HEX_DIGITS})[pP][+-]?{_DIGITS}")
_NO_NUMBER: Final = re.compile(r"[+-]?(?:inf|infinity)|nan", re.IGNORECASE)
_MOST_DIGITS: Final = 20
"""Digits that an integer of 64 bits can have."""


def _parsed(text: str) -> int:
    digits = text.lstrip("+-").lstrip("0")
    if len(digits) > _MOST_DIGITS:
        raise EvaluationError("integer overflow")
    if text[0] == "-":
        return -int(digits or "0")
    return int(digits or "0")


def to_int(_: Work, value: Value) -> Value:
    """A value as an integer."""
    if isinstance(value, str):
        if not _INTEGER.fullmatch(value):
            raise EvaluationError("type conversion error from 'string' to 'int'")
        return whole(_parsed(value), 0)
    if isinstance(value, float):
        if not -float(BEYOND) < value < float(BEYOND):
            raise EvaluationError("integer overflow")
        return int(value)
    if is_int(value):
        return whole(int(cast("int", value)), 0)
    raise no_overload("int", value)


def to_uint(_: Work, value: Value) -> Value:
    """A value as an integer without a sign."""
    if isinstance(value, str):
        if not _NATURAL.fullmatch(value):
            raise EvaluationError("type conversion error from 'string' to 'uint'")
        return whole(_parsed(value), UInt(0))
    if isinstance(value, float):
        if not 0 <= value < float(2 * BEYOND):
            raise EvaluationError("unsigned integer overflow")
        return UInt(value)
    if is_int(value):
        return whole(int(cast("int", value)), UInt(0))
    raise no_overload("uint", value)


def to_double(_: Work, value: Value) -> Value:
    """A value as a double."""
    if isinstance(value, str):
        number = _double(value)
        if number is None:
            raise EvaluationError("type conversion error from 'string' to 'double'")
        return number
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    raise no_overload("double", value)


def _double(text: str) -> float | None:
    """The double that a text spells in Go's ways; None where it is none, or too large."""
    if _NO_NUMBER.fullmatch(text):
        return float(text)
    try:
        if _DOUBLE.fullmatch(text):
            number = float(text.replace("_", ""))
            return number if math.isfinite(number) else None
        if _HEX.fullmatch(text):
            return float.fromhex(text.replace("_", ""))
        return None
    except OverflowError:
        return None


def to_string(_: Work, value: Value) -> Value:
    """A value as a text."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case int():
            return str(int(value))
        case float():
            return _text_of_double(value)
        case bytes():
            try:
                return value.decode()
            except UnicodeDecodeError:
                raise EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from None
        case _:
            raise no_overload("string", value)


def _text_of_double(value: float) -> str:
    """The shortest text of a double, with an exponent from a million on and below a ten thousandth, as in Go."""
    if not math.isfinite(value):
        if math.isnan(value):
            return "NaN"
        return "+Inf" if value > 0 else "-Inf"
    _, figures, power = Decimal(repr(value)).normalize().as_tuple()
    digits = "".join(map(str, figures))
    at = len(digits) - 1 + int(power)  # the exponent of the first digit
    sign = "-" if math.copysign(1, value) < 0 else ""
    if at < -4 or at >= 6:
        part = f".{digits[1:]}" if len(digits) > 1 else ""
        return f"{sign}{digits[0]}{part}e{'-' if at < 0 else '+'}{abs(at):02}"
    if at < 0:
        return f"{sign}0.{'0' * (-at - 1)}{digits}"
    integer_digits = digits[: at + 1].ljust(at + 1, "0")
    part = digits[at + 1 :]
    if part:
        return f"{sign}{integer_digits}.{part}"
    return sign + integer_digits


_TRUTHS: Final = {
    spelt: truth
    for word, truth in (("1", True), ("t", True), ("true", True), ("0", False), ("f", False), ("false", False))
    for spelt in (word, word.upper(), word.title())
}


def to_bool(_: Work, value: Value) -> Value:
    """A value as true or false."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value in _TRUTHS:
        return _TRUTHS[value]
    raise EvaluationError("cannot be converted to a bool")


def to_bytes(_: Work, value: Value) -> Value:
    """A value as bytes."""
    if isinstance(value, bytes):
        return value
    return text_of(value).encode()


def can_be_read(convert: Function) -> Function:
    """Whether a text can be read, by the function that reads it."""

    def reads(env: Work, *values: Value) -> Value:
        text_of(values[0])
        try:
            convert(env, *values)
        except TooMuchWorkError:
            raise
        except EvaluationError:
            return False
        return True

    return reads


def to_semver(env: Work, value: Value, normalize: Value = False) -> Value:  # noqa: FBT002
    """A text as a version."""
    if not isinstance(normalize, bool):
        raise no_overload("semver", normalize)
    env.work(text_of(value).count("."))  # each part is read by itself
    return Semver.of(text_of(value), normalize=normalize)
