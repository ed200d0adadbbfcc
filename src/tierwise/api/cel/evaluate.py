"""Expressions into functions: compiled once, evaluated on any number of devices.

What the API server lets selectors of devices use is here: the language itself, its macros, `cel.bind`, optional
values, and Kubernetes' libraries for strings, lists, sets, patterns, quantities and versions. What is not known is an
error when it is compiled. Work is bounded as in Kubernetes: whatever does too much is an error when it is evaluated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from itertools import pairwise
from typing import Final, Protocol, cast

from tierwise.api.cel.errors import CompileError, EvaluationError, TooMuchWorkError
from tierwise.api.cel.syntax import Call, Index, ListOf, Literal, MapOf, Name, Node, Select
from tierwise.api.cel.values import EveryKey, Optional, QuantityValue, Semver, UInt, Value

__all__ = ["Environment", "Evaluate", "compiled"]

_WORK: Final = 50_000
"""What one evaluation may do, in steps of about one operation each: hundreds of times what people write."""

_LEAST, _BEYOND = -(2**63), 2**63


class Environment:
    """Variables, and the work that is left."""

    __slots__ = ("left", "variables")

    def __init__(self, variables: Mapping[str, Value]) -> None:
        self.variables = dict(variables)
        self.left = _WORK

    def work(self, steps: int) -> None:
        self.left -= steps
        if self.left < 0:
            raise TooMuchWorkError("it does too much work")


Evaluate = Callable[[Environment], Value]


def compiled(node: Node, variables: frozenset[str]) -> Evaluate:
    """A function for a tree in which these variables may occur."""
    match node:
        case Literal(value, unsigned):
            constant: Value = UInt(cast("int", value)) if unsigned else value
            return lambda _: constant
        case Name(name):
            if name not in variables:
                raise CompileError(f"undeclared reference to '{name}'")
            return lambda env: env.variables[name]
        case Select(of, field, optional):
            return _selected(compiled(of, variables), field, optional=optional)
        case Index(of, key, optional):
            return _indexed(compiled(of, variables), compiled(key, variables), optional=optional)
        case ListOf(items):
            parts = [compiled(item, variables) for item in items]
            return lambda env: [part(env) for part in parts]
        case MapOf(entries):
            pairs = [(compiled(key, variables), compiled(value, variables)) for key, value in entries]
            return lambda env: {_key(key(env)): value(env) for key, value in pairs}
        case Call():
            return _called(node, variables)


def _selected(of: Evaluate, field: str, *, optional: bool) -> Evaluate:
    def select(env: Environment) -> Value:
        holder = of(env)
        if isinstance(holder, Optional) or optional:
            return _maybe(holder, field)
        return _look_up(holder, field)

    return select


def _indexed(of: Evaluate, key: Evaluate, *, optional: bool) -> Evaluate:
    def index(env: Environment) -> Value:
        holder, at = of(env), key(env)
        if isinstance(holder, Optional) or optional:
            return _maybe(holder, at)
        return _look_up(holder, at)

    return index


def _maybe(holder: Value, key: Value) -> Value:
    """An optional look-up: what is not there is no error."""
    inner = holder.value if isinstance(holder, Optional) else holder
    if isinstance(holder, Optional) and not holder.there:
        return holder
    if isinstance(inner, dict):
        return Optional(inner[_key(key)], there=True) if _key(key) in inner else Optional()
    if isinstance(inner, list) and _is_int(key):
        at = cast("int", key)
        return Optional(inner[at], there=True) if 0 <= at < len(inner) else Optional()
    raise _no_overload("optional look-up", inner)


def _look_up(holder: Value, key: Value) -> Value:
    if isinstance(holder, dict):
        at = _key(key)
        if at in holder:
            return holder[at]
        if isinstance(holder, EveryKey) and isinstance(at, str):
            return {}
        raise EvaluationError(f"no such key: {at}")
    if isinstance(holder, list) and isinstance(key, int | float) and not isinstance(key, bool) and key == int(key):
        if 0 <= key < len(holder):
            return holder[int(key)]
        raise EvaluationError(f"index out of bounds: {int(key)}")
    raise _no_overload("look-up", holder)


def _key(value: Value) -> str | int:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str | int) and not isinstance(value, bool):  # Python takes True and 1 for one key
        return value
    raise EvaluationError("unsupported key type")


# -- calls


def _called(call: Call, variables: frozenset[str]) -> Evaluate:
    macro = _macro(call, variables)
    if macro is not None:
        return macro
    name, target = call.function, call.target
    parts = [compiled(argument, variables) for argument in call.arguments]
    match name, len(parts), target is None:
        case "_&&_" | "_||_", 2, True:
            return _connected(parts[0], parts[1], stop=name == "_||_")
        case "_?_:_", 3, True:
            return _chosen(*parts)
        case _:
            pass
    if isinstance(target, Name) and target.name in _LIBRARIES and target.name not in variables:
        function = _FUNCTIONS.get((f"{target.name}.{name}", len(parts)))
        if function is None:
            raise CompileError(f"undeclared reference to '{target.name}.{name}'")
        return _applied(function, parts)
    if target is not None:
        method = _METHODS.get((name, len(parts)))
        if method is None:
            raise CompileError(f"undeclared reference to '{name}' (as a method of {len(parts)} arguments)")
        return _applied(method, [compiled(target, variables), *parts])
    function = _FUNCTIONS.get((name, len(parts)))
    if function is None:
        raise CompileError(f"undeclared reference to '{name}' (of {len(parts)} arguments)")
    return _applied(function, parts)


Function = Callable[..., Value]


def _applied(function: Function, parts: list[Evaluate]) -> Evaluate:
    def apply(env: Environment) -> Value:
        env.work(1)
        return function(env, *[part(env) for part in parts])

    return apply


def _connected(left: Evaluate, right: Evaluate, *, stop: bool) -> Evaluate:
    """And, or: an error on one side does not matter where the other side decides."""

    def connect(env: Environment) -> Value:
        failed: EvaluationError | None = None
        for side in (left, right):
            try:
                value = side(env)
                if not isinstance(value, bool):
                    failed = failed or _no_overload("and, or", value)
                elif value is stop:
                    return stop
            except EvaluationError as error:
                failed = failed or error
        if failed is not None:
            raise failed
        return not stop

    return connect


def _chosen(condition: Evaluate, then: Evaluate, otherwise: Evaluate) -> Evaluate:
    def choose(env: Environment) -> Value:
        value = condition(env)
        if not isinstance(value, bool):
            raise _no_overload("_?_:_", value)
        return then(env) if value else otherwise(env)

    return choose


# -- macros: they bind a name, or look at an argument without evaluating it


def _macro(call: Call, variables: frozenset[str]) -> Evaluate | None:
    name, arguments, target = call.function, call.arguments, call.target
    if name == "has" and target is None and len(arguments) == 1:
        return _has(arguments[0], variables)
    if name == "bind" and target == Name("cel") and len(arguments) == 3:
        return _bound(arguments, variables)
    if target is None or not arguments or not isinstance(arguments[0], Name):
        return None
    bound = arguments[0].name
    inner = variables | {bound}
    if name in ("all", "exists", "exists_one", "existsOne", "filter", "map") and len(arguments) == 2:
        return _over(name, compiled(target, variables), bound, None, compiled(arguments[1], inner))
    if name == "map" and len(arguments) == 3:
        return _over(
            name, compiled(target, variables), bound, compiled(arguments[1], inner), compiled(arguments[2], inner)
        )
    if name in ("optMap", "optFlatMap") and len(arguments) == 2:
        return _mapped(compiled(target, variables), bound, compiled(arguments[1], inner), flat=name == "optFlatMap")
    return None


def _has(argument: Node, variables: frozenset[str]) -> Evaluate:
    if not isinstance(argument, Select):
        raise CompileError("invalid argument to has() macro")
    of, field = compiled(argument.of, variables), argument.field

    def has(env: Environment) -> Value:
        holder = of(env)
        if isinstance(holder, Optional):
            found = _maybe(holder, field)
            return isinstance(found, Optional) and found.there
        if not isinstance(holder, dict):
            raise _no_overload("has", holder)
        return field in holder or isinstance(holder, EveryKey)

    return has


def _bound(arguments: tuple[Node, ...], variables: frozenset[str]) -> Evaluate:
    if not isinstance(arguments[0], Name):
        raise CompileError("cel.bind() variable names must be simple identifiers")
    name = arguments[0].name
    value, body = compiled(arguments[1], variables), compiled(arguments[2], variables | {name})
    return lambda env: _with(env, name, value(env), body)


def _with(env: Environment, name: str, value: Value, body: Evaluate) -> Value:
    known, before = name in env.variables, env.variables.get(name)
    env.variables[name] = value
    try:
        return body(env)
    finally:
        if known:
            env.variables[name] = before
        else:
            del env.variables[name]


def _over(name: str, of: Evaluate, bound: str, where: Evaluate | None, body: Evaluate) -> Evaluate:
    def each(env: Environment, items: Iterator[Value]) -> Iterator[tuple[Value, Value | EvaluationError]]:
        for item in items:
            env.work(2)
            try:
                yield item, _with(env, bound, item, body)
            except EvaluationError as error:
                if env.left < 0:
                    raise
                yield item, error

    def every(env: Environment) -> Value:
        holder = of(env)
        if not isinstance(holder, list | dict):
            raise _no_overload(name, holder)
        items = list(holder)
        if where is not None:
            items = [item for item in items if _truth(_with(env, bound, item, where))]
        found = list(each(env, iter(items)))
        match name:
            case "all" | "exists":
                return _any(found, stop=name == "exists")
            case "map":
                return [_sound(value) for _, value in found]
            case "filter":
                return [item for item, value in found if _truth(_sound(value))]
            case _:
                return sum(_truth(_sound(value)) for _, value in found) == 1

    return every


def _any(found: list[tuple[Value, Value | EvaluationError]], *, stop: bool) -> Value:
    failed: EvaluationError | None = None
    for _, value in found:
        if isinstance(value, EvaluationError):
            failed = failed or value
        elif _truth(value) is stop:
            return stop
    if failed is not None:
        raise failed
    return not stop


def _mapped(of: Evaluate, bound: str, body: Evaluate, *, flat: bool) -> Evaluate:
    def mapped(env: Environment) -> Value:
        holder = of(env)
        if not isinstance(holder, Optional):
            raise _no_overload("optMap", holder)
        if not holder.there:
            return holder
        value = _with(env, bound, holder.value, body)
        return value if flat else Optional(value, there=True)

    return mapped


def _sound(value: Value | EvaluationError) -> Value:
    if isinstance(value, EvaluationError):
        raise value
    return value


def _truth(value: Value) -> bool:
    if not isinstance(value, bool):
        raise _no_overload("a condition", value)
    return value


# -- operators


def _is_int(value: Value) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Value) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def equal(left: Value, right: Value) -> bool:
    """Values of different types are different, but for numbers."""
    if _is_number(left) and _is_number(right):
        return left == right
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(equal, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(equal(value, right[key]) for key, value in left.items())
    return type(left) is type(right) and left == right


_ORDERED: Final = (bool, str, bytes)


def _compared(name: str, test: Callable[[object, object], bool]) -> Function:
    def compare(_: Environment, left: Value, right: Value) -> Value:
        if (_is_number(left) and _is_number(right)) or (
            type(left) is type(right) and isinstance(left, _ORDERED) and isinstance(right, _ORDERED)
        ):
            return test(left, right)
        raise _no_overload(name, left, right)

    return compare


def _whole(value: float | int, like: Value) -> Value:
    """An integer of the type of an operand; an error where 64 bits do not hold it."""
    unsigned = isinstance(like, UInt)
    if not (0 <= value < 2 * _BEYOND if unsigned else _LEAST <= value < _BEYOND):
        raise EvaluationError("integer overflow")
    return UInt(value) if unsigned else int(value)


def _added(env: Environment, left: Value, right: Value) -> Value:
    if isinstance(left, str) and isinstance(right, str):
        env.work(len(left) + len(right))
        return left + right
    if isinstance(left, bytes) and isinstance(right, bytes):
        env.work(len(left) + len(right))
        return left + right
    if isinstance(left, list) and isinstance(right, list):
        env.work(len(left) + len(right))
        return left + right
    return _arithmetic("_+_", left, right, lambda a, b: a + b)


def _arithmetic(name: str, left: Value, right: Value, how: Callable[[float, float], float]) -> Value:
    if isinstance(left, float) and isinstance(right, float):
        return float(how(left, right))
    if _is_int(left) and _is_int(right) and isinstance(left, UInt) is isinstance(right, UInt):
        return _whole(how(int(cast("int", left)), int(cast("int", right))), left)
    raise _no_overload(name, left, right)


def _divided(_: Environment, left: Value, right: Value) -> Value:
    if isinstance(left, float) and isinstance(right, float):
        return left / right if right else math.nan if left == 0 or math.isnan(left) else math.copysign(math.inf, left)
    if right == 0 and _is_int(right) and _is_int(left):
        raise EvaluationError("division by zero")
    return _arithmetic("_/_", left, right, _quotient)


def _quotient(left: float, right: float) -> int:
    """Rounded towards zero."""
    whole = abs(int(left)) // abs(int(right))
    return whole if (left < 0) is (right < 0) else -whole


def _remainder(_: Environment, left: Value, right: Value) -> Value:
    if not _is_int(left) or not _is_int(right):
        raise _no_overload("_%_", left, right)
    if right == 0:
        raise EvaluationError("modulus by zero")
    return _arithmetic("_%_", left, right, lambda a, b: a - _quotient(a, b) * b)


def _negative(_: Environment, value: Value) -> Value:
    if isinstance(value, float):
        return -value
    if _is_int(value) and not isinstance(value, UInt):
        return _whole(-cast("int", value), value)
    raise _no_overload("-_", value)


def _inside(env: Environment, value: Value, holder: Value) -> Value:
    if isinstance(holder, dict):
        return isinstance(value, str | int | float) and _key(value) in holder
    if isinstance(holder, list):
        env.work(len(holder))
        return any(equal(value, item) for item in holder)
    raise _no_overload("@in", holder)


def _not(_: Environment, value: Value) -> Value:
    if not isinstance(value, bool):
        raise _no_overload("!_", value)
    return not value


# -- functions and methods, by name and number of arguments (with the target, for methods, as the first)


def _no_overload(name: str, *values: Value) -> EvaluationError:
    types = ", ".join(type(value).__name__ for value in values)
    return EvaluationError(f"no such overload: {name} of {types}")


def _text(value: Value) -> str:
    if not isinstance(value, str):
        raise _no_overload("a function of strings", value)
    return value


def _items(value: Value) -> list[Value]:
    if not isinstance(value, list):
        raise _no_overload("a function of lists", value)
    return value


def _number(value: Value) -> int:
    if not _is_int(value):
        raise _no_overload("a function of integers", value)
    return cast("int", value)


def _quantity(value: Value) -> QuantityValue:
    if not isinstance(value, QuantityValue):
        raise _no_overload("a function of quantities", value)
    return value


def _size(env: Environment, value: Value) -> Value:
    if isinstance(value, str | bytes | list | dict):
        return len(value)
    raise _no_overload("size", value)


def _to_int(_: Environment, value: Value) -> Value:
    if isinstance(value, bool):
        raise _no_overload("int", value)
    try:
        if isinstance(value, str):
            if len(value) > 20 or not value.lstrip("+-").isdigit():
                raise EvaluationError(f"cannot convert {value[:24]!r} to an integer")
            return _whole(int(value), 0)
        if isinstance(value, int | float):
            return _whole(int(value), 0)
    except (ValueError, OverflowError):
        raise EvaluationError("cannot be converted to an integer") from None
    raise _no_overload("int", value)


def _to_uint(env: Environment, value: Value) -> Value:
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        try:
            return _whole(int(value) if not isinstance(value, str) else int(value[:24]), UInt(0))
        except (ValueError, OverflowError):
            raise EvaluationError("cannot be converted to an unsigned integer") from None
    raise _no_overload("uint", value)


def _to_double(_: Environment, value: Value) -> Value:
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        try:
            return float(value)
        except (ValueError, OverflowError):
            raise EvaluationError("cannot be converted to a double") from None
    raise _no_overload("double", value)


def _to_string(_: Environment, value: Value) -> Value:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case int():
            return str(int(value))
        case float():
            return f"{value:g}" if not value.is_integer() or abs(value) >= 1e21 else str(int(value))
        case bytes():
            try:
                return value.decode()
            except UnicodeDecodeError:
                raise EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from None
        case _:
            raise _no_overload("string", value)


def _to_bool(_: Environment, value: Value) -> Value:
    if isinstance(value, bool):
        return value
    truths = {"1": True, "0": False}
    for word, truth in (("true", True), ("t", True), ("false", False), ("f", False)):
        truths |= {word: truth, word.upper(): truth, word.title(): truth}
    if isinstance(value, str) and value in truths:
        return truths[value]
    raise EvaluationError("cannot be converted to a bool")


def _is(read: Function) -> Function:
    def reads(env: Environment, *values: Value) -> Value:
        _text(values[0])
        try:
            read(env, *values)
        except EvaluationError:
            return False
        return True

    return reads


def _to_semver(_: Environment, value: Value, normalize: Value = False) -> Value:  # noqa: FBT002
    return Semver.of(_text(value), normalize=_truth(normalize))


def _to_quantity(_: Environment, value: Value) -> Value:
    return QuantityValue.of(_text(value))


def _ordering(name: str, test: Callable[[int], Value]) -> Function:
    """Methods that compare two quantities, or two versions."""

    def compare(_: Environment, left: Value, right: Value) -> Value:
        if isinstance(left, QuantityValue) and isinstance(right, QuantityValue):
            return test((left.value > right.value) - (left.value < right.value))
        if isinstance(left, Semver) and isinstance(right, Semver):
            return test((left > right) - (left < right))
        raise _no_overload(name, left, right)

    return compare


def _changed(sign: int) -> Function:
    """A quantity plus or minus another, or a whole number."""

    def change(_: Environment, left: Value, right: Value) -> Value:
        by = _quantity(right).value if isinstance(right, QuantityValue) else _number(right)
        return QuantityValue(_quantity(left).value + sign * by)

    return change


def _as_integer(_: Environment, value: Value) -> Value:
    found = _quantity(value).value
    if found.denominator != 1 or not _LEAST <= found < _BEYOND:
        raise EvaluationError("cannot convert value to integer")
    return int(found)


def _part(index: int) -> Function:
    def part(_: Environment, value: Value) -> Value:
        if not isinstance(value, Semver):
            raise _no_overload("a part of a version", value)
        return value.numbers[index]

    return part


def _matches(env: Environment, text: Value, wanted: Value) -> Value:
    env.work(len(_text(text)) + 1)
    return _pattern(_text(wanted)).search(_text(text)) is not None


class _Pattern(Protocol):
    """What is used of re2's patterns, which come without types."""

    def search(self, text: str) -> object: ...


