"""Rows about clusters over time: events of a replay in a second, its memory, and what jobs cost their controllers.

A drawn trace on a drawn fabric, about as large and as busy as the public ones of the guide on simulation; those
themselves where a folder with them is named.
"""

from __future__ import annotations

import tracemalloc
from collections import deque
from functools import partial
from pathlib import Path

from tierwise.api.codec import Raw
from tierwise.config.profile import DEFAULT
from tierwise.controllers import Controllers
from tierwise.port import Key
from tierwise.sim.cluster.simulation import Simulation
from tierwise.sim.cluster.store import EmbeddedCluster
from tierwise_lab.bench.lab import Lab, Measured, row
from tierwise_lab.bench.manifests import Manifest, job, node, racks, read_manifests
from tierwise_lab.bench.measure import at_least, at_most, compared, gc_off, in_turns, timed
from tierwise_lab.replay.engine.contenders import BUILT_IN
from tierwise_lab.replay.engine.embedded import EmbeddedReplay
from tierwise_lab.replay.engine.engine import Engine
from tierwise_lab.replay.engine.rules import Rules
from tierwise_lab.replay.traces.fabric import Fabric
from tierwise_lab.replay.traces.readers import read_fabric, read_trace
from tierwise_lab.replay.traces.synthetic import synthetic_fabric, synthetic_trace
from tierwise_lab.replay.traces.trace import Trace

__all__ = []

_GPUS_PER_HOST = 8
_PODS = 25  # of a job
_LOAD = 0.9
_FABRIC = "spines=3,leaves=40,hosts=7"
_TOPOLOGY, _JOBS = "lingjun_topology.csv", "philly_jobs.csv"


@row("S3a", at_least(2_000))
def _s3a(lab: Lab) -> Measured:
    """Events of a replay per second of processor time."""
    fabric, trace = _world(lab, lab.size.replayed)
    engine = Engine(fabric, trace, BUILT_IN["default"](1), Rules())
    what = f"a replay, {len(trace):,} jobs of {trace.name} on {len(fabric.nodes):,} hosts at load {_LOAD}"
    measured = _rate(what, engine)
    if len(engine.state.finished()) < len(trace):
        raise RuntimeError("every job is meant to end")
    return measured


@row("S3c", at_most(2, 1.5))
def _s3c(lab: Lab) -> Measured:
    """Replays in which jobs that wait have reservations, the slower of both kinds, against one without."""
    jobs = lab.size.weighed // 4
    fabric = synthetic_fabric("spines=2,leaves=8,hosts=8", _GPUS_PER_HOST)
    trace = synthetic_trace(f"jobs={jobs},largest=128", 1).at_load(_LOAD, fabric.gpus)
    runs = (partial(_replayed, fabric, trace, name) for name in ("default", "easy", "conservative"))
    without, *reserved = in_turns(2, *runs)
    what = f"a replay of {jobs:,} jobs on {len(fabric.nodes):,} hosts with reservations ÷ without"
    return compared(what, max(reserved), without)


def _replayed(fabric: Fabric, trace: Trace, profile: str) -> None:
    deque(Engine(fabric, trace, BUILT_IN[profile](1), Rules()).run(), 0)


def _rate(what: str, replay: Engine | EmbeddedReplay) -> Measured:
    """The events of a replay in a second."""
    with gc_off():
        seconds, _ = timed(lambda: deque(replay.run(), 0))
    state = replay.state
    details = f"({state.events:,} events and {state.cycles:,} cycles in {seconds:.1f} s)"
    return f"events/s of {what} {details}", state.events / seconds


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
    peak_before, second = peaks
    what = (
        f"peak memory of the second half of a replay ÷ of the first, {len(trace):,} jobs of {trace.name}"
        f" ({second / 2**20:.1f} MiB ÷ {peak_before / 2**20:.1f} MiB)"
    )
    return what, second / peak_before


def _world(lab: Lab, jobs: int) -> tuple[Fabric, Trace]:
    """So many jobs drawn, or, for speed, all of the public ones; arrivals offer the same load."""
    if lab.data is None:
        fabric = synthetic_fabric(_FABRIC, _GPUS_PER_HOST)
        return fabric, synthetic_trace(f"jobs={jobs},largest=128", 1).at_load(_LOAD, fabric.gpus)
    fabric = read_fabric(str(Path(lab.data, _TOPOLOGY)), _GPUS_PER_HOST)
    trace = read_trace(str(Path(lab.data, _JOBS))).at_load(_LOAD, fabric.gpus)
    return fabric, trace if jobs == lab.size.replayed else trace.first(jobs)


