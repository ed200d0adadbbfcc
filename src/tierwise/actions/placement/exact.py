"""Find a place for what a gang lacks by an integer program, or prove that there is none.

Called by `solve` where the searches before it end without a proof: rules between pods, tasks of several shapes, limits
on several trees. The program (`program`) knows the rules as records. What it finds is written task by task, and every
filter is asked again, so a yes is never taken on trust; a no is a proof, because the records ask for no more than what
filters ask for in the end. Filters that state no records are left out of the program: it is then more generous than
they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice, permutations

import msgspec
import numpy as np

from tierwise.actions.placement.bounds import gradients_of
from tierwise.actions.placement.demand import Demand, RemainingTasks, TaskGroup, demand, remaining_tasks
from tierwise.actions.placement.limits import STATED, Limits, Tiers
from tierwise.actions.placement.problem import (
    NoPlace,
    Placement,
    SearchResult,
    found_on,
    joined,
    place_tasks,
    usable,
)
from tierwise.actions.placement.program import (
    Dealt,
    No,
    Program,
    Question,
    Scope,
    TooLargeError,
    Unit,
    Wanted,
)
from tierwise.actions.placement.slots import Gathering, gathering_of, in_common
from tierwise.framework.cycle import Cycle
from tierwise.framework.extension import Ask
from tierwise.framework.ledger import Pool, job_ready, lacking_of, ready_tasks
from tierwise.framework.placer import score_keys
from tierwise.framework.pod_rules import Even, Near, PodRules, WrittenRule, together
from tierwise.framework.pod_rules import joined as joined_rules
from tierwise.model.arrays import EMPTY, Bools, Ints, distinct
from tierwise.model.gang import around
from tierwise.model.job import Constraint, Job, PodSet, Shape, SubJob
from tierwise.model.snapshot import Ground
from tierwise.model.topology import ROOT

__all__ = [
    "LimitOf",
    "Wish",
    "obstacles",
    "part_name",
    "place_exactly",
    "refuted",
    "relaxed_question",
    "statable",
    "that_must_stay",
]

_BUILT = 4
"""Variables and entries of a program that are stated, and made simpler by the solver, in one step of the account."""

_SOLVED = 8
"""The same for a round of solving it."""

_PROBED = 8192
"""The same for trying each variable at its bounds, of the square of their number."""

_ASKED = 150
"""Steps that the smallest program takes."""


def place_exactly(
    cycle: Cycle,
    job: Job,
    demand: Demand,
    within: int,
    pools: tuple[Pool, ...],
    shared: Ints | None = None,
    tiers: Tiers = STATED,
    gathering: Gathering | None = None,
) -> SearchResult | NoPlace:
    """A place for a demand below a domain, written to the ledger; on several trees within the limits at some tiers.

    All of it stays in one of the `shared` places, by row, where there are any. Not all of it may have to, so that a no
    is no proof then. A gang that is gathered goes where the `gathering` lets it.
    """
    try:
        stated = _Stated(cycle, job, demand, within, shared=shared, tiers=tiers, gathering=gathering)
    except _NowhereError:
        return NoPlace.PROVEN
    proven = False
    for pool in usable(cycle, pools):
        for firm in (True, False):
            try:
                program = _built(cycle, stated.question(pool, stated.by_score(pool), firm=firm), firm=firm)
            except TooLargeError:
                return NoPlace.BOUNDED
            dealt = _solved(cycle, program)
            if isinstance(dealt, list):
                placements = cycle.ledger.attempt(stated.write, dealt, pool)
                if placements is not None:
                    return found_on(cycle, placements)
            loose = firm and (program.loose or stated.loose)
            proven = dealt is No.PROVEN and not loose
            if not loose:
                break
    return NoPlace.of(bounded=not proven or shared is not None)


_Tasks = tuple[Ask, PodSet, int, int]
"""Tasks of one pod set, their row, and how many they are."""


def statable(cycle: Cycle, job: Job) -> Demand | None:
    """The demand of a job, or None if it is not all that the job needs."""
    job_demand = demand(cycle, job)
    return job_demand if job_demand.task_groups and job_demand.enough else None


def refuted(cycle: Cycle, job: Job, demand: Demand, *, alone: bool = False, within: int = ROOT) -> bool:
    """Whether it is proven that a demand has no place now; `alone`: nor has, whichever other pods come and go.

    Nodes are then cleared of all others beforehand. False where the program is too large, or ends at its bound.
    """
    question = relaxed_question(cycle, job, demand, alone=alone, within=within)
    if question is None:
        return True
    try:
        program = _built(cycle, question, firm=False)
    except TooLargeError:
        return False
    return _solved(cycle, program) is No.PROVEN


def relaxed_question(
    cycle: Cycle, job: Job, demand: Demand, *, alone: bool = False, within: int = ROOT
) -> Question | None:
    """Whether a demand has a place, without what filters tell no records of; None: tasks that stand leave it none."""
    try:
        stated = _Stated(cycle, job, demand, within, alone=alone)
    except _NowhereError:
        return None
    return stated.question(Pool.FUTURE_IDLE, np.arange(len(cycle.nodes)), firm=False)


def that_must_stay(
    cycle: Cycle, job: Job, demand: Demand, within: int, gone: Sequence[tuple[Shape, int]]
) -> Bools | None:
    """Of tasks that were taken off the ledger, by shape and row, those that a demand needs to stand where they were.

    As few of them as possible. None where nobody else has a say in the rules of the gang, or no choice makes room.
    """
    try:
        stated = _Stated(cycle, job, demand, within, beside=gone)
    except _NowhereError:
        return None
    if not stated.needs_others:
        return None
    for firm in (True, False):
        try:
            program = _built(
                cycle, stated.question(Pool.FUTURE_IDLE, stated.by_score(Pool.FUTURE_IDLE), firm=firm), firm=firm
            )
        except TooLargeError:
            return None
        dealt = _solved(cycle, program)
        if isinstance(dealt, list):
            return stated.staying(dealt)
    return None


def _built(cycle: Cycle, question: Question, *, firm: bool) -> Program:
    """The program of a question, no larger than there are steps left for; charged whether or not it is too large.

    Raises TooLargeError, and OutOfStepsError.
    """
    try:
        program = Program(question, firm=firm, max_entries=cycle.budget.program, size=_BUILT * (cycle.steps.left + 1))
    except TooLargeError as error:
        cycle.steps.charge(_ASKED + error.size // _BUILT)
        raise
    cycle.steps.charge(_ASKED + program.size // _BUILT)
    return program


def _solved(cycle: Cycle, program: Program) -> Dealt | No:
    """The answer to a program, in no more rounds than there are steps left for. Raises OutOfStepsError."""
    if program.probed:
        cycle.steps.charge(program.size**2 // _PROBED)
    steps_per_round = 1 + program.size // _SOLVED
    dealt = program.solve(cycle.budget.nodes, cycle.steps.left // steps_per_round + 1)
    cycle.steps.charge(program.rounds * steps_per_round)
    return dealt


class LimitOf(msgspec.Struct, frozen=True):
    """The limits of a gang, or of one kind of parts of it, on topology trees."""

    part: str  # the sub-groups, or the inner group, that have it; "" for the gang
    constraints: tuple[Constraint, ...]


Wish = WrittenRule | LimitOf | Wanted
"""Something that is asked of a gang, which can be left out: a rule between pods, a limit, the minimum of a role."""

_WISHES = 12
"""So many are left out at most, one after the other."""


def obstacles(cycle: Cycle, job: Job, demand: Demand, *, alone: bool = False) -> list[tuple[Wish, ...]]:
    """What could be left out so that a demand would have a place: each wish that is enough by itself, else all of them.

    Empty where that cannot be said: filters without records have a say, the program is too large, or room is short.
    """
    try:
        stated = _Stated(cycle, job, demand, ROOT, alone=alone)
    except _NowhereError:
        return []
    wishes = list(islice(stated.wishes(), _WISHES))
    if stated.loose or not wishes or stated.fits(()):
        return []
    enough: list[tuple[Wish, ...]] = [(wish,) for wish in wishes if stated.fits((wish,))]
    if not enough and len(wishes) > 1 and stated.fits(wishes):
        enough.append(tuple(wishes))
    return enough


def _widest_gathering(cycle: Cycle, job: Job, demand: Demand) -> Gathering | None:
    """What any option to gather a job asks for; None for a job that is not gathered."""
    options = cycle.pipeline.gather_options(job, demand.need)
    if not options:
        return None
    return gathering_of(cycle, job, demand.task_groups[0], in_common(options))


class _NowhereError(Exception):
    """Tasks that stand already leave no place."""


def _limit_of(job: Job, gang: Job | SubJob, number: int) -> LimitOf | None:
    constraints = tuple(c for c in (gang.constraint, *gang.further) if c is not None and c.hard)
    if not constraints:
        return None
    if isinstance(gang, SubJob):
        return LimitOf(part_name(job, gang), constraints)
    return LimitOf(job.inner_groups[number].path if number else "", constraints)


def part_name(job: Job, sub: SubJob) -> str:
    """The name that a sub-group shares with those that are declared with it; "" for one that has none."""
    return (*(policy.name for policy in job.policies), sub.path)[sub.policy]


class _Units(msgspec.Struct, frozen=True, eq=False):
    """Alike units, with the tasks that each of them has left."""

    remaining: tuple[tuple[RemainingTasks, ...], ...]
    subs: tuple[SubJob, ...]


class _Stated:
    """The demand of a gang as a question for the program."""

    def __init__(
        self,
        cycle: Cycle,
        job: Job,
        demand: Demand,
        within: int,
        *,
        alone: bool = False,
        shared: Ints | None = None,
        beside: Sequence[tuple[Shape, int]] = (),
        tiers: Tiers = STATED,
        gathering: Gathering | None = None,
    ) -> None:
        """`beside` are tasks of others by shape and row, which may stand there as well. Raises _NowhereError."""
        self._cycle = cycle
        self._job = job
        self._asked = demand
        self._within = within
        self._gathering = gathering or _widest_gathering(cycle, job, demand)
        self._limits = Limits(cycle, job, tiers) if cycle.snapshot.ground(job) is Ground.TREES else None
        self._scopes: list[Scope] = []
        self._limit_of: list[LimitOf | None] = []  # by scope, what of it was asked for
        self._units: list[Unit] = []
        self._members: list[_Units] = []
        self._wanted: list[Wanted] = []
        self._parts = 0
        self._shapes: dict[Shape, int] = {}
        self._by_limit: dict[object, Ints] = {}
        self._groups: dict[int, int] = {}  # the scope of each inner group
        self._minimum = demand.inner_group == 0 and not job_ready(cycle.ledger, job)
        self._state()
        number_of_own = len(self._units)
        self._beside: dict[tuple[int, int], list[int]] = {}  # by shape and row, which of them
        self._add_beside(beside)
        shapes = tuple(self._shapes)
        self._rules = cycle.pipeline.pod_rules(shapes) if any(map(cycle.pipeline.moving, shapes)) else PodRules()
        if shared is not None:
            self._rules = joined_rules((self._rules, together(frozenset(s.number for s in shapes), shared)))
        if alone:
            self._rules = self._rules.whatever_comes()
        self.loose = bool(self._rules.unstated)
        self._of_gang = number_of_own

    # What is asked.

    def _state(self) -> None:
        job = self._job
        demand = self._asked
        top = -1
        if self._gathering is not None:
            self._scopes.append(Scope(top, self._gathering.homes))
            self._limit_of.append(_limit_of(job, job, 0))
            top = 0
        for number in self._groups_around() if self._gathering is None else ():
            top = self._scope(job.group(number), top, number)
        subs = [task_group.sub.number for task_group in demand.task_groups]
        self._several = bool(demand.substitutes) or demand.alternatives is not None or demand.cut
        self._several |= len(subs) > len({*subs})
        if demand.narrowed or not self._several:
            for task_group in demand.task_groups:
                self._add_group(task_group, top)
        elif job.inner_groups:
            self._nested(top)
        else:
            self._levels(top)
        self._merge()

    def _groups_around(self) -> list[int]:
        """The group that is asked for, behind those around it: on one tree the domain stands for these."""
        number = self._asked.inner_group
        if self._limits is None or not number:
            return [number]
        return [*reversed([*around(self._job.shape, number)])]

    def _add_beside(self, beside: Sequence[tuple[Shape, int]]) -> None:
        """A unit for alike tasks of others on one row, none of which is needed."""
        for i, (shape, row) in enumerate(beside):
            self._beside.setdefault((self._shapes.setdefault(shape, len(self._shapes)), row), []).append(i)
        for (number, row), tasks in self._beside.items():
            place = np.full(len(self._cycle.nodes), -1, dtype=np.int64)
            place[row] = 0
            self._scopes.append(Scope(-1, place))
            self._limit_of.append(None)
            self._units.append(Unit(len(self._scopes) - 1, ((number, -1, 1),), 1, 1, needed=False, copies=len(tasks)))

    @property
    def needs_others(self) -> bool:
        """Whether pods of others may help the gang by standing where they do."""
        some_look = any(rows.any() for rows in self._rules.lonely.values())
        return some_look or any(isinstance(rule, Near | Even) for rule in self._rules.records)

    def staying(self, dealt: Dealt) -> Bools:
        """Which of the tasks of others stand where they did, in what was dealt."""
        stays = np.zeros(sum(map(len, self._beside.values())), dtype=bool)
        for tasks, copies in zip(self._beside.values(), dealt[self._of_gang :], strict=True):
            stays[tasks[: len(copies)]] = True
        return stays

    def _add_group(self, task_group: TaskGroup, top: int) -> None:
        """All that is asked for of a task group."""
        remaining = task_group.remaining
        if self._asked.narrowed:
            remaining = tuple(RemainingTasks(pod_set, number) for pod_set, number in task_group.taken())
        unit = self._unit(task_group.sub, remaining, self._around(task_group.sub, top), task_group.need)
        for role, minimum in task_group.roles.items():
            self._wanted.append(Wanted(minimum, units=(unit,), tasks=True, role=role))

    def _levels(self, top: int) -> None:
        """The minimum of a job with sub-groups, whichever of these and of their tasks meet it."""
        cycle = self._cycle
        job = self._job
        left_of_gang = lacking_of(cycle.ledger, job)[0]
        becoming_whole: dict[int, list[int]] = {}  # by number that the gang needs
        every = []
        for sub, leaf in zip(job.subs, job.shape.leaves, strict=True):
            remaining = remaining_tasks(cycle, sub)
            missing = sub.minimum - ready_tasks(cycle.ledger, sub)
            waiting = sum(tasks_left.left for tasks_left in remaining)
            if waiting < max(missing, 1):
                continue
            unit = self._unit(sub, remaining, self._around(sub, top), max(missing, 0), waiting, needed=missing <= 0)
            every.append(unit)
            if missing > 0 and leaf.whole is not None:
                becoming_whole.setdefault(leaf.whole.at, []).append(unit)
        roles = {slot.at: role for role, slot in zip(job.counted_roles, job.shape.roles, strict=True)}
        for at, lacks in enumerate(left_of_gang):
            role = roles.get(at, -1)
            if at == 0:
                self._wanted.append(Wanted(lacks, units=tuple(every), tasks=True))
            elif lacks > 0 and role >= 0:
                self._wanted.append(Wanted(lacks, units=tuple(every), tasks=True, role=role))
            elif lacks > 0:
                self._wanted.append(Wanted(lacks, units=tuple(becoming_whole.get(at, ()))))

    def _nested(self, top: int) -> None:
        """The parts that a nested job, or an inner group of it, lacks, whichever they are."""
        cycle = self._cycle
        job = self._job
        number = self._asked.inner_group
        lacking = [numbers[0] for numbers in lacking_of(cycle.ledger, job)]
        scopes = {number: top}
        parts = {number: -1}
        inside: dict[int, tuple[list[int], list[int]]] = {number: ([], [])}
        for i in range(number + 1, len(job.inner_groups)):
            parent = job.inner_groups[i].parent
            if parent in inside and lacking[i] > 0:
                parts[i] = self._parts
                self._parts += 1
                scopes[i] = self._scope(job.group(i), scopes[parent], i, part=parts[i])
                inside[i] = [], []
                inside[parent][1].append(parts[i])
        for sub in job.subs:
            missing = sub.minimum - ready_tasks(cycle.ledger, sub)
            remaining = remaining_tasks(cycle, sub)
            waiting = sum(tasks_left.left for tasks_left in remaining)
            if sub.inner_group in inside and 0 < missing <= waiting:
                scope = self._scope(sub, scopes[sub.inner_group])
                upper_bound = waiting if self._scopes[scope].spreads else missing
                unit = self._unit(sub, remaining, scope, missing, upper_bound, needed=False)
                inside[sub.inner_group][0].append(unit)
        for i, (units, groups) in inside.items():
            self._wanted.append(Wanted(lacking[i], units=tuple(units), parts=tuple(groups), inside=parts[i]))

    def _unit(
        self,
        sub: SubJob,
        remaining: tuple[RemainingTasks, ...],
        scope: int,
        min_tasks: int,
        max_tasks: int | None = None,
        *,
        needed: bool = True,
    ) -> int:
        entries = tuple(
            (
                self._shapes.setdefault(tasks_left.pod_set.shape, len(self._shapes)),
                tasks_left.pod_set.role_number,
                tasks_left.left,
            )
            for tasks_left in remaining
        )
        self._units.append(Unit(scope, entries, min_tasks, min_tasks if max_tasks is None else max_tasks, needed))
        self._members.append(_Units((remaining,), (sub,)))
        return len(self._units) - 1

    # Where it may be.

    def _around(self, sub: SubJob, top: int) -> int:
        """The scope of a sub-job, inside those of the groups around it."""
        if not self._job.shape.parted:
            return top
        scope = top
        groups = list[int]()
        number = sub.inner_group
        while number > self._asked.inner_group:
            groups.append(number)
            number = self._job.inner_groups[number].parent
        for group in reversed(groups):
            if group not in self._groups:
                self._groups[group] = self._scope(self._job.group(group), scope, group)
            scope = self._groups[group]
        return self._scope(sub, scope)

    def _scope(self, gang: Job | SubJob, parent: int, number: int = 0, *, part: int = -1) -> int:
        """The scope of a gang, or of an inner group by number; the one around it where it asks for nothing itself."""
        place, spreads = (self._on_tree(gang), ()) if self._limits is None else self._on_trees(gang, number)
        if place is None and not spreads and parent >= 0:
            return parent
        self._scopes.append(Scope(parent, place, spreads, part))
        self._limit_of.append(_limit_of(self._job, gang, number))
        return len(self._scopes) - 1

    def _on_tree(self, gang: Job | SubJob) -> Ints | None:
        """By row the widest domain that a gang may use, -1 for none."""
        topology = self._cycle.topology
        rows = len(self._cycle.nodes)
        every = np.concatenate([*gradients_of(self._cycle, gang, self._within), EMPTY])
        widest = every[~np.isin(topology.parent[every], every)]
        place = np.full(rows, -1, dtype=np.int64)
        for domain in widest.tolist():
            place[topology.span(domain)] = domain
        if len(widest) == 1 and (place >= 0).all():
            return None
        return self._by_limit.setdefault(widest.tobytes(), place)

    def _on_trees(self, gang: Job | SubJob, number: int) -> tuple[Ints | None, tuple[tuple[Ints, int], ...]]:
        """Place and spreads of a gang with limits on several trees.

        The place is a number by row, -1 where the limits exclude the row, or None without a limit; a spread is a domain
        by row, with how many domains are still missing.
        """
        assert self._limits is not None, "whoever asks knows"
        limits = self._limits.of(gang, number)
        placed_rows = self._limits.rows(gang)
        places: list[Ints] = []
        spreads: list[tuple[Ints, int]] = []
        for limit in limits:
            held_domains = distinct(limit.domain_of_row[placed_rows])
            held_domains = held_domains[held_domains >= 0] if limit.spread else held_domains
            if limit.spread:
                fresh = np.where(np.isin(limit.domain_of_row, held_domains), -1, limit.domain_of_row)
                spreads.append((fresh, limit.spread - len(held_domains)))
            elif len(held_domains) > 1 or (len(held_domains) and held_domains[0] < 0):
                raise _NowhereError
            else:
                domain_of_row = limit.domain_of_row
                places.append(
                    np.where(domain_of_row == held_domains[0], domain_of_row, -1)
                    if len(held_domains)
                    else domain_of_row
                )
        if not places:
            return None, tuple(spreads)
        key = None if len(placed_rows) else tuple(id(limit) for limit in limits if not limit.spread)
        place = self._by_limit.get(key)
        if place is None:
            stacked = np.stack(places)
            place = np.unique(stacked, axis=1, return_inverse=True)[1].ravel().astype(np.int64)
            place[(stacked < 0).any(axis=0)] = -1
            if key is not None:
                self._by_limit[key] = place
        return place, tuple(spreads)

    def _merge(self) -> None:
        """Units that are alike, and nothing else tells apart, are counted instead of told."""
        kinds: dict[object, list[int]] = {}
        shared = Counter(scope for unit in self._units for scope in (unit.scope,))
        outer = {scope.parent for scope in self._scopes}
        units_of_wishes = [set(wish.units) for wish in self._wanted]
        for u, unit in enumerate(self._units):
            scope = self._scopes[unit.scope]
            sub = self._members[u].subs[0]
            has_own_scope = shared[unit.scope] == 1 and unit.scope not in outer and unit.scope > 0
            firm = len(unit.left) == 1 or unit.least == unit.most == sum(number for _, _, number in unit.left)
            kind: object = u
            if firm and not scope.spreads and self._cycle.ledger.placed_rows(sub) is None:
                place = (scope.parent, id(scope.place)) if has_own_scope else (unit.scope, 0)
                wishes = tuple(u in units for units in units_of_wishes)
                kind = (has_own_scope, place, unit.left, unit.least, unit.most, unit.needed, wishes)
            kinds.setdefault(kind, []).append(u)
        if len(kinds) == len(self._units):
            return
        numbers: dict[int, int] = {}
        units: list[Unit] = []
        members: list[_Units] = []
        for alike_units in kinds.values():
            numbers.update(dict.fromkeys(alike_units, len(units)))
            example = self._units[alike_units[0]]
            own_scope = example.scope
            several = len(alike_units) > 1 and shared[own_scope] > 1
            if several:  # a unit that has a place to itself would have one for each copy
                self._scopes.append(Scope(own_scope))
                self._limit_of.append(None)
                own_scope = len(self._scopes) - 1
            units.append(Unit(own_scope, example.left, example.least, example.most, example.needed, len(alike_units)))
            remaining = tuple(self._members[u].remaining[0] for u in alike_units)
            members.append(_Units(remaining, tuple(self._members[u].subs[0] for u in alike_units)))
        self._wanted = [
            msgspec.structs.replace(wish, units=tuple(dict.fromkeys(numbers[u] for u in wish.units)))
            for wish in self._wanted
        ]
        self._units = units
        self._members = members

    # What rows have.

    def wishes(self) -> Iterator[Wish]:
        """Rules that can be left out: those between pods first, then limits, then roles."""
        yield from self._rules.written()
        yield from dict.fromkeys(limit for limit in self._limit_of if limit is not None)
        yield from (wish for wish in self._wanted if wish.of_one_role)

    def fits(self, left_out: Sequence[Wish]) -> bool:
        """Whether all tasks surely have a place on what is idle, or will be, if some wishes are left out."""
        question = self.question(Pool.FUTURE_IDLE, np.arange(len(self._cycle.nodes)), firm=True, left_out=left_out)
        try:
            program = _built(self._cycle, question, firm=True)
        except TooLargeError:
            return False
        return isinstance(_solved(self._cycle, program), list)

    def question(self, pool: Pool, order: Ints, *, firm: bool, left_out: Sequence[Wish] = ()) -> Question:
        """The question on a pool, with a rank for each row.

        `firm` leaves out the rows that filters without records keep from a shape now.
        """
        cycle = self._cycle
        shapes = tuple(self._shapes)
        rules = self._rules.without(left_out) if left_out else self._rules
        scopes = (
            Scope(scope.parent, part=scope.part) if limit in left_out else scope
            for scope, limit in zip(self._scopes, self._limit_of, strict=True)
        )
        resources = distinct(np.concatenate([shape.asked for shape in shapes]))
        room = np.stack([cycle.fit_counts.of(shape).rows(pool) for shape in shapes])
        span = cycle.topology.span(self._within)
        room[:, : span.start] = 0
        room[:, span.stop :] = 0
        for i, shape in enumerate(shapes):
            for closed in (rules.closed.get(shape.number), rules.lonely.get(shape.number)):
                if closed is not None:
                    room[i, closed] = 0
            for (number, row), tasks in self._beside.items():
                if number == i:
                    room[i, row] = len(tasks)  # they stand there, whatever filters say
            if firm and shape.number in rules.unstated:
                room[i, cycle.pipeline.why_not_now(shape, slice(0, len(cycle.nodes))) != 0] = 0
        return Question(
            numbers=tuple(shape.number for shape in shapes),
            requests=np.stack([shape.request[resources] for shape in shapes]),
            free=cycle.ledger.free(resources, slice(0, len(cycle.nodes)), pool),
            room=room,
            order=order,
            scopes=tuple(scopes),
            units=tuple(self._units),
            wanted=tuple(wish for wish in self._wanted if wish not in left_out),
            parts=self._parts,
            records=rules.records,
            multiples=self._gathering.multiples if self._gathering is not None else (),
        )

    def by_score(self, pool: Pool) -> Ints:
        """A rank for each row, by score and then by name."""
        cycle = self._cycle
        first_member = self._members[0]
        ask = Ask(first_member.remaining[0][0].pod_set.shape, first_member.subs[0], self._job)
        able = cycle.fit_counts.of(ask.shape).rows(pool) > 0
        keys = score_keys(cycle, ask, slice(0, len(able)), able)
        order = np.empty(len(keys), dtype=np.int64)
        order[np.lexsort((cycle.nodes.rank, -keys))] = np.arange(len(keys))
        return order

    # A yes, on the ledger.

    def write(self, dealt: Dealt, pool: Pool) -> list[Placement] | None:
        """All tasks where they are dealt; None where filters let them in in none of the orders that are tried."""
        tasks: list[_Tasks] = []
        for members, copies in zip(self._members, dealt, strict=True):
            for remaining, sub, rows in zip(members.remaining, members.subs, copies, strict=False):
                for tasks_left, dealt_rows in zip(remaining, rows, strict=True):
                    ask = Ask(tasks_left.pod_set.shape, sub, self._job)
                    distinct_rows, counts = np.unique(dealt_rows, return_counts=True)
                    tasks_by_row = zip(distinct_rows.tolist(), counts.tolist(), strict=True)
                    tasks += [(ask, tasks_left.pod_set, row, number) for row, number in tasks_by_row]
        for order in self._orders(tasks):
            placements = self._cycle.ledger.attempt(self._write, order, pool)
            if placements is not None:
                return placements
        return None

    def _orders(self, tasks: list[_Tasks]) -> Iterator[list[_Tasks]]:
        """Orders of the tasks in which to place them, one shape after the other.

        Rules between pods may let a task in only after another one, so tasks that look for others come behind these.
        """
        if not self._rules.records:
            yield tasks
            return
        met: dict[tuple[int, int], bool] = {}  # by shape and row
        for rule in self._rules.records:
            if isinstance(rule, Near) and rule.found:
                by = {int(rule.places[row]) for ask, _, row, _ in tasks if ask.shape.number in rule.by}
                for ask, _, row, _ in tasks:
                    if ask.shape.number in rule.shapes:
                        met[ask.shape.number, row] = int(rule.places[row]) in by
        shapes = dict.fromkeys(ask.shape.number for ask, *_ in tasks)
        for ahead in islice(permutations(shapes), self._cycle.budget.shape_orders):
            rank = {number: i for i, number in enumerate(ahead)}
            yield sorted(tasks, key=lambda t: (rank[t[0].shape.number], met.get((t[0].shape.number, t[2]), False)))

    def _write(self, tasks_left: list[_Tasks], pool: Pool) -> list[Placement] | None:
        """Task by task, whichever fits next: where all of them can stand in the end, one that fits is a part of it."""
        pools = (Pool.IDLE,) if pool is Pool.IDLE else (Pool.IDLE, Pool.FUTURE_IDLE)
        placements: list[Placement] = []
        while tasks_left:
            waiting = []
            for ask, pod_set, row, number in tasks_left:
                placed = self._fill(ask, pod_set, row, number, pools, placements)
                if placed < number:
                    waiting.append((ask, pod_set, row, number - placed))
            if waiting == tasks_left:
                return None
            tasks_left = waiting
        if self._minimum and self._several and not job_ready(self._cycle.ledger, self._job, waiting=True):
            return None
        return joined(placements)

    def _fill(
        self, ask: Ask, pod_set: PodSet, row: int, number: int, pools: tuple[Pool, ...], placements: list[Placement]
    ) -> int:
        """Place up to so many tasks on a row: how many fit."""
        cycle = self._cycle
        placed = 0
        moving = cycle.pipeline.moving(ask.shape)
        for pool in pools:
            while placed < number:
                if moving:
                    many = int(cycle.fits(ask, slice(row, row + 1), pool)[0])
                else:
                    many = min(number - placed, int(cycle.fit_counts.of(ask.shape).rows(pool)[row]))
                if not many:
                    break
                picks = np.array([row]), np.array([many])
                placements.append(place_tasks(cycle, ask, pod_set, picks, pool))
                placed += many
        return placed
