"""Who waits, and which of them a cycle is shown.

A cycle sees at most `look_ahead` gangs of every queue, highest priority and earliest arrival first. Where nobody is
evicted and there is one queue, gangs that cannot be placed whatever the policy, by counting idle GPUs host by host, are
not shown: the answer is known.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import islice

import numpy as np

from tierwise.model.arrays import Ints
from tierwise.replay.trace import Trace

__all__ = ["Backlog", "most"]

Entry = tuple[int, int]
"""Priority (negated) and number of a job: the turn that it has."""


class Backlog:
    """Waiting jobs by queue and size, in the order of turns."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._queues: list[dict[int, list[Entry]]] = [{} for _ in trace.queues]
        self.gpus = 0

    def add(self, job: int) -> None:
        gpus = int(self._trace.gpus[job])
        line = self._queues[self._trace.queue[job]].setdefault(gpus, [])
        heapq.heappush(line, (-int(self._trace.priority[job]), job))
        self.gpus += gpus

    def remove(self, job: int) -> None:
        """A job that was shown leaves."""
        gpus = int(self._trace.gpus[job])
        line = self._queues[self._trace.queue[job]][gpus]
        entry = (-int(self._trace.priority[job]), job)
        if line[0] == entry:
            heapq.heappop(line)
        else:
            line.remove(entry)
            heapq.heapify(line)
        self.gpus -= gpus

    def shown(self, look_ahead: int, most: Callable[[int], int]) -> list[int]:
        """The jobs of the next cycle; of each size no more than `most` says can find room."""
        found: list[int] = []
        for lines in self._queues:
            firsts = (heapq.nsmallest(min(look_ahead, most(gpus)), line) for gpus, line in lines.items() if line)
            found += [job for _, job in islice(heapq.merge(*firsts), look_ahead)]
        return found


def most(idle: Ints, per_host: int, gpus: int) -> int:
    """How many gangs of a size the idle GPUs of hosts could hold at most, whatever else is placed."""
    if gpus <= per_host:
        return int((idle // gpus).sum())
    whole, rest = divmod(gpus, per_host)
    hosts = int(np.count_nonzero(idle >= per_host))
    if rest and np.count_nonzero(idle >= rest) < whole + 1:
        return 0
    return hosts // whole
