"""Place sub-jobs of different sizes in one domain, by a search with backtracking.

Called by `sub_groups`. Task groups of one plain shape are assigned by counting alone: tasks may be split freely inside
a domain, so an assignment of task groups to domains is feasible exactly when no domain, at any tier, gets more tasks
than its fit count. The search over assignments is exact, and fast because it only compares integers. Task groups of
several shapes are first placed on the ledger in the order of scores; if that fails, they are assigned by counting
mixtures (`mixed_shapes`), which is exact too. Every search has a bound and reports when it stops there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import msgspec
import numpy as np
from msgspec.structs import replace

from tierwise.actions.placement.demand import RemainingTasks, TaskGroup, counts_by_pod_set
from tierwise.actions.placement.fit import Placement, fit
from tierwise.actions.placement.mixed_shapes import (
    Axes,
    BlockCounts,
    Choices,
    Mix,
    OutOfBoundError,
    Rows,
    Sum,
    Without,
    holds,
    most_of,
    write,
)
from tierwise.actions.placement.search import BOTH, candidates, current_domain, ordered
from tierwise.framework.cycle import Cycle
from tierwise.framework.ledger import Pool, job_ready, ready_tasks, roles_count, sub_ready
from tierwise.model.arrays import Ints
from tierwise.model.job import Job

__all__ = ["GroupSearch", "Mixing", "Packing", "pack", "tightness"]


class Packing(msgspec.Struct):
    """The result of a search in one domain."""

    placements: list[Placement] | None
    score: float = 0.0
    bounded: bool = False


def pack(
    cycle: Cycle, job: Job, task_groups: tuple[TaskGroup, ...], spares: tuple[TaskGroup, ...], domain: int
) -> Packing:
    """Place enough task groups below a domain to make the job ready. The caller owns the statement, and rewinds."""
    items = sorted(task_groups, key=lambda task_group: tightness(cycle, task_group))
    everyone = [*items, *spares]
    shapes = {tasks_left.pod_set.shape for task_group in everyone for tasks_left in task_group.remaining}
    once = len({task_group.sub.number for task_group in everyone}) == len(everyone)
    countable = once and not any(cycle.pipeline.moving(shape) for shape in shapes)
    if countable and len(shapes) == 1:
        return _Counting(cycle, job, everyone, len(items), domain).run()
    tried = _Trying(cycle, job, everyone, len(items), domain).run()
    if tried.placements is not None or len(shapes) == 1:
        return tried
    if not countable:
        return Packing(None, bounded=True)  # task groups were tried one by one, never sharing nodes
    return Mixing(
        cycle, job, sorted(everyone, key=lambda task_group: tightness(cycle, task_group)), len(items), domain
    ).run()


def tightness(cycle: Cycle, task_group: TaskGroup) -> tuple[int, int]:
    """Sort key: tight limits first, then large task groups, because these have the fewest candidates."""
    limit = cycle.pipeline.limit(task_group.sub)
    return (2**62 if limit is None else limit, -task_group.need)


class GroupSearch:
    """Task groups in the order of trial. The first `needed` make the job ready; the rest are spares."""

    def __init__(
        self,
        cycle: Cycle,
        job: Job,
        task_groups: list[TaskGroup],
        needed: int,
        domain: int,
        pools: tuple[Pool, ...] = BOTH,
    ) -> None:
        self._cycle = cycle
        self._job = job
        self._pools = pools
        self._lots = task_groups
        self._spares = len(task_groups) > needed
        self._domain = domain
        self._near = current_domain(cycle, job)
        self._steps = 0
        self._bounded = False

    def _keep_best(self, task_group: TaskGroup, place: int) -> list[Placement] | None:
        """Place a task group in the tightest and best domain below `place` that holds it."""
        for domain, _ in self._ranked(task_group, place):
            with self._cycle.ledger.statement() as statement:
                found = fit(self._cycle, self._job, task_group, domain, self._pools)
                if found is not None:
                    statement.keep()
                    return found
        return None

    def _ranked(self, task_group: TaskGroup, place: int) -> Iterator[tuple[int, float]]:
        """Domains below `place` that may hold a task group, with their scores, in the order of preference."""
        for group in candidates(self._cycle, task_group.sub, place):
            yield from ordered(self._cycle, task_group, group, self._near, self._pools)

    def _outermost(self, task_group: TaskGroup, within: int) -> list[tuple[int, float]]:
        """The widest domains that the task group may use, best first; a tighter one inside is chosen when it is
        placed.
        """
        groups = tuple(candidates(self._cycle, task_group.sub, within))
        if not groups:
            return []
        every = np.concatenate(groups)
        widest = every[~np.isin(self._cycle.topology.parent[every], every)]
        return list(ordered(self._cycle, task_group, widest, self._near, self._pools))


class _Trying(GroupSearch):
    """Several shapes: each step is a trial on the ledger."""

    def run(self) -> Packing:
        placements: list[Placement] = []
        scores: list[float] = []
        if self._place(0, placements, scores):
            return Packing(placements, sum(scores), self._bounded)
        return Packing(None, bounded=self._bounded)

    def _place(self, i: int, placements: list[Placement], scores: list[float]) -> bool:
        if job_ready(self._cycle.ledger, self._job, waiting=True):
            return True
        if i == len(self._lots):
            return False
        task_group = _unused(self._lots[i], placements)
        too_early = task_group.extra and not sub_ready(self._cycle.ledger, task_group.sub, waiting=True)
        for domain, worth in () if too_early or not task_group.remaining else self._ranked(task_group, self._domain):
            if self._steps >= self._cycle.budget.trials:
                self._bounded = True
                return False
            self._steps += 1
            self._cycle.report.search_counts.trials += 1
            with self._cycle.ledger.statement() as statement:
                found = fit(self._cycle, self._job, task_group, domain, BOTH)
                if found is None:
                    continue
                mark = len(placements)
                placements.extend(found)
                scores.append(worth)
                if self._place(i + 1, placements, scores):
                    statement.keep()
                    return True
                del placements[mark:]
                scores.pop()
        return self._spares and self._place(i + 1, placements, scores)


def _unused(task_group: TaskGroup, placements: list[Placement]) -> TaskGroup:
    """The task group without the tasks that other task groups of its sub-job have taken."""
    if not task_group.extra:
        return task_group
    left = [
        RemainingTasks(
            tasks_left.pod_set,
            tasks_left.left - sum(len(t.rows) for t in placements if t.pod_set is tasks_left.pod_set),
        )
        for tasks_left in task_group.remaining
    ]
    return replace(task_group, remaining=tuple(tasks_left for tasks_left in left if tasks_left.left > 0))


class _Counting(GroupSearch):
    """One shape: assign task groups to domains by counting, then place them."""

    def run(self) -> Packing:
        shape = self._lots[0].remaining[0].pod_set.shape
        self._room: list[int] = self._cycle.fit_counts.of(shape).domains(Pool.FUTURE_IDLE).tolist()
        self._options = [self._outermost(task_group, self._domain) for task_group in self._lots]
        self._state = sorted({d for options in self._options for place, _ in options for d in self._above(place)})
        self._dead: set[tuple[int, ...]] = set()
        self._tied = [
            here for task_group in self._lots if (here := current_domain(self._cycle, task_group.sub)) is not None
        ]
        self._short = _MissingTasks(self._cycle, self._job)
        chosen = self._assign(0, [])
        if chosen is None:
            return Packing(None, bounded=self._bounded)
        placements: list[Placement] = []
        for i, place, _ in sorted(chosen, key=lambda c: tightness(self._cycle, self._lots[c[0]])):
            found = self._keep_best(self._lots[i], place)
            if found is None:  # releasing room is counted per node: what fits in sum may not fit in turn
                return Packing(None, bounded=True)
            placements += found
        return Packing(placements, sum(worth for _, _, worth in chosen), self._bounded)

    def _assign(self, i: int, chosen: list[tuple[int, int, float]]) -> list[tuple[int, int, float]] | None:
        """Give task groups i and later a domain each; a task group may be left out where spares can stand in for it."""
        picked = [self._lots[j] for j, _, _ in chosen]
        if self._short.covered(picked):
            return list(chosen)
        state = (i, *self._short.counts(picked), *(self._room[d] for d in self._state))
        if i == len(self._lots) or state in self._dead:
            return None
        for place, worth in self._distinct(self._options[i], self._lots[i].need):
            self._steps += 1
            if self._steps > self._cycle.budget.steps:
                self._bounded = True
                return None
            self._charge(place, self._lots[i].need)
            found = self._assign(i + 1, [*chosen, (i, place, worth)])
            if found is not None:
                return found
            self._charge(place, -self._lots[i].need)
        if self._spares and (found := self._assign(i + 1, chosen)) is not None:
            return found
        if not self._bounded:
            self._dead.add(state)
        return None

    def _distinct(self, options: list[tuple[int, float]], need: int) -> Iterator[tuple[int, float]]:
        """The places with enough room, one of each kind: alike siblings are the same choice for later task groups."""
        tried: set[tuple[int, ...]] = set()
        for place, worth in options:
            kind = self._kind(place)
            if kind not in tried and all(self._room[d] >= need for d in self._above(place)):
                tried.add(kind)
                yield place, worth

    def _kind(self, place: int) -> tuple[int, ...]:
        """What tells a place from its siblings: the rooms and tiers in it, and itself where a task group is tied to
        it.
        """
        topology = self._cycle.topology
        inner = topology.below(place)
        tied = any(topology.contains(place, d) or topology.contains(d, place) for d in self._tied)
        own = (place,) if tied else ()
        return (int(topology.parent[place]), *own, *self._room[inner], *topology.tier[inner].tolist())

    def _charge(self, place: int, need: int) -> None:
        for d in self._above(place):
            self._room[d] -= need

    def _above(self, place: int) -> list[int]:
        """The place and the domains around it, up to the one that is being packed."""
        chain = [place]
        while chain[-1] != self._domain:
            chain.append(int(self._cycle.topology.parent[chain[-1]]))
        return chain


class _Place(msgspec.Struct, frozen=True, eq=False):
    """A domain that task groups may be assigned to: those like it inside, and the rows that stand in none of these."""

    domain: int
    inner: tuple[_Place, ...]
    rows: Ints


class Mixing(GroupSearch):
    """Several shapes: assign task groups to domains by counting mixtures, then deal all of them to nodes at once.

    Task groups come tightest first, so what inner domains hold is decided before anything is assigned around them;
    what they leave counts towards the domain around them. `nested_groups` gives domains to groups of groups by itself,
    and counts with `prepare`, `give`, `take_back` and `deal`.
    """

    def run(self) -> Packing:
        try:
            for pool in BOTH if self._cycle.ledger.any_releasing else BOTH[:1]:
                found = self._on(pool)
                if found is not None:
                    return found
        except OutOfBoundError:
            self._bounded = True
        return Packing(None, bounded=self._bounded)

    def _on(self, pool: Pool) -> Packing | None:
        self._options = [self._outermost(task_group, self._domain) for task_group in self._lots]
        self.prepare(pool, {place for options in self._options for place, _ in options})
        self._held: dict[tuple[int, Mix], int] = {}
        self._dead: set[tuple[object, ...]] = set()
        self._short = _MissingTasks(self._cycle, self._job)
        chosen = self._assign(0, [])
        if chosen is None:
            return None
        placements = self.deal([(task_group, place) for task_group, place, _ in chosen])
        return Packing(placements, sum(worth for _, _, worth in chosen), self._bounded)

    def prepare(self, pool: Pool, places: Collection[int]) -> None:
        """Count what the domains that may be given anything take of the task groups, on a pool."""
        ways = self._cycle.budget.ways
        choices = [Choices(task_group, self._cycle.budget.choices) for task_group in self._lots]
        self._axes = Axes(self._cycle, most_of(choices), pool)
        self._wanted: list[list[tuple[Mix, TaskGroup]]] = []
        for each in choices:
            mixes = each.mixes(self._axes)
            self._bounded |= len(mixes) > ways
            self._wanted.append([(tuple(mixes[i].tolist()), each.task_group(i)) for i in range(min(len(mixes), ways))])
        self._plant(places)
        self._given: dict[int, Mix] = {}
        self._blocks: dict[tuple[int, ...], BlockCounts] = {}
        self._numbers: dict[bytes, int] = {}
        self._tied = [
            here for task_group in self._lots if (here := current_domain(self._cycle, task_group.sub)) is not None
        ]

    def ways(self, i: int) -> list[tuple[Mix, TaskGroup]]:
        """The mixtures that a task group may consist of."""
        return self._wanted[i]

    def give(self, place: int, mix: Mix) -> bool:
        """Give a domain a mixture beside what it has, if it takes that."""
        before = self._given.get(place)
        self._given[place] = mix if before is None else tuple(a + b for a, b in zip(before, mix, strict=True))
        if self._holds(place):
            return True
        self.take_back(place, mix)
        return False

    def take_back(self, place: int, mix: Mix) -> None:
        """Undo a gift."""
        self._given[place] = tuple(a - b for a, b in zip(self._given[place], mix, strict=True))
        if not any(self._given[place]):
            del self._given[place]

    def deal(self, chosen: Iterable[tuple[TaskGroup, int]]) -> list[Placement]:
        """Place task groups in the domains that were given their mixtures."""
        task_groups = sorted(chosen, key=lambda c: -len(self._cycle.topology.chains[c[1]]))
        nothing = (0,) * len(self._axes.shapes)
        rows = self._block(self._top, rest=True).unwind(nothing)
        return write(self._cycle, self._job, task_groups, self._axes, rows)

    def _plant(self, places: Collection[int]) -> None:
        """The domains of all options as a tree."""
        topology = self._cycle.topology
        every = sorted({self._domain, *places}, reverse=True)
        around: dict[int, list[_Place]] = {}
        self._places: dict[int, _Place] = {}
        self._around: dict[int, int] = {}
        for domain in every:  # inner ones first, for domains stand in preorder
            inner = tuple(reversed(around.pop(domain, [])))
            span = topology.span(domain)
            own = np.ones(span.stop - span.start, dtype=bool)
            for place in inner:
                inside = topology.span(place.domain)
                own[inside.start - span.start : inside.stop - span.start] = False
                self._around[place.domain] = domain
            place = self._places[domain] = _Place(domain, inner, span.start + np.flatnonzero(own))
            outer = next((d for d in topology.ancestors(domain) if d != domain and d in every), None)
            if outer is not None:
                around.setdefault(outer, []).append(place)
        self._top = self._places[self._domain]

    def _assign(self, i: int, chosen: list[tuple[TaskGroup, int, float]]) -> list[tuple[TaskGroup, int, float]] | None:
        """Give task groups i and later a domain each; a task group may be left out where spares can stand in for it."""
        picked = [task_group for task_group, _, _ in chosen]
        if self._short.covered(picked):
            return list(chosen)
        if i == len(self._lots) or not self._hopeful(i):
            return None
        state = (i, *self._short.counts(picked), *self._state())
        if state in self._dead:
            return None
        tried: set[tuple[object, ...]] = set()
        for place, worth in self._options[i]:
            kind = self._kind(place)
            if kind in tried:
                continue
            tried.add(kind)
            for mix, task_group in self._wanted[i]:
                self._steps += 1
                if self._steps > self._cycle.budget.mixed_steps:
                    raise OutOfBoundError
                if not self.give(place, mix):
                    continue
                found = self._assign(i + 1, [*chosen, (task_group, place, worth)])
                if found is not None:
                    return found
                self.take_back(place, mix)
        if self._spares and (found := self._assign(i + 1, chosen)) is not None:
            return found
        self._dead.add(state)
        return None

    def _hopeful(self, i: int) -> bool:
        """Whether the places would take all task groups of the next one's kind, if there were no others."""
        if self._spares or len(self._wanted[i]) != 1:
            return True
        mix = self._wanted[i][0][0]
        like = [j for j in range(i, len(self._lots)) if [m for m, _ in self._wanted[j]] == [mix]]
        places = {place for j in like for place, _ in self._options[j]}
        if any(self._places[place].inner for place in places):
            return True
        return sum(self._most(place, mix) for place in places) >= len(like)

    def _most(self, place: int, mix: Mix) -> int:
        """How many task groups of a mixture a domain takes beside what it was given."""
        table = self._left(place)
        known = self._held.get((self._number(table), mix))
        if known is None:
            known = 0
            more = mix
            while all(n <= most for n, most in zip(more, self._axes.most, strict=True)) and holds(table, more):
                known += 1
                more = tuple(a + b for a, b in zip(more, mix, strict=True))
            self._held[self._number(table), mix] = known
        return known

    def _holds(self, place: int) -> bool:
        """Whether a domain, and each around it, holds what it was given."""
        domain: int | None = place
        while domain is not None:
            mix = self._given.get(domain)
            if mix is not None and not (self._within(mix) and holds(self._block(self._places[domain]).table, mix)):
                return False
            domain = self._around.get(domain)
        return True

    def _within(self, mix: Mix) -> bool:
        return all(n <= most for n, most in zip(mix, self._axes.most, strict=True))

    def _block(self, place: _Place, *, rest: bool = False) -> BlockCounts:
        """What a domain takes beside what those inside were given; `rest` takes off what it was given itself."""
        below = range(place.domain, int(self._cycle.topology.last[place.domain]))
        inside = tuple(
            sorted((d, *mix) for d, mix in self._given.items() if d in below and (rest or d != place.domain))
        )
        key = (place.domain, int(rest), *(number for entry in inside for number in entry))
        block = self._blocks.get(key)
        if block is None:
            if rest and place.domain in self._given:
                block = Without(self._block(place), self._given[place.domain])
            elif place.inner:
                own = self._rows_of(place)
                block = Sum(self._axes, (own, *(self._block(inner, rest=True) for inner in place.inner)))
            else:
                block = self._rows_of(place)
            self._blocks[key] = block
        return block

    def _rows_of(self, place: _Place) -> BlockCounts:
        key = (-1, place.domain)
        block = self._blocks.get(key)
        if block is None:
            block = self._blocks[key] = Rows(self._axes, place.rows)
        return block

    def _left(self, place: int) -> Ints:
        return self._block(self._places[place], rest=True).table

    def _number(self, table: Ints) -> int:
        return self._numbers.setdefault(table.tobytes(), len(self._numbers))

    def _kind(self, place: int) -> tuple[object, ...]:
        """What tells a place from its siblings: what is left in it, and itself where a task group is tied to it."""
        topology = self._cycle.topology
        tied = any(topology.contains(place, d) or topology.contains(d, place) for d in self._tied)
        if tied or self._places[place].inner:
            return (place,)
        return (self._around.get(place), self._number(self._left(place)), int(topology.tier[place]))

    def _state(self) -> tuple[object, ...]:
        """What later task groups see: alike places in any order."""
        return tuple(sorted((self._kind(place) for place in self._places), key=repr))


