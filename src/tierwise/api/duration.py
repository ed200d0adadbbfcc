"""Durations as Go writes them: "1h2m3s", "90s", "1.5h".

Read by the dialects for annotations, by plugins for arguments and by controllers for timeouts. An invalid
duration is None, not an error, because Volcano ignores it too.
"""

import re
from functools import lru_cache
from typing import Final

__all__ = ["seconds", "spelled"]

_UNITS: Final = {  # in nanoseconds
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,  # the micro sign
    "μs": 10**3,  # the Greek letter: Go reads both
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_PART: Final = r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)"
_LONGEST_TEXT: Final = 64


@lru_cache(maxsize=1 << 12)
def seconds(text: str) -> float | None:
    """The duration in seconds; None where the text is no duration that Go would read."""
    sign, digits = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    if digits == "0":
        return 0.0
    if not digits or len(text) > _LONGEST_TEXT:  # before the search, which takes the square of the length
        return None
    parts = re.findall(_PART, digits)
    if "".join(number + unit for number, unit in parts) != digits:
        return None
    return sign * sum(_exact(number) * _UNITS[unit] for number, unit in parts) / (_UNITS["s"] * _exact("1"))


def _exact(number: str) -> int:
    """A number with so many digits behind its point that none is lost, without the point."""
    before, _, after = number.partition(".")
    return int(before + after.ljust(_LONGEST_TEXT, "0"))


def spelled(duration: float) -> str:
    """Whole seconds as Go spells them: "1h2m3s", "0s"."""
    minutes, seconds_left = divmod(int(duration), 60)
    hours, minutes = divmod(minutes, 60)
    return (f"{hours}h" if hours else "") + (f"{minutes}m" if hours or minutes else "") + f"{seconds_left}s"
