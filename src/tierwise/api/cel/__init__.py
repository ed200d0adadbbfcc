"""CEL, as far as selectors of devices use it: conditions that a driver's description of a device meets or not.

`selector` compiles an expression once; what comes back says which attributes and capacities it looks at, so that
devices that agree in those are asked about once. Written here because no library for Python answers as the API server
does (docs/decisions/0048). Imported where the first selector is met, and nowhere before.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

import msgspec

from tierwise.api.cel.errors import CelError, CompileError, EvaluationError, TooMuchWorkError
from tierwise.api.cel.evaluate import Environment, Evaluate, compiled
from tierwise.api.cel.syntax import Call, Index, ListOf, Literal, MapOf, Name, Node, Select, parse
from tierwise.api.cel.values import EveryKey, QuantityValue, Semver, Value
from tierwise.api.resource import Device, DeviceAttribute

__all__ = ["CelError", "CompileError", "EvaluationError", "Selector", "TooMuchWorkError", "selector"]

_DEVICE: Final = "device"
_FIELDS: Final = frozenset({"driver", "attributes", "capacity", "allowMultipleAllocations"})
_LONGEST: Final = 10 * 1024

Names = frozenset[tuple[str, str]]
"""Attributes or capacities by domain and name; an empty name stands for all of a domain, and two for all there are."""


class Selector(msgspec.Struct, frozen=True, eq=False):
    """A compiled condition on devices."""

    expression: str
    looks_at: Names
    _evaluate: Evaluate

    def matches(self, driver: str, device: Device) -> bool:
        """Whether a device of a driver meets it; EvaluationError where that cannot be said."""
        try:
            found = self._evaluate(Environment({_DEVICE: _shown(driver, device)}))
        except (
            ArithmeticError,
            TypeError,
            ValueError,
            RecursionError,
        ) as error:  # Python's own words for a wrong value
            raise EvaluationError(f"cannot be evaluated: {type(error).__name__}") from None
        if not isinstance(found, bool):
            raise EvaluationError("the result is not a bool")
        return found


@lru_cache(maxsize=1024)
def selector(expression: str) -> Selector:
    """The condition that an expression spells; CompileError where it is none."""
    if len(expression) > _LONGEST:
        raise CompileError(f"it is longer than {_LONGEST} characters")
    node = parse(expression)
    looks_at: set[tuple[str, str]] = set()
    _look(node, {}, looks_at)
    return Selector(expression, frozenset(looks_at), compiled(node, frozenset({_DEVICE})))


def _look(node: Node, domains: Mapping[str, str], found: set[tuple[str, str]]) -> None:
    """Note what a tree looks at; `domains` are the names that `cel.bind` gave to domains."""
    domain = _domain(node, domains)
    if domain is not None:
        found.add((domain, ""))  # all of it, by whatever is done with it
        return
    match node:
        case Select(of, field) | Index(of, Literal(str() as field)) if (inner := _domain(of, domains)) is not None:
            found.add((inner, field))
        case Select(Name("device"), field):
            if field not in _FIELDS:
                raise CompileError(f"undefined field '{field}'")
            if field in ("attributes", "capacity"):
                found.add(("", ""))
        case Name("device"):
            found.add(("", ""))
        case Select(of, _):
            _look(of, domains, found)
        case Index(of, key):
            _look(of, domains, found)
            _look(key, domains, found)
        case Call("bind", (Name(name), value, body), Name("cel")):
            inner = _domain(value, domains)
            if inner is None:
                _look(value, domains, found)
                _look(body, {key: one for key, one in domains.items() if key != name}, found)
            else:
                _look(body, {**domains, name: inner}, found)
        case Call(_, arguments, target):
            for part in (*arguments, *((target,) if target is not None else ())):
                _look(part, domains, found)
        case ListOf(items):
            for item in items:
                _look(item, domains, found)
        case MapOf(entries):
            for key, value in entries:
                _look(key, domains, found)
                _look(value, domains, found)
        case Literal() | Name():
            pass


def _domain(node: Node, domains: Mapping[str, str]) -> str | None:
    """The domain whose attributes or capacities a tree stands for; None where it stands for something else."""
    match node:
        case Name(name):
            return domains.get(name)
        case Index(Select(Name("device"), "attributes" | "capacity"), Literal(str() as domain)):
            return domain
        case _:
            return None


def _shown(driver: str, device: Device) -> Value:
    """A device as expressions see it."""
    attributes, capacity = EveryKey(), EveryKey()
    for name, attribute in device.attributes.items():
        _put(attributes, driver, name, _value(name, attribute))
    for name, given in device.capacity.items():
        _put(capacity, driver, name, QuantityValue.of(given.value))
    return {
        "driver": driver,
        "allowMultipleAllocations": device.allow_multiple_allocations,
        "attributes": attributes,
        "capacity": capacity,
    }


def _put(into: EveryKey, driver: str, name: str, value: Value) -> None:
    domain, _, own = name.rpartition("/")
    held = into.setdefault(domain or driver, {})
    assert isinstance(held, dict)
    held[own] = value


def _value(name: str, attribute: DeviceAttribute) -> Value:
    """The one value that is set, in the order in which Kubernetes looks for it."""
    if attribute.int_values is not None:
        return list(attribute.int_values)
    if attribute.bool_values is not None:
        return list(attribute.bool_values)
    if attribute.string_values is not None:
        return list(attribute.string_values)
    if attribute.version_values is not None:
        return [Semver.of(text) for text in attribute.version_values]
    if attribute.int_value is not None:
        return attribute.int_value
    if attribute.bool_value is not None:
        return attribute.bool_value
    if attribute.string_value is not None:
        return attribute.string_value
    if attribute.version_value is not None:
        return Semver.of(attribute.version_value)
    raise EvaluationError(f"attribute {name}: unsupported attribute value")
