"""Rows about replays: how many events of a trace pass in a second, and whether memory stays what it was.

A drawn trace on a drawn fabric, about as large and as busy as the public ones of the guide on simulation; those
themselves where a folder with them is named.
"""

from __future__ import annotations

import tracemalloc
from collections import deque
from pathlib import Path

from tierwise.bench.lab import Lab, Measured, row
from tierwise.bench.measure import at_least, at_most, gc_off, timed
from tierwise.replay.engine.contenders import BUILT_IN
from tierwise.replay.engine.engine import Engine
from tierwise.replay.engine.rules import Rules
from tierwise.replay.traces.fabric import Fabric
from tierwise.replay.traces.readers import read_fabric, read_trace
from tierwise.replay.traces.synthetic import synthetic_fabric, synthetic_trace
from tierwise.replay.traces.trace import Trace

__all__ = []

_GPUS_PER_HOST = 8
_LOAD = 0.9
_FABRIC = "spines=3,leaves=40,hosts=7"
_TOPOLOGY, _JOBS = "lingjun_topology.csv", "philly_jobs.csv"


@row("S3a", at_least(2_000))
def _s3a(lab: Lab) -> Measured:
    """Events of a replay per second of processor time."""
    fabric, trace = _world(lab, lab.size.replayed)
    engine = Engine(fabric, trace, BUILT_IN["default"](1), Rules())
    with gc_off():
        seconds, _ = timed(lambda: deque(engine.run(), 0))
    state = engine.state
    if len(state.finished()) < len(trace):
        raise RuntimeError("every job is meant to end")
    what = (
        f"events/s of a replay, {len(trace):,} jobs of {trace.name} on {len(fabric.nodes):,} hosts at load {_LOAD}"
        f" ({state.events:,} events and {state.cycles:,} cycles in {seconds:.1f} s)"
    )
    return what, state.events / seconds


@row("S3b", at_most(1.2, 1.05))
def _s3b(lab: Lab) -> Measured:
    """Peak memory of the second half of a replay against that of the first; counted by Python, which takes time."""
    peaks: list[int] = []
    tracemalloc.start()
    try:
        fabric, trace = _world(lab, lab.size.weighed)
        engine = Engine(fabric, trace, BUILT_IN["default"](1), Rules())
        for state in engine.run():
            if not peaks and state.events >= len(trace):  # every job arrives and ends: this is the middle
                peaks.append(tracemalloc.get_traced_memory()[1])
                tracemalloc.reset_peak()
        peaks.append(tracemalloc.get_traced_memory()[1])
    finally:
        tracemalloc.stop()
    first, second = peaks
    what = (
        f"peak memory of the second half of a replay ÷ of the first, {len(trace):,} jobs of {trace.name}"
        f" ({second / 2**20:.1f} MiB ÷ {first / 2**20:.1f} MiB)"
    )
    return what, second / first


def _world(lab: Lab, jobs: int) -> tuple[Fabric, Trace]:
    """So many jobs drawn, or, for speed, all of the public ones; arrivals offer the same load."""
    if lab.data is None:
        fabric = synthetic_fabric(_FABRIC, _GPUS_PER_HOST)
        return fabric, synthetic_trace(f"jobs={jobs},largest=128", 1).at_load(_LOAD, fabric.gpus)
    fabric = read_fabric(str(Path(lab.data, _TOPOLOGY)), _GPUS_PER_HOST)
    trace = read_trace(str(Path(lab.data, _JOBS))).at_load(_LOAD, fabric.gpus)
    return fabric, trace if jobs == lab.size.replayed else trace.first(jobs)