# Jobs that controllers look after.


class _Following:
    """Controllers of a cluster full of running jobs, all at rest."""

    def __init__(self, jobs: int) -> None:
        self._cluster = EmbeddedCluster(read_manifests(job(i, _PODS) for i in range(jobs)))
        self._controllers = Controllers()
        self._pod = Key("", "Pod", "d", f"j{jobs // 2}-w-3")
        self._settle()
        self._put("PodGroup", {"status": {"phase": "Running"}})
        self._settle()
        self._put("Pod", {"status": {"phase": "Running"}})
        self._settle()

    def seconds(self, *statuses: Raw) -> float:
        """Apply the statuses to the pod one after the other, and return the shortest time in seconds that the
        controllers need to follow one. The first two warm up and do not count, so it needs three or more.
        """
        durations = []
        for status in statuses:
            self._put("Pod", {"status": status}, self._pod)
            with gc_off():
                durations.append(self._settle())
        return min(durations[2:])

    def _put(self, kind: str, fields: Raw, key: Key | None = None) -> None:
        objects = self._cluster.read()
        keys = [key] if key is not None else [key for key in objects if key.kind == kind]
        self._cluster = EmbeddedCluster(objects.changed({key: {**(objects.raw(key) or {}), **fields} for key in keys}))

    def _settle(self) -> float:
        total = 0.0
        while True:
            seconds, effects = timed(lambda: self._controllers.run(self._cluster.read(), 0.0))
            total += seconds
            if not effects:
                return total
            self._cluster.apply(effects)


def _following(lab: Lab) -> _Following:
    return lab.once("jobs", lambda: _Following(lab.size.pods // 2 // _PODS))


@row("C1a", at_most(20, 5))
def _c1a(lab: Lab) -> Measured:
    """A kubelet writes something about a pod that no controller minds."""
    touched: list[Raw] = [{"phase": "Running", "hostIP": f"10.0.0.{i}"} for i in range(lab.size.repeats + 2)]
    seconds = _following(lab).seconds(*touched)
    what = f"ms for the controllers to follow a pod's status at {lab.size.pods // 2:,} pods in jobs of {_PODS}"
    return what, seconds * 1e3


@row("C1b", at_most(20, 5))
def _c1b(lab: Lab) -> Measured:
    """A pod of a job ends, and runs again."""
    states: tuple[Raw, ...] = ({"phase": "Succeeded"}, {"phase": "Running"})
    seconds = _following(lab).seconds(*(states * (lab.size.repeats // 2 + 1)))
    what = f"ms for the controllers to follow a pod that ends at {lab.size.pods // 2:,} pods in jobs of {_PODS}"
    return what, seconds * 1e3


@row("C1c", at_least(50, 500))
def _c1c(lab: Lab) -> Measured:
    """Events of a replay through the controllers, per second."""
    fabric = synthetic_fabric("spines=2,leaves=5,hosts=10", _GPUS_PER_HOST)
    trace = synthetic_trace(f"jobs={lab.size.weighed // 10},largest=128", 1).at_load(_LOAD, fabric.gpus)
    replay = EmbeddedReplay(fabric, trace, BUILT_IN["default"](1), Rules())
    return _rate(f"a replay through the controllers, {len(trace):,} jobs on {len(fabric.nodes):,} hosts", replay)


@row("C1d", at_most(2, 1.2))
def _c1d(lab: Lab) -> Measured:
    """Jobs submitted at once and lived through to their end: whether four times as many take four times as long."""
    jobs = max(1, lab.size.everyday // 100)
    few, many = (_lived(lab, number) / number for number in (jobs, 4 * jobs))
    return compared(f"seconds a job to live through {4 * jobs:,} submitted jobs ÷ {jobs:,}", many, few)


def _lived(lab: Lab, jobs: int) -> float:
    nodes = lab.size.everyday // 50
    submitted: list[Manifest] = [job(i, 4, run_for="60s") for i in range(jobs)]
    world = read_manifests([*(node(i) for i in range(nodes)), *racks(nodes), *submitted])
    life = Simulation(world, DEFAULT, start=0.0)
    with gc_off():
        return timed(lambda: deque(life.run(3600), 0))[0]
