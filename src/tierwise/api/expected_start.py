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
    """Forecast of a job's start as it was written to the job, with the time of writing."""

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


def spell_expected_start(expected: ExpectedStart) -> str:
    """As it is annotated."""
    times = {"start": expected.start, "range50": expected.half, "range90": expected.most}
    return json.dumps(
        {
            "kind": expected.kind,
            **{name: _spelled(time) for name, time in times.items() if time is not None},
            "position": expected.position,
            "of": expected.of,
            "said": format_time(expected.said),
            "text": expected.text,
        }
    )


def parse_expected_start(text: str) -> ExpectedStart | None:
    """Forecast in an annotation; None if it is missing or unreadable."""
    try:
        fields = json.loads(text) if text else None
        if not isinstance(fields, dict):
            return None
        start = parse_time(fields["start"]) if "start" in fields else None
        said_at = parse_time(str(fields["said"]))
        place = (int(fields["position"]), int(fields["of"]))
        likely = _range(fields.get("range90"))
        return ExpectedStart(str(fields["kind"]), str(fields["text"]), said_at, *place, start=start, most=likely)
    except (KeyError, TypeError, ValueError):
        return None


def _range(times: object) -> tuple[float, float | None] | None:
    """The times between which something is, as they are spelled; None where they are not."""
    if not isinstance(times, list) or len(times) != 2:
        return None
    earliest, latest = times
    return parse_time(str(earliest)), parse_time(str(latest)) if latest is not None else None


def _spelled(time: float | tuple[float, float | None]) -> str | list[str | None]:
    if isinstance(time, tuple):
        return [format_time(instant) if instant is not None else None for instant in time]
    return format_time(time)
