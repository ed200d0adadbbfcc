"""What functions and operators do, and what each call of them is charged.

Charges are those of Kubernetes, so that what the API server would let pass is not refused here. Where Kubernetes
charges little for much, as for comparing lists that hold each other many times, all that is touched is charged besides.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import cmp_to_key, lru_cache
from itertools import pairwise
from typing import Any, Final, Protocol, cast

from tierwise.api.cel.cost import PATTERN_FACTOR, TEXT_FACTOR
from tierwise.api.cel.errors import CompileError, EvaluationError, TooMuchWorkError
from tierwise.api.cel.library import OVERLOADS
from tierwise.api.cel.values import BEYOND, BoolKey, EveryKey, Key, Named, Optional, QuantityValue, Semver, UInt, Value

__all__ = ["FUNCTIONS", "Work", "ask_pattern", "can_be_key", "key_of", "no_overload", "unkeyed", "value_at"]

_MOST_LISTED: Final = 48
"""How many values a list may have that `includes` looks into."""


class Work:
    """The work that is left to an evaluation, in Kubernetes' units of cost."""

    __slots__ = ("left",)

    def __init__(self, allowed: int) -> None:
        self.left = allowed

    def work(self, cost: int) -> None:
        """Charge something; TooMuchWorkError where more is used than is allowed."""
        self.left -= cost
        if self.left < 0:
            raise TooMuchWorkError("it costs more than Kubernetes allows a selector")


Function = Callable[..., Value]


def no_overload(name: str, *values: Value) -> EvaluationError:
    """That a function or an operator does not take such values."""
    types = ", ".join(type(value).__name__ for value in values)
    return EvaluationError(f"no such overload: {name} of {types}")


# -- maps


def key_of(value: Value) -> Key:
    """A value as a key of a map."""
    if isinstance(value, bool):
        return BoolKey(value)
    if value is None or isinstance(value, str | int | float):
        return value
    raise EvaluationError("unsupported key type")


def can_be_key(value: Value) -> bool:
    """Whether a value can be a key at all; Kubernetes cannot even ask for bytes and versions."""
    if isinstance(value, bytes | Semver):
        raise EvaluationError("unsupported key type")
    return (value is None or isinstance(value, str | int | float)) and value == value  # not a number is no key


def _is_key(value: Value, holder: dict[Key, Value]) -> bool:
    if isinstance(holder, Named):
        return isinstance(value, str) and value in holder
    return can_be_key(value) and key_of(value) in holder


def unkeyed(key: Key) -> Value:
    """The value that a key of a map stands for."""
    return key.value if isinstance(key, BoolKey) else key


def value_at(holder: Value, key: Value) -> tuple[bool, Value]:
    """Whether a map or a list has something at a key, and what."""
    if isinstance(holder, dict):
        if _is_key(key, holder):
            return True, holder[key_of(key)]
        return (True, {}) if isinstance(holder, EveryKey) else (False, None)
    if isinstance(holder, list):
        if isinstance(key, bool) or not isinstance(key, int | float):
            raise no_overload("look-up in a list", key)
        if isinstance(key, float) and not key.is_integer():
            raise EvaluationError("unsupported index value")
        return (True, holder[int(key)]) if 0 <= key < len(holder) else (False, None)
    raise no_overload("look-up", holder)


# -- operators


def _is_int(value: Value) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _equal(env: Work, left: Value, right: Value) -> bool:
    """Values of different types are different, but for numbers; what holds others is charged for each."""
    if left is None or right is None:
        return left is right
    if _is_number(left) and _is_number(right):
        if isinstance(left, float) or isinstance(right, float):
            return _order_of_doubles(cast("float", left), cast("float", right)) == 0
        return left == right
    if isinstance(left, list):
        return isinstance(right, list) and len(left) == len(right) and _all_equal(env, left, right)
    if isinstance(left, dict):
        if not isinstance(right, dict) or left.keys() != right.keys():
            return False
        return _all_equal(env, list(left.values()), [right[key] for key in left])
    if isinstance(left, QuantityValue):
        if not isinstance(right, QuantityValue) or right.derived:
            raise no_overload("_==_", left, right)
        return left.order(right) == 0
    if isinstance(left, Semver):
        if not isinstance(right, Semver):
            raise no_overload("_==_", left, right)
        return left == right
    if isinstance(left, Optional):
        if not isinstance(right, Optional) or left.there is not right.there:
            return False
        return not left.there or _equal(env, left.value, right.value)
    return type(left) is type(right) and left == right


