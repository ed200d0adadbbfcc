"""Builds jobs from cohorts of pods. A job whose group and pods are unchanged is kept and only renumbered."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from itertools import chain

import msgspec
from msgspec.structs import replace

from tierwise.api.koordinator import PodGroup as GangRecord
from tierwise.api.natural import NaturalKey, natural
from tierwise.api.volcano import PodGroup, PodGroupSpec
from tierwise.dialects.groups import Group, build_group
from tierwise.dialects.jobs import JobBuilder, Member
from tierwise.dialects.koordinator.elastic_quota import forbearing
from tierwise.dialects.koordinator.gangs import (
    SELECTOR,
    Drawn,
    Gang,
    build_gangs,
    gang_faults,
    lone_gather,
    read_gangs,
)
from tierwise.dialects.languages import LANGUAGES, Name
from tierwise.dialects.volcano.pod_group import read_group
from tierwise.model.job import Job, Status, Task
from tierwise.model.snapshot import Fault
from tierwise.port import Key
from tierwise.snapshot.shapes import Priorities
from tierwise.snapshot.tasks import Cohort, TaskStore

__all__ = ["JobCache", "SortedPods"]

Stamp = tuple[tuple[Cohort, int], ...]
"""Cohorts as they were at one time."""

Whole = tuple[Key, str]
"""The object that declares a group, and what the group is called: one object may declare several."""


class SortedPods(msgspec.Struct, frozen=True):
    """Pods by what they are to this scheduler."""

    jobs: list[Job]
    unsettled: list[Job]  # those of them that are not settled
    others: list[list[Task]]  # they take up room, nothing more; in pieces that are kept while they stay
    orphans: dict[str, str]  # pending pods whose group does not exist -> the group
    forsaken: tuple[str, ...]  # those of them that are nominated
    faults: list[Fault]  # what groups say of each other and cannot be


class _UngroupedPods(msgspec.Struct, frozen=True):
    """The members of a cohort that is no group's."""

    lone: list[Member]  # pending
    drawn: list[Member]  # those of them that are drawn to other pods, wherever these are now
    standing: list[Member]  # running, where such pods are jobs too
    others: list[Task]
    orphans: dict[str, str]
    forsaken: list[str]


_NOBODY = _UngroupedPods([], [], [], [], {}, [])


class _SingleJobs:
    """Jobs of pods that belong to no group, one each: few of very many change from one reading to the next.

    They stand in natural order of their pods' names, under numbers that follow each other.
    """

    def __init__(self) -> None:
        self._ranks: list[NaturalKey] = []  # of the names of pods, in order
        self._jobs: list[Job] = []  # of the same pods
        self._fresh: dict[str, Member] = {}  # by key of the pod: those that came or changed since they were numbered
        self._gone: set[str] = set()
        self._start = (0, 0)  # the numbers of the first job and of its sub-job

    def replace(self, before: Iterable[Member], now: Iterable[Member]) -> None:
        """Some of the pods are others now; who is in both lists has not changed."""
        last = {member.task.key: member for member in before}
        for member in now:
            if last.pop(member.task.key, None) is not member:
                self._fresh[member.task.key] = member
        self._gone |= last.keys()

    def follow(self, builder: JobBuilder, build: Callable[[Member], Job]) -> list[Job]:
        """All of them, numbered from the builder's next numbers on."""
        job, sub, role = builder.next_numbers
        jobs, ranks = self._jobs, self._ranks
        first = len(jobs) if self._start == (job, sub) else 0  # from where on numbers are others
        for rank in map(natural, self._gone - self._fresh.keys()):
            at = bisect_left(ranks, rank)
            del ranks[at], jobs[at]
            first = min(first, at)
        for rank, member in sorted((natural(key), member) for key, member in self._fresh.items()):
            at = bisect_left(ranks, rank)
            builder.begin(job + at, sub + at, role)
            if at < len(ranks) and ranks[at] == rank:
                jobs[at] = build(member)
            else:
                ranks.insert(at, rank)
                jobs.insert(at, build(member))
                first = min(first, at + 1)
        builder.begin(job + first, sub + first, role)
        jobs[first:] = map(builder.again, jobs[first:])
        self._fresh, self._gone, self._start = {}, set(), (job, sub)
        return jobs


