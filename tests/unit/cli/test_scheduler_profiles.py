"""Whose pods `tierwise run` places, and by which profile, for the options it is given."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from tierwise.cli.run import profiles_of

CONF = 'actions: "allocate"\ntiers:\n- plugins:\n  - name: gang\n'


@pytest.mark.parametrize(
    ("names", "own", "expected"),
    [
        ((), (), [{"tierwise"}]),
        (("a", "b"), (), [{"a", "b"}]),
        (("a",), ("b",), [{"a"}, {"b"}]),
        (("a", "b"), ("b",), [{"a"}, {"b"}]),
        ((), ("b",), [{"b"}]),
    ],
)
def test_every_name_has_one_profile(
    tmp_path: Path, names: tuple[str, ...], own: tuple[str, ...], expected: list[set[str]]
) -> None:
    """A name with a profile of its own is served by that one alone; the others share one."""
    file = tmp_path / "scheduler.conf"
    file.write_text(CONF)
    profiles = profiles_of(names, None, tuple(f"{name}={file}" for name in own))

    assert expected == [set(profile.schedulers) for profile in profiles]
    assert len(expected) == len({profile.schedulers for profile in profiles})  # they are told apart by their names


def test_profile_needs_a_name_and_a_file() -> None:
    """Half of NAME=FILE is a mistake."""
    with pytest.raises(click.UsageError, match="NAME=FILE"):
        profiles_of((), None, ("batch",))
