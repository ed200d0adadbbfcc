"""What a profile says of searches: how many steps they may take, as an argument of its action allocate."""

from __future__ import annotations

from typing import Final

from tierwise.api.errors import InputError
from tierwise.config.profile import Profile

__all__ = ["NAME", "STEPS", "search_steps", "wrong_steps"]

NAME: Final = "searchSteps"

STEPS: Final = 100_000
"""The default."""

_MOST: Final = 100 * STEPS
"""Beyond this one gang could keep a cycle for hours."""


def search_steps(profile: Profile) -> int:
    """How many steps the largest search may take; InputError where that cannot be read."""
    value = profile.action_arguments.get("allocate", {}).get(NAME, STEPS)
    wrong = wrong_steps(value)
    if wrong or not isinstance(value, int):
        raise InputError(wrong, field=f"configurations.allocate.{NAME}")
    return value


def wrong_steps(value: object) -> str:
    """Why a value is no number of steps; "" where it is one."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _MOST:
        return f'"{value}" is not a whole number from 1 to {_MOST}'
    return ""
