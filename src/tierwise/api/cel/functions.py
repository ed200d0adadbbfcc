"""What functions and operators do, and what each call of them is charged.

Charges are those of Kubernetes, so that what the API server would let pass is not refused here. Where Kubernetes
charges little for much, as for comparing lists that hold each other many times, all that is touched is charged besides.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cmp_to_key
from itertools import pairwise
from typing import Final, cast

from tierwise.api.cel import conversions, operators, texts
from tierwise.api.cel.cost import PATTERN_FACTOR, TEXT_FACTOR
from tierwise.api.cel.errors import EvaluationError, TooMuchWorkError
from tierwise.api.cel.library import OVERLOADS
from tierwise.api.cel.values import BEYOND, Optional, QuantityValue, Semver, UInt, Value

__all__ = ["FUNCTIONS"]

_LONGEST_TEXT: Final = 16 * 1024
"""How long a text may be that a call makes: longer than any expression, and than all attributes of a device.

Texts are compared where nothing is charged by their length, as keys of maps are; so their length has a bound.
"""

_MAKE_TEXTS: Final = frozenset({"_+_", "bytes", "join", "replace", "string", "strings.quote"})

_MOST_LISTED: Final = 48
"""How many values a list may have that `includes` looks into."""


# -- quantities and versions


def _ordering(test: Callable[[int], Value]) -> operators.Function:
    """Methods that compare two quantities, or two versions."""

    def compare(env: operators.Work, left: Value, right: Value) -> Value:
        if isinstance(left, QuantityValue) and isinstance(right, QuantityValue):
            operators.charge_scales(env, left, right)
            return test(left.order(right))
        if isinstance(left, Semver) and isinstance(right, Semver):
            env.work(len(left.pre) + len(right.pre))
            return test(left.order(right))
        raise operators.no_overload("a comparison", left, right)

    return compare


def _changed(sign: int) -> operators.Function:
    """A quantity plus or minus another, or a whole number."""

    def change(env: operators.Work, left: Value, right: Value) -> Value:
        by = right if isinstance(right, QuantityValue) else QuantityValue(operators.integer_of(right))
        operators.charge_scales(env, operators.quantity_of(left), by)
        return operators.quantity_of(left).plus(by, sign)

    return change


def _as_integer(_: operators.Work, value: Value) -> Value:
    number = operators.quantity_of(value).integer()
    if number is None:
        raise EvaluationError("cannot convert value to integer")
    return number


def _part(index: int) -> operators.Function:
    def part(_: operators.Work, value: Value) -> Value:
        if not isinstance(value, Semver):
            raise operators.no_overload("a part of a version", value)
        return (value.numbers[index] + BEYOND) % (2 * BEYOND) - BEYOND

    return part


# -- lists


def _extreme(*, largest: bool) -> operators.Function:
    def extreme(_: operators.Work, values: Value) -> Value:
        items = operators.items_of(values)
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
    raise operators.no_overload("an order", value)


def _order_or_none(left: Value, right: Value) -> int | None:
    try:
        return operators.order_of(left, right)
    except EvaluationError:
        return None


def _sum(overload: str) -> operators.Function:
    nothing: Value = {"list_double_sum_double": 0.0, "list_uint_sum_uint": UInt(0)}.get(overload, 0)

    def add_up(_: operators.Work, items: Value) -> Value:
        total: Value = None
        if all(type(item) is int for item in operators.items_of(items)):
            plain = cast("list[int]", items)
            if sum(map(abs, plain)) < BEYOND:  # no sum on the way is too large
                return sum(plain) if plain else nothing
        for item in operators.items_of(items):
            total = item if total is None else operators.arithmetic("sum", total, item, lambda a, b: a + b)
            if not operators.is_number(total):
                raise operators.no_overload("sum", total)
        return nothing if total is None else total

    return add_up


def _is_sorted(_: operators.Work, items: Value) -> Value:
    comparable = [_comparable(item) for item in operators.items_of(items)]
    return not any((_order_or_none(a, b) or 0) > 0 for a, b in pairwise(comparable))


def _before(left: Value, right: Value) -> int:
    return _order_or_none(left, right) or 0


def _sorted(_: operators.Work, items: Value, keys: Value = None) -> Value:
    values = operators.items_of(items)
    by = operators.items_of(keys) if keys is not None else values
    if len(values) != len(by):
        raise EvaluationError("sortBy with as many keys as entries")
    if not values:
        return values
    _comparable(by[0])
    if any(type(key) is not type(by[0]) for key in by) and len(by) > 1:
        raise EvaluationError("list elements must have the same type")
    rank = cmp_to_key(_before)
    return [item for _, item in sorted(zip(by, values, strict=True), key=lambda pair: rank(pair[0]))]


def _includes(env: operators.Work, holder: Value, value: Value) -> Value:
    if not isinstance(holder, list):
        return operators.is_equal(env, holder, value)
    for i, item in enumerate(holder):
        if i >= _MOST_LISTED:
            raise EvaluationError(f"'includes' function cannot be applied to lists longer than {_MOST_LISTED} values")
        if operators.is_equal(env, item, value):
            return True
    return False


def _sets(how: str) -> operators.Function:
    def holds(env: operators.Work, a: list[Value], b: list[Value]) -> bool:
        return all(any(operators.is_equal(env, item, item_b) for item_b in a) for item in b)

    def compare(env: operators.Work, left: Value, right: Value) -> Value:
        a = operators.items_of(left)
        b = operators.items_of(right)
        if how == "intersects":
            return any(operators.is_equal(env, item, item_b) for item in a for item_b in b)
        return holds(env, a, b) and (how == "contains" or holds(env, b, a))

    return compare


def _range(env: operators.Work, number: Value) -> Value:
    size = max(operators.integer_of(number), 0)
    env.work(size + 11)
    return list(range(size))


def _sliced(env: operators.Work, items: Value, start: Value, end: Value) -> Value:
    values = operators.items_of(items)
    begin = operators.integer_of(start)
    stop = operators.integer_of(end)
    if not 0 <= begin <= stop <= len(values):
        raise EvaluationError(f"cannot slice({begin}, {stop}) of {len(values)}")
    env.work(stop - begin + 11)
    return values[begin:stop]


def _flat(env: operators.Work, items: Value, depth: Value = 1) -> Value:
    if operators.integer_of(depth) < 0:
        raise EvaluationError("level must be non-negative")
    flat: list[Value] = []
    _flatten(env, operators.items_of(items), operators.integer_of(depth), flat)
    return flat


def _flatten(env: operators.Work, items: list[Value], depth: int, into: list[Value]) -> None:
    env.work(len(items))
    for item in items:
        if isinstance(item, list) and depth:
            _flatten(env, item, depth - 1, into)
        else:
            into.append(item)


def _distinct(env: operators.Work, items: Value) -> Value:
    distinct: list[Value] = []
    for item in operators.items_of(items):
        if not any(operators.is_equal(env, item, earlier) for earlier in distinct):
            distinct.append(item)
    return distinct


def _end(index: int) -> operators.Function:
    def end(_: operators.Work, items: Value) -> Value:
        values = operators.items_of(items)
        if values:
            return Optional(values[index], there=True)
        return Optional()

    return end


# -- optional values


def _unwrapped(_: operators.Work, value: Value) -> Value:
    optional = operators.optional_of(value)
    if not optional.there:
        raise EvaluationError("optional.none() dereference")
    return optional.value


def _of_non_zero(_: operators.Work, value: Value) -> Value:
    plain = value is None or isinstance(value, bool | int | float | str | bytes | list | dict)
    if plain and not value:
        return Optional()
    return Optional(value, there=True)


def _all_unwrapped(env: operators.Work, items: Value) -> Value:
    optionals = [operators.optional_of(item) for item in operators.items_of(items)]
    env.work(len(optionals))
    return [optional.value for optional in optionals if optional.there]


# -- charges


def _length(value: Value) -> int:
    if isinstance(value, str | bytes | list | dict):
        return len(value)
    if isinstance(value, Optional) and value.there:
        return _length(value.value)
    return 1


def _traversed(env: operators.Work, value: Value) -> int:
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
            env.work(1 + _traversed(env, operators.unkeyed(key)) + _traversed(env, item))
        return 0
    return 1


_HOLDING: Final = (str, bytes, list, dict)


def _part_of(number: float) -> Callable[[operators.Work, tuple[Value, ...]], int]:
    return lambda _, values: math.ceil(_length(values[0]) * number)


def _by_conversion(_: operators.Work, values: tuple[Value, ...]) -> int:
    return 1 + (int(len(values[0]) * TEXT_FACTOR) if isinstance(values[0], str) else 0)


def _by_smaller(_: operators.Work, values: tuple[Value, ...]) -> int:
    return math.ceil(min(_length(values[0]), _length(values[1])) * TEXT_FACTOR)


def _by_both(_: operators.Work, values: tuple[Value, ...]) -> int:
    return math.ceil((_length(values[0]) + _length(values[1])) * TEXT_FACTOR)


def _by_pattern(_: operators.Work, values: tuple[Value, ...]) -> int:
    return math.ceil((1 + _length(values[0])) * TEXT_FACTOR) * math.ceil(_length(values[1]) * PATTERN_FACTOR)


def _by_product(_: operators.Work, values: tuple[Value, ...]) -> int:
    return math.ceil(_length(values[0]) * TEXT_FACTOR) * math.ceil(_length(values[1]) * TEXT_FACTOR)


def _by_equality(_: operators.Work, values: tuple[Value, ...]) -> int:
    if isinstance(values[0], QuantityValue | Semver):
        return 1
    return _by_smaller(_, values)


def _by_set(factor: int) -> Callable[[operators.Work, tuple[Value, ...]], int]:
    return lambda _, values: 1 + _length(values[0]) * _length(values[1]) * factor


def _by_square(_: operators.Work, values: tuple[Value, ...]) -> int:
    compared = values[-1]
    size = _length(compared)
    spelled = isinstance(compared, list) and size and isinstance(compared[0], str | bytes)
    return int(size * size * (2 + TEXT_FACTOR if spelled else 2)) + 11


def _by_copy(_: operators.Work, values: tuple[Value, ...]) -> int:
    return _length(values[0]) + 11


def _by_depth(_: operators.Work, values: tuple[Value, ...]) -> int:
    depth = values[1] if len(values) > 1 and operators.is_int(values[1]) else 1
    return int(max(cast("int", depth), 0) * _length(values[0])) + 11


def _by_traversal(env: operators.Work, values: tuple[Value, ...]) -> int:
    return _traversed(env, values[0])


Charge = int | Callable[[operators.Work, tuple[Value, ...]], int]
"""What a call costs: always the same, or by its arguments."""

_ONCE, _TWICE = _part_of(TEXT_FACTOR), _part_of(2 * TEXT_FACTOR)


def _less(test: Callable[[int], bool]) -> operators.Function:
    return lambda _, left, right: test(operators.order_of(left, right))


def _not_equal(env: operators.Work, left: Value, right: Value) -> Value:
    """True if the values differ; values that cannot be compared differ."""
    return not operators.is_equal(env, left, right)


_TABLE: Final[dict[str, tuple[operators.Function, Charge]]] = {
    "_+_": (operators.added, 1),
    "_-_": (lambda _, a, b: operators.arithmetic("_-_", a, b, lambda x, y: x - y), 1),
    "_*_": (lambda _, a, b: operators.arithmetic("_*_", a, b, lambda x, y: x * y), 1),
    "_/_": (operators.divided, 1),
    "_%_": (operators.remainder, 1),
    "-_": (operators.negative, 1),
    "!_": (operators.negated, 1),
    "_==_": (operators.equal, _by_equality),
    "_!=_": (_not_equal, _by_smaller),
    "_<_": (_less(lambda order: order < 0), 1),
    "_<=_": (_less(lambda order: order <= 0), 1),
    "_>_": (_less(lambda order: order > 0), 1),
    "_>=_": (_less(lambda order: order >= 0), 1),
    "@in": (operators.inside, 0),
    "size": (conversions.size_of, 1),
    "int": (conversions.to_int, _by_conversion),
    "uint": (conversions.to_uint, _by_conversion),
    "double": (conversions.to_double, _by_conversion),
    "string": (conversions.to_string, 1),
    "bool": (conversions.to_bool, 1),
    "bytes": (conversions.to_bytes, 1),
    "dyn": (lambda _, value: value, 1),
    "quantity": (lambda _, value: QuantityValue.of(operators.text_of(value)), _ONCE),
    "isQuantity": (conversions.can_be_read(lambda _, value: QuantityValue.of(operators.text_of(value))), _ONCE),
    "semver": (conversions.to_semver, _ONCE),
    "isSemver": (conversions.can_be_read(conversions.to_semver), _ONCE),
    "sign": (lambda _, value: operators.quantity_of(value).order(QuantityValue(0)), 1),
    "isInteger": (lambda _, value: operators.quantity_of(value).integer() is not None, 1),
    "asInteger": (_as_integer, 1),
    "asApproximateFloat": (lambda _, value: operators.quantity_of(value).approximately(), 1),
    "isLessThan": (_ordering(lambda order: order < 0), 1),
    "isGreaterThan": (_ordering(lambda order: order > 0), 1),
    "compareTo": (_ordering(lambda order: order), 1),
    "add": (_changed(1), 1),
    "sub": (_changed(-1), 1),
    "major": (_part(0), 1),
    "minor": (_part(1), 1),
    "patch": (_part(2), 1),
    "contains": (lambda _, text, part: operators.text_of(part) in operators.text_of(text), _by_product),
    "startsWith": (lambda _, text, part: operators.text_of(text).startswith(operators.text_of(part)), _ONCE),
    "endsWith": (lambda _, text, part: operators.text_of(text).endswith(operators.text_of(part)), _ONCE),
    "matches": (texts.matches, _by_pattern),
    "find": (texts.find, _by_pattern),
    "findAll": (texts.find_all, _by_pattern),
    "lowerAscii": (lambda _, text: operators.text_of(text).translate(texts.LOWER), _ONCE),
    "upperAscii": (lambda _, text: operators.text_of(text).translate(texts.UPPER), _ONCE),
    "trim": (lambda _, text: operators.text_of(text).strip(texts.SPACE), _ONCE),
    "charAt": (texts.char_at, 1),
    "indexOf": (texts.index_of(from_end=False), _by_traversal),
    "lastIndexOf": (texts.index_of(from_end=True), _by_traversal),
    "substring": (texts.substring, _ONCE),
    "replace": (texts.replaced, _TWICE),
    "split": (texts.split, _TWICE),
    "join": (texts.joined, 0),
    "strings.quote": (texts.quoted, _ONCE),
    "min": (_extreme(largest=False), _by_traversal),
    "max": (_extreme(largest=True), _by_traversal),
    "isSorted": (_is_sorted, _by_traversal),
    "sort": (_sorted, _by_square),
    "@sortByAssociatedKeys": (_sorted, _by_square),
    "slice": (_sliced, 0),
    "flatten": (_flat, _by_depth),
    "lists.range": (_range, 0),
    "reverse": (lambda _, items: operators.items_of(items)[::-1], _by_copy),
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
    "hasValue": (lambda _, value: operators.optional_of(value).there, 1),
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
    "int": lambda value: operators.is_int(value) and not isinstance(value, UInt),
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


def _guarded(name: str, overload: str, function: operators.Function) -> operators.Function:
    """A function that was resolved before takes nothing else, though more of its name would."""
    if name in _OPERATORS or not name[0].isalpha() or len(OVERLOADS[name]) == 1:
        return function
    declared = next(candidate for candidate in OVERLOADS[name] if candidate.id == overload)
    tests = [_IS.get(kind[0], _anything) for kind in declared.arguments]

    def guarded(env: operators.Work, *values: Value) -> Value:
        if not all(test(value) for test, value in zip(tests, values, strict=True)):
            raise operators.no_overload(name, *values)
        return function(env, *values)

    return guarded


def _bounded(function: operators.Function) -> operators.Function:
    """A function that makes no text that is too long."""

    def bounded(env: operators.Work, *values: Value) -> Value:
        result = function(env, *values)
        if isinstance(result, str | bytes) and len(result) > _LONGEST_TEXT:
            raise TooMuchWorkError(f"it makes a text of more than {_LONGEST_TEXT} characters")
        return result

    return bounded


def _made(name: str) -> Callable[[str], operators.Function]:
    def of(overload: str) -> operators.Function:
        """The function, which charges before it does anything."""
        function, charge = _TABLE[name] if name != "sum" else (_sum(overload), _by_traversal)
        charge = _BY_OVERLOAD.get(overload, charge)
        function = _guarded(name, overload, function) if overload else function
        function = _bounded(function) if name in _MAKE_TEXTS else function
        if overload.endswith(("_string", "_bytes")) and overload.startswith(("less_", "greater_")):
            charge = _by_smaller
        if isinstance(charge, int):
            price = charge

            def plain(env: operators.Work, *values: Value) -> Value:
                env.work(price)
                return function(env, *values)

            return plain
        by = charge

        def charged(env: operators.Work, *values: Value) -> Value:
            env.work(by(env, values))
            return function(env, *values)

        return charged

    return of


FUNCTIONS: Final[dict[str, Callable[[str], operators.Function]]] = {name: _made(name) for name in (*_TABLE, "sum")}
"""Every function by its name: what it does, given the overload it is known to be."""
