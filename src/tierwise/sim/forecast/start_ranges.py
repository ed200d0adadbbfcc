"""Ranges for a start out of runs ahead, and what the errors of earlier forecasts make of them.

Runs ahead know how jobs of the past have lasted, and not what else changes: jobs that come later, users who do the same
thing at the same time, a bad day. So a forecast is corrected by how far off earlier ones were (split conformal
prediction, online). An error is by what factor a job waited longer than the median of its runs, as a logarithm. The
corrected range is the one that would have held the wanted share of the latest forecasts. Forecasts whose job still
waits count as errors of at least their present size (product-limit estimate), or only early starts would be learned
from. The widths of the runs themselves are not used then: they were tried as units of the error, and forecasts that
came out narrow by chance made the tails of the others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from math import ceil, exp, floor, inf, log
from statistics import NormalDist
from typing import Final

import msgspec
import numpy as np

from tierwise.model.arrays import Floats

__all__ = ["ForecastErrors", "StartRange", "range_of_runs"]

SHARES: Final = (0.5, 0.9)
"""The shares of starts that the two stated ranges hold."""
_FLOOR: Final = 30.0
"""Seconds that are added to waiting times before their logarithm is taken: seconds do not matter to a plan."""
_LATEST: Final = 200
"""Forecasts that are learned from: enough for the tails of 5 %, and soon others where times change."""
_NORMAL: Final = NormalDist()
_PRIOR: Final = tuple(1.2 * _NORMAL.inv_cdf(i / 20) for i in range(1, 20))
"""Errors as one would guess them, half of them within a factor of 2.2; they count until as many are known."""


class StartRange(msgspec.Struct, frozen=True):
    """When something starts: the median, and the ranges of 50 % and 90 %; infinite for later than runs ahead came."""

    start: float
    half: tuple[float, float]
    most: tuple[float, float]


def range_of_runs(starts: Sequence[float], earliest: float = -inf) -> StartRange:
    """The ranges that hold the next value of a sample with their probability, none of them before the earliest moment.

    A sample that is too small for a range has its outermost values at a distance from the median as errors that are
    normal would have them, and the range goes on from there: of five values the range of 90 % is 1.7 times theirs.
    """
    ordered = sorted(starts)
    n = len(ordered)
    median = ordered[(n - 1) // 2]

    def inner(share: float) -> tuple[float, float]:
        tail = (1 - share) / 2
        low = floor(tail * (n + 1)) - 1
        high = ceil((1 - tail) * (n + 1)) - 1
        if low >= 0:
            return ordered[low], ordered[high]
        beyond = _NORMAL.inv_cdf(tail) / _NORMAL.inv_cdf(1 / (n + 1)) if n > 1 else 1.0
        earliest_end, latest_end = (
            median + beyond * (value - median) if value < inf else inf for value in (ordered[0], ordered[-1])
        )
        return max(earliest_end, min(earliest, ordered[0])), latest_end

    return StartRange(median, inner(SHARES[0]), inner(SHARES[1]))


class _Forecast(msgspec.Struct):
    asked: float
    centre: float
    error: float = inf  # infinite while the job waits


class ForecastErrors:
    """How far off the latest forecasts were."""

    def __init__(self, fewest: int = 5) -> None:
        """Nothing is corrected before so many forecasts have turned out."""
        self._fewest = fewest
        self._latest: deque[str] = deque()
        self._forecasts: dict[str, _Forecast] = {}

    def note(self, job: str, time: float, runs: StartRange) -> None:
        """A job was forecast for the first time; of later forecasts of the same job nothing is learned."""
        if job in self._forecasts or runs.half[1] == inf:
            return
        self._forecasts[job] = _Forecast(time, _waiting(runs.start - time))
        self._latest.append(job)
        if len(self._latest) > _LATEST:
            del self._forecasts[self._latest.popleft()]

    def started(self, job: str, at: float) -> None:
        """A job that was forecast has started."""
        forecast = self._forecasts.get(job)
        if forecast is not None and forecast.error == inf:
            forecast.error = _error(forecast, at)

    def forget(self, job: str) -> None:
        """A job that was forecast is gone and has not started."""
        if job in self._forecasts:
            del self._forecasts[job]
            self._latest.remove(job)

    @property
    def known(self) -> int:
        """How many forecasts have turned out."""
        return sum(forecast.error < inf for forecast in self._forecasts.values())

    def corrected(self, time: float, runs: StartRange) -> StartRange:
        """The ranges with which the wanted shares of the latest forecasts would have been right.

        As they are where too little is known, or most of those that were forecast still wait: by how much a start is
        later is not known then.
        """
        if runs.half[1] == inf or self.known < self._fewest:
            return runs
        centre = _waiting(runs.start - time)
        errors, survival = self._distribution(time)

        def at(share: float) -> float:
            index = int(np.searchsorted(1 - survival, share - 1e-12))
            if index >= len(errors):
                return inf
            return time + max(0.0, exp(centre + float(errors[index])) - _FLOOR)

        half, range_90 = ((at((1 - share) / 2), at((1 + share) / 2)) for share in SHARES)
        if at(0.5) < inf:
            return StartRange(at(0.5), half, range_90)
        return runs

    def _distribution(self, now: float) -> tuple[Floats, Floats]:
        """Errors in ascending order, and the share of forecasts whose error is larger than each: product-limit."""
        errors_known = [forecast.error for forecast in self._forecasts.values() if forecast.error < inf]
        open_yet = []
        for forecast in self._forecasts.values():
            if forecast.error == inf:
                open_yet.append(_error(forecast, now))
        errors: Floats = np.sort(
            np.array([*errors_known, *_PRIOR] if len(errors_known) < len(_PRIOR) else errors_known)
        )
        lower_bounds = np.sort(np.array(open_yet))
        at_risk = np.arange(len(errors), 0, -1) + (
            len(lower_bounds) - np.searchsorted(lower_bounds, errors, side="left")
        )
        survival: Floats = np.cumprod(1 - 1 / at_risk, dtype=np.float64)
        return errors, survival


def _waiting(seconds: float) -> float:
    """Waiting time on the scale of errors."""
    return log(max(0.0, seconds) + _FLOOR)


def _error(forecast: _Forecast, at: float) -> float:
    return _waiting(at - forecast.asked) - forecast.centre
