"""Rows about jobs that controllers look after: what an event costs them, and how fast a simulated cluster lives.

Seconds are processor time.
"""

from __future__ import annotations

from collections import deque

from tierwise.api.codec import Raw
from tierwise.bench.lab import Lab, Measured, row
from tierwise.bench.manifests import Manifest, job, node, racks, read_manifests
from tierwise.bench.measure import at_least, at_most, compared, gc_off, timed
from tierwise.config.profile import DEFAULT
from tierwise.controllers import Controllers
from tierwise.port import Key
from tierwise.replay.engine.contenders import BUILT_IN
from tierwise.replay.engine.embedded import EmbeddedReplay
from tierwise.replay.engine.rules import Rules
from tierwise.replay.traces.synthetic import synthetic_fabric, synthetic_trace
from tierwise.sim.cluster.simulation import Simulation
from tierwise.sim.cluster.store import EmbeddedCluster

__all__ = []

_PODS = 25  # of a job
_FABRIC = "spines=2,leaves=5,hosts=10"


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
        """What the controllers take to follow one of these changes of a pod's status; the shortest."""
        found = []
        for status in statuses:
            self._put("Pod", {"status": status}, self._pod)
            with gc_off():
                found.append(self._settle())
        return min(found[2:])

    def _put(self, kind: str, fields: Raw, key: Key | None = None) -> None:
        objects = self._cluster.read()
        keys = [key] if key is not None else [key for key in objects if key.kind == kind]
        self._cluster = EmbeddedCluster(objects.changed({key: {**(objects.raw(key) or {}), **fields} for key in keys}))

    def _settle(self) -> float:
        taken = 0.0
        while True:
            seconds, asked = timed(lambda: self._controllers.run(self._cluster.read(), 0.0))
            taken += seconds
            if not asked:
                return taken
            self._cluster.apply(asked)


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
    fabric = synthetic_fabric(_FABRIC, 8)
    trace = synthetic_trace(f"jobs={lab.size.weighed // 10},largest=128", 1).at_load(0.9, fabric.gpus)
    replay = EmbeddedReplay(fabric, trace, BUILT_IN["default"](1), Rules())
    with gc_off():
        seconds, _ = timed(lambda: deque(replay.run(), 0))
    what = (
        f"events/s of a replay through the controllers, {len(trace):,} jobs on {len(fabric.nodes):,} hosts"
        f" ({replay.state.events:,} events and {replay.state.cycles:,} cycles in {seconds:.1f} s)"
    )
    return what, replay.state.events / seconds


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
