"""The replay itself: events on a virtual clock, and the scheduler's own cycle whenever it could change something.

Rules. Time is cut into periods: what happens within one is seen by the scheduler at its end, so arrivals close together
share a cycle. GPUs are free from the moment that their gang ends. A cycle runs where somebody waits and something
changed since the last one. A gang that is evicted, or whose host fails, stops as a whole, waits again in the turn of
its arrival, and repeats the last `restart_cost` seconds of its work, or all of it where it had done less.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from math import ceil, inf

import msgspec
import numpy as np
from msgspec.structs import replace

from tierwise.api.eviction_terms import EvictionTerms
from tierwise.api.reservation import ReservationRecord
from tierwise.framework.report import CycleReport, Decision
from tierwise.model.arrays import Ints
from tierwise.model.expected_ends import FinishedRun
from tierwise.model.job import Job
from tierwise.model.queue import Queue
from tierwise.model.snapshot import Snapshot
from tierwise.replay.engine.cluster import ReplayCluster, ReplayEvent, most
from tierwise.replay.engine.contenders import Contender, plugins
from tierwise.replay.engine.rules import HISTORY, STATED, Rules
from tierwise.replay.engine.state import NEVER, ReplayState
from tierwise.replay.traces.fabric import AXIS, NAMESPACE, Fabric
from tierwise.replay.traces.trace import QUEUE, Trace
from tierwise.scheduler import cycle

__all__ = ["CycleOutcome", "Decider", "Engine"]


# What the scheduler decides at a moment: the books as a snapshot, one cycle, and who stops or starts by it.


_RUNS = 1000
"""How many of the jobs that have ended are remembered."""
_FIRST = 1e-6
"""When the first jobs start: 0 would stand for not known."""


class CycleOutcome(msgspec.Struct, frozen=True):
    """Jobs that lose their place, and jobs that get one: their rows in the order of ranks."""

    stopped: tuple[int, ...]
    started: tuple[tuple[int, tuple[int, ...]], ...]
    replaced: tuple[tuple[int, dict[int, int]], ...]  # jobs that lost pods, and the rows of those that come, by rank
    final: bool  # whether another cycle at this moment would decide nothing more
    again: float | None  # when one may decide otherwise though nothing has changed


class Decider:
    """Calls the scheduler's own cycle for one contender."""

    def __init__(self, books: ReplayCluster, contender: Contender, rules: Rules) -> None:
        self._books, self._contender, self._look_ahead = books, contender, rules.look_ahead
        self._plugins = plugins()
        self._queues = {queue.name: queue for queue in rules.queues or (Queue(QUEUE),)}
        self._shapes = tuple(books.gangs.shapes)
        self._kept: dict[int, dict[int, int]] = {}  # rows that the last cycle nominated jobs for, by rank
        self._reserves, self._durations = contender.reserves, rules.durations
        self._reserved: dict[int, ReservationRecord] = {}  # what the last cycle reserved
        self._history: tuple[int, tuple[FinishedRun, ...]] = (0, ())  # how many jobs have ended, and the last of them

    def picture(self) -> tuple[Snapshot, Snapshot, CycleReport]:
        """What a cycle sees now and decides, and all that there is besides: who waits behind its look-ahead, who runs.

        For those who show the state of a replay; nothing is carried out.
        """
        books = self._books
        shown = books.backlog.shown(self._look_ahead, lambda _: self._look_ahead)
        seen = self._snapshot(shown)
        others = sorted(books.state.waiting.difference(shown), key=lambda job: (-int(books.trace.priority[job]), job))
        jobs = [books.gangs.waiting(job, number, None) for number, job in enumerate((*shown, *others))]
        running = sorted(books.state.running.items())
        jobs += [books.gangs.running(j, number, rows) for number, (j, (_, rows)) in enumerate(running, len(jobs))]
        after = replace(seen, jobs=tuple(jobs), standing={}, standing_in={})
        return seen, after, cycle(seen, self._contender.profile, plugins=self._plugins)

    def decide(self) -> CycleOutcome | None:
        """One cycle over the waiting jobs; None if none of them needs one."""
        shown, repairing = self._books.backlog.shown(self._look_ahead, self._most), self._books.state.repairing
        if not shown and not repairing:
            return None
        report = cycle(self._snapshot(shown), self._contender.profile, plugins=self._plugins)
        bound = [_rows(decision) for decision in report.decisions if decision.bound]
        started = tuple((job, _by_rank(rows)) for job, rows in bound if job not in repairing)
        replaced = tuple((job, rows) for job, rows in bound if job in repairing)
        self._kept = dict(_rows(decision) for decision in report.decisions if not decision.bound)
        self._reserved = {_number(reservation.job): reservation.record for reservation in report.reservations}
        stopped = tuple(dict.fromkeys(_number(eviction.job) for eviction in report.evictions))
        more = bool(stopped) or len(started) == len(shown) >= self._look_ahead
        return CycleOutcome(stopped, started, replaced, final=not more, again=report.retry_at)

    def _most(self, gpus: int) -> int:
        if self._contender.evicts or self._reserves or len(self._queues) > 1:
            return self._look_ahead  # what waits counts, be there room or not
        return most(self._books.idle, self._books.fabric.gpus_per_host, gpus)

    def _snapshot(self, shown: list[int]) -> Snapshot:
        """What the cycle sees. Who runs is told one by one only to profiles that evict or reserve."""
        books, kept = self._books, self._kept
        jobs = [self._waiting(job, number) for number, job in enumerate(shown)]
        for job, rows in sorted(books.state.repairing.items()):
            room = tuple(kept.get(job, {}).get(rank, -1) for rank in range(len(rows)))
            jobs.append(books.gangs.running(job, len(jobs), rows, room))
        standing: dict[int, Ints] = {}
        standing_in: dict[str, Ints] = {}
        if self._contender.evicts or self._reserves:
            running = sorted(books.state.running.items())
            jobs += [
                self._running(job, number, start, rows)
                for number, (job, (start, rows)) in enumerate(running, len(jobs))
            ]
        else:
            every, (counted, held) = np.arange(len(books.nodes)), books.counted()
            standing = {n: np.repeat(every, counts) for n, counts in enumerate(counted) if counts.any()}
            standing_in = dict(zip(self._queues, held.T, strict=True))
        return Snapshot(
            axis=AXIS,
            nodes=books.nodes,
            topology=books.fabric.topology,
            queues=self._queues,
            jobs=tuple(jobs),
            shapes=self._shapes,
            others=(),
            orphans={},
            faults=(),
            now=books.state.clock,
            standing=standing,
            standing_in=standing_in,
            history=self._past(),
        )

    def _waiting(self, job: int, number: int) -> Job:
        kept = self._kept.get(job)
        made = self._books.gangs.waiting(job, number, _by_rank(kept) if kept is not None else None)
        return replace(made, terms=self._expected(job), reserved=self._reserved.get(job)) if self._reserves else made

    def _running(self, job: int, number: int, start: float, rows: tuple[int, ...]) -> Job:
        made = self._books.gangs.running(job, number, rows)
        if not self._reserves:
            return made
        tasks = tuple(replace(task, started=max(start, _FIRST)) for task in made.tasks)
        subs = tuple(replace(sub, tasks=tasks) for sub in made.subs)
        return replace(made, tasks=tasks, subs=subs, terms=self._expected(job))

    def _expected(self, job: int) -> EvictionTerms | None:
        """What a job says of its duration: what is left of it, as a gang that was stopped goes on."""
        stated = self._durations == STATED
        return EvictionTerms(expected=float(self._books.state.remaining[job])) if stated else None

    def _past(self) -> tuple[FinishedRun, ...]:
        """The last jobs that have ended, in the order of their ends."""
        if not self._reserves or self._durations != HISTORY:
            return ()
        trace, end = self._books.trace, self._books.state.end
        ended = np.flatnonzero(end >= 0)
        if len(ended) != self._history[0]:
            last = ended[np.argsort(end[ended], kind="stable")][-_RUNS:].tolist()
            self._history = (
                len(ended),
                tuple(
                    FinishedRun(
                        job=f"{NAMESPACE}/job-{job}",
                        queue=trace.queues[trace.queue[job]],
                        pods=len(self._books.gangs.pods(job)),
                        seconds=float(trace.duration[job]),
                        ended=float(end[job]),
                    )
                    for job in last
                ),
            )
        return self._history[1]


