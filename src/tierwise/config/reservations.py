"""What a profile says of reservations, as arguments of its action allocate, and how long jobs run by queue.

Read by the snapshot (durations of queues, the record of runs) and by the scheduler (which jobs get a reservation).
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

import msgspec

from tierwise.api.duration import seconds
from tierwise.api.errors import InputError
from tierwise.config.given import as_written
from tierwise.config.profile import Profile

__all__ = ["CONSERVATIVE", "OFF", "ReservationRules", "reservation_rules"]

OFF, EASY, CONSERVATIVE = "off", "easy", "conservative"
_MODES = (OFF, EASY, CONSERVATIVE)
_DURATION = "expectedDuration"


class ReservationRules(msgspec.Struct, frozen=True):
    """Which waiting jobs get a reservation, and what is known of durations."""

    mode: str = OFF
    depth: int = 16  # conservative: so many jobs at most, in the order in which they are served
    pods: int = 2  # jobs with a smaller minimum get none
    duration: float = 0.0  # seconds that jobs of any queue run where nothing else says so; 0 for unknown
    by_queue: Mapping[str, float] = {}
    window: float = 86_400.0  # seconds: a moment that lies further ahead holds no job back
    aging: float = 3600.0  # seconds that a job has waited after which others are held back without a moment
    aging_limit: float = 3600.0  # for so many seconds, in which all jobs of its namespace may
    aging_pause: float = 86_400.0  # seconds after these in which no job of its namespace may
    trust_stated: bool = False  # what jobs say of themselves counts against reservations of other namespaces
    history: str = ""  # the namespace in which a record is kept of the runs that have ended; "" for none

    def duration_of(self, queue: str) -> float:
        return self.by_queue.get(queue, self.duration)


def reservation_rules(profile: Profile) -> ReservationRules:
    """The rules of a profile; InputError where they cannot be read."""
    arguments = profile.action_arguments.get("allocate", {})
    mode = _mode(arguments.get("reservations", OFF))
    by_queue = {}
    for name, value in arguments.items():
        if name.startswith(f"{_DURATION}."):
            by_queue[name.removeprefix(f"{_DURATION}.")] = _seconds(value, name)
    history = arguments.get("runHistory", "")
    if not isinstance(history, str) or "/" in history:
        raise InputError(f'"{history}" is not the name of a namespace', field=_field("runHistory"))
    return ReservationRules(
        mode=mode if profile.feature("Reservations") else OFF,
        depth=_number(arguments.get("reservationDepth", 16), "reservationDepth"),
        pods=_number(arguments.get("reservationPods", 2), "reservationPods"),
        duration=_seconds(arguments[_DURATION], _DURATION) if _DURATION in arguments else 0.0,
        by_queue=by_queue,
        window=_seconds(arguments.get("reservationWindow", "24h"), "reservationWindow"),
        aging=_aging(arguments.get("reservationAging", "1h")),
        aging_limit=_seconds(arguments.get("reservationAgingLimit", "1h"), "reservationAgingLimit"),
        aging_pause=_seconds(arguments.get("reservationAgingPause", "24h"), "reservationAgingPause"),
        trust_stated=_flag(arguments.get("trustStatedDurations", False), "trustStatedDurations"),
        history=history,
    )


def _mode(value: object) -> str:
    mode = OFF if value is False else value  # YAML reads a bare off as false
    if not isinstance(mode, str) or mode not in _MODES:
        text = f'"{as_written(value)}" is none of {", ".join(_MODES[:-1])} and {_MODES[-1]}'
        raise InputError(text, field=_field("reservations"))
    return mode


def _number(value: object, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InputError(f'"{as_written(value)}" is not a whole number from 1 on', field=_field(name))
    return value


def _flag(value: object, name: str) -> bool:
    if not isinstance(value, bool):
        raise InputError(f'"{as_written(value)}" is neither true nor false', field=_field(name))
    return value


def _seconds(value: object, name: str) -> float:
    duration = seconds(value) if isinstance(value, str) else None
    if duration is None or duration <= 0:
        raise InputError(f'"{as_written(value)}" is not a duration such as 2h', field=_field(name))
    return duration


def _aging(value: object) -> float:
    if value is False or value == OFF:
        return inf
    return _seconds(value, "reservationAging")


def _field(name: str) -> str:
    return f"configurations.allocate.{name}"
