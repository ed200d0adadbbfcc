"""Points of two figures: axes are written in the figures' own units, and no name covers another."""

from __future__ import annotations

import re

from tierwise_lab.replay.report.plots import Series, scatter


def _share(value: float | None) -> str:
    return f"{100 * (value or 0.0):.0f} %"


def test_axes_are_written_in_the_units_of_their_figures() -> None:
    """A share is no number of minutes; seconds have units of time where nothing else is said."""
    share = scatter([Series("a", [0.5], [0.9])], label="any", show_across=_share, show_up=_share)
    seconds = scatter([Series("a", [0.5], [7200.0])], label="any")

    assert "80 %" in share
    assert "min" not in share
    assert " min</text>" in seconds


def test_names_of_near_points_stand_in_lines_of_their_own() -> None:
    """Three points at one place have three names that can be read."""
    drawn = scatter([Series(name, [0.5], [0.9]) for name in ("one", "two", "three")], label="any", show_across=_share)
    heights = re.findall(r'y="([\d.]+)" text-anchor="end">(?:one|two|three)<', drawn)

    assert 3 == len(heights)
    assert all(abs(float(a) - float(b)) >= 12 for i, a in enumerate(heights) for b in heights[:i])
