"""The annotation in which people find when a waiting gang is expected to start.

Written by the live scheduler, and again only when it changes by more than a step.
"""

from __future__ import annotations

import json
from typing import Final

import msgspec

from tierwise.api.core import format_time, parse_time

__all__ = ["EXPECTED_START", "ExpectedStart", "parse_expected_start", "spell_expected_start"]

EXPECTED_START: Final = "tierwise.io/expected-start"
_LEAST: Final = 60.0
_SHARE: Final = 0.1


class ExpectedStart(msgspec.Struct, frozen=True):
    """What was said of a start, and when."""

    kind: str  # now, expected, never, not-allowed or unknown
    text: str
    said: float
    position: int
    of: int
    start: float | None = None
    half: tuple[float, float | None] | None = None
    most: tuple[float, float | None] | None = None

    def differs(self, other: ExpectedStart) -> bool:
        """Whether people should be told: another kind, or a start that is a minute and a tenth of the wait away."""
        if self.kind != other.kind or self.start is None or other.start is None:
            return self.kind != other.kind
        return abs(self.start - other.start) > max(_LEAST, _SHARE * (self.start - self.said))


def spell_expected_start(told: ExpectedStart) -> str:
    """As it is annotated."""
    times = {"start": told.start, "range50": told.half, "range90": told.most}
    return json.dumps(
        {
            "kind": told.kind,
            **{name: _spelled(time) for name, time in times.items() if time is not None},
            "position": told.position,
            "of": told.of,
            "said": format_time(told.said),
            "text": told.text,
        }
    )


def parse_expected_start(text: str) -> ExpectedStart | None:
    """What an annotation says; None where there is none that can be read."""
    try:
        found = json.loads(text) if text else None
        if not isinstance(found, dict):
            return None
        start = parse_time(found["start"]) if "start" in found else None
        said, place = parse_time(str(found["said"])), (int(found["position"]), int(found["of"]))
        return ExpectedStart(str(found["kind"]), str(found["text"]), said, *place, start=start)
    except (KeyError, TypeError, ValueError):
        return None


def _spelled(time: float | tuple[float, float | None]) -> str | list[str | None]:
    if isinstance(time, tuple):
        return [format_time(one) if one is not None else None for one in time]
    return format_time(time)
