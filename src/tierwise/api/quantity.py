"""Kubernetes quantities ("500m", "64Gi", "1e3") as exact numbers.

Called by the codec, which refuses what is no quantity, and by everything that counts resources. Never uses floating
point, so no sum depends on its order. CPU is counted in thousandths, every other resource in whole units, as Kubernetes
does. Whatever the API server accepts is read: amounts beyond what 64 bits count saturate, as they do in Kubernetes.
"""

import re
from functools import lru_cache
from typing import Final

__all__ = ["LARGEST", "Quantity", "amount", "canonical", "milli", "ratio", "show", "whole"]

Quantity = str | int | float
"""A quantity as a manifest spells it: usually a string, in YAML also a bare number."""

LARGEST: Final = 2**63 - 1
"""The largest amount that is counted, in whichever unit was asked for; what is beyond it counts as this."""

_FORM: Final = re.compile(r"([+-]?)([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?[0-9]+))?")
_DIGITS: Final = 40
"""Digits of a number that are looked at, and the largest power of ten: more than 64 bits and a nanounit need."""

_PLAIN: Final = 20
"""Whole numbers of fewer digits, such as bytes of a disk, need no fractions: there may be as many as disks."""

_DECIMAL: Final = ("k", "M", "G", "T", "P", "E")
_BINARY: Final = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_LARGE: Final = {suffix: 1000**power for power, suffix in enumerate(_DECIMAL, 1)} | {
    suffix: 1024**power for power, suffix in enumerate(_BINARY, 1)
}
_SMALL: Final = {"n": 10**9, "u": 10**6, "m": 10**3}
_SUFFIXES: Final = dict(zip(range(-9, 19, 3), ("n", "u", "m", "", *_DECIMAL), strict=True))
_LARGEST_POWER: Final = 18
_SHOWN: Final = 128
_QUOTA_PREFIXES: Final = ("requests.", "limits.")


@lru_cache(maxsize=65536, typed=True)
def ratio(quantity: Quantity) -> tuple[int, int]:
    """The value of a quantity in any of Kubernetes' forms, as numerator and denominator; ValueError where it is none.

    Exact, but for what no amount depends on: values far beyond 64 bits count as all larger ones do, and of more than
    forty digits those after the first forty count as one that is not zero. So the work is bounded whatever is written.
    Bare numbers are read by the digits they print with, so YAML's 0.1 is one tenth exactly.
    """
    text = quantity if isinstance(quantity, str) else _digits(quantity)
    form = _FORM.fullmatch(text)
    if form is None or isinstance(quantity, bool):
        shown = text if len(text) <= _SHOWN else f"{text[:16]}..."
        raise ValueError(f'"{shown}" is not a quantity')
    sign, digits, suffix, exponent = form.groups()
    before, _, after = digits.partition(".")
    number, power = _decimal(before, after, 0 if exponent is None else _power(exponent))
    number *= _LARGE.get(suffix, 1)
    return -number if sign == "-" else number, 10 ** -min(power, 0) * _SMALL.get(suffix, 1)


def _decimal(before: str, after: str, power: int) -> tuple[int, int]:
    """The number with these digits around its point, times ten to a power; what is left of the power is negative."""
    number = (before + after).lstrip("0")
    if not number:
        return 0, 0
    power -= len(after)
    if len(number) > _DIGITS:
        power += len(number) - _DIGITS
        dropped_digits = number[_DIGITS:].strip("0")
        number = str(int(number[:_DIGITS]) + 1) if dropped_digits else number[:_DIGITS]
    # Bounded before it is raised to: "1e999999999" must not be computed, and neither must its inverse.
    power = max(-3 * _DIGITS, min(power, _DIGITS))
    return int(number) * 10 ** max(power, 0), min(power, 0)


def _power(exponent: str) -> int:
    sign = -1 if exponent.startswith("-") else 1
    digits = exponent.lstrip("+-").lstrip("0")
    return sign * (int(digits or "0") if len(digits) < _DIGITS else 10**_DIGITS)


def _digits(number: float) -> str:
    """A bare number as it is written; one of thousands of digits is not written out."""
    if isinstance(number, int) and abs(number) > LARGEST:
        number = LARGEST if number > 0 else -LARGEST
    return repr(number)


def whole(quantity: Quantity) -> int:
    """The value in whole units, fractions rounded away from zero, as Kubernetes' `Value()` does."""
    return _rounded(quantity, 1)


def milli(quantity: Quantity) -> int:
    """The value in thousandths, smaller fractions rounded away from zero, as Kubernetes' `MilliValue()` does."""
    return _rounded(quantity, 1000)


@lru_cache(maxsize=65536, typed=True)
def amount(resource: str, quantity: Quantity) -> int:
    """The value in the unit in which a resource is counted: thousandths for CPU, whole units otherwise."""
    return milli(quantity) if _plain(resource) == "cpu" else whole(quantity)


def show(resource: str, count: int) -> str:
    """The canonical quantity for an amount in its resource's unit; `amount(resource, show(resource, n)) == n`."""
    name = _plain(resource)
    if name == "cpu":
        return f"{count}m" if count % 1000 else str(count // 1000)
    if name in ("memory", "ephemeral-storage", "storage") or name.startswith("hugepages-"):
        return _show_bytes(count)
    return str(count)


@lru_cache(maxsize=65536, typed=True)
def canonical(quantity: Quantity) -> str:
    """A quantity as the API server keeps it: no fraction, the largest suffix that fits, in the form it was written in.

    So 0.5 becomes "500m", 1000 "1k", "1024Mi" "1Gi" and "1.5e3" "1500"; what is smaller than a billionth is rounded
    away from zero.
    """
    number, denominator = ratio(quantity)
    text = str(quantity)
    if text.endswith("i") and abs(number) >= 1024 * denominator:
        size = -(-abs(number) // denominator)
        return ("-" if number < 0 else "") + _show_bytes(size)
    billionths = -(-abs(number) * 10**9 // denominator)
    power = -9
    while billionths and billionths % 1000 == 0 and power < _LARGEST_POWER:
        billionths = billionths // 1000
        power = power + 3
    if not billionths:
        return "0"
    exponent = re.search(r"[eE][+-]?[0-9]+$", text) is not None
    suffix = (f"e{power}" if power else "") if exponent else _SUFFIXES[power]
    return f"{'-' if number < 0 else ''}{billionths}{suffix}"


@lru_cache(maxsize=65536, typed=True)
def _rounded(quantity: Quantity, per_unit: int) -> int:
    if isinstance(quantity, str) and len(quantity) < _PLAIN and quantity.isascii() and quantity.isdecimal():
        return min(int(quantity) * per_unit, LARGEST)
    number, denominator = ratio(quantity)
    size = min(-(-abs(number) * per_unit // denominator), LARGEST)
    return -size if number < 0 else size


def _plain(resource: str) -> str:
    """The resource itself where a quota spells it "requests.cpu" or "limits.memory"."""
    for prefix in _QUOTA_PREFIXES:
        if resource.startswith(prefix):
            return resource.removeprefix(prefix)
    return resource


def _show_bytes(count: int) -> str:
    suffix = ""
    for larger in _BINARY:
        if count == 0 or count % 1024:
            break
        count = count // 1024
        suffix = larger
    return f"{count}{suffix}"
