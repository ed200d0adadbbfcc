"""How often forecasts of starts are right: jobs of a trace are asked about while they wait, and then what happened.

A replay is run twice. The first run says who waits and what happens, and some of these jobs are drawn; in the second
each of them is asked about at the moment at which it begins to wait. The forecaster is that of `tierwise eta`
(`sim.forecast.eta`), on the snapshot of that moment: who runs since when, who waits, and what `durations` of the rules
tells of ends. Its ranges are corrected by the errors of the forecasts before as the live scheduler does
(`sim.forecast.start_ranges`). Shares are counted with and without the correction, of the jobs whose start was expected
at all: where ends are not known, that is no range.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf
from typing import Final

import msgspec
import numpy as np

from tierwise.api.errors import InputError
from tierwise.sim.forecast.eta import RUNS, forecasts
from tierwise.sim.forecast.start_ranges import ForecastErrors, StartRange, range_of_runs
from tierwise_lab.replay.engine.contenders import Contender
from tierwise_lab.replay.engine.engine import Engine
from tierwise_lab.replay.engine.rules import Rules
from tierwise_lab.replay.report.outcome import Data
from tierwise_lab.replay.traces.fabric import Fabric
from tierwise_lab.replay.traces.trace import Trace

__all__ = ["Asked", "calibrate", "calibration_wire"]

_WARM: Final = 0.1
"""The share of jobs, the first to come, that are not asked about: there is nothing to learn from before."""


class Asked(msgspec.Struct, frozen=True):
    """One job that was asked about: what runs ahead said, what was said after corrections, and what happened."""

    job: int
    gpus: int
    at: float
    runs: StartRange
    said: StartRange
    start: float

    @property
    def expected(self) -> bool:
        """Whether a time was said; it is unknown where runs ahead did not come to a start."""
        return self.runs.start < inf

    def inside(self, bounds: tuple[float, float]) -> bool:
        return bounds[0] <= self.start <= bounds[1]


def calibrate(
    fabric: Fabric, trace: Trace, contender: Contender, rules: Rules, *, asks: int, runs: int = RUNS
) -> Iterator[list[Asked]]:
    """Ask about so many jobs that wait; yields all that was asked and said so far after every question."""
    if contender.rule:
        raise InputError(f"{contender.name} is no profile: forecasts run the cycle ahead", field="--calibrate-eta")
    first_engine, engine = (Engine(fabric, trace, contender, rules, measured=False, foresees=True) for _ in range(2))
    for _ in first_engine.run():
        pass
    happened = first_engine.state.first_start
    jobs_asked = _chosen(first_engine, asks, rules.seed)
    errors = ForecastErrors()
    told: list[Asked] = []
    for state in engine.run():
        for job in sorted(jobs_asked & state.waiting):
            jobs_asked.discard(job)
            for forecast in told:
                if forecast.start <= state.clock:
                    errors.started(str(forecast.job), forecast.start)
            key = engine.gangs.key(job)
            ahead = forecasts(engine.known(), contender.profile, until={key}, runs=runs, seed=rules.seed)
            waiting_job = next(waiting for waiting in ahead.waiting if waiting.key == key)
            range_of_start = range_of_runs(ahead.starts(waiting_job), state.clock)
            corrected = errors.corrected(state.clock, range_of_start)
            errors.note(str(job), state.clock, range_of_start)
            told.append(Asked(job, int(trace.gpus[job]), state.clock, range_of_start, corrected, float(happened[job])))
            yield told
        if not jobs_asked:
            return


def _chosen(engine: Engine, asks: int, seed: int) -> set[int]:
    """Some of the jobs that were not started by the first cycle that saw them, drawn with the seed."""
    state = engine.state
    trace = engine.trace
    period = engine.rules.period
    seen = np.ceil(trace.arrival / period) * period if period else trace.arrival
    waited = (state.first_start > seen + 1e-6) & (np.arange(len(trace)) >= _WARM * len(trace))
    return set(np.random.default_rng((seed, 17)).permutation(np.flatnonzero(waited))[:asks].tolist())


def calibration_wire(name: str, forecasts: Sequence[Asked]) -> Data:
    """The shares of jobs that started inside the stated ranges, as JSON data."""
    sizes = sorted({_size(forecast.gpus) for forecast in forecasts})
    return {
        "name": name,
        **_shares(forecasts),
        "by_size": [{"gpus": list(size), **_shares([a for a in forecasts if _size(a.gpus) == size])} for size in sizes],
    }


def _size(gpus: int) -> tuple[int, int]:
    """The fewest and the most GPUs of the class of sizes that a job is in."""
    if gpus == 1:
        return 1, 1
    return (2, 8) if gpus <= 8 else (9, 1 << 30)


def _shares(every: Sequence[Asked]) -> Data:
    expected_forecasts = [forecast for forecast in every if forecast.expected]

    def share(inside: Sequence[bool]) -> float | None:
        if inside:
            return round(sum(inside) / len(inside), 4)
        return None

    def median(numbers: Sequence[float], digits: int = 1) -> float | None:
        number = float(np.median(numbers)) if numbers else inf
        return round(number, digits) if number < inf else None

    waits = [forecast.start - forecast.at for forecast in expected_forecasts]
    half = [forecast.said.half[1] - forecast.said.half[0] for forecast in expected_forecasts]
    width_90 = [forecast.said.most[1] - forecast.said.most[0] for forecast in expected_forecasts]
    return {
        "asked": len(every),
        "unknown": len(every) - len(expected_forecasts),
        "inside_50": share([forecast.inside(forecast.said.half) for forecast in expected_forecasts]),
        "inside_90": share([forecast.inside(forecast.said.most) for forecast in expected_forecasts]),
        "runs_alone_50": share([forecast.inside(forecast.runs.half) for forecast in expected_forecasts]),
        "runs_alone_90": share([forecast.inside(forecast.runs.most) for forecast in expected_forecasts]),
        "waited_seconds_median": median(waits),
        "width_50_seconds_median": median(half),
        "width_90_seconds_median": median(width_90),
        "sharpness_50": median([width / max(wait, 1.0) for width, wait in zip(half, waits, strict=True)], 2),
        "sharpness_90": median([width / max(wait, 1.0) for width, wait in zip(width_90, waits, strict=True)], 2),
    }