@lru_cache(maxsize=256)
def _pattern(text: str) -> _Pattern:
    import re2  # imported here because it is slow and only patterns need it

    options = re2.Options()
    options.log_errors = False
    try:
        found: _Pattern = re2.compile(text, options=options)
    except re2.error:
        raise EvaluationError(f"{text!r} is not a regular expression") from None
    return found


def _replaced(env: Environment, text: Value, old: Value, new: Value, limit: Value = -1) -> Value:
    whole, part, by = _text(text), _text(old), _text(new)
    number = whole.count(part) if part else len(whole) + 1
    number = min(number, _number(limit)) if _number(limit) >= 0 else number
    env.work(len(whole) + number * len(by))
    return whole.replace(part, by, number)


def _split(env: Environment, text: Value, by: Value, limit: Value = -1) -> Value:
    whole, mark, most = _text(text), _text(by), _number(limit)
    env.work(len(whole))
    if most == 0:
        return []
    parts: list[Value] = list(whole) if not mark else list(whole.split(mark, most - 1 if most > 0 else -1))
    if not mark and 0 < most < len(parts):
        parts = [*parts[: most - 1], whole[most - 1 :]]
    return parts


def _joined(env: Environment, items: Value, by: Value = "") -> Value:
    parts = [_text(item) for item in _items(items)]
    env.work(sum(len(part) + len(_text(by)) for part in parts))
    return _text(by).join(parts)


