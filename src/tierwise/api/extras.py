"""Libraries that the core can do without, imported where an option asks for them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from tierwise.api.errors import InputError

__all__ = ["imported"]


def imported(module: str, extra: str, option: str) -> Any:
    """A module; InputError with the extra to install where it is missing."""
    try:
        return import_module(module)
    except ModuleNotFoundError:
        name = module.partition(".")[0]
        raise InputError(f"{name} is missing: install tierwise with the extra `{extra}`", field=option) from None
