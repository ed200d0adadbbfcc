"""The fewest units that will do, and how many tasks a cluster takes: what the ways of `least_change` search with.

Whether a choice of units will do is a test that its caller makes, by running the scheduler; here is which choices are
worth a test, the smallest first, and when an answer is proved to be the least.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from itertools import accumulate, compress
from math import prod
from typing import Final, Protocol

import msgspec
import numpy as np

from tierwise.config.profile import Profile
from tierwise.framework.ledger import Pool
from tierwise.model.arrays import Ints
from tierwise.model.job import Constraint, Job, PodSet
from tierwise.model.snapshot import Ground, Snapshot
from tierwise.model.topology import ROOT
from tierwise.scheduler.cycle import open_cycle
from tierwise.sim.what_if.changes import Scenario

__all__ = [
    "PLENTY",
    "Counting",
    "Counts",
    "Trial",
    "Way",
    "fewest",
    "fewest_number",
    "fruitless",
    "limit_of",
    "of_size",
]

_RARE: Final = 8
"""The part of the runs that is spent on what rarely helps."""
_SKIPPED: Final = 4096
"""Choices that are looked at and not tried, because they cost more than one that will do."""
PLENTY: Final = 2**60
"""A number of units which means that no number of them will do."""
Counts = tuple[int, ...]


class Way(Enum):
    """Result of an attempt that did not start the job."""

    NOT_OPEN = "there is nothing of its kind to change"
    HOPELESS = "however much is done, the job does not start"
    UNSETTLED = "the runs for it were used up before that was known"


class Trial(Protocol):
    """A test of choices that knows how many more it can afford."""

    left: int

    def __call__(self, counts: Counts) -> bool:
        """Whether so many of each unit will do."""


def fruitless(test: Trial) -> Way:
    """Result of a search that has found nothing."""
    return Way.HOPELESS if test.left > 0 else Way.UNSETTLED


def fewest(
    limits: Sequence[int],
    test: Trial,
    *,
    lower: int = 1,
    proposals: Iterable[Counts] = (),
    cost: Callable[[Counts], float] = lambda _: 0.0,
    price: Callable[[Counts], int] = sum,
) -> tuple[Counts, bool] | None:
    """The cheapest units that pass a test, and whether cheaper ones certainly do not; None where none was found:
    either none will do, or the test can afford no more.

    `most` is how many there are of each unit, `price` what a choice counts as (their number, unless it is given), and
    `lower` a price below which none can pass. Proposals are tried first, the cheapest first; of equal ones that of the
    least `cost`.
    """
    trials = test.left
    seen: dict[Counts, bool] = {}

    def passes(counts: Counts) -> bool:
        if counts not in seen:
            seen[counts] = test(counts)
        return seen[counts]

    smallest = sorted(proposals, key=lambda c: (price(c), cost(c), c))
    best = next((counts_tried for counts_tried in smallest if test.left > 0 and passes(counts_tried)), None)
    if best is None:
        full = tuple(limits)
        best = _reduced(full, passes, lambda: test.left > trials // 3) if passes(full) else None
    if best is None and prod(number + 1 for number in limits) > test.left:
        # Fewer than all might do where all do not, because others take the room; that is rare, and cannot be ruled out.
        test.left = min(test.left, trials // _RARE)
    if best is not None and price(best) <= lower:
        return best, True
    counted = price is sum
    skipped = 0
    largest = sum(best) - 1 if best is not None and counted else sum(limits)
    for size in range(max(lower, 1) if counted else 1, largest + 1):
        for counts in of_size(limits, size):
            if best is not None and price(counts) >= price(best):
                skipped += 1
                if skipped > _SKIPPED:
                    return best, False
                continue
            if test.left <= 0:
                return (best, False) if best is not None else None
            if passes(counts):
                if counted:
                    return counts, True
                best = counts
    return (best, True) if best is not None else None


def _reduced(full: Counts, passes: Callable[[Counts], bool], may: Callable[[], bool]) -> Counts:
    """A choice of which no unit can be left out: from the front as many as are needed, then each that can go, goes."""
    low = 0
    high = len(full)
    while low + 1 < high and may():
        middle = (low + high) // 2
        if passes((*full[:middle], *(0 for _ in full[middle:]))):
            high = middle
        else:
            low = middle
    best = (*full[:high], *(0 for _ in full[high:]))
    if not passes(best):
        best = full
    for index, number in enumerate(best):
        for less in range(number):
            if not may():
                return best
            fewer = (*best[:index], less, *best[index + 1 :])
            if passes(fewer):
                best = fewer
                break
    return best


def fewest_number(most: int, enough: Callable[[int], bool]) -> int | None:
    """The least number up to `most` that is enough, where more are enough if fewer are; None where none is."""
    if not enough(most):
        return None
    low = 0
    high = most
    while low < high:
        middle = (low + high) // 2
        if enough(middle):
            high = middle
        else:
            low = middle + 1
    return low


def of_size(limits: Sequence[int], size: int) -> Iterator[Counts]:
    """All choices of so many units; the first units are taken first."""
    if size > sum(limits):
        return
    counts = _filled(limits, size)
    upto = list(accumulate(limits))
    while True:
        yield tuple(counts)
        behind = 0  # units after an index that are taken; there may be many, and few of them are
        for index in reversed(list(compress(range(len(counts)), counts))):
            if upto[-1] - upto[index] > behind:
                counts[index] -= 1
                counts[index + 1 :] = _filled(limits[index + 1 :], behind + 1)
                break
            behind += counts[index]
        else:
            return


def _filled(limits: Sequence[int], size: int) -> list[int]:
    counts = [0] * len(limits)
    for index, number in enumerate(limits):
        if not size:
            break
        counts[index] = min(number, size)
        size -= counts[index]
    return counts


# -- counting


class Counting(msgspec.Struct, frozen=True):
    """How many tasks of a job of one shape each node takes, and where the job must fit as a whole."""

    snapshot: Snapshot
    pod_set: PodSet
    need: int  # tasks that are still to be placed
    fits: Ints  # per row, now
    open: Ints  # per row, 1 where nothing but amounts can be in the way
    free: Ints  # (resources x rows)
    domains: Ints  # one of which must hold the job

    @property
    def idle(self) -> Ints:
        """Free amounts of the requested resources, by node."""
        return self.free[self.pod_set.shape.asked]

    @classmethod
    def on(cls, snapshot: Snapshot, profile: Profile, pod_set: PodSet, need: int, domains: Ints) -> Counting:
        """How many tasks of a pod set each node of a cluster takes now."""
        current = open_cycle(snapshot, profile)
        shape = pod_set.shape
        return cls(
            snapshot=snapshot,
            pod_set=pod_set,
            need=need,
            fits=current.fit_counts.of(shape).rows(Pool.IDLE).copy(),
            open=(current.pipeline.why_not(shape) == 0).astype(np.int64),
            free=current.ledger.free(np.arange(len(snapshot.axis)), slice(None), Pool.IDLE),
            domains=domains,
        )

    @classmethod
    def of(cls, scenario: Scenario, job: Job) -> Counting | None:
        """None where counting says nothing: several shapes or sub-groups, rules between pods, another tree."""
        snapshot = scenario.snapshot()
        job = next(candidate for candidate in snapshot.jobs if candidate.key == job.key)
        pod_sets = list(job.pod_sets())
        if len(pod_sets) != 1 or job.shape.parted or len(job.subs) != 1:
            return None
        shape = pod_sets[0].shape
        constraint = job.constraint
        topology = snapshot.topology
        if shape.affinity is not None or shape.spread or shape.volumes is not None or shape.devices is not None:
            return None
        if len(job.subs[0].held) or snapshot.ground(job) is not Ground.ROWS:
            return None
        limit = limit_of(snapshot, constraint)
        allowed = np.flatnonzero(topology.tier <= limit) if limit is not None else np.array([ROOT])
        need = max(1, job.minimum - job.subs[0].ready)
        return cls.on(snapshot, scenario.profile, pod_sets[0], need, allowed)

    def takes(self, free: Ints) -> Ints:
        """How many tasks columns of free amounts take."""
        return self.pod_set.shape.max_tasks(free.copy())


def limit_of(snapshot: Snapshot, constraint: Constraint | None) -> int | None:
    """The highest tier within which a constraint keeps a job, on the tree that rows follow; None where it does not."""
    if constraint is None or not constraint.hard:
        return None
    if constraint.tier is not None:
        return constraint.tier
    return snapshot.topology.tier_names.get(constraint.tier_name)
