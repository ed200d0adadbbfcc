"""Times as the API writes them, and the one exception for bad input."""

import pickle

import pytest

from tierwise.api.core import format_time, parse_time
from tierwise.api.errors import InputError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01T00:00:00Z", 0.0),
        ("2024-01-01T00:00:00Z", 1704067200.0),
        ("2024-01-01t00:00:00z", 1704067200.0),
        ("2024-01-01T02:00:00+02:00", 1704067200.0),
        ("2024-01-01T00:00:00.5Z", 1704067200.5),
        ("2024-01-01T00:00:00.123456789Z", 1704067200.123456),
        ("1969-12-31T23:59:59Z", -1.0),
    ],
)
def test_times_are_seconds_since_the_epoch(text: str, expected: float) -> None:
    """RFC 3339 with any offset; nanoseconds are cut to microseconds."""
    assert expected == parse_time(text)


@pytest.mark.parametrize(
    "text", ["", "now", "2024-01-01", "2024-13-01T00:00:00Z", "2024-01-01T00:00:00", "٢٠٢٤-01-01T00:00:00Z"]
)
def test_other_texts_are_no_times(text: str) -> None:
    """Dates alone, local times and impossible months are refused."""
    with pytest.raises(ValueError, match="is not a"):
        parse_time(text)


def test_an_error_leaves_out_what_it_does_not_know() -> None:
    """File, object and field stand before the message, each only where known."""
    bare = InputError("bad")
    full = InputError("bad", field="spec.tier").inside(file="f.yaml", obj="HyperNode s0")

    assert ["bad", "f.yaml: HyperNode s0: spec.tier: bad"] == [str(bare), str(full)]


def test_what_an_error_knows_already_stays() -> None:
    """The innermost place is the most exact one."""
    error = InputError("bad", file="inner", obj="Pod a/b").inside(file="outer", obj="Pod c/d")

    assert ("inner", "Pod a/b") == (error.file, error.obj)


def test_an_error_is_one_line_and_survives_pickling() -> None:
    """Line breaks within a message become spaces; workers may send errors home."""
    error = InputError("two\nlines", file="f", field="a")

    assert "f: a: two lines" == str(error) == str(pickle.loads(pickle.dumps(error)))


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.9, "1970-01-01T00:00:00Z"),
        (-1.0, "1969-12-31T23:59:59Z"),
        (-1e18, "0001-01-01T00:00:00Z"),
        (253402300800.0, "9999-12-31T23:59:59Z"),
        (1e18, "9999-12-31T23:59:59Z"),
    ],
)
def test_every_time_can_be_written(seconds: float, shown: str) -> None:
    """A moment beyond what the calendar has, as of an object from the end of it, is written as its end."""
    assert shown == format_time(seconds)