_PLAIN: Final = frozenset({bool, int, str, bytes})
"""Types whose values are equal to themselves."""


def _all_equal(env: Work, left: list[Value], right: list[Value]) -> bool:
    """Whether all of these are equal; what cannot be compared counts as equal, as in Kubernetes."""
    env.work(len(left))
    for one, other in zip(left, right, strict=True):
        if one is other and type(one) in _PLAIN:
            continue
        try:
            if not _equal(env, one, other):
                return False
        except TooMuchWorkError:
            raise
        except EvaluationError:
            continue
    return True


def _is_equal(env: Work, left: Value, right: Value) -> bool:
    """Whether two are equal; what cannot be compared is not."""
    try:
        return _equal(env, left, right)
    except TooMuchWorkError:
        raise
    except EvaluationError:
        return False


def _order_of_doubles(left: float, right: float) -> int | None:
    """Numbers of which one is a double, compared as doubles; None where one is no number."""
    left, right = float(left), float(right)
    if math.isnan(left) or math.isnan(right):
        return None
    return (left > right) - (left < right)


def _order(left: Value, right: Value) -> int:
    """Below zero where one value comes before another; EvaluationError where they have no order."""
    if _is_number(left) and _is_number(right):
        if isinstance(left, float) or isinstance(right, float):
            found = _order_of_doubles(cast("float", left), cast("float", right))
            if found is None:
                raise EvaluationError("NaN values cannot be ordered")
            return found
        one, other = cast("int", left), cast("int", right)
        return (one > other) - (one < other)
    if type(left) is type(right) and isinstance(left, bool | str | bytes):
        return (left > right) - (left < right)  # type: ignore[operator]
    raise no_overload("an order", left, right)


def _whole(value: int, like: Value) -> Value:
    """An integer of the type of an operand; an error where 64 bits do not hold it."""
    unsigned = isinstance(like, UInt)
    if not (0 <= value < 2 * BEYOND if unsigned else -BEYOND <= value < BEYOND):
        raise EvaluationError("integer overflow")
    return UInt(value) if unsigned else int(value)


def _added(env: Work, left: Value, right: Value) -> Value:
    if isinstance(left, str) and isinstance(right, str):
        return left + right
    if isinstance(left, bytes) and isinstance(right, bytes):
        return left + right
    if isinstance(left, list) and isinstance(right, list):
        env.work(len(left) + len(right))
        return left + right
    return _arithmetic("_+_", left, right, lambda a, b: a + b)


def _arithmetic(name: str, left: Value, right: Value, how: Callable[[Any, Any], Any]) -> Value:
    if isinstance(left, float) and isinstance(right, float):
        return float(how(left, right))
    if _is_int(left) and _is_int(right) and isinstance(left, UInt) is isinstance(right, UInt):
        return _whole(how(int(cast("int", left)), int(cast("int", right))), left)
    raise no_overload(name, left, right)


def _divided(_: Work, left: Value, right: Value) -> Value:
    if isinstance(left, float) and isinstance(right, float):
        if right:
            return left / right
        if left == 0 or math.isnan(left):
            return math.nan
        return math.copysign(math.inf, left) * math.copysign(1, right)
    if right == 0 and _is_int(right) and _is_int(left):
        raise EvaluationError("division by zero")
    return _arithmetic("_/_", left, right, _quotient)


def _quotient(left: int, right: int) -> int:
    """Rounded towards zero."""
    whole = abs(left) // abs(right)
    return whole if (left < 0) is (right < 0) else -whole


def _remainder(_: Work, left: Value, right: Value) -> Value:
    if not _is_int(left) or not _is_int(right):
        raise no_overload("_%_", left, right)
    if right == 0:
        raise EvaluationError("modulus by zero")
    if left == -BEYOND and right == -1:
        raise EvaluationError("integer overflow")
    return _arithmetic("_%_", left, right, lambda a, b: a - _quotient(a, b) * b)


def _negative(_: Work, value: Value) -> Value:
    if isinstance(value, float):
        return -value
    if _is_int(value) and not isinstance(value, UInt):
        return _whole(-cast("int", value), value)
    raise no_overload("-_", value)


def _inside(env: Work, value: Value, holder: Value) -> Value:
    if isinstance(holder, dict):
        env.work(1)
        return _is_key(value, holder)
    env.work(len(_items(holder)))
    return any(_is_equal(env, value, item) for item in _items(holder))


