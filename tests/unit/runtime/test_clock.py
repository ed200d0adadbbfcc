"""The clock of a process: it follows the wall clock, but nobody's time is ever over at once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tierwise.runtime.service import SteadyClock


class _Times:
    """A wall clock that can be set, and ticks that cannot."""

    def __init__(self) -> None:
        self.wall, self.ticks = 1_800_000_000.0, 50.0
        self.clock = SteadyClock(lambda: self.wall, lambda: self.ticks)

    def pass_by(self, seconds: float) -> float:
        """How many seconds the clock counts while so many pass."""
        before = self.clock()
        self.wall, self.ticks = self.wall + seconds, self.ticks + seconds
        return self.clock() - before


def test_goes_with_the_wall_clock() -> None:
    """Where nothing jumps it is the wall clock."""
    times = _Times()

    assert (0.0, 60.0) == (times.pass_by(0.0), times.pass_by(60.0))
    assert times.wall == times.clock()


@given(st.floats(-1e6, 1e6), st.lists(st.floats(0.0, 5000.0), min_size=1, max_size=20))
def test_a_second_lasts_about_a_second(jump: float, passing: list[float]) -> None:
    """However far the wall clock jumps, time never stands still, goes back or flies."""
    times = _Times()
    before = times.clock()
    times.wall += jump
    assert before == times.clock()
    for seconds in passing:
        assert 0.9 * seconds - 1e-3 <= times.pass_by(seconds) <= 1.1 * seconds + 1e-3


def test_a_difference_is_made_up_for() -> None:
    """An hour that the clock was set by is caught up with within ten hours and a bit, either way."""
    for jump in (3600.0, -3600.0):
        times = _Times()
        times.wall += jump
        for _ in range(370):
            times.pass_by(100.0)

        assert times.wall == times.clock()