class JobCache:
    """The jobs of one task store.

    `alone` says of which namespaces a running pod of no group is a job too: its quota counts it, or it may be evicted.
    `across` says that gangs of several namespaces may form one group. `trusts` says that the class of a podGroup counts
    as it is.
    """

    def __init__(
        self,
        priorities: Priorities,
        match_policy: str,
        *,
        alone: Callable[[str], bool],
        across: bool = False,
        trusts: bool = False,
    ) -> None:
        self.priorities = priorities
        self._trusts = trusts
        self._match_policy = match_policy
        self._alone = alone
        self._across = across
        self._begun = False
        self._resized = False  # whether amounts are to be read again
        self._of_group: dict[str, Job] = {}
        self._specs: dict[str, PodGroupSpec] = {}  # of the groups as these were read
        self._group_jobs: list[Job] = []  # the same in order, under the numbers that they have
        self._next_numbers = [(0, 0, 0)]  # before each of them, and after the last
        self._unsettled: set[str] = set()  # those of them that are not settled
        self._loose: list[Cohort] = []  # cohorts of no pod group of Volcano's that exists, in order
        self._of_language: dict[Whole, tuple[Group, Stamp, bool, Job]] = {}
        self._gangs: tuple[object, dict[str, Gang], list[Fault]] = (None, {}, [])
        self._of_gangs: tuple[object, list[Job]] = (None, [])
        self._lone = _SingleJobs()  # of pods that wait
        self._standing = _SingleJobs()  # of pods that run
        self._rest: dict[Cohort, tuple[int, _UngroupedPods]] = {}

    def sort(
        self,
        builder: JobBuilder,
        store: TaskStore,
        groups: Mapping[str, PodGroup],
        changed: Iterable[str],
        records: Mapping[str, GangRecord],
        declared: Mapping[Name, Group],
        drawn: Drawn,
    ) -> SortedPods:
        """Every pod to its job, or to those that belong to none.

        `changed` are the pod groups of Volcano's that have changed since the last time, `declared` the groups of other
        languages.
        """
        self._follow(builder, store, groups, changed)
        gangs = self._read_gangs(store.naming(), records)
        ganged: dict[str, list[Cohort]] = {}
        named: dict[Whole, list[Cohort]] = {}
        foreign: set[Whole] = set()
        rest: list[Cohort] = []
        for cohort in self._loose:
            if cohort.ours and cohort.gang in gangs:
                ganged.setdefault(cohort.gang, []).append(cohort)
            elif cohort.ours and cohort.named is not None and cohort.named in declared:
                named.setdefault(_whole(declared[cohort.named]), []).append(cohort)
            else:
                rest.append(cohort)
                if cohort.named is not None and cohort.named in declared:
                    foreign.add(_whole(declared[cohort.named]))
        jobs, groups_unsettled = self._group_jobs.copy(), self._unsettled_groups()
        taken = frozenset(gangs.keys() & groups.keys()) if gangs else frozenset()
        jobs += self._gang_jobs(builder, gangs, ganged, drawn, taken)
        known = {job.key for job in jobs} if declared else set()
        jobs += self._language_jobs(builder, declared, named, foreign, known)
        unsettled = groups_unsettled + [job for job in jobs[len(self._group_jobs) :] if not job.settled]
        found = self._sort_rest(rest)
        lone = self._lone.follow(builder, lambda member: builder.lone(member, lone_gather(member, drawn)))
        jobs += lone
        jobs += self._standing.follow(builder, builder.standing)
        unsettled += lone
        orphans = sorted(chain(*(r.orphans.items() for r in found)), key=lambda item: natural(item[0]))
        forsaken = tuple(sorted(chain(*(r.forsaken for r in found)), key=natural))
        others = [r.others for r in found if r.others]
        return SortedPods(jobs, unsettled, others, dict(orphans), forsaken, self._gangs[2])

    def resize(self) -> None:
        """There are other resources, or other limits of them: all amounts that jobs hold are read again."""
        self._resized = True
        self._of_language, self._of_gangs = {}, (None, [])

    def _follow(
        self, builder: JobBuilder, store: TaskStore, groups: Mapping[str, PodGroup], changed: Iterable[str]
    ) -> None:
        """Bring the jobs of pod groups up to date, and say which cohorts are theirs: by what has changed."""
        touched, moved = store.touched()
        if not self._begun:
            self._begun, touched, changed = True, set(store.cohorts()), groups
        due = {cohort.group for cohort in touched if cohort.ours and cohort.group}.union(changed)
        follow = self._of_group.keys() if self._resized else {c.group for c in moved if c.ours and c.group}
        for key in follow - due:
            if not self._follow_states(builder, store, groups.get(key), key):
                due.add(key)
        resized, self._resized = self._resized, False
        touched = touched.union(*map(store.of_group, changed))
        loose = {cohort for cohort in touched if cohort.members and not (cohort.ours and cohort.group in groups)}
        if loose or not touched.isdisjoint(self._loose):
            self._loose = sorted(loose.union(c for c in self._loose if c not in touched), key=lambda c: c.order)
        first = len(self._group_jobs)  # from where on numbers are others
        came = []
        for key in sorted(due):
            record, last = groups.get(key), self._of_group.pop(key, None)
            known = self._specs.pop(key, None)
            self._unsettled.discard(key)
            if record is not None:
                members = _members(store.of_group(key))
                builder.begin(*(_first_numbers(last) if last is not None else ()))
                priority = self._priority(record.spec.priority_class_name, members)
                same = last is not None and known is record.spec and not resized
                least = last.min_resources if same and last is not None else builder.least(record.spec.min_resources)
                job = self._of_group[key] = read_group(builder, record, members, priority, least)
                self._specs[key] = record.spec
                if not job.settled:
                    self._unsettled.add(key)
                if last is not None and _size(last) == _size(job):
                    self._group_jobs[job.number] = job
                    continue
            if last is not None:
                first = min(first, last.number)
            elif record is not None:
                came.append(key)
        if came or first < len(self._group_jobs):
            self._number(builder, [*groups], first, came)
        builder.begin(*self._next_numbers[-1])

    def _follow_states(self, builder: JobBuilder, store: TaskStore, record: PodGroup | None, key: str) -> bool:
        """Take over where the pods of a job stand now; false where the job must be built again."""
        last = self._of_group.get(key)
        if record is None or last is None:
            return record is None and last is None
        job = builder.moved(last, _members(store.of_group(key)), forbears=forbearing(record.metadata))
        if job is None:
            return False
        if self._resized:
            job = replace(job, min_resources=builder.least(record.spec.min_resources))
        self._of_group[key] = self._group_jobs[job.number] = job
        (self._unsettled.discard if job.settled else self._unsettled.add)(key)
        return True

    def _number(self, builder: JobBuilder, order: list[str], first: int, came: Sequence[str]) -> None:
        """Number the jobs anew from the first on that has come, gone, or takes up other numbers than before."""
        new = {*came}
        first = min(first, next((at for at, key in enumerate(order) if key in new), first))
        del self._group_jobs[first:], self._next_numbers[first + 1 :]
        builder.begin(*self._next_numbers[first])
        for key in order[first:]:
            job = self._of_group[key] = builder.again(self._of_group[key])
            self._group_jobs.append(job)
            self._next_numbers.append(builder.next_numbers)

    def _unsettled_groups(self) -> list[Job]:
        """The jobs of pod groups that are not settled, in order."""
        return sorted((self._of_group[key] for key in self._unsettled), key=lambda job: job.number)

    def _language_jobs(
        self,
        builder: JobBuilder,
        declared: Mapping[Name, Group],
        cohorts: Mapping[Whole, list[Cohort]],
        foreign: Container[Whole],
        taken: set[str],
    ) -> list[Job]:
        jobs = []
        kept: dict[Whole, tuple[Group, Stamp, bool, Job]] = {}
        for (language, _), group in declared.items():
            name = _whole(group)
            if name in kept:
                continue  # pods have several names for it
            own, others = cohorts.get(name, []), name in foreign
            stamp, last = _stamp(own), self._of_language.get(name)
            shared = group.path in taken
            if last is not None and last[:3] == (group, stamp, others) and (last[3].key != group.path) is shared:
                job = builder.again(last[3])
            else:
                members = _members(own)
                priority = self._priority(group.priority_class, members, group.priority)
                part = LANGUAGES[language].sub_group
                job = build_group(builder, group, members, priority, part, shared=shared, foreign=others)
            taken.add(job.key)
            kept[name] = group, stamp, others, job
            jobs.append(job)
        self._of_language = kept
        return jobs

    def _priority(self, named: str, members: Sequence[Member], stated: int | None = None) -> int:
        """That of its class, at most what its pods were admitted with: anybody may write a class into a podGroup.

        Pods without a priority of their own were admitted by nobody, as in a file, and say nothing about it.
        """
        if named or stated is not None:
            admitted = [m.pod.spec.priority for m in members if m.pod.spec.priority is not None]
            stated = self.priorities.of_class(named) if stated is None else stated
            return min(stated, max(admitted)) if admitted and not self._trusts else stated
        return max([m.task.shape.priority for m in members], default=self.priorities.of_class(""))

    def _read_gangs(self, cohorts: Sequence[Cohort], records: Mapping[str, GangRecord]) -> dict[str, Gang]:
        named = [cohort for cohort in cohorts if cohort.gang]
        stamp = (tuple(records.values()), _stamp(named))
        if self._gangs[0] != stamp:
            pods = (member.pod for cohort in named for member in cohort.members.values())
            gangs = read_gangs(records, pods, self._match_policy)
            self._gangs = stamp, gangs, gang_faults(gangs, across=self._across)
        return self._gangs[1]

    def _gang_jobs(
        self,
        builder: JobBuilder,
        gangs: Mapping[str, Gang],
        cohorts: Mapping[str, list[Cohort]],
        drawn: Drawn,
        taken: frozenset[str],
    ) -> list[Job]:
        stamp = (self._gangs[0], _stamp(chain(*cohorts.values())), taken)
        if self._of_gangs[0] == stamp and not drawn:
            jobs = [builder.again(job) for job in self._of_gangs[1]]
        else:
            members = {key: _members(own) for key, own in cohorts.items()}
            jobs = build_gangs(builder, gangs, members, drawn, across=self._across, taken=taken)
        self._of_gangs = stamp if not drawn else None, jobs
        return jobs

    def _sort_rest(self, cohorts: Sequence[Cohort]) -> list[_UngroupedPods]:
        kept = {}
        for cohort in cohorts:
            version, last = self._rest.pop(cohort, (-1, _NOBODY))
            found = last if version == cohort.version else self._look_at(cohort)
            kept[cohort] = cohort.version, found
            if found is not last:
                self._lone.replace(last.lone, found.lone)
                self._standing.replace(last.standing, found.standing)
            self._lone.replace((), found.drawn)
        for _, last in self._rest.values():
            self._lone.replace(last.lone, ())
            self._standing.replace(last.standing, ())
        self._rest = kept
        return [rest for _, rest in kept.values()]

    def _look_at(self, cohort: Cohort) -> _UngroupedPods:
        rest = _UngroupedPods([], [], [], [], {}, [])
        named = cohort.group or cohort.gang or (cohort.named[1] if cohort.named is not None else "")
        for member in cohort.members.values():
            task = member.task
            counted = cohort.ours and not cohort.group and self._alone(member.pod.metadata.namespace or "default")
            if counted and task.status is Status.RUNNING:
                rest.standing.append(member)
            elif task.status in (Status.RUNNING, Status.RELEASING):
                rest.others.append(task)
            elif cohort.ours and named and task.status is Status.PENDING:
                rest.orphans[task.key] = named
                if task.nominated >= 0:
                    rest.forsaken.append(task.key)
            elif cohort.ours and not named and task.status in (Status.PENDING, Status.GATED):
                rest.lone.append(member)
                if member.pod.metadata.annotations.get(SELECTOR):
                    rest.drawn.append(member)
        return rest


def _whole(group: Group) -> Whole:
    """Which group a name leads to: that of a part leads to the whole."""
    return group.key, group.path


def _first_numbers(job: Job) -> tuple[int, int, int]:
    return job.number, job.subs[0].number if job.subs else 0, min(job.role_names, default=0)


def _size(job: Job) -> tuple[int, int]:
    """How many numbers of sub-jobs and of roles it takes up."""
    return len(job.subs), len(job.role_names)


def _stamp(cohorts: Iterable[Cohort]) -> Stamp:
    return tuple([(cohort, cohort.version) for cohort in cohorts])


def _members(cohorts: Sequence[Cohort]) -> list[Member]:
    return _merged([[*cohort.members.values()] for cohort in cohorts])


def _merged(lists: Sequence[list[Member]]) -> list[Member]:
    """Members in natural order of their names, from lists that are in that order."""
    full = [members for members in lists if members]
    if len(full) < 2:
        return full[0] if full else []
    return sorted(chain(*full), key=lambda member: natural(member.task.key))
