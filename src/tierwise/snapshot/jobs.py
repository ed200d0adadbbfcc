"""Builds jobs from cohorts of pods. A job whose group and pods are unchanged is kept and only renumbered."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec.structs import replace

from tierwise.api.natural import NaturalKey, natural
from tierwise.dialects.groups import Group, build_group, follow_group
from tierwise.dialects.jobs import JobBuilder, Member
from tierwise.dialects.koordinator.gangs import SELECTOR, lone_gather
from tierwise.dialects.language import Drawn, Language
from tierwise.dialects.languages import LANGUAGES, VOLCANO, GroupReader, Name, plain
from tierwise.dialects.pod_marks import NO_GROUP
from tierwise.model.job import Job, Status, Task
from tierwise.model.snapshot import Fault, Orphan
from tierwise.port import Key
from tierwise.snapshot.shapes import Priorities
from tierwise.snapshot.tasks import Cohort, TaskStore

__all__ = ["JobCache", "SortedPods"]

K = TypeVar("K")
GroupKey = tuple[Key, str]
"""The object that declares a group, and what the group is called: one object may declare several."""


_LANGUAGE_RANKS: Final = {name: rank for rank, name in enumerate(LANGUAGES)}
_NUMBER = attrgetter("number")


class _Declared(msgspec.Struct, eq=False):
    """A group, and whose pods are in it."""

    rank: tuple[int, NaturalKey, GroupKey]  # its place among those of its age: by language, then by name
    language: Language
    group: Group
    names: set[Name] = set()  # what leads to it
    cohorts: set[Cohort] = set()
    built: Group | None = None  # as its job was built

    @property
    def foreign(self) -> bool:
        """Whether some of its pods are another scheduler's."""
        return not all(cohort.ours for cohort in self.cohorts)


class SortedPods(msgspec.Struct, frozen=True):
    """Pods by what they are to this scheduler."""

    jobs: list[Job]
    unsettled: list[Job]  # those of them that are not settled
    others: list[list[Task]]  # they take up room, nothing more; in pieces that are kept while they stay
    orphans: dict[str, Orphan]  # pending pods whose group does not exist
    forsaken: tuple[str, ...]  # those of them that are nominated
    faults: list[Fault]  # what groups say of each other and cannot be


class _UngroupedPods(msgspec.Struct, frozen=True):
    """The members of a cohort that is no group's."""

    lone: list[Member]  # pending
    drawn: list[Member]  # those of them that are drawn to other pods, wherever these are now
    standing: list[Member]  # running, where such pods are jobs too
    others: list[Task]
    orphans: dict[str, Orphan]
    forsaken: list[str]


_NOBODY = _UngroupedPods([], [], [], [], {}, [])


class _Rest(msgspec.Struct, frozen=True):
    """What all such cohorts come to."""

    others: list[list[Task]]
    orphans: dict[str, Orphan]
    forsaken: tuple[str, ...]
    drawn: list[Member]

    @staticmethod
    def of(found: Sequence[_UngroupedPods]) -> _Rest:
        return _Rest(
            [rest.others for rest in found if rest.others],
            dict(sorted(chain(*(rest.orphans.items() for rest in found)), key=lambda item: natural(item[0]))),
            tuple(sorted(chain(*(rest.forsaken for rest in found)), key=natural)),
            [member for rest in found for member in rest.drawn],
        )


class _JobsInOrder(Generic[K]):
    """Jobs by key, and in order of their ranks, under numbers that follow each other.

    Few of very many change from one reading to the next. A rank ends with the key of its job.
    """

    def __init__(self) -> None:
        self.of: dict[K, Job] = {}
        self.jobs: list[Job] = []
        self._ranks: list[tuple[Any, ...]] = []
        self._next_numbers = [(0, 0, 0)]  # before each of them, and after the last

    def replace(self, key: K, job: Job) -> None:
        """A job has become another under the same numbers."""
        self.of[key] = self.jobs[job.number - self._next_numbers[0][0]] = job

    def follow(
        self,
        builder: JobBuilder,
        gone: Iterable[tuple[Any, ...]],
        due: Iterable[tuple[Any, ...]],
        build: Callable[[K], Job],
    ) -> bool:
        """Take away jobs of some ranks and build those of others, numbered from the builder's next numbers on.

        Returns whether any job is another than before.
        """
        jobs = self.jobs
        ranks = self._ranks
        numbers = self._next_numbers
        before = len(jobs)
        first = len(jobs) if numbers[0] == builder.next_numbers else 0  # from where on numbers are others
        numbers[0] = builder.next_numbers
        for rank in gone:
            at = bisect_left(ranks, rank)
            del ranks[at], jobs[at], numbers[at + 1], self.of[rank[-1]]
            first = min(first, at)
        built = sorted(due)
        for rank in built:
            at = bisect_left(ranks, rank)
            builder.begin(*numbers[at])
            job = self.of[rank[-1]] = build(rank[-1])
            if at == len(ranks) or ranks[at] != rank:
                ranks.insert(at, rank)
                jobs.insert(at, job)
                numbers.insert(at + 1, builder.next_numbers)
                first = min(first, at + 1)
            else:
                jobs[at] = job
                if numbers[at + 1] != builder.next_numbers:
                    numbers[at + 1], first = builder.next_numbers, min(first, at + 1)
        builder.begin(*numbers[first])
        for at in range(first, len(jobs)):
            job = jobs[at] = self.of[ranks[at][-1]] = builder.again(jobs[at])
            numbers[at + 1] = builder.next_numbers
        return bool(built) or before != len(jobs) or first < len(jobs)


