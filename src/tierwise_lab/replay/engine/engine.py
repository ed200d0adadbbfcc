"""A trace on arrays: what the scheduler's own cycle sees of it at a moment, and what becomes of what it decides.

Rules. Time is cut into periods: what happens within one is seen by the scheduler at its end, so arrivals close together
share a cycle. GPUs are free from the moment that their gang ends. A cycle runs where a job waits and something
changed since the last one. A gang that is evicted, or whose host fails, stops as a whole, waits again in the order of
its arrival, and repeats the last `restart_cost` seconds of its work, or all of it where it had done less.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from math import inf

import numpy as np
from msgspec.structs import replace

from tierwise.api.eviction_terms import EvictionTerms
from tierwise.api.reservation import ReservationRecord
from tierwise.framework.report import CycleReport, Decision
from tierwise.model.arrays import Floats, Ints
from tierwise.model.finished_run import FinishedRun
from tierwise.model.held import Endings
from tierwise.model.job import Job, Queue
from tierwise.model.snapshot import Snapshot
from tierwise.scheduler import cycle
from tierwise.sim.cluster.agenda import Agenda, Arrives, Ends, Event, LookAgain, NodeBack, NodeLost, StartFails
from tierwise.sim.forecast.driver import drive
from tierwise_lab.replay.engine.baselines import RULES, decided
from tierwise_lab.replay.engine.cluster import ReplayCluster, most
from tierwise_lab.replay.engine.contenders import Contender, plugins
from tierwise_lab.replay.engine.rules import HISTORY, ROUGH, STATED, Rules
from tierwise_lab.replay.engine.state import NEVER, ReplayState
from tierwise_lab.replay.traces.fabric import AXIS, Fabric
from tierwise_lab.replay.traces.trace import QUEUE, Sizes, Trace

__all__ = ["Engine"]

_RUNS = 1000
"""How many of the jobs that have ended are remembered."""
_FIRST = 1e-6
"""When the first jobs start: 0 would stand for not known."""


class Engine(ReplayCluster):
    """One trace on one fabric under one contender, as books of the driver on arrays."""

    def __init__(
        self,
        fabric: Fabric,
        trace: Trace,
        contender: Contender,
        rules: Rules,
        state: ReplayState | None = None,
        *,
        measured: bool = True,
        foresees: bool = False,
    ) -> None:
        """Prepare a replay of a trace under one contender. `state` continues an interrupted one.

        `measured` says whether samples and figures are taken; runs ahead need none. `foresees` keeps the ends of jobs
        for forecasts also where the contender does not go by them.
        """
        super().__init__(fabric, trace, contender, rules, state, measured=measured)
        self._plugins = plugins()
        self._queues = {queue.name: queue for queue in rules.queues or (Queue(QUEUE),)}
        self._shapes = tuple(self.gangs.shapes)
        self._kept: dict[int, dict[int, int]] = {}  # rows that the last cycle nominated jobs for, by rank
        self._names_who_stands = contender.reserves or contender.counts_rings
        self._reserves, self._foresees = contender.reserves, contender.foresees or foresees
        self._reserved: dict[int, ReservationRecord] = {}  # what the last cycle reserved
        self._history: tuple[int, tuple[FinishedRun, ...]] = (0, ())  # how many jobs have ended, and the last of them
        self._standing: dict[int, tuple[object, Job]] = {}  # who runs, behind since when, where and for how long
        self._one_by_one = contender.evicts or (self._foresees and not self._states)
        self._ending = _EndingPods()
        self._shown: list[int] = []  # the waiting jobs that the last cycle saw
        self.agenda = Agenda(self.state.clock)
        self.agenda.put(LookAgain(), inf if self.state.again == NEVER else self.state.again)
        self._await_arrival()
        self._await_incident()
        for job in self.state.running:
            self._await_end(job)

    def run(self, step: float = 0.0) -> Iterator[ReplayState]:
        """Replay to the end, and yield the state after every moment that the scheduler saw.

        It is the live state, which the next moment changes. Moments that lie closer together than a share
        `step` of the time that has passed are one.
        """
        for _ in drive(self, self._decide, period=self.rules.period, step=step):
            yield self.state

    def _decide(self, seen: Snapshot) -> CycleReport:
        if self.contender.rule:
            return decided(RULES[self.contender.rule], seen, self.idle)
        return cycle(seen, self.contender.profile, plugins=self._plugins)

    # -- what happens

    def _await_arrival(self) -> None:
        if self.state.arrived < len(self.trace):
            self.agenda.put(Arrives(self.state.arrived), float(self.trace.arrival[self.state.arrived]))

    def _await_incident(self) -> None:
        for incident in self.rules.incidents[self.state.incidents :][:1]:
            self.agenda.put(incident, incident.after)

    def _await_end(self, job: int) -> None:
        start, rows = self.state.running[job]
        seconds_left = float(self.state.remaining[job]) / self.pace(job)
        failing = self.state.failing.get(job)
        self.agenda.put(Ends(job), start + seconds_left if failing is None else inf)
        if failing is not None:
            self.agenda.put(StartFails(job), failing[0])
        if self._foresees and not self._one_by_one and seconds_left < inf:
            shapes = [shape.number for shape in self.gangs.pods(job)]
            self._ending.put(job, rows, shapes, max(start, _FIRST), seconds_left * float(self._errors[job]))

    def _await_changed_ends(self) -> None:
        """Gangs whose uplinks carry more rings or fewer than before end at another time."""
        for job in self.slow_down() if self.rules.contention else ():
            self._await_end(job)

    def _await_no_end(self, job: int) -> None:
        self.agenda.cancel(Ends(job))
        self.agenda.cancel(StartFails(job))
        self._ending.drop(job)

    def happen(self, event: Event) -> None:
        if isinstance(event, LookAgain):
            self.state.again = NEVER
            return
        self.advance(self.agenda.clock)
        self.state.events += 1
        if isinstance(event, Ends):
            self._ending.drop(int(event.subject))
            self.finish(int(event.subject))
        elif isinstance(event, StartFails):
            self._ending.drop(event.job)
            self.fail(event.job)
        elif isinstance(event, NodeLost | NodeBack):
            for job in self.host(event):
                self._await_no_end(job)
                if job in self.state.running:
                    self._await_end(job)
            self._await_incident()
        elif isinstance(event, Arrives):
            self.arrive()
            self._await_arrival()
        self._await_changed_ends()

    # -- what a cycle sees, and what becomes of it

    def picture(self) -> tuple[Snapshot, Snapshot, CycleReport]:
        """Snapshot and report of a cycle now, and a snapshot with everything else: jobs behind the look-ahead and
        running jobs. For pages that show a replay; nothing is carried out.
        """
        ahead = self.rules.look_ahead
        shown = self.backlog.shown(ahead, lambda _: ahead)
        seen = self._snapshot(shown)
        other_jobs = sorted(self.state.waiting.difference(shown), key=lambda job: (-int(self.trace.priority[job]), job))
        jobs = [self.gangs.waiting(job, number, None) for number, job in enumerate((*shown, *other_jobs))]
        running = sorted(self.state.running.items())
        jobs += [self.gangs.running(j, number, rows) for number, (j, (_, rows)) in enumerate(running, len(jobs))]
        after = replace(seen, jobs=tuple(jobs), standing={}, standing_in={}, standing_jobs=())
        return seen, after, self._decide(seen)

    def known(self) -> Snapshot:
        """All that is known now of who waits and who runs, one by one."""
        waiting = sorted(self.state.waiting, key=lambda job: (-int(self.trace.priority[job]), job))
        return self._snapshot(waiting, one_by_one=True)

    def seen(self) -> Snapshot | None:
        self._shown = self.backlog.shown(self.rules.look_ahead, self._most)
        if self._shown or self.state.repairing or self.growing or self.contender.counts_usage:
            return self._snapshot(self._shown)
        return None

    def apply(self, report: CycleReport) -> bool:
        state, repairing = self.state, set(self.state.repairing)
        state.cycles += 1
        self._kept = dict(_rows(decision) for decision in report.decisions if not decision.bound)
        self._reserved = {_number(reservation.job): reservation.record for reservation in report.reservations}
        stopped = self._stop_evicted(report)
        started = self._place_bound(report, repairing)
        if not (state.waiting or state.repairing or self.growing):
            self.agenda.cancel(LookAgain())
        retry_at = self.agenda.at(LookAgain())
        state.again = retry_at if retry_at < inf else NEVER
        return stopped or started == len(self._shown) >= self.rules.look_ahead

    def _stop_evicted(self, report: CycleReport) -> bool:
        """Take the evicted pods from their gangs; True if there are any."""
        stopped: dict[int, set[int]] = {}
        for eviction in report.evictions:
            stopped.setdefault(_number(eviction.job), set()).add(eviction.task.rank)
        for job, ranks in stopped.items():
            self._shrink(job, ranks)
        return bool(stopped)

    def _place_bound(self, report: CycleReport, repairing: set[int]) -> int:
        """Start, grow or repair the jobs that were bound; how many of them had waited to start."""
        state = self.state
        bound = [_rows(decision) for decision in report.decisions if decision.bound]
        started = sum(job not in repairing and job in state.waiting for job, _ in bound)
        for job, rows in bound:
            if job in state.waiting:
                self.start(job, self._by_rank(job, rows))
            elif job not in repairing:
                self.resize(job, tuple(rows.get(rank, row) for rank, row in enumerate(state.running[job][1])))
            elif not self.replace(job, rows):
                continue
            self._await_end(job)
        self._await_changed_ends()
        return started

    def _shrink(self, job: int, ranks: set[int]) -> None:
        """Pods of a gang are evicted: an elastic one goes on with the others where these are enough."""
        rows_left = tuple(
            -1 if rank in ranks else row for rank, row in enumerate(self.state.running.get(job, (0.0, ()))[1])
        )
        if rows_left and self.enough(job, rows_left):
            self.resize(job, rows_left)
            self._await_end(job)
        else:
            self.evict(job)
            self._await_no_end(job)

    def _by_rank(self, job: int, rows: dict[int, int]) -> tuple[int, ...]:
        """The rows of a gang in the order of ranks, -1 where it has none."""
        return tuple(rows.get(rank, -1) for rank in range(len(self.gangs.sizes(job))))

    def _most(self, sizes: Sizes) -> int:
        if self.contender.evicts or self._reserves or len(self._queues) > 1:
            return self.rules.look_ahead  # what waits counts, be there room or not
        return most(self.idle, sizes)

    def _snapshot(self, shown: list[int], *, one_by_one: bool = False) -> Snapshot:
        """Snapshot for the cycle. Running jobs are listed one by one only for profiles that evict or use past runs."""
        nominated = self._kept
        jobs = [self._waiting(job, number) for number, job in enumerate(shown)]
        for job, rows in sorted(self.partial().items()):
            jobs.append(self._running(job, len(jobs), rows, self._by_rank(job, nominated.get(job, {}))))
        standing: dict[int, Ints] = {}
        standing_in: dict[str, Ints] = {}
        one_by_one = one_by_one or self._one_by_one
        stand: tuple[Job, ...] = ()
        if one_by_one or self._names_who_stands:
            running = sorted((job, rows) for job, (_, rows) in self.state.running.items() if job not in self.growing)
            self._standing = {job: self._standing_job(job, rows) for job, rows in running}
            stand = tuple([standing_gang for _, standing_gang in self._standing.values()])
        if one_by_one:
            jobs += [_numbered(job, number) for number, job in enumerate(stand, len(jobs))]
        else:
            every, (counted, held_amounts) = np.arange(len(self.nodes)), self.counted()
            standing = {n: every.repeat(counted[n]) for n in np.flatnonzero(counted.any(axis=1)).tolist()}
            standing_in = dict(zip(self._queues, held_amounts.T, strict=True))
        return Snapshot(
            axis=AXIS,
            nodes=self.nodes,
            topology=self.fabric.topology,
            queues=self._queues,
            jobs=tuple(jobs),
            shapes=self._shapes,
            others=(),
            orphans={},
            faults=(),
            now=self.state.clock,
            standing=standing,
            standing_in=standing_in,
            standing_jobs=() if one_by_one else stand,
            history=self._past(),
            endings=None if one_by_one else self._ending.columns(),
            start_memory=self.contender.memory(self.state.remembered, self.state.clock),
        )

    def _waiting(self, job: int, number: int) -> Job:
        nominated = self._kept.get(job)
        waiting_gang = self.gangs.waiting(job, number, self._by_rank(job, nominated) if nominated is not None else None)
        return (
            replace(waiting_gang, terms=self._expected(job), reserved=self._reserved.get(job))
            if self._foresees
            else waiting_gang
        )

    def _standing_job(self, job: int, rows: tuple[int, ...]) -> tuple[object, Job]:
        """A job that runs as a whole; but for its number it stays the same from cycle to cycle."""
        since = self.state.running[job][0], rows, float(self.state.remaining[job])
        cached = self._standing.get(job)
        return cached if cached is not None and cached[0] == since else (since, self._running(job, 0, rows))

    def _running(
        self, job: int, number: int, rows: tuple[int, ...], nominated_rows: tuple[int, ...] | None = None
    ) -> Job:
        running_gang = self.gangs.running(job, number, rows, nominated_rows)
        if not self._foresees or job in self.state.repairing:
            return running_gang
        start, _ = self.state.running[job]
        tasks = tuple(replace(t, started=max(start, _FIRST)) if t.node >= 0 else t for t in running_gang.tasks)
        subs = tuple(replace(sub, tasks=tasks) for sub in running_gang.subs)
        return replace(running_gang, tasks=tasks, subs=subs, terms=self._expected(job))

    def _expected(self, job: int) -> EvictionTerms | None:
        """Stated remaining duration of a job, as a stopped gang continues; None for services."""
        seconds_left = float(self.state.remaining[job]) / (self.pace(job) if job in self.state.running else 1.0)
        stated = self._states and seconds_left < inf
        return EvictionTerms(expected=seconds_left * float(self._errors[job])) if stated else None

    @property
    def _states(self) -> bool:
        """Whether jobs state their durations."""
        return self.rules.durations in (STATED, ROUGH)

    @cached_property
    def _errors(self) -> Floats:
        """By which factor each job is wrong about its duration: up to twice or half of it, as likely either way."""
        if self.rules.durations == STATED:
            return np.ones(len(self.trace))
        drawn: Floats = np.random.default_rng((self.rules.seed, 35)).uniform(-1, 1, len(self.trace))
        return np.exp2(drawn)

    def _past(self) -> tuple[FinishedRun, ...]:
        """The last jobs that have ended, in the order of their ends."""
        if not self._foresees or self.rules.durations != HISTORY:
            return ()
        trace, end = self.trace, self.state.end
        ended = np.flatnonzero(end >= 0)
        if len(ended) != self._history[0]:
            recent = ended[np.argsort(end[ended], kind="stable")][-_RUNS:].tolist()
            self._history = (
                len(ended),
                tuple(
                    FinishedRun(
                        job=self.gangs.key(job),
                        queue=trace.queues[trace.queue[job]],
                        pods=len(self.gangs.pods(job)),
                        seconds=float(trace.duration[job]),
                        ended=float(end[job]),
                    )
                    for job in recent
                ),
            )
        return self._history[1]


class _EndingPods:
    """The pods of gangs that run and state their end, as columns with holes: no cycle looks at each of them."""

    def __init__(self) -> None:
        self._placed = np.full((2, 64), -1, dtype=np.int64)  # row, or -1 in a hole, and shape
        self._times = np.zeros((2, 64))  # when its gang started, and its end
        self._holes = list(range(64))
        self._of: dict[int, list[int]] = {}  # by job

    def put(self, job: int, rows: Sequence[int], shapes: Sequence[int], started: float, expected: float) -> None:
        """A gang runs on these rows; without one where it is -1."""
        self.drop(job)
        while len(self._holes) < len(rows):
            size = self._times.shape[1]
            self._placed = np.concatenate((self._placed, np.full((2, size), -1)), axis=1)
            self._times = np.concatenate((self._times, np.zeros((2, size))), axis=1)
            self._holes += range(size, 2 * size)
        columns_used = self._of[job] = self._holes[len(self._holes) - len(rows) :]
        del self._holes[len(self._holes) - len(rows) :]
        self._placed[:, columns_used] = rows, shapes
        self._times[:, columns_used] = [[started], [started + expected]]

    def drop(self, job: int) -> None:
        """A gang has ended, or is about to run elsewhere."""
        columns_used = self._of.pop(job, [])
        self._placed[0, columns_used] = -1
        self._holes += columns_used

    def columns(self) -> Endings:
        placed_columns = (self._placed[0] >= 0).nonzero()[0]
        return Endings(*self._placed[:, placed_columns], *self._times[:, placed_columns])


def _numbered(job: Job, number: int) -> Job:
    """A job at a place in the snapshot."""
    return replace(job, number=number, subs=tuple(replace(sub, number=number, job_number=number) for sub in job.subs))


def _number(job: Job) -> int:
    """The place of a job in its trace."""
    return int(str(job.order[0]))


def _rows(decision: Decision) -> tuple[int, dict[int, int]]:
    return _number(decision.job), {task.rank: row for task, row in decision.places()}