class _MissingTasks:
    """What a job lacks: tasks in all, whole sub-jobs by policy, tasks by role."""

    def __init__(self, cycle: Cycle, job: Job) -> None:
        standing = {sub.number: ready_tasks(cycle.ledger, sub) for sub in job.subs}
        whole = [0] * len(job.policies)
        for sub in job.subs:
            if sub.policy >= 0 and standing[sub.number] >= sub.minimum:
                whole[sub.policy] += 1
        self._standing = standing
        self._roles = {n: i for i, n in enumerate(job.roles)} if roles_count(job) else {}
        roles = [job.roles[n] - int(cycle.ledger.role_ready[n]) for n in self._roles]
        policies = [policy.minimum - have for policy, have in zip(job.policies, whole, strict=True)]
        self._policies = len(policies)
        self._least = (job.minimum - sum(standing.values()), *policies, *roles)

    def counts(self, picked: list[TaskGroup]) -> tuple[int, ...]:
        """What these task groups add to each of the numbers."""
        counts = [0] * len(self._least)
        for task_group in picked:
            counts[0] += task_group.need
            before = self._standing[task_group.sub.number]
            if task_group.sub.policy >= 0 and before < task_group.sub.minimum <= before + task_group.need:
                counts[1 + task_group.sub.policy] += 1
            for tasks_left, number in zip(task_group.remaining, counts_by_pod_set(task_group), strict=True):
                role = self._roles.get(tasks_left.pod_set.role_number)
                if role is not None:
                    counts[1 + self._policies + role] += number
        return tuple(counts)

    def covered(self, picked: list[TaskGroup]) -> bool:
        return all(have >= least for have, least in zip(self.counts(picked), self._least, strict=True))
