"""What plugins declare, for tests that look at one."""

from __future__ import annotations

from typing import TypeGuard, TypeVar

from tierwise.framework.declaration import declared

__all__ = ["takes"]

Point = TypeVar("Point")


def takes(plugin: object, point: type[Point]) -> TypeGuard[Point]:
    """Whether a plugin declares that it takes part in a point."""
    declaration = declared(type(plugin))
    return declaration is not None and point in declaration.points


def answers(plugin: object, *methods: str) -> bool:
    """Whether a plugin takes part by these methods."""
    declaration = declared(type(plugin))
    return declaration is not None and declaration.methods >= set(methods)
