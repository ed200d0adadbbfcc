"""Place a nested job: a domain for it, one inside that for each group of groups, and so on down to the sub-jobs.

Called by `sub_groups`. Parts that are alike at every level, of one plain shape, are counted: a domain within the limit
of a group holds floor(parts that it holds / parts that the group needs) of it, from the sub-jobs upwards, and placing
one group lowers that number by one wherever it is placed; so groups are placed one after the other, each in the best
domain of its tightest gradient. Unlike parts of one shape are assigned to domains by integers alone, with
backtracking; parts of several shapes are tried on the ledger, and then assigned by counting mixtures. Every search
stops at a bound and says so.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

import msgspec
import numpy as np

from tierwise.actions.placement.backtracking import GroupSearch, Mixing, Packing, tightness
from tierwise.actions.placement.demand import Demand, TaskGroup
from tierwise.actions.placement.fit import Placement, fit
from tierwise.actions.placement.mixed_shapes import Mix, OutOfBoundError
from tierwise.actions.placement.search import (
    BOTH,
    GRAIN,
    NOW_ONLY,
    NoPlace,
    SearchResult,
    by_score,
    candidates,
    current_domain,
    pending,
    search_group,
    surplus_keys,
)
from tierwise.actions.placement.uniform_groups import UniformGroups, place_uniform
from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import Gradients
from tierwise.framework.ledger import Pool, sub_ready
from tierwise.model.arrays import Ints
from tierwise.model.job import Job, SubJob, group_jobs, whole_groups
from tierwise.model.shape import Shape

__all__ = ["Budget", "Part", "pack_nested", "parts_held", "parts_of", "place_alike"]

_TRIAL = 25
"""Steps that a trial on the ledger counts as."""
_MIXTURE = 10
"""Steps that counting a mixture counts as."""


class Part(msgspec.Struct, frozen=True, eq=False):
    """What a nested job lacks: a task group of a sub-job, or a group of which `need` further parts must be placed."""

    number: int  # tells the parts of a job apart
    gang: Job | SubJob
    limit: int | None
    need: int  # tasks of a task group, parts of a group
    pods: int  # the fewest that it takes
    task_group: TaskGroup | None = None
    parts: tuple[Part, ...] = ()  # those that can be placed, the chosen ones first
    kind: tuple[object, ...] | None = None  # the same for parts that are alike; None where one is like no other


def parts_of(cycle: Cycle, job: Job, demand: Demand) -> Part | None:
    """The inner group of a demand as what it lacks; None where too few of its parts can be placed, or it is whole."""
    number = demand.inner_group
    complete = [sub_ready(cycle.ledger, sub) for sub in job.subs]
    whole, gangs = whole_groups(job, complete), group_jobs(job)
    chosen = {task_group.sub.number for task_group in demand.task_groups}
    short = [group.minimum for group in job.inner_groups]
    found: list[list[tuple[bool, int, Part]]] = [[] for _ in short]  # whether it is a spare, its place, and the part
    for sub, done in zip(job.subs, complete, strict=True):
        if done and sub.inner_group >= 0 and sub.minimum:
            short[sub.inner_group] -= 1
    for i, task_group in enumerate((*demand.task_groups, *demand.spares)):
        if task_group.sub.inner_group >= 0:
            spare = task_group.sub.number not in chosen
            found[task_group.sub.inner_group].append((spare, i, _leaf(cycle, i + len(short), task_group)))
    for i in reversed(range(number, len(short))):  # parts come after the groups that they are in
        parent = job.inner_groups[i].parent
        if whole[i] and i != number:
            short[parent] -= 1
        elif len(found[i]) >= short[i] > 0:
            ordered = sorted(found[i], key=lambda part: part[:2])
            part = _group(cycle, gangs[i], i, short[i], tuple(part for _, _, part in ordered))
            if i == number:
                return part
            found[parent].append((ordered[short[i] - 1][0], ordered[0][1], part))
    return None


def _leaf(cycle: Cycle, number: int, task_group: TaskGroup) -> Part:
    limit, kind = cycle.pipeline.limit(task_group.sub), None
    if len(task_group.remaining) == 1 and cycle.ledger.placed_rows(task_group.sub) is None:
        kind = ("sub-job", limit, task_group.need, task_group.remaining[0].pod_set.shape.number)
    return Part(number, task_group.sub, limit, task_group.need, task_group.need, task_group, kind=kind)


def _group(cycle: Cycle, gang: Job, number: int, need: int, parts: tuple[Part, ...]) -> Part:
    limit, kind = cycle.pipeline.limit(gang), None
    alike = len({part.kind for part in parts}) == 1 and parts[0].kind is not None
    if alike and (number == 0 or current_domain(cycle, gang) is None):
        kind = ("group", limit, need, parts[0].kind)
    pods = sum(sorted(part.pods for part in parts)[:need])
    return Part(number, gang, limit, need, pods, parts=parts, kind=kind)


# Parts that are alike at every level.


def parts_held(cycle: Cycle, part: Part, pool: Pool) -> Ints:
    """How many parts like this one every domain of the tree holds."""
    if part.task_group is not None:
        shape = part.task_group.remaining[0].pod_set.shape
        inside = cycle.fit_counts.of(shape).domains(pool) // part.need
    else:
        inside = parts_held(cycle, part.parts[0], pool) // part.need
    if part.limit is None:
        return inside
    topology = cycle.topology
    allowed = topology.tier <= part.limit
    outermost = allowed & ~np.append(allowed, False)[topology.parent]  # parent -1 of the root picks the added False
    return np.where(allowed, inside, topology.roll_up(np.where(outermost, inside, 0)))


def place_alike(cycle: Cycle, job: Job, whole: Part, groups: Gradients) -> SearchResult | None:
    """Place what a job lacks in the best candidate of the first gradient that holds it, on idle resources.

    The parts must be alike at every level, of a shape without rules between pods.
    """
    held = parts_held(cycle, whole.parts[0], Pool.IDLE)
    near = current_domain(cycle, job)
    for group in groups:
        cycle.report.search_counts.domains += len(group)
        feasible = group[held[group] >= whole.need]
        if len(feasible):
            best, score = _best(cycle, whole, feasible, near)
            with cycle.ledger.statement() as statement:
                placements = _place(cycle, job, whole, best, near)
                if placements is not None:
                    statement.keep()
                    return SearchResult(best, tuple(placements), score)
    return None


def _best(cycle: Cycle, part: Part, feasible: Ints, near: int | None) -> tuple[int, float]:
    """The best domain for a group: near the job's placed tasks, then one that holds the surplus, score and name."""
    gang = part.gang
    leaf = part
    while leaf.task_group is None:
        leaf = leaf.parts[0]
    scores = cycle.pipeline.score_domains(leaf.task_group.sub, feasible)
    distance = cycle.topology.meeting_tiers(near)[feasible] if near is not None else np.zeros(len(feasible))
    ahead = surplus_keys(cycle, gang, feasible, pending(cycle, gang), part.pods)
    keys = (cycle.topology.rank[feasible], *by_score(scores, ahead), distance)
    best = int(np.lexsort(keys)[0])
    return int(feasible[best]), float(scores[best])


