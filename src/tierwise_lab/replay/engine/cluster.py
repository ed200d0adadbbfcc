"""The state of a replay: which jobs run where, which wait, and the totals so far.

The driver of a replay reports what happens, in order of time; only this module changes the state, so GPU-hours add up
for every driver. Derived values (idle GPUs, the backlog) are computed here, also when a run is resumed.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from typing import Any, Literal

import msgspec
import numpy as np
from msgspec.structs import replace

from tierwise.model.arrays import EMPTY, Ints
from tierwise.model.failed_starts import FailedStart, confirmed, kept_starts
from tierwise.model.rings import uplinks
from tierwise.model.slots import gangs_in, share_lost
from tierwise.sim.cluster.agenda import NodeBack
from tierwise_lab.replay.engine.contenders import Contender
from tierwise_lab.replay.engine.gangs import Gangs
from tierwise_lab.replay.engine.rules import HostIncident, Rules
from tierwise_lab.replay.engine.state import NEVER, ReplayState, Sample
from tierwise_lab.replay.report.spread import Spreads
from tierwise_lab.replay.traces.fabric import AXIS, Fabric
from tierwise_lab.replay.traces.trace import Sizes, Trace, slots

__all__ = ["RINGS", "SLOT_SIZES", "ReplayCluster", "ReplayEvent", "most"]


# Who waits, and which of them a cycle is shown.
#
# A cycle sees at most `look_ahead` gangs of every queue, highest priority and earliest arrival first. Where no gang is
# evicted and there is one queue, gangs that cannot be placed whatever the policy, by counting idle GPUs host by host,
# are not shown: the answer is known.


Entry = tuple[int, int]
"""Priority (negated) and number of a job: its place in the order."""


class WaitingJobs:
    """Waiting jobs by queue and the pods that they need, in their order."""

    def __init__(self, gangs: Gangs) -> None:
        self._trace, self._needed = gangs.trace, gangs.needed
        self._queues: list[dict[Sizes, list[Entry]]] = [{} for _ in gangs.trace.queues]
        self.gpus = 0

    def add(self, job: int) -> None:
        line = self._queues[self._trace.queue[job]].setdefault(self._needed(job), [])
        heapq.heappush(line, (-int(self._trace.priority[job]), job))
        self.gpus += int(self._trace.gpus[job])

    def remove(self, job: int) -> None:
        """A job that was shown leaves."""
        line = self._queues[self._trace.queue[job]][self._needed(job)]
        entry = (-int(self._trace.priority[job]), job)
        if line[0] == entry:
            heapq.heappop(line)
        else:
            line.remove(entry)
            heapq.heapify(line)
        self.gpus -= int(self._trace.gpus[job])

    def shown(self, look_ahead: int, fitting: Callable[[Sizes], int]) -> list[int]:
        """The jobs of the next cycle; of those with the same pods no more than `most` says can find room."""
        jobs_shown: list[int] = []
        for lines in self._queues:
            firsts = (heapq.nsmallest(min(look_ahead, fitting(sizes)), line) for sizes, line in lines.items() if line)
            jobs_shown += [job for _, job in islice(heapq.merge(*firsts), look_ahead)]
        return jobs_shown


def most(idle: Ints, sizes: Sizes) -> int:
    """How many gangs with these pods the idle GPUs of hosts could hold at most, whatever else is placed."""
    (largest, number), *smaller = slots(sizes)
    if any((idle // size).sum() < number_taken for size, number_taken in smaller):
        return 0
    return int((idle // largest).sum()) // number


SLOT_SIZES = (8, 64)
"""The gang sizes, in GPUs, for which fragmentation is sampled."""

RINGS = 2
"""Rings on an uplink from which more are counted as too many: so many can always be kept to."""

_LEAVES = 1
_SAMPLES = 240


ReplayEventKind = Literal["arrived", "started", "resized", "ended", "evicted", "stopped", "failed", "down", "up"]


class ReplayEvent(msgspec.Struct, frozen=True, array_like=True):
    """Something that happened in a replay, for those who play it again."""

    time: float
    kind: ReplayEventKind
    """Of a job, which is stopped where its host fails, and fails where it does not come up; or of a host, the last two.
    """
    subject: int  # the job, or the row of the host
    rows: tuple[int, ...] = ()  # where a job started, or is since it has more pods or fewer
    gpus: int = 0  # that it has there


class ReplayCluster:
    """One trace on one fabric under one contender, as far as it has come."""

    def __init__(
        self,
        fabric: Fabric,
        trace: Trace,
        contender: Contender,
        rules: Rules,
        state: ReplayState | None = None,
        *,
        measured: bool = True,
    ) -> None:
        """`measured` says whether samples and figures are taken; runs ahead need none."""
        trace = trace if rules.queues else trace.in_one_queue()
        self.fabric, self.trace, self.contender, self.rules, self._measured = fabric, trace, contender, rules, measured
        self.state = ReplayState.at_start(trace) if state is None else state
        self.gangs = Gangs(
            trace, fabric.gpus_per_host, contender.aware, contender.spares, contender.replaces, rules.teams
        )
        self._lemons = frozenset(fabric.nodes.row[host] for host in rules.lemons.hosts)
        self.nodes = fabric.nodes
        self.standing = np.zeros((len(self.gangs.shapes), len(fabric.nodes)), dtype=np.int64)
        self.held_in = np.zeros((len(AXIS), len(trace.queues)), dtype=np.int64)  # by resource and queue
        self.backlog = WaitingJobs(self.gangs)
        self.growing = {job for job, (_, rows) in self.state.running.items() if -1 in rows}
        self._total = fabric.host_gpus
        self._idle: Ints = self._total.copy()
        self._ready = np.ones(len(fabric.nodes), dtype=bool)
        self._used = 0
        self._spreads = Spreads.over(fabric)
        self._fewest: dict[Sizes, int] = {}  # leaves, by the pods of a gang
        self._leaf = fabric.domains(_LEAVES)
        self._uplinks: dict[int, Ints] = {}  # by running gang, the leaves whose uplinks its ring passes
        self._rings = np.zeros(int(self._leaf.max(initial=0)) + 1, dtype=np.int64)
        self._interval = trace.span / _SAMPLES
        self.log: list[ReplayEvent] | None = None  # what happens, where it is to be played
        for job, (_, rows) in self.state.running.items():
            self._stand(job, rows, 1)
            self._cross(job, rows)
        for job, rows in self.state.repairing.items():
            self._stand(job, rows, 1)
        for job in self.state.waiting:
            self.backlog.add(job)
        self._ready[sorted(self.state.down)] = False
        self._service = int(self._total[self._ready].sum())
        if self.state.down:
            self.nodes = replace(fabric.nodes, ready=self._ready.copy())

    def record(self) -> list[ReplayEvent]:
        """Write down what happens from now on."""
        self.log = []
        return self.log

    def kept(self) -> dict[str, Any]:
        """All that changes, as JSON data."""
        return self.state.kept()

    def progress(self) -> tuple[int, str]:
        """Events, and in words simulated time and how many wait."""
        state = self.state
        return state.events, f"day {state.clock / 86400:.1f}, {len(state.waiting):,} waiting"

    def over(self) -> bool:
        """Whether every job has come and gone, or runs on: failures that are still to come concern no job."""
        state = self.state
        if state.arrived < len(self.trace) or state.waiting or state.repairing:
            return False
        return not any(np.isfinite(self.trace.duration[job]) for job in state.running)

    def partial(self) -> dict[int, tuple[int, ...]]:
        """Gangs that wait for pods of theirs, with the rows of the others: for replacements, or to grow."""
        return {**self.state.repairing, **{job: self.state.running[job][1] for job in self.growing}}

    def counted(self) -> tuple[Ints, Ints]:
        """Pods by shape and row, and what they hold by resource and queue, without gangs that wait for pods."""
        running, held_amounts = self.standing, self.held_in
        partial = self.partial()
        if partial:
            running, held_amounts = running.copy(), held_amounts.copy()
        for job, rows in partial.items():
            for shape, row in zip(self.gangs.pods(job), rows, strict=True):
                if row >= 0:
                    running[shape.number, row] -= 1
                    held_amounts[:, self.trace.queue[job]] -= shape.request
        return running, held_amounts

    @property
    def idle(self) -> Ints:
        """GPUs that are free, host by host; none where a host is out of service."""
        return np.where(self._ready, self._idle, 0)

    def advance(self, to: float) -> None:
        """Let time go by: add up what is held, and look at the cluster where a sample is due."""
        state, span = self.state, self.trace.span
        due = _SAMPLES if self._measured else -1
        while len(state.samples) <= due and len(state.samples) * self._interval <= min(to, span):
            state.samples.append(self._sample(len(state.samples) * self._interval))
        passed = to - state.clock
        if passed > 0:
            used_before, halted = self._used, self._halted()
            state.held += used_before * passed
            state.halted += halted * passed
            inside = min(to, span) - state.clock
            if inside > 0:
                service = self._service
                state.window_held += used_before * inside
                state.window_worked += (used_before - halted) * inside
                state.window_service += service * inside
                state.window_wanted += min(service, used_before + self._asked()) * inside
                self._count_rings(inside)
            state.clock = to

    def arrive(self) -> None:
        """The next job of the trace comes; one that the cluster cannot hold would wait for ever, and is refused."""
        job = self.state.arrived
        self.state.arrived += 1
        if not self.holds(job):
            self.state.refused.append(job)
        else:
            self._wait(job)
            self._tell("arrived", job)

    def holds(self, job: int) -> bool:
        """Whether the cluster could hold a job if it were empty."""
        return most(self._total, self.gangs.needed(job)) > 0

    def enough(self, job: int, rows: Sequence[int]) -> bool:
        """Whether a gang can work with these rows alone: all of them, or the minimum of an elastic one."""
        return sum(row >= 0 for row in rows) >= self.gangs.minimum(job)

    def pace(self, job: int) -> float:
        """How fast a running gang works: the share of its GPUs that it has, slowed by other rings on its uplinks."""
        slowed = self.state.slowed.get(job, 1.0)
        if job not in self.growing:
            return slowed
        return slowed * self._gpus(job, self.state.running[job][1]) / int(self.trace.gpus[job])

    def _cross(self, job: int, rows: Sequence[int]) -> None:
        """The ring of a gang passes the uplinks of the leaves of these rows; of none where it stops."""
        if job in self._uplinks:
            self._rings[self._uplinks.pop(job)] -= 1
        held = np.array([row for row in rows if row >= 0], dtype=np.int64)
        passed = uplinks(self._leaf, [held]) if len(held) > 1 else held[:0]
        if len(passed):
            self._uplinks[job] = passed
            self._rings[passed] += 1

    def _leave(self, job: int) -> None:
        """A gang works no more: its ring is gone."""
        self._cross(job, ())
        self.state.slowed.pop(job, None)

    def _count_rings(self, seconds: float) -> None:
        """Add up the rings of now."""
        state, worst = self.state, int(self._rings.max())
        state.ring_seconds += worst * seconds
        if worst > RINGS:
            state.crowded_seconds += seconds
            state.excess_seconds += int(np.maximum(self._rings - RINGS, 0).sum()) * seconds

    def slow_down(self) -> list[int]:
        """Let gangs work as fast as the uplinks of now let them; those that are faster or slower than before."""
        share, state = self.rules.contention, self.state
        paces: dict[int, float] = {}
        for job, passed in self._uplinks.items() if share else ():
            worst = int(self._rings[passed].max())
            if worst > RINGS:
                paces[job] = 1 / (1 - share + share * worst / RINGS)
        changed = [job for job in state.running if paces.get(job, 1.0) != state.slowed.get(job, 1.0)]
        for job in changed:
            start, rows = state.running[job]
            done = (state.clock - start) * self.pace(job)
            state.slowed[job] = paces.get(job, 1.0)
            state.running[job] = state.clock - done / self.pace(job), rows
        state.slowed = {job: pace for job, pace in paces.items() if job in state.running}
        return changed

    def _gpus(self, job: int, rows: Sequence[int]) -> int:
        return sum(gpus for gpus, row in zip(self.gangs.sizes(job), rows, strict=True) if row >= 0)

    def _asked(self) -> int:
        """GPUs that gangs wait for, those included that grow."""
        if not self.growing:
            return self.backlog.gpus
        missing = (int(self.trace.gpus[job]) - self._gpus(job, self.state.running[job][1]) for job in self.growing)
        return self.backlog.gpus + sum(missing)

    def start(self, job: int, rows: Sequence[int]) -> None:
        """A gang that waited begins to work on these rows, in the order of ranks; without one where it is -1."""
        state = self.state
        state.waiting.remove(job)
        self.backlog.remove(job)
        self._works("started", job, tuple(rows))
        self._recover(job)
        self._stand(job, rows, 1)
        state.waited[job] += state.clock - float(state.ready_since[job])
        if state.first_start[job] == NEVER:
            state.first_start[job] = state.clock
        lemon = self._failing_row(job, rows)
        if lemon >= 0:
            state.failing[job] = state.clock + self.rules.lemons.noticed, lemon
            return
        if state.came_up[job] == NEVER:
            state.came_up[job] = state.clock
        key = self.gangs.key(job)
        if any(start.alone and start.gang == key for start in state.remembered):
            up = [self.nodes.names[row] for row in rows if row >= 0]
            state.remembered = confirmed(state.remembered, key, up, len(rows))

    def _failing_row(self, job: int, rows: Sequence[int]) -> int:
        """The row on which this start of a gang fails; -1 where it comes up."""
        inside = [row for row in rows if row in self._lemons] if self._lemons else []
        if not inside:
            return -1
        rng = np.random.default_rng((self.rules.seed, job, int(self.state.failed_starts[job])))
        return int(rng.choice(inside)) if rng.random() < self.rules.lemons.fails else -1

    def fail(self, job: int) -> None:
        """A gang is seen not to have come up: it leaves its hosts, and waits again."""
        state = self.state
        _, row = state.failing[job]
        state.failed_starts[job] += 1
        self._remember(job, row, "Init:Error")
        self._stand(job, self._stop(job), -1)
        self._wait(job)
        self._tell("failed", job)

    def _remember(self, job: int, row: int, why: str) -> None:
        """Record a failed start as the scheduler does."""
        if not self.contender.remembers:
            return
        state, key = self.state, self.gangs.key(job)
        pods = state.running[job][1]
        up = sum(place >= 0 and place != row for place in pods)
        pod = f"{key}-{pods.index(row)}-{int(state.failed_starts[job])}"
        start = FailedStart(pod, key, self.nodes.names[row], state.clock, why, alone=2 * up < len(pods))
        state.remembered = kept_starts([*state.remembered, start])

    def resize(self, job: int, rows: tuple[int, ...]) -> None:
        """An elastic gang has other rows from now on; what it has done stays done."""
        start, before = self.state.running[job]
        done = (self.state.clock - start) * self.pace(job)
        self._stand(job, before, -1)
        self._stand(job, rows, 1)
        self._works("resized", job, rows)
        self.state.running[job] = self.state.clock - done / self.pace(job), rows

    def _works(self, kind: ReplayEventKind, job: int, rows: tuple[int, ...]) -> None:
        """A gang works on these rows from now on: note how far apart its pods are."""
        state = self.state
        state.running[job] = state.clock, rows
        self._cross(job, rows)
        (self.growing.add if -1 in rows else self.growing.discard)(job)
        rows_held = [row for row in rows if row >= 0]
        if len(rows_held) > 1 and self._measured:
            state.figures[job] = self._spreads.of(np.array(rows_held))
            sizes = tuple(gpus for gpus, row in zip(self.gangs.sizes(job), rows, strict=True) if row >= 0)
            if sizes not in self._fewest:
                self._fewest[sizes] = self._spreads.fewest(sizes)
            state.fewest[job] = self._fewest[sizes]
        self._tell(kind, job, rows)

    def finish(self, job: int) -> None:
        """A gang has done all its work."""
        state = self.state
        _, rows = state.running.pop(job)
        self.growing.discard(job)
        self._leave(job)
        self._stand(job, rows, -1)
        state.useful += float(state.remaining[job]) * int(self.trace.gpus[job])
        state.remaining[job] = 0.0
        state.end[job] = state.clock
        self._tell("ended", job)

    def evict(self, job: int) -> None:
        """The scheduler takes a gang's place away."""
        rows = self.state.repairing.pop(job) if job in self.state.repairing else self._stop(job)
        self._stand(job, rows, -1)
        self._wait(job)
        self.state.evictions[job] += 1
        self._tell("evicted", job)

    def replace(self, job: int, rows: Mapping[int, int]) -> bool:
        """Pods of a gang come for those that it lost, by rank; whether it goes on, as it has enough of them."""
        state = self.state
        all_rows = tuple(rows.get(rank, row) for rank, row in enumerate(state.repairing.pop(job)))
        self._stand(job, tuple(rows.get(rank, -1) for rank in range(len(all_rows))), 1)
        state.replaced += len(rows)
        if not self.enough(job, all_rows):
            state.repairing[job] = all_rows
            return False
        self._works("started", job, all_rows)
        self._recover(job)
        state.waited[job] += state.clock - float(state.ready_since[job])
        return True

    def _stop(self, job: int) -> tuple[int, ...]:
        """Stop a gang and count its work, except the part to repeat; a service repeats nothing. Rows that it leaves."""
        state, pace = self.state, self.pace(job)
        start, rows = state.running.pop(job)
        self.growing.discard(job)
        self._leave(job)
        ran, gpus = (state.clock - start) * pace, int(self.trace.gpus[job])
        serves = np.isinf(self.trace.duration[job])
        repeated_seconds = 0.0 if serves else min(ran, self.rules.restart_cost + self._unsaved(job, ran))
        if state.failing.pop(job, None) is not None:
            repeated_seconds = ran
            state.in_vain += ran * gpus
        state.useful += (ran - repeated_seconds) * gpus
        state.lost[job] += repeated_seconds * gpus
        if state.clock <= self.trace.span:
            state.window_lost += repeated_seconds * gpus
        state.remaining[job] -= ran - repeated_seconds
        return rows

    def _unsaved(self, job: int, ran: float) -> float:
        """The seconds of work that a gang would lose now: those since its last checkpoint, which it makes after each
        interval of its work. ran are the seconds of the current run, counted on top of earlier ones. It is 0 where no
        interval is configured.
        """
        interval = self.rules.checkpoint_interval
        done = float(self.trace.duration[job]) - float(self.state.remaining[job]) + ran
        return done % interval if interval else 0.0

    def _halted(self) -> int:
        """GPUs of gangs that wait for replacements."""
        total = 0
        for job, rows in self.state.repairing.items():
            pods = zip(self.gangs.pods(job), rows, strict=True)
            total += sum(int(shape.request[-1]) for shape, row in pods if row >= 0)
        return total

    def host(self, incident: HostIncident) -> list[int]:
        """A host goes out of service and stops the gangs that stand on it, or comes back; the gangs."""
        state, row, up = self.state, self.fabric.nodes.row[incident.node], isinstance(incident, NodeBack)
        stopped: list[int] = []
        state.incidents += 1
        if up:
            state.down.discard(row)
        else:
            state.down.add(row)
            stopped = sorted(job for job, (_, rows) in state.running.items() if row in rows)
            for job in stopped:
                self._remember(job, row, "NodeLost")
                state.repairing[job] = self._stop(job)
                state.ready_since[job] = state.clock
                state.failures += 1
                self._tell("stopped", job)
                if len(self.gangs.pods(job)) > 1:
                    state.failed_at.setdefault(job, state.clock)
            for job in sorted(job for job, rows in state.repairing.items() if row in rows):
                self._lose(job, row)
        self._tell("up" if up else "down", row)
        self._ready[row] = up
        self._service = int(self._total[self._ready].sum())
        self.nodes = replace(self.fabric.nodes, ready=self._ready.copy())
        return stopped

    def _tell(self, kind: ReplayEventKind, subject: int, rows: tuple[int, ...] = ()) -> None:
        if self.log is not None:
            gpus = self._gpus(subject, rows) if rows else 0
            self.log.append(ReplayEvent(self.state.clock, kind, subject, rows, gpus))

    def _recover(self, job: int) -> None:
        """A gang that a failing host has stopped goes on."""
        if job in self.state.failed_at:
            self.state.recoveries.append(self.state.clock - self.state.failed_at.pop(job))

    def _lose(self, job: int, row: int) -> None:
        """A gang loses its pods on a host; where nothing of it is left, or it is not repaired, it waits as a whole.

        An elastic one that is repaired, and has enough pods left, works on.
        """
        rows = self.state.repairing.pop(job)
        rows_left = tuple(-1 if rank_row == row else rank_row for rank_row in rows)
        if self.contender.replaces and max(rows_left) >= 0:
            self._stand(job, tuple(rank_row if rank_row == row else -1 for rank_row in rows), -1)
            self.state.repairing[job] = rows_left
            if self.enough(job, rows_left):
                self.replace(job, {})
        else:
            self._stand(job, rows, -1)
            self._wait(job)

    def _wait(self, job: int) -> None:
        self.state.ready_since[job] = self.state.clock
        self.state.waiting.add(job)
        self.backlog.add(job)

    def _stand(self, job: int, rows: Sequence[int], by: int) -> None:
        """Count the pods of a gang onto their rows, or off them; those without one are left out."""
        queue = self.trace.queue[job]
        for shape, row in zip(self.gangs.pods(job), rows, strict=True):
            if row < 0:
                continue
            gpus = int(shape.request[-1])
            self.standing[shape.number, row] += by
            self.held_in[:, queue] += by * shape.request
            self._idle[row] -= by * gpus
            self._used += by * gpus

    def _sample(self, time: float) -> Sample:
        topology, free = self.fabric.topology, self.idle
        total = np.where(self._ready, self._total, 0)
        used = topology.totals(self._total - self._idle)
        leaves = topology.at_tier.get(_LEAVES, EMPTY)
        inside = topology.totals(free)[leaves]
        usable = [size * int(gangs_in(topology, free, total, size)[leaves].sum()) for size in SLOT_SIZES]
        return Sample(
            time=time,
            held=self._used,
            asked=self._asked(),
            running=len(self.state.running),
            waiting=len(self.state.waiting),
            fragmentation=tuple(share_lost(int(inside.sum()), units) for units in usable) if len(leaves) else (),
            leaves=used[leaves].astype(np.int32),
            parted_hosts=int(np.count_nonzero((free > 0) & (free < total))),
            parted_leaves=int(np.count_nonzero((inside > 0) & (inside < topology.totals(total)[leaves]))),
        )
