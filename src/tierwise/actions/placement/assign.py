"""Assign the parts of a job to domains inside one, with backtracking: exact within a budget of steps.

Called by `solve`. The search (`search`) chooses domains; whether the tasks fit says a *ground*, the cheapest that is
exact first:

- `_Slices`, one plain shape: tasks may be split freely inside a domain, so an assignment is feasible exactly when no
  domain, at any tier, gets more tasks than its fit count. Integers alone are compared.
- `_Trials`, several shapes or rules between pods: each step places a task group on the ledger, by score.
- `mixed_parts.Mixtures`, several plain shapes, where trials find nothing: domains take mixtures of shapes, by counting.

There is one budget for all of them, and a search that stops there says so.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from msgspec.structs import replace

from tierwise.actions.placement.demand import RemainingTasks, TaskGroup
from tierwise.actions.placement.problem import (
    BOTH,
    Budget,
    NoPlace,
    Part,
    Placement,
    SearchResult,
    tightness,
)
from tierwise.actions.placement.search import Chosen, Frame, Ground, Option
from tierwise.actions.placement.trial import fit
from tierwise.framework.cycle import Cycle
from tierwise.framework.ledger import Pool, job_ready, sub_ready
from tierwise.model.job import Job

__all__ = ["assign"]


def assign(
    cycle: Cycle, job: Job, whole: Part, domain: int, budget: Budget, pools: tuple[Pool, ...] = BOTH
) -> SearchResult | NoPlace:
    """Place what a job lacks below a domain. The caller owns the statement, and rewinds."""
    moving = any(map(cycle.pipeline.moving, whole.shapes))
    once = len({leaf.gang.number for leaf in whole.leaves}) == len(whole.leaves)
    if once and not moving and len(whole.shapes) == 1:
        return _counted(cycle, job, whole, domain, budget, pools)
    mark = cycle.ledger.mark()
    tried = _Trials(cycle, job, whole, domain, pools).run(budget, cycle.budget.trials)
    if isinstance(tried, SearchResult):
        return tried
    if len(whole.shapes) == 1 or moving or not once:
        # Where filters move, what is placed first decides what fits, and not every order is tried; and task groups of
        # several shapes were tried one by one, never sharing nodes.
        return NoPlace.of(bounded=tried is NoPlace.BOUNDED or moving or len(whole.shapes) > 1)
    cycle.ledger.rewind(mark)
    from tierwise.actions.placement.mixed_parts import Mixtures  # slow to import, and rarely needed

    return Mixtures.place(cycle, job, whole, domain, pools, budget)


def _counted(
    cycle: Cycle, job: Job, whole: Part, domain: int, budget: Budget, pools: tuple[Pool, ...]
) -> SearchResult | NoPlace:
    """The widest domain that a group may use leaves most to those inside it, so these alone decide whether there is a
    place; tighter ones are tried before them as long as that takes few steps.
    """
    if any(part.task_group is None for part in whole.parts):
        found = _Slices(cycle, job, whole, domain, pools, tight=True).run(budget, cycle.budget.tight_steps)
        if found is not NoPlace.BOUNDED:
            return found
    return _Slices(cycle, job, whole, domain, pools, tight=False).run(budget, budget.left)


class _Slices(Ground):
    """One shape: task groups are assigned to domains by counting, then placed."""

    def __init__(
        self, cycle: Cycle, job: Job, whole: Part, domain: int, pools: tuple[Pool, ...], *, tight: bool
    ) -> None:
        super().__init__(cycle, job, whole, domain, pools)
        self._tight = tight
        (shape,) = whole.shapes
        self._room: list[int] = cycle.fit_counts.of(shape).domains(pools[-1]).tolist()
        self._used: dict[int, int] = {}
        self._fewest: dict[tuple[int, int, int], int] = {}

    def run(self, budget: Budget, most: int) -> SearchResult | NoPlace:
        return NoPlace.PROVEN if self._crowded() else super().run(budget, most)

    def _crowded(self) -> bool:
        """Whether there are more task groups of a size, or larger, than the domains that each needs one of could take.

        Counted at once, and enough to refuse what steps would take long to.
        """
        if any(part.optional for part in self._groups(self._whole)):
            return False
        own = [(leaf.tier, leaf.pods) for leaf in self._whole.leaves if leaf.tier is not None]
        for limit in {limit for limit, _ in own}:
            room = np.array(self._room)[self._cycle.topology.outermost(limit, self._domain)]
            sizes = np.array(sorted(need for tier, need in own if tier <= limit))
            for i in np.unique(sizes, return_index=True)[1].tolist():
                if int((room // sizes[i]).sum()) < len(sizes) - i:
                    return True
        return False

    def _groups(self, part: Part) -> Iterator[Part]:
        if part.task_group is None:
            yield part
            for inner in part.parts:
                yield from self._groups(inner)

    def state(self, frame: Frame) -> tuple[object, ...]:
        return (frozenset(self._used.items()),)

    def hopeful(self, frame: Frame) -> bool:
        return super().hopeful(frame) and self._room[frame.domain] >= self._least(frame)

    def _least(self, frame: Frame) -> int:
        """The fewest tasks that a group still lacks."""
        lacks = frame.part.lacks[0] - frame.have[0]
        if not frame.part.counts_parts:
            return lacks
        key = (frame.part.number, frame.next, lacks)
        if key not in self._fewest:
            self._fewest[key] = sum(sorted(part.pods for part in frame.part.parts[frame.next :])[:lacks])
        return self._fewest[key]

    def options(self, part: Part, within: int) -> Iterator[Option]:
        """The places with enough room, one of each kind: alike siblings are the same choice for later parts."""
        tried: set[tuple[int, ...]] = set()
        for option in self.known(part, within, widest=not self._tight):
            if self._room[option.place] >= part.pods and (kind := self._kind(option.place)) not in tried:
                tried.add(kind)
                yield option

    def _kind(self, place: int) -> tuple[int, ...]:
        """What tells a place from its siblings: the rooms and tiers in it, and itself where a sub-job is tied to it."""
        topology = self._cycle.topology
        inner = topology.below(place)
        own = (place,) if self.has_placed_tasks(place) else ()
        return (int(topology.parent[place]), *own, *self._room[inner], *topology.tier[inner].tolist())

    def put(self, part: Part, option: Option) -> bool:
        if any(self._room[d] < part.pods for d in self._above(option.place)):
            return False
        self._charge(option.place, part.pods)
        return True

    def take_back(self, part: Part, option: Option) -> None:
        self._charge(option.place, -part.pods)

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

    def write(self, chosen: Chosen) -> list[Placement] | None:
        """None where releasing room, which is counted per node, fits in sum and not one by one."""
        depth = self._cycle.topology.chains
        groups = [(part.task_group, option.place) for part, option in chosen if part.task_group is not None]
        placements: list[Placement] = []
        for group, place in sorted(groups, key=lambda c: (-len(depth[c[1]]), *tightness(self._cycle, c[0]))):
            found = self._keep_best(group, place)
            if found is None:
                return None
            placements += found
        return placements

    def _keep_best(self, task_group: TaskGroup, place: int) -> list[Placement] | None:
        """Place a task group in the tightest and best domain below a place that holds it."""
        for option in self.ranked(task_group, place):
            found = self._cycle.ledger.attempt(fit, self._cycle, self._job, task_group, option.place, self._pools)
            if found is not None:
                return found
        return None


class _Trials(Ground):
    """Anything: each step places a task group on the ledger."""

    cost = 25

    def __init__(self, cycle: Cycle, job: Job, whole: Part, domain: int, pools: tuple[Pool, ...]) -> None:
        super().__init__(cycle, job, whole, domain, pools)
        self._placed: list[tuple[int, list[Placement]]] = []  # with the mark of the ledger before it

    def covered(self, frame: Frame) -> bool:
        """A job is asked on the ledger: which roles its tasks have depends on those that found a place."""
        if frame.part.counts_parts:
            return super().covered(frame)
        return job_ready(self._cycle.ledger, self._job, waiting=True)

    def hopeful(self, frame: Frame) -> bool:
        return super().hopeful(frame) if frame.part.counts_parts else True

    def state(self, frame: Frame) -> tuple[object, ...]:
        return (object(),)  # no two ways of placing tasks are the same

    def options(self, part: Part, within: int) -> Iterator[Option]:
        if part.task_group is None:
            yield from self.of_group(part, within, widest=False)
            return
        task_group = self._unused(part.task_group)
        too_early = task_group.extra and not sub_ready(self._cycle.ledger, task_group.sub, waiting=True)
        if task_group.remaining and not too_early:
            for option in self.ranked(task_group, within):
                yield replace(option, task_group=task_group)

    def _unused(self, task_group: TaskGroup) -> TaskGroup:
        """The task group without the tasks that other task groups of its sub-job have taken."""
        if not task_group.extra:
            return task_group
        every = [placement for _, found in self._placed for placement in found]
        taken = {id(p.pod_set): sum(len(q.rows) for q in every if q.pod_set is p.pod_set) for p in task_group.remaining}
        left = (RemainingTasks(p.pod_set, p.left - taken[id(p.pod_set)]) for p in task_group.remaining)
        return replace(task_group, remaining=tuple(tasks_left for tasks_left in left if tasks_left.left > 0))

    def put(self, part: Part, option: Option) -> bool:
        assert option.task_group is not None
        mark = self._cycle.ledger.mark()
        self._cycle.report.search_counts.trials += 1
        found = fit(self._cycle, self._job, option.task_group, option.place, self._pools)
        if found is None:
            self._cycle.ledger.rewind(mark)
            return False
        self._placed.append((mark, found))
        return True

    def take_back(self, part: Part, option: Option) -> None:
        mark, _ = self._placed.pop()
        self._cycle.ledger.rewind(mark)

    def write(self, chosen: Chosen) -> list[Placement] | None:
        return [placement for _, found in self._placed for placement in found]