class _SingleJobs(_JobsInOrder[str]):
    """Jobs of pods that belong to no group, one each, in natural order of the names of pods."""

    def __init__(self) -> None:
        super().__init__()
        self._fresh: dict[str, Member] = {}  # by key of the pod: those that came or changed since they were numbered
        self._gone: set[str] = set()

    def take_note(self, before: Iterable[Member], now: Iterable[Member]) -> None:
        """Some of the pods are others now; who is in both lists has not changed."""
        last = {member.task.key: member for member in before}
        for member in now:
            if last.pop(member.task.key, None) is not member:
                self._fresh[member.task.key] = member
        self._gone |= last.keys()

    def number(self, builder: JobBuilder, build: Callable[[Member], Job]) -> list[Job]:
        """All of them, numbered from the builder's next numbers on."""
        gone, due = ([(natural(key), key) for key in keys] for keys in (self._gone - self._fresh.keys(), self._fresh))
        self.follow(builder, gone, due, lambda key: build(self._fresh[key]))
        self._fresh, self._gone = {}, set()
        return self.jobs


class JobCache:
    """The jobs of one task store.

    `alone` says of which namespaces a running pod of no group is a job too: its quota counts it, or it may be evicted.
    `quotas` says where a quota does: there a pod whose group is gone is one too, or its owner would free room by that.
    `trusts` says that the class of a podGroup counts as it is.
    """

    def __init__(
        self,
        priorities: Priorities,
        *,
        alone: Callable[[str], bool],
        quotas: Callable[[str], bool],
        trusts: bool = False,
    ) -> None:
        self.priorities = priorities
        self._trusts = trusts
        self._alone = alone
        self._quotas = quotas
        self._begun = False
        self._resized = False  # whether amounts are to be read again
        self._named: dict[Name, GroupKey] = {}  # the groups that names lead to
        self._groups: dict[GroupKey, _Declared] = {}
        self._of_path: dict[str, list[GroupKey]] = {}  # groups of one path, in whatever languages
        self._key_of: dict[Cohort, GroupKey] = {}
        self._jobs = _JobsInOrder[GroupKey]()
        self._unsettled: set[GroupKey] = set()  # those of them that are not settled
        self._in_order: list[Job] | None = None  # the same in order; None where they have to be sorted again
        self._faulty: set[GroupKey] = set()  # those that say what cannot be
        self._drawn: set[GroupKey] = set()  # those whose pods are drawn to others, wherever these are now
        self._loose: list[Cohort] = []  # cohorts of no group that exists, and those of other schedulers, in order
        self._lone = _SingleJobs()  # of pods that wait
        self._standing = _SingleJobs()  # of pods that run
        self._rest: dict[Cohort, tuple[int, _UngroupedPods]] = {}
        self._rest_versions: list[tuple[Cohort, int]] = []  # of the same, in order
        self._sorted_rest = _Rest.of([])

    def sort(self, builder: JobBuilder, store: TaskStore, groups: GroupReader, drawn: Drawn) -> SortedPods:
        """Every pod to its job, or to those that belong to none."""
        touched, moved = store.touched()
        first = {}
        if not self._begun:  # some that others were told of may be gone
            first = dict.fromkeys(groups.called())
            touched = set(store.cohorts())
        changed = groups.follow_pods(first | store.first_pods(touched))
        if not self._begun:
            self._begun, changed = True, set(groups.groups)
        self._follow(builder, store, groups, changed, touched, moved, drawn)
        jobs = self._jobs.jobs.copy()
        if self._in_order is None:
            self._in_order = sorted([self._jobs.of[key] for key in self._unsettled], key=_NUMBER)
        unsettled = self._in_order.copy()
        rest = self._sort_rest()
        lone = self._lone.number(builder, lambda member: builder.lone(member, lone_gather(member, drawn)))
        jobs += lone
        jobs += self._standing.number(builder, builder.standing)
        unsettled += lone
        return SortedPods(jobs, unsettled, rest.others, rest.orphans, rest.forsaken, self._faults())

    def resize(self) -> None:
        """There are other resources, or other limits of them: all amounts that jobs hold are read again."""
        self._resized = True

    def _faults(self) -> list[Fault]:
        found = (fault for key in self._faulty for fault in self._groups[key].group.faults)
        return sorted(found, key=lambda fault: natural(fault.subject))

    def _follow(
        self,
        builder: JobBuilder,
        store: TaskStore,
        groups: GroupReader,
        changed: Iterable[Name],
        touched: set[Cohort],
        moved: set[Cohort],
        drawn: Drawn,
    ) -> None:
        """Bring the jobs of groups up to date, and say which cohorts are theirs: by what has changed."""
        due = self._follow_groups(groups, changed, store, touched) | self._assign(groups, touched)
        due |= self._drawn
        follow = self._jobs.of.keys() if self._resized else {self._key_of[c] for c in moved if c in self._key_of}
        for key in follow - due:
            if not self._follow_states(builder, key):
                due.add(key)
        resized = self._resized
        self._resized = False
        gone = [key for key in due if key in self._groups and not self._groups[key].names]
        left = {self._rank_of(key, self._jobs.of[key]) for key in due if key in self._jobs.of}
        for key in gone:
            due |= self._leave(key)
        built = [self._rank_of(key, self._groups[key].group) for key in due.difference(gone)]
        build = partial(self._build, builder, drawn=drawn, resized=resized)
        if self._jobs.follow(builder, left.difference(built), built, build):
            self._in_order = None

    def _rank_of(self, key: GroupKey, made: Group | Job) -> tuple[Any, ...]:
        """By age first: all others keep their numbers when one comes."""
        return made.created, *self._groups[key].rank

    def _follow_groups(
        self, groups: GroupReader, changed: Iterable[Name], store: TaskStore, touched: set[Cohort]
    ) -> set[GroupKey]:
        """Groups that have come, gone or become others; pods that name one which came or went are touched by that."""
        due: set[GroupKey] = set()
        for name in changed:
            before = self._named.pop(name, None)
            group = groups.groups.get(name)
            now = (group.key, group.path) if group is not None else None
            if before is not None:
                self._groups[before].names.discard(name)
                due.add(before)
            if group is not None and now is not None:
                self._named[name] = now
                known = self._groups.get(now)
                if known is None:
                    rank = _LANGUAGE_RANKS[name[0]], natural(group.path), now
                    known = self._groups[now] = _Declared(rank, LANGUAGES[name[0]], group)
                    self._of_path.setdefault(group.path, []).append(now)
                    due.update(self._of_path[group.path])
                known.group = group
                known.names.add(name)
                due.add(now)
                (self._faulty.add if group.faults else self._faulty.discard)(now)
            if before != now:
                touched.update(store.naming(name))
        return due

    def _assign(self, groups: GroupReader, touched: set[Cohort]) -> set[GroupKey]:
        """Say whose pods cohorts hold that have changed: of the first group that exists of those that they name."""
        due: set[GroupKey] = set()
        for cohort in touched:
            before = self._key_of.pop(cohort, None)
            if before is not None:
                self._groups[before].cohorts.discard(cohort)
                due.add(before)
            group = next(filter(None, map(groups.find, cohort.names)), None) if cohort.members else None
            if group is not None:
                key = self._key_of[cohort] = (group.key, group.path)
                self._groups[key].cohorts.add(cohort)
                due.add(key)
        loose = {cohort for cohort in touched if cohort.members and not (cohort.ours and cohort in self._key_of)}
        if loose or not touched.isdisjoint(self._loose):
            self._loose = sorted(loose.union(c for c in self._loose if c not in touched), key=lambda c: c.order)
        return due

    def _leave(self, key: GroupKey) -> set[GroupKey]:
        """Forget a group that nothing declares any more; those of its path may have another key now."""
        del self._groups[key]
        self._unsettled.discard(key)
        self._drawn.discard(key)
        self._faulty.discard(key)
        others = self._of_path[key[1]]
        others.remove(key)
        if not others:
            del self._of_path[key[1]]
        return set(others)

    def _follow_states(self, builder: JobBuilder, key: GroupKey) -> bool:
        """Take over where the pods of a job stand now; false where the job must be built again."""
        declared = self._groups[key]
        last = self._jobs.of.get(key)
        if last is None:
            return False
        members = self._members(declared)
        group = declared.group
        part = declared.language.sub_group
        job = follow_group(builder, last, group, members, part, foreign=declared.foreign)
        if job is None:
            return False
        if self._resized:
            job = replace(job, min_resources=builder.least(group.min_resources))
        self._jobs.replace(key, job)
        if job.settled is (key in self._unsettled):
            (self._unsettled.discard if job.settled else self._unsettled.add)(key)
            self._in_order = None
        elif not job.settled and self._in_order is not None:
            self._in_order[bisect_left(self._in_order, job.number, key=_NUMBER)] = job
        return True

    def _members(self, declared: _Declared) -> list[Member]:
        """The pods of a group, as they count in its job."""
        members = _members([cohort for cohort in declared.cohorts if cohort.ours])
        if declared.language.joined is not None:
            return declared.language.joined(declared.group, members)
        return members

    def _build(self, builder: JobBuilder, key: GroupKey, *, drawn: Drawn, resized: bool) -> Job:
        declared = self._groups[key]
        last = self._jobs.of.get(key)
        group = declared.group
        language = declared.language
        members = self._members(declared)
        gathered = language.gathered(group, members, drawn) if language.gathered is not None else None
        if language.gathered is not None:
            selects = any(m.pod.metadata.annotations.get(SELECTOR) for m in members)
            (self._drawn.add if selects else self._drawn.discard)(key)
        same = last is not None and declared.built is not None and declared.built.min_resources == group.min_resources
        least = last.min_resources if same and last is not None and not resized else builder.least(group.min_resources)
        declared.built = group
        job = build_group(
            builder,
            group,
            members,
            self._priority(group.priority_class, members, group.priority),
            language.sub_group,
            shared=min(self._groups[other].rank for other in self._of_path[key[1]]) != declared.rank,
            foreign=declared.foreign,
            gathered=gathered,
            least=least,
        )
        (self._unsettled.discard if job.settled else self._unsettled.add)(key)
        return job

    def _priority(self, named: str, members: Sequence[Member], stated: int | None = None) -> int:
        """That of its class, at most what its pods were admitted with: every tenant may write a class into a podGroup.

        Pods without a priority of their own were not admitted by a server, as in a file, and say nothing about it.
        """
        if named or stated is not None:
            admitted = [m.pod.spec.priority for m in members if m.pod.spec.priority is not None]
            stated = self.priorities.of_class(named) if stated is None else stated
            if admitted and not self._trusts:
                return min(stated, max(admitted))
            return stated
        return max([m.task.shape.priority for m in members], default=self.priorities.of_class(""))

    def _sort_rest(self) -> _Rest:
        """The pods of cohorts that are no group's: what has not changed since the last time is kept."""
        versions = [(cohort, cohort.version) for cohort in self._loose]
        if versions != self._rest_versions:
            kept = {}
            for cohort, version in versions:
                before, last = self._rest.pop(cohort, (-1, _NOBODY))
                found = last if before == version else self._look_at(cohort)
                kept[cohort] = version, found
                if found is not last:
                    self._lone.take_note(last.lone, found.lone)
                    self._standing.take_note(last.standing, found.standing)
            for _, last in self._rest.values():
                self._lone.take_note(last.lone, ())
                self._standing.take_note(last.standing, ())
            self._rest = kept
            self._rest_versions = versions
            self._sorted_rest = _Rest.of([rest for _, rest in kept.values()])
        self._lone.take_note((), self._sorted_rest.drawn)
        return self._sorted_rest

    def _look_at(self, cohort: Cohort) -> _UngroupedPods:
        rest = _UngroupedPods([], [], [], [], {}, [])
        named = plain(cohort.names[0])[1] if cohort.names else ""
        in_volcano = any(language == VOLCANO for language, _ in cohort.names)
        for member in cohort.members.values():
            task = member.task
            counts = self._quotas if in_volcano else self._alone
            counted = cohort.ours and counts(member.pod.metadata.namespace or "default")
            if counted and task.status is Status.RUNNING:
                rest.standing.append(member)
            elif task.status in (Status.RUNNING, Status.RELEASING):
                rest.others.append(task)
            elif cohort.ours and named and task.status is Status.PENDING:
                rest.orphans[task.key] = Orphan(named, member.pod.metadata.annotations.get(NO_GROUP, ""))
                if task.nominated >= 0:
                    rest.forsaken.append(task.key)
            elif cohort.ours and not named and task.status in (Status.PENDING, Status.GATED):
                rest.lone.append(member)
                if member.pod.metadata.annotations.get(SELECTOR):
                    rest.drawn.append(member)
        return rest


def _members(cohorts: Sequence[Cohort]) -> list[Member]:
    return _merged([[*cohort.members.values()] for cohort in cohorts])


def _merged(lists: Sequence[list[Member]]) -> list[Member]:
    """Members in natural order of their names, from lists that are in that order."""
    full = [members for members in lists if members]
    if len(full) < 2:
        return full[0] if full else []
    return sorted(chain(*full), key=lambda member: natural(member.task.key))
