"""Place a job whose constraints are on several trees, or whose sub-groups have theirs on another than rows follow.

Called by `allocate`, for the minimum and for the surplus, and by the evicting actions. Constraints become limits that
rows know (`framework.several_trees`), which deals tasks of one shape exactly. Of tasks of several shapes it says which
places counting leaves; within these they are packed by score, and where that fails, in every way there is. Tasks that
keep each other away are tried on the ledger alone. The tree of the job's own constraint drives the search: its tiers
are tried from the tightest outwards, and inside that those of the sub-groups'.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import msgspec
import numpy as np
from msgspec.structs import replace

from tierwise.actions.placement.demand import Demand, RemainingTasks, TaskGroup, counts_by_pod_set
from tierwise.actions.placement.fit import Placement, place_tasks
from tierwise.actions.placement.search import BOTH, NOW_ONLY, NoPlace, SearchResult
from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import Ask
from tierwise.framework.ledger import Pool, sub_ready
from tierwise.framework.several_trees import Dealt, Limit, OutOfStepsError, Part, Scope, SeveralTrees
from tierwise.model.arrays import Bools, Ints
from tierwise.model.job import Constraint, InnerGroup, Job, Policy, SubJob
from tierwise.model.shape import Shape
from tierwise.model.topology import HYPERNODES, Topology

__all__ = ["fabric_surplus", "homes_of", "search_fabrics", "within_fabrics"]

_SETUP = 50
"""What it costs to look at one more way, in such choices."""

_DEEPEST = 256
"""How many tasks of several shapes are packed in every way there is; more are packed by score alone."""

_GRAIN = 2.0**20


def homes_of(cycle: Cycle, constraint: Constraint, tier: int | None = None) -> Ints | None:
    """Of each row the domain that a constraint means, -1 for none; None where it limits nothing.

    A domain of a tier is the widest one around a row that is not above it. `tier` is another than the constraint's own.
    """
    snapshot, rows = cycle.snapshot, len(cycle.nodes)
    alternate = snapshot.alternate_topology(constraint)
    if alternate is None and not snapshot.knows(constraint):
        nobody = constraint.kind == HYPERNODES  # without any hyperNode Volcano has a virtual root around all nodes
        return None if nobody or not constraint.hard else np.full(rows, -1, dtype=np.int64)
    topology = cycle.topology if alternate is None else alternate.topology
    limit = _tier(constraint, topology) if tier is None else tier
    if limit is None:
        unknown = bool(constraint.tier_name) and (constraint.kind != HYPERNODES or constraint.spread > 0)
        return np.full(rows, -1, dtype=np.int64) if unknown and constraint.hard else None
    homes = _widest(topology, limit)[topology.leaf]
    if alternate is None:
        return homes
    found = np.empty_like(homes)
    found[alternate.rows] = homes
    return found


def _tier(constraint: Constraint, topology: Topology) -> int | None:
    return constraint.tier if constraint.tier is not None else topology.tier_names.get(constraint.tier_name)


def _widest(topology: Topology, limit: int) -> Ints:
    """Of each domain the outermost one around it, or itself, that is not above a tier; -1 where it is above itself."""
    widest = np.full(len(topology), -1, dtype=np.int64)
    for domain, (parent, tier) in enumerate(zip(topology.parent.tolist(), topology.tier.tolist(), strict=True)):
        if parent >= 0 and widest[parent] >= 0:
            widest[domain] = widest[parent]
        elif tier <= limit:
            widest[domain] = domain
    return widest


class _Tiers(msgspec.Struct, frozen=True):
    """One attempt: the tiers that stand for those of the job's own constraint and of its sub-groups'."""

    job: int | None
    subs: int | None
    soft: bool  # whether what is asked for without insisting is insisted on


def search_fabrics(cycle: Cycle, job: Job, asked: Demand, *, pools: tuple[Pool, ...] = BOTH) -> SearchResult | NoPlace:
    """The best place for a demand, written to the ledger."""
    bounded = not _interchangeable(asked)
    for tiers in _attempts(cycle, job):
        for pool in pools if cycle.ledger.any_releasing else pools[:1]:
            cycle.report.search_counts.trials += 1
            with cycle.ledger.statement() as statement:
                found = _Attempt(cycle, job, asked.task_groups, tiers, pool).run()
                if not isinstance(found, NoPlace):
                    statement.keep()
                    rows = np.concatenate([placement.rows for placement in found])
                    return SearchResult(cycle.topology.meet_rows(rows), tuple(found), 0.0)
                bounded |= found is NoPlace.BOUNDED
    return NoPlace.of(bounded=bounded)


def fabric_surplus(cycle: Cycle, job: Job, task_group: TaskGroup) -> list[Placement]:
    """As many tasks of a task group beyond the minimum as fit beside the others; a sub-job without its own, whole."""

    def placed(number: int, *, keep: bool) -> list[Placement]:
        with cycle.ledger.statement() as statement:
            found = search_fabrics(cycle, job, Demand((replace(task_group, need=number),)), pools=NOW_ONLY)
            if keep and isinstance(found, SearchResult):
                statement.keep()
            cycle.report.search_counts.cut += found is NoPlace.BOUNDED
            return list(found.placements) if isinstance(found, SearchResult) else []

    everything = placed(task_group.need, keep=True)
    if everything or (job.policies and cycle.pipeline.gangs and not sub_ready(cycle.ledger, task_group.sub)):
        return everything
    least, most = 0, task_group.need - 1
    while least < most:  # where a number of tasks fits, fewer fit as well
        middle = (least + most + 1) // 2
        least, most = (middle, most) if placed(middle, keep=False) else (least, middle - 1)
    return placed(least, keep=True) if least else []


def within_fabrics(cycle: Cycle, job: Job) -> bool:
    """Whether all placed tasks of a job stand where its constraints want them."""
    scopes, _ = _scopes(cycle, job, [TaskGroup(sub, (), 0) for sub in job.subs], _STATED)
    for scope in scopes:
        for limit in scope.limits if len(scope.held) else ():
            homes = np.unique(limit.homes[scope.held])
            if (len(homes[homes >= 0]) < limit.fewest) if limit.fewest else (len(homes) > 1 or homes[0] < 0):
                return False
    return True


_STATED = _Tiers(None, None, soft=False)


def _interchangeable(asked: Demand) -> bool:
    """Whether other selections of sub-groups would fare no better, each being like those that were selected."""
    kinds = {
        (g.need, g.sub.policy, g.sub.inner_group, tuple(r.pod_set.shape.number for r in g.remaining))
        for g in (*asked.task_groups, *asked.spares)
    }
    return asked.alternatives is None and not asked.open and (not asked.spares or len(kinds) == 1)


def _attempts(cycle: Cycle, job: Job) -> Iterator[_Tiers]:
    """What is tried, in order: soft limits kept and then dropped, the job's tiers, inside them its sub-groups'."""
    every = [*job.further]
    parts: tuple[Policy | InnerGroup, ...] = (*job.policies, *job.inner_groups)
    for part in parts:
        every += (part.constraint, *part.further) if part.constraint is not None else part.further
    own = {policy.constraint for policy in job.policies if policy.constraint is not None}
    inner = _tiers_of(cycle, own.pop()) if len(own) == 1 else [None]
    for soft in (True, False) if any(not constraint.hard for constraint in every) else (False,):
        for outer in _tiers_of(cycle, job.constraint):
            for tier in inner:
                yield _Tiers(outer, tier, soft)


def _tiers_of(cycle: Cycle, constraint: Constraint | None) -> list[int | None]:
    """The tiers of its tree that a constraint allows, the tightest first; None alone where there is nothing to try."""
    if constraint is None or not cycle.snapshot.knows(constraint):
        return [None]
    alternate = cycle.snapshot.alternate_topology(constraint)
    topology = cycle.topology if alternate is None else alternate.topology
    limit = _tier(constraint, topology) if constraint.hard else max(topology.at_tier)
    return [tier for tier in topology.at_tier if limit is not None and tier <= limit] or [None]


def _scopes(cycle: Cycle, job: Job, task_groups: Sequence[TaskGroup], tiers: _Tiers) -> tuple[list[Scope], list[int]]:
    """The job, its inner groups and these task groups as scopes, and the number of each task group's."""
    known: dict[tuple[Constraint, int | None], Limit | None] = {}

    def limits(constraint: Constraint | None, further: Sequence[Constraint], tier: int | None) -> tuple[Limit, ...]:
        found = []
        for one, other in ((constraint, tier), *((c, None) for c in further)):
            if one is None or not (one.hard or tiers.soft or other is not None):
                continue
            if (one, other) not in known:
                homes = homes_of(cycle, one, other)
                known[one, other] = Limit(homes, one.spread) if homes is not None else None
            found.append(known[one, other])
        return tuple(limit for limit in found if limit is not None)

    placed = {sub.number: _held(cycle, sub) for sub in job.subs}
    everything = np.concatenate([*placed.values(), np.zeros(0, dtype=np.int64)])
    scopes = [Scope(-1, limits(job.constraint, job.further, tiers.job), everything)]
    for number, group in enumerate(job.inner_groups[1:], start=1):  # the first is the job itself
        rows = [placed[sub.number] for sub in job.subs if number in _around(job, sub)]
        held = np.concatenate([*rows, np.zeros(0, dtype=np.int64)])
        scopes.append(Scope(group.parent, limits(group.constraint, group.further, None), held))
    numbers = []
    for task_group in task_groups:
        sub = task_group.sub
        own = limits(sub.constraint, sub.further, tiers.subs) if sub.policy >= 0 else ()
        numbers.append(len(scopes))
        scopes.append(Scope(max(sub.inner_group, 0), own, placed[sub.number]))
    return scopes, numbers


