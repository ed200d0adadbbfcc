"""How often forecasts of starts are right: jobs of a trace are asked about while they wait, and then what happened.

A replay is run twice. The first run says who waits and what happens, and some of these jobs are drawn; in the second
each of them is asked about at the moment at which it begins to wait. The answer knows what had happened until then and
nothing else: who runs since when, who waits, which jobs have ended after how long (`model.expected_ends`), and when
jobs have come. From there the same engine runs ahead several times on a trace of its own, with durations drawn from
like jobs and with arrivals as in a stretch of the past. The ranges of the starts are corrected by the errors of the
forecasts before (`sim.start_ranges`). Shares are counted with and without the correction.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf
from typing import Final

import msgspec
import numpy as np
from msgspec.structs import replace

from tierwise.model.arrays import Floats, Ints
from tierwise.model.expected_ends import RunHistory
from tierwise.model.finished_run import FinishedRun
from tierwise.replay.engine.contenders import Contender
from tierwise.replay.engine.engine import Engine
from tierwise.replay.engine.rules import Rules
from tierwise.replay.engine.state import NEVER, ReplayState
from tierwise.replay.report.outcome import Data
from tierwise.replay.traces.fabric import Fabric
from tierwise.replay.traces.trace import Trace
from tierwise.sim.forecast.start_ranges import ForecastErrors, StartRange, range_of_runs

__all__ = ["Asked", "calibrate", "calibration_wire"]

RUNS: Final = 5
"""Runs ahead for every question; what they leave out is learned from errors."""

_STEP: Final = 0.1
"""Moments of a run ahead that are closer together than this share of the time ahead are one."""
_EVENTS: Final = 6000
"""Arrivals and ends of one run ahead at most."""
_ARRIVALS: Final = 2500
"""Jobs that come later in one run ahead at most."""
_WARM: Final = 0.1
"""The share of jobs, the first to come, that are not asked about: there is nothing to learn from before."""
_EVERY: Final = "*"
"""The name under which all runs are alike, for queues that have none of their own yet."""


class Asked(msgspec.Struct, frozen=True):
    """One job that was asked about: what runs ahead said, what was said after corrections, and what happened."""

    job: int
    gpus: int
    at: float
    runs: StartRange
    said: StartRange
    start: float

    def inside(self, bounds: tuple[float, float]) -> bool:
        return bounds[0] <= self.start <= bounds[1]


def calibrate(
    fabric: Fabric, trace: Trace, contender: Contender, rules: Rules, *, asks: int, runs: int = RUNS
) -> Iterator[list[Asked]]:
    """Ask about so many jobs that wait; yields all that was asked and said so far after every question."""
    first = Engine(fabric, trace, contender, rules, measured=False)
    for _ in first.run():
        pass
    happened = first.state.first_start
    chosen = _chosen(first, asks, rules.seed)
    engine = Engine(fabric, trace, contender, rules, measured=False)
    known = _Known(engine, trace)
    errors = ForecastErrors(fewest=0)
    told: list[Asked] = []
    for state in engine.run():
        known.follow()
        for job in sorted(chosen & state.waiting):
            chosen.discard(job)
            for asked in told:
                if asked.start <= state.clock:
                    errors.started(str(asked.job), asked.start)
            found = range_of_runs(known.ahead(job, runs, rules.seed), state.clock)
            said = errors.corrected(state.clock, found)
            errors.note(str(job), state.clock, found)
            told.append(Asked(job, int(trace.gpus[job]), state.clock, found, said, float(happened[job])))
            yield told
        if not chosen:
            return


def _chosen(engine: Engine, asks: int, seed: int) -> set[int]:
    """Some of the jobs that were not started by the first cycle that saw them, drawn with the seed."""
    state, trace, period = engine.state, engine.trace, engine.rules.period
    seen = np.ceil(trace.arrival / period) * period if period else trace.arrival
    waited = (state.first_start > seen + 1e-6) & (np.arange(len(trace)) >= _WARM * len(trace))
    return set(np.random.default_rng((seed, 17)).permutation(np.flatnonzero(waited))[:asks].tolist())


def _start_of(job: int, engine: Engine) -> float:
    """When a job starts in a replay from the middle on; infinite where that is beyond the bound."""
    for state in engine.run(_STEP):
        if state.first_start[job] != NEVER:
            return float(state.first_start[job])
        if state.events > _EVENTS:
            break
    return inf


class _Known:
    """All that is known at a moment of a replay, and runs from there."""

    def __init__(self, engine: Engine, trace: Trace) -> None:
        self._engine = engine
        self._trace = trace  # with its queues, though all jobs may wait in one line
        self._history = RunHistory()
        self._running: dict[int, float] = {}

    def follow(self) -> None:
        """Take note of the jobs that have ended since."""
        state, trace = self._engine.state, self._trace
        running = state.running
        for job in [job for job in self._running if job not in running]:
            del self._running[job]
            if state.end[job] != NEVER:
                seconds, ended = float(trace.duration[job]), float(state.end[job])
                name, queue, pods = self._like(job)
                self._history.add(FinishedRun(name, queue, pods, seconds, ended))
                self._history.add(FinishedRun(_EVERY, _EVERY, 1, seconds, ended))
        if len(running) != len(self._running):
            self._running.update((job, start) for job, (start, _) in running.items() if job not in self._running)

    def _like(self, job: int) -> tuple[str, str, int]:
        """Jobs of one queue with as many GPUs are alike."""
        trace = self._trace
        gpus = int(trace.gpus[job])
        queue = trace.queues[trace.queue[job]]
        return f"{queue}/gpus{gpus}", queue, max(1, -(-gpus // self._engine.fabric.gpus_per_host))

    def _durations(self, job: int, elapsed: float, draws: Floats) -> Floats:
        """How long a job runs in all, once for each draw between 0 and 1."""
        found = self._history.longer(*self._like(job), elapsed) or self._history.longer(_EVERY, _EVERY, 1, elapsed)
        if found is None:  # longer than any before: as long again as it has run, give or take
            return max(elapsed, 1.0) / (1 - draws)
        durations, _ = found
        return durations[(draws * len(durations)).astype(np.int64)]

    def _fresh(self, jobs: Ints, rng: np.random.Generator) -> Floats:
        """How long jobs run that have not begun, drawn for those that are alike together."""
        trace = self._trace
        alike, which = np.unique(trace.queue[jobs] * (1 << 20) + trace.gpus[jobs], return_inverse=True)
        found = np.empty(len(jobs))
        for number in range(len(alike)):
            own = np.flatnonzero(which == number)
            found[own] = self._durations(int(jobs[own[0]]), 0.0, rng.random(len(own)))
        return found

    def ahead(self, job: int, runs: int, seed: int) -> list[float]:
        """When a waiting job starts in each of so many runs ahead."""
        engine = self._engine
        state, trace, now = engine.state, engine.trace, engine.state.clock
        rng = np.random.default_rng((seed, job))
        known = np.array(sorted((*state.running, *state.waiting)), dtype=np.int64)
        place = {number: i for i, number in enumerate(known.tolist())}
        left = np.empty((runs, len(known)))
        for i, number in enumerate(known.tolist()):
            draws = (rng.permutation(runs) + rng.random(runs)) / runs
            elapsed = now - state.running[number][0] if number in state.running else 0.0
            left[:, i] = np.maximum(1.0, self._durations(number, elapsed, draws) - elapsed)
        rules = replace(engine.rules, incidents=())
        starts = []
        for run in range(runs):
            later, when = self._arrivals(rng)
            after = self._fresh(later, rng)
            every = np.concatenate((known, later))
            ahead = Trace(
                trace.name,
                np.concatenate((trace.arrival[known], when)),
                np.concatenate((left[run], after)),
                trace.gpus[every],
                trace.priority[every],
                trace.queue[every],
                trace.queues,
                {new: trace.least[old] for new, old in enumerate(every.tolist()) if old in trace.least},
                {new: trace.pods[old] for new, old in enumerate(every.tolist()) if old in trace.pods},
            )
            begun = ReplayState.at_start(ahead)
            begun.clock, begun.arrived = now, len(known)
            begun.running = {place[number]: (now, rows) for number, (_, rows) in state.running.items()}
            begun.waiting = {place[number] for number in state.waiting}
            run_ahead = Engine(engine.fabric, ahead, engine.contender, rules, begun, measured=False)
            starts.append(_start_of(place[job], run_ahead))
        return starts

    def _arrivals(self, rng: np.random.Generator) -> tuple[Ints, Floats]:
        """Jobs that come from now on, and when: as in a stretch of the past that begins at some job, in a circle."""
        state, trace = self._engine.state, self._engine.trace
        past = trace.arrival[: state.arrived]
        number = min(_ARRIVALS, state.arrived)
        order = (int(rng.integers(state.arrived)) + np.arange(number)) % state.arrived
        gaps = np.diff(past, append=state.clock)
        return (order + 1) % state.arrived, state.clock + np.cumsum(gaps[order])


def calibration_wire(name: str, asked: Sequence[Asked]) -> Data:
    """The shares of jobs that started inside the stated ranges, as JSON data."""
    sizes = sorted({_size(one.gpus) for one in asked})
    return {
        "name": name,
        **_shares(asked),
        "by_size": [{"gpus": list(size), **_shares([a for a in asked if _size(a.gpus) == size])} for size in sizes],
    }


def _size(gpus: int) -> tuple[int, int]:
    return (1, 1) if gpus == 1 else (2, 8) if gpus <= 8 else (9, 1 << 30)


def _shares(asked: Sequence[Asked]) -> Data:
    def share(inside: Sequence[bool]) -> float | None:
        return round(sum(inside) / len(inside), 4) if inside else None

    def median(numbers: Sequence[float], digits: int = 1) -> float | None:
        found = float(np.median(numbers)) if numbers else inf
        return round(found, digits) if found < inf else None

    waits = [one.start - one.at for one in asked]
    half = [one.said.half[1] - one.said.half[0] for one in asked]
    most = [one.said.most[1] - one.said.most[0] for one in asked]
    return {
        "asked": len(asked),
        "inside_50": share([one.inside(one.said.half) for one in asked]),
        "inside_90": share([one.inside(one.said.most) for one in asked]),
        "runs_alone_50": share([one.inside(one.runs.half) for one in asked]),
        "runs_alone_90": share([one.inside(one.runs.most) for one in asked]),
        "waited_seconds_median": median(waits),
        "width_50_seconds_median": median(half),
        "width_90_seconds_median": median(most),
        "sharpness_50": median([width / max(wait, 1.0) for width, wait in zip(half, waits, strict=True)], 2),
        "sharpness_90": median([width / max(wait, 1.0) for width, wait in zip(most, waits, strict=True)], 2),
    }