def _place(cycle: Cycle, job: Job, part: Part, domain: int, near: int | None) -> list[Placement] | None:
    """Place the parts of a group below a domain that holds them; what the job has placed by now is `near`."""
    first, chosen = part.parts[0], part.parts[: part.need]
    task_groups = tuple(inner.task_group for inner in chosen if inner.task_group is not None)
    if task_groups and first.limit is not None and isinstance(part.gang, Job):
        shape, spares = task_groups[0].remaining[0].pod_set.shape, len(part.parts) - part.need
        alike = UniformGroups(part.gang, task_groups, ((shape, first.need),), first.limit, spares)
        found = place_uniform(cycle, alike, (np.array([domain]),))
        return None if isinstance(found, NoPlace) else list(found.placements)
    placements: list[Placement] = []
    for task_group in task_groups:
        placed = search_group(cycle, job, task_group, within=domain, pools=NOW_ONLY)
        if not isinstance(placed, SearchResult):
            return None
        placements += placed.placements
    for inner in chosen if not task_groups else ():
        held = parts_held(cycle, inner.parts[0], Pool.IDLE)
        able = (group[held[group] >= inner.need] for group in candidates(cycle, inner.gang, domain))
        feasible = next((group for group in able if len(group)), None)
        inside = None
        if feasible is not None:
            inside = _place(cycle, job, inner, _best(cycle, inner, feasible, near)[0], near)
        if inside is None:
            return None
        placements += inside
        here = cycle.topology.meet_rows(np.concatenate([placement.rows for placement in inside]))
        near = here if near is None else cycle.topology.meet(near, here)
    return placements


