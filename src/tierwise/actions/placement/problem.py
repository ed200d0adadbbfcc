"""What is to be placed: a tree of parts, each in a domain of its own inside that of the part around it.

A *unit* is a task group of a sub-job. A *group* is a job, or a group of groups: parts of it are placed until what they
`adds` sums up to what the group `lacks`. Both are vectors. Those of a nested group have one entry, the number of parts.
Those of a job with sub-groups have an entry for its tasks, one for the whole sub-groups of each policy, and one for the
tasks of each role. `parts_of` makes the tree of a demand, `SearchResult` and `NoPlace` are the answers to it, and
`place_tasks` is the usual way to write what has a place to the ledger.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

import msgspec
import numpy as np
from msgspec.structs import replace

from tierwise.actions.placement.demand import Demand, TaskGroup
from tierwise.framework.cycle import Cycle
from tierwise.framework.declined import Held
from tierwise.framework.extension import Abstained, Ask, Delay, Proposal
from tierwise.framework.ledger import Pool, lacking_of, ready_tasks
from tierwise.framework.placer import Picks
from tierwise.framework.report import Term
from tierwise.framework.steps import StepAccount
from tierwise.model.arrays import EMPTY, Ints
from tierwise.model.job import Job, PodSet, Shape, SubJob

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
    "amounts_of",
    "deferral",
    "first_found",
    "found_on",
    "group_of",
    "joined",
    "parts_of",
    "place_tasks",
    "plus",
    "rows_of",
    "tightness",
    "usable",
    "written",
]

Counts = tuple[int, ...]


def plus(counts: Counts, other_counts: Counts) -> Counts:
    """Their sum, number by number."""
    return tuple(a + b for a, b in zip(counts, other_counts, strict=True))


class Limit(msgspec.Struct, frozen=True, eq=False):
    """A constraint on any tree, as an array from row to domain."""

    domain_of_row: Ints  # -1 for none
    spread: int = 0  # 0: all tasks must share one domain; else they must use at least so many domains


class Part(msgspec.Struct, frozen=True, eq=False, dict=True):
    """A task group, or a group of which further parts must be placed."""

    number: int  # tells the parts of a job apart
    gang: Job | SubJob
    tier: int | None  # the widest that it may span, of the tree that rows follow
    pods: int  # the fewest that it takes
    adds: Counts  # what it counts for in the group around it
    task_group: TaskGroup | None = None
    bundle: tuple[tuple[Shape, int], ...] = ()  # of a unit that may be alike others: so many tasks of each pod set
    lacks: Counts = ()  # what the parts of a group must add up to
    parts: tuple[Part, ...] = ()  # those that can be placed, the chosen ones first
    chosen: int = 0  # how many of them would be enough
    kind: tuple[object, ...] | None = None  # the same for parts that are alike; None where one is like no other
    limits: tuple[Limit, ...] = ()  # on several trees
    standing: Ints = EMPTY  # rows of its tasks that are placed already, where limits need them

    @property
    def optional(self) -> bool:
        """Whether parts may be left out, because others can replace them."""
        return self.chosen < len(self.parts)

    @property
    def counts_parts(self) -> bool:
        """Whether a group lacks a number of parts, whichever they are."""
        return len(self.lacks) == 1

    @cached_property
    def units(self) -> tuple[Part, ...]:
        """All task groups in it, as parts."""
        if self.parts:
            return tuple(unit for part in self.parts for unit in part.units)
        return (self,)

    @cached_property
    def shapes(self) -> frozenset[Shape]:
        """The shapes of all its tasks."""
        return frozenset(tasks_left.pod_set.shape for group in self.task_groups() for tasks_left in group.remaining)

    @cached_property
    def still_to_come(self) -> tuple[Counts, ...]:
        """What the parts from each one on add up to."""
        sums = [(0,) * len(self.lacks)]
        for part in reversed(self.parts):
            sums.append(plus(sums[-1], part.adds))
        return tuple(reversed(sums))

    def every(self) -> Iterator[Part]:
        """The part and all parts in it, groups before what is in them."""
        yield self
        for part in self.parts:
            yield from part.every()

    def task_groups(self) -> Iterator[TaskGroup]:
        return (unit.task_group for unit in self.units if unit.task_group is not None)


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
    with_surplus: Ints | None = None  # innermost domains that were chosen for all of a gang, of which this is a part
    terms: tuple[Term, ...] = ()  # by which the domain comes before the other candidates; empty if there was none


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
    for answer in answers:
        if isinstance(answer, SearchResult):
            return answer
        bounded |= answer is NoPlace.BOUNDED
    return NoPlace.of(bounded=bounded)


BOTH = (Pool.IDLE, Pool.FUTURE_IDLE)
"""Idle resources first, then those that are being released."""
NOW_ONLY = (Pool.IDLE,)
"""What can start at once."""


def usable(cycle: Cycle, pools: tuple[Pool, ...]) -> tuple[Pool, ...]:
    """The pools to look at, one after the other: where nothing is being released they are all the same."""
    return pools if cycle.ledger.any_releasing else pools[:1]


class Budget(msgspec.Struct):
    """Steps that a search may still take, in all the domains that it looks at; it charges the account for each."""

    left: int
    account: StepAccount


# The parts that a job, or an inner group of it, lacks. The ledger is read, and not changed.


_FEW = 8
"""Up to this many sub-jobs, each one's previous domain is considered; more are placed without regard to it."""