def _substring(_: Environment, text: Value, start: Value, end: Value = None) -> Value:
    whole, first = _text(text), _number(start)
    last = len(whole) if end is None else _number(end)
    if not 0 <= first <= last <= len(whole):
        raise EvaluationError(f"index out of range: {first}")
    return whole[first:last]


def _char_at(_: Environment, text: Value, at: Value) -> Value:
    whole, index = _text(text), _number(at)
    if not 0 <= index <= len(whole):
        raise EvaluationError(f"index out of range: {index}")
    return whole[index : index + 1]


def _index_of(*, last: bool) -> Function:
    def find(env: Environment, holder: Value, wanted: Value, start: Value = None) -> Value:
        if isinstance(holder, list):
            found = [i for i, item in enumerate(holder) if equal(item, wanted)]
            return (found[-1] if last else found[0]) if found else -1
        whole, part = _text(holder), _text(wanted)
        env.work(len(whole))
        at = (len(whole) if last else 0) if start is None else _number(start)
        if not 0 <= at <= len(whole):
            raise EvaluationError(f"index out of range: {at}")
        return whole.rfind(part, 0, at + len(part)) if last else whole.find(part, at)

    return find


def _extreme(*, largest: bool) -> Function:
    def extreme(env: Environment, *given: Value) -> Value:
        items = _items(given[0])
        if not items:
            raise EvaluationError("min and max of an empty list")
        best = items[0]
        for item in items[1:]:
            less = _compared("min, max", lambda a, b: a < b)  # type: ignore[operator]
            if less(env, *((best, item) if largest else (item, best))):
                best = item
        return best

    return extreme


