"""Which fields of which objects hold quantities, and the check that all of them can be counted.

Called by the codec on every object it decodes. The types of a record say where its quantities are: what finds them is
made of the types, once. Each amount is judged once (memoised: a cluster repeats few amounts many times).
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterator
from functools import cache, lru_cache
from types import UnionType
from typing import Any, Final

import msgspec

from tierwise.api.errors import InputError
from tierwise.api.quantity import Quantity, amount

__all__ = ["amounts_of", "check"]

_NEGATIVE: Final = "is negative"
_UNIONS: Final = (typing.Union, UnionType)

_Path = tuple[Any, ...]
"""The path of what holds a value, and its name or number there: written out only for a message."""

_Found = list[tuple[_Path, Quantity]]
_Find = Callable[[Any, _Path, _Found], None]
"""Adds the quantities in a value, each with its path."""


def check(record: msgspec.Struct, *, signed: bool) -> None:
    """InputError names the first amount that is not a quantity or, unless signed, negative."""
    for path, quantity in _found(record):
        fault = _fault(str(path[1]), quantity)
        if fault is not None and not (signed and fault.endswith(_NEGATIVE)):
            raise InputError(fault, field=_text(path))


def amounts_of(record: msgspec.Struct) -> Iterator[tuple[str, Quantity]]:
    """The amounts of a record, each with the path of its field."""
    return ((_text(path), quantity) for path, quantity in _found(record))


def _found(record: msgspec.Struct) -> _Found:
    amounts_found: _Found = []
    find = _finder(type(record))
    if find is not None:
        find(record, (), amounts_found)
    return amounts_found


@cache
def _finder(kind: object) -> _Find | None:
    """Function that finds the quantities in values of a type; None if the type holds none."""
    if kind in (Quantity, Quantity | None):
        return _itself
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return _of_struct(kind)
    origin = typing.get_origin(kind)
    inner = typing.get_args(kind)
    if origin in _UNIONS:
        return next(filter(None, map(_finder, inner)), None)
    find = _finder(inner[-1] if origin is dict else inner[0]) if origin in (dict, tuple) else None
    if find is None:
        return None

    def of_each(value: Any, path: _Path, amounts_found: _Found) -> None:
        for name, item in value.items() if origin is dict else enumerate(value):
            find(item, (path, name), amounts_found)

    return of_each


def _of_struct(kind: type[msgspec.Struct]) -> _Find | None:
    # As `msgspec.structs.fields` says, in a tenth of its time: annotations of records are types already, not texts.
    types = {}
    for base in kind.__mro__[::-1]:
        for name, hint in getattr(base, "__annotations__", {}).items():
            types[name] = hint
    names = zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True)
    parts = [(name, spelled, find) for name, spelled in names if (find := _finder(types[name])) is not None]
    if not parts:
        return None

    def of_struct(value: Any, path: _Path, amounts_found: _Found) -> None:
        for attribute, name, find in parts:
            part = getattr(value, attribute)
            if part or find is _itself:
                find(part, (path, name), amounts_found)

    return of_struct


def _itself(value: Quantity | None, path: _Path, amounts_found: _Found) -> None:
    if value is not None:
        amounts_found.append((path, value))


def _text(path: _Path) -> str:
    holder, name = path
    if isinstance(name, int):
        return f"{_text(holder)}[{name}]"
    return f"{_text(holder)}.{name}" if holder else str(name)


@lru_cache(maxsize=65536, typed=True)
def _fault(resource: str, quantity: Quantity) -> str | None:
    """Error text for an amount; None if the amount can be counted."""
    try:
        count = amount(resource, quantity)
    except ValueError as error:
        return str(error)
    return f'"{quantity}" {_NEGATIVE}' if count < 0 else None
