"""What operators do, and how values are compared; and the account of the work that an evaluation may do."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, cast

from tierwise.api.cel.errors import EvaluationError, TooMuchWorkError
from tierwise.api.cel.values import BEYOND, BoolKey, EveryKey, Key, Named, Optional, QuantityValue, Semver, UInt, Value

__all__ = [
    "Function",
    "Work",
    "added",
    "arithmetic",
    "can_be_key",
    "charge_scales",
    "divided",
    "equal",
    "inside",
    "integer_of",
    "is_equal",
    "is_int",
    "is_number",
    "items_of",
    "key_of",
    "negated",
    "negative",
    "no_overload",
    "optional_of",
    "order_of",
    "quantity_of",
    "remainder",
    "text_of",
    "unkeyed",
    "value_at",
    "whole",
]


TOO_MUCH: Final = "it costs more than Kubernetes allows a selector"


class Work:
    """The work that is left to an evaluation, in Kubernetes' units of cost."""

    __slots__ = ("left",)

    def __init__(self, allowed: int) -> None:
        self.left = allowed

    def work(self, cost: int) -> None:
        """Charge something; TooMuchWorkError where more is used than is allowed."""
        self.left -= cost
        if self.left < 0:
            raise TooMuchWorkError(TOO_MUCH)


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
    """The value of a key of a map."""
    return key.value if isinstance(key, BoolKey) else key


def value_at(holder: Value, key: Value) -> tuple[bool, Value]:
    """Whether a map or a list has something at a key, and what."""
    if isinstance(holder, dict):
        if _is_key(key, holder):
            return True, holder[key_of(key)]
        if isinstance(holder, EveryKey):
            return (True, {})
        return (False, None)
    if isinstance(holder, list):
        if isinstance(key, bool) or not isinstance(key, int | float):
            raise no_overload("look-up in a list", key)
        if isinstance(key, float) and not key.is_integer():
            raise EvaluationError("unsupported index value")
        return (True, holder[int(key)]) if 0 <= key < len(holder) else (False, None)
    raise no_overload("look-up", holder)


# -- operators


