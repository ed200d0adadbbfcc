"""How controllers write the time that they are given; they never read a clock."""

from tierwise.api.core import format_time, parse_time

__all__ = ["since", "stamp"]


def stamp(now: float) -> str:
    """Seconds since the epoch as the API shows times."""
    return format_time(now)


def since(noted: str, now: float) -> str:
    """Since when something holds that was perhaps noted before; what was noted in the future counts from now."""
    try:
        return noted if parse_time(noted) <= now else stamp(now)
    except ValueError:
        return stamp(now)
