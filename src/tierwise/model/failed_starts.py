"""Nodes on which pods have failed to start: which of them a gang avoids, and which are suspected.

A failed start weighs 1 at first and half of that after each half-life. A gang avoids a node while its own failed starts
there weigh at least a half. A node is suspected while those of several namespaces do, of gangs most of whose other pods
ran elsewhere at that time: else the fault may be the gang's.

Nobody is kept from a node for good: a gang that finds no other place takes what it avoids. So one gang avoids at most
half as many nodes as it has pods, the ones with the most weight, and of the nodes of an innermost domain at most half
are suspected.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Final

import msgspec
from msgspec.structs import replace

from tierwise.model.job import Job, Status, namespace_of

__all__ = ["MOST", "MOST_OF_NAMESPACE", "FailedStart", "FailedStarts", "StartMemory", "confirmed", "kept_starts"]

MOST: Final = 1000
MOST_OF_NAMESPACE: Final = 100
"""Failed starts that are remembered, and of one namespace: no tenant displaces what others know."""

_LEAST = 0.5
"""The weight from which on a node is avoided."""


class FailedStart(msgspec.Struct, frozen=True):
    """A pod that a node did not get to run."""

    pod: str  # its uid
    gang: str  # the key of its job
    node: str
    at: float  # when it was first seen
    why: str  # in a word
    alone: bool = False  # too few of its gang have come up elsewhere to tell whose fault it was


def kept_starts(starts: Iterable[FailedStart]) -> list[FailedStart]:
    """The last ones in the order of time, and of each namespace so many at most."""
    number = Counter[str]()
    kept: list[FailedStart] = []
    for start in sorted(starts, key=lambda start: (-start.at, start.pod)):
        number[namespace_of(start.gang)] += 1
        if number[namespace_of(start.gang)] <= MOST_OF_NAMESPACE and len(kept) < MOST:
            kept.append(start)
    return kept[::-1]


def confirmed(starts: Sequence[FailedStart], gang: str, up: Sequence[str], pods: int) -> list[FailedStart]:
    """The failed starts, those of a gang no longer alone where it has come up elsewhere since: at least half of it, and
    on more nodes than have failed it. `up` has the node of each pod that runs.

    Starts that lacked an image stay alone: nobody can tell a node that is cut off from a registry that was away.
    """
    failed = {start.node for start in starts if start.gang == gang}
    elsewhere = [node for node in up if node not in failed]
    if 2 * len(elsewhere) < pods or len(elsewhere) < len(failed):
        return list(starts)
    return [
        replace(start, alone=False) if start.gang == gang and "Image" not in start.why else start for start in starts
    ]


class FailedStarts(msgspec.Struct, frozen=True, dict=True):
    """All that is remembered, at one moment."""

    starts: tuple[FailedStart, ...] = ()
    forgiven: Mapping[str, float] = {}  # by node: what was before counts no more
    half_life: float = 3600.0
    owners: int = 2
    now: float = 0.0

    def __bool__(self) -> bool:
        return bool(self.starts)

    def avoided(self, job: Job) -> list[str]:
        """The nodes that a gang avoids, the worst first."""
        weights = self._by_gang.get(job.key)
        if weights is None:
            return []
        most = max(1, len(job.tasks) // 2)
        worst = sorted(weights, key=lambda node: (-weights[node], node))
        return [node for node in worst if weights[node] >= _LEAST][:most]

    @cached_property
    def suspected(self) -> dict[str, tuple[str, ...]]:
        """By node: the namespaces that it has failed."""
        weights: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        for start in self._counted:
            if not start.alone:
                weights[start.node][namespace_of(start.gang)] += self._weight(start)
        failed = {node: tuple(sorted(n for n, w in by.items() if w >= _LEAST)) for node, by in weights.items()}
        return {node: failed[node] for node in sorted(failed) if len(failed[node]) >= self.owners}

    @cached_property
    def _by_gang(self) -> dict[str, dict[str, float]]:
        weights: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        for start in self._counted:
            weights[start.gang][start.node] += self._weight(start)
        return weights

    @property
    def _counted(self) -> Iterable[FailedStart]:
        return (start for start in self.starts if start.at > self.forgiven.get(start.node, float("-inf")))

    def _weight(self, start: FailedStart) -> float:
        weight: float = 0.5 ** (max(0.0, self.now - start.at) / self.half_life)
        return weight


class StartMemory(msgspec.Struct, frozen=True):
    """The record of failed starts, and what pods tell of now."""

    namespace: str  # in which the record is kept
    half_life: float
    owners: int
    recorded: tuple[FailedStart, ...] = ()
    forgiven: Mapping[str, float] = {}
    telling: Mapping[str, tuple[str, str, str] | None] = {}  # by pod that failed: its uid, its node and why
    marked: Mapping[str, str] | None = None
    """By node that has the condition of suspected ones: its status. None where nodes are to have none."""

    def at(self, jobs: Iterable[Job], now: float) -> FailedStarts:
        """All failed starts, at a moment."""
        starts = (*self.recorded, *self.seen_now(jobs, now))
        return FailedStarts(starts, self.forgiven, self.half_life, self.owners, now)

    def seen_now(self, jobs: Iterable[Job], now: float) -> list[FailedStart]:
        """The failed starts that are not in the record yet."""
        telling = {path: told for path, told in self.telling.items() if told is not None}
        known = {(start.pod, start.node) for start in self.recorded}
        found: list[FailedStart] = []
        for job in jobs if telling else ():
            failed = [told for task in job.tasks if (told := telling.get(task.key)) is not None]
            if not failed:
                continue
            nodes = {node for _, node, _ in failed}
            up = sum(task.status is Status.RUNNING and task.key not in telling for task in job.tasks)
            alone = 2 * up < len(job.tasks) or len(nodes) > up
            found += [
                FailedStart(pod, job.key, node, now, why, alone)
                for pod, node, why in failed
                if (pod, node) not in known
            ]
        return found
