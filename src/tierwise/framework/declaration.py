"""Which extension points a plugin takes part in: said by the plugin, checked when it is loaded.

`@takes_part(StaticFilter, NodeScorer)` stands above a plugin's class, or above a function that chooses between classes.
A declaration is held against the class: a method that is missing, takes other arguments or belongs to a point that is
not declared is an error that names plugin and method, so a misspelt word never is a plugin that does nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Final, TypeVar

import msgspec

from tierwise.api.codec import suggestion
from tierwise.api.errors import InputError
from tierwise.framework import extension

__all__ = ["METHODS", "POINTS", "Declaration", "Idle", "check_plugin", "declared", "takes_part"]

T = TypeVar("T", bound=Callable[..., object])

_MARK: Final = "__tierwise_plugin__"

POINTS: Final[dict[str, type]] = {
    name: point
    for name in extension.__all__
    if getattr(point := getattr(extension, name), "_is_protocol", False) and isinstance(point, type)
}
"""Every extension point by its name."""

_METHODS: Final = {
    point: tuple(name for name, value in vars(point).items() if inspect.isfunction(value) and not name.startswith("_"))
    for point in POINTS.values()
}

METHODS: Final[dict[str, type]] = {name: point for point, names in _METHODS.items() for name in names}
"""The point that each method belongs to."""


class Declaration(msgspec.Struct, frozen=True):
    """What a plugin says of itself; a star in the name of an argument stands for any ending."""

    points: tuple[type, ...]
    arguments: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The points by name."""
        return tuple(point.__name__ for point in self.points)


class Idle:
    """What a function makes where its plugin has nothing to do: it takes part in nothing."""


def takes_part(*points: type, arguments: Iterable[str] = ()) -> Callable[[T], T]:
    """Declare the points that a plugin takes part in, and the arguments that a profile may give it.

    Above a function, the points are all that what it makes may take part in: each class has a declaration of its own.
    """

    def declare(factory: T) -> T:
        setattr(factory, _MARK, Declaration(points, tuple(arguments)))
        return factory

    return declare


def declared(factory: object) -> Declaration | None:
    """What a class or a function declares; None where it declares nothing."""
    found = getattr(factory, _MARK, None)
    return found if isinstance(found, Declaration) else None


def check_plugin(name: str, factory: object) -> Declaration:
    """The declaration of a plugin; InputError where it does not hold."""
    declaration = declared(factory)
    if declaration is None or not declaration.points:
        raise InputError(f"plugin {name}: {_called(factory)} declares no extension point: takes_part does")
    for point in declaration.points:
        if point not in _METHODS:
            called = getattr(point, "__name__", repr(point))
            raise InputError(f"plugin {name}: {called} is not an extension point{suggestion(called, POINTS)}")
    if isinstance(factory, type):
        for point in declaration.points:
            _check_point(name, factory, point)
        for method, point in METHODS.items():
            if point not in declaration.points and callable(getattr(factory, method, None)):
                text = f"{factory.__name__}.{method} belongs to {point.__name__}, which is not declared"
                raise InputError(f"plugin {name}: {text}")
    elif not callable(factory):
        raise InputError(f"plugin {name}: {_called(factory)} is neither a class nor a function")
    return declaration


def _check_point(name: str, plugin: type, point: type) -> None:
    for method in _METHODS[point]:
        found = getattr(plugin, method, None)
        if found is None:
            others = [other for other in dir(plugin) if not other.startswith("_") and other not in METHODS]
            text = f"{plugin.__name__} takes part in {point.__name__}, but has no method {method}"
            raise InputError(f"plugin {name}: {text}{suggestion(method, others)}")
        if not callable(found):
            raise InputError(f"plugin {name}: {plugin.__name__}.{method} is not a method")
        asked = list(inspect.signature(getattr(point, method)).parameters.values())[1:]
        bound = isinstance(inspect.getattr_static(plugin, method), staticmethod | classmethod)
        positional = [None] * (sum(p.kind is not p.KEYWORD_ONLY for p in asked) + (not bound))
        try:
            inspect.signature(found).bind(*positional, **{p.name: None for p in asked if p.kind is p.KEYWORD_ONLY})
        except TypeError:
            called = ", ".join(p.name if p.kind is not p.KEYWORD_ONLY else f"{p.name}=…" for p in asked)
            text = f"{plugin.__name__}.{method} must take ({called}), as {point.__name__} calls it"
            raise InputError(f"plugin {name}: {text}") from None
        except ValueError:  # no signature to be had: written in another language
            continue
    for attribute in getattr(point, "__annotations__", {}):
        if not hasattr(plugin, attribute) and attribute not in getattr(plugin, "__annotations__", {}):
            text = f"{plugin.__name__} takes part in {point.__name__}, but has no attribute {attribute}"
            raise InputError(f"plugin {name}: {text}")


def _called(factory: object) -> str:
    return getattr(factory, "__name__", None) or type(factory).__name__
