"""What the scheduler decides at a moment: the books as a snapshot, one cycle, and who stops or starts by it."""

from __future__ import annotations

import msgspec
import numpy as np

from tierwise.framework.report import Decision
from tierwise.model.arrays import Ints
from tierwise.model.queue import Queue
from tierwise.model.snapshot import Snapshot
from tierwise.replay.backlog import most
from tierwise.replay.books import Books
from tierwise.replay.contenders import Contender, plugins
from tierwise.replay.fabric import AXIS
from tierwise.replay.rules import Rules
from tierwise.replay.trace import QUEUE
from tierwise.scheduler import cycle

__all__ = ["Decided", "Decider"]


class Decided(msgspec.Struct, frozen=True):
    """Jobs that lose their place, and jobs that get one: their rows in the order of ranks."""

    stopped: tuple[int, ...]
    started: tuple[tuple[int, tuple[int, ...]], ...]
    final: bool  # whether another cycle at this moment would decide nothing more
    again: float | None  # when one may decide otherwise though nothing has changed


class Decider:
    """Calls the scheduler's own cycle for one contender."""

    def __init__(self, books: Books, contender: Contender, rules: Rules) -> None:
        self._books, self._contender, self._look_ahead = books, contender, rules.look_ahead
        self._plugins = plugins()
        self._queues = {queue.name: queue for queue in rules.queues or (Queue(QUEUE),)}
        self._shapes = tuple(books.gangs.shapes)
        self._kept: dict[int, tuple[int, ...]] = {}  # rows that the last cycle nominated jobs for

    def decide(self) -> Decided | None:
        """One cycle over those who wait; None where nobody is worth showing to it."""
        shown = self._books.backlog.shown(self._look_ahead, self._most)
        if not shown:
            return None
        report = cycle(self._snapshot(shown), self._contender.profile, plugins=self._plugins)
        started = tuple(_rows(decision) for decision in report.decisions if decision.bound)
        self._kept = dict(_rows(decision) for decision in report.decisions if not decision.bound)
        stopped = tuple(dict.fromkeys(int(str(eviction.job.order[0])) for eviction in report.evictions))
        more = bool(stopped) or len(started) == len(shown) >= self._look_ahead
        return Decided(stopped, started, final=not more, again=report.again)

    def _most(self, gpus: int) -> int:
        if self._contender.evicts or len(self._queues) > 1:  # what a queue asks for counts, be there room or not
            return self._look_ahead
        return most(self._books.idle, self._books.fabric.gpus_per_host, gpus)

    def _snapshot(self, shown: list[int]) -> Snapshot:
        """What the cycle sees. Who runs is told one by one only to profiles that evict."""
        books = self._books
        jobs = [books.gangs.waiting(job, number, self._kept.get(job)) for number, job in enumerate(shown)]
        standing: dict[int, Ints] = {}
        standing_in: dict[str, Ints] = {}
        if self._contender.evicts:
            running = sorted(books.state.running.items())
            jobs += [books.gangs.running(j, number, rows) for number, (j, (_, rows)) in enumerate(running, len(jobs))]
        else:
            every = np.arange(len(books.nodes))
            standing = {n: np.repeat(every, counts) for n, counts in enumerate(books.standing) if counts.any()}
            standing_in = dict(zip(self._queues, books.held_in.T, strict=True))
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
        )


def _rows(decision: Decision) -> tuple[int, tuple[int, ...]]:
    by_rank = {task.rank: row for p in decision.placed for task, row in zip(p.tasks, p.rows.tolist(), strict=True)}
    return int(str(decision.job.order[0])), tuple(by_rank[rank] for rank in range(len(by_rank)))