def _not(_: Work, value: Value) -> Value:
    if not isinstance(value, bool):
        raise no_overload("!_", value)
    return not value


# -- what arguments must be


def _text(value: Value) -> str:
    if not isinstance(value, str):
        raise no_overload("a function of strings", value)
    return value


def _items(value: Value) -> list[Value]:
    if not isinstance(value, list):
        raise no_overload("a function of lists", value)
    return value


def _number(value: Value) -> int:
    if not _is_int(value) or isinstance(value, UInt):
        raise no_overload("a function of integers", value)
    return cast("int", value)


def _quantity(value: Value) -> QuantityValue:
    if not isinstance(value, QuantityValue):
        raise no_overload("a function of quantities", value)
    return value


def _optional(value: Value) -> Optional:
    if not isinstance(value, Optional):
        raise no_overload("a function of optional values", value)
    return value


# -- conversions


def _size(_: Work, value: Value) -> Value:
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
_MOST_DIGITS: Final = 4000
"""Digits of a number that are read: Python reads no more at once, and 64 bits hold twenty."""


def _parsed(text: str) -> int:
    if len(text) > _MOST_DIGITS and text.lstrip("+-").lstrip("0")[20:]:
        raise EvaluationError("integer overflow")
    return int(text[:1] + text[1:].lstrip("0") if len(text) > _MOST_DIGITS else text)


def _to_int(_: Work, value: Value) -> Value:
    if isinstance(value, str):
        if not _INTEGER.fullmatch(value):
            raise EvaluationError("type conversion error from 'string' to 'int'")
        return _whole(_parsed(value), 0)
    if isinstance(value, float):
        if not -float(BEYOND) < value < float(BEYOND):
            raise EvaluationError("integer overflow")
        return int(value)
    if _is_int(value):
        return _whole(int(cast("int", value)), 0)
    raise no_overload("int", value)


def _to_uint(_: Work, value: Value) -> Value:
    if isinstance(value, str):
        if not _NATURAL.fullmatch(value):
            raise EvaluationError("type conversion error from 'string' to 'uint'")
        return _whole(_parsed(value), UInt(0))
    if isinstance(value, float):
        if not 0 <= value < float(2 * BEYOND):
            raise EvaluationError("unsigned integer overflow")
        return UInt(value)
    if _is_int(value):
        return _whole(int(cast("int", value)), UInt(0))
    raise no_overload("uint", value)


def _to_double(_: Work, value: Value) -> Value:
    if isinstance(value, str):
        found = _double(value)
        if found is None:
            raise EvaluationError("type conversion error from 'string' to 'double'")
        return found
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    raise no_overload("double", value)


def _double(text: str) -> float | None:
    """The double that a text spells in Go's ways; None where it is none, or too large."""
    if _NO_NUMBER.fullmatch(text):
        return float(text)
    try:
        if _DOUBLE.fullmatch(text):
            found = float(text.replace("_", ""))
            return found if math.isfinite(found) else None
        return float.fromhex(text.replace("_", "")) if _HEX.fullmatch(text) else None
    except OverflowError:
        return None


def _to_string(_: Work, value: Value) -> Value:
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
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    _, figures, power = Decimal(repr(value)).normalize().as_tuple()
    digits = "".join(map(str, figures))
    at = len(digits) - 1 + int(power)  # the exponent of the first digit
    sign = "-" if math.copysign(1, value) < 0 else ""
    if at < -4 or at >= 6:
        part = f".{digits[1:]}" if len(digits) > 1 else ""
        return f"{sign}{digits[0]}{part}e{'-' if at < 0 else '+'}{abs(at):02}"
    if at < 0:
        return f"{sign}0.{'0' * (-at - 1)}{digits}"
    whole, part = digits[: at + 1].ljust(at + 1, "0"), digits[at + 1 :]
    return f"{sign}{whole}.{part}" if part else sign + whole


_TRUTHS: Final = {
    spelt: truth
    for word, truth in (("1", True), ("t", True), ("true", True), ("0", False), ("f", False), ("false", False))
    for spelt in (word, word.upper(), word.title())
}


def _to_bool(_: Work, value: Value) -> Value:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value in _TRUTHS:
        return _TRUTHS[value]
    raise EvaluationError("cannot be converted to a bool")


def _to_bytes(_: Work, value: Value) -> Value:
    if isinstance(value, bytes):
        return value
    return _text(value).encode()


