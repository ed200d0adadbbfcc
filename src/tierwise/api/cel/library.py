"""What selectors of devices may call: the functions of CEL and of Kubernetes' libraries, with their types.

They are declared in `overloads.txt`, an overload on each line as CEL's environment lists them: the function, a point
where it is a method, the overload's id, the types of its arguments and of its result. A type is a tuple: its name, and
what it is made of; a capital letter means any type. Times are declared, because types are told by them, but nothing
makes one. What functions do, and what a call costs, is in `functions`.
"""

from __future__ import annotations

import re
from pkgutil import get_data  # importlib.resources is too slow to start
from typing import Final

import msgspec

__all__ = [
    "BOOL",
    "BYTES",
    "DEVICE",
    "DOUBLE",
    "DURATION",
    "DYN",
    "ELSEWHERE",
    "FIELDS",
    "INT",
    "NULL",
    "OVERLOADS",
    "QUANTITY",
    "SEMVER",
    "STRING",
    "TIMESTAMP",
    "UINT",
    "Overload",
    "Type",
    "list_of",
    "map_of",
    "optional_of",
    "shown",
]

Type = tuple[object, ...]

BOOL: Final[Type] = ("bool",)
BYTES: Final[Type] = ("bytes",)
DURATION: Final[Type] = ("duration",)
TIMESTAMP: Final[Type] = ("timestamp",)
DOUBLE: Final[Type] = ("double",)
DYN: Final[Type] = ("dyn",)
INT: Final[Type] = ("int",)
NULL: Final[Type] = ("null",)
STRING: Final[Type] = ("string",)
UINT: Final[Type] = ("uint",)
QUANTITY: Final[Type] = ("kubernetes.Quantity",)
SEMVER: Final[Type] = ("kubernetes.Semver",)
DEVICE: Final[Type] = ("kubernetes.DRADevice",)


def list_of(item: Type) -> Type:
    """The type of lists of a type."""
    return ("list", item)


def map_of(key: Type, value: Type) -> Type:
    """The type of maps."""
    return ("map", key, value)


def optional_of(inner: Type) -> Type:
    """The type of values that may not be there."""
    return ("optional", inner)


FIELDS: Final[dict[str, Type]] = {
    "driver": STRING,
    "allowMultipleAllocations": BOOL,
    "attributes": map_of(STRING, map_of(STRING, DYN)),
    "capacity": map_of(STRING, map_of(STRING, QUANTITY)),
}
"""What a device shows of itself."""


class Overload(msgspec.Struct, frozen=True):
    """One way to call a function."""

    id: str
    arguments: tuple[Type, ...]
    result: Type
    is_method: bool


ELSEWHERE: Final = frozenset(
    {"format", "format.named", "url", "isURL", "ip", "isIP", "cidr", "isCIDR", "duration", "timestamp", "type"}
    | {"transformMapEntry", "validate"}
)
"""Functions that an API server knows and that say nothing about devices; their users are told, and wait."""

_SIGNATURE: Final = re.compile(r"(\.?)([@\w]+)\((.*)\) ([^ ]*|map\(.*\))")
_WORD: Final = re.compile(r"[\w.]+|[(),]")


def _read(text: str) -> tuple[Type, ...]:
    """The types that a list of them spells."""
    stack: list[list[object]] = [[]]
    for word in _WORD.findall(text):
        if word == "(":
            stack.append([])
        elif word == ")":
            inner = stack.pop()
            stack[-1][-1] = (*stack[-1][-1], *inner)  # type: ignore[misc]
        elif word != ",":
            stack[-1].append((word,))
    return tuple(stack[0])  # type: ignore[arg-type]


def _overloads() -> dict[str, tuple[Overload, ...]]:
    by_name: dict[str, list[Overload]] = {}
    for line in (get_data("tierwise.api.cel", "overloads.txt") or b"").decode("ascii").splitlines():
        name, signature = line.rsplit(": ", 1)
        form = _SIGNATURE.fullmatch(signature)
        assert form is not None, signature
        (result,) = _read(form[4])
        by_name.setdefault(name, []).append(Overload(form[2], _read(form[3]), result, bool(form[1])))
    return {name: tuple(overloads) for name, overloads in by_name.items()}


OVERLOADS: Final = _overloads()
"""Every function with its overloads, in Kubernetes' order."""


def shown(type_: Type) -> str:
    """A type as people write it."""
    name, *inner = type_
    parts = ", ".join(shown(part) for part in inner if isinstance(part, tuple))
    return f"{name}({parts})" if parts else str(name)