def parts_of(cycle: Cycle, job: Job, demand: Demand) -> Part | None:
    """Make a tree of parts of what a demand asks for, from the inside out.

    None where too few parts of a nested job can be placed, or it is whole.
    """
    shape = job.shape
    lacks = _lacks(cycle, job)
    first_choice = demand.task_groups
    if not shape.nested:
        first_choice = tuple(sorted(first_choice, key=lambda task_group: tightness(cycle, task_group)))
    inside: list[list[tuple[bool, int, Part]]] = [[] for _ in lacks]  # if it is a substitute, its place, the part
    for i, task_group in enumerate((*first_choice, *demand.substitutes)):
        slot = shape.leaves[task_group.sub.number - job.subs[0].number].whole
        group = slot.group if slot is not None else 0
        adds = _adds(cycle, job, task_group, len(lacks[group]))
        inside[group].append((i >= len(first_choice), i, _unit(cycle, i + len(lacks), task_group, adds)))
    if not shape.nested:
        return _whole_job(cycle, job, demand, lacks[0], tuple([part for _, _, part in inside[0]]))
    for i in reversed(range(demand.inner_group, len(lacks))):  # parts come after the groups that they are in
        (need,) = lacks[i]
        if len(inside[i]) >= need > 0:
            ordered = sorted(inside[i], key=lambda part: part[:2])
            part = _group(cycle, job.group(i), i, need, tuple([part for _, _, part in ordered]))
            if i == demand.inner_group:
                return part
            inside[job.inner_groups[i].parent].append((ordered[need - 1][0], ordered[0][1], part))
    return None


def _lacks(cycle: Cycle, job: Job) -> list[Counts]:
    """The numbers that each group of a job lacks; of a nested one parts alone, as the pods follow from these."""
    most = 1 if job.shape.nested else None
    return [tuple(numbers[:most]) for numbers in lacking_of(cycle.ledger, job)]


def _adds(cycle: Cycle, job: Job, task_group: TaskGroup, numbers: int) -> Counts:
    """The numbers that a task group counts for, of the first ones that the group around it lacks."""
    counts = [0] * len(job.shape.groups[0].least)
    leaf = job.shape.leaves[task_group.sub.number - job.subs[0].number]
    before = ready_tasks(cycle.ledger, task_group.sub)
    counts[leaf.tasks.at] += task_group.need
    if leaf.whole is not None and before < leaf.size <= before + task_group.need:
        counts[leaf.whole.at] += 1
    slots = dict(zip(job.counted_roles, job.shape.roles, strict=True))
    for pod_set, number in task_group.taken() if slots else ():
        slot = slots.get(pod_set.role_number)
        if slot is not None:
            counts[slot.at] += number
    return tuple(counts[:numbers])


def tightness(cycle: Cycle, task_group: TaskGroup) -> tuple[int, int]:
    """Sort key: tight limits first, then large task groups, because these have the fewest candidates."""
    limit = cycle.pipeline.limit(task_group.sub)
    return (2**62 if limit is None else limit, -task_group.need)


def _whole_job(cycle: Cycle, job: Job, demand: Demand, lacks: Counts, parts: tuple[Part, ...]) -> Part:
    """A job with sub-groups and no groups of these: it lacks tasks in all, whole sub-jobs by policy, tasks by role."""
    number = len(demand.task_groups)
    kind = _kind_of_job(cycle, demand, parts)
    limit = cycle.pipeline.limit(job)
    return Part(0, job, limit, demand.need, (), lacks=lacks, parts=parts, chosen=number, kind=kind)


def _kind_of_job(cycle: Cycle, demand: Demand, parts: tuple[Part, ...]) -> tuple[object, ...] | None:
    """The kind of a job whose chosen sub-groups are alike; None where they are not, or may go to different places."""
    first_part, *other_parts = parts[: len(demand.task_groups)]
    if first_part.kind is None or first_part.tier is None or demand.needs_substitutes:
        return None
    subs = [task_group.sub for task_group in demand.task_groups]
    if len(subs) <= _FEW and any(cycle.previous_domain(sub) is not None for sub in subs):
        return None
    alike = (
        all(part.kind == first_part.kind for part in other_parts)
        and len({(sub.policy, sub.total) for sub in subs}) == 1
    )
    if alike and len({sub.number for sub in subs}) == len(subs):
        return ("job", first_part.kind)
    return None


