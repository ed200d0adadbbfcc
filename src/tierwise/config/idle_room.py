"""What a profile says of room that is kept idle for jobs, as an argument of its action allocate."""

from __future__ import annotations

from math import inf
from typing import Final

from tierwise.api.errors import InputError
from tierwise.config.profile import Profile

__all__ = ["idle_room"]

_NAME: Final = "idleRoom"
_HOUR: Final = 3600.0


def idle_room(profile: Profile) -> float | None:
    """How many node-seconds may be kept idle for the jobs of one namespace in one queue.

    None for a gang's own need for its own run time, which is the default; infinite for any number. Raises InputError
    for what is none of these.
    """
    value = profile.action_arguments.get("allocate", {}).get(_NAME, "own")
    if value == "own":
        return None
    if value is False or value == "off":  # YAML reads a bare off as false
        return inf
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < inf:
        return value * _HOUR
    text = f'"{value}" is neither a number of node-hours, nor own, nor off'
    raise InputError(text, field=f"configurations.allocate.{_NAME}")
