"""How large the benchmarks are, and the measurements that several rows share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import msgspec

from tierwise_lab.bench.measure import Goal, Pass, Row, decisions, stream
from tierwise_lab.bench.worlds import cluster, jobs, mix, snapshot

__all__ = ["FULL", "GOALS_OF_ROWS", "QUICK", "REGISTERED", "Lab", "Measured", "Size", "row"]

T = TypeVar("T")


class Size(msgspec.Struct, frozen=True):
    """Nodes, gangs, pods and repeats. Quick runs differ from full ones in repeats and in how much is compared."""

    small: int = 10_000  # nodes
    large: int = 100_000
    gangs: int = 1_000
    backlog: int = 5_000
    sample: int = 60  # gangs of the mix that the pod-by-pod reference decides as well
    gang: int = 512  # pods of the gang that it decides
    giant: int = 5_000  # pods of the largest gang
    racks: int = 50  # of the flat cluster
    rack: int = 100  # nodes in each
    crowds: int = 9
    crowd: int = 1_000  # pods of each
    handfuls: int = 750
    residents: int = 2_000  # running gangs of a full cluster
    pods: int = 100_000  # of a cluster that is read again and again
    everyday: int = 10_000  # nodes with DaemonSets and plain pods
    replayed: int = 20_000  # jobs of the trace whose replay is timed
    weighed: int = 4_000  # and of the one whose memory is looked at
    repeats: int = 20
    imports: int = 15


FULL = Size()
QUICK = Size(
    pods=20_000,
    everyday=2_000,
    sample=25,
    replayed=4_000,
    weighed=1_000,
    repeats=4,
    imports=5,
)


class Lab:
    """Measures on first request, and answers from memory after that."""

    def __init__(self, size: Size, data: str | None = None) -> None:
        self.size = size
        self.data = data  # a folder with public traces, for rows that can use them
        self._mixes: dict[int, tuple[Pass, float]] = {}
        self._known: dict[str, object] = {}

    def once(self, name: str, measure: Callable[[], T]) -> T:
        """Measurement that several rows share, made when the first of them needs it."""
        if name not in self._known:
            self._known[name] = measure()
        return cast("T", self._known[name])

    def mixed(self, nodes: int) -> tuple[Pass, float]:
        """The heavy-tailed mix on so many nodes, and the seconds that reading their idle matrix takes.

        The large cluster starts half full, the small one a fifth: there the mix itself takes most of the rest.
        """
        results = self._mixes.get(nodes)
        if results is None:
            where = cluster(nodes, load=0.5 if nodes == self.size.large else 0.2)
            snap = snapshot(where, jobs(mix(self.size.gangs, top=where.top)))
            results = self._mixes[nodes] = (decisions(snap, self.size.repeats), stream(snap))
        return results


Measured = tuple[str, float]
"""What was measured, in words, and how much it is."""

REGISTERED: dict[str, Callable[[Lab], Row]] = {}
"""The rows of all modules that were imported, by their ids."""
GOALS_OF_ROWS: dict[str, Goal] = {}
"""The goals of the same rows, by the same ids."""


def row(name: str, goal: Goal) -> Callable[[Callable[[Lab], Measured]], Callable[[Lab], Row]]:
    """Makes a row of the benchmark of what measures it."""

    def made(measure: Callable[[Lab], Measured]) -> Callable[[Lab], Row]:
        GOALS_OF_ROWS[name] = goal
        REGISTERED[name] = lambda lab: Row(name, *measure(lab), goal)
        return REGISTERED[name]

    return made