def _unit(cycle: Cycle, number: int, task_group: TaskGroup, adds: Counts) -> Part:
    limit = cycle.pipeline.limit(task_group.sub)
    bundle = task_group.firm()
    kind = None
    if bundle and cycle.ledger.placed_rows(task_group.sub) is None:
        shapes = tuple((shape.number, count) for shape, count in bundle)
        tied_sub = task_group.sub.number if task_group.extra else -1  # it goes where the rest of its sub-job is
        kind = ("sub-job", tied_sub, limit, adds, shapes)
    return Part(number, task_group.sub, limit, task_group.need, adds, task_group, bundle, kind=kind)


def _group(cycle: Cycle, gang: Job, number: int, need: int, parts: tuple[Part, ...]) -> Part:
    limit, first_part, kind = cycle.pipeline.limit(gang), parts[0], None
    alike = (
        first_part.kind is not None and len(first_part.units[0].bundle) == 1 and len({part.kind for part in parts}) == 1
    )
    if alike and (number == 0 or cycle.current_domain(gang) is None):
        kind = ("group", limit, need, first_part.kind)
    return replace(group_of(number, gang, need, parts), tier=limit, kind=kind)


def group_of(number: int, gang: Job, need: int, parts: tuple[Part, ...]) -> Part:
    """A group of which so many parts, whichever they are, must be placed."""
    pods = sum(sorted(part.pods for part in parts)[:need])
    return Part(number, gang, None, pods, (1,), lacks=(need,), parts=parts, chosen=need)


# What has a place, on the ledger; `alike` and `plain_pods` write many tasks at once.


def place_tasks(cycle: Cycle, ask: Ask, pod_set: PodSet, picks: Picks, pool: Pool) -> Placement:
    """Write the placement of tasks of one pod set to the ledger."""
    rows, counts = picks
    cycle.ledger.place(pod_set.shape, rows, counts, pool=pool)
    cycle.ledger.count_placed(ask.sub, pod_set, rows, counts, pool=pool)
    cycle.ledger.charge(ask.job, pod_set.shape.request * counts.sum())
    return Placement(ask.sub, pod_set, rows.repeat(counts), pool)


def rows_of(placements: Iterable[Placement]) -> Ints:
    """The row of each task of some placements."""
    return np.concatenate([placement.rows for placement in placements])


def held_by(placements: Iterable[Placement]) -> Held:
    """What placements take: shapes, rows, each once, and the number of tasks on them."""
    rows: dict[Shape, list[Ints]] = {}
    for placement in placements:
        rows.setdefault(placement.pod_set.shape, []).append(placement.rows)
    return tuple(
        (shape, *np.unique(np.concatenate(rows_of_shape), return_counts=True)) for shape, rows_of_shape in rows.items()
    )


def joined(placements: Iterable[Placement]) -> list[Placement]:
    """One placement for each pod set and pool, with its rows in tree order."""
    by_pod_set_and_pool: dict[tuple[int, Pool], Placement] = {}
    for placement in placements:
        key = (id(placement.pod_set), placement.pool)
        earlier = by_pod_set_and_pool.get(key)
        if earlier is not None:
            placement = replace(earlier, rows=np.sort(np.concatenate((earlier.rows, placement.rows))))
        by_pod_set_and_pool[key] = placement
    return list(by_pod_set_and_pool.values())


def deferral(cycle: Cycle, job: Job, placements: Iterable[Placement]) -> Delay | None:
    """Why a job had better wait than take a place: asked wherever one is given out, before any pod goes for it."""
    if cycle.pipeline.defer:
        return cycle.pipeline.defer(job, rows_of(placements))
    return None


def found_on(cycle: Cycle, placements: Sequence[Placement]) -> SearchResult:
    """What was found on some rows, in the innermost domain around them."""
    return SearchResult(cycle.topology.meet_rows(rows_of(placements)), tuple(placements), 0.0)


def amounts_of(cycle: Cycle, placements: Iterable[Placement]) -> Ints:
    """What placed tasks ask for together."""
    used = np.zeros(len(cycle.view.axis), dtype=np.int64)
    for placement in placements:
        used += placement.pod_set.shape.request * len(placement.rows)
    return used


def written(cycle: Cycle, job: Job, placement_result: SearchResult) -> SearchResult | NoPlace:
    """What was found and taken back, on the ledger once more; nothing of it where some has no room by now."""
    with cycle.ledger.statement() as statement:
        for placement in placement_result.placements:
            shape = placement.pod_set.shape
            pool = placement.pool
            rows, counts = np.unique(placement.rows, return_counts=True)
            if (cycle.fit_counts.of(shape).rows(pool)[rows] < counts).any():
                return NoPlace.BOUNDED
            place_tasks(cycle, Ask(shape, placement.sub, job), placement.pod_set, (rows, counts), pool)
        statement.keep()
    return placement_result
