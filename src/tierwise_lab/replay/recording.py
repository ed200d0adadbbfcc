"""A simulated trace as a recording: what happened under one profile, from which any moment is put together again.

The log has one entry for each arrival, start, end and stop, so its size follows the trace. A moment that is looked at
is made by going through the log up to it; why gangs wait there is worked out by a cycle on that state.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from itertools import groupby
from math import ceil
from typing import Final

from msgspec.structs import replace

from tierwise.api.codec import Raw
from tierwise.explain.board import Board, cycle_entry
from tierwise.explain.text.schedule import Run
from tierwise.framework.ledger import Pool
from tierwise.framework.report import CycleReport, Decision, Eviction, PlacedTasks
from tierwise.model.job import Phase
from tierwise.model.snapshot import Snapshot
from tierwise.web.event_log import EventKind, JobEvent
from tierwise.web.recording import Recording, thinned
from tierwise.web.views import RunView
from tierwise_lab.replay.engine.cluster import ReplayEvent
from tierwise_lab.replay.engine.contenders import Contender
from tierwise_lab.replay.engine.engine import Engine
from tierwise_lab.replay.engine.gangs import job_key
from tierwise_lab.replay.engine.rules import Rules
from tierwise_lab.replay.engine.state import ReplayState
from tierwise_lab.replay.traces.fabric import GPU, Fabric
from tierwise_lab.replay.traces.trace import Trace

__all__ = ["ReplayRecording"]


class ReplayRecording(Recording):
    """One trace on one fabric under one contender, moment by moment."""

    elapsed = True

    def __init__(
        self, fabric: Fabric, trace: Trace, contender: Contender, rules: Rules, log: Sequence[ReplayEvent]
    ) -> None:
        super().__init__()
        self._fabric = fabric
        self._contender = contender
        self._rules = rules
        self._trace = trace if rules.queues else trace.in_one_queue()
        self._log = log
        self._lock = threading.Lock()
        self._ends: dict[int, int] = {}  # by moment, the events up to its end
        moments = self._figures()
        self._count = len(moments)
        self._moments = thinned(moments)
        self.log.add(self._events())

    def _events(self) -> Iterator[JobEvent]:
        """The log of the replay, by moments."""
        begin = 0
        for number, end in self._ends.items():
            for event in self._log[begin:end]:
                if event.kind in _KINDS:
                    job = job_key(event.subject, self._rules.teams)
                    pods = sum(row >= 0 for row in event.rows)
                    action, text = _WHY.get(event.kind, ("", ""))
                    yield JobEvent(event.time, number, _KINDS[event.kind], job, pods, action=action, text=text)
            begin = end

    def moments(self) -> Sequence[Raw]:
        return self._moments

    def count(self) -> int:
        return self._count

    def events_up_to(self, number: int) -> int:
        """How many events of the log have happened when a moment is over."""
        return self._ends[number]

    def _figures(self) -> list[Raw]:
        figures: list[Raw] = []
        held_gpus = waiting = down = position = 0
        rows: dict[int, tuple[int, ...]] = {}
        gpus: dict[int, int] = {}
        period = 0.0 if self._rules.controllers else self._rules.period
        groups = groupby(self._log, key=lambda event: ceil(event.time / period) if period else event.time)
        for number, (_, group) in enumerate(groups, start=1):  # what one cycle sees and decides is one moment
            placed = evicted = 0
            time = 0.0
            for event in group:
                time = event.time
                position += 1
                job = event.subject
                match event.kind:
                    case "arrived":
                        waiting += 1
                    case "started" | "resized":
                        before = rows.get(job, (-1,) * len(event.rows))
                        waiting = waiting - (event.kind == "started")
                        held_gpus = held_gpus + event.gpus - gpus.get(job, 0)
                        placed += sum(old < 0 <= new for old, new in zip(before, event.rows, strict=True))
                        evicted += sum(new < 0 <= old for old, new in zip(before, event.rows, strict=True))
                        rows[job], gpus[job] = event.rows, event.gpus
                    case "ended":
                        held_gpus -= gpus.pop(job)
                        del rows[job]
                    case "evicted" | "stopped" | "failed":
                        waiting = waiting + 1
                        held_gpus = held_gpus - gpus.pop(job)
                        evicted += sum(row >= 0 for row in rows.pop(job))
                    case "down" | "up":
                        down += 1 if event.kind == "down" else -1
            self._ends[number] = position
            figures.append(
                {
                    "id": number,
                    "now": time,
                    "resource": GPU,
                    "total": self._fabric.gpus,
                    "used": held_gpus,
                    "fragmented": None,
                    "nodes": len(self._fabric.nodes),
                    "shut": down,
                    "waiting": waiting,
                    "placed": placed,
                    "evicted": evicted,
                }
            )
        return figures

    def view(self, number: int) -> RunView | None:
        end = self._ends.get(number)
        if end is None:
            return None
        with self._lock:
            replay = Engine(self._fabric, self._trace, self._contender, self._rules, self._state(end))
            seen, after, report = replay.picture()
        happened = _happened(after, report, self._log[self._ends.get(number - 1, 0) : end], self._rules.teams)
        run = Run([(seen, happened)], after, self._contender.profile)
        title = f"simulate, profile {self._contender.name}"
        board = Board(run, [cycle_entry(after, happened, number, {})])
        return RunView(board, mode="recording", title=title, made_at=after.now)

    def _state(self, end: int) -> ReplayState:
        """The state after so many events."""
        state = ReplayState.at_start(self._trace)
        for event in self._log[:end]:
            match event.kind:
                case "started" | "resized":
                    state.running[event.subject] = event.time, event.rows
                    state.waiting.discard(event.subject)
                case "ended":
                    del state.running[event.subject]
                case "evicted" | "stopped" | "failed":
                    del state.running[event.subject]
                    state.waiting.add(event.subject)
                case "arrived":
                    state.waiting.add(event.subject)
                case "down":
                    state.down.add(event.subject)
                case "up":
                    state.down.discard(event.subject)
        state.clock = self._log[end - 1].time
        return state


_KINDS: Final[dict[str, EventKind]] = {
    "arrived": "waits",
    "started": "started",
    "ended": "ended",
    "evicted": "evicted",
    "stopped": "evicted",
    "failed": "evicted",
}
"""What the log of a replay has, as the page tells it."""

_WHY: Final = {
    "evicted": ("preempt", "its place was given to another gang"),
    "stopped": ("failure", "its host failed"),
    "failed": ("failure", "a host did not get its pod to run"),
}
"""Action and reason that are told of a gang that lost its place."""


def _happened(after: Snapshot, report: CycleReport, events: Sequence[ReplayEvent], teams: int) -> CycleReport:
    """Report with the decisions that the log has for a moment, and the reasons of jobs that wait after it."""
    jobs = {job.key: job for job in after.jobs}
    decisions: list[Decision] = []
    evictions: list[Eviction] = []
    for event in events:
        job = jobs.get(job_key(event.subject, teams))
        if job is None:
            continue
        if event.kind == "started" and job.phase is Phase.RUNNING:
            (sub,) = job.subs
            rows = after.nodes.rows[sub.held]
            placed = PlacedTasks(sub, tuple(task for task in sub.tasks if task.node >= 0), rows, Pool.IDLE)
            decisions.append(Decision(job, "allocate", after.topology.meet_rows(rows), (placed,), bound=True))
        elif event.kind in _WHY:
            evictions += [Eviction(task, job, None, *_WHY[event.kind]) for task in job.tasks]
    return replace(report, decisions=tuple(decisions), evictions=tuple(evictions))
