"""The replay itself: events on a virtual clock, and the scheduler's own cycle whenever it could change something.

Rules. Time is cut into periods: what happens within one is seen by the scheduler at its end, so arrivals close together
share a cycle. GPUs are free from the moment that their gang ends. A cycle runs where somebody waits and something
changed since the last one. A gang that is evicted, or whose host fails, stops as a whole, waits again in the turn of
its arrival, and repeats the last `restart_cost` seconds of its work, or all of it where it had done less.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from math import ceil

import msgspec
import numpy as np
from msgspec.structs import replace

from tierwise.framework.report import CycleReport, Decision
from tierwise.model.arrays import Ints
from tierwise.model.queue import Queue
from tierwise.model.slots import count_slots
from tierwise.model.snapshot import Snapshot
from tierwise.replay.backlog import Backlog, most
from tierwise.replay.contenders import Contender, plugins
from tierwise.replay.fabric import AXIS, Fabric
from tierwise.replay.gangs import QUEUE, Gangs
from tierwise.replay.incidents import Incident
from tierwise.replay.spread import Spreads
from tierwise.replay.state import NEVER, Sample, State
from tierwise.replay.trace import Trace
from tierwise.scheduler import cycle

__all__ = ["SLOT_SIZES", "Engine", "Rules"]

SLOT_SIZES = (8, 64)
"""The gang sizes, in GPUs, for which fragmentation is sampled."""

_LEAVES = 1
_SAMPLES = 240
_ROUNDS = 8
"""Cycles at one moment at most: evictions make room for the next one."""


class Rules(msgspec.Struct, frozen=True):
    """What does not come from the trace."""

    period: float = 10.0
    look_ahead: int = 64
    restart_cost: float = 600.0
    seed: int = 1
    incidents: tuple[Incident, ...] = ()


class Engine:
    """One trace on one fabric under one contender."""

    def __init__(
        self, fabric: Fabric, trace: Trace, contender: Contender, rules: Rules, state: State | None = None
    ) -> None:
        self.fabric, self.trace, self.contender, self.rules = fabric, trace, contender, rules
        self.state = State.at_start(trace) if state is None else state
        self._plugins = plugins()
        self._spreads = Spreads.over(fabric)
        self._gangs = Gangs(trace, fabric.gpus_per_host, contender.aware)
        self._standing = np.zeros((len(self._gangs.shapes), len(fabric.nodes)), dtype=np.int64)
        self._idle: Ints = np.full(len(fabric.nodes), fabric.gpus_per_host, dtype=np.int64)
        self._used = 0
        self._ends: list[tuple[float, int, float]] = []
        self._backlog = Backlog(trace)
        self._ready = np.ones(len(fabric.nodes), dtype=bool)
        self._nodes = fabric.nodes
        self._queues = {QUEUE: Queue(QUEUE)}
        self._shapes = tuple(self._gangs.shapes)
        self._interval = trace.span / _SAMPLES
        self._derive()

    def _derive(self) -> None:
        """Everything that follows from the state."""
        for job, (start, rows) in self.state.running.items():
            self._stand(job, rows, 1)
            heapq.heappush(self._ends, (start + float(self.state.remaining[job]), job, start))
        for job in self.state.waiting:
            self._backlog.add(job)
        if self.state.down:
            self._ready[sorted(self.state.down)] = False
            self._nodes = replace(self.fabric.nodes, ready=self._ready.copy())

    def run(self) -> Iterator[State]:
        """Replay to the end; yields after every moment that the scheduler saw, where a caller may stop or look."""
        while (moment := self._next()) is not None:
            if self._pass(moment):
                self._schedule()
            yield self.state

    # -- the clock

    def _next(self) -> float | None:
        """The end of the period in which the next thing happens; None where nothing will."""
        state = self.state
        while self._ends and self._stale(self._ends[0]):
            heapq.heappop(self._ends)
        times = [self._ends[0][0]] if self._ends else []
        if state.arrived < len(self.trace):
            times.append(float(self.trace.arrival[state.arrived]))
        if state.incidents < len(self.rules.incidents) and (times or state.waiting):
            times.append(self.rules.incidents[state.incidents].time)
        if not times:
            return None
        period = self.rules.period
        return max(state.clock, ceil(min(times) / period) * period if period else min(times))

    def _stale(self, entry: tuple[float, int, float]) -> bool:
        """Whether an end no longer applies: its gang was stopped in the meantime."""
        _, job, start = entry
        return job not in self.state.running or self.state.running[job][0] != start

    def _pass(self, moment: float) -> bool:
        """Let everything up to a moment happen, in the order of time; whether the scheduler should look."""
        state, incidents = self.state, self.rules.incidents
        changed = False
        while True:
            end = self._ends[0][0] if self._ends else np.inf
            arrival = float(self.trace.arrival[state.arrived]) if state.arrived < len(self.trace) else np.inf
            incident = incidents[state.incidents].time if state.incidents < len(incidents) else np.inf
            first = min(end, arrival, incident)
            if first > moment:
                break
            changed = True
            if end == first:
                entry = heapq.heappop(self._ends)
                if not self._stale(entry):
                    self._advance(end)
                    self._finish(entry[1])
            elif incident == first:
                self._advance(incident)
                self._happen(incidents[state.incidents])
            else:
                self._advance(arrival)
                self._arrive()
            state.events += 1
        self._advance(moment)
        return changed and bool(state.waiting)

    def _advance(self, to: float) -> None:
        """Let time go by: add up what is held, and look at the cluster where a sample is due."""
        state, span = self.state, self.trace.span
        while len(state.samples) * self._interval <= min(to, span) and len(state.samples) <= _SAMPLES:
            state.samples.append(self._sample(len(state.samples) * self._interval))
        passed = to - state.clock
        if passed > 0:
            held = self._used
            state.held += held * passed
            inside = min(to, span) - state.clock
            if inside > 0:
                service = self.fabric.gpus - len(state.down) * self.fabric.gpus_per_host
                state.window_held += held * inside
                state.window_service += service * inside
                state.window_wanted += min(service, held + self._backlog.gpus) * inside
            state.clock = to

    def _sample(self, time: float) -> Sample:
        total = np.where(self._ready, self.fabric.gpus_per_host, 0)
        topology = self.fabric.topology
        slots = count_slots(topology, np.where(self._ready, self._idle, 0), total, SLOT_SIZES)
        used = topology.totals(self.fabric.gpus_per_host - self._idle)
        return Sample(
            time=time,
            held=self._used,
            asked=self._backlog.gpus,
            running=len(self.state.running),
            waiting=len(self.state.waiting),
            fragmentation=tuple(s.fragmentation for s in slots if s.tier == _LEAVES),
            leaves=tuple(used[topology.at_tier[_LEAVES]].tolist()) if _LEAVES in topology.at_tier else (),
        )

    # -- what happens

    def _arrive(self) -> None:
        state = self.state
        job = state.arrived
        state.arrived += 1
        if self.trace.gpus[job] > self.fabric.gpus:
            state.refused.append(job)  # larger than the cluster: it would wait for ever
        else:
            self._wait(job)

    def _wait(self, job: int) -> None:
        self.state.ready_since[job] = self.state.clock
        self.state.waiting.add(job)
        self._backlog.add(job)

    def _finish(self, job: int) -> None:
        state = self.state
        _, rows = state.running.pop(job)
        self._stand(job, rows, -1)
        state.useful += float(state.remaining[job]) * int(self.trace.gpus[job])
        state.remaining[job] = 0.0
        state.end[job] = state.clock

    def _stop(self, job: int) -> None:
        """A gang loses its place: what it did counts, but for what it has to repeat, and it waits again."""
        state = self.state
        start, rows = state.running.pop(job)
        self._stand(job, rows, -1)
        ran = state.clock - start
        again = min(ran, self.rules.restart_cost)
        state.useful += (ran - again) * int(self.trace.gpus[job])
        state.lost += again * int(self.trace.gpus[job])
        state.remaining[job] -= ran - again
        self._wait(job)

    def _happen(self, incident: Incident) -> None:
        state = self.state
        state.incidents += 1
        if incident.up:
            state.down.discard(incident.row)
        else:
            state.down.add(incident.row)
            for job in sorted(job for job, (_, rows) in state.running.items() if incident.row in rows):
                self._stop(job)
                state.failures += 1
        self._ready[incident.row] = incident.up
        self._nodes = replace(self.fabric.nodes, ready=self._ready.copy())

    def _stand(self, job: int, rows: tuple[int, ...], by: int) -> None:
        """Count the pods of a gang onto their rows, or off them."""
        for shape, row in zip(self._gangs.pods(job), rows, strict=True):
            gpus = int(shape.request[-1])
            self._standing[shape.number, row] += by
            self._idle[row] -= by * gpus
            self._used += by * gpus

    # -- the scheduler

    def _schedule(self) -> None:
        """Cycles at this moment, until nothing more can come of one."""
        for _ in range(_ROUNDS):
            shown = self._backlog.shown(self.rules.look_ahead, self._most)
            if not shown:
                return
            report = cycle(self._snapshot(shown), self.contender.profile, plugins=self._plugins)
            self.state.cycles += 1
            placed = self._carry_out(report)
            if not report.evictions and not placed == len(shown) == self.rules.look_ahead:
                return

    def _most(self, gpus: int) -> int:
        if self.contender.evicts:
            return self.rules.look_ahead
        return most(np.where(self._ready, self._idle, 0), self.fabric.gpus_per_host, gpus)

    def _snapshot(self, shown: list[int]) -> Snapshot:
        """What the cycle sees. Who runs is told one by one only to profiles that evict."""
        jobs = [self._gangs.model(job, number) for number, job in enumerate(shown)]
        standing: dict[int, Ints] = {}
        if self.contender.evicts:
            running = sorted(self.state.running.items())
            jobs += [self._gangs.model(j, number, rows) for number, (j, (_, rows)) in enumerate(running, len(jobs))]
        else:
            every = np.arange(len(self._nodes))
            standing = {n: np.repeat(every, counts) for n, counts in enumerate(self._standing) if counts.any()}
        return Snapshot(
            axis=AXIS,
            nodes=self._nodes,
            topology=self.fabric.topology,
            queues=self._queues,
            jobs=tuple(jobs),
            shapes=self._shapes,
            others=(),
            orphans={},
            faults=(),
            now=self.state.clock,
            standing=standing,
        )

    def _carry_out(self, report: CycleReport) -> int:
        """Evict and start what was decided; how many gangs started."""
        for job in dict.fromkeys(int(str(eviction.job.order[0])) for eviction in report.evictions):
            self._stop(job)
            self.state.evictions += 1
        bound = [decision for decision in report.decisions if decision.bound]
        for decision in bound:
            self._start(decision)
        return len(bound)

    def _start(self, decision: Decision) -> None:
        state = self.state
        job = int(str(decision.job.order[0]))
        by_rank = {task.rank: row for p in decision.placed for task, row in zip(p.tasks, p.rows.tolist(), strict=True)}
        rows = [by_rank[rank] for rank in range(len(by_rank))]
        state.waiting.remove(job)
        self._backlog.remove(job)
        state.running[job] = (state.clock, tuple(rows))
        self._stand(job, tuple(rows), 1)
        state.waited[job] += state.clock - float(state.ready_since[job])
        if state.first_start[job] == NEVER:
            state.first_start[job] = state.clock
        heapq.heappush(self._ends, (state.clock + float(state.remaining[job]), job, state.clock))
        if len(rows) > 1:
            state.figures[job] = self._spreads.of(self._dealt(job, rows))

    def _dealt(self, job: int, rows: list[int]) -> Ints:
        """Rows by rank as the pods talk to each other: a contender that is not aware deals them by chance."""
        if self.contender.aware:
            return np.array(rows)
        return np.random.default_rng((self.rules.seed, job)).permutation(rows)
