"""Time cycles: per-gang decision times from the stamps of `watch`, and the price of reading the idle matrix once.

Every measurement is a minimum over repeats, taken with the garbage collector emptied, frozen and off, so that the
numbers speak of the code and not of what else lives in the process. Whole cycles are too long to be left alone by
other processes even once, so for them processor time counts: a cycle never waits, and on an idle core both are one.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec
import numpy as np

from tierwise.config.profile import DEFAULT
from tierwise.framework.report import CycleReport, Decision
from tierwise.model.arrays import Bools, Floats
from tierwise.model.job import Job
from tierwise.model.reason import Rejection
from tierwise.model.snapshot import Snapshot
from tierwise.scheduler import cycle, open_cycle

__all__ = ["Pass", "best_of", "decisions", "gc_off", "stream"]

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
    """Without garbage collection, and with everything that exists already out of its sight."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


def best_of(repeats: int, action: Callable[[], object], *, clock: Callable[[], float] = time.perf_counter) -> float:
    """The shortest of so many runs, in seconds."""
    shortest = float("inf")
    with gc_off():
        for _ in range(repeats):
            start = clock()
            action()
            shortest = min(shortest, clock() - start)
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
        seconds=np.min([np.diff(stamps.seconds) for stamps, _, _ in runs], axis=0),
        whole=min(whole for _, _, whole in runs),
        pods=sum(decision.count() for decision in report.decisions if decision.job is not snapshot.jobs[0]),
        report=report,
    )


def _timed(snapshot: Snapshot) -> tuple[_Stamps, CycleReport, float]:
    stamps = _Stamps()
    with gc_off():
        start = time.process_time()
        report = cycle(snapshot, DEFAULT, watch=stamps)
        whole = time.process_time() - start
    return stamps, report, whole


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