def _is(read: Function) -> Function:
    def reads(env: Work, *values: Value) -> Value:
        _text(values[0])
        try:
            read(env, *values)
        except TooMuchWorkError:
            raise
        except EvaluationError:
            return False
        return True

    return reads


def _to_semver(_: Work, value: Value, normalize: Value = False) -> Value:  # noqa: FBT002
    if not isinstance(normalize, bool):
        raise no_overload("semver", normalize)
    return Semver.of(_text(value), normalize=normalize)


# -- quantities and versions


def _ordering(test: Callable[[int], Value]) -> Function:
    """Methods that compare two quantities, or two versions."""

    def compare(_: Work, left: Value, right: Value) -> Value:
        if isinstance(left, QuantityValue) and isinstance(right, QuantityValue):
            return test(left.order(right))
        if isinstance(left, Semver) and isinstance(right, Semver):
            return test((left > right) - (left < right))
        raise no_overload("a comparison", left, right)

    return compare


def _changed(sign: int) -> Function:
    """A quantity plus or minus another, or a whole number."""

    def change(_: Work, left: Value, right: Value) -> Value:
        by = right if isinstance(right, QuantityValue) else QuantityValue(_number(right))
        return _quantity(left).plus(by, sign)

    return change


def _as_integer(_: Work, value: Value) -> Value:
    found = _quantity(value).integer()
    if found is None:
        raise EvaluationError("cannot convert value to integer")
    return found


def _part(index: int) -> Function:
    def part(_: Work, value: Value) -> Value:
        if not isinstance(value, Semver):
            raise no_overload("a part of a version", value)
        return (value.numbers[index] + BEYOND) % (2 * BEYOND) - BEYOND

    return part


# -- patterns


class _Match(Protocol):
    def group(self) -> str: ...
    def span(self) -> tuple[int, int]: ...


class _Pattern(Protocol):
    """What is used of re2's patterns, which come without types."""

    def search(self, text: str) -> _Match | None: ...
    def finditer(self, text: str) -> Iterator[_Match]: ...


@lru_cache(maxsize=256)
def _pattern(text: str) -> _Pattern:
    import re2  # imported here because it is slow and only patterns need it

    options = re2.Options()
    options.log_errors = False
    try:
        found: _Pattern = re2.compile(text, options=options)
    except re2.error:
        raise EvaluationError(f"{text[:64]!r} is not a regular expression") from None
    return found


def ask_pattern(text: str) -> None:
    """Refuse a pattern that is none."""
    try:
        _pattern(text)
    except EvaluationError as error:
        raise CompileError(str(error)) from None


def _matches(_: Work, text: Value, wanted: Value) -> Value:
    return _pattern(_text(wanted)).search(_text(text)) is not None


def _find(_: Work, text: Value, wanted: Value) -> Value:
    found = _pattern(_text(wanted)).search(_text(text))
    return "" if found is None else found.group()


def _find_all(env: Work, text: Value, wanted: Value, limit: Value = -1) -> Value:
    most = _number(limit)
    found: list[Value] = []
    end = -1
    for match in _pattern(_text(wanted)).finditer(_text(text)):
        if most >= 0 and len(found) >= most:
            break
        env.work(1)
        start, stop = match.span()
        if start == stop == end:  # Go finds nothing right behind what it has found
            continue
        end = stop
        found.append(match.group())
    return found


# -- strings

_SPACE: Final = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
_LOWER: Final = {upper: upper + 32 for upper in range(65, 91)}
_UPPER: Final = {lower: lower - 32 for lower in range(97, 123)}


def _replaced(env: Work, text: Value, old: Value, new: Value, limit: Value = -1) -> Value:
    whole, part, by, most = _text(text), _text(old), _text(new), _number(limit)
    number = whole.count(part) if part else len(whole) + 1
    number = min(number, most) if most >= 0 else number
    env.work(_ceil((len(whole) + number * len(by)) * TEXT_FACTOR))
    return whole.replace(part, by, number)


def _split(env: Work, text: Value, by: Value, limit: Value = -1) -> Value:
    whole, mark, most = _text(text), _text(by), _number(limit)
    if most == 0:
        return []
    env.work(whole.count(mark) + 1)
    parts: list[Value] = list(whole) if not mark else list(whole.split(mark, most - 1 if most > 0 else -1))
    if not mark and 0 < most < len(parts):
        parts = [*parts[: most - 1], whole[most - 1 :]]
    return parts


