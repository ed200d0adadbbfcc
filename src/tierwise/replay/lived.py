"""A replay through the embedded cluster: every job is a Volcano Job, and controllers, cycles and kubelets do the rest.

Slower than `engine` by far, and closer to a cluster: podGroups are queued, pods are made, bound and started, gangs are
restarted by the life-cycle policies of their Jobs, lost machines are noticed late. Time goes in whole seconds, and a
cycle runs at every moment at which something has changed. What happens is read off the objects and kept in the same
books, so the same numbers come out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tierwise.api.core import Pod
from tierwise.api.meta import parse_time
from tierwise.api.volcano import Job
from tierwise.port import Create, Effect, Objects, PatchStatus, key_of
from tierwise.replay.books import Books
from tierwise.replay.contenders import Contender, plugins
from tierwise.replay.fabric import NAMESPACE, Fabric
from tierwise.replay.objects import JOB_NAME, cluster_of, job_of, number_of, rank_of, run_for
from tierwise.replay.rules import Rules
from tierwise.replay.state import State
from tierwise.replay.trace import Trace
from tierwise.sim.habits import RUN_FOR
from tierwise.sim.incidents import NodeBack, NodeLost
from tierwise.sim.life import Life

__all__ = ["Lived"]

_START = 1_500_000_000.0
"""When the first job arrives: API objects have times, and any will do."""

_FOREVER = 1e12


class Lived:
    """One trace on one fabric under one contender, lived through."""

    def __init__(self, fabric: Fabric, trace: Trace, contender: Contender, rules: Rules) -> None:
        self.trace = (trace if rules.queues else trace.in_one_queue()).in_whole_seconds()
        self.fabric, self.contender, self.rules = fabric, contender, rules
        self._books = Books(fabric, self.trace, contender, rules, None)
        self.state = self._books.state
        self._ahead = _incidents(fabric, rules)
        self._life = Life(
            cluster_of(fabric, self.trace, rules.queues),
            contender.profile,
            start=_START,
            incidents=self._ahead,
            user=_Submitter(self._books, aware=contender.aware),
            plugins=plugins(),
        )

    def run(self) -> Iterator[State]:
        """Live to the end; yields after every moment, where a caller may look."""
        for moment in self._life.run(_FOREVER):
            self._keep(moment.at, moment.objects)
            self._life.forget()
            self.state.cycles = self._life.cycles
            yield self.state
            if self._over():
                return

    def _over(self) -> bool:
        """Whether every job has come and gone; failures that are still to come concern nobody."""
        return self.state.arrived == len(self.trace) and not self.state.running and not self.state.waiting

    def _keep(self, at: float, objects: Objects) -> None:
        """Write down what happened since the moment before: arrivals, hosts, ends, stops and starts, in this order."""
        state, books = self.state, self._books
        books.advance(at)
        while state.arrived < len(self.trace) and self.trace.arrival[state.arrived] <= at:
            books.arrive()
            state.events += 1
        while state.incidents < len(self._ahead) and self._ahead[state.incidents].after <= at:
            incident = self._ahead[state.incidents]
            books.host(self.fabric.nodes.row[incident.node], up=isinstance(incident, NodeBack))
            state.incidents += 1
            state.events += 1
        jobs = objects.every(Job)
        working = self._working(objects)
        for job, (start, _) in list(state.running.items()):
            if f"{NAMESPACE}/job-{job}" not in jobs:
                books.finish(job)
                state.events += 1
            elif job not in working or working[job][0] > start:
                books.evict(job)
        for job in sorted(state.waiting & working.keys()):
            since, rows = working[job]
            if since >= state.ready_since[job] and state.down.isdisjoint(rows):
                books.start(job, rows)

    def _working(self, objects: Objects) -> dict[int, tuple[float, tuple[int, ...]]]:
        """The gangs of which every pod runs: since when, and on which rows in the order of ranks."""
        found: dict[int, list[tuple[int, int, float]]] = {}
        for pod in objects.every(Pod).values():
            since = _running_since(pod)
            if since is not None:
                job = number_of(pod.metadata.annotations[JOB_NAME])
                pods = len(self._books.gangs.pods(job))
                row = self.fabric.nodes.row[pod.spec.node_name]
                found.setdefault(job, []).append((rank_of(pod.metadata.name, pods), row, since))
        return {
            job: (max(since for *_, since in members) - _START, tuple(row for _, row, _ in sorted(members)))
            for job, members in found.items()
            if len(members) == len(self._books.gangs.pods(job))
        }


class _Submitter:
    """Submits each job when it arrives; a gang that was stopped goes on from its last checkpoint."""

    def __init__(self, books: Books, *, aware: bool) -> None:
        self._books, self._aware = books, aware
        self._submitted = 0

    def act(self, objects: Objects, now: float) -> Sequence[Effect]:
        effects: list[Effect] = []
        trace, per_host = self._books.trace, self._books.fabric.gpus_per_host
        while self._submitted < len(trace) and _START + trace.arrival[self._submitted] <= now:
            if trace.gpus[self._submitted] <= self._books.fabric.gpus:
                effects.append(Create(job_of(trace, self._submitted, per_host, aware=self._aware)))
            self._submitted += 1
        return [*effects, *self._resumed(objects)]

    def due(self) -> float | None:
        trace = self._books.trace
        return _START + float(trace.arrival[self._submitted]) if self._submitted < len(trace) else None

    def _resumed(self, objects: Objects) -> Iterator[Effect]:
        """What is left of the work of gangs that wait again, on pods that were made anew."""
        remaining, whole = self._books.state.remaining, self._books.trace.duration
        for pod in objects.every(Pod).values():
            job = number_of(pod.metadata.annotations[JOB_NAME])
            left = run_for(float(remaining[job]))
            if 0 < remaining[job] < whole[job] and pod.metadata.annotations[RUN_FOR] != left:
                yield PatchStatus(key_of(pod), {}, {RUN_FOR: left})


def _running_since(pod: Pod) -> float | None:
    """When the containers of a pod began to run; None where they do not, or are told to stop."""
    status = next(iter(pod.status.container_statuses), None)
    if pod.metadata.deletion_timestamp or pod.status.phase != "Running" or status is None:
        return None
    return None if status.state.running is None else parse_time(status.state.running.started_at)


def _incidents(fabric: Fabric, rules: Rules) -> list[NodeLost | NodeBack]:
    """The failures of the replay as those of the embedded cluster, in whole seconds."""
    names = fabric.nodes.names
    return [(NodeBack if i.up else NodeLost)(round(i.time), names[i.row]) for i in rules.incidents]
