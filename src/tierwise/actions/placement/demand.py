"""What a job must place next: task groups, each a number of tasks that one sub-job must place together.

`demand` gives the gang's minimum, `surplus` the tasks beyond it, which are placed later and on idle resources only.
Called by `allocate` and the evicting actions. Reads the ledger, and changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain

import msgspec
import numpy as np
from msgspec.structs import replace

from tierwise.framework.cycle import Cycle
from tierwise.framework.ledger import job_ready, lacking_of, ready_tasks
from tierwise.model.arrays import Ints, least_amounts
from tierwise.model.gang import lacking
from tierwise.model.job import InnerGroup, Job, PodSet, Shape, SubJob

__all__ = [
    "Demand",
    "RemainingTasks",
    "TaskGroup",
    "asks_beyond",
    "demand",
    "each_selection",
    "everything",
    "larger_sizes",
    "least_needs",
    "needs",
    "remaining_tasks",
    "selections",
    "shapes_of",
    "surplus",
    "surplus_groups",
    "whole_first",
]


_STEPS = 32
"""In how many steps a number is looked for that quotas allow, before it is narrowed down."""


class RemainingTasks(msgspec.Struct, frozen=True):
    """The tasks of a pod set that are not placed yet."""

    pod_set: PodSet
    left: int


class TaskGroup(msgspec.Struct, frozen=True):
    """`need` tasks of one sub-job, taken from its remaining tasks in order, role minimums first."""

    sub: SubJob
    remaining: tuple[RemainingTasks, ...]
    need: int
    roles: dict[int, int] = {}
    extra: bool = False  # beyond the sub-job's minimum: counts only once that is placed

    @classmethod
    def of(cls, sub: SubJob, pod_set: PodSet, count: int) -> TaskGroup:
        """So many tasks of one pod set."""
        return cls(sub, (RemainingTasks(pod_set, count),), count)

    @property
    def enough(self) -> bool:
        """Whether so many tasks are left, of each role too."""
        left_by_role = by_role(self.remaining)
        short = any(left_by_role[role] < minimum for role, minimum in self.roles.items())
        return not short and sum(tasks_left.left for tasks_left in self.remaining) >= self.need

    def firm(self) -> tuple[tuple[Shape, int], ...]:
        """So many tasks of each pod set, where there is no choice: of one pod set, or all of several; else nothing."""
        if len(self.remaining) == 1:
            return ((self.remaining[0].pod_set.shape, self.need),)
        every = tuple((tasks_left.pod_set.shape, tasks_left.left) for tasks_left in self.remaining)
        if sum(number for _, number in every) == self.need:
            return every
        return ()

    def by_shape(self) -> Counter[Shape]:
        """How many tasks of each shape remain, in their order."""
        left_by_shape: Counter[Shape] = Counter()
        for tasks_left in self.remaining:
            left_by_shape[tasks_left.pod_set.shape] += tasks_left.left
        return left_by_shape

    def counts(self) -> list[int]:
        """How many tasks it takes of each of its remaining ones: role minimums first, then in order."""
        still_needed = self.need
        roles = dict(self.roles)
        numbers = []
        for tasks_left in self.remaining:
            number = min(tasks_left.left, roles.get(tasks_left.pod_set.role_number, 0))
            if number:
                roles[tasks_left.pod_set.role_number] -= number
            still_needed -= number
            numbers.append(number)
        for i, tasks_left in enumerate(self.remaining):
            added = min(tasks_left.left - numbers[i], max(still_needed, 0))
            numbers[i] += added
            still_needed -= added
        return numbers

    def taken(self) -> list[tuple[PodSet, int]]:
        """The pod sets that it takes tasks of, and how many."""
        return [(p.pod_set, number) for p, number in zip(self.remaining, self.counts(), strict=True) if number]


class Demand(msgspec.Struct, frozen=True):
    """The task groups that make a job ready, and substitutes for those that find no place."""

    task_groups: tuple[TaskGroup, ...]
    substitutes: tuple[TaskGroup, ...] = ()
    enough: bool = True  # False: the job would not be ready even with all of these placed
    alternatives: Demand | None = None  # all other selections, tried if this one finds no place
    cut: bool = False  # there are more selections than are tried
    needs_substitutes: bool = False  # the task groups are not enough: some substitutes must be placed too
    inner_group: int = 0  # of a nested job: the inner group that they make whole
    narrowed: bool = False  # to tasks that quotas allow: others that they allow may find a place where these do not

    @property
    def need(self) -> int:
        """How many tasks its task groups need together."""
        return sum(task_group.need for task_group in self.task_groups)

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """The shapes of its tasks, each once, in their order."""
        return shapes_of(self.task_groups)


def by_role(remaining: Iterable[RemainingTasks]) -> Counter[int]:
    """How many tasks of each role there are, those without a minimum under -1."""
    tasks_by_role: Counter[int] = Counter()
    for tasks_left in remaining:
        tasks_by_role[tasks_left.pod_set.role_number] += tasks_left.left
    return tasks_by_role


def shapes_of(task_groups: Iterable[TaskGroup]) -> tuple[Shape, ...]:
    """The shapes of the remaining tasks of some task groups, each once, in their order."""
    return tuple({tasks_left.pod_set.shape: None for task_group in task_groups for tasks_left in task_group.remaining})


def demand(cycle: Cycle, job: Job) -> Demand:
    """The fewest task groups, in order, that meet every minimum of the job; empty if the job is ready already.

    If quotas forbid these and allow others, the first of those.
    """
    if not cycle.pipeline.gangs or job_ready(cycle.ledger, job):
        return Demand(())
    first_choice = _first_demand(cycle, job)
    if not first_choice.enough or not _has_choice(job, first_choice) or _affordable(cycle, job, first_choice):
        return first_choice
    return next(selections(cycle, job, first_choice), first_choice)


def _selections_in_one_group(cycle: Cycle, job: Job, demanded: Demand) -> Iterator[Demand]:
    """Other tasks of a gang without sub-groups that meet its minimums and that quotas allow."""
    (task_group,) = demanded.task_groups
    whole_group = _minimum_in_one_group(cycle, job)
    first_counts = dict(task_group.taken())
    for counts in _Affordable(cycle, job, whole_group).counts():
        pod_sets = (tasks_left.pod_set for tasks_left in whole_group.remaining)
        if first_counts != {pod_set: number for pod_set, number in zip(pod_sets, counts, strict=True) if number}:
            yield Demand((_of_these(whole_group, counts),), narrowed=True)


def selections(cycle: Cycle, job: Job, demanded: Demand) -> Iterator[Demand]:
    """Other tasks that meet every minimum of a job, within its quotas, for a demand that quotas or room do not allow.

    Of a gang without sub-groups all of them are tried in order, up to a bound. Of one with sub-groups these are tried,
    but of the tasks of each sub-group only those that ask for the least of a resource: that there are more of these is
    noted as a search that was cut short, unless quotas refuse the least of what any of them ask for.
    """
    if not cycle.pipeline.quota_exceeded:
        return
    if not job.shape.parted:
        yield from _selections_in_one_group(cycle, job, demanded)
        return
    requests = np.array([pod_set.shape.request for pod_set in job.pod_sets()])
    waiting_tasks = np.array([cycle.backlog.left(pod_set) for pod_set in job.pod_sets()])
    least_request = least_amounts(
        requests, waiting_tasks, job.minimum - sum(ready_tasks(cycle.ledger, sub) for sub in job.subs)
    )
    if cycle.pipeline.quota_exceeded(job, least_request) is not None:
        return
    bounded = False
    seen = {_taken(demanded.task_groups)}
    for resource in np.flatnonzero(requests.max(axis=0)).tolist():
        cheapest_choice = _Choice(cycle, job, cheapest=resource).demand()
        other_choices = _Choice(cycle, job, cheapest=resource).each()
        for task_groups in chain((cheapest_choice.task_groups,) if cheapest_choice.enough else (), other_choices):
            selection = Demand(task_groups, narrowed=True)
            bounded |= cycle.pipeline.quota_exceeded(job, least_needs(selection)) is None
            if _taken(task_groups) not in seen and _affordable(cycle, job, selection):
                yield selection
            seen.add(_taken(task_groups))
    cycle.report.search_counts.cut += bounded


def each_selection(cycle: Cycle, job: Job, demanded: Demand) -> Iterator[tuple[TaskGroup, ...]]:
    """The task groups of a demand, then those of every other selection of sub-jobs and of their tasks."""
    yield demanded.task_groups
    if demanded.substitutes or demanded.alternatives is not None:
        first_counts = _taken(demanded.task_groups)
        for task_groups in _Choice(cycle, job).each(demanded.inner_group):
            if _taken(task_groups) != first_counts:
                yield task_groups


def _has_choice(job: Job, demanded: Demand) -> bool:
    """Whether other tasks than those that a demand takes first may meet the minimum, and ask for something else."""
    if job.shape.parted:
        return bool(demanded.substitutes) or any(len(task_group.remaining) > 1 for task_group in demanded.task_groups)
    (task_group,) = demanded.task_groups
    return len(task_group.remaining) > 1 and sum(p.left for p in task_group.remaining) > task_group.need


def _first_demand(cycle: Cycle, job: Job) -> Demand:
    if not job.shape.parted:
        task_group = _minimum_in_one_group(cycle, job)
        return Demand((task_group,), enough=task_group.need > 0 and task_group.enough)
    first_choice = _Choice(cycle, job).demand()
    has_more = sum(map(cycle.backlog.left, job.pod_sets())) > first_choice.need
    wide = _spread(job) or any(_spread(group) for group in job.inner_groups)
    narrow = any(min(_spread(sub), sub.total) > sub.minimum for sub in job.subs)
    return (
        replace(first_choice, cut=True) if narrow or (wide and has_more) else first_choice
    )  # more tasks may be in more domains


def _spread(gang: Job | InnerGroup | SubJob) -> int:
    """The fewest domains that a gang must be in, and so the fewest tasks with which it starts."""
    stated = (gang.constraint, *gang.further)
    return max((constraint.spread for constraint in stated if constraint is not None and constraint.hard), default=0)


def surplus(cycle: Cycle, job: Job) -> Iterator[TaskGroup]:
    """Tasks beyond the minimum: a sub-job below its own minimum as one task group, other tasks by pod set."""
    gangs = cycle.pipeline.gangs
    lacking = lacking_of(cycle.ledger, job)
    for sub in _ordered(cycle, job):
        if gangs and sub.inner_group >= 0 and lacking[sub.inner_group][0] > 0:
            continue  # `surplus_groups` has it: the group around it comes whole
        remaining = remaining_tasks(cycle, sub)
        missing = sub.minimum - ready_tasks(cycle.ledger, sub) if gangs and job.shape.parted else 0
        if missing > 0:
            if sum(p.left for p in remaining) >= missing:
                yield _affordable_group(cycle, job, TaskGroup(sub, remaining, missing))
            continue
        for tasks_left in remaining:
            yield TaskGroup.of(sub, tasks_left.pod_set, tasks_left.left)


def _affordable_group(cycle: Cycle, job: Job, task_group: TaskGroup) -> TaskGroup:
    """A task group with other tasks where quotas allow these now and not the first ones."""
    if len(task_group.remaining) == 1 or not cycle.pipeline.quota_exceeded:
        return task_group
    with cycle.ledger.statement():
        cycle.ledger.count_leaving()  # surplus starts at once, while terminating pods still hold theirs
        counts = next(_Affordable(cycle, job, task_group).counts(), None)
    if counts is None:
        return task_group
    return _of_these(task_group, counts)


def surplus_groups(cycle: Cycle, job: Job) -> Iterator[Demand]:
    """The inner groups beyond a nested job's minimum that must be placed whole, each with what it lacks.

    Groups within one that is not whole come with it.
    """
    if not job.shape.nested or not cycle.pipeline.gangs:
        return
    lacking = lacking_of(cycle.ledger, job)
    for i, group in enumerate(job.inner_groups):
        if group.parent >= 0 and lacking[group.parent][0] <= 0 < lacking[i][0]:
            group_demand = _Choice(cycle, job).nested(i)
            if group_demand.enough:
                yield group_demand


def whole_first(cycle: Cycle, job: Job, demanded: Demand) -> tuple[Demand, ...]:
    """The demands to try in turn: of a gathered job all that is left, then its minimum; of others just the demand."""
    if not cycle.pipeline.gather_options(job, demanded.need):
        return (demanded,)
    (minimum_group,) = demanded.task_groups
    whole_group = everything(minimum_group)
    if whole_group.need > minimum_group.need:
        return (Demand((whole_group,)), demanded)
    return (demanded,)


def larger_sizes(cycle: Cycle, job: Job) -> Iterator[TaskGroup]:
    """Task groups that bring a gang to its larger listed sizes, the largest first, as far as it has pods."""
    (sub,) = job.subs
    remaining, ready = remaining_tasks(cycle, sub), ready_tasks(cycle.ledger, sub)
    waiting = sum(tasks_left.left for tasks_left in remaining)
    for size in reversed(job.shape.wishes.sizes):
        if ready < size <= ready + waiting:
            yield TaskGroup(sub, remaining, size - ready)


def everything(task_group: TaskGroup) -> TaskGroup:
    """A task group of all that is left, not only of what the minimum needs."""
    return replace(task_group, need=sum(tasks_left.left for tasks_left in task_group.remaining))


def needs(demanded: Demand) -> Ints:
    """The resources that a demand requests: role minimums first, then the remaining tasks in order."""
    taken_pod_sets = _taken(demanded.task_groups)
    total: Ints = np.sum([pod_set.shape.request * number for pod_set, number in taken_pod_sets], axis=0)
    return total


def _taken(task_groups: Iterable[TaskGroup]) -> tuple[tuple[PodSet, int], ...]:
    return tuple(taken_pod_set for task_group in task_groups for taken_pod_set in task_group.taken())


def least_needs(demanded: Demand) -> Ints:
    """The least of each resource that a demand requests, whichever of its tasks are placed.

    Where others may replace them, a single task group may be enough.
    """
    requests = [_least(task_group) for task_group in (*demanded.task_groups, *demanded.substitutes)]
    if demanded.alternatives is not None:
        requests.append(least_needs(demanded.alternatives))
    total: Ints = np.sum(requests, axis=0) if len(requests) == len(demanded.task_groups) else np.min(requests, axis=0)
    return total


def _least(task_group: TaskGroup) -> Ints:
    remaining = task_group.remaining
    if len(remaining) == 1:
        return remaining[0].pod_set.shape.request * min(remaining[0].left, task_group.need)
    requests = np.array([tasks_left.pod_set.shape.request for tasks_left in remaining])
    return least_amounts(requests, np.array([tasks_left.left for tasks_left in remaining]), task_group.need)


def asks_beyond(job: Job, total: Ints) -> bool:
    """Whether minResources exceed the requests of the job's tasks. Controllers write minResources equal to the
    requests.
    """
    return job.min_resources is not None and True in (job.min_resources > total).tolist()  # few: no call of `any`


def _affordable(cycle: Cycle, job: Job, demanded: Demand) -> bool:
    """Whether quotas allow the tasks that a demand takes first."""
    pipeline = cycle.pipeline
    return not pipeline.quota_exceeded or pipeline.quota_exceeded(job, needs(demanded)) is None


def _of_these(task_group: TaskGroup, counts: Sequence[int]) -> TaskGroup:
    """A task group of so many tasks of each pod set, and of no others."""
    numbers = zip(task_group.remaining, counts, strict=True)
    return replace(task_group, remaining=tuple(RemainingTasks(p.pod_set, number) for p, number in numbers if number))


class _Affordable:
    """Which tasks of a task group quotas allow together: how many of each pod set, as many as possible of the first.

    Numbers that cannot be completed within the quotas, were the cheapest tasks to follow, are left out at once.
    """

    def __init__(self, cycle: Cycle, job: Job, task_group: TaskGroup) -> None:
        self._cycle = cycle
        self._job = job
        self._need = task_group.need
        self._left = [tasks_left.left for tasks_left in task_group.remaining]
        self._requests = [tasks_left.pod_set.shape.request for tasks_left in task_group.remaining]
        self._roles = [tasks_left.pod_set.role_number for tasks_left in task_group.remaining]
        self._least = task_group.roles
        self._questions = cycle.budget.questions

    def counts(self) -> Iterator[list[int]]:
        yield from self._from(0, [], np.zeros(len(self._cycle.view.axis), dtype=np.int64))
        if self._questions <= 0:
            self._cycle.report.search_counts.cut += 1

    def _from(self, i: int, numbers: list[int], total: Ints) -> Iterator[list[int]]:
        missing = self._need - sum(numbers)
        if i == len(self._left):
            if not missing:
                yield numbers
            return
        later = sum(self._left[i + 1 :])
        low = max(0, missing - later, self._lacking(i, numbers))
        high = min(self._left[i], missing)

        def allowed(number: int) -> bool:
            self._questions -= 1
            amounts = total + self._requests[i] * number + self._cheapest(i + 1, missing - number)
            return self._cycle.pipeline.quota_exceeded(self._job, amounts) is None

        # What they ask for with the cheapest to follow is convex in the number: the numbers allowed follow each other.
        step = max(1, (high - low) // _STEPS)
        tried = (*range(high, low, -step), *range(low, min(low, high) + 1))
        number = next((n for n in tried if self._questions > 0 and allowed(n)), None)
        if number is None:
            return
        bound = min(number + step, high + 1)  # not allowed, or beyond all
        while bound - number > 1:
            middle = (number + bound) // 2
            number, bound = (middle, bound) if allowed(middle) else (number, middle)
        while number >= low and self._questions > 0 and allowed(number):
            yield from self._from(i + 1, [*numbers, number], total + self._requests[i] * number)
            number -= 1

    def _lacking(self, i: int, numbers: list[int]) -> int:
        """How many tasks of a pod set its role needs, whatever is taken of those behind it."""
        by_role: Counter[int] = Counter()  # by role, what is taken before it and what there is behind it
        for number, role in zip((*numbers, 0, *self._left[i + 1 :]), self._roles, strict=True):
            by_role[role] += number
        return self._least.get(self._roles[i], 0) - by_role[self._roles[i]]

    def _cheapest(self, i: int, number: int) -> Ints:
        """The least that so many tasks of the pod sets from one on ask for, each resource by itself."""
        if not number or i == len(self._left):
            return np.zeros(len(self._cycle.view.axis), dtype=np.int64)
        return least_amounts(np.array(self._requests[i:]), np.array(self._left[i:]), number)


def _minimum_in_one_group(cycle: Cycle, job: Job) -> TaskGroup:
    """A job without policies is one task group, with a minimum for each role, and enough tasks for its spread."""
    sub = job.subs[0]
    ready = ready_tasks(cycle.ledger, sub)
    roles: dict[int, int] = {}
    for number, minimum in job.counted_roles.items():
        missing = minimum - int(cycle.ledger.role_ready[number])
        if missing > 0:
            roles[number] = missing
    remaining = remaining_tasks(cycle, sub)
    wide = min(_spread(job) - ready, sum(p.left for p in remaining))
    need = max(job.minimum - ready, sum(roles.values()), wide)
    if len(remaining) == 1 and roles.keys() == {remaining[0].pod_set.role_number}:
        roles = {}  # whatever is placed is of that role
    return TaskGroup(sub, remaining, need, roles)


def remaining_tasks(cycle: Cycle, sub: SubJob) -> tuple[RemainingTasks, ...]:
    """The tasks of a sub-job that are not placed yet, in their order."""
    remaining = [
        RemainingTasks(pod_set, waiting) for pod_set in sub.pod_sets if (waiting := cycle.backlog.left(pod_set))
    ]
    if len(remaining) > 1:
        remaining.sort(key=lambda p: cycle.pipeline.task_key(p.pod_set))  # a stable sort keeps pod sets in rank order
    return tuple(remaining)


def _ordered(cycle: Cycle, job: Job) -> list[SubJob]:
    if len(job.subs) == 1:
        return list(job.subs)
    return sorted(job.subs, key=cycle.pipeline.sub_job_key)


class _Choice:
    """Selects sub-jobs until the counts say that the job would be ready."""

    def __init__(self, cycle: Cycle, job: Job, cheapest: int | None = None) -> None:
        """`cheapest` is a resource of which it is to ask for little: then this orders sub-jobs and their tasks."""
        self._cycle = cycle
        self._job = job
        self._cheapest = cheapest
        self._remaining_by_sub = {sub.number: self._by_cost(remaining_tasks(cycle, sub)) for sub in job.subs}
        self._left_by_sub = {
            number: sum(p.left for p in remaining) for number, remaining in self._remaining_by_sub.items()
        }
        self._ready_by_sub = {sub.number: ready_tasks(cycle.ledger, sub) for sub in job.subs}
        self._leaves = {sub.number: leaf for sub, leaf in zip(job.subs, job.shape.leaves, strict=True)}
        self._roles = {number: slot.at for number, slot in zip(job.counted_roles, job.shape.roles, strict=True)}
        self._left = [list(numbers) for numbers in lacking_of(cycle.ledger, job)]
        self._short = self._left[0]  # what the job itself lacks, with what is selected counted

    @property
    def _tasks_short(self) -> int:
        """How many tasks the job lacks in all."""
        return self._short[self._job.shape.leaves[0].tasks.at]

    def _by_cost(self, remaining: tuple[RemainingTasks, ...]) -> tuple[RemainingTasks, ...]:
        cheapest = self._cheapest
        if cheapest is None:
            return remaining
        return tuple(sorted(remaining, key=lambda p: int(p.pod_set.shape.request[cheapest])))

    def _in_order(self) -> list[SubJob]:
        ordered = _ordered(self._cycle, self._job)
        if self._cheapest is None:
            return ordered
        return sorted(ordered, key=self._cost)

    def _cost(self, sub: SubJob) -> int:
        """How much of the resource a sub-job asks for to be whole."""
        missing = self._missing(sub)
        requested = needs(Demand((self._task_group(sub, missing),))) if missing > 0 else None
        if requested is not None and self._cheapest is not None:
            return int(requested[self._cheapest])
        return 0

    def nested(self, number: int = 0) -> Demand:
        """The fewest parts that make an inner group of a nested job whole, those first that have begun."""
        groups = self._job.inner_groups
        open_subs = [s for s in self._in_order() if s.inner_group >= 0 and self._missing(s) > 0]
        place = {sub.number: i for i, sub in enumerate(open_subs)}
        parts: list[list[list[SubJob]]] = [[] for _ in groups]
        for sub in open_subs:
            parts[sub.inner_group].append([sub])
        chosen_subs: list[SubJob] | None = None
        inside = self._inside(number)
        for i in reversed(range(number, len(groups))):  # parts come after the groups that they are in
            begun_first = sorted(parts[i], key=lambda subs: (not self._begun(subs), place[subs[0].number]))
            need = self._left[i][0]
            chosen_subs = [sub for subs in begun_first[:need] for sub in subs] if len(begun_first) >= need > 0 else None
            if chosen_subs is not None and i != number:
                parts[groups[i].parent].append(chosen_subs)
        mine = {sub.number for sub in chosen_subs or ()}
        task_groups = []
        for s in open_subs:
            if s.inner_group in inside:
                task_groups.append((s, self._task_group(s, self._missing(s))))
        return Demand(
            tuple(task_group for sub, task_group in task_groups if sub.number in mine),
            tuple(task_group for sub, task_group in task_groups if sub.number not in mine),
            enough=chosen_subs is not None,
            inner_group=number,
        )

    def _inside(self, number: int) -> set[int]:
        """An inner group of a nested job and those in it; of another job -1, which its sub-jobs have for none."""
        groups = self._job.inner_groups
        inside = {number if self._job.shape.nested else -1}
        for i in range(number + 1, len(groups)):  # parts come after the groups that they are in
            if groups[i].parent in inside:
                inside.add(i)
        return inside

    def _begun(self, subs: list[SubJob]) -> bool:
        return any(self._cycle.ledger.placed_rows(sub) is not None for sub in subs)

    def demand(self) -> Demand:
        if self._job.shape.nested:
            return self.nested()
        ordered = self._in_order()
        open_subs = [s for s in ordered if self._ready_by_sub[s.number] < s.minimum and self._missing(s)]
        task_groups: dict[int, TaskGroup] = {}
        substitutes: list[TaskGroup] = []
        for sub in self._required_first(open_subs):
            task_group = self._task_group(sub, self._missing(sub))
            if self._ready():
                substitutes.append(task_group)
            else:
                task_groups[sub.number] = task_group
                self._add(task_group)
        if self._ready():
            substitutes += self._redundant(task_groups)
        alternatives, cut = self._alternatives(ordered, [*task_groups.values(), *substitutes])
        for sub in ordered:  # complete sub-jobs add tasks until the job's minimum is met
            number = 0 if self._ready() else self._more(sub, task_groups.get(sub.number))
            if number:
                before = task_groups.get(sub.number)
                if before is not None:
                    self._add(before, sign=-1)
                    number += before.need
                task_groups[sub.number] = self._task_group(sub, number)
                self._add(task_groups[sub.number])
        every = (*task_groups.values(), *substitutes)
        cut |= bool(self._roles) and len(every) > 1 and not all(group.firm() for group in every)  # in other roles
        return Demand(tuple(task_groups.values()), tuple(substitutes), self._ready(), alternatives, cut)

    def _redundant(self, task_groups: dict[int, TaskGroup]) -> list[TaskGroup]:
        """Remove task groups that the job does not need; they are tried again as surplus.

        Of the roles that such a group has, the others take more.
        """
        redundant = []
        for number in list(task_groups):
            task_group = task_groups[number]
            self._add(task_group, sign=-1)
            remade = self._roles and self._tasks_short <= 0 and not self._ready()
            same_roles = [group for group in task_groups.values() if group is not task_group] if remade else []
            self._add(*same_roles, sign=-1)
            anew = self._made([group.sub for group in same_roles], [group.need for group in same_roles])
            self._add(*anew)
            if self._ready():
                redundant.append(task_groups.pop(number))
                task_groups.update((group.sub.number, group) for group in anew)
            else:
                self._add(*anew, sign=-1)
                self._add(task_group, *same_roles)
        return redundant

    def _alternatives(self, ordered: list[SubJob], whole_groups: list[TaskGroup]) -> tuple[Demand | None, bool]:
        """All selections of whole sub-jobs and single surplus tasks, if there are few enough to try them all."""
        needs_by_sub = {task_group.sub.number: task_group.need for task_group in whole_groups}
        max_singles = self._cycle.budget.singles
        singles = []
        for sub in ordered:
            tasks = self._left_by_sub[sub.number]
            if sub.number in needs_by_sub or self._ready_by_sub[sub.number] >= sub.minimum:
                for _ in range(needs_by_sub.get(sub.number, 0), min(tasks, max_singles + 1)):
                    singles.append(TaskGroup(sub, self._remaining_by_sub[sub.number], 1, extra=True))
        if not singles or len(ordered) < 2:
            return None, False
        if len(singles) > max_singles:
            return None, True
        freest, *others_by_freedom = sorted((*whole_groups, *singles), key=self._freedom)
        return Demand((freest,), tuple(others_by_freedom), needs_substitutes=True), False

    def each(self, number: int = 0) -> Iterator[tuple[TaskGroup, ...]]:
        """Every selection of tasks that meets all minimums, or makes an inner group whole, and would not with fewer of
        a sub-job; of alike ones one. That there are more than are looked for is noted.
        """
        inside = self._inside(number)
        budget = self._cycle.budget
        subs = [s for s in self._in_order() if s.inner_group in inside and self._left_by_sub[s.number]]
        if len(subs) > budget.singles:
            self._cycle.report.search_counts.cut += 1
            return
        met = partial(self._met_by, number, subs)
        kinds = [self._kind(sub) for sub in subs]
        options = [self._numbers(sub) for sub in subs]
        alike = [max((j for j in range(i) if kinds[j] == kind), default=None) for i, kind in enumerate(kinds)]
        stack: list[tuple[int, ...]] = [()]
        steps = budget.questions
        while stack and steps:
            steps -= 1
            numbers = stack.pop()
            largest_numbers = list(numbers)
            for i in range(len(numbers), len(subs)):
                before = alike[i]
                largest_numbers.append(max(options[i]) if before is None else largest_numbers[before])
            if not met(largest_numbers):
                continue
            if not met(numbers):
                i = len(numbers)
                stack += [(*numbers, number) for number in reversed(options[i]) if number <= largest_numbers[i]]
            elif not any(map(met, _fewer(options, numbers))):
                task_groups = self._made(subs, numbers)
                self._add(*task_groups)
                ready = self._ready() or self._job.shape.nested
                self._add(*task_groups, sign=-1)
                if ready:
                    yield task_groups
                else:  # not every way to share out several roles is looked at
                    self._cycle.report.search_counts.cut += 1
        self._cycle.report.search_counts.cut += bool(stack)

    def _kind(self, sub: SubJob) -> tuple[object, ...]:
        """A key that is equal for sub-jobs which may replace each other."""
        own_number = sub.number if self._cycle.ledger.placed_rows(sub) is not None else -1
        left_by_shape = tuple(
            (p.pod_set.shape.number, p.pod_set.role_number, p.left) for p in self._remaining_by_sub[sub.number]
        )
        ready = self._ready_by_sub[sub.number]
        return own_number, sub.policy, sub.inner_group, sub.minimum, ready, sub.constraint, sub.further, left_by_shape

    def _numbers(self, sub: SubJob) -> tuple[int, ...]:
        """How many more tasks of a sub-job may count, none last: those that make it whole, and more of a whole one."""
        missing = sub.minimum - self._ready_by_sub[sub.number]
        waiting = self._left_by_sub[sub.number]
        if self._job.shape.nested:
            return (missing, 0) if 0 < missing <= waiting else (0,)
        short = sum(max(self._short[at], 0) for at in self._roles.values())
        useful = min(waiting, max(missing, self._tasks_short, short))
        return (*range(max(missing, 1), useful + 1), 0)

    def _met_by(self, inner_group: int, subs: Sequence[SubJob], numbers: Sequence[int]) -> bool:
        """Whether all minimums are met with so many more tasks of the first of these sub-jobs; each role by itself."""
        added = {sub.number: number for sub, number in zip(subs, numbers, strict=False)}
        roles = {role: self._job.roles[role] - self._short[at] for role, at in self._roles.items()}
        ready = [number + added.get(sub, 0) for sub, number in self._ready_by_sub.items()]
        for sub, number in zip(subs, numbers, strict=False):
            of_role = by_role(self._remaining_by_sub[sub.number])
            for role in self._roles:
                roles[role] += min(of_role[role], number)
        lacking_by_group = lacking(self._job.shape, ready, list(roles.values()))
        if self._job.shape.nested:
            return lacking_by_group[inner_group][0] <= 0
        return max(lacking_by_group[0]) <= 0

    def _made(self, subs: Sequence[SubJob], numbers: Sequence[int]) -> tuple[TaskGroup, ...]:
        """Task groups of so many tasks of sub-jobs, with the roles that those before them leave open."""
        task_groups: list[TaskGroup] = []
        for sub, number in zip(subs, numbers, strict=False):
            if number:
                task_groups.append(self._task_group(sub, number))
                self._add(task_groups[-1])
        self._add(*task_groups, sign=-1)
        return tuple(task_groups)

    def _freedom(self, task_group: TaskGroup) -> float:
        """Sort key: task groups with the widest limit last, because they fit where the others cannot."""
        limit = self._cycle.pipeline.limit(task_group.sub)
        return float("inf") if limit is None else limit

    def _missing(self, sub: SubJob) -> int:
        """How many tasks a sub-job lacks; 0 if it has too few tasks to ever reach its minimum."""
        missing = sub.minimum - self._ready_by_sub[sub.number]
        if self._left_by_sub[sub.number] >= missing:
            return missing
        return 0

    def _required_first(self, open_subs: list[SubJob]) -> list[SubJob]:
        """First the sub-jobs that bring each policy up to its minimum number of complete sub-jobs, then the others."""
        short = list(self._short)
        required = []
        optional = []
        for sub in open_subs:
            slot = self._leaves[sub.number].whole
            if slot is not None and short[slot.at] > 0:
                short[slot.at] -= 1
                required.append(sub)
            else:
                optional.append(sub)
        return required + optional

    def _more(self, sub: SubJob, task_group: TaskGroup | None) -> int:
        already_taken = task_group.need if task_group is not None else 0
        if self._ready_by_sub[sub.number] < sub.minimum:
            return 0
        remaining = self._remaining_by_sub[sub.number]
        numbers = task_group.counts() if task_group is not None else [0] * len(remaining)
        left_over = by_role(remaining)
        for tasks_left, number in zip(remaining, numbers, strict=True):
            left_over[tasks_left.pod_set.role_number] -= number
        short_of_roles = sum(min(left_over[n], max(self._short[at], 0)) for n, at in self._roles.items())
        waiting = self._left_by_sub[sub.number] - already_taken
        return max(0, min(waiting, max(self._tasks_short, short_of_roles)))

    def _task_group(self, sub: SubJob, need: int) -> TaskGroup:
        """A task group of `need` tasks of a sub-job, first those of roles that the job is short of."""
        remaining = self._remaining_by_sub[sub.number]
        roles = {}
        still_needed = need
        able = by_role(remaining)
        for number, at in self._roles.items():
            number_of_role = min(able[number], still_needed, max(self._short[at], 0))
            if number_of_role:
                roles[number] = number_of_role
                still_needed -= number_of_role
        return TaskGroup(sub, remaining, need, roles)

    def _ready(self) -> bool:
        return max(self._short) <= 0

    def _add(self, *task_groups: TaskGroup, sign: int = 1) -> None:
        """Count task groups as placed; with sign -1, undo that."""
        for task_group in task_groups:
            leaf = self._leaves[task_group.sub.number]
            before = self._ready_by_sub[task_group.sub.number]
            after = before + sign * task_group.need
            self._ready_by_sub[task_group.sub.number] = after
            self._short[leaf.tasks.at] -= sign * task_group.need
            if leaf.whole is not None and not leaf.whole.group:
                self._short[leaf.whole.at] -= int(after >= leaf.size) - int(before >= leaf.size)
            for pod_set, number in task_group.taken() if self._roles else ():
                at = self._roles.get(pod_set.role_number)
                if at is not None:
                    self._short[at] -= sign * number


def _fewer(options: Sequence[Sequence[int]], numbers: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Copies of these numbers, each with one number replaced by its next smaller option."""
    for i, number in enumerate(numbers):
        if number:
            yield (*numbers[:i], max(n for n in options[i] if n < number), *numbers[i + 1 :])
