"""How controllers write the time that they were handed; they never ask for it themselves."""

from datetime import UTC, datetime

from tierwise.api.meta import parse_time

__all__ = ["since", "stamp"]


def stamp(now: float) -> str:
    """Seconds since the epoch as the API shows times: RFC 3339, UTC, whole seconds."""
    return datetime.fromtimestamp(int(now), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def since(noted: str, now: float) -> str:
    """Since when something holds that was perhaps noted before; what was noted in the future counts from now."""
    try:
        return noted if parse_time(noted) <= now else stamp(now)
    except ValueError:
        return stamp(now)
