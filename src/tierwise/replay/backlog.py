"""Who waits, and which of them a cycle is shown.

A cycle sees at most `look_ahead` gangs, highest priority and earliest arrival first. Where nobody is evicted, gangs
that cannot be placed whatever the policy, by counting idle GPUs host by host, are not shown: the answer is known.
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
    """Waiting jobs by size, each size in the order of turns."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._lines: dict[int, list[Entry]] = {}
        self.gpus = 0

    def __len__(self) -> int:
        return sum(map(len, self._lines.values()))

    def add(self, job: int) -> None:
        gpus = int(self._trace.gpus[job])
        heapq.heappush(self._lines.setdefault(gpus, []), (-int(self._trace.priority[job]), job))
        self.gpus += gpus

    def remove(self, job: int) -> None:
        """A job that was shown leaves."""
        gpus = int(self._trace.gpus[job])
        line = self._lines[gpus]
        entry = (-int(self._trace.priority[job]), job)
        if line[0] == entry:
            heapq.heappop(line)
        else:
            line.remove(entry)
            heapq.heapify(line)
        self.gpus -= gpus

    def shown(self, look_ahead: int, most: Callable[[int], int]) -> list[int]:
        """The jobs of the next cycle; of each size no more than `most` says can find room."""
        firsts = (heapq.nsmallest(min(look_ahead, most(gpus)), line) for gpus, line in self._lines.items() if line)
        return [job for _, job in islice(heapq.merge(*firsts), look_ahead)]


def most(idle: Ints, per_host: int, gpus: int) -> int:
    """How many gangs of a size the idle GPUs of hosts could hold at most, whatever else is placed."""
    if gpus <= per_host:
        return int((idle // gpus).sum())
    whole, rest = divmod(gpus, per_host)
    hosts = int(np.count_nonzero(idle >= per_host))
    if rest and np.count_nonzero(idle >= rest) < whole + 1:
        return 0
    return hosts // whole
