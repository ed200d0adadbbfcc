"""Measuring: times, goals, the machine, and what a row of the table is."""

from __future__ import annotations

import gc
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import msgspec
import numpy as np

from tierwise.config.profile import DEFAULT
from tierwise.framework.report import CycleReport, Decision
from tierwise.model.arrays import Bools, Floats
from tierwise.model.job import Job, Rejection
from tierwise.model.snapshot import Snapshot
from tierwise.scheduler import cycle, open_cycle

__all__ = [
    "Goal",
    "Pass",
    "Row",
    "at_least",
    "at_most",
    "best_of",
    "compared",
    "decisions",
    "duration",
    "facts",
    "gc_off",
    "in_turns",
    "start_seconds",
    "stream",
    "timed",
]

T = TypeVar("T")


# What a row of the benchmark says: a measured number beside the goals it is held to.


class Goal(msgspec.Struct, frozen=True):
    """A gate is the least that is accepted; the stretch is what is aimed at, None where nothing more is."""

    gate: float
    stretch: float | None
    most: bool  # whether smaller is better

    def met(self, measured: float, bound: float) -> bool:
        return measured <= bound if self.most else measured >= bound


def at_most(gate: float, stretch: float | None = None) -> Goal:
    """Smaller is better."""
    return Goal(gate, stretch, most=True)


def at_least(gate: float, stretch: float | None = None) -> Goal:
    """Larger is better."""
    return Goal(gate, stretch, most=False)


class Row(msgspec.Struct, frozen=True):
    """One line of the table."""

    id: str
    what: str
    measured: float
    goal: Goal

    @property
    def gate_met(self) -> bool:
        return self.goal.met(self.measured, self.goal.gate)

    @property
    def stretch_met(self) -> bool | None:
        if self.goal.stretch is None:
            return None
        return self.goal.met(self.measured, self.goal.stretch)

    def record(self) -> dict[str, str | float | bool | None]:
        """The row as JSON has it."""
        return {
            "id": self.id,
            "what": self.what,
            "measured": float(f"{self.measured:.4g}"),
            "gate": self.goal.gate,
            "stretch": self.goal.stretch,
            "gate_met": self.gate_met,
            "stretch_met": self.stretch_met,
        }


def compared(what: str, numerator: float, denominator: float) -> tuple[str, float]:
    """Words for a ratio of two times, with both of them, and the ratio."""
    return f"{what} ({duration(numerator)} ÷ {duration(denominator)})", numerator / denominator


def duration(seconds: float) -> str:
    """Seconds for people: "1.53 s", "12.3 ms", "850 µs"."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            if seconds < 100 * size:
                return f"{seconds / size:,.3g} {unit}"
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds * 1e6:,.3g} µs"


# What the numbers were measured on.


def facts() -> dict[str, str | int]:
    """The processor, how many cores this process may use, and the versions of Python and NumPy."""
    return {
        "cpu": _cpu(),
        "cores": _cores(),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, "") or platform.processor() or platform.machine()


# How long imports take: each in a fresh process, timed inside it, so that starting Python is not counted.
#
# Processor time is counted, not time on the wall: a start has nothing to wait for but other processes.


def start_seconds(statements: Sequence[str], repeats: int) -> tuple[float, ...]:
    """The shortest run of each statement in a process of its own; they take turns, so that noise hits all alike.

    Modules are byte-compiled beforehand, as installed packages are, whatever the environment says about that.
    """
    with tempfile.TemporaryDirectory() as cache:
        inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment = inherited | {"PYTHONPYCACHEPREFIX": cache}
        for statement in statements:
            _once(statement, environment)
        runs = [[_once(statement, environment) for statement in statements] for _ in range(repeats)]
    return tuple(min(times) for times in zip(*runs, strict=True))


def _once(statement: str, environment: Mapping[str, str]) -> float:
    code = f"import time; start = time.process_time(); {statement}; print(); print(time.process_time() - start)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environment)
    return float(done.stdout.splitlines()[-1])


_STREAM_REPEATS = 200


class Pass(msgspec.Struct, frozen=True):
    """One workload decided: per gang, the lead left out, whether it was placed and how long it took."""

    placed: Bools
    seconds: Floats
    whole: float  # processor seconds of the cycle, from its opening to its report
    pods: int  # placed, the lead left out
    report: CycleReport

    def median(self) -> float:
        """Of the gangs that were placed."""
        return float(np.median(self.seconds[self.placed]))


@contextmanager
def gc_off() -> Iterator[None]:
    """Without garbage collection, and without garbage of before."""
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def best_of(repeats: int, action: Callable[[], object], *, clock: Callable[[], float] = time.perf_counter) -> float:
    """The shortest of so many runs, in seconds."""
    shortest = float("inf")
    with gc_off():
        for _ in range(repeats):
            start = clock()
            action()
            shortest = min(shortest, clock() - start)
    return shortest


def timed(action: Callable[[], T]) -> tuple[float, T]:
    """Processor seconds of one run, and what it gives."""
    start = time.process_time()
    result = action()
    return time.process_time() - start, result


def in_turns(repeats: int, *actions: Callable[[], object]) -> list[float]:
    """The shortest of so many runs of each action, in processor seconds; they take turns, so that noise hits all alike.

    For ratios: minutes of a shared core differ by half, and two measurements one after the other would as well.
    """
    shortest = [float("inf")] * len(actions)
    with gc_off():
        for _ in range(repeats):
            for i, action in enumerate(actions):
                shortest[i] = min(shortest[i], timed(action)[0])
    return shortest


def stream(snapshot: Snapshot) -> float:
    """Seconds to read the cycle's idle matrix once: the floor that decisions are measured against."""
    idle = open_cycle(snapshot, DEFAULT).ledger.idle
    return best_of(_STREAM_REPEATS, idle.min)


def decisions(snapshot: Snapshot, repeats: int) -> Pass:
    """Decide a workload so many times; per gang the shortest time counts. Outcomes must not differ between repeats."""
    runs = [_timed(snapshot) for _ in range(repeats)]
    if len({(tuple(stamps.jobs), tuple(stamps.placed)) for stamps, _, _ in runs}) > 1:
        raise RuntimeError("two runs over one snapshot decided differently")
    stamps, report, _ = runs[0]
    return Pass(
        placed=np.array(stamps.placed[1:], dtype=bool),
        seconds=np.diff(np.array([stamps.seconds for stamps, _, _ in runs])).min(axis=0),
        whole=min(cycle_seconds for _, _, cycle_seconds in runs),
        pods=sum(decision.count() for decision in report.decisions if decision.job is not snapshot.jobs[0]),
        report=report,
    )


def _timed(snapshot: Snapshot) -> tuple[_Stamps, CycleReport, float]:
    stamps = _Stamps()
    with gc_off():
        seconds, report = timed(lambda: cycle(snapshot, DEFAULT, watch=stamps))
    return stamps, report, seconds


class _Stamps:
    """Notes the moment of every outcome."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.jobs: list[int] = []
        self.placed: list[bool] = []

    def __call__(self, job: Job, outcome: Decision | Rejection) -> None:
        self.seconds.append(time.perf_counter())
        self.jobs.append(job.number)
        self.placed.append(isinstance(outcome, Decision))