def _joined(env: Work, items: Value, by: Value = "") -> Value:
    parts = [_text(item) for item in _items(items)]
    between = _text(by)
    size = sum(map(len, parts)) + len(between) * max(len(parts) - 1, 0)
    env.work(max(_ceil(size * 2 * TEXT_FACTOR), len(parts) // 2))
    return between.join(parts)


def _substring(_: Work, text: Value, start: Value, end: Value = None) -> Value:
    whole, first = _text(text), _number(start)
    last = len(whole) if end is None else _number(end)
    if not 0 <= first <= last <= len(whole):
        raise EvaluationError(f"index out of range: {first}")
    return whole[first:last]


def _char_at(_: Work, text: Value, at: Value) -> Value:
    whole, index = _text(text), _number(at)
    if not 0 <= index <= len(whole):
        raise EvaluationError(f"index out of range: {index}")
    return whole[index : index + 1]


def _index_of(*, last: bool) -> Function:
    def find(env: Work, holder: Value, wanted: Value, start: Value = None) -> Value:
        if isinstance(holder, list):
            if start is not None:
                raise no_overload("indexOf", holder, wanted, start)
            order = range(len(holder) - 1, -1, -1) if last else range(len(holder))
            return next((i for i in order if _is_equal(env, holder[i], wanted)), -1)
        whole, part = _text(holder), _text(wanted)
        if not part:
            return _number(start) if start is not None else len(whole) if last else 0
        at = (len(whole) if last else 0) if start is None else _number(start)
        if at < 0:
            raise EvaluationError(f"index out of range: {at}")
        if start is not None and at >= len(whole):
            return -1
        return whole.rfind(part, 0, at + len(part)) if last else whole.find(part, at)

    return find


_QUOTES: Final = str.maketrans(
    {sign: f"\\{name}" for sign, name in zip('\a\b\f\n\r\t\v\\"', 'abfnrtv\\"', strict=True)}
)


def _quoted(_: Work, text: Value) -> Value:
    return f'"{_text(text).translate(_QUOTES)}"'


# -- lists


def _extreme(*, largest: bool) -> Function:
    def extreme(_: Work, given: Value) -> Value:
        items = _items(given)
        if not items:
            raise EvaluationError("min and max of an empty list")
        if all(type(item) is int for item in items):
            return (max if largest else min)(cast("list[int]", items))
        best = _comparable(items[0])
        for item in items[1:]:
            order = _order_or_none(best, _comparable(item))
            if order is not None and (order < 0 if largest else order > 0):
                best = item
        return best

    return extreme


def _comparable(value: Value) -> Value:
    if isinstance(value, bool | int | float | str | bytes):
        return value
    raise no_overload("an order", value)


def _order_or_none(left: Value, right: Value) -> int | None:
    try:
        return _order(left, right)
    except EvaluationError:
        return None


def _sum(overload: str) -> Function:
    nothing: Value = {"list_double_sum_double": 0.0, "list_uint_sum_uint": UInt(0)}.get(overload, 0)

    def add_up(_: Work, items: Value) -> Value:
        total: Value = None
        if all(type(item) is int for item in _items(items)):
            plain = cast("list[int]", items)
            if sum(map(abs, plain)) < BEYOND:  # no sum on the way is too large
                return sum(plain) if plain else nothing
        for item in _items(items):
            total = item if total is None else _arithmetic("sum", total, item, lambda a, b: a + b)
            if not _is_number(total):
                raise no_overload("sum", total)
        return nothing if total is None else total

    return add_up


def _is_sorted(_: Work, items: Value) -> Value:
    found = [_comparable(item) for item in _items(items)]
    return not any((_order_or_none(a, b) or 0) > 0 for a, b in pairwise(found))


def _before(left: Value, right: Value) -> int:
    return _order_or_none(left, right) or 0


def _sorted(_: Work, items: Value, keys: Value = None) -> Value:
    found = _items(items)
    by = _items(keys) if keys is not None else found
    if len(found) != len(by):
        raise EvaluationError("sortBy with as many keys as entries")
    if not found:
        return found
    _comparable(by[0])
    if any(type(key) is not type(by[0]) for key in by) and len(by) > 1:
        raise EvaluationError("list elements must have the same type")
    rank = cmp_to_key(_before)
    return [item for _, item in sorted(zip(by, found, strict=True), key=lambda pair: rank(pair[0]))]


def _includes(env: Work, holder: Value, wanted: Value) -> Value:
    if not isinstance(holder, list):
        return _is_equal(env, holder, wanted)
    for i, item in enumerate(holder):
        if i >= _MOST_LISTED:
            raise EvaluationError(f"'includes' function cannot be applied to lists longer than {_MOST_LISTED} values")
        if _is_equal(env, item, wanted):
            return True
    return False


def _sets(how: str) -> Function:
    def holds(env: Work, a: list[Value], b: list[Value]) -> bool:
        return all(any(_is_equal(env, item, one) for one in a) for item in b)

    def compare(env: Work, left: Value, right: Value) -> Value:
        a, b = _items(left), _items(right)
        if how == "intersects":
            return any(_is_equal(env, item, one) for item in a for one in b)
        return holds(env, a, b) and (how == "contains" or holds(env, b, a))

    return compare


def _range(env: Work, number: Value) -> Value:
    size = max(_number(number), 0)
    env.work(size + 11)
    return list(range(size))


def _sliced(env: Work, items: Value, start: Value, end: Value) -> Value:
    found, first, last = _items(items), _number(start), _number(end)
    if not 0 <= first <= last <= len(found):
        raise EvaluationError(f"cannot slice({first}, {last}) of {len(found)}")
    env.work(last - first + 11)
    return found[first:last]


def _flat(env: Work, items: Value, depth: Value = 1) -> Value:
    if _number(depth) < 0:
        raise EvaluationError("level must be non-negative")
    found: list[Value] = []
    _flatten(env, _items(items), _number(depth), found)
    return found


def _flatten(env: Work, items: list[Value], depth: int, into: list[Value]) -> None:
    env.work(len(items))
    for item in items:
        if isinstance(item, list) and depth:
            _flatten(env, item, depth - 1, into)
        else:
            into.append(item)


def _distinct(env: Work, items: Value) -> Value:
    found: list[Value] = []
    for item in _items(items):
        if not any(_is_equal(env, item, one) for one in found):
            found.append(item)
    return found


def _end(index: int) -> Function:
    def end(_: Work, items: Value) -> Value:
        found = _items(items)
        return Optional(found[index], there=True) if found else Optional()

    return end


# -- optional values


def _unwrapped(_: Work, value: Value) -> Value:
    found = _optional(value)
    if not found.there:
        raise EvaluationError("optional.none() dereference")
    return found.value


def _of_non_zero(_: Work, value: Value) -> Value:
    plain = value is None or isinstance(value, bool | int | float | str | bytes | list | dict)
    return Optional() if plain and not value else Optional(value, there=True)


def _all_unwrapped(env: Work, items: Value) -> Value:
    found = [_optional(item) for item in _items(items)]
    env.work(len(found))
    return [one.value for one in found if one.there]


# -- charges


def _ceil(number: float) -> int:
    return math.ceil(number)


def _length(value: Value) -> int:
    if isinstance(value, str | bytes | list | dict):
        return len(value)
    if isinstance(value, Optional) and value.there:
        return _length(value.value)
    return 1


def _traversed(env: Work, value: Value) -> int:
    """Going over a value with all that it holds; what lists and maps hold is charged as it is gone over."""
    if isinstance(value, str):
        return int((len(value) if value.isascii() else len(value.encode())) * TEXT_FACTOR)
    if isinstance(value, bytes):
        return int(len(value) * TEXT_FACTOR)
    if isinstance(value, list):
        env.work(sum([_traversed(env, item) if isinstance(item, _HOLDING) else 1 for item in value]) + len(value) // 16)
        return 0
    if isinstance(value, dict):
        for key, item in value.items():
            env.work(1 + _traversed(env, unkeyed(key)) + _traversed(env, item))
        return 0
    return 1


_HOLDING: Final = (str, bytes, list, dict)


def _part_of(number: float) -> Callable[[Work, tuple[Value, ...]], int]:
    return lambda _, values: _ceil(_length(values[0]) * number)


def _by_smaller(_: Work, values: tuple[Value, ...]) -> int:
    return _ceil(min(_length(values[0]), _length(values[1])) * TEXT_FACTOR)


def _by_both(_: Work, values: tuple[Value, ...]) -> int:
    return _ceil((_length(values[0]) + _length(values[1])) * TEXT_FACTOR)


def _by_pattern(_: Work, values: tuple[Value, ...]) -> int:
    return _ceil((1 + _length(values[0])) * TEXT_FACTOR) * _ceil(_length(values[1]) * PATTERN_FACTOR)


def _by_product(_: Work, values: tuple[Value, ...]) -> int:
    return _ceil(_length(values[0]) * TEXT_FACTOR) * _ceil(_length(values[1]) * TEXT_FACTOR)


def _by_equality(_: Work, values: tuple[Value, ...]) -> int:
    return 1 if isinstance(values[0], QuantityValue | Semver) else _by_smaller(_, values)


def _by_set(factor: int) -> Callable[[Work, tuple[Value, ...]], int]:
    return lambda _, values: 1 + _length(values[0]) * _length(values[1]) * factor


def _by_square(_: Work, values: tuple[Value, ...]) -> int:
    compared = values[-1]
    size = _length(compared)
    texts = isinstance(compared, list) and size and isinstance(compared[0], str | bytes)
    return int(size * size * (2 + TEXT_FACTOR if texts else 2)) + 11


def _by_copy(_: Work, values: tuple[Value, ...]) -> int:
    return _length(values[0]) + 11


def _by_depth(_: Work, values: tuple[Value, ...]) -> int:
    depth = values[1] if len(values) > 1 and _is_int(values[1]) else 1
    return int(max(cast("int", depth), 0) * _length(values[0])) + 11


def _by_traversal(env: Work, values: tuple[Value, ...]) -> int:
    return _traversed(env, values[0])


Charge = int | Callable[[Work, tuple[Value, ...]], int]
"""What a call costs: always the same, or by its arguments."""

_ONCE, _TWICE = _part_of(TEXT_FACTOR), _part_of(2 * TEXT_FACTOR)


def _less(test: Callable[[int], bool]) -> Function:
    return lambda _, left, right: test(_order(left, right))


def _not_equal(env: Work, left: Value, right: Value) -> Value:
    """What cannot be compared differs."""
    return not _is_equal(env, left, right)


_TABLE: Final[dict[str, tuple[Function, Charge]]] = {
    "_+_": (_added, 1),
    "_-_": (lambda _, a, b: _arithmetic("_-_", a, b, lambda x, y: x - y), 1),
    "_*_": (lambda _, a, b: _arithmetic("_*_", a, b, lambda x, y: x * y), 1),
    "_/_": (_divided, 1),
    "_%_": (_remainder, 1),
    "-_": (_negative, 1),
    "!_": (_not, 1),
    "_==_": (_equal, _by_equality),
    "_!=_": (_not_equal, _by_smaller),
    "_<_": (_less(lambda order: order < 0), 1),
    "_<=_": (_less(lambda order: order <= 0), 1),
    "_>_": (_less(lambda order: order > 0), 1),
    "_>=_": (_less(lambda order: order >= 0), 1),
    "@in": (_inside, 0),
    "size": (_size, 1),
    "int": (_to_int, 1),
    "uint": (_to_uint, 1),
    "double": (_to_double, 1),
    "string": (_to_string, 1),
    "bool": (_to_bool, 1),
    "bytes": (_to_bytes, 1),
    "dyn": (lambda _, value: value, 1),
    "quantity": (lambda _, value: QuantityValue.of(_text(value)), _ONCE),
    "isQuantity": (_is(lambda _, value: QuantityValue.of(_text(value))), _ONCE),
    "semver": (_to_semver, _ONCE),
    "isSemver": (_is(_to_semver), _ONCE),
    "sign": (lambda _, value: _quantity(value).order(QuantityValue(0)), 1),
    "isInteger": (lambda _, value: _quantity(value).integer() is not None, 1),
    "asInteger": (_as_integer, 1),
    "asApproximateFloat": (lambda _, value: _quantity(value).approximately(), 1),
    "isLessThan": (_ordering(lambda order: order < 0), 1),
    "isGreaterThan": (_ordering(lambda order: order > 0), 1),
    "compareTo": (_ordering(lambda order: order), 1),
    "add": (_changed(1), 1),
    "sub": (_changed(-1), 1),
    "major": (_part(0), 1),
    "minor": (_part(1), 1),
    "patch": (_part(2), 1),
    "contains": (lambda _, text, part: _text(part) in _text(text), _by_product),
    "startsWith": (lambda _, text, part: _text(text).startswith(_text(part)), _ONCE),
    "endsWith": (lambda _, text, part: _text(text).endswith(_text(part)), _ONCE),
    "matches": (_matches, _by_pattern),
    "find": (_find, _by_pattern),
    "findAll": (_find_all, _by_pattern),
    "lowerAscii": (lambda _, text: _text(text).translate(_LOWER), _ONCE),
    "upperAscii": (lambda _, text: _text(text).translate(_UPPER), _ONCE),
    "trim": (lambda _, text: _text(text).strip(_SPACE), _ONCE),
    "charAt": (_char_at, 1),
    "indexOf": (_index_of(last=False), _by_traversal),
    "lastIndexOf": (_index_of(last=True), _by_traversal),
    "substring": (_substring, _ONCE),
    "replace": (_replaced, _TWICE),
    "split": (_split, _TWICE),
    "join": (_joined, 0),
    "strings.quote": (_quoted, _ONCE),
    "min": (_extreme(largest=False), _by_traversal),
    "max": (_extreme(largest=True), _by_traversal),
    "isSorted": (_is_sorted, _by_traversal),
    "sort": (_sorted, _by_square),
    "@sortByAssociatedKeys": (_sorted, _by_square),
    "slice": (_sliced, 0),
    "flatten": (_flat, _by_depth),
    "lists.range": (_range, 0),
    "reverse": (lambda _, items: _items(items)[::-1], _by_copy),
    "distinct": (_distinct, _by_square),
    "first": (_end(0), 1),
    "last": (_end(-1), 1),
    "includes": (_includes, 1),
    "sets.contains": (_sets("contains"), _by_set(1)),
    "sets.intersects": (_sets("intersects"), _by_set(1)),
    "sets.equivalent": (_sets("equivalent"), _by_set(2)),
    "optional.none": (lambda _: Optional(), 1),
    "optional.of": (lambda _, value: Optional(value, there=True), 1),
    "optional.ofNonZeroValue": (_of_non_zero, 1),
    "optional.unwrap": (_all_unwrapped, 1),
    "unwrapOpt": (_all_unwrapped, 1),
    "hasValue": (lambda _, value: _optional(value).there, 1),
    "value": (_unwrapped, 1),
}

_BY_OVERLOAD: Final[dict[str, Charge]] = {
    "add_string": _by_both,
    "add_bytes": _by_both,
    "string_to_bytes": _ONCE,
    "bytes_to_string": _ONCE,
}


_OPERATORS: Final = frozenset({"size", "dyn", "sort", "@sortByAssociatedKeys"})
"""Functions that take whatever they can work with, as operators do; the others take what they are known to be given."""

_IS: Final[dict[object, Callable[[Value], bool]]] = {
    "bool": lambda value: isinstance(value, bool),
    "int": lambda value: _is_int(value) and not isinstance(value, UInt),
    "uint": lambda value: isinstance(value, UInt),
    "double": lambda value: isinstance(value, float),
    "string": lambda value: isinstance(value, str),
    "bytes": lambda value: isinstance(value, bytes),
    "list": lambda value: isinstance(value, list),
    "kubernetes.Quantity": lambda value: isinstance(value, QuantityValue),
    "kubernetes.Semver": lambda value: isinstance(value, Semver),
    "duration": lambda _: False,
    "timestamp": lambda _: False,
}


def _anything(_: Value) -> bool:
    return True


def _guarded(name: str, overload: str, function: Function) -> Function:
    """A function that was resolved before takes nothing else, though more of its name would."""
    if name in _OPERATORS or not name[0].isalpha() or len(OVERLOADS[name]) == 1:
        return function
    declared = next(one for one in OVERLOADS[name] if one.id == overload)
    tests = [_IS.get(kind[0], _anything) for kind in declared.arguments]

    def guarded(env: Work, *values: Value) -> Value:
        if not all(test(value) for test, value in zip(tests, values, strict=True)):
            raise no_overload(name, *values)
        return function(env, *values)

    return guarded


def _made(name: str) -> Callable[[str], Function]:
    def of(overload: str) -> Function:
        """The function, which charges before it does anything."""
        function, charge = _TABLE[name] if name != "sum" else (_sum(overload), _by_traversal)
        charge = _BY_OVERLOAD.get(overload, charge)
        function = _guarded(name, overload, function) if overload else function
        if overload.endswith(("_string", "_bytes")) and overload.startswith(("less_", "greater_")):
            charge = _by_smaller
        if isinstance(charge, int):
            price = charge

            def plain(env: Work, *values: Value) -> Value:
                env.work(price)
                return function(env, *values)

            return plain
        by = charge

        def charged(env: Work, *values: Value) -> Value:
            env.work(by(env, values))
            return function(env, *values)

        return charged

    return of


FUNCTIONS: Final[dict[str, Callable[[str], Function]]] = {name: _made(name) for name in (*_TABLE, "sum")}
"""Every function by its name: what it does, given the overload it is known to be."""
