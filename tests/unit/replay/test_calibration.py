"""Forecasts of starts in replays: they know the past alone, and their shares are counted."""

from __future__ import annotations

from math import inf

import numpy as np
from msgspec.structs import replace
from tests.support.commands import answer, run

from tierwise.config.profile import DEFAULT
from tierwise.sim.forecast.start_ranges import StartRange
from tierwise_lab.replay.engine.calibration import Asked, calibrate, calibration_wire
from tierwise_lab.replay.engine.contenders import Contender
from tierwise_lab.replay.engine.engine import Engine
from tierwise_lab.replay.engine.rules import HISTORY, Rules
from tierwise_lab.replay.traces.synthetic import synthetic_fabric, synthetic_trace
from tierwise_lab.replay.traces.trace import Trace

FABRIC = synthetic_fabric("synthetic:spines=1,leaves=2,hosts=1", 8)
TRACE = synthetic_trace("synthetic:jobs=120,gap=300,largest=8,queues=2", 5)
RULES = Rules(durations=HISTORY)
ARGUMENTS = (
    *("simulate", "--topology", "synthetic:spines=1,leaves=2,hosts=1"),
    *("--trace", "synthetic:jobs=120,gap=300,largest=8,queues=2", "--calibrate-eta", 4),
)


def first_asked(trace: Trace) -> Asked:
    """The first job that is asked about, where all are, and what was said of it."""
    return next(calibrate(FABRIC, trace, Contender("default", DEFAULT), RULES, asks=1 << 30, runs=3))[0]


def test_a_forecast_knows_nothing_of_the_future() -> None:
    """Whatever becomes of jobs that have not ended or not come when somebody asks, the answer is the same."""
    asked = first_asked(TRACE)
    engine = Engine(FABRIC, TRACE, Contender("default", DEFAULT), RULES)
    ended = next(state.end >= 0 for state in engine.run() if state.clock == asked.at)
    other = replace(
        TRACE,
        duration=np.where(ended, TRACE.duration, 10 * TRACE.duration),
        arrival=np.where(TRACE.arrival > asked.at, TRACE.arrival + 5000.0, TRACE.arrival),
    )

    assert (~ended).any()
    assert replace(asked, start=0.0) == replace(first_asked(other), start=0.0)


def test_shares_are_those_of_starts_inside() -> None:
    """A start at the end of a range is inside; sizes are told apart."""
    runs, said = StartRange(10.0, (9.0, 11.0), (5.0, 20.0)), StartRange(10.0, (8.0, 12.0), (2.0, 40.0))
    asked = [Asked(1, 1, 0.0, runs, said, start) for start in (8.0, 10.0, 30.0)]
    asked.append(Asked(2, 64, 0.0, runs, said, 41.0))
    wire = calibration_wire("default", asked)

    assert (4, 0, 0.5, 0.75) == tuple(wire[key] for key in ("asked", "unknown", "inside_50", "inside_90"))
    assert (0.25, 0.5) == (wire["runs_alone_50"], wire["runs_alone_90"])
    assert (0.27, 2.53) == (wire["sharpness_50"], wire["sharpness_90"])
    assert [[1, 1], [9, 1 << 30]] == [size["gpus"] for size in wire["by_size"]]  # type: ignore[attr-defined]


def test_what_is_unknown_is_no_range() -> None:
    """A job that no run ahead came to start is counted as such, and neither inside nor outside."""
    known, never = StartRange(10.0, (9.0, 11.0), (5.0, 20.0)), StartRange(inf, (inf, inf), (inf, inf))
    asked = [Asked(job, 1, 0.0, runs, runs, 10.0) for job, runs in enumerate((known, never, never))]
    wire = calibration_wire("default", asked)

    assert (3, 2, 1.0) == (wire["asked"], wire["unknown"], wire["inside_50"])
    assert calibration_wire("default", asked[1:])["inside_90"] is None


def test_the_command_line_counts_them() -> None:
    """As many jobs are asked about as was said, and equal seeds print equal bytes."""
    found = answer(*ARGUMENTS)

    assert 4 == found["calibration"][0]["asked"]
    assert 1 == found["seed"]
    assert run(*ARGUMENTS).stdout.startswith("profile  GPUs")


def test_other_kinds_of_replays_are_refused() -> None:
    """Forecasts are made where the cycle is called."""
    result = run(*ARGUMENTS, "--through", "controllers")

    assert 2 == result.exit_code
    assert "--calibrate-eta" in result.stderr


def test_a_rule_without_a_cycle_is_refused() -> None:
    """There is nothing to run ahead."""
    result = run(*ARGUMENTS, "--profile", "tree")

    assert 2 == result.exit_code
    assert "tree is no profile" in result.stderr
