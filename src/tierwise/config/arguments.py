"""Parse plugin arguments as Volcano does: values that cannot be parsed, and negative weights, become the default."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["flag", "listed", "number", "words"]


def number(arguments: Mapping[str, object], key: str, default: float) -> float:
    """A number that is not negative, else the default."""
    raw = arguments.get(key)
    if raw is None or isinstance(raw, bool) or not isinstance(raw, (int, float, str)):
        return default
    try:
        value = float(raw)
    except ValueError:
        return default
    return value if 0 <= value < float("inf") else default


def flag(arguments: Mapping[str, object], key: str, *, default: bool) -> bool:
    """True or false, also as text."""
    raw = arguments.get(key, default)
    if isinstance(raw, str):
        return {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}.get(raw.lower(), default)
    return raw if isinstance(raw, bool) else default


def words(arguments: Mapping[str, object], key: str) -> tuple[str, ...]:
    """A comma-separated list."""
    raw = arguments.get(key, "")
    return tuple(w for w in (part.strip() for part in str(raw).split(",")) if w) if raw != "" else ()


def listed(arguments: Mapping[str, object], key: str, default: tuple[str, ...]) -> tuple[str, ...]:
    """A list of texts, or one with commas; the default where it is missing or empty."""
    raw = arguments.get(key)
    if isinstance(raw, list):
        return tuple(str(word) for word in raw) or default
    return words(arguments, key) or default
