"""What a profile says of room that is kept idle for jobs, as an argument of its action allocate."""

from __future__ import annotations

from math import inf
from typing import Final

from tierwise.api.errors import InputError
from tierwise.config.given import as_written
from tierwise.config.profile import Profile

__all__ = ["IDLE_ROOM", "idle_room", "wrong_idle_room"]

IDLE_ROOM: Final = "idleRoom"
_HOUR: Final = 3600.0


def idle_room(profile: Profile) -> float | None:
    """How many node-seconds may be kept idle for the jobs of one namespace in one queue.

    None for a gang's own need for its own run time, which is the default; infinite for any number. Raises InputError
    for what is none of these.
    """
    value = profile.action_arguments.get("allocate", {}).get(IDLE_ROOM, "own")
    wrong = wrong_idle_room(value)
    if wrong:
        raise InputError(wrong, field=f"configurations.allocate.{IDLE_ROOM}")
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value * _HOUR
    return None if value == "own" else inf


def wrong_idle_room(value: object) -> str:
    """Why a value does not say how much room may be kept idle; "" where it does."""
    if value in ("own", "off") or value is False:  # YAML reads a bare off as false
        return ""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < inf:
        return ""
    return f'"{as_written(value)}" is neither a number of node-hours, nor own, nor off'