def _sum(env: Environment, items: Value) -> Value:
    total: Value = 0
    for i, item in enumerate(_items(items)):
        total = item if not i else _added(env, total, item)
    return total


def _is_sorted(env: Environment, items: Value) -> Value:
    less = _compared("isSorted", lambda a, b: a < b)  # type: ignore[operator]
    found = _items(items)
    return not any(less(env, b, a) for a, b in pairwise(found))


def _includes(env: Environment, holder: Value, wanted: Value) -> Value:
    return _inside(env, wanted, holder) if isinstance(holder, list) else equal(holder, wanted)


def _sets(how: str) -> Function:
    def compare(env: Environment, left: Value, right: Value) -> Value:
        a, b = _items(left), _items(right)
        env.work(len(a) * len(b))
        in_a = [any(equal(item, one) for one in a) for item in b]
        if how == "contains":
            return all(in_a)
        if how == "intersects":
            return any(in_a)
        return all(in_a) and all(any(equal(item, one) for one in b) for item in a)

    return compare


def _optional(value: Value) -> Optional:
    if not isinstance(value, Optional):
        raise _no_overload("a function of optional values", value)
    return value


def _unwrapped(_: Environment, value: Value) -> Value:
    found = _optional(value)
    if not found.there:
        raise EvaluationError("optional.none() dereference")
    return found.value


