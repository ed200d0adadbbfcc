"""Assign the parts of a job to domains inside one, with backtracking: exact within a budget of steps.

Called by `solve`. The search chooses domains: a place for one part after the other, from the outside inwards. It has an
explicit stack, remembers dead states, and ends at its budget of steps. Whether the tasks fit says a subclass, the
cheapest that is exact first:

- `_Counting`, one plain shape: tasks may be split freely inside a domain, so an assignment is feasible exactly when no
  domain, at any tier, gets more tasks than its fit count. Integers alone are compared.
- `_Trials`, several shapes or rules between pods: each step places a task group on the ledger, by score.

Where trials of several plain shapes find nothing, the integer program of `exact` decides about the domain. There is one
budget for both searches, and one that stops there says so. The searches of `cells` are for other trees.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator

import msgspec
import numpy as np
from msgspec.structs import replace

from tierwise.actions.placement import problem
from tierwise.actions.placement.bounds import gradients_of
from tierwise.actions.placement.choose import order_of, ordered
from tierwise.actions.placement.demand import Demand, RemainingTasks, TaskGroup
from tierwise.actions.placement.trial import fit, fit_tied_too
from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import Gradients
from tierwise.framework.ledger import Pool, job_ready, sub_ready
from tierwise.model.job import Job, SubJob

__all__ = ["Frame", "Option", "Search", "assign"]


class Option(msgspec.Struct, frozen=True, eq=False):
    """A domain for a part, its score, and for a unit which of its tasks it takes, where there is a choice."""

    place: int
    worth: float
    task_group: TaskGroup | None = None


Chosen = list[tuple[problem.Part, Option]]
"""Units with the place of each."""


class Frame(msgspec.Struct, frozen=True, eq=False):
    """A group whose domain is chosen: which of its parts is next, and what those that are placed add up to."""

    part: problem.Part
    domain: int
    next: int
    have: problem.Counts
    outer: Frame | None

    def key(self) -> tuple[int, ...]:
        around = self.outer.key() if self.outer is not None else ()
        return (self.part.number, self.domain, self.next, *self.have, *around)

    def domains(self) -> Iterator[int]:
        frame: Frame | None = self
        while frame is not None:
            yield frame.domain
            frame = frame.outer


class Search(ABC):
    """A depth-first search: a stack of choices, each of a place for the next part of the innermost open group.

    Subclasses say which places a part may have, and whether what is put into them fits.
    """

    cost = 1
    """Steps that a choice counts as; of the cycle's account it takes one, beside what is done to find it."""

    def __init__(self, root: problem.Part, place: int) -> None:
        self._whole = root
        self._start = place
        self.bounded = False  # whether the search stopped at its bound
        self._left = 0
        self._pay: Callable[[int], None] = lambda _: None
        self._dead: set[tuple[object, ...]] = set()

    def solutions(self, budget: problem.Budget, max_choices: int) -> Iterator[Chosen]:
        """Every way to give a place to what is needed, each in force until the next is asked for.

        It ends at the budget, or after so many choices, and is `bounded` then.
        """
        self._left = max_choices = min(max_choices, budget.left // self.cost)
        self._pay = budget.account.charge
        try:
            yield from self._solutions()
        finally:
            budget.left -= (max_choices - max(self._left, 0)) * self.cost

    def _solutions(self) -> Iterator[Chosen]:
        options_chosen: Chosen = []
        start = Frame(self._whole, self._start, 0, (0,) * len(self._whole.lacks), None)
        if self.covered(start):
            yield options_chosen
            return
        stack = [(self._state(start), self._choices(start, options_chosen))]
        while stack:
            state, choices = stack[-1]
            for frame in choices:
                if frame is None:
                    yield options_chosen
                    continue
                if self._left < 0:
                    return
                further = self._state(frame)
                if further not in self._dead:
                    stack.append((further, self._choices(frame, options_chosen)))
                    break
            else:
                self._dead.add(state)
                stack.pop()

    def _choices(self, frame: Frame, choices: Chosen) -> Iterator[Frame | None]:
        """Every way to go on, each in force until the next one is asked for: a place for the next part, or none.

        None is the end: all that is needed has a place.
        """
        parts = frame.part.parts
        this = frame.next
        if this == len(parts) or not self.hopeful(frame):
            return
        part = parts[this]
        for option in self.options(part, frame.domain):
            self._left -= 1
            self._pay(1)
            if self._left < 0:
                self.bounded = True
                yield frame
                return
            if part.parts:
                yield Frame(part, option.place, 0, (0,) * len(part.lacks), self._after(frame, part, this + 1))
            elif self.put(part, option):
                choices.append((part, option))
                yield self._after(frame, part, this + 1)
                choices.pop()
                self.take_back(part, option)
        if frame.part.optional:
            later = this + 1
            while part.kind is not None and later < len(parts) and parts[later].kind == part.kind:
                later += 1  # where this part leads nowhere, one like it leads nowhere either
            yield self._after(frame, None, later)

    def _after(self, frame: Frame, placed: problem.Part | None, following: int) -> Frame | None:
        """Where to go on: in the group around it where this one lacks nothing more; None at the end."""
        have = problem.plus(frame.have, placed.adds) if placed is not None else frame.have
        after = Frame(frame.part, frame.domain, following, have, frame.outer)
        return frame.outer if self.covered(after) else after

    def _state(self, frame: Frame) -> tuple[object, ...]:
        return (*frame.key(), *self.state(frame))

    def covered(self, frame: Frame) -> bool:
        """Whether a group lacks nothing more."""
        return all(have >= needed for have, needed in zip(frame.have, frame.part.lacks, strict=True))

    def hopeful(self, frame: Frame) -> bool:
        """Whether the rest of a group may be enough, and fit, by counting alone."""
        reachable = problem.plus(frame.have, frame.part.still_to_come[frame.next])
        return all(reached >= needed for reached, needed in zip(reachable, frame.part.lacks, strict=True))

    @abstractmethod
    def state(self, frame: Frame) -> tuple[object, ...]:
        """The part of the memo key that describes what was placed so far."""

    @abstractmethod
    def options(self, part: problem.Part, within: int) -> Iterator[Option]:
        """The places to try for a part."""

    @abstractmethod
    def put(self, part: problem.Part, option: Option) -> bool:
        """Note that a unit is placed, if it can be."""

    @abstractmethod
    def take_back(self, part: problem.Part, option: Option) -> None:
        """Undo the last `put`."""


class DomainSearch(Search):
    """A search below a domain of the tree that rows follow, and what becomes of it on the ledger."""

    widest = True
    """Whether a group is offered only the widest of the domains that it may use; else all of them, the tightest first.

    A unit that counting decides about is offered the widest alone: a tighter one inside is chosen when it is placed.
    """

    def __init__(self, cycle: Cycle, job: Job, root: problem.Part, domain: int, pools: tuple[Pool, ...]) -> None:
        super().__init__(root, domain)
        self._cycle = cycle
        self._job = job
        self._domain = domain
        self._pools = pools
        self._near = cycle.current_domain(job)
        self._known: dict[tuple[int, int], list[Option]] = {}
        subs = [task_group.sub for task_group in root.task_groups()]
        self._tied = [current for sub in subs if (current := cycle.current_domain(sub)) is not None]

    def run(self, budget: problem.Budget, max_choices: int) -> problem.SearchResult | problem.NoPlace:
        """Place all that is needed, within the budget and so many choices."""
        for choices in self.solutions(budget, max_choices):
            placements = self.write(choices)
            if placements is None:  # what was counted together may not fit one after the other
                return problem.NoPlace.BOUNDED
            return problem.SearchResult(self._domain, tuple(placements), sum(option.worth for _, option in choices))
        return problem.NoPlace.of(bounded=self.bounded)

    @abstractmethod
    def write(self, choices: Chosen) -> list[problem.Placement] | None:
        """The placements of what was chosen, on the ledger; None where that does not fit after all."""

    # Domains.

    def ranked(self, task_group: TaskGroup, within: int, *, widest: bool = False) -> Iterator[Option]:
        """Domains below one that may hold a task group, or the widest of them alone, in the order of order_of."""
        for gradient in self._gradients_below(task_group.sub, within, widest=widest):
            for domain, score in ordered(self._cycle, task_group, gradient, self._near, self._pools):
                yield Option(domain, score)

    def of_group(self, part: problem.Part, within: int) -> list[Option]:
        """The domains below one that a group is offered."""
        sub = next(part.task_groups()).sub
        options = list[Option]()
        for gradient in self._gradients_below(part.gang, within, widest=self.widest):
            scores = self._cycle.pipeline.score_domains(sub, gradient)
            order = order_of(self._cycle, gradient, scores, self._near).sorted()
            options += (Option(int(gradient[i]), float(scores[i])) for i in order)
        return options

    def _gradients_below(self, gang: Job | SubJob, within: int, *, widest: bool) -> Gradients:
        """The gradients of a gang below a domain, or one of the widest domains of all of them."""
        gradients = gradients_of(self._cycle, gang, within)
        if not widest or not (gradients := list(gradients)):
            return gradients
        every = np.concatenate(gradients)
        return [every[~np.isin(self._cycle.topology.parent[every], every)]]

    def known(self, part: problem.Part, within: int) -> list[Option]:
        """The domains for a part that counting decides about, looked up once."""
        key = (part.number, within)
        if key not in self._known:
            unit = part.task_group
            options = self.of_group(part, within) if unit is None else self.ranked(unit, within, widest=True)
            self._known[key] = list(options)
        return self._known[key]

    def has_placed_tasks(self, place: int) -> bool:
        """Whether tasks of a sub-job that is to be completed stand in a place, or around it."""
        contains = self._cycle.topology.contains
        return any(contains(place, domain) or contains(domain, place) for domain in self._tied)


def assign(
    cycle: Cycle,
    job: Job,
    demand: Demand,
    root: problem.Part,
    domain: int,
    budget: problem.Budget,
    pools: tuple[Pool, ...],
) -> problem.SearchResult | problem.NoPlace:
    """Place what a job lacks, as a demand and in parts, below a domain. The caller owns the statement, and rewinds."""
    moving = any(map(cycle.pipeline.moving, root.shapes))
    once = len({unit.gang.number for unit in root.units}) == len(root.units)
    if once and not moving and len(root.shapes) == 1:
        return _counted(cycle, job, root, domain, budget, pools)
    mark = cycle.ledger.mark()
    tried = _Trials(cycle, job, root, domain, pools).run(budget, cycle.budget.trials)
    if isinstance(tried, problem.SearchResult):
        return tried
    if len(root.shapes) == 1 or moving or not once:
        # Where filters move, what is placed first decides what fits, and not every order is tried; and task groups of
        # several shapes were tried one by one, never sharing nodes.
        return problem.NoPlace.of(bounded=tried is problem.NoPlace.BOUNDED or moving or len(root.shapes) > 1)
    cycle.ledger.rewind(mark)
    from tierwise.actions.placement.exact import place_exactly  # rarely needed

    return place_exactly(cycle, job, demand, domain, pools)


def _counted(
    cycle: Cycle, job: Job, root: problem.Part, domain: int, budget: problem.Budget, pools: tuple[Pool, ...]
) -> problem.SearchResult | problem.NoPlace:
    """The widest domain that a group may use leaves most to those inside it, so these alone decide whether there is a
    place; tighter ones are tried before them as long as that takes few steps.
    """
    if any(part.task_group is None for part in root.parts):
        placement = _Counting(cycle, job, root, domain, pools, tight=True).run(budget, cycle.budget.tight_steps)
        if placement is not problem.NoPlace.BOUNDED:
            return placement
    return _Counting(cycle, job, root, domain, pools, tight=False).run(budget, budget.left)


class _Counting(DomainSearch):
    """One shape: task groups are assigned to domains by counting, then placed."""

    def __init__(
        self, cycle: Cycle, job: Job, root: problem.Part, domain: int, pools: tuple[Pool, ...], *, tight: bool
    ) -> None:
        super().__init__(cycle, job, root, domain, pools)
        self.widest = not tight
        (shape,) = root.shapes
        self._room: list[int] = cycle.fit_counts.of(shape).domains(pools[-1]).tolist()
        self._used: dict[int, int] = {}
        self._fewest: dict[tuple[int, int, int], int] = {}

    def run(self, budget: problem.Budget, max_choices: int) -> problem.SearchResult | problem.NoPlace:
        if self._crowded():
            return problem.NoPlace.PROVEN
        return super().run(budget, max_choices)

    def _crowded(self) -> bool:
        """Whether there are more task groups of a size, or larger, than the domains that each needs one of could take.

        Counted at once, and enough to refuse what steps would take long to.
        """
        if any(part.optional for part in self._whole.every()):
            return False
        confined_units = [(unit.tier, unit.pods) for unit in self._whole.units if unit.tier is not None]
        for limit in {limit for limit, _ in confined_units}:
            room = np.array(self._room)[self._cycle.topology.outermost(limit, self._domain)]
            sizes = np.array(sorted(need for tier, need in confined_units if tier <= limit))
            for i in np.unique(sizes, return_index=True)[1].tolist():
                if int((room // sizes[i]).sum()) < len(sizes) - i:
                    return True
        return False

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

    def options(self, part: problem.Part, within: int) -> Iterator[Option]:
        """The places with enough room, one of each kind: alike siblings are the same choice for later parts."""
        tried: set[tuple[int, ...]] = set()
        for option in self.known(part, within):
            if self._room[option.place] >= part.pods and (kind := self._kind(option.place)) not in tried:
                tried.add(kind)
                yield option

    def _kind(self, place: int) -> tuple[int, ...]:
        """What tells a place from its siblings: the rooms and tiers in it, and itself where a sub-job is tied to it."""
        topology = self._cycle.topology
        inner = topology.below(place)
        tied_place = (place,) if self.has_placed_tasks(place) else ()
        return (int(topology.parent[place]), *tied_place, *self._room[inner], *topology.tier[inner].tolist())

    def put(self, part: problem.Part, option: Option) -> bool:
        if any(self._room[d] < part.pods for d in self._above(option.place)):
            return False
        self._charge(option.place, part.pods)
        return True

    def take_back(self, part: problem.Part, option: Option) -> None:
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

    def write(self, choices: Chosen) -> list[problem.Placement] | None:
        """None where releasing room, which is counted per node, fits in sum and not one by one."""
        depth = self._cycle.topology.chains
        groups = [(part.task_group, option.place) for part, option in choices if part.task_group is not None]
        placements: list[problem.Placement] = []
        for group, place in sorted(groups, key=lambda c: (-len(depth[c[1]]), *problem.tightness(self._cycle, c[0]))):
            group_placements = self._keep_best(group, place)
            if group_placements is None:
                return None
            placements += group_placements
        return placements

    def _keep_best(self, task_group: TaskGroup, place: int) -> list[problem.Placement] | None:
        """Place a task group in the tightest and best domain below a place that holds it."""
        for option in self.ranked(task_group, place):
            placed = self._cycle.ledger.attempt(fit, self._cycle, self._job, task_group, option.place, self._pools)
            if placed is not None:
                return placed
        return None


class _Trials(DomainSearch):
    """Anything: each step places a task group on the ledger."""

    cost = 25
    widest = False

    def __init__(self, cycle: Cycle, job: Job, root: problem.Part, domain: int, pools: tuple[Pool, ...]) -> None:
        super().__init__(cycle, job, root, domain, pools)
        self._placed: list[tuple[int, list[problem.Placement]]] = []  # with the mark of the ledger before it

    def covered(self, frame: Frame) -> bool:
        """A job is asked on the ledger: which roles its tasks have depends on those that found a place."""
        if frame.part.counts_parts:
            return super().covered(frame)
        return job_ready(self._cycle.ledger, self._job, waiting=True)

    def hopeful(self, frame: Frame) -> bool:
        if frame.part.counts_parts:
            return super().hopeful(frame)
        return True

    def state(self, frame: Frame) -> tuple[object, ...]:
        return (object(),)  # no two ways of placing tasks are the same

    def options(self, part: problem.Part, within: int) -> Iterator[Option]:
        if part.task_group is None:
            yield from self.of_group(part, within)
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
        every = []
        for _, group_placements in self._placed:
            every.extend(group_placements)
        used_of_pod_set = {
            id(p.pod_set): sum(len(q.rows) for q in every if q.pod_set is p.pod_set) for p in task_group.remaining
        }
        unused = (RemainingTasks(p.pod_set, p.left - used_of_pod_set[id(p.pod_set)]) for p in task_group.remaining)
        return replace(task_group, remaining=tuple(tasks_left for tasks_left in unused if tasks_left.left > 0))

    def put(self, part: problem.Part, option: Option) -> bool:
        assert option.task_group is not None
        mark = self._cycle.ledger.mark()
        self._cycle.report.search_counts.trials += 1
        group_placements = fit_tied_too(self._cycle, self._job, option.task_group, option.place, self._pools)
        if group_placements is None:
            return False
        self._placed.append((mark, group_placements))
        return True

    def take_back(self, part: problem.Part, option: Option) -> None:
        mark, _ = self._placed.pop()
        self._cycle.ledger.rewind(mark)

    def write(self, choices: Chosen) -> list[problem.Placement] | None:
        return [placement for _, group_placements in self._placed for placement in group_placements]
