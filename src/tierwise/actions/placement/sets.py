"""Where a gang may stand as the other parts of its sets stand.

A rule of a set says that its parts stay together, or apart. For one gang, at the moment when it is served, that is a
mask of rows: the domains that hold as many other parts as they may are closed to it, or all but the one in which its
set runs. `Cycle.attempt` closes these rows while it serves the gang, so every search and every count minds them.

Terms of pods are read as wishes, too: where all waiting pods of a gang with a constraint carry a preferred term
against pods of other gangs, domains with the fewest of these gangs come first; where they carry affinity, the first of
the gangs goes where all that wait find a place. The filters stay the judges of required terms.

A part stands in each domain of a tier in which a pod of it runs, is nominated or is leaving. Rows outside every domain
of the tier are closed to a gang with a hard rule.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property

import msgspec
import numpy as np
from msgspec.structs import replace

from tierwise.actions.placement.demand import Demand, demand
from tierwise.actions.placement.limits import domain_of_rows
from tierwise.actions.placement.problem import NoPlace, SearchResult, rows_of
from tierwise.api.core import LabelSelector, Requirement
from tierwise.api.koordinator import GROUPS
from tierwise.api.plurals import count, verb
from tierwise.api.selector import matches
from tierwise.api.sets import PARTS, SELECTIONS, SET_START, WHOLE, percent
from tierwise.framework.cycle import Cycle
from tierwise.framework.ledger import Pool
from tierwise.framework.report import Term
from tierwise.model.arrays import Bools, Ints, Why, distinct
from tierwise.model.job import Constraint, Job, Reason, SetMember, SetRule, Shape, Status, namespace_of
from tierwise.model.pod_terms import PodSelector, affinity_pods

__all__ = ["RuleState", "Sets", "minimum_by_shape", "ruled_out", "with_regard"]

_STANDS = (Status.RUNNING, Status.RELEASING)
_WAITS = (Status.PENDING, Status.GATED)
_LOOKS = 8
"""Domains in which it is tried whether the rest of a set finds its place there, too."""
_TRIED = 16
"""Gangs of a set up to which that is tried; where there are more, they are counted."""


_GANGS_A_STEP = 8
"""Gangs of a set that are looked at for one step."""
_NAMED = 4
_TERMS = 64
"""Different terms of pods that are read as wishes in a cycle."""


class _Wish(msgspec.Struct, frozen=True):
    """A term that all waiting pods of a gang carry: a set without a name, of the gangs whose pods it means."""

    path: str
    apart: bool
    homes: Ints  # of each row, by the label of the term; -1 for none


class _Standing(msgspec.Struct, frozen=True):
    """In which domains of a tier the parts of a set stand."""

    homes: Ints  # of each row; -1 for none
    parts: dict[str, set[int]]
    number: Ints  # of parts, by domain

    def stand(self, part: str, rows: Ints) -> list[int]:
        """Note that a part has come to rows: the domains in which it did not stand before."""
        if not len(rows):
            return []
        own_homes, fresh = self.parts.setdefault(part, set()), []
        for home in distinct(self.homes[rows]).tolist():
            if home >= 0 and home not in own_homes:
                own_homes.add(home)
                self.number[home] += 1
                fresh.append(home)
        return fresh

    def leave(self, part: str, homes: Iterable[int]) -> None:
        """Take back what `stand` has noted."""
        for home in homes:
            self.parts[part].discard(home)
            self.number[home] -= 1

    def others(self, part: str | None) -> Ints:
        """How many other parts stand in each domain."""
        number = self.number.copy()
        number[[*self.own(part)]] -= 1
        return number

    def own(self, part: str | None) -> set[int]:
        return self.parts.get(part, set()) if part is not None else set()

    def all(self) -> set[int]:
        """The domains in which any part stands."""
        return set(np.flatnonzero(self.number).tolist())

    def of(self, parts: frozenset[str]) -> set[int]:
        """The domains in which one of these parts stands."""
        return set().union(*(homes for part, homes in self.parts.items() if part in parts))


class RuleState(msgspec.Struct, frozen=True):
    """A rule as one gang meets it: the domains of its tier, the parts in each, and which are closed to the gang."""

    rule: SetRule
    homes: Ints  # of each row, the domain of the tier; -1 for none
    domains: tuple[int, ...]
    parts: dict[int, tuple[str, ...]]  # by domain; without domains in which nobody stands
    closed: frozenset[int]
    gangs: dict[str, tuple[str, ...]]  # by part, the keys of its gangs
    waiting: tuple[str, ...]  # parts that stand nowhere


class _Together(msgspec.Struct, frozen=True):
    """The gangs that name one set, by what does not change in a cycle."""

    waiting: Sequence[Job]  # the most important and oldest first
    has_run: bool  # one of them stood when the cycle began
    fault: Reason | None  # why they cannot start together, while none of them stands


class Sets:
    """The sets of one cycle.

    A set may have thousands of gangs, and each of them asks: what does not change in a cycle is found out once.
    """

    def __init__(self, cycle: Cycle) -> None:
        self._cycle = cycle
        self._members = [job for job in cycle.snapshot.jobs if job.member is not None]
        self._gangs: dict[str, list[tuple[str, Job]]] = {}
        self._meant: dict[str, frozenset[int]] = {}  # of the sets that terms mean, the numbers of the gangs
        self._selections: dict[tuple[str, str], int] = {}  # by namespace and language, how often gangs are selected
        for job in self._members:
            for path in _member(job).sets():
                part = _member(job).part_of(path, job.key)
                self._gangs.setdefault(path, []).append((part or "", job))
            for rule in _member(job).rules:
                if rule.among is not None and rule.set not in self._meant:
                    self._meant[rule.set] = self._selected(rule.set, rule.among, job)
        self._naming: dict[str, list[Job]] = {}  # the gangs that name a set itself
        for job in self._members:
            self._naming.setdefault(_member(job).set, []).append(job)
        self._together: dict[str, _Together] = {}
        self._claims: dict[str, bool] = {}  # by set whose gangs list each other, whether one of them does not
        self._started: set[str] = set()  # sets of which a gang was placed in this cycle
        self._counted = 0  # decisions of the report that are among those who have started
        self._too_few: dict[str, Reason | None] = {}  # by set that starts together
        self._stating: dict[SetRule, frozenset[str] | None] = {}
        self._waiting: dict[str, list[Job]] = {}
        self._parts: dict[str, int] = {}
        self._rows: dict[int, Ints] = {}
        self._wishes = self._read_terms() if cycle.pipeline.room_ahead else {}
        self._homes: dict[tuple[str, int | None, str], Ints | None] = {}
        self._standing: dict[tuple[str, int], _Standing] = {}  # by set and what is kept of homes
        self._beyond: dict[str, frozenset[str]] = {}
        self._served: Job | None = None
        self._seen = 0  # decisions of the report that are among those who stand

    def concerns(self, job: Job) -> bool:
        """Whether a job is part of a set, or its pods wish for places that depend on other gangs."""
        return job.member is not None or job.number in self._wishes

    def _selected(self, path: str, among: tuple[Requirement, ...], job: Job) -> frozenset[int]:
        """The numbers of the gangs that a rule means by their labels: those of the namespace and language of a job."""
        language = _language_in(job)
        self._selections[language] = self._selections.get(language, 0) + 1
        gangs_of_language = self._labelled.get(language, ()) if self._selections[language] <= SELECTIONS else ()
        selector = LabelSelector(match_expressions=among)
        gangs = [gang for gang in gangs_of_language if matches(selector, gang.labels)]
        self._gangs[path] = [(f"gang {gang.key}", gang) for gang in gangs]
        return frozenset(gang.number for gang in gangs)

    @cached_property
    def _labelled(self) -> dict[tuple[str, str], list[Job]]:
        """The gangs of each namespace and language."""
        gangs_by_language: dict[tuple[str, str], list[Job]] = {}
        for job in self._cycle.snapshot.jobs:
            if job.language:
                gangs_by_language.setdefault(_language_in(job), []).append(job)
        return gangs_by_language

    def _read_terms(self) -> dict[int, list[_Wish]]:
        """By job that waits, the wishes in the terms of its pods."""
        snapshot, wish_by_term = self._cycle.snapshot, dict[tuple[PodSelector, str, bool], _Wish | None]()
        meant: dict[PodSelector, frozenset[int]] = {}
        wishes_by_job: dict[int, list[_Wish]] = {}
        for job in snapshot.waiting:
            shapes = {pod_set.shape for pod_set in job.pod_sets()}
            if job.constraint is None or len(job.tasks) < 2 or any(shape.affinity is None for shape in shapes):
                continue
            terms = [set(_terms_of(shape)) for shape in shapes]
            for selector, key, apart in sorted(set.intersection(*terms), key=repr) if terms else ():
                if (selector, key, apart) not in wish_by_term and len(wish_by_term) < _TERMS:
                    if selector not in meant:
                        meant[selector] = self._shapes_meant(selector)
                    wish_by_term[selector, key, apart] = self._wish(
                        len(wish_by_term), meant[selector], key, apart=apart
                    )
                wish = wish_by_term.get((selector, key, apart))
                if wish is not None:
                    wishes_by_job.setdefault(job.number, []).append(wish)
        return wishes_by_job

    def _wish(self, number: int, meant: frozenset[int], key: str, *, apart: bool) -> _Wish | None:
        """What a term about pods of some shapes wishes for; None where no gang has such pods, or no node the label."""
        numbers = sorted({number for shape in meant for number in self._jobs_of_shape.get(shape, ())})
        gangs = [self._cycle.snapshot.jobs[number] for number in numbers]
        homes = self._cycle.nodes.labels.column(key).codes.astype(np.int64)
        if not gangs or not (homes >= 0).any():
            return None
        path = f" term {number}"
        self._gangs[path] = [(f"gang {job.key}", job) for job in gangs]
        self._meant[path] = frozenset(job.number for job in gangs)
        return _Wish(path, apart, homes)

    # Both are indexes: there may be thousands of shapes, and many more tasks.

    @cached_property
    def _jobs_of_shape(self) -> dict[int, set[int]]:
        """The numbers of the jobs that have tasks of each shape."""
        jobs_by_shape: dict[int, set[int]] = {}
        for job in self._cycle.snapshot.jobs:
            for task in job.tasks:
                jobs_by_shape.setdefault(task.shape.number, set()).add(job.number)
        return jobs_by_shape

    @cached_property
    def _shapes_with(self) -> dict[tuple[str, str], list[Shape]]:
        """Shapes by their labels."""
        shapes_by_label: dict[tuple[str, str], list[Shape]] = {}
        for shape in self._cycle.snapshot.shapes:
            for label in shape.labels.items():
                shapes_by_label.setdefault(label, []).append(shape)
        return shapes_by_label

    def _shapes_meant(self, selector: PodSelector) -> frozenset[int]:
        """The numbers of the shapes whose pods a selector means; none of one that asks for no value of a label."""
        anchor = selector.anchor()
        values = anchor.values if anchor is not None else ()
        shapes = (
            shape for value in values for shape in self._shapes_with.get((anchor.key if anchor else "", value), ())
        )
        return frozenset(s.number for s in shapes if selector.matches(s.namespace, s.labels, s.namespace_labels))

    def _part(self, path: str, job: Job) -> str | None:
        """The part of a set that a job belongs to."""
        if path in self._meant:
            return f"gang {job.key}" if job.number in self._meant[path] else None
        return job.member.part_of(path, job.key) if job.member is not None else None

    # -- who may be placed where

    def serve(self, job: Job | None) -> None:
        """From now on the rows are closed that a job may not use as the other parts of its sets stand; None: none."""
        self._served = job
        ruled = job is not None and job.member is not None and bool(job.member.rules)
        self._cycle.fit_counts.close(self.closed(job) if job is not None and ruled else None)

    @contextmanager
    def serving(self, job: Job) -> Iterator[None]:
        """Serve a job inside; behind it the job that was served before is served again."""
        before = self._served
        self.serve(job)
        try:
            yield
        finally:
            self.serve(before)

    def closed(self, job: Job, rules: Sequence[SetRule] | None = None) -> Why | None:
        """By row, the number of the reason why it is closed to a job by its hard rules, or by these; None: by none."""
        why: Why = np.zeros(len(self._cycle.nodes), dtype=np.uint16)
        for rule in self.hard_rules(job) if rules is None else rules:
            placed_parts = self._of(rule)
            if placed_parts is not None:
                rows = self._closed_by(rule, placed_parts, job)
                why[rows & (why == 0)] = self._cycle.view.reasons.number(_on_nodes(rule))
        return why if why.any() else None

    def hard_rules(self, job: Job) -> list[SetRule]:
        return [rule for rule in _member(job).rules if rule.constraint.hard and (not rule.agreed or self._agreed(rule))]

    def _agreed(self, rule: SetRule) -> bool:
        """Whether all gangs of a set state a rule."""
        return self._parts_that_state(rule) is None

    def _parts_that_state(self, rule: SetRule) -> frozenset[str] | None:
        """The parts of a set of which a gang states a rule; None where all gangs do."""
        if rule not in self._stating:
            gangs = self._gangs.get(rule.set, ())
            stating = [part for part, job in gangs if rule in _member(job).rules]
            self._stating[rule] = frozenset(stating) if len(stating) < len(gangs) else None
        return self._stating[rule]

    def _closed_by(self, rule: SetRule, placed_parts: _Standing, job: Job) -> Bools:
        """The rows that a rule closes to a gang."""
        homes, part = placed_parts.homes, self._part(rule.set, job)
        open_homes = np.zeros(len(placed_parts.number), dtype=bool)
        if rule.apart:
            parts_by_home = placed_parts.others(part)
            open_homes = (
                parts_by_home < rule.most
                if rule.most
                else parts_by_home * WHOLE <= rule.share * self._parts_beside(rule, job)
            )
            open_homes[[*placed_parts.own(part)]] = True  # no further part comes there
        else:
            open_homes[[*self._runs_in(rule, placed_parts)]] = True
            if not open_homes.any():
                open_homes[:] = True
        closed: Bools = (homes < 0) | ~open_homes[homes]
        return closed

    def _runs_in(self, rule: SetRule, placed_parts: _Standing) -> set[int]:
        """The domain in which a set stays together: that of the parts that state the rule, else those of all others."""
        stating = self._parts_that_state(rule)
        return (placed_parts.of(stating) if stating is not None else set()) or placed_parts.all()

    def _parts_beside(self, rule: SetRule, job: Job) -> int:
        """How many other parts of a set stand in some domain."""
        placed_parts, part = self._of(rule), self._part(rule.set, job)
        assert placed_parts is not None
        return sum(bool(homes) for other_part, homes in placed_parts.parts.items() if other_part != part)

    def _of(self, rule: SetRule) -> _Standing | None:
        """Who stands where, for a rule; None where the rule means no tier that there is."""
        homes = self.homes_of(rule.constraint)
        return self._standing_of(rule.set, homes) if homes is not None else None

    def _standing_of(self, path: str, homes: Ints) -> _Standing:
        """In which of the domains the parts of a set stand."""
        self._catch_up()
        placed_parts = self._standing.get((path, id(homes)))
        if placed_parts is None:
            placed_parts = _Standing(homes, {}, np.zeros(int(homes.max(initial=-1)) + 1, dtype=np.int64))
            self._standing[path, id(homes)] = placed_parts
            for part, job in self._gangs.get(path, ()):
                placed_parts.stand(part, self._rows_at_start(job))
            for decision in self._cycle.report.decisions[: self._seen]:
                self._note(placed_parts, path, decision.job, [placed.rows for placed in decision.placed])
        return placed_parts

    def rule_states(self, job: Job) -> list[RuleState]:
        """Every rule of a gang whose tier exists, hard ones first."""
        rules = job.member.rules if job.member is not None else ()
        bound = (rule for rule in rules if not rule.agreed or self._agreed(rule))
        states = (self._rule_state(job, rule) for rule in sorted(bound, key=lambda rule: not rule.constraint.hard))
        return [state for state in states if state is not None]

    def _rule_state(self, job: Job, rule: SetRule) -> RuleState | None:
        placed_parts = self._of(rule)
        if placed_parts is None:
            return None
        homes = placed_parts.homes
        parts_by_domain: dict[int, list[str]] = {}
        for part, domains in placed_parts.parts.items():
            for domain in domains:
                parts_by_domain.setdefault(domain, []).append(part)
        every = distinct(homes[homes >= 0]).tolist()
        open_domains = distinct(homes[~self._closed_by(rule, placed_parts, job)])
        gangs: dict[str, list[str]] = {}
        for part, gang in self._gangs.get(rule.set, ()):
            gangs.setdefault(part, []).append(gang.key)
        waiting = gangs.keys() - {part for part, domains in placed_parts.parts.items() if domains}
        return RuleState(
            rule,
            homes,
            tuple(every),
            {domain: tuple(sorted(parts_by_domain[domain])) for domain in sorted(parts_by_domain)},
            frozenset(every) - frozenset(open_domains.tolist()),
            {part: tuple(sorted(keys)) for part, keys in sorted(gangs.items())},
            tuple(sorted(waiting)),
        )

    def homes_of(self, constraint: Constraint) -> Ints | None:
        """By row, the domain of a tier; None where there is no such tier."""
        key = constraint.kind, constraint.tier, constraint.tier_name
        if key not in self._homes:
            homes = domain_of_rows(self._cycle, constraint)
            self._homes[key] = homes if homes is not None and (homes >= 0).any() else None
        return self._homes[key]

    def _rows_at_start(self, job: Job) -> Ints:
        if job.number not in self._rows:
            self._rows[job.number] = self._rows_of(job)
        return self._rows[job.number]

    def _rows_of(self, job: Job) -> Ints:
        nodes = [task.node for task in job.tasks if task.status in _STANDS and task.node >= 0]
        nodes += [task.nominated for task in job.tasks if task.nominated >= 0]
        return self._cycle.nodes.rows[np.array(nodes, dtype=np.int64)]

    def _catch_up(self) -> None:
        """Learn what was decided since the last time."""
        decisions = self._cycle.report.decisions
        for decision in decisions[self._seen :]:
            for (path, _), placed_parts in self._standing.items():
                self._note(placed_parts, path, decision.job, [placed.rows for placed in decision.placed])
        self._seen = len(decisions)

    def _note(self, placed_parts: _Standing, path: str, job: Job, rows: Sequence[Ints]) -> list[int]:
        part = self._part(path, job)
        return placed_parts.stand(part, np.concatenate(rows)) if part is not None and rows else []

    @contextmanager
    def standing_there(self, job: Job, rows: Sequence[Ints]) -> Iterator[None]:
        """Inside, a gang stands where it was placed on the ledger."""
        undo = []
        for (path, _), placed_parts in self._standing.items():
            fresh = self._note(placed_parts, path, job, rows)
            if fresh:
                undo.append((placed_parts, self._part(path, job) or "", fresh))
        try:
            yield
        finally:
            for placed_parts, part, fresh in undo:
                placed_parts.leave(part, fresh)

    def standing_for(self, gangs: Sequence[Job]) -> Hashable:
        """Where parts stand of the sets that rules of some gangs are about: the same for the same answer."""
        rules = dict.fromkeys(rule for gang in gangs for rule in _member(gang).rules)
        every = [(rule, self._of(rule)) for rule in rules]
        return tuple((rule, placed_parts.number.tobytes()) for rule, placed_parts in every if placed_parts is not None)

    # -- who may be tried at all

    def refusal(self, job: Job) -> Reason | None:
        """Why a job must not be tried, whatever room there is: what its rules mean is not there, or contradicts itself,
        or one of its sets has more parts than a set may have.
        """
        if job.member is None:
            return None
        faults = (self._joint_fault, self._missing_tier, self._contradiction, self._beyond_caps)
        return next((fault for find in faults if (fault := find(job)) is not None), None)

    def _missing_tier(self, job: Job) -> Reason | None:
        """That a rule is about a tier which its tree does not have."""
        for rule in self.hard_rules(job):
            if self.homes_of(rule.constraint) is None:
                tier_text = f"{rule.constraint.where()} of {rule.constraint.kind}".removeprefix("one ")
                text = f"a rule about set {rule.name} is about {tier_text}, and there is none"
                return Reason("UnknownLayer", "sets", text)
        return None

    def _beyond_caps(self, job: Job) -> Reason | None:
        """That a set has more parts than a set may have, or a namespace selects gangs in more ways than it may."""
        selected = [rule.set for rule in self.hard_rules(job) if rule.among is not None]
        if selected and self._selections[_language_in(job)] > SELECTIONS:
            text = f"gangs of its namespace select other gangs in more than {SELECTIONS} ways by their labels"
            return Reason("InvalidGroup", "sets", text)
        for path in (*_member(job).sets(), *selected):
            if job.key in self._beyond_most(path):
                name = path.partition("/")[2]
                parts = count(self._number_of_parts(path), "part")
                text = f"set {name} has {parts}, and {PARTS} are the most: older ones come first"
                return Reason("InvalidGroup", "sets", text)
        return None

    def _contradiction(self, job: Job) -> Reason | None:
        """That parts are to stand together in one domain, and apart in domains as wide."""
        rules = self.hard_rules(job)
        for apart in (rule for rule in rules if rule.apart):
            for close in (rule for rule in rules if not rule.apart and rule.set == apart.set):
                if self._as_wide(apart.constraint, close.constraint):
                    where, in_one = apart.constraint.where().removeprefix("one "), close.constraint.where()
                    text = f"the parts of set {apart.name} are to stay in {in_one}, and apart in each {where}"
                    return Reason("InvalidGroup", "sets", f"{text}, which is as wide")
        return None

    def _as_wide(self, outer: Constraint, inner: Constraint) -> bool:
        """Whether domains of one tier are as wide as those of another: by the tiers of one tree, else by nodes."""
        wide, narrow = self._tier(outer), self._tier(inner)
        if outer.kind == inner.kind and wide is not None and narrow is not None:
            return wide >= narrow
        homes, inside = self.homes_of(outer), self.homes_of(inner)
        return homes is not None and inside is not None and _nest(homes, inside)

    def _tier(self, constraint: Constraint) -> int | None:
        """The number of the tier that a constraint means; None where its tree has none of the name."""
        tier_numbers = self._cycle.tree_of(constraint).topology.tier_names
        return constraint.tier if constraint.tier is not None else tier_numbers.get(constraint.tier_name)

    def _number_of_parts(self, path: str) -> int:
        if path not in self._parts:
            self._parts[path] = len({part for part, _ in self._gangs[path]})
        return self._parts[path]

    def _beyond_most(self, path: str) -> frozenset[str]:
        """The keys of gangs that are in parts of a set beyond those that it may have."""
        if path not in self._beyond:
            first_by_part: dict[str, tuple[bool, float, tuple[object, ...]]] = {}
            for part, job in self._gangs.get(path, ()):
                age = not any(task.status in _STANDS for task in job.tasks), job.created, job.order
                if part not in first_by_part or age < first_by_part[part]:
                    first_by_part[part] = age
            beyond = set(sorted(first_by_part, key=first_by_part.__getitem__)[PARTS:])
            gangs = self._gangs.get(path, ())
            self._beyond[path] = frozenset(job.key for part, job in gangs if part in beyond) if beyond else frozenset()
        return self._beyond[path]

    # -- who starts together

    def joint(self, job: Job) -> list[Job]:
        """The gangs of a job's set that start together, in the order in which they are served; none where it is one by
        one, or has started. The last of them is the one with which all of them are placed.
        """
        member = job.member
        if member is None or not member.starts or self._one_sided(member) or self.has_started(job):
            return []
        return list(self._named_as(member.set).waiting[: member.starts])

    def _one_sided(self, member: SetMember) -> bool:
        """Whether a gang that lists its partners names one which exists and does not name the same: it binds nobody."""
        path = member.set
        if member.partners and path not in self._claims:
            partners = (self._by_key[name] for name in member.partners if name in self._by_key)
            self._claims[path] = any(partner.member is None or partner.member.set != path for partner in partners)
        return self._claims.get(path, False)

    @cached_property
    def _by_key(self) -> dict[str, Job]:
        return {job.key: job for job in self._cycle.snapshot.jobs}

    def has_started(self, job: Job) -> bool:
        """Whether a gang of the set that a job names stands: the others are placed one by one."""
        decisions, path = self._cycle.report.decisions, _member(job).set
        for decision in decisions[self._counted :]:
            if decision.job.member is not None:
                self._started.add(decision.job.member.set)
        self._counted = len(decisions)
        return path in self._started or self._named_as(path).has_run

    def _named_as(self, path: str) -> _Together:
        """The gangs that name a set."""
        if path not in self._together:
            gangs = self._naming[path]
            waiting = sorted(filter(_waits, gangs), key=lambda gang: (-gang.priority, gang.created, gang.order))
            has_run = any(len(self._rows_at_start(gang)) for gang in gangs)
            self._cycle.steps.charge(1 + len(gangs) // _GANGS_A_STEP)
            self._together[path] = _Together(waiting, has_run, _fault_of_start(gangs))
        return self._together[path]

    def _joint_fault(self, job: Job) -> Reason | None:
        """Why a set that starts together cannot, whatever room there is."""
        if not _member(job).set or self._one_sided(_member(job)):
            return None
        fault = self._named_as(_member(job).set).fault
        return None if fault is None or self.has_started(job) else fault

    def too_few_domains(self, gangs: Sequence[Job]) -> Reason | None:
        """Why gangs that start together never can: a tier has too few domains, even if all of them were empty."""
        path = _member(gangs[0]).set
        if path not in self._too_few:
            self._cycle.steps.charge(1 + len(gangs) // _GANGS_A_STEP)
            self._too_few[path] = self._find_too_few(gangs)
        return self._too_few[path]

    def _find_too_few(self, gangs: Sequence[Job]) -> Reason | None:
        hard = _common_rules(gangs)
        close = next((rule for rule in hard if not rule.apart), None)
        reasons = (self._too_few_for(rule, close, len(gangs)) for rule in hard if rule.most)
        return next((reason for reason in reasons if reason is not None), None)

    def _too_few_for(self, rule: SetRule, close: SetRule | None, parts: int) -> Reason | None:
        """That a tier has too few domains for so many parts apart, in one domain of a wider tier where that is said."""
        homes = self.homes_of(rule.constraint)
        around = self.homes_of(close.constraint) if close is not None else np.zeros(len(self._cycle.nodes), np.int64)
        if homes is None or around is None:
            return None
        max_domains = _most_inside(homes, around)
        if max_domains * rule.most >= parts:
            return None
        tier = rule.constraint.where().removeprefix("one ")
        text = f"{parts} parts with at most {rule.most} in one {tier}"
        if close is None:
            return Reason(
                "NotApart", "sets", f"{text}: there {verb(max_domains, 'is', 'are')} {count(max_domains, tier)}"
            )
        wide = close.constraint.where().removeprefix("one ")
        return Reason("NotApart", "sets", f"{text}, of one {wide}: no {wide} has more than {count(max_domains, tier)}")

    # -- what gangs would like

    def parts_in(self, job: Job, domains: Ints) -> Ints | None:
        """How far each of these domains is from what a job would like of its sets: other parts that stand there, and
        domains outside the ones in which its set runs; None: it likes nothing.
        """
        wishes = [rule for rule in job.member.rules if not rule.constraint.hard] if job.member is not None else []
        missed = np.zeros(len(self._cycle.nodes), dtype=np.int64)
        for rule in wishes:
            placed_parts = self._of(rule)
            if placed_parts is None:
                continue
            homes = placed_parts.homes
            if rule.apart:
                parts_by_home = placed_parts.others(self._part(rule.set, job))
                over = np.maximum(parts_by_home - (rule.most - 1 if rule.most else 0), 0)
                missed += np.where(homes >= 0, over[homes], 0)
            elif placed_parts.all():
                missed += ~np.isin(homes, [*placed_parts.all()])
        for wish in self._wishes.get(job.number, ()):
            if wish.apart:
                parts_by_home = self._standing_of(wish.path, wish.homes).others(self._part(wish.path, job))
                missed += np.where(wish.homes >= 0, parts_by_home[wish.homes], 0)
        if not missed.any():
            return None
        spans = map(self._cycle.topology.span, domains.tolist())
        return np.array([missed[span].min(initial=2**31) for span in spans], dtype=np.int64)

    # -- regard for those who follow

    def narrower(self, job: Job) -> Iterator[tuple[Why, list[Job]]]:
        """Rows to try first for the first gang of sets that stay together: those of domains that by counting hold all
        who wait, with these; all of its sets, then the innermost alone.
        """
        fresh, joint = self._fresh(job), self.joint(job)
        tries = [(fresh[:number], list[Job]()) for number in range(len(fresh), 0, -1)]
        for sets_to_keep, only in (*tries, (fresh, joint)) if joint else tries:
            companions: list[Job] = []
            why: Why = np.zeros(len(self._cycle.nodes), dtype=np.uint16)
            for path, homes in sets_to_keep:
                waiting = [companion for companion in only or self._waiting_in(path) if companion is not job]
                self._cycle.steps.charge(1 + len(waiting) // _GANGS_A_STEP)
                if waiting:
                    why[~self._holds_all(homes, [job, *waiting])] = self._cycle.view.reasons.number(_REGARD)
                    companion_numbers = {companion.number for companion in companions}
                    companions += (companion for companion in waiting if companion.number not in companion_numbers)
            if companions and not why.all():
                yield why, companions

    def _waiting_in(self, path: str) -> list[Job]:
        """The gangs of a set that wait."""
        if path not in self._waiting:
            self._waiting[path] = [gang for _, gang in self._gangs[path] if _waits(gang)]
        return self._waiting[path]

    def _fresh(self, job: Job) -> list[tuple[str, Ints]]:
        """Sets of a gang that stay together and of which nobody stands, the innermost first, with their domains."""
        staying_rules = [] if job.member is None else [rule for rule in self.hard_rules(job) if not rule.apart]
        every = [(rule.set, homes) for rule in staying_rules if (homes := self.homes_of(rule.constraint)) is not None]
        every.sort(key=lambda entry: -entry[0].count("/"))
        wishes = ((wish.path, wish.homes) for wish in self._wishes.get(job.number, ()) if not wish.apart)
        return [(path, homes) for path, homes in (*every, *wishes) if not self._standing_of(path, homes).all()]

    def around(self, job: Job, rows: Ints) -> Bools:
        """The rows of the innermost domains in which a fresh set of a gang stays together, around some rows."""
        homes = self._fresh(job)[0][1]
        is_around: Bools = np.isin(homes, homes[rows])
        return is_around

    def _holds_all(self, homes: Ints, gangs: Sequence[Job]) -> Bools:
        """The rows of domains that by counting hold the minimums of some gangs together."""
        cycle = self._cycle
        size, inside = int(homes.max()) + 1, homes >= 0
        number_by_shape: dict[Shape, int] = {}
        for gang in gangs:
            missing = max(gang.minimum, 1)
            for pod_set in gang.pod_sets():
                number = min(missing, len(pod_set.tasks))
                number_by_shape[pod_set.shape] = number_by_shape.get(pod_set.shape, 0) + number
                missing -= number
        able = np.ones(size, dtype=bool)
        for shape, number in number_by_shape.items():
            room = np.minimum(cycle.fit_counts.of(shape).rows(Pool.FUTURE_IDLE), number)
            able &= np.bincount(homes[inside], weights=room[inside], minlength=size) >= number
        total = np.sum([shape.request * number for shape, number in number_by_shape.items()], axis=0)
        resources = np.flatnonzero(total)
        free = np.maximum(cycle.ledger.free(resources, slice(0, len(homes)), Pool.FUTURE_IDLE), 0).astype(float)
        for resource, row in zip(resources.tolist(), free, strict=True):
            able &= np.bincount(homes[inside], weights=row[inside], minlength=size) >= total[resource]
        holds: Bools = inside & able[homes]
        return holds

    # -- words

    def why_not(self, job: Job, demand: Demand, rule: SetRule, elsewhere: SearchResult) -> Reason:
        """Why a rule keeps a gang waiting that would have a place elsewhere without it."""
        return self._why_not_apart(job, demand, rule) if rule.apart else self._why_elsewhere(demand, rule, elsewhere)

    def _why_elsewhere(self, demand: Demand, rule: SetRule, elsewhere: SearchResult) -> Reason:
        """That a gang does not fit where its set runs."""
        placed_parts, cycle = self._of(rule), self._cycle
        assert placed_parts is not None
        homes, names = placed_parts.homes, cycle.tree_of(rule.constraint).topology.name
        runs_in = self._runs_in(rule, placed_parts)
        where = " and ".join(names[home] for home in sorted(runs_in))
        inside, fits = np.isin(homes, [*runs_in]), 0
        for shape, number in minimum_by_shape(demand).items():
            fits += min(int(cycle.fit_counts.of(shape).rows(Pool.FUTURE_IDLE)[inside].sum()), number)
        fit = f"{fits} of {count(demand.need, 'pod')} {verb(fits, 'fits', 'fit')}"
        text = f"its set {rule.name} runs in {where}, where {fit}"
        other_homes = distinct(homes[rows_of(elsewhere.placements)])
        if len(other_homes) == 1 and other_homes[0] >= 0:
            text += f"; {names[int(other_homes[0])]} would hold all of it"
        return Reason("SetElsewhere", "sets", text)

    def _why_not_apart(self, job: Job, demand: Demand, rule: SetRule) -> Reason:
        """That the domains which hold a gang have as many parts of its set as they may."""
        placed_parts = self._of(rule)
        assert placed_parts is not None
        homes, tier = placed_parts.homes, rule.constraint.tier_name or "domain"
        full = self._closed_by(rule, placed_parts, job)
        with_all = [self._holds_by_counting(homes, home, demand) for home in range(len(placed_parts.number))]
        closed = [home for home, holds in enumerate(with_all) if holds and full[homes == home].all()]
        parts_by_home = placed_parts.others(self._part(rule.set, job))
        fewest_parts = min((int(parts_by_home[home]) for home in closed), default=0)
        have = f"{count(fewest_parts, 'part')} of set {rule.name}"
        limit = "which is the most" if rule.most else f"and {percent(rule.share)} of the parts is the most"
        if not closed:
            text = f"each place for it takes in a {tier} with as many parts of set {rule.name} as it may have"
            return Reason("NotApart", "sets", text)
        several = len(closed) > 1
        which = f"all {len(closed)} {tier}s that hold it have" if several else f"the only {tier} that holds it has"
        return Reason("NotApart", "sets", f"{which} {have}{' or more' if several and rule.share else ''}, {limit}")

    def _holds_by_counting(self, homes: Ints, home: int, demand: Demand) -> bool:
        """Whether a domain has room for each shape of a demand, were it open."""
        counts, rows = self._cycle.fit_counts, homes == home
        closed = counts.closed
        counts.close(None)
        try:
            number_by_shape = minimum_by_shape(demand).items()
            return bool(rows.any()) and all(
                int(counts.of(shape).rows(Pool.FUTURE_IDLE)[rows].sum()) >= number for shape, number in number_by_shape
            )
        finally:
            counts.close(closed)


def minimum_by_shape(demand: Demand) -> dict[Shape, int]:
    """The tasks that a demand takes in any case, or first, by shape."""
    number_by_shape: dict[Shape, int] = {}
    for task_group in demand.task_groups:
        for pod_set, number in task_group.taken():
            number_by_shape[pod_set.shape] = number_by_shape.get(pod_set.shape, 0) + number
    return number_by_shape


_REGARD = Reason("SetElsewhere", "sets", "would not hold all parts of its set")


Search = Callable[[Cycle, Job, Demand], SearchResult | NoPlace]


def with_regard(cycle: Cycle, job: Job, demand: Demand, search: Search) -> SearchResult | NoPlace:
    """A place for a gang that leaves one for the other gangs of its sets, which are to be near it.

    If there is none, or a few tries do not find it, a place for the gang alone.
    """
    sets = cycle.sets
    if not isinstance(sets, Sets) or cycle.current_domain(job) is not None:
        return search(cycle, job, demand)
    closed = cycle.fit_counts.closed
    try:
        for why, companions in sets.narrower(job):
            for _ in range(_LOOKS):
                both = why if closed is None else np.where(closed != 0, closed, why)
                if both.all():
                    break
                cycle.fit_counts.close(both)
                with cycle.ledger.statement() as statement:
                    placement = search(cycle, job, demand)
                    if isinstance(placement, NoPlace):
                        break
                    cycle.fit_counts.close(closed)
                    if len(companions) > _TRIED or _all_follow(cycle, sets, job, placement, companions, search):
                        statement.keep()
                        return replace(placement, terms=(Term.TOGETHER,))
                why = why.copy()
                why[sets.around(job, rows_of(placement.placements))] = cycle.view.reasons.number(_REGARD)
    finally:
        cycle.fit_counts.close(closed)
    return search(cycle, job, demand)


def _all_follow(
    cycle: Cycle, sets: Sets, job: Job, first_placement: SearchResult, companions: Sequence[Job], search: Search
) -> bool:
    """Whether all others of a set find a place beside a gang that is on the ledger; it is left as it was."""
    with ExitStack() as stack:
        stack.enter_context(cycle.ledger.statement())
        stack.enter_context(sets.standing_there(job, [placement.rows for placement in first_placement.placements]))
        for companion in companions:
            companion_demand = demand(cycle, companion)
            if not companion_demand.task_groups or not companion_demand.enough:
                continue
            with sets.serving(companion):
                place = search(cycle, companion, companion_demand)
            if isinstance(place, NoPlace):
                return False
            stack.enter_context(sets.standing_there(companion, [placement.rows for placement in place.placements]))
    return True


def ruled_out(cycle: Cycle, job: Job, demand: Demand, search: Search) -> Reason | None:
    """Why a gang finds no place that would find one without a rule of its sets; None where it would not."""
    sets, closed = cycle.sets, cycle.fit_counts.closed
    if not isinstance(sets, Sets) or closed is None or job.member is None:
        return None

    def found_with(rules: Sequence[SetRule]) -> SearchResult | None:
        cycle.fit_counts.close(sets.closed(job, rules) if rules else None)
        with cycle.ledger.statement():
            placement = search(cycle, job, demand)
        return placement if isinstance(placement, SearchResult) else None

    try:
        elsewhere, rules = found_with(()), sets.hard_rules(job)
        if elsewhere is None:
            return None
        binding = [rule for rule in rules if sets.closed(job, (rule,)) is not None]
        blamed = next((rule for rule in binding[1:] if found_with((rule,)) is None), binding[0])
    finally:
        cycle.fit_counts.close(closed)
    return sets.why_not(job, demand, blamed, elsewhere)


def _terms_of(shape: Shape) -> Iterator[tuple[PodSelector, str, bool]]:
    """The pods that a shape would stand beside, or apart from, by the label of a place: required terms are for filters
    where they keep apart.
    """
    assert shape.affinity is not None
    near, away = shape.affinity.pod_affinity, shape.affinity.pod_anti_affinity
    near_terms = [*near.required, *(wish.pod_affinity_term for wish in near.preferred)] if near is not None else []
    shunned = [wish.pod_affinity_term for wish in away.preferred if wish.counted] if away is not None else []
    for terms, apart in ((near_terms, False), (shunned, True)):
        for term in terms:
            yield affinity_pods(term, shape.namespace, shape.labels), term.topology_key, apart


def _fault_of_start(gangs: Sequence[Job]) -> Reason | None:
    """Why the gangs of a set that are to start together cannot, whatever room there is."""
    member = _member(gangs[0])
    starts = {_member(gang).starts for gang in gangs}
    if not any(starts):
        return None
    name, annotation = member.set.partition("/")[2], f"annotation {GROUPS if member.partners else SET_START}"
    if len(starts) > 1:
        return Reason("InvalidGroup", "sets", f"{annotation}: gangs of set {name} have different values")
    if len({gang.queue for gang in gangs}) > 1:
        return Reason("NotSupported", "sets", f"{annotation}: gangs of set {name} are in several queues")
    existing = [gang for gang in gangs if sum(len(pod_set.tasks) for pod_set in gang.pod_sets()) >= gang.minimum]
    if len(existing) < member.starts:
        names = ", ".join(sorted(gang.key.partition("/")[2] for gang in existing)[:_NAMED]) or "none"
        existing_text = f"{len(existing)} {verb(len(existing), 'exists', 'exist')}"
        text = f"set {name} starts with {member.starts} gangs, and {existing_text}: {names}"
        return Reason("SetIncomplete", "sets", text)
    return None


def _member(job: Job) -> SetMember:
    assert job.member is not None
    return job.member


def _language_in(job: Job) -> tuple[str, str]:
    """The namespace of a gang, and the language that declares it."""
    return namespace_of(job.key), job.language


def _waits(job: Job) -> bool:
    return any(job.pod_sets()) and not any(task.status in _STANDS for task in job.tasks)


def _common_rules(gangs: Sequence[Job]) -> list[SetRule]:
    """The hard rules that all of these gangs state about the set that they name."""
    first_member = _member(gangs[0])
    stated = (rule for rule in first_member.rules if all(rule in _member(gang).rules for gang in gangs))
    return [rule for rule in stated if rule.constraint.hard and rule.set == first_member.set]


def _most_inside(inner: Ints, outer: Ints) -> int:
    """The most domains of one tier in a domain of another."""
    both = (inner >= 0) & (outer >= 0)
    pairs = np.unique(np.stack((outer[both], inner[both])), axis=1)
    return int(np.bincount(pairs[0]).max(initial=0))


def _nest(outer: Ints, inner: Ints) -> bool:
    """Whether each domain of one tier lies in one domain of another, or is one of them."""
    both = inner >= 0
    pairs = len(distinct(inner[both] * (int(outer.max()) + 2) + outer[both] + 1))
    return pairs == len(distinct(inner[both]))


def _on_nodes(rule: SetRule) -> Reason:
    """The reason for nodes that a rule closes."""
    if rule.apart:
        limit_text = count(rule.most, "part") if rule.most else f"more than {percent(rule.share)} of the parts"
        tier = rule.constraint.tier_name or "domain"
        return Reason("NotApart", "sets", f"had {limit_text} of set {rule.name} in their {tier}, which is the most")
    where = rule.constraint.tier_name or "domain"
    return Reason("SetElsewhere", "sets", f"were outside the {where} in which set {rule.name} runs")
