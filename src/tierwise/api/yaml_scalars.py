"""What a plain YAML scalar means.

Called by the YAML readers. The rules are YAML 1.1's, as PyYAML and kubectl read them (`yes` and `off` are booleans,
`010` is eight), without those that only surprise: times and `1:30` stay strings, and so does `=`.
"""

import math
import re
from functools import lru_cache
from typing import Final

__all__ = ["Scalar", "as_key", "resolve"]

Scalar = str | int | float | bool | None

_CONSTANTS: Final[dict[str, bool | None]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"), True),
    **dict.fromkeys(("false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"), False),
}
_INTEGER: Final = re.compile(r"[-+]?(?:0b[01_]+|0[0-7_]+|0x[0-9a-fA-F_]+|0|[1-9][0-9_]*)")
_FLOAT: Final = re.compile(r"(?:[-+]?[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+][0-9]+)?")
_NOT_FINITE: Final = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_BASES: Final = {"0b": 2, "0x": 16}


@lru_cache(maxsize=65536)
def resolve(text: str) -> Scalar:
    """The value of an unquoted scalar; numbers that Python cannot hold stay strings."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text[0] not in "+-.0123456789":
        return text
    try:
        if _INTEGER.fullmatch(text):
            return _integer(text.replace("_", ""))
        if _FLOAT.fullmatch(text):
            number = float(text.replace("_", ""))
            return number if math.isfinite(number) else text
    except ValueError:
        return text
    return float(text.replace(".", "")) if _NOT_FINITE.fullmatch(text) else text


def as_key(text: str) -> str | None:
    """The key that an unquoted scalar stands for, as kubectl turns it into JSON; None where it cannot be one."""
    value = resolve(text)
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int) else text


def _integer(text: str) -> int:
    sign, digits = (-1, text[1:]) if text[0] == "-" else (1, text.removeprefix("+"))
    base = _BASES.get(digits[:2], 8 if digits[0] == "0" else 10)
    return sign * int(digits, base)