def _of_non_zero(_: Environment, value: Value) -> Value:
    return Optional() if value in (None, False, 0, "", b"") or value in ([], {}) else Optional(value, there=True)


_LIBRARIES: Final = frozenset({"sets", "optional", "cel"})

_FUNCTIONS: Final[dict[tuple[str, int], Function]] = {
    ("_+_", 2): _added,
    ("_-_", 2): lambda _, a, b: _arithmetic("_-_", a, b, lambda x, y: x - y),
    ("_*_", 2): lambda _, a, b: _arithmetic("_*_", a, b, lambda x, y: x * y),
    ("_/_", 2): _divided,
    ("_%_", 2): _remainder,
    ("-_", 1): _negative,
    ("!_", 1): _not,
    ("_==_", 2): lambda _, a, b: equal(a, b),
    ("_!=_", 2): lambda _, a, b: not equal(a, b),
    ("_<_", 2): _compared("_<_", lambda a, b: a < b),  # type: ignore[operator]
    ("_<=_", 2): _compared("_<=_", lambda a, b: a <= b),  # type: ignore[operator]
    ("_>_", 2): _compared("_>_", lambda a, b: a > b),  # type: ignore[operator]
    ("_>=_", 2): _compared("_>=_", lambda a, b: a >= b),  # type: ignore[operator]
    ("_in_", 2): _inside,
    ("size", 1): _size,
    ("int", 1): _to_int,
    ("uint", 1): _to_uint,
    ("double", 1): _to_double,
    ("string", 1): _to_string,
    ("bool", 1): _to_bool,
    ("dyn", 1): lambda _, value: value,
    ("matches", 2): _matches,
    ("quantity", 1): _to_quantity,
    ("isQuantity", 1): _is(_to_quantity),
    ("semver", 1): _to_semver,
    ("semver", 2): _to_semver,
    ("isSemver", 1): _is(_to_semver),
    ("isSemver", 2): _is(_to_semver),
    ("sets.contains", 2): _sets("contains"),
    ("sets.intersects", 2): _sets("intersects"),
    ("sets.equivalent", 2): _sets("equivalent"),
    ("optional.none", 0): lambda _: Optional(),
    ("optional.of", 1): lambda _, value: Optional(value, there=True),
    ("optional.ofNonZeroValue", 1): _of_non_zero,
}

