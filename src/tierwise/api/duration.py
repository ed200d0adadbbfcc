"""Durations as Go writes them: "1h2m3s", "90s", "1.5h".

Read by the dialects for annotations, by plugins for arguments and by controllers for timeouts. An invalid
duration is None, not an error, because Volcano ignores it too.
"""

import re
from fractions import Fraction
from functools import lru_cache
from typing import Final

__all__ = ["seconds", "spelled"]

_UNITS: Final = {
    "ns": Fraction(1, 10**9),
    "us": Fraction(1, 10**6),
    "µs": Fraction(1, 10**6),  # the micro sign
    "μs": Fraction(1, 10**6),  # the Greek letter: Go reads both
    "ms": Fraction(1, 1000),
    "s": Fraction(1),
    "m": Fraction(60),
    "h": Fraction(3600),
}
_PART: Final = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
_LONGEST_TEXT: Final = 64


@lru_cache(maxsize=1 << 12)
def seconds(text: str) -> float | None:
    """The duration in seconds; None where the text is no duration that Go would read."""
    sign, rest = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    if rest == "0":
        return 0.0
    if len(text) > _LONGEST_TEXT:  # before the search, which takes the square of the length
        return None
    parts = _PART.findall(rest)
    if not parts or "".join(number + unit for number, unit in parts) != rest:
        return None
    return float(sign * sum((Fraction(number.rstrip(".")) * _UNITS[unit] for number, unit in parts), Fraction(0)))


def spelled(duration: float) -> str:
    """Whole seconds as Go spells them: "1h2m3s", "0s"."""
    minutes, rest = divmod(int(duration), 60)
    hours, minutes = divmod(minutes, 60)
    return (f"{hours}h" if hours else "") + (f"{minutes}m" if hours or minutes else "") + f"{rest}s"
