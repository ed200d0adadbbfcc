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
        known, fresh = self.parts.setdefault(part, set()), []
        for home in distinct(self.homes[rows]).tolist():
            if home >= 0 and home not in known:
                known.add(home)
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
        here = _language_in(job)
        self._selections[here] = self._selections.get(here, 0) + 1
        known = self._labelled.get(here, ()) if self._selections[here] <= SELECTIONS else ()
        selector = LabelSelector(match_expressions=among)
        gangs = [other for other in known if matches(selector, other.labels)]
        self._gangs[path] = [(f"gang {other.key}", other) for other in gangs]
        return frozenset(other.number for other in gangs)

    @cached_property
    def _labelled(self) -> dict[tuple[str, str], list[Job]]:
        """The gangs of each namespace and language."""
        found: dict[tuple[str, str], list[Job]] = {}
        for job in self._cycle.snapshot.jobs:
            if job.language:
                found.setdefault(_language_in(job), []).append(job)
        return found

    def _read_terms(self) -> dict[int, list[_Wish]]:
        """By job that waits, the wishes in the terms of its pods."""
        snapshot, known = self._cycle.snapshot, dict[tuple[PodSelector, str, bool], _Wish | None]()
        meant: dict[PodSelector, frozenset[int]] = {}
        found: dict[int, list[_Wish]] = {}
        for job in snapshot.waiting:
            shapes = {pod_set.shape for pod_set in job.pod_sets()}
            if job.constraint is None or len(job.tasks) < 2 or any(shape.affinity is None for shape in shapes):
                continue
            terms = [set(_terms_of(shape)) for shape in shapes]
            for selector, key, apart in sorted(set.intersection(*terms), key=repr) if terms else ():
                if (selector, key, apart) not in known and len(known) < _TERMS:
                    if selector not in meant:
                        meant[selector] = self._shapes_meant(selector)
                    known[selector, key, apart] = self._wish(len(known), meant[selector], key, apart=apart)
                wish = known.get((selector, key, apart))
                if wish is not None:
                    found.setdefault(job.number, []).append(wish)
        return found

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
        found: dict[int, set[int]] = {}
        for job in self._cycle.snapshot.jobs:
            for task in job.tasks:
                found.setdefault(task.shape.number, set()).add(job.number)
        return found

    @cached_property
    def _shapes_with(self) -> dict[tuple[str, str], list[Shape]]:
        """Shapes by their labels."""
        found: dict[tuple[str, str], list[Shape]] = {}
        for shape in self._cycle.snapshot.shapes:
            for label in shape.labels.items():
                found.setdefault(label, []).append(shape)
        return found

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
        """The same inside, and as it was behind that."""
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
            standing = self._of(rule)
            if standing is not None:
                rows = self._closed_by(rule, standing, job)
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

    def _closed_by(self, rule: SetRule, standing: _Standing, job: Job) -> Bools:
        """The rows that a rule closes to a gang."""
        homes, part = standing.homes, self._part(rule.set, job)
        open_homes = np.zeros(len(standing.number), dtype=bool)
        if rule.apart:
            others = standing.others(part)
            open_homes = (
                others < rule.most if rule.most else others * WHOLE <= rule.share * self._parts_beside(rule, job)
            )
            open_homes[[*standing.own(part)]] = True  # no further part comes there
        else:
            open_homes[[*self._runs_in(rule, standing)]] = True
            if not open_homes.any():
                open_homes[:] = True
        closed: Bools = (homes < 0) | ~open_homes[homes]
        return closed

    def _runs_in(self, rule: SetRule, standing: _Standing) -> set[int]:
        """The domain in which a set stays together: that of the parts that state the rule, else those of all others."""
        stating = self._parts_that_state(rule)
        return (standing.of(stating) if stating is not None else set()) or standing.all()

    def _parts_beside(self, rule: SetRule, job: Job) -> int:
        """How many other parts of a set stand in some domain."""
        standing, part = self._of(rule), self._part(rule.set, job)
        assert standing is not None
        return sum(bool(homes) for other, homes in standing.parts.items() if other != part)

    def _of(self, rule: SetRule) -> _Standing | None:
        """Who stands where, for a rule; None where the rule means no tier that there is."""
        homes = self.homes_of(rule.constraint)
        return self._standing_of(rule.set, homes) if homes is not None else None

    def _standing_of(self, path: str, homes: Ints) -> _Standing:
        """In which of the domains the parts of a set stand."""
        self._catch_up()
        found = self._standing.get((path, id(homes)))
        if found is None:
            found = _Standing(homes, {}, np.zeros(int(homes.max(initial=-1)) + 1, dtype=np.int64))
            self._standing[path, id(homes)] = found
            for part, job in self._gangs.get(path, ()):
                found.stand(part, self._rows_at_start(job))
            for decision in self._cycle.report.decisions[: self._seen]:
                self._note(found, path, decision.job, [placed.rows for placed in decision.placed])
        return found

    def rule_states(self, job: Job) -> list[RuleState]:
        """Every rule of a gang whose tier exists, hard ones first."""
        rules = job.member.rules if job.member is not None else ()
        bound = (rule for rule in rules if not rule.agreed or self._agreed(rule))
        states = (self._rule_state(job, rule) for rule in sorted(bound, key=lambda rule: not rule.constraint.hard))
        return [state for state in states if state is not None]

    def _rule_state(self, job: Job, rule: SetRule) -> RuleState | None:
        standing = self._of(rule)
        if standing is None:
            return None
        homes = standing.homes
        found: dict[int, list[str]] = {}
        for part, domains in standing.parts.items():
            for domain in domains:
                found.setdefault(domain, []).append(part)
        every = distinct(homes[homes >= 0]).tolist()
        open_domains = distinct(homes[~self._closed_by(rule, standing, job)])
        gangs: dict[str, list[str]] = {}
        for part, other in self._gangs.get(rule.set, ()):
            gangs.setdefault(part, []).append(other.key)
        waiting = gangs.keys() - {part for part, domains in standing.parts.items() if domains}
        return RuleState(
            rule,
            homes,
            tuple(every),
            {domain: tuple(sorted(found[domain])) for domain in sorted(found)},
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
            for (path, _), standing in self._standing.items():
                self._note(standing, path, decision.job, [placed.rows for placed in decision.placed])
        self._seen = len(decisions)

    def _note(self, standing: _Standing, path: str, job: Job, rows: Sequence[Ints]) -> list[int]:
        part = self._part(path, job)
        return standing.stand(part, np.concatenate(rows)) if part is not None and rows else []

    @contextmanager
    def standing_there(self, job: Job, rows: Sequence[Ints]) -> Iterator[None]:
        """Inside, a gang stands where it was placed on the ledger."""
        undo = []
        for (path, _), standing in self._standing.items():
            fresh = self._note(standing, path, job, rows)
            if fresh:
                undo.append((standing, self._part(path, job) or "", fresh))
        try:
            yield
        finally:
            for standing, part, fresh in undo:
                standing.leave(part, fresh)

    def standing_for(self, gangs: Sequence[Job]) -> Hashable:
        """Where parts stand of the sets that rules of some gangs are about: the same for the same answer."""
        rules = dict.fromkeys(rule for gang in gangs for rule in _member(gang).rules)
        every = [(rule, self._of(rule)) for rule in rules]
        return tuple((rule, standing.number.tobytes()) for rule, standing in every if standing is not None)

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
                asked = f"{rule.constraint.where()} of {rule.constraint.kind}".removeprefix("one ")
                text = f"a rule about set {rule.name} is about {asked}, and there is none"
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
        known = self._cycle.tree_of(constraint).topology.tier_names
        return constraint.tier if constraint.tier is not None else known.get(constraint.tier_name)

    def _number_of_parts(self, path: str) -> int:
        if path not in self._parts:
            self._parts[path] = len({part for part, _ in self._gangs[path]})
        return self._parts[path]

    def _beyond_most(self, path: str) -> frozenset[str]:
        """The keys of gangs that are in parts of a set beyond those that it may have."""
        if path not in self._beyond:
            first: dict[str, tuple[bool, float, tuple[object, ...]]] = {}
            for part, job in self._gangs.get(path, ()):
                here = not any(task.status in _STANDS for task in job.tasks), job.created, job.order
                if part not in first or here < first[part]:
                    first[part] = here
            beyond = set(sorted(first, key=first.__getitem__)[PARTS:])
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
            known = (self._by_key[name] for name in member.partners if name in self._by_key)
            self._claims[path] = any(other.member is None or other.member.set != path for other in known)
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
        most = _most_inside(homes, around)
        if most * rule.most >= parts:
            return None
        tier = rule.constraint.where().removeprefix("one ")
        text = f"{parts} parts with at most {rule.most} in one {tier}"
        if close is None:
            return Reason("NotApart", "sets", f"{text}: there {verb(most, 'is', 'are')} {count(most, tier)}")
        wide = close.constraint.where().removeprefix("one ")
        return Reason("NotApart", "sets", f"{text}, of one {wide}: no {wide} has more than {count(most, tier)}")

    # -- what gangs would like

    def parts_in(self, job: Job, domains: Ints) -> Ints | None:
        """How far each of these domains is from what a job would like of its sets: other parts that stand there, and
        domains outside the ones in which its set runs; None: it likes nothing.
        """
        wishes = [rule for rule in job.member.rules if not rule.constraint.hard] if job.member is not None else []
        missed = np.zeros(len(self._cycle.nodes), dtype=np.int64)
        for rule in wishes:
            standing = self._of(rule)
            if standing is None:
                continue
            homes = standing.homes
            if rule.apart:
                others = standing.others(self._part(rule.set, job))
                over = np.maximum(others - (rule.most - 1 if rule.most else 0), 0)
                missed += np.where(homes >= 0, over[homes], 0)
            elif standing.all():
                missed += ~np.isin(homes, [*standing.all()])
        for wish in self._wishes.get(job.number, ()):
            if wish.apart:
                others = self._standing_of(wish.path, wish.homes).others(self._part(wish.path, job))
                missed += np.where(wish.homes >= 0, others[wish.homes], 0)
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
        for some, only in (*tries, (fresh, joint)) if joint else tries:
            others: list[Job] = []
            why: Why = np.zeros(len(self._cycle.nodes), dtype=np.uint16)
            for path, homes in some:
                waiting = [other for other in only or self._waiting_in(path) if other is not job]
                self._cycle.steps.charge(1 + len(waiting) // _GANGS_A_STEP)
                if waiting:
                    why[~self._holds_all(homes, [job, *waiting])] = self._cycle.view.reasons.number(_REGARD)
                    known = {other.number for other in others}
                    others += (other for other in waiting if other.number not in known)
            if others and not why.all():
                yield why, others

    def _waiting_in(self, path: str) -> list[Job]:
        """The gangs of a set that wait."""
        if path not in self._waiting:
            self._waiting[path] = [other for _, other in self._gangs[path] if _waits(other)]
        return self._waiting[path]

    def _fresh(self, job: Job) -> list[tuple[str, Ints]]:
        """Sets of a gang that stay together and of which nobody stands, the innermost first, with their domains."""
        found = [] if job.member is None else [rule for rule in self.hard_rules(job) if not rule.apart]
        every = [(rule.set, homes) for rule in found if (homes := self.homes_of(rule.constraint)) is not None]
        every.sort(key=lambda entry: -entry[0].count("/"))
        wishes = ((wish.path, wish.homes) for wish in self._wishes.get(job.number, ()) if not wish.apart)
        return [(path, homes) for path, homes in (*every, *wishes) if not self._standing_of(path, homes).all()]

    def around(self, job: Job, rows: Ints) -> Bools:
        """The rows of the innermost domains in which a fresh set of a gang stays together, around some rows."""
        homes = self._fresh(job)[0][1]
        found: Bools = np.isin(homes, homes[rows])
        return found

    def _holds_all(self, homes: Ints, gangs: Sequence[Job]) -> Bools:
        """The rows of domains that by counting hold the minimums of some gangs together."""
        cycle = self._cycle
        size, inside = int(homes.max()) + 1, homes >= 0
        wanted: dict[Shape, int] = {}
        for gang in gangs:
            left = max(gang.minimum, 1)
            for pod_set in gang.pod_sets():
                number = min(left, len(pod_set.tasks))
                wanted[pod_set.shape] = wanted.get(pod_set.shape, 0) + number
                left -= number
        able = np.ones(size, dtype=bool)
        for shape, number in wanted.items():
            room = np.minimum(cycle.fit_counts.of(shape).rows(Pool.FUTURE_IDLE), number)
            able &= np.bincount(homes[inside], weights=room[inside], minlength=size) >= number
        total = np.sum([shape.request * number for shape, number in wanted.items()], axis=0)
        asked = np.flatnonzero(total)
        free = np.maximum(cycle.ledger.free(asked, slice(0, len(homes)), Pool.FUTURE_IDLE), 0).astype(float)
        for resource, row in zip(asked.tolist(), free, strict=True):
            able &= np.bincount(homes[inside], weights=row[inside], minlength=size) >= total[resource]
        found: Bools = inside & able[homes]
        return found

    # -- words

    def why_not(self, job: Job, asked: Demand, rule: SetRule, elsewhere: SearchResult) -> Reason:
        """Why a rule keeps a gang waiting that would have a place elsewhere without it."""
        return self._why_not_apart(job, asked, rule) if rule.apart else self._why_elsewhere(asked, rule, elsewhere)

    def _why_elsewhere(self, asked: Demand, rule: SetRule, elsewhere: SearchResult) -> Reason:
        """That a gang does not fit where its set runs."""
        standing, cycle = self._of(rule), self._cycle
        assert standing is not None
        homes, names = standing.homes, cycle.tree_of(rule.constraint).topology.name
        runs_in = self._runs_in(rule, standing)
        where = " and ".join(names[home] for home in sorted(runs_in))
        inside, fits = np.isin(homes, [*runs_in]), 0
        for shape, number in minimum_by_shape(asked).items():
            fits += min(int(cycle.fit_counts.of(shape).rows(Pool.FUTURE_IDLE)[inside].sum()), number)
        fit = f"{fits} of {count(asked.need, 'pod')} {verb(fits, 'fits', 'fit')}"
        text = f"its set {rule.name} runs in {where}, where {fit}"
        there = distinct(homes[rows_of(elsewhere.placements)])
        if len(there) == 1 and there[0] >= 0:
            text += f"; {names[int(there[0])]} would hold all of it"
        return Reason("SetElsewhere", "sets", text)

    def _why_not_apart(self, job: Job, asked: Demand, rule: SetRule) -> Reason:
        """That the domains which hold a gang have as many parts of its set as they may."""
        standing = self._of(rule)
        assert standing is not None
        homes, tier = standing.homes, rule.constraint.tier_name or "domain"
        full = self._closed_by(rule, standing, job)
        with_all = [self._holds_by_counting(homes, home, asked) for home in range(len(standing.number))]
        closed = [home for home, holds in enumerate(with_all) if holds and full[homes == home].all()]
        others = standing.others(self._part(rule.set, job))
        least = min((int(others[home]) for home in closed), default=0)
        have = f"{count(least, 'part')} of set {rule.name}"
        limit = "which is the most" if rule.most else f"and {percent(rule.share)} of the parts is the most"
        if not closed:
            text = f"each place for it takes in a {tier} with as many parts of set {rule.name} as it may have"
            return Reason("NotApart", "sets", text)
        several = len(closed) > 1
        which = f"all {len(closed)} {tier}s that hold it have" if several else f"the only {tier} that holds it has"
        return Reason("NotApart", "sets", f"{which} {have}{' or more' if several and rule.share else ''}, {limit}")

    def _holds_by_counting(self, homes: Ints, home: int, asked: Demand) -> bool:
        """Whether a domain has room for each shape of a demand, were it open."""
        counts, rows = self._cycle.fit_counts, homes == home
        closed = counts.closed
        counts.close(None)
        try:
            wanted = minimum_by_shape(asked).items()
            return bool(rows.any()) and all(
                int(counts.of(shape).rows(Pool.FUTURE_IDLE)[rows].sum()) >= number for shape, number in wanted
            )
        finally:
            counts.close(closed)


def minimum_by_shape(asked: Demand) -> dict[Shape, int]:
    """The tasks that a demand takes in any case, or first, by shape."""
    found: dict[Shape, int] = {}
    for task_group in asked.task_groups:
        for pod_set, number in task_group.taken():
            found[pod_set.shape] = found.get(pod_set.shape, 0) + number
    return found


_REGARD = Reason("SetElsewhere", "sets", "would not hold all parts of its set")


Search = Callable[[Cycle, Job, Demand], SearchResult | NoPlace]


def with_regard(cycle: Cycle, job: Job, asked: Demand, search: Search) -> SearchResult | NoPlace:
    """What a search finds for a gang: first where the rest of its sets, which is to come beside it, finds a place too.

    Where that is nowhere, or cannot be told within a few tries, as if it were alone.
    """
    sets = cycle.sets
    if not isinstance(sets, Sets) or cycle.current_domain(job) is not None:
        return search(cycle, job, asked)
    closed = cycle.fit_counts.closed
    try:
        for why, others in sets.narrower(job):
            for _ in range(_LOOKS):
                both = why if closed is None else np.where(closed != 0, closed, why)
                if both.all():
                    break
                cycle.fit_counts.close(both)
                with cycle.ledger.statement() as statement:
                    found = search(cycle, job, asked)
                    if isinstance(found, NoPlace):
                        break
                    cycle.fit_counts.close(closed)
                    if len(others) > _TRIED or _all_follow(cycle, sets, job, found, others, search):
                        statement.keep()
                        return replace(found, terms=(Term.TOGETHER,))
                why = why.copy()
                why[sets.around(job, rows_of(found.placements))] = cycle.view.reasons.number(_REGARD)
    finally:
        cycle.fit_counts.close(closed)
    return search(cycle, job, asked)


def _all_follow(cycle: Cycle, sets: Sets, job: Job, found: SearchResult, others: Sequence[Job], search: Search) -> bool:
    """Whether all others of a set find a place beside a gang that is on the ledger; it is left as it was."""
    with ExitStack() as stack:
        stack.enter_context(cycle.ledger.statement())
        stack.enter_context(sets.standing_there(job, [placement.rows for placement in found.placements]))
        for other in others:
            asked = demand(cycle, other)
            if not asked.task_groups or not asked.enough:
                continue
            with sets.serving(other):
                place = search(cycle, other, asked)
            if isinstance(place, NoPlace):
                return False
            stack.enter_context(sets.standing_there(other, [placement.rows for placement in place.placements]))
    return True


def ruled_out(cycle: Cycle, job: Job, asked: Demand, search: Search) -> Reason | None:
    """Why a gang finds no place that would find one without a rule of its sets; None where it would not."""
    sets, closed = cycle.sets, cycle.fit_counts.closed
    if not isinstance(sets, Sets) or closed is None or job.member is None:
        return None

    def found_with(rules: Sequence[SetRule]) -> SearchResult | None:
        cycle.fit_counts.close(sets.closed(job, rules) if rules else None)
        with cycle.ledger.statement():
            found = search(cycle, job, asked)
        return found if isinstance(found, SearchResult) else None

    try:
        elsewhere, rules = found_with(()), sets.hard_rules(job)
        if elsewhere is None:
            return None
        binding = [rule for rule in rules if sets.closed(job, (rule,)) is not None]
        blamed = next((rule for rule in binding[1:] if found_with((rule,)) is None), binding[0])
    finally:
        cycle.fit_counts.close(closed)
    return sets.why_not(job, asked, blamed, elsewhere)


def _terms_of(shape: Shape) -> Iterator[tuple[PodSelector, str, bool]]:
    """The pods that a shape would stand beside, or apart from, by the label of a place: required terms are for filters
    where they keep apart.
    """
    assert shape.affinity is not None
    near, away = shape.affinity.pod_affinity, shape.affinity.pod_anti_affinity
    wanted = [*near.required, *(wish.pod_affinity_term for wish in near.preferred)] if near is not None else []
    shunned = [wish.pod_affinity_term for wish in away.preferred if wish.counted] if away is not None else []
    for terms, apart in ((wanted, False), (shunned, True)):
        for term in terms:
            yield affinity_pods(term, shape.namespace, shape.labels), term.topology_key, apart


def _fault_of_start(gangs: Sequence[Job]) -> Reason | None:
    """Why the gangs of a set that are to start together cannot, whatever room there is."""
    member = _member(gangs[0])
    starts = {_member(gang).starts for gang in gangs}
    if not any(starts):
        return None
    name, said = member.set.partition("/")[2], f"annotation {GROUPS if member.partners else SET_START}"
    if len(starts) > 1:
        return Reason("InvalidGroup", "sets", f"{said}: gangs of set {name} say different things")
    if len({gang.queue for gang in gangs}) > 1:
        return Reason("NotSupported", "sets", f"{said}: gangs of set {name} are in several queues")
    here = [gang for gang in gangs if sum(len(pod_set.tasks) for pod_set in gang.pod_sets()) >= gang.minimum]
    if len(here) < member.starts:
        names = ", ".join(sorted(gang.key.partition("/")[2] for gang in here)[:_NAMED]) or "none"
        there = f"{len(here)} {verb(len(here), 'exists', 'exist')}"
        text = f"set {name} starts with {member.starts} gangs, and {there}: {names}"
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
    first = _member(gangs[0])
    stated = (rule for rule in first.rules if all(rule in _member(gang).rules for gang in gangs))
    return [rule for rule in stated if rule.constraint.hard and rule.set == first.set]


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
    """What is said of nodes that a rule closes."""
    if rule.apart:
        most = count(rule.most, "part") if rule.most else f"more than {percent(rule.share)} of the parts"
        tier = rule.constraint.tier_name or "domain"
        return Reason("NotApart", "sets", f"had {most} of set {rule.name} in their {tier}, which is the most")
    where = rule.constraint.tier_name or "domain"
    return Reason("SetElsewhere", "sets", f"were outside the {where} in which set {rule.name} runs")
