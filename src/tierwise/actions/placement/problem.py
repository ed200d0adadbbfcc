"""What is to be placed: a tree of parts, each in a domain of its own inside that of the part around it.

A *leaf* is a task group of a sub-job. A *group* is a job, or a group of groups: parts of it are placed until what they
`adds` sums up to what the group `lacks`. Both are vectors. Those of a nested group have one entry, the number of parts.
Those of a job with sub-groups have an entry for its tasks, one for the whole sub-groups of each policy, and one for the
tasks of each role.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from functools import cached_property

import msgspec
import numpy as np

from tierwise.actions.placement.demand import TaskGroup
from tierwise.framework.extension import Abstained, Proposal
from tierwise.framework.ledger import Pool
from tierwise.model.arrays import Ints
from tierwise.model.job import Job, PodSet, SubJob
from tierwise.model.shape import Shape

__all__ = [
    "BOTH",
    "NOW_ONLY",
    "Budget",
    "Counts",
    "Limit",
    "NoPlace",
    "Part",
    "Placement",
    "SearchResult",
    "first_found",
    "plus",
]

Counts = tuple[int, ...]


def plus(one: Counts, other: Counts) -> Counts:
    """Their sum, number by number."""
    return tuple(a + b for a, b in zip(one, other, strict=True))


class Limit(msgspec.Struct, frozen=True, eq=False):
    """A constraint on any tree, as an array from row to domain."""

    homes: Ints  # of each row the domain, -1 for none
    fewest: int = 0  # 0: all tasks must share one domain; else they must use at least so many domains


class Part(msgspec.Struct, frozen=True, eq=False, dict=True):
    """A task group, or a group of which further parts must be placed."""

    number: int  # tells the parts of a job apart
    gang: Job | SubJob
    limit: int | None  # the widest tier of the tree that rows follow
    pods: int  # the fewest that it takes
    adds: Counts  # what it counts for in the group around it
    task_group: TaskGroup | None = None
    bundle: tuple[tuple[Shape, int], ...] = ()  # of a leaf that may be alike others: so many tasks of each pod set
    lacks: Counts = ()  # what the parts of a group must add up to
    parts: tuple[Part, ...] = ()  # those that can be placed, the chosen ones first
    chosen: int = 0  # how many of them would be enough
    optional: bool = False  # whether parts may be left out, because others can replace them
    kind: tuple[object, ...] | None = None  # the same for parts that are alike; None where one is like no other
    limits: tuple[Limit, ...] = ()  # on several trees
    standing: Ints = np.zeros(0, dtype=np.int64)  # rows of its tasks that are placed already, where limits need them

    @property
    def counts_parts(self) -> bool:
        """Whether a group lacks a number of parts, whichever they are."""
        return len(self.lacks) == 1

    @cached_property
    def leaves(self) -> tuple[Part, ...]:
        """All task groups in it, as parts."""
        return tuple(leaf for part in self.parts for leaf in part.leaves) if self.parts else (self,)

    @cached_property
    def shapes(self) -> frozenset[Shape]:
        """The shapes of all its tasks."""
        return frozenset(left.pod_set.shape for group in self.task_groups() for left in group.remaining)

    @cached_property
    def still_to_come(self) -> tuple[Counts, ...]:
        """What the parts from each one on add up to."""
        sums = [(0,) * len(self.lacks)]
        for part in reversed(self.parts):
            sums.append(plus(sums[-1], part.adds))
        return tuple(reversed(sums))

    def task_groups(self) -> Iterator[TaskGroup]:
        return (leaf.task_group for leaf in self.leaves if leaf.task_group is not None)


class Placement(msgspec.Struct, frozen=True):
    """Tasks of one pod set with the row of each, in tree order."""

    sub: SubJob
    pod_set: PodSet
    rows: Ints
    pool: Pool


class SearchResult(msgspec.Struct, frozen=True):
    """A place for one task group or a whole job, already on the ledger."""

    domain: int
    placements: tuple[Placement, ...]
    score: float
    proposed: Proposal | Abstained | None = None  # the plugin's recommendation, whether followed or not


class NoPlace(enum.Enum):
    """No place was found, and whether that proves that there is none."""

    PROVEN = "proven"
    BOUNDED = "bounded"  # the search stopped at its bound, so the no is not a proof

    @classmethod
    def of(cls, *, bounded: bool) -> NoPlace:
        return cls.BOUNDED if bounded else cls.PROVEN


def first_found(answers: Iterable[SearchResult | NoPlace]) -> SearchResult | NoPlace:
    """The first place that is found; there is none by proof where every answer is one."""
    bounded = False
    for found in answers:
        if isinstance(found, SearchResult):
            return found
        bounded |= found is NoPlace.BOUNDED
    return NoPlace.of(bounded=bounded)


BOTH = (Pool.IDLE, Pool.FUTURE_IDLE)
"""Idle resources first, then those that are being released."""
NOW_ONLY = (Pool.IDLE,)
"""What can start at once."""


class Budget(msgspec.Struct):
    """Steps that a search may still take, in all the domains that it looks at."""

    left: int
