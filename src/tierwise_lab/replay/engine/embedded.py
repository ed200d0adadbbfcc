"""A replay through the embedded cluster: every job is a Volcano Job; controllers, cycles and kubelets do the rest."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import groupby

import numpy as np

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.api.core import Pod, parse_time
from tierwise.api.manifest import manifest, members
from tierwise.api.volcano import Job
from tierwise.controllers.workqueue import Index
from tierwise.model.job import Queue
from tierwise.model.topology import ROOT
from tierwise.port import Create, Effect, Objects, PatchStatus, key_of
from tierwise.sim.cluster.pod_behaviour import RUN_FOR, START_AFTER
from tierwise.sim.cluster.simulation import Simulation
from tierwise_lab.replay.engine.cluster import ReplayCluster
from tierwise_lab.replay.engine.contenders import Contender, plugins
from tierwise_lab.replay.engine.rules import Rules
from tierwise_lab.replay.engine.state import ReplayState
from tierwise_lab.replay.traces.fabric import AXIS, NAMESPACE, Fabric, amounts
from tierwise_lab.replay.traces.trace import QUEUE, Sizes, Trace

__all__ = ["EmbeddedReplay"]


# A fabric and the jobs of a trace as API objects: nodes, hyperNodes, queues and Volcano Jobs.
#
# Names sort as those of the model do, so that ties fall the same way whichever way a trace is replayed.


JOB_NAME = "volcano.sh/job-name"
"""The annotation of a pod that names its Job."""

_VOLCANO = "scheduling.volcano.sh/v1beta1"
_LOST = {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}
_ENDLESS = 1_000_000
"""Retries of a job: in a replay a gang that stops always comes back."""


def cluster_of(fabric: Fabric, trace: Trace, queues: tuple[Queue, ...]) -> Objects:
    """The cluster before anybody comes: nodes, the tree over them, queues and classes of priority."""
    manifests = [
        *map(_node, fabric.nodes.names, fabric.nodes.allocatable.T.tolist()),
        *(_hypernode(fabric, domain) for domain in range(ROOT + 1, len(fabric.topology))),
        *map(_queue, queues or (Queue(QUEUE),)),
        *(_class(priority) for priority in sorted(set(trace.priority.tolist()))),
    ]
    return Objects.of((codec.decode(raw), raw) for raw in manifests)


def job_of(trace: Trace, job: int, gpus_per_host: int, *, aware: bool) -> Raw:
    """A job of the trace as a Volcano Job that starts whole, restarts as a whole, and is gone when it has ended."""
    sizes = trace.sizes(job, gpus_per_host)
    roles = enumerate(_roles(sizes))
    tasks = [_task(f"r{i}", number, gpus, float(trace.duration[job])) for i, (gpus, number) in roles]
    spec: Raw = {
        "schedulerName": "volcano",
        "minAvailable": len(sizes),
        "queue": trace.queues[trace.queue[job]],
        "priorityClassName": _named(int(trace.priority[job])),
        "maxRetry": _ENDLESS,
        "ttlSecondsAfterFinished": 0,
        "policies": [{"event": event, "action": "RestartJob"} for event in ("PodEvicted", "PodFailed")],
        "tasks": tasks,
    }
    if aware:
        spec["networkTopology"] = {"mode": "soft"}
    return manifest("batch.volcano.sh/v1alpha1", "Job", f"job-{job}", NAMESPACE, spec=spec)


def number_of(name: str) -> int:
    """The place in the trace of a Job with this name."""
    return int(name.rpartition("-")[2])


def _roles(sizes: Sizes) -> list[tuple[int, int]]:
    """GPUs and number of pods that are alike, in the order of ranks."""
    return [(gpus, len(list(alike))) for gpus, alike in groupby(sizes)]


def rank_of(pod: str, sizes: Sizes) -> int:
    """The rank of a pod among those of its gang."""
    _, role, index = pod.rsplit("-", 2)
    return sum(number for _, number in _roles(sizes)[: int(role[1:])]) + int(index)


def run_for(seconds: float) -> str:
    """A duration as the kubelets of the embedded cluster read it."""
    return f"{math.ceil(seconds)}s"


def _task(name: str, replicas: int, gpus: int, duration: float) -> Raw:
    request = _resources(amounts(gpus, 0).tolist())
    container: Raw = {"name": "train", "image": "replay", "resources": {"requests": request, "limits": request}}
    pod: Raw = {"containers": [container], "restartPolicy": "Never", "tolerations": [_LOST]}
    annotations = {START_AFTER: "0s", **({RUN_FOR: run_for(duration)} if duration < math.inf else {})}
    return {"name": name, "replicas": replicas, "template": {"metadata": {"annotations": annotations}, "spec": pod}}


def _resources(values: list[int]) -> dict[str, str]:
    """Amounts of the axis as quantities; cpu is counted in thousandths."""
    return {
        name: f"{value}m" if name == "cpu" else str(value)
        for name, value in zip(AXIS.names, values, strict=True)
        if value
    }


def _node(name: str, allocatable: list[int]) -> Raw:
    status: Raw = {"allocatable": _resources(allocatable), "conditions": [{"type": "Ready", "status": "True"}]}
    return manifest("v1", "Node", name, status=status)


def _hypernode(fabric: Fabric, domain: int) -> Raw:
    topology = fabric.topology
    below = members("HyperNode", (_path(topology.name[child]) for child in topology.children[domain]))
    below += members("Node", fabric.nodes.names[topology.own_span(domain)])
    spec = {"tier": int(topology.tier[domain]), "members": below}
    return manifest("topology.volcano.sh/v1alpha1", "HyperNode", _path(topology.name[domain]), spec=spec)


def _path(name: str) -> str:
    return name.replace("/", ".").lower()


def _queue(queue: Queue) -> Raw:
    deserved = _resources([queue.deserved.get(name, 0) for name in AXIS.names])
    spec: Raw = {"weight": queue.weight, "reclaimable": True, **({"deserved": deserved} if deserved else {})}
    return manifest(_VOLCANO, "Queue", queue.name, spec=spec, status={"state": "Open"})


def _class(priority: int) -> Raw:
    return manifest("scheduling.k8s.io/v1", "PriorityClass", _named(priority), value=priority)


def _named(priority: int) -> str:
    return f"priority-{priority}"


_START = 1_500_000_000.0
"""When the first job arrives: API objects have times, and any will do."""

_FOREVER = 1e12


class EmbeddedReplay(ReplayCluster):
    """One trace on one fabric under one contender, lived through.

    It is the user of an embedded cluster, who submits each job when it arrives, and writes down what is seen from
    outside; a gang that was stopped goes on from its last checkpoint.
    """

    def __init__(self, fabric: Fabric, trace: Trace, contender: Contender, rules: Rules) -> None:
        super().__init__(fabric, trace.in_whole_seconds(), contender, rules)
        self._ahead = [type(incident)(round(incident.after), incident.node) for incident in rules.incidents]
        self._submitted = 0
        self._now = -math.inf
        self._stopped: list[int] = []  # jobs that were stopped before this moment, and are not over
        self._before = self._seen = Objects()  # at the end of the moment before, and when pods were last looked at
        self._pods = Index(Pod, _job_of)
        self._touched: set[int] = set()  # jobs of which pods have changed since the moment before
        self._working: dict[int, tuple[float, tuple[int, ...]]] = {}  # gangs of which every pod runs, see `_follow`
        self._life = Simulation(
            cluster_of(fabric, self.trace, rules.queues),
            contender.profile,
            start=_START,
            incidents=self._ahead,
            user=self,
            plugins=plugins(),
            log=False,
        )

    def run(self) -> Iterator[ReplayState]:
        """Live to the end; yields after every moment, where a caller may look."""
        for moment in self._life.run(_FOREVER):
            self._keep(moment.at, moment.objects)
            self._life.forget()
            self.state.cycles = self._life.cycles
            yield self.state
            if self.over():
                return

    def _keep(self, at: float, objects: Objects) -> None:
        """Write down what happened since the moment before: arrivals, hosts, ends, stops and starts, in this order."""
        state = self.state
        self.advance(at)
        while state.arrived < len(self.trace) and self.trace.arrival[state.arrived] <= at:
            self.arrive()
            state.events += 1
        while state.incidents < len(self._ahead) and self._ahead[state.incidents].after <= at:
            self.host(self._ahead[state.incidents])
            state.events += 1
        touched = self._follow(objects)
        jobs = objects.every(Job)
        working = self._working
        for job in [job for job in state.running if job in touched]:
            if f"{NAMESPACE}/job-{job}" not in jobs:
                self.finish(job)
                state.events += 1
            elif job not in working or working[job][0] > state.running[job][0]:
                self.evict(job)
        for job in sorted(state.waiting & working.keys()):
            since, rows = working[job]
            if since >= state.ready_since[job] and state.down.isdisjoint(rows):
                self.start(job, rows)

    def _follow(self, objects: Objects) -> set[int]:
        """Bring up to date which gangs run with every pod: since when, and on which rows in the order of ranks.

        The jobs that something has happened to.
        """
        gone = {number_of(key.name) for key in objects.changed_objects(self._before, Job).get(Job, ())}
        self._look(objects)
        touched = self._touched
        self._touched = set()
        self._before = objects
        for job in touched:
            name = f"job-{job}"
            sizes = self.gangs.sizes(job)
            running = [(pod, since) for pod in self._pods.of(name) if (since := _running_since(pod)) is not None]
            self._working.pop(job, None)
            if len(running) == len(sizes):
                rows = {rank_of(p.metadata.name, sizes): self.fabric.nodes.row[p.spec.node_name] for p, _ in running}
                start = max(since for _, since in running) - _START
                self._working[job] = start, tuple(rows[rank] for rank in sorted(rows))
        return touched | gone

    def _look(self, objects: Objects) -> None:
        self._touched.update(map(number_of, self._pods.follow(objects.changed_objects(self._seen, Pod))))
        self._seen = objects

    def act(self, objects: Objects, now: float) -> Sequence[Effect]:
        effects: list[Effect] = []
        trace = self.trace
        per_host = self.fabric.gpus_per_host
        while self._submitted < len(trace) and _START + trace.arrival[self._submitted] <= now:
            if self.holds(self._submitted):
                effects.append(Create(job_of(trace, self._submitted, per_host, aware=self.contender.aware)))
            self._submitted += 1
        if now > self._now:
            remaining = self.state.remaining  # counted at the end of each moment
            self._now, self._stopped = now, np.flatnonzero((remaining > 0) & (remaining < trace.duration)).tolist()
        if self._stopped:
            return [*effects, *self._resumed(objects)]
        return effects

    def due(self) -> float | None:
        trace = self.trace
        if self._submitted < len(trace):
            return _START + float(trace.arrival[self._submitted])
        return None

    def _resumed(self, objects: Objects) -> Iterator[Effect]:
        """Patches that set the remaining run time on the new pods of gangs that wait again."""
        remaining = self.state.remaining
        self._look(objects)
        for job in self._stopped:
            seconds_left = run_for(float(remaining[job]))
            for pod in self._pods[f"job-{job}"]:
                if pod.metadata.annotations[RUN_FOR] != seconds_left:
                    yield PatchStatus(key_of(pod), {}, {RUN_FOR: seconds_left})


def _job_of(pod: Pod) -> str:
    return pod.metadata.annotations[JOB_NAME]


def _running_since(pod: Pod) -> float | None:
    """When the containers of a pod began to run; None where they do not, or are told to stop."""
    status = next(iter(pod.status.container_statuses), None)
    if pod.metadata.deletion_timestamp or pod.status.phase != "Running" or status is None:
        return None
    if status.state.running is None:
        return None
    return parse_time(status.state.running.started_at)
