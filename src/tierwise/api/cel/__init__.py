"""CEL, as far as selectors of devices use it: conditions that a driver's description of a device meets or not.

`selector` compiles an expression once; what comes back says which attributes and capacities it looks at, so that
devices that agree in those are asked about once. Written here because no library for Python answers and charges as the
API server does (docs/decisions/0048, 0110). Imported where the first selector is met, and nowhere before.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

import msgspec

from tierwise.api.cel.check import check
from tierwise.api.cel.cost import LIMIT, estimate
from tierwise.api.cel.errors import CelError, CompileError, EvaluationError, NotSupportedError, TooMuchWorkError
from tierwise.api.cel.evaluate import Environment, Evaluate, compiled
from tierwise.api.cel.operators import TOO_MUCH, Work
from tierwise.api.cel.syntax import Call, Comprehension, Literal, Name, Node, Select, children, parse
from tierwise.api.cel.values import EveryKey, Named, QuantityValue, Semver, Value
from tierwise.api.resource import Device, DeviceAttribute

__all__ = [
    "LIMIT",
    "TOO_MUCH",
    "CelError",
    "CompileError",
    "EvaluationError",
    "NotSupportedError",
    "TooMuchWorkError",
    "Work",
    "selector",
]

_DEVICE: Final = "device"
_LONGEST: Final = 10 * 1024

Names = frozenset[tuple[str, str]]
"""Attributes or capacities by domain and name; an empty name means all of a domain, and two all there are."""


class Selector(msgspec.Struct, frozen=True, eq=False):
    """A compiled condition on devices; `most` is what the API server expects it to cost at most."""

    expression: str
    looks_at: Names
    most: int
    _evaluate: Evaluate
    _variables: int

    def matches(self, driver: str, device: Device, budget: Work | None = None) -> bool:
        """Whether a device of a driver meets it; EvaluationError where that cannot be said.

        What it costs is taken from the budget, which several evaluations can share; one alone may cost as much as
        Kubernetes allows a selector.
        """
        allowed = LIMIT if budget is None else min(LIMIT, max(budget.left, 0))
        env = Environment(self._variables, _shown(driver, device), allowed)
        try:
            result = self._evaluate(env)
        except (ArithmeticError, TypeError, ValueError, RecursionError) as error:  # Python's words for a wrong value
            raise EvaluationError(f"cannot be evaluated: {type(error).__name__}") from None
        finally:
            if budget is not None:
                budget.left -= allowed - env.left
        if not isinstance(result, bool):
            raise EvaluationError("the result is not a bool")
        return result


def selector(expression: str) -> Selector:
    """The condition that an expression spells; CompileError where it is none, or the API server would refuse it."""
    compiled = _known(expression)
    if isinstance(compiled, CompileError):
        raise type(compiled)(str(compiled))
    return compiled


@lru_cache(maxsize=4096)
def _known(expression: str) -> Selector | CompileError:
    """A selector, or why there is none: what takes long to refuse is refused at once the second time."""
    try:
        return _compiled(expression)
    except CompileError as error:
        return error
    except RecursionError:
        return NotSupportedError("nested too deeply")


def _compiled(expression: str) -> Selector:
    if len(expression.encode(errors="replace")) > _LONGEST:
        raise CompileError(f"it is longer than {_LONGEST} bytes")
    node = parse(expression)
    checked = check(node)
    evaluate, variables = compiled(node, checked)
    highest_cost = estimate(node, checked)
    if highest_cost > LIMIT:
        raise CompileError(f"too complex: it can cost more than {LIMIT}, the limit of Kubernetes")
    looks_at: set[tuple[str, str]] = set()
    _look(node, {}, looks_at)
    return Selector(expression, frozenset(looks_at), highest_cost, evaluate, variables)


def _look(node: Node, domains: Mapping[str, str], attributes_read: set[tuple[str, str]]) -> None:
    """Note what a tree looks at; `domains` are the names that `cel.bind` gave to domains."""
    domain = _domain(node, domains)
    if domain is not None:
        attributes_read.add((domain, ""))  # all of it, by whatever is done with it
        return
    match node:
        case Select(of, field, _) if (inner := _domain(of, domains)) is not None:
            attributes_read.add((inner, field))
        case Call("_[_]" | "_[?_]" | "_?._", (of, Literal(str() as field))) if (
            inner := _domain(of, domains)
        ) is not None:
            attributes_read.add((inner, field))
        case Select(Name("device"), "driver" | "allowMultipleAllocations", _):
            pass
        case Name("device") if "device" not in domains:
            attributes_read.add(("", ""))
        case Comprehension():
            own_domain = _domain(node.start, domains) if node.kind == "bind" else None
            if own_domain is None:
                _look(node.start, domains, attributes_read)
            _look(node.over, domains, attributes_read)
            rebound = {node.accumulator, node.name, node.second}
            inner_domains = {key: domain_of for key, domain_of in domains.items() if key not in rebound}
            if own_domain is not None:
                inner_domains[node.accumulator] = own_domain
                _look(node.result, inner_domains, attributes_read)
            else:
                for part in (node.goes_on, node.step, node.result):
                    _look(part, inner_domains, attributes_read)
        case _:
            for part in children(node):
                _look(part, domains, attributes_read)


def _domain(node: Node, domains: Mapping[str, str]) -> str | None:
    """The domain whose attributes or capacities a tree means; None where it means something else."""
    match node:
        case Name(name):
            return domains.get(name)
        case Call("_[_]", (Select(Name("device"), "attributes" | "capacity", False), Literal(str() as domain))):
            return domain
        case _:
            return None


def _shown(driver: str, device: Device) -> Value:
    """A device as expressions see it."""
    attributes = EveryKey()
    capacity = EveryKey()
    for name, attribute in device.attributes.items():
        _put(attributes, driver, name, _value(name, attribute))
    for name, capacity_value in device.capacity.items():
        _put(capacity, driver, name, QuantityValue.of(str(capacity_value.value)))
    return Named(
        driver=driver,
        allowMultipleAllocations=bool(device.allow_multiple_allocations),
        attributes=attributes,
        capacity=capacity,
    )


def _put(into: EveryKey, driver: str, name: str, value: Value) -> None:
    domain, slash, local_name = name.partition("/")
    attributes = into.setdefault(domain if slash else driver, Named())
    assert isinstance(attributes, dict)
    attributes[local_name if slash else name] = value


def _value(name: str, attribute: DeviceAttribute) -> Value:
    """The one value that is set, in the order in which Kubernetes looks for it."""
    for values in (attribute.int_values, attribute.bool_values, attribute.string_values):
        if values is not None:
            return list(values)
    if attribute.version_values is not None:
        return [Semver.of(text) for text in attribute.version_values]
    for value in (attribute.int_value, attribute.bool_value, attribute.string_value):
        if value is not None:
            return value
    if attribute.version_value is not None:
        return Semver.of(attribute.version_value)
    raise EvaluationError(f"attribute {name}: unsupported attribute value")
