"""The example that sizes a cluster finds the fewest racks that do."""

from __future__ import annotations

import runpy

import pytest
from tests.support.commands import EXAMPLES

TRACE = "synthetic:jobs=30,largest=16,gap=60"


@pytest.mark.parametrize("seconds", [20.0, 600.0])
def test_one_rack_fewer_is_too_few(seconds: float) -> None:
    """With what it answers enough jobs start in time, and with one rack less they do not."""
    example = runpy.run_path(str(EXAMPLES / "21-how-many-racks" / "racks.py"))
    racks, within = example["fewest"](TRACE, 1, seconds)
    fewer = example["wait"](TRACE, racks - 1, 1)

    assert racks > 1
    assert within <= seconds
    assert fewer is None or fewer > seconds


def test_what_is_never_enough_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """A job starts with the next cycle at the earliest."""
    example = runpy.run_path(str(EXAMPLES / "21-how-many-racks" / "racks.py"))
    example["main"](["--trace", "synthetic:jobs=3", "--hosts", "64", "--hours", "0"])

    assert "more than 256" in capsys.readouterr().out