# Parts that differ.


class Budget(msgspec.Struct):
    """Steps that a search may still take, in all the domains that it looks at."""

    left: int


def pack_nested(
    cycle: Cycle, job: Job, whole: Part, domain: int, budget: Budget, pools: tuple[Pool, ...] = BOTH
) -> Packing:
    """Place what a job lacks below a domain. The caller owns the statement, and rewinds."""
    task_groups = list(_task_groups(whole))
    shapes = {tasks_left.pod_set.shape for task_group in task_groups for tasks_left in task_group.remaining}
    if len(shapes) > 1 or any(cycle.pipeline.moving(shape) for shape in shapes):
        mark = cycle.ledger.mark()
        trying = _Trying(cycle, job, task_groups, domain, pools, bound=min(cycle.budget.trials, budget.left // _TRIAL))
        found = trying.run(whole)
        budget.left -= trying.steps * _TRIAL
        if found.placements is not None or any(cycle.pipeline.moving(shape) for shape in shapes):
            return found
        cycle.ledger.rewind(mark)
        mixing = _Mixing(cycle, job, task_groups, domain, pools, bound=budget.left // _MIXTURE)
        found = mixing.run(whole)
        budget.left -= mixing.steps * _MIXTURE
        return found
    (shape,) = shapes
    tight = _Counting(cycle, job, task_groups, domain, pools, bound=min(cycle.budget.tight_steps, budget.left))
    found = tight.run(whole, shape, tight=True)
    budget.left -= tight.steps
    if found.placements is not None or not found.bounded:
        return found
    wide = _Counting(cycle, job, task_groups, domain, pools, bound=budget.left)
    found = wide.run(whole, shape, tight=False)
    budget.left -= wide.steps
    return found


def _task_groups(part: Part) -> Iterator[TaskGroup]:
    if part.task_group is not None:
        yield part.task_group
    for inner in part.parts:
        yield from _task_groups(inner)


class _Frame(msgspec.Struct, frozen=True, eq=False):
    """A group whose domain is chosen: which of its parts is next, and how many are still needed."""

    part: Part
    domain: int
    next: int
    need: int
    outer: _Frame | None

    def after(self, *, placed: int, next: int) -> _Frame | None:
        """Where to go on: in the group around it where enough parts are placed; None at the end."""
        if self.need > placed:
            return _Frame(self.part, self.domain, next, self.need - placed, self.outer)
        return self.outer

    def key(self) -> tuple[int, ...]:
        around = self.outer.key() if self.outer is not None else ()
        return (self.part.number, self.domain, self.next, self.need, *around)


class _NestedSearch(GroupSearch, ABC):
    """A depth-first search: a stack of choices, each for the next part of the innermost open group."""

    def __init__(
        self, cycle: Cycle, job: Job, task_groups: list[TaskGroup], domain: int, pools: tuple[Pool, ...], *, bound: int
    ) -> None:
        super().__init__(cycle, job, task_groups, len(task_groups), domain, pools)
        self._bound = bound
        self.steps = 0
        self._chosen: list[tuple[Part, int, float]] = []
        self._known: dict[tuple[int, int], list[tuple[int, float]]] = {}
        self._dead: set[tuple[object, ...]] = set()

    def _solve(self, whole: Part) -> bool:
        """Choose a domain for every part that is needed; what was chosen is kept if that is possible."""
        start = _Frame(whole, self._domain, 0, whole.need, None)
        stack = [(self._state(start), self._choices(start))]
        while stack:
            state, choices = stack[-1]
            for frame in choices:
                if frame is None:
                    return True
                if self._bounded:
                    return False
                further = self._state(frame)
                if further not in self._dead:
                    stack.append((further, self._choices(frame)))
                    break
            else:
                self._dead.add(state)
                stack.pop()
        return False

    def _choices(self, frame: _Frame) -> Iterator[_Frame | None]:
        """Every way to go on, each in force until the next one is asked for: a domain for the next part, or none."""
        part = frame.part.parts[frame.next]
        after = frame.after(placed=1, next=frame.next + 1)
        if len(frame.part.parts) - frame.next < frame.need or not self._hopeful(frame):
            return
        for place, worth in self._options(part, frame.domain):
            self.steps += 1
            if self.steps > self._bound:
                self._bounded = True
                yield frame
                return
            if part.task_group is None:
                yield _Frame(part, place, 0, part.need, after)
            elif self._put(part.task_group, place):
                self._chosen.append((part, place, worth))
                yield after
                self._chosen.pop()
                self._take_back(part.task_group, place)
        later = frame.next + 1
        while part.kind is not None and later < len(frame.part.parts) and frame.part.parts[later].kind == part.kind:
            later += 1  # where this part leads nowhere, one like it leads nowhere either
        if len(frame.part.parts) - later >= frame.need:
            yield frame.after(placed=0, next=later)

    @abstractmethod
    def _state(self, frame: _Frame) -> tuple[object, ...]:
        """All that decides whether the search can go on from a frame."""

    def _hopeful(self, frame: _Frame) -> bool:
        """Whether the rest of a group may fit, by counting alone."""
        return True

    @abstractmethod
    def _options(self, part: Part, within: int) -> Iterator[tuple[int, float]]:
        """The domains to try for a part, with their scores."""

    @abstractmethod
    def _put(self, task_group: TaskGroup, place: int) -> bool:
        """Note that a task group is placed, if it can be."""

    @abstractmethod
    def _take_back(self, task_group: TaskGroup, place: int) -> None:
        """Undo the last `_put`."""

    def _domains(self, part: Part, within: int, *, widest: bool) -> list[tuple[int, float]]:
        """The domains below one that a group may use, tightest tier first, or the widest of them alone."""
        groups = [np.asarray(group) for group in candidates(self._cycle, part.gang, within)]
        if widest and groups:
            every = np.concatenate(groups)
            groups = [every[~np.isin(self._cycle.topology.parent[every], every)]]
        sub = next(_task_groups(part)).sub
        found: list[tuple[int, float]] = []
        for group in groups:
            scores = self._cycle.pipeline.score_domains(sub, group)
            near = self._near
            far = self._cycle.topology.meeting_tiers(near)[group] if near is not None else np.zeros(len(group))
            order = np.lexsort((self._cycle.topology.rank[group], -np.rint(scores * GRAIN), far))
            found += ((int(group[i]), float(scores[i])) for i in order)
        return found


class _Counting(_NestedSearch):
    """One shape: assign task groups to domains by counting, then place them.

    The widest domain that a part may use leaves most to those inside it, so these alone decide whether there is a
    place; tighter ones are tried before them as long as that takes few steps.
    """

    def run(self, whole: Part, shape: Shape, *, tight: bool) -> Packing:
        self._tight = tight
        self._room: list[int] = self._cycle.fit_counts.of(shape).domains(self._pools[-1]).tolist()
        self._used: dict[int, int] = {}
        self._rest: dict[tuple[int, int, int], int] = {}
        self._tied = [
            here for task_group in self._lots if (here := current_domain(self._cycle, task_group.sub)) is not None
        ]
        if self._crowded(whole):
            return Packing(None)
        if not self._solve(whole):
            return Packing(None, bounded=self._bounded)
        depth = self._cycle.topology.chains
        placements: list[Placement] = []
        order = sorted(self._chosen, key=lambda c: (-len(depth[c[1]]), *self._size(c[0])))
        for part, place, _ in order:
            found = self._keep_best(part.task_group, place) if part.task_group is not None else None
            if found is None:  # releasing room is counted per node: what fits in sum may not fit in turn
                return Packing(None, bounded=True)
            placements += found
        return Packing(placements, sum(worth for _, _, worth in self._chosen), self._bounded)

    def _crowded(self, whole: Part) -> bool:
        """Whether there are more task groups of a size, or larger, than the domains that each needs one of could take.

        Counted at once, and enough to refuse what steps would take long to.
        """
        parts = [whole]
        for part in parts:
            if part.need < len(part.parts):
                return False  # some may be left out
            parts += part.parts
        own = [(part.limit, part.need) for part in parts if part.task_group is not None and part.limit is not None]
        topology, inside = self._cycle.topology, np.zeros(len(self._room), dtype=bool)
        inside[topology.below(self._domain)] = True
        for limit in {limit for limit, _ in own}:
            within = inside & (topology.tier <= limit)
            widest = np.flatnonzero(within & ~np.append(within, False)[topology.parent])
            room = np.array(self._room)[widest]
            sizes = np.array(sorted(need for tier, need in own if tier <= limit))
            for i in np.unique(sizes, return_index=True)[1].tolist():
                if int((room // sizes[i]).sum()) < len(sizes) - i:
                    return True
        return False

    def _size(self, part: Part) -> tuple[int, int]:
        return tightness(self._cycle, part.task_group) if part.task_group is not None else (0, 0)

    def _state(self, frame: _Frame) -> tuple[object, ...]:
        return (*frame.key(), frozenset(self._used.items()))

    def _hopeful(self, frame: _Frame) -> bool:
        key = (frame.part.number, frame.next, frame.need)
        pods = self._rest.get(key)
        if pods is None:
            rest = sorted(part.pods for part in frame.part.parts[frame.next :])
            pods = self._rest[key] = sum(rest[: frame.need])
        return self._room[frame.domain] >= pods

    def _options(self, part: Part, within: int) -> Iterator[tuple[int, float]]:
        """The places with enough room, one of each kind: alike siblings are the same choice for later parts."""
        known = self._known.get((part.number, within))
        if known is None:
            if part.task_group is not None:
                known = self._outermost(part.task_group, within)
            else:
                known = self._domains(part, within, widest=not self._tight)
            self._known[part.number, within] = known
        tried: set[tuple[int, ...]] = set()
        for place, worth in known:
            if self._room[place] >= part.pods and (kind := self._kind(place)) not in tried:
                tried.add(kind)
                yield place, worth

    def _kind(self, place: int) -> tuple[int, ...]:
        """What tells a place from its siblings: the rooms and tiers in it, and itself where a sub-job is tied to it."""
        topology = self._cycle.topology
        inner = topology.below(place)
        tied = any(topology.contains(place, d) or topology.contains(d, place) for d in self._tied)
        own = (place,) if tied else ()
        return (int(topology.parent[place]), *own, *self._room[inner], *topology.tier[inner].tolist())

    def _put(self, task_group: TaskGroup, place: int) -> bool:
        chain = self._above(place)
        if any(self._room[d] < task_group.need for d in chain):
            return False
        self._charge(place, task_group.need)
        return True

    def _take_back(self, task_group: TaskGroup, place: int) -> None:
        self._charge(place, -task_group.need)

    def _charge(self, place: int, need: int) -> None:
        for d in self._above(place):
            self._room[d] -= need
        self._used[place] = self._used.get(place, 0) + need
        if not self._used[place]:
            del self._used[place]

    def _above(self, place: int) -> list[int]:
        """The place and the domains around it, up to the one that is being packed."""
        chain = [place]
        while chain[-1] != self._domain:
            chain.append(int(self._cycle.topology.parent[chain[-1]]))
        return chain


class _Trying(_NestedSearch):
    """Several shapes, or rules between pods: each step is a trial on the ledger."""

    def run(self, whole: Part) -> Packing:
        self._placed: list[tuple[int, list[Placement]]] = []
        if not self._solve(whole):
            return Packing(None, bounded=True)  # task groups were tried one by one, never sharing nodes
        placements = [placement for _, found in self._placed for placement in found]
        return Packing(placements, sum(worth for _, _, worth in self._chosen), self._bounded)

    def _state(self, frame: _Frame) -> tuple[object, ...]:
        return (*frame.key(), *((part.number, place) for part, place, _ in self._chosen))

    def _options(self, part: Part, within: int) -> Iterator[tuple[int, float]]:
        if part.task_group is not None:
            yield from self._ranked(part.task_group, within)
        else:
            yield from self._domains(part, within, widest=False)

    def _put(self, task_group: TaskGroup, place: int) -> bool:
        mark = self._cycle.ledger.mark()
        self._cycle.report.search_counts.trials += 1
        found = fit(self._cycle, self._job, task_group, place, self._pools)
        if found is None:
            self._cycle.ledger.rewind(mark)
            return False
        self._placed.append((mark, found))
        return True

    def _take_back(self, task_group: TaskGroup, place: int) -> None:
        mark, _ = self._placed.pop()
        self._cycle.ledger.rewind(mark)


class _Mixing(_NestedSearch):
    """Several shapes: assign task groups to the widest domains that they may use by counting mixtures."""

    def run(self, whole: Part) -> Packing:
        try:
            for pool in self._pools if self._cycle.ledger.any_releasing else self._pools[:1]:
                found = self._on(pool, whole)
                if found is not None or self._bounded:
                    return Packing(found, sum(worth for _, _, worth in self._chosen), self._bounded)
        except OutOfBoundError:
            return Packing(None, bounded=True)
        return Packing(None)

    def _on(self, pool: Pool, whole: Part) -> list[Placement] | None:
        self._counts = Mixing(self._cycle, self._job, self._lots, len(self._lots), self._domain, self._pools)
        inside = (self._places(inner, self._domain) for inner in whole.parts)
        self._counts.prepare(pool, set[int]().union(*inside))
        ways = {id(group): self._counts.ways(i) for i, group in enumerate(self._lots)}
        if any(len(found) != 1 for found in ways.values()):
            raise OutOfBoundError  # which of its tasks a group takes is not searched for
        self._mix: dict[int, Mix] = {number: found[0][0] for number, found in ways.items()}
        self._used: dict[int, Mix] = {}
        self._dead.clear()
        if not self._solve(whole):
            return None
        exact = {id(group): ways[id(group)][0][1] for group in self._lots}
        return self._counts.deal([(exact[id(part.task_group)], place) for part, place, _ in self._chosen])

    def _places(self, part: Part, within: int) -> set[int]:
        """All domains that a part, and those inside it, may be given."""
        found = {place for place, _ in self._options(part, within)}
        inner = [(deeper, place) for place in found for deeper in part.parts]
        return found.union(*(self._places(deeper, place) for deeper, place in inner))

    def _state(self, frame: _Frame) -> tuple[object, ...]:
        return (*frame.key(), *sorted(self._used.items()))

    def _options(self, part: Part, within: int) -> Iterator[tuple[int, float]]:
        known = self._known.get((part.number, within))
        if known is None:
            if part.task_group is not None:
                known = self._outermost(part.task_group, within)
            else:
                known = self._domains(part, within, widest=True)
            self._known[part.number, within] = known
        yield from known

    def _put(self, task_group: TaskGroup, place: int) -> bool:
        mix = self._mix[id(task_group)]
        if not self._counts.give(place, mix):
            return False
        self._note(place, mix, 1)
        return True

    def _take_back(self, task_group: TaskGroup, place: int) -> None:
        mix = self._mix[id(task_group)]
        self._counts.take_back(place, mix)
        self._note(place, mix, -1)

    def _note(self, place: int, mix: Mix, sign: int) -> None:
        before = self._used.pop(place, (0,) * len(mix))
        after = tuple(a + sign * b for a, b in zip(before, mix, strict=True))
        if any(after):
            self._used[place] = after
