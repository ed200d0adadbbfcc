"""Turn the constraints of a job on several trees into arrays from row to domain, and list the tiers to try.

Called by `cells`, `nominated` and diagnosis. The tree of the job's own constraint drives the search: its tiers are
tried from the tightest outwards, and inside that those of the sub-groups'; soft constraints are kept
first, and dropped then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
from msgspec.structs import replace

from tierwise.actions.placement.demand import TaskGroup
from tierwise.actions.placement.problem import Limit, Part, group_of
from tierwise.framework.cycle import Cycle
from tierwise.model.arrays import EMPTY, Ints, distinct
from tierwise.model.job import Constraint, InnerGroup, Job, Policy, SubJob
from tierwise.model.topology import HYPERNODES, Topology

__all__ = ["STATED", "Limits", "Tiers", "domain_of_rows", "limited", "tiers_to_try", "within_limits"]


def domain_of_rows(cycle: Cycle, constraint: Constraint, tier: int | None = None) -> Ints | None:
    """Of each row the domain that a constraint means, -1 for none; None where it limits nothing.

    A domain of a tier is the widest one around a row that is not above it. `tier` is another than the constraint's own.
    """
    snapshot = cycle.snapshot
    rows = len(cycle.nodes)
    if snapshot.alternate_topology(constraint) is None and not snapshot.knows(constraint):
        virtual = constraint.kind == HYPERNODES  # without any hyperNode Volcano has a virtual root around all nodes
        if virtual or not constraint.hard:
            return None
        return np.full(rows, -1, dtype=np.int64)
    tree = cycle.tree_of(constraint)
    topology = tree.topology
    limit = _tier(constraint, topology) if tier is None else tier
    if limit is None:
        unknown = bool(constraint.tier_name) and (constraint.kind != HYPERNODES or constraint.spread > 0)
        if unknown and constraint.hard:
            return np.full(rows, -1, dtype=np.int64)
        return None
    domains: Ints = _widest(topology, limit)[topology.leaf[tree.positions]]
    return domains


def _tier(constraint: Constraint, topology: Topology) -> int | None:
    if constraint.tier is not None:
        return constraint.tier
    return topology.tier_names.get(constraint.tier_name)


def _widest(topology: Topology, limit: int) -> Ints:
    """Of each domain the outermost one around it, or itself, that is not above a tier; -1 where it is above itself."""
    widest = np.full(len(topology), -1, dtype=np.int64)
    for domain in topology.outermost(limit).tolist():
        widest[topology.below(domain)] = domain
    return widest


class Tiers(msgspec.Struct, frozen=True):
    """Tiers to try: those that stand for those of the job's own constraint and of its sub-groups'."""

    job: int | None
    subs: int | None
    soft: bool  # whether soft constraints are treated as hard


STATED = Tiers(None, None, soft=False)
"""What the constraints say."""


def tiers_to_try(cycle: Cycle, job: Job) -> Iterator[Tiers]:
    """What is tried, in order: soft limits kept and then dropped, the job's tiers, inside them its sub-groups'."""
    every = [*job.further]
    parts: tuple[Policy | InnerGroup, ...] = (*job.policies, *job.inner_groups)
    for part in parts:
        every += (part.constraint, *part.further) if part.constraint is not None else part.further
    constraints_of_parts = {policy.constraint for policy in job.policies if policy.constraint is not None}
    inner = _tiers_of(cycle, constraints_of_parts.pop()) if len(constraints_of_parts) == 1 else [None]
    for soft in (True, False) if any(not constraint.hard for constraint in every) else (False,):
        for outer in _tiers_of(cycle, job.constraint):
            for tier in inner:
                yield Tiers(outer, tier, soft)


def _tiers_of(cycle: Cycle, constraint: Constraint | None) -> list[int | None]:
    """The tiers of its tree that a constraint allows, the tightest first; None alone where there is nothing to try."""
    if constraint is None or not cycle.snapshot.knows(constraint):
        return [None]
    topology = cycle.tree_of(constraint).topology
    limit = _tier(constraint, topology) if constraint.hard else max(topology.at_tier)
    return [tier for tier in topology.at_tier if limit is not None and tier <= limit] or [None]


def limited(cycle: Cycle, job: Job, task_groups: Sequence[TaskGroup], tiers: Tiers) -> Part:
    """These task groups, all of which are to be placed, as units of the groups that they are in.

    Units that are alike, and stand nowhere yet, follow each other. Around the job there is one more group.
    """
    builder = Limits(cycle, job, tiers)
    units_by_kind: dict[object, list[Part]] = {}
    for i, task_group in enumerate(task_groups):
        unit = builder.unit(len(job.inner_groups) + 2 + i, task_group)
        units_by_kind.setdefault(unit.kind or (unit.number,), []).append(unit)
    inside: list[list[Part]] = [[] for _ in job.shape.groups]
    for units in units_by_kind.values():
        inside[max(units[0].task_group.sub.inner_group, 0) if units[0].task_group else 0] += units
    for number in reversed(range(1, len(inside))):
        if inside[number]:
            inside[job.inner_groups[number].parent].insert(0, builder.group(number, inside[number]))
    root = group_of(0, job, len(inside[0]), tuple(inside[0]))
    return group_of(-1, job, 1, (replace(root, limits=builder.of_job(), standing=builder.rows(job)),))


class Limits:
    """The limits of the parts of a job, each of which is looked up once."""

    def __init__(self, cycle: Cycle, job: Job, tiers: Tiers) -> None:
        self._cycle = cycle
        self._job = job
        self._tiers = tiers
        self._known: dict[tuple[Constraint, int | None], Limit | None] = {}

    def _limits(
        self, constraint: Constraint | None, further: Sequence[Constraint], tier: int | None
    ) -> tuple[Limit, ...]:
        all_limits = []
        for stated, other_tier in ((constraint, tier), *((c, None) for c in further)):
            if stated is None or not (stated.hard or self._tiers.soft or other_tier is not None):
                continue
            if (stated, other_tier) not in self._known:
                domains = domain_of_rows(self._cycle, stated, other_tier)
                self._known[stated, other_tier] = Limit(domains, stated.spread) if domains is not None else None
            all_limits.append(self._known[stated, other_tier])
        return tuple(limit for limit in all_limits if limit is not None)

    def rows(self, gang: Job | SubJob) -> Ints:
        """The rows of the placed tasks of a gang."""
        placed = self._cycle.ledger.placed_rows(gang)
        return placed[0] if placed is not None else EMPTY

    def of_job(self) -> tuple[Limit, ...]:
        return self._limits(self._job.constraint, self._job.further, self._tiers.job)

    def of_group(self, number: int) -> tuple[Limit, ...]:
        """Of an inner group."""
        group = self._job.inner_groups[number]
        return self._limits(group.constraint, group.further, None)

    def of_sub(self, sub: SubJob) -> tuple[Limit, ...]:
        """Of a sub-job."""
        if sub.policy >= 0:
            return self._limits(sub.constraint, sub.further, self._tiers.subs)
        return ()

    def of(self, gang: Job | SubJob, number: int) -> tuple[Limit, ...]:
        """Of the job itself, of an inner group that has this number, or of a sub-job."""
        if isinstance(gang, SubJob):
            return self.of_sub(gang)
        return self.of_group(number) if number else self.of_job()

    def group(self, number: int, parts: Sequence[Part]) -> Part:
        placed_rows = self.rows(self._job.group(number))
        group = group_of(number, self._job, len(parts), tuple(parts))
        return replace(group, limits=self.of_group(number), standing=placed_rows)

    def unit(self, number: int, task_group: TaskGroup) -> Part:
        sub = task_group.sub
        kind = None
        limits = self.of_sub(sub)
        placed_rows = self.rows(sub)
        if not len(placed_rows) and not any(limit.spread for limit in limits):
            several = len({r.pod_set.shape.number for r in task_group.remaining}) > 1
            shapes = tuple((r.pod_set.shape.number, r.left if several else 0) for r in task_group.remaining)
            kind = (sub.policy, sub.inner_group, task_group.need, shapes)
        return Part(
            number, sub, None, task_group.need, (1,), task_group, kind=kind, limits=limits, standing=placed_rows
        )


def within_limits(cycle: Cycle, job: Job, tiers: Tiers = STATED) -> bool:
    """Whether all placed tasks of a job stand where its constraints want them, or within other tiers."""
    for part in limited(cycle, job, [TaskGroup(sub, (), 0) for sub in job.subs], tiers).every():
        for limit in part.limits if len(part.standing) else ():
            used = distinct(limit.domain_of_row[part.standing])
            if (len(used[used >= 0]) < limit.spread) if limit.spread else (len(used) > 1 or used[0] < 0):
                return False
    return True