def _number(job: Job) -> int:
    """The place of a job in its trace."""
    return int(str(job.order[0]))


def _rows(decision: Decision) -> tuple[int, dict[int, int]]:
    by_rank = {task.rank: row for p in decision.placed for task, row in zip(p.tasks, p.rows.tolist(), strict=True)}
    return _number(decision.job), by_rank


def _by_rank(rows: dict[int, int]) -> tuple[int, ...]:
    """The rows of a whole gang in the order of ranks."""
    return tuple(rows[rank] for rank in range(len(rows)))


_ROUNDS = 8
"""Cycles at one moment at most: evictions make room for the next one."""


class Engine:
    """One trace on one fabric under one contender."""

    def __init__(
        self, fabric: Fabric, trace: Trace, contender: Contender, rules: Rules, state: ReplayState | None = None
    ) -> None:
        self.trace = trace if rules.queues else trace.in_one_queue()
        self.fabric, self.contender, self.rules = fabric, contender, rules
        self._books = ReplayCluster(fabric, self.trace, contender, rules, state)
        self.state = self._books.state
        self._decider = Decider(self._books, contender, rules)
        self._ends: list[tuple[float, int, float]] = []
        for job in self.state.running:
            self._await_end(job)

    def record(self) -> list[ReplayEvent]:
        """Write down what happens from now on."""
        self._books.log = []
        return self._books.log

    def run(self) -> Iterator[ReplayState]:
        """Replay to the end; yields after every moment that the scheduler saw, where a caller may stop or look."""
        while (moment := self._next()) is not None:
            if self._pass(moment):
                self._schedule()
            yield self.state

    def _next(self) -> float | None:
        """The end of the period in which the next thing happens; None where nothing will."""
        state = self.state
        while self._ends and self._stale(self._ends[0]):
            heapq.heappop(self._ends)
        times = [self._ends[0][0]] if self._ends else []
        if state.arrived < len(self.trace):
            times.append(float(self.trace.arrival[state.arrived]))
        if state.incidents < len(self.rules.incidents) and (times or state.waiting or state.repairing):
            times.append(self.rules.incidents[state.incidents].time)
        if state.again != NEVER and (state.waiting or state.repairing):
            times.append(state.again)
        if not times:
            return None
        period = self.rules.period
        return max(state.clock, ceil(min(times) / period) * period if period else min(times))

    def _await_end(self, job: int) -> None:
        start, _ = self.state.running[job]
        heapq.heappush(self._ends, (start + float(self.state.remaining[job]), job, start))

    def _stale(self, entry: tuple[float, int, float]) -> bool:
        """Whether an end no longer applies: its gang was stopped in the meantime."""
        _, job, start = entry
        return job not in self.state.running or self.state.running[job][0] != start

    def _pass(self, moment: float) -> bool:
        """Let everything up to a moment happen, in the order of time; whether the scheduler should look."""
        state, books, incidents = self.state, self._books, self.rules.incidents
        changed = NEVER < state.again <= moment
        while True:
            end = self._ends[0][0] if self._ends else inf
            arrival = float(self.trace.arrival[state.arrived]) if state.arrived < len(self.trace) else inf
            incident = incidents[state.incidents].time if state.incidents < len(incidents) else inf
            first = min(end, arrival, incident)
            if first > moment:
                break
            changed = True
            if end == first:
                entry = heapq.heappop(self._ends)
                if not self._stale(entry):
                    books.advance(end)
                    books.finish(entry[1])
            elif incident == first:
                books.advance(incident)
                books.host(incidents[state.incidents].row, up=incidents[state.incidents].up)
                state.incidents += 1
            else:
                books.advance(arrival)
                books.arrive()
            state.events += 1
        books.advance(moment)
        return changed and bool(state.waiting or state.repairing)

    def _schedule(self) -> None:
        """Cycles at this moment, until nothing more can come of one."""
        for _ in range(_ROUNDS):
            decided = self._decider.decide()
            if decided is None:
                return
            self.state.cycles += 1
            self.state.again = NEVER if decided.again is None else decided.again
            for job in decided.stopped:
                self._books.evict(job)
            for job, rows in decided.started:
                self._books.start(job, rows)
                self._await_end(job)
            for job, by_rank in decided.replaced:
                if self._books.replace(job, by_rank):
                    self._await_end(job)
            if decided.final:
                return
