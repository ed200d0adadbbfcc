"""How controllers write the time that they were handed; they never ask for it themselves."""

from datetime import UTC, datetime

__all__ = ["stamp"]


def stamp(now: float) -> str:
    """Seconds since the epoch as the API shows times: RFC 3339, UTC, whole seconds."""
    return datetime.fromtimestamp(int(now), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