_METHODS: Final[dict[tuple[str, int], Function]] = {
    ("size", 0): _size,
    ("contains", 1): lambda _, text, part: _text(part) in _text(text),
    ("startsWith", 1): lambda _, text, part: _text(text).startswith(_text(part)),
    ("endsWith", 1): lambda _, text, part: _text(text).endswith(_text(part)),
    ("matches", 1): _matches,
    ("lowerAscii", 0): lambda _, text: _ascii(_text(text), str.lower),
    ("upperAscii", 0): lambda _, text: _ascii(_text(text), str.upper),
    ("trim", 0): lambda _, text: _text(text).strip(),
    ("charAt", 1): _char_at,
    ("indexOf", 1): _index_of(last=False),
    ("indexOf", 2): _index_of(last=False),
    ("lastIndexOf", 1): _index_of(last=True),
    ("lastIndexOf", 2): _index_of(last=True),
    ("substring", 1): _substring,
    ("substring", 2): _substring,
    ("replace", 2): _replaced,
    ("replace", 3): _replaced,
    ("split", 1): _split,
    ("split", 2): _split,
    ("join", 0): _joined,
    ("join", 1): _joined,
    ("min", 0): _extreme(largest=False),
    ("max", 0): _extreme(largest=True),
    ("sum", 0): _sum,
    ("isSorted", 0): _is_sorted,
    ("includes", 1): _includes,
    ("isLessThan", 1): _ordering("isLessThan", lambda order: order < 0),
    ("isGreaterThan", 1): _ordering("isGreaterThan", lambda order: order > 0),
    ("compareTo", 1): _ordering("compareTo", lambda order: order),
    ("add", 1): _changed(1),
    ("sub", 1): _changed(-1),
    ("sign", 0): lambda _, value: (_quantity(value).value > 0) - (_quantity(value).value < 0),
    ("isInteger", 0): lambda _, value: (
        _quantity(value).value.denominator == 1 and _LEAST <= _quantity(value).value < _BEYOND
    ),
    ("asInteger", 0): _as_integer,
    ("asApproximateFloat", 0): lambda _, value: float(_quantity(value).value),
    ("major", 0): _part(0),
    ("minor", 0): _part(1),
    ("patch", 0): _part(2),
    ("hasValue", 0): lambda _, value: _optional(value).there,
    ("value", 0): _unwrapped,
    ("orValue", 1): lambda _, value, other: _optional(value).value if _optional(value).there else other,
    ("or", 1): lambda _, value, other: value if _optional(value).there else _optional(other),
}


def _ascii(text: str, change: Callable[[str], str]) -> str:
    return "".join(change(sign) if sign.isascii() else sign for sign in text)
