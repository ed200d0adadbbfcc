"""Parse plugin arguments as Volcano does: values that cannot be parsed, and negative weights, become the default."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

__all__ = ["flag", "listed", "number", "unread", "words"]

_NUMBERS: Final = re.compile(
    r"(.*\.)?(weight|fading|bindTimeoutSeconds|bindingTimeoutSeconds)"
    r"|(hypernode\.)?binpack\.(cpu|memory|resources\..+)|predicate\.resources\..+"
    r"|(overcommit|max-queue-overcommit)-factor"
    r"|(min|max)CandidateNodes(Percentage|Absolute)|topologyAwarePreemptWorkerNum"
    r"|ancestorReclaimLevel|cells|efficiencyThreshold|fromPods|maxDomains|resourceStrategyFitWeight"
    r"|rings|share|stretch|wait"
)
_FLAGS: Final = re.compile(
    r".*Enable|.*\.enable|enable[A-Z].*"
    r"|allowWholeBundle|awareNetworkTopology|bothWays|crossNamespaceGangGroups|decline|disableDefaultQuotaPreemption"
    r"|evictRemainder|kubernetes|lookAhead|sortBySize|strict|(.*\.)?persistState"
)
_LONGEST: Final = 40
_WORDS: Final = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}


def number(arguments: Mapping[str, object], key: str, default: float) -> float:
    """The argument as a float, also where it is written as a text ("0.5").

    It returns default where the argument is absent, no number, negative, infinite, or true or false.
    """
    raw = arguments.get(key)
    if raw is None or isinstance(raw, bool) or not isinstance(raw, (int, float, str)):
        return default
    try:
        value = float(raw)
    except ValueError:
        return default
    return value if 0 <= value < float("inf") else default


def unread(key: str, value: object) -> str:
    """Why the value of an argument does not count, by what its name stands for; empty where it does."""
    if value is None:
        return ""
    if _NUMBERS.fullmatch(key) and number({key: value}, key, -1) < 0:
        return f"{_shown(value)} is not a number of at least 0"
    if _FLAGS.fullmatch(key) and flag({key: value}, key, default=True) != flag({key: value}, key, default=False):
        return f"{_shown(value)} is neither true nor false"
    return ""


def _shown(value: object) -> str:
    text = str(value)
    return f'"{text[:_LONGEST]}{"..." if len(text) > _LONGEST else ""}"'


def flag(arguments: Mapping[str, object], key: str, *, default: bool) -> bool:
    """True or false, also as text."""
    raw = arguments.get(key, default)
    if isinstance(raw, str):
        return _WORDS.get(raw.lower(), default)
    return raw if isinstance(raw, bool) else default


def words(arguments: Mapping[str, object], key: str) -> tuple[str, ...]:
    """A comma-separated list."""
    raw = arguments.get(key, "")
    if raw != "":
        return tuple(w for w in (part.strip() for part in str(raw).split(",")) if w)
    return ()


def listed(arguments: Mapping[str, object], key: str, default: tuple[str, ...]) -> tuple[str, ...]:
    """A list of texts, or one with commas; the default where it is missing or empty."""
    raw = arguments.get(key)
    if isinstance(raw, list):
        return tuple(str(word) for word in raw) or default
    return words(arguments, key) or default
