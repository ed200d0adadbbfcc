"""Everything that changes during a replay, in types that a checkpoint can hold.

What follows from the rest (idle GPUs, who ends when) is not here: the engine derives it, also when it resumes.
"""

from __future__ import annotations

from typing import Any, get_args

import msgspec
import numpy as np
from numpy.typing import NDArray

from tierwise.model.arrays import Floats, Ints
from tierwise.model.failed_starts import FailedStart
from tierwise_lab.replay.report.spread import FIGURES
from tierwise_lab.replay.traces.trace import Trace

__all__ = ["NEVER", "ReplayState", "Sample"]

NEVER = -1.0


class Sample(msgspec.Struct):
    """The cluster at one moment."""

    time: float
    held: int  # GPUs that gangs hold
    asked: int  # GPUs that waiting gangs ask for
    running: int
    waiting: int
    fragmentation: tuple[float, ...]  # by size, on the tier of leaves
    leaves: NDArray[np.int32]  # GPUs held below every leaf, in the order of the tree; kept to the end of a replay
    parted_hosts: int  # that have idle GPUs, and are not whole
    parted_leaves: int


class ReplayState(msgspec.Struct):
    """The clock, who runs where, who waits, and what was counted so far."""

    remaining: Floats  # seconds of work left, by job
    first_start: Floats
    end: Floats
    ready_since: Floats  # when it began to wait, by job: its arrival, or its last stop
    waited: Floats
    evictions: Floats  # how often, by job
    lost: Floats  # GPU-seconds of work that has to be done again, by job
    came_up: Floats  # when all of a job first ran; NEVER where it never did
    failed_starts: Floats  # how often, by job
    fewest: Floats  # leaves that could hold what last started, by job; NaN where figures are
    figures: Floats  # (jobs x FIGURES) of the last start; NaN where it never started or is one pod
    clock: float = 0.0
    arrived: int = 0
    again: float = NEVER  # when the scheduler is to look though nothing happens; NEVER where it need not
    incidents: int = 0  # so many are over
    # job -> start, rows by rank, -1 for pods that an elastic gang is without; its start is when it would have started
    # for what it has done, had it had the rows that it has
    running: dict[int, tuple[float, tuple[int, ...]]] = {}
    waiting: set[int] = msgspec.field(default_factory=set)
    refused: list[int] = []
    repairing: dict[int, tuple[int, ...]] = {}  # gangs that wait for replacements -> rows by rank, -1 for lost ones
    down: set[int] = msgspec.field(default_factory=set)  # rows out of service
    failures: int = 0  # gangs stopped by failing hosts
    useful: float = 0.0  # GPU-seconds of work that counts
    held: float = 0.0  # GPU-seconds held, over the whole run
    window_held: float = 0.0  # the same up to the last arrival
    window_service: float = 0.0  # GPU-seconds of hosts in service up to the last arrival
    window_wanted: float = 0.0  # GPU-seconds that could have been held: the smaller of asked for and in service
    halted: float = 0.0  # GPU-seconds held by gangs that wait for replacements
    failed_at: dict[int, float] = {}  # gangs of several pods that a failing host stopped -> when, until they go on
    recoveries: list[float] = []  # seconds that each of these took
    replaced: int = 0  # pods that came for those on failing hosts
    window_worked: float = 0.0  # GPU-seconds that gangs worked up to the last arrival
    window_lost: float = 0.0  # what of that has to be done again
    ring_seconds: float = 0.0  # rings on the uplink of the worst leaf, times seconds, up to the last arrival
    crowded_seconds: float = 0.0  # seconds with more than two rings on an uplink
    excess_seconds: float = 0.0  # rings beyond two on all uplinks, times seconds
    slowed: dict[int, float] = {}  # running gangs whose rings are slowed by others -> how fast they work, below 1
    failing: dict[int, tuple[float, int]] = {}  # gangs that do not come up -> when that is seen, and the row
    remembered: list[FailedStart] = []  # what a record of failed starts has of them
    in_vain: float = 0.0  # GPU-seconds held by starts that failed
    cycles: int = 0
    events: int = 0
    samples: list[Sample] = []

    @classmethod
    def at_start(cls, trace: Trace) -> ReplayState:
        jobs = len(trace)
        return cls(
            remaining=trace.duration.copy(),
            first_start=np.full(jobs, NEVER),
            end=np.full(jobs, NEVER),
            ready_since=trace.arrival.copy(),
            waited=np.zeros(jobs),
            evictions=np.zeros(jobs),
            lost=np.zeros(jobs),
            came_up=np.full(jobs, NEVER),
            failed_starts=np.zeros(jobs),
            fewest=np.full(jobs, np.nan),
            figures=np.full((jobs, len(FIGURES)), np.nan),
        )

    def kept(self) -> dict[str, Any]:
        """This state as JSON data."""
        fields: dict[str, Any] = msgspec.to_builtins(self, enc_hook=lambda values: values.tolist())
        return fields

    @classmethod
    def restored(cls, raw: dict[str, Any]) -> ReplayState:
        """A state from its JSON data."""
        return msgspec.convert(raw, cls, strict=False, dec_hook=_values)

    def finished(self) -> Ints:
        """The jobs that ended, by number."""
        return np.flatnonzero(self.end >= 0)


def _values(kind: Any, values: list[Any]) -> Any:
    """An array of the numbers that its type says."""
    return np.array(values, dtype=get_args(get_args(kind)[1])[0])