def _around(job: Job, sub: SubJob) -> Iterator[int]:
    group = sub.inner_group
    while group >= 0:
        yield group
        group = job.inner_groups[group].parent


def _held(cycle: Cycle, sub: SubJob) -> Ints:
    placed = cycle.ledger.placed_rows(sub)
    return placed[0] if placed is not None else np.zeros(0, dtype=np.int64)


_Asked = tuple[TaskGroup, RemainingTasks, int, Bools]
"""So many of the remaining tasks of a task group, and the rows that they may go to."""


class _Attempt:
    """One question to `SeveralTrees`, and its answer on the ledger."""

    def __init__(self, cycle: Cycle, job: Job, task_groups: Sequence[TaskGroup], tiers: _Tiers, pool: Pool) -> None:
        self._cycle, self._job, self._pool = cycle, job, pool
        self._task_groups = task_groups
        self._shapes = {r.pod_set.shape.number: r.pod_set.shape for g in task_groups for r in g.remaining}
        self._moves = any(cycle.pipeline.moving(shape) for shape in self._shapes.values())
        self._counted = len(self._shapes) == 1 and not self._moves
        self._choices = cycle.budget.tree_rows
        self._scopes, numbers = _scopes(cycle, job, task_groups, tiers)
        self._parts, self._members = self._alike(numbers)

    def _alike(self, numbers: Sequence[int]) -> tuple[list[Part], list[list[TaskGroup]]]:
        """Task groups as parts: those that are alike, and stand nowhere yet, form one."""
        found: dict[object, list[int]] = {}
        for i, task_group in enumerate(self._task_groups):
            scope, sub = self._scopes[numbers[i]], task_group.sub
            alone = len(scope.held) or any(limit.fewest for limit in scope.limits)
            shapes = tuple((r.pod_set.shape.number, r.left) for r in task_group.remaining)
            kind = (sub.policy, sub.inner_group, task_group.need, () if self._counted else shapes)
            found.setdefault(i if alone else kind, []).append(i)
        parts = [Part(numbers[m[0]], self._task_groups[m[0]].need, len(m)) for m in found.values()]
        keep = {part.scope for part in parts} | set(range(1 + len(self._job.inner_groups[1:])))
        order = sorted(keep)
        place = {old: new for new, old in enumerate(order)}
        self._scopes = [self._scopes[old] for old in order]
        parts = [Part(place[part.scope], part.need, part.copies) for part in parts]
        return parts, [[self._task_groups[i] for i in m] for m in found.values()]

    def run(self) -> list[Placement] | NoPlace:
        """Where the tasks go, written to the ledger."""
        trials, steps = self._cycle.budget.tree_trials, self._cycle.budget.tree_steps
        search = SeveralTrees(self._scopes, self._parts, self._room(), self._order(), exact=self._counted, steps=steps)
        try:
            for number, dealt in enumerate(islice(search.solutions(), trials if self._moves else None)):
                tried = (self._try, self._pack) if number < trials else (self._pack,)
                for way in (self._write,) if self._counted else tried:
                    with self._cycle.ledger.statement() as statement:
                        placements = way(dealt)
                        if placements is not None:
                            statement.keep()
                            return placements
        except OutOfStepsError:
            return NoPlace.BOUNDED
        return NoPlace.of(bounded=self._moves)

    def _room(self) -> Ints:
        """How many tasks each row takes, of whichever shape it takes the most of."""
        room: Ints = np.maximum.reduce(
            [self._cycle.fit_counts.of(shape).rows(self._pool) for shape in self._shapes.values()]
        )
        return room

    def _order(self) -> Ints:
        """Rows by score, then by name."""
        cycle, first = self._cycle, self._task_groups[0]
        ask, everywhere = self._ask(first, first.remaining[0].pod_set.shape), slice(0, len(cycle.nodes))
        keys = np.rint(cycle.pipeline.score(ask, everywhere, self._room() > 0) * _GRAIN).astype(np.int64)
        order = np.empty(len(keys), dtype=np.int64)
        order[np.lexsort((cycle.nodes.rank, -keys))] = np.arange(len(keys))
        return order

    def _ask(self, task_group: TaskGroup, shape: Shape) -> Ask:
        return Ask(shape, task_group.sub, self._job)

    def _groups(self, dealt: Sequence[Dealt]) -> Iterator[tuple[TaskGroup, Ints, Bools]]:
        """Each task group with the rows that it was dealt, and all rows of its place."""
        taken = [0] * len(self._members)
        for part, copies, rows, place in dealt:
            need = self._parts[part].need
            for i in range(copies):
                yield self._members[part][taken[part] + i], rows[i * need : (i + 1) * need], place
            taken[part] += copies

    def _write(self, dealt: Sequence[Dealt]) -> list[Placement]:
        placements = []
        for task_group, rows, _ in self._groups(dealt):
            start = 0
            for tasks_left, number in zip(task_group.remaining, counts_by_pod_set(task_group), strict=True):
                if number:
                    picks = np.unique(rows[start : start + number], return_counts=True)
                    ask = self._ask(task_group, tasks_left.pod_set.shape)
                    placements.append(place_tasks(self._cycle, ask, tasks_left.pod_set, picks, self._pool))
                    start += number
        return placements

    def _try(self, dealt: Sequence[Dealt]) -> list[Placement] | None:
        """Task by task onto the rows of each group's place, those of the largest shape first."""
        placements: list[Placement] = []
        for task_group, _, place in self._groups(dealt):
            asked = zip(task_group.remaining, counts_by_pod_set(task_group), strict=True)
            for tasks_left, number in sorted(asked, key=lambda entry: self._freedom(entry[0].pod_set.shape)):
                for _ in range(number):
                    row = self._best_row(task_group, tasks_left.pod_set.shape, place)
                    if row is None:
                        return None
                    ask, one = self._ask(task_group, tasks_left.pod_set.shape), np.ones(1, dtype=np.int64)
                    placements.append(
                        place_tasks(self._cycle, ask, tasks_left.pod_set, (np.array([row]), one), self._pool)
                    )
        return placements if within_fabrics(self._cycle, self._job) else None

    def _pack(self, dealt: Sequence[Dealt]) -> list[Placement] | None:
        """Every way to put the tasks onto the rows of their places, the largest first; none where they move others."""
        if self._moves:
            return None
        if sum(task_group.need for task_group in self._task_groups) > _DEEPEST:
            raise OutOfStepsError
        self._choices -= _SETUP
        cycle, everywhere = self._cycle, slice(0, len(self._cycle.nodes))
        asked = [
            (task_group, tasks_left, number, place)
            for task_group, _, place in self._groups(dealt)
            for tasks_left, number in zip(task_group.remaining, counts_by_pod_set(task_group), strict=True)
            if number
        ]
        asked.sort(key=lambda entry: self._freedom(entry[1].pod_set.shape))
        used = np.flatnonzero(np.any([shape.request > 0 for shape in self._shapes.values()], axis=0))
        free = cycle.ledger.free(used, everywhere, self._pool).copy()
        opened = {n: cycle.fit_counts.of(shape).why == 0 for n, shape in self._shapes.items()}
        # Rows that no task of the job could tell apart, but for what is free on them.
        marks = np.stack([place for *_, place in asked] + [opened[n] for n in sorted(opened)]).astype(np.int64)
        spread = [limit.homes for scope in self._scopes for limit in scope.limits if limit.fewest]
        kinds = np.unique(np.concatenate((marks, np.stack(spread))) if spread else marks, axis=1, return_inverse=True)
        kind = kinds[1].ravel()
        tasks = [i for i, (_, _, number, _) in enumerate(asked) for _ in range(number)]
        rows: list[int] = []
        failed: set[bytes] = set()

        def fits(position: int) -> bool:
            if position == len(tasks):
                return self._kept(asked, tasks, rows)
            state = position.to_bytes(4, "little") + free.tobytes()
            if state in failed and not spread:
                return False
            self._choices -= 1
            if self._choices < 0:
                raise OutOfStepsError
            _, tasks_left, _, place = asked[tasks[position]]
            shape = tasks_left.pod_set.shape
            request = shape.request[used]
            able = np.flatnonzero(place & opened[shape.number] & (free >= request[:, None]).all(axis=0))
            seen: set[bytes] = set()
            for row in able.tolist():
                alike = int(kind[row]).to_bytes(4, "little") + free[:, row].tobytes()
                if alike in seen:
                    continue
                seen.add(alike)
                free[:, row] -= request
                rows.append(row)
                if fits(position + 1):
                    return True
                rows.pop()
                free[:, row] += request
            failed.add(state)
            return False

        return self._put(asked, tasks, rows) if fits(0) else None

    def _kept(self, asked: Sequence[_Asked], tasks: Sequence[int], rows: Sequence[int]) -> bool:
        """Whether tasks on these rows stand in as many domains as they must."""
        with self._cycle.ledger.statement():
            self._put(asked, tasks, rows)
            return within_fabrics(self._cycle, self._job)

    def _put(self, asked: Sequence[_Asked], tasks: Sequence[int], rows: Sequence[int]) -> list[Placement]:
        placements = []
        for i, (task_group, tasks_left, _, _) in enumerate(asked):
            mine = np.array([row for task, row in zip(tasks, rows, strict=True) if task == i], dtype=np.int64)
            ask, picks = self._ask(task_group, tasks_left.pod_set.shape), np.unique(mine, return_counts=True)
            placements.append(place_tasks(self._cycle, ask, tasks_left.pod_set, picks, self._pool))
        return placements

    def _freedom(self, shape: Shape) -> int:
        return int(self._cycle.fit_counts.of(shape).rows(self._pool).sum())

    def _best_row(self, task_group: TaskGroup, shape: Shape, place: Bools) -> int | None:
        """The row of a place with the highest score for one more task."""
        cycle, everywhere = self._cycle, slice(0, len(self._cycle.nodes))
        ask = self._ask(task_group, shape)
        fits = cycle.fits(ask, everywhere, self._pool) & place
        rows = np.flatnonzero(fits)
        if not len(rows):
            return None
        keys = np.rint(cycle.pipeline.score(ask, everywhere, fits) * _GRAIN)[rows]
        return int(rows[np.lexsort((cycle.nodes.rank[rows], -keys))[0]])
