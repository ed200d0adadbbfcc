"""Ranges out of runs ahead, and their correction by the errors of earlier forecasts."""

from __future__ import annotations

from math import exp, inf

import numpy as np
import pytest

from tierwise.sim.forecast.start_ranges import ForecastErrors, StartRange, range_of_runs


def forecast(asked: float, wait: float) -> StartRange:
    """Runs that say: about so long, give or take a fifth."""
    return range_of_runs([asked + wait * (0.8 + 0.02 * i) for i in range(21)])


def learned(scale: float, spread: float, *, jobs: int = 120) -> ForecastErrors:
    """Errors of forecasts after which jobs waited `scale` times as long, more or less by a factor."""
    errors, rng = ForecastErrors(), np.random.default_rng(3)
    for n in range(jobs):
        asked = 1e6 * n
        errors.note(str(n), asked, forecast(asked, 1000.0))
        errors.started(str(n), asked + 1000.0 * scale * exp(spread * float(rng.normal())))
    return errors


def test_ranges_hold_their_shares_of_a_sample() -> None:
    """Of 19 values the middle one, the inner 50 % and all of them."""
    found = range_of_runs([float(n) for n in range(19, 0, -1)])

    assert StartRange(10.0, (5.0, 15.0), (1.0, 19.0)) == found


def test_few_runs_say_two_ranges() -> None:
    """Five values are all in the range of 50 %, and that of 90 % is wider, though not before the earliest moment."""
    found = range_of_runs([100.0, 110.0, 120.0, 130.0, 140.0])
    bounded = range_of_runs([100.0, 110.0, 120.0, 130.0, 140.0], 95.0)

    assert ((100.0, 140.0), (86.0, 154.0)) == (found.half, (round(found.most[0]), round(found.most[1])))
    assert (95.0, found.most[1]) == bounded.most


def test_runs_that_did_not_come_so_far_leave_the_end_open() -> None:
    """A start that many runs have not seen has no latest time."""
    assert (2.0, inf) == range_of_runs([1.0, 2.0, 3.0, 4.0, 5.0, inf, inf]).half


def test_nothing_is_corrected_before_something_is_known() -> None:
    """The first forecasts are what runs ahead say."""
    runs = forecast(0.0, 1000.0)

    assert runs == ForecastErrors().corrected(0.0, runs)
    assert runs == learned(2.0, 0.3, jobs=4).corrected(0.0, runs)


def test_a_bias_is_taken_out() -> None:
    """Where jobs waited twice as long as was said, twice as long is said."""
    said = learned(2.0, 0.3).corrected(0.0, forecast(0.0, 1000.0))

    assert 1800 < said.start < 2200


@pytest.mark.parametrize(("scale", "spread"), [(1.0, 0.05), (0.3, 0.5), (3.0, 1.2)])
def test_corrected_ranges_hold_their_shares(scale: float, spread: float) -> None:
    """Whatever the errors were, half of the next starts are inside the narrow range and nine tenths in the wide one."""
    errors, rng = learned(scale, spread), np.random.default_rng(4)
    asked = 1e9
    said = errors.corrected(asked, forecast(asked, 1000.0))
    starts = [asked + 1000.0 * scale * exp(spread * float(rng.normal())) for _ in range(400)]

    assert 0.4 < np.mean([said.half[0] <= start <= said.half[1] for start in starts]) < 0.6
    assert 0.8 < np.mean([said.most[0] <= start <= said.most[1] for start in starts]) < 0.97


def test_who_still_waits_counts_as_late() -> None:
    """Starts that are not known yet move the ranges: without them only the early ones would be learned from."""
    errors = ForecastErrors()
    for n in range(40):
        errors.note(str(n), 0.0, forecast(0.0, 1000.0))
    for n in range(20):
        errors.started(str(n), 900.0 + n)
    said = errors.corrected(5000.0, forecast(5000.0, 1000.0))

    assert 919.0 == pytest.approx(said.start - 5000.0)
    assert inf == said.half[1]
    assert inf == said.most[1]


def test_only_the_first_forecast_of_a_job_counts_and_old_ones_go() -> None:
    """A job that is forecast again is still one error, and there are 200 at most."""
    errors = learned(1.0, 0.1, jobs=300)
    errors.note("299", 0.0, forecast(0.0, 1.0))

    assert 200 == errors.known


def test_a_job_that_is_gone_is_no_error() -> None:
    """Who deletes a waiting job tells nothing of when it would have started."""
    errors = learned(1.0, 0.1, jobs=10)
    errors.note("gone", 0.0, forecast(0.0, 1000.0))
    before = errors.corrected(1e9, forecast(1e9, 1000.0))
    errors.forget("gone")
    errors.forget("never heard of")

    assert 10 == errors.known
    assert before != errors.corrected(1e9, forecast(1e9, 1000.0))
