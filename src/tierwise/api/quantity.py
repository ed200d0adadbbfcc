"""Kubernetes quantities ("500m", "64Gi", "1e3") as exact numbers.

Called by the codec, which refuses bad ones, and by everything that counts resources. Never uses floating point, so
no sum depends on its order. CPU is counted in thousandths, every other resource in whole units, as Kubernetes does.
"""

import re
from fractions import Fraction
from functools import lru_cache
from typing import Final

__all__ = ["LARGEST", "Quantity", "amount", "milli", "parse", "show", "whole"]

Quantity = str | int | float
"""A quantity as a manifest spells it: usually a string, in YAML also a bare number."""

LARGEST: Final = 2**63 - 1
"""The largest amount that is counted, in whichever unit was asked for; beyond it a quantity is refused."""

_FORM: Final = re.compile(r"([+-]?)([0-9]+\.?[0-9]*|\.[0-9]+)(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?[0-9]+))?")
_LONGEST_TEXT: Final = 128
_LARGEST_EXPONENT: Final = 64
_DECIMAL: Final = ("k", "M", "G", "T", "P", "E")
_BINARY: Final = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_SUFFIX: Final[dict[str | None, Fraction]] = {
    None: Fraction(1),
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 10**3),
    **{suffix: Fraction(1000**power) for power, suffix in enumerate(_DECIMAL, 1)},
    **{suffix: Fraction(1024**power) for power, suffix in enumerate(_BINARY, 1)},
}
_QUOTA_PREFIXES: Final = ("requests.", "limits.")


@lru_cache(maxsize=65536, typed=True)
def parse(quantity: Quantity) -> Fraction:
    """The exact value of a quantity in any of Kubernetes' forms; ValueError says what is wrong with it.

    Bare numbers are read by the digits they print with, so YAML's 0.1 is one tenth exactly.
    """
    text = quantity if isinstance(quantity, str) else repr(quantity)
    if len(text) > _LONGEST_TEXT:
        raise ValueError(f'"{text[:16]}..." is too long for a quantity')
    form = _FORM.fullmatch(text)
    if form is None or isinstance(quantity, bool):
        raise ValueError(f'"{text}" is not a quantity')
    sign, digits, suffix, exponent = form.groups()
    before, _, after = digits.partition(".")
    value = Fraction(int(before + after), 10 ** len(after))
    if exponent is not None:
        # Bounded before it is raised to: "1e999999999" must not be computed.
        power = int(exponent)
        if abs(power) > _LARGEST_EXPONENT:
            raise ValueError(f'"{text}" is absurd: the exponent is out of range')
        value *= Fraction(10) ** power
    else:
        value *= _SUFFIX[suffix]
    return -value if sign == "-" else value


def whole(quantity: Quantity) -> int:
    """The value in whole units, fractions rounded away from zero, as Kubernetes' `Value()` does."""
    return _rounded(quantity, 1)


def milli(quantity: Quantity) -> int:
    """The value in thousandths, smaller fractions rounded away from zero, as Kubernetes' `MilliValue()` does."""
    return _rounded(quantity, 1000)


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
def _rounded(quantity: Quantity, per_unit: int) -> int:
    value = parse(quantity) * per_unit
    size = -(-abs(value.numerator) // value.denominator)
    if size > LARGEST:
        raise ValueError(f'"{quantity}" is absurd: more than 2^63-1 units')
    return -size if value < 0 else size


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
        count, suffix = count // 1024, larger
    return f"{count}{suffix}"