def is_int(value: Value) -> bool:
    """Whether a value is an integer, with a sign or without."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: Value) -> bool:
    """Whether a value is an integer or a double."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def equal(env: Work, left: Value, right: Value) -> bool:
    """Values of different types are different, but for numbers; what holds others is charged for each."""
    if left is None or right is None:
        return left is right
    if is_number(left) and is_number(right):
        if isinstance(left, float) or isinstance(right, float):
            return _order_of_doubles(cast("float", left), cast("float", right)) == 0
        return left == right
    if isinstance(left, str | bytes):
        if type(left) is not type(right) or len(left) != len(right):
            return False
        env.work(len(left) // 1024)
        return left == right
    if isinstance(left, list):
        return isinstance(right, list) and len(left) == len(right) and _all_equal(env, left, right)
    if isinstance(left, dict):
        if not isinstance(right, dict) or len(left) != len(right):
            return False
        env.work(len(left) // 8)
        if left.keys() != right.keys():
            return False
        return _all_equal(env, list(left.values()), [right[key] for key in left])
    if isinstance(left, QuantityValue):
        if not isinstance(right, QuantityValue) or right.derived:
            raise no_overload("_==_", left, right)
        charge_scales(env, left, right)
        return left.order(right) == 0
    if isinstance(left, Semver):
        if not isinstance(right, Semver):
            raise no_overload("_==_", left, right)
        env.work(len(left.pre))
        return left == right
    if isinstance(left, Optional):
        if not isinstance(right, Optional) or left.there is not right.there:
            return False
        return not left.there or equal(env, left.value, right.value)
    return type(left) is type(right) and left == right


def charge_scales(env: Work, left: QuantityValue, right: QuantityValue) -> None:
    """Charge for numbers that are written out to be compared or added, by how many digits that takes."""
    env.work(abs(left.scale - right.scale) // 32)


_PLAIN: Final = frozenset({bool, int, str, bytes})
"""Types whose values are equal to themselves."""


def _all_equal(env: Work, left: list[Value], right: list[Value]) -> bool:
    """Whether all of these are equal; what cannot be compared counts as equal, as in Kubernetes."""
    env.work(len(left))
    for a_item, b_item in zip(left, right, strict=True):
        if a_item is b_item and type(a_item) in _PLAIN:
            continue
        try:
            if not equal(env, a_item, b_item):
                return False
        except TooMuchWorkError:
            raise
        except EvaluationError:
            continue
    return True


def is_equal(env: Work, left: Value, right: Value) -> bool:
    """Whether two are equal; what cannot be compared is not."""
    try:
        return equal(env, left, right)
    except TooMuchWorkError:
        raise
    except EvaluationError:
        return False


def _order_of_doubles(left: float, right: float) -> int | None:
    """Numbers of which one is a double, compared as doubles; None where one is no number."""
    left = float(left)
    right = float(right)
    if math.isnan(left) or math.isnan(right):
        return None
    return (left > right) - (left < right)


def order_of(left: Value, right: Value) -> int:
    """Below zero where one value comes before another; EvaluationError where they have no order."""
    if is_number(left) and is_number(right):
        if isinstance(left, float) or isinstance(right, float):
            order = _order_of_doubles(cast("float", left), cast("float", right))
            if order is None:
                raise EvaluationError("NaN values cannot be ordered")
            return order
        a = cast("int", left)
        b = cast("int", right)
        return (a > b) - (a < b)
    if type(left) is type(right) and isinstance(left, bool | str | bytes):
        return (left > right) - (left < right)  # type: ignore[operator]
    raise no_overload("an order", left, right)


def whole(value: int, like: Value) -> Value:
    """An integer of the type of an operand; an error where 64 bits do not hold it."""
    unsigned = isinstance(like, UInt)
    if not (0 <= value < 2 * BEYOND if unsigned else -BEYOND <= value < BEYOND):
        raise EvaluationError("integer overflow")
    return UInt(value) if unsigned else int(value)


def added(env: Work, left: Value, right: Value) -> Value:
    """A sum, or one after the other."""
    if isinstance(left, str) and isinstance(right, str):
        return left + right
    if isinstance(left, bytes) and isinstance(right, bytes):
        return left + right
    if isinstance(left, list) and isinstance(right, list):
        env.work(len(left) + len(right))
        return left + right
    return arithmetic("_+_", left, right, lambda a, b: a + b)


def arithmetic(name: str, left: Value, right: Value, how: Callable[[Any, Any], Any]) -> Value:
    """Result of an operator on two numbers of one type."""
    if isinstance(left, float) and isinstance(right, float):
        return float(how(left, right))
    if is_int(left) and is_int(right) and isinstance(left, UInt) is isinstance(right, UInt):
        return whole(how(int(cast("int", left)), int(cast("int", right))), left)
    raise no_overload(name, left, right)


def divided(_: Work, left: Value, right: Value) -> Value:
    """A quotient; integers are rounded towards zero."""
    if isinstance(left, float) and isinstance(right, float):
        if right:
            return left / right
        if left == 0 or math.isnan(left):
            return math.nan
        return math.copysign(math.inf, left) * math.copysign(1, right)
    if right == 0 and is_int(right) and is_int(left):
        raise EvaluationError("division by zero")
    return arithmetic("_/_", left, right, _quotient)


def _quotient(left: int, right: int) -> int:
    """Rounded towards zero."""
    quotient = abs(left) // abs(right)
    return quotient if (left < 0) is (right < 0) else -quotient


def remainder(_: Work, left: Value, right: Value) -> Value:
    """Remainder of a division of integers."""
    if not is_int(left) or not is_int(right):
        raise no_overload("_%_", left, right)
    if right == 0:
        raise EvaluationError("modulus by zero")
    if left == -BEYOND and right == -1:
        raise EvaluationError("integer overflow")
    return arithmetic("_%_", left, right, lambda a, b: a - _quotient(a, b) * b)


def negative(_: Work, value: Value) -> Value:
    """A number with the other sign."""
    if isinstance(value, float):
        return -value
    if is_int(value) and not isinstance(value, UInt):
        return whole(-cast("int", value), value)
    raise no_overload("-_", value)


def inside(env: Work, value: Value, holder: Value) -> Value:
    """Whether a value is in a list, or is a key of a map."""
    if isinstance(holder, dict):
        env.work(1)
        return _is_key(value, holder)
    env.work(len(items_of(holder)))
    return any(is_equal(env, value, item) for item in items_of(holder))


def negated(_: Work, value: Value) -> Value:
    """The other truth."""
    if not isinstance(value, bool):
        raise no_overload("!_", value)
    return not value


# -- what arguments must be


def text_of(value: Value) -> str:
    """A value that must be a string."""
    if not isinstance(value, str):
        raise no_overload("a function of strings", value)
    return value


def items_of(value: Value) -> list[Value]:
    """A value that must be a list."""
    if not isinstance(value, list):
        raise no_overload("a function of lists", value)
    return value


def integer_of(value: Value) -> int:
    """A value that must be an integer with a sign."""
    if not is_int(value) or isinstance(value, UInt):
        raise no_overload("a function of integers", value)
    return cast("int", value)


def quantity_of(value: Value) -> QuantityValue:
    """A value that must be a quantity."""
    if not isinstance(value, QuantityValue):
        raise no_overload("a function of quantities", value)
    return value


def optional_of(value: Value) -> Optional:
    """A value that must be optional."""
    if not isinstance(value, Optional):
        raise no_overload("a function of optional values", value)
    return value
