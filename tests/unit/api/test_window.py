"""When a window is: local times, days on which clocks change, and what cannot be read."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from tests.support.commands import run

from tierwise.api import codec
from tierwise.api.errors import InputError
from tierwise.api.window import Schedule, read_window


def schedule(**spec: Any) -> Schedule:
    """That of a window on a node."""
    raw = {"apiVersion": "tierwise.io/v1alpha1", "kind": "Window", "metadata": {"name": "w"}}
    whole = {"nodes": ["n0"], "start": "2026-03-01T22:00", "duration": "4h", **spec}
    record: Any = codec.decode({**raw, "spec": whole})
    return read_window(record)


def at(text: str) -> float:
    """A moment in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def begins(found: Schedule, now: str) -> str:
    """When the next one begins after a moment."""
    span = found.next(at(now))
    return datetime.fromtimestamp(span.start, UTC).isoformat(timespec="minutes")[:16] if span is not None else ""


def test_once_and_no_more() -> None:
    """It is there until it has ended."""
    once = schedule()

    assert "2026-03-01T22:00" == begins(once, "2026-01-01T00:00")
    assert "2026-03-01T22:00" == begins(once, "2026-03-02T01:59")
    assert "" == begins(once, "2026-03-02T02:00")


def test_it_recurs_at_the_same_local_time() -> None:
    """Berlin puts its clocks forward on the 29th of March 2026: from 21:00 to 20:00 in UTC."""
    weekly = schedule(everyDays=7, timeZone="Europe/Berlin")

    assert "2026-03-22T21:00" == begins(weekly, "2026-03-20T00:00")
    assert "2026-03-29T20:00" == begins(weekly, "2026-03-27T00:00")
    assert "2036-03-02T21:00" == begins(weekly, "2036-03-01T12:00")


def test_a_start_that_clocks_leave_out_is_an_hour_later() -> None:
    """Half past two does not exist on that day."""
    assert "2026-03-29T01:30" == begins(
        schedule(start="2026-03-29T02:30", timeZone="Europe/Berlin"), "2026-03-28T00:00"
    )


def test_a_time_with_an_offset_is_that_moment() -> None:
    """Whatever zone it recurs in."""
    assert "2026-03-01T20:00" == begins(schedule(start="2026-03-01T22:00:00+02:00"), "2026-01-01T00:00")


def test_until_ends_it() -> None:
    """The last one begins no later."""
    daily = schedule(everyDays=1, until="2026-03-03T22:00")

    assert "2026-03-03T22:00" == begins(daily, "2026-03-03T12:00")
    assert "" == begins(daily, "2026-03-04T02:00")


WRONG = {
    "start": "tomorrow",
    "duration": "-4h",
    "timeZone": "Mars/Olympus",
    "everyDays": -1,
    "until": "2026-13-01T00:00",
    "unknownEnds": "Never",
    "overrun": "Kill",
    "margin": "soon",
}


@pytest.mark.parametrize("field", WRONG)
def test_what_cannot_be_read_names_its_field(field: str) -> None:
    """A value that cannot be read is no window that closes nothing."""
    with pytest.raises(InputError) as refused:
        schedule(**{field: WRONG[field]})
    assert f"spec.{field}" == refused.value.field


def test_one_that_is_longer_than_its_days_is_refused() -> None:
    """It would follow itself without an end."""
    with pytest.raises(InputError, match="longer than the days"):
        schedule(everyDays=1, duration="25h")


def test_zones_are_names_and_no_files() -> None:
    """A path is no zone."""
    for name in ("../../etc/passwd", "/etc/localtime", "a\0b", ""):
        with pytest.raises(InputError):
            schedule(timeZone=name)


def test_a_bad_window_is_one_line_and_status_2(tmp_path: Any) -> None:
    """As all input that cannot be used."""
    file = tmp_path / "w.yaml"
    file.write_text(
        "{apiVersion: tierwise.io/v1alpha1, kind: Window, metadata: {name: w},"
        " spec: {nodes: [n0], start: '2026-03-01T22:00', duration: 4 hours}}"
    )
    found = run("schedule", "-f", str(file))

    assert 2 == found.exit_code
    assert 1 == len(found.stderr.splitlines())
    assert "Window w: spec.duration" in found.stderr
