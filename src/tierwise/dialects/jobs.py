"""Build jobs from their pods, in any dialect: numbers, sub-jobs, pod sets in rank order.

Dialects say how the pods of a job are divided and what its minimums are; the arrays and pod sets are built here.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter, methodcaller
from typing import Final, NamedTuple, TypeVar

import msgspec
import numpy as np
from msgspec.structs import force_setattr, replace

from tierwise.api.core import Pod, ResourceList, parse_time, read_number
from tierwise.api.eviction_terms import EvictionTerms, parse_terms
from tierwise.api.expected_start import EXPECTED_START, parse_expected_start
from tierwise.api.hold import held
from tierwise.api.ladder import FORM, LADDER, LadderStep, parse_ladder
from tierwise.api.limits import PODS, POLICIES
from tierwise.api.natural import natural
from tierwise.api.pattern import RANK, RANKS
from tierwise.api.plurals import several
from tierwise.api.quantity import amount
from tierwise.api.repair import RepairTerms, parse_repair
from tierwise.api.reservation import RESERVATION, parse_reservation
from tierwise.api.sizes import SIZES, parse_sizes
from tierwise.dialects.compute_domains import ONE_CLIQUE, joined
from tierwise.dialects.elastic_quota import DEFAULT_QUEUE, Quotas, forbearing
from tierwise.dialects.pod_marks import place_of, queue_of
from tierwise.model.arrays import MOST, Axis, Ints
from tierwise.model.job import Constraint, Gather, Job, Phase, PodSet, Policy, Reason, Status, SubJob, Task
from tierwise.model.job_counts import EXISTING, READY, counted, rank_key, with_tasks
from tierwise.port import lone_gang

__all__ = ["JobBuilder", "Member", "Split"]

_NOT_ASKED = ("limits.", "count/")  # quota spellings in minResources that no node has
_ALL_NEW: Mapping[str, str] = {}
_TWO_LEVELS: Mapping[str, int] = {}
_NO_MARKS: Mapping[str, str] = {}


_Record = TypeVar("_Record", bound=msgspec.Struct)


class Member(msgspec.Struct, frozen=True, gc=False):
    """A pod on its way into a job."""

    pod: Pod
    task: Task


Split = dict[str, tuple[int, int, list[Member]]]
"""By key of each sub-job: its policy, or -1 for none, its match index, and its members."""


class JobBuilder:
    """Builds jobs and numbers them, their sub-jobs and their roles."""

    def __init__(self, axis: Axis, quotas: Quotas, domains: Mapping[str, str] = _ALL_NEW) -> None:
        """`domains` are the ComputeDomains that pods join, by the template of claims that makes them."""
        self._axis = axis
        self._domains = domains
        self._quotas = quotas
        self._jobs = 0
        self._subs = 0
        self._roles = 0

    def begin(self, job: int = 0, sub: int = 0, role: int = 0) -> None:
        """Give these numbers to the next job, sub-job and role, and count on from there."""
        self._jobs = job
        self._subs = sub
        self._roles = role

    @property
    def next_numbers(self) -> tuple[int, int, int]:
        """Those of the next job, sub-job and role."""
        return self._jobs, self._subs, self._roles

    def roles(self, names: Iterable[str]) -> dict[str, int]:
        """Numbers for the roles of a job."""
        roles = {name: self._roles + i for i, name in enumerate(sorted(names))}
        self._roles += len(roles)
        return roles

    def again(self, job: Job) -> Job:
        """A job that was built before, under the numbers that are next now."""
        number = self._jobs
        first = self._subs
        shift = 0
        if job.role_names:
            shift = self._roles - min(job.role_names)
        self._jobs += 1
        self._subs += len(job.subs)
        self._roles += len(job.role_names)
        if job.number == number and not shift and (not job.subs or job.subs[0].number == first):
            return job
        if not shift:
            return _numbered(job, number, first)
        subs = [
            _copied(sub, number=first + i, job_number=number, pod_sets=_shifted(sub.pod_sets, shift))
            if sub.pod_sets
            else _copied(sub, number=first + i, job_number=number)
            for i, sub in enumerate(job.subs)
        ]
        best_effort = job.best_effort_pod_sets
        roles, names, ready = {}, {}, {}  # many jobs get new numbers whenever one goes: no calls for each of these
        for role, least in job.roles.items():
            roles[role + shift] = least
        for role, name in job.role_names.items():
            names[role + shift] = name
        for role, count in job.role_ready.items():
            ready[role + shift] = count
        return _copied(
            job,
            number=number,
            subs=tuple(subs),
            best_effort_pod_sets=tuple([(i, *_shifted((pod_set,), shift)) for i, pod_set in best_effort]),
            roles=roles,
            role_names=names,
            role_ready=ready,
        )

    def moved(self, job: Job, members: Sequence[Member], *, forbears: str) -> Job | None:
        """A job whose pods are what they were, but for their nodes and states; under the same numbers.

        None where its ranks depend on who runs, or where something is wrong with it: its object has to be read again.
        """
        if job.ranks or job.unsupported:
            return None
        said = _sentences(members, forbears)
        if len(job.subs) == 1 and job.subs[0].tasks is job.tasks:  # as of most: no looking for them by name
            tasks = tuple([member.task for member in members])
            made = replace(job, subs=(replace(job.subs[0], tasks=tasks),), tasks=tasks, **said)
            return counted(made, len(self._axis))
        return with_tasks(replace(job, **said), {member.task.key: member.task for member in members}, len(self._axis))

    def least(self, given: ResourceList | None) -> Ints | None:
        """The stated minimum, a negative one as none; one that names a resource which no node has is out of reach."""
        if not given:
            return None
        plain = {}
        for name, q in given.items():
            if not name.startswith(_NOT_ASKED):
                plain[name.removeprefix("requests.")] = q
        amounts = {name: max(0, min(amount(name, q), MOST)) for name, q in plain.items()}
        missing = any(number for name, number in amounts.items() if name not in self._axis.index)
        least = self._axis.vector({name: n for name, n in amounts.items() if name in self._axis.index})
        return np.full_like(least, MOST) if missing else least

    def queue(self, name: str, namespace: str, members: Sequence[Member] = ()) -> str:
        """The queue that an object of a namespace, with these pods, means by a name."""
        return self._quotas.queue(name, namespace, members[0].pod if members else None)

    def queue_of(self, pod: Pod) -> str:
        """The queue of a pod without a group: the one that it names, else its quota."""
        named = queue_of(pod)
        namespace = pod.metadata.namespace or "default"
        if named:
            return self._quotas.queue(named, namespace, pod)
        return self._quotas.of(pod)

    def quota_of(self, members: Sequence[Member]) -> str:
        """The quota of a gang: that of its first pod, in which all of it is counted."""
        if members:
            return self._quotas.of(members[0].pod)
        return DEFAULT_QUEUE

    def standing(self, member: Member) -> Job:
        """A running pod without a group, as a job of one; there may be very many, so it is made without detours."""
        task = member.task
        key = lone_gang(task.key)
        order = natural(key)
        shape = task.shape
        sub = SubJob(
            key=key,
            number=self._subs,
            job_number=self._jobs,
            minimum=1,
            order=order,
            priority=shape.priority,
            total=1,
            request=shape.request,
            held=np.array([task.node] if task.node >= 0 else [], dtype=np.int64),
            ready=1,
            tasks=(task,),
        )
        job = Job(
            key=key,
            number=self._jobs,
            queue=self.queue_of(member.pod),
            priority=shape.priority,
            created=task.created,
            order=order,
            phase=Phase.RUNNING,
            declared=False,
            minimum=1,
            subs=(sub,),
            tasks=(task,),
            scheduler=shape.scheduler,
        )
        self._jobs += 1
        self._subs += 1
        return job

    def lone(self, member: Member, gather: Gather | None = None) -> Job:
        """A pod without a group: a gang of one."""
        created = member.pod.metadata.creation_timestamp
        key = lone_gang(member.task.key)
        draft = Job(
            key=key,
            number=-1,
            queue=self.queue_of(member.pod),
            priority=member.task.shape.priority,
            created=parse_time(created) if created else 0.0,
            order=natural(key),
            phase=Phase.INQUEUE,
            declared=False,
            minimum=1,
            lone=True,
            gather=gather,
        )
        return self.job(draft, {key: (-1, 0, [member])})

    def job(
        self,
        draft: Job,
        split: Split,
        *,
        previous: Mapping[str, str] = _ALL_NEW,
        parents: Mapping[str, int] = _TWO_LEVELS,
        marks: Mapping[str, str] = _NO_MARKS,
        forbears: str = "",
    ) -> Job:
        """A job as it is declared (`draft`, without number and parts), of members that are split into sub-jobs.

        `previous` are the domains that these were last in, `parents` the inner groups that they are parts of, `marks`
        the annotations of the object that declares it.
        """
        if self._domains and draft.constraint is None and not any(policy.constraint for policy in draft.policies):
            draft, split = self._in_cliques(draft, split)
        all_marks = {**_first_marks(split), **marks}  # those of the first pod count where its object says nothing
        ladder, bad_ladder = _ladder(all_marks.get(LADDER))
        terms, bad_terms = _eviction_terms(all_marks)
        repair, bad_repair = _repair_terms(all_marks)
        if ladder and draft.constraint is None:
            draft = replace(draft, constraint=Constraint(hard=False))  # or no plugin would look for a close place
        draft, bad_sizes = _in_sizes(draft, all_marks.get(SIZES))
        ranks, world_size = _ranks(split) if draft.pattern is not None or repair is not None else ({}, 0)
        beyond = _beyond(draft.minimum, draft.policies)
        minimum = min(draft.minimum, PODS)
        subs = self._sub_jobs(draft, minimum, split, previous, parents)
        number = self._jobs
        self._jobs += 1
        self._subs += len(subs)
        everyone: list[Member] = []
        for _, _, members in split.values():
            everyone.extend(members)
        sentences = _sentences(everyone, forbears)
        sentences["unsupported"] = beyond or sentences["unsupported"]
        unreadable = bad_repair or bad_terms or bad_ladder or bad_sizes
        job = replace(
            draft,
            number=number,
            minimum=minimum,
            subs=subs,
            tasks=subs[0].tasks if len(subs) == len(split) == 1 else tuple([member.task for member in everyone]),
            scheduler=everyone[0].task.shape.scheduler if everyone else "",
            ranks=ranks,
            world_size=world_size,
            terms=terms,
            repair=repair,
            ladder=ladder,
            expected_start=parse_expected_start(marks[EXPECTED_START]) if EXPECTED_START in marks else None,
            reserved=parse_reservation(marks[RESERVATION]) if RESERVATION in marks else None,
            refusal=draft.refusal or unreadable or _on_hold(held(all_marks)),
            **sentences,
        )
        return counted(job, len(self._axis))

    def _sub_jobs(
        self, draft: Job, minimum: int, split: Split, previous: Mapping[str, str], parents: Mapping[str, int]
    ) -> tuple[SubJob, ...]:
        """The sub-jobs of the next job in natural order of their keys, numbered on from those of earlier jobs.

        A sub-job without members that is no part of a policy is left out where the job has policies.
        """
        policies = draft.policies
        beside = _Needs(1 if policies else minimum, draft.constraint, draft.further)
        # The last one is for pods of no policy, whose number is -1.
        needs = [*(_Needs(policy.size, policy.constraint, policy.further) for policy in policies), beside]
        subs: list[SubJob] = []
        for key, (policy, index, members) in sorted(split.items(), key=lambda item: natural(item[0])):
            if not members and policy < 0 and policies:
                continue
            fields = needs[policy]
            subs.append(
                SubJob(
                    key=key,
                    number=self._subs + len(subs),
                    job_number=self._jobs,
                    policy=policy,
                    minimum=fields.minimum,
                    constraint=fields.constraint,
                    match_index=index,
                    order=natural(key),
                    priority=max([member.task.shape.priority for member in members], default=0),
                    tasks=tuple([member.task for member in members]),
                    previous_domain=previous.get(key, ""),
                    path=key.removeprefix(f"{draft.key}/") if key in parents else "",
                    inner_group=parents.get(key, -1),
                    further=fields.further,
                )
            )
        return tuple(subs)

    def _in_cliques(self, draft: Job, split: Split) -> tuple[Job, Split]:
        """A job whose pods join ComputeDomains, each of which is to stay in one clique.

        Where all of them join one, that is the limit of the job. Else the pods of each domain are a sub-group with that
        limit, and the others are free: a launcher that joins none must not hold the workers back. A job with sub-groups
        of its own keeps them, and those that join are confined.
        """
        domains = {name: {joined(m.pod, self._domains) for m in own[2]} for name, own in split.items()}
        every = set().union(*domains.values())
        if every <= {""}:
            return draft, split
        if len(every) == 1:
            return replace(draft, constraint=ONE_CLIQUE), split
        if draft.policies:
            return _confined_policies(draft, split, domains), split
        ((index, number, members),) = split.values()
        found: Split = {draft.key: (index, number, [m for m in members if not joined(m.pod, self._domains)])}
        policies: list[Policy] = []
        for domain in sorted(every - {""}, key=natural):
            inside = [m for m in members if joined(m.pod, self._domains) == domain]
            least = max(1, len(inside) - max(0, len(members) - draft.minimum))
            name = domain.partition("/")[2]
            found[f"{draft.key}/{name}"] = len(policies), 0, inside
            policies.append(Policy(name, least, 1, ONE_CLIQUE))
        return replace(draft, policies=tuple(policies)), found


class _Needs(NamedTuple):
    """What a sub-job needs at least, and how close its pods must be."""

    minimum: int
    constraint: Constraint | None
    further: tuple[Constraint, ...]


def _eviction_terms(marks: Mapping[str, str]) -> tuple[EvictionTerms | None, Reason | None]:
    """The terms on which a gang is evicted, None without any; and why they cannot be read."""
    terms = parse_terms(marks)
    if isinstance(terms, str):
        return None, Reason("InvalidEvictionTerms", "pod", terms)
    return terms, None


def _repair_terms(marks: Mapping[str, str]) -> tuple[RepairTerms | None, Reason | None]:
    """What a gang wants when it loses nodes, None without a wish; and why that cannot be read."""
    repair = parse_repair(marks)
    if isinstance(repair, str):
        return None, Reason("InvalidRepairTerms", "pod", repair)
    return repair, None


def _confined_policies(draft: Job, split: Split, domains: Mapping[str, set[str]]) -> Job:
    """Sub-groups whose pods join one domain each, in cliques; a sub-group that joins in part waits, and says so."""
    asked: dict[int, set[bool]] = {}
    for name, (policy, _, members) in split.items():
        if members:
            asked.setdefault(policy, set()).add(domains[name] != {""})
        if members and len(domains[name]) > 1:
            text = (
                f"the pods of {draft.part_names.of(name)} {name} join several ComputeDomains, or some of them join none"
            )
            return replace(draft, refusal=draft.refusal or Reason("NotSupported", "pod", text))
    policies = [
        replace(policy, constraint=ONE_CLIQUE) if asked.get(number) == {True} else policy
        for number, policy in enumerate(draft.policies)
    ]
    if any(len(found) > 1 for found in asked.values()) or asked.get(-1) == {True}:
        text = f"{several(draft.part_names.part)} that are alike, or pods beside them, join ComputeDomains in part"
        return replace(draft, refusal=draft.refusal or Reason("NotSupported", "pod", text))
    return replace(draft, policies=tuple(policies))


def _on_hold(why: str) -> Reason | None:
    if why:
        return Reason("Held", "hold", f"it is held: {why}")
    return None


def _sentences(members: Sequence[Member], forbears: str) -> dict[str, str]:
    """What keeps the pending tasks of a job from starting, and what says that it causes no evictions."""
    pending = Status.PENDING  # found once: in Python 3.11 that takes longer than all else about a member
    waiting = [member for member in members if member.task.status is pending]
    if not waiting:
        return {"unsupported": "", "unready": "", "never_preempts": forbears}
    return {
        "unsupported": _first_sentence(waiting, attrgetter("unsupported")),
        "unready": _first_sentence(waiting, attrgetter("unready")),
        "never_preempts": forbears or next(filter(None, (forbearing(m.pod.metadata) for m in waiting)), ""),
    }


def _ladder(text: str | None) -> tuple[tuple[LadderStep, ...], Reason | None]:
    """The steps for which a gang holds out, as it says; and why they cannot be read."""
    if text is None:
        return (), None
    found = parse_ladder(text)
    if found is None:
        return (), Reason("InvalidLadder", "pod", f'annotation {LADDER}: "{text}" has not {FORM}')
    return found, None


def _in_sizes(draft: Job, text: str | None) -> tuple[Job, Reason | None]:
    """A gang of listed sizes, of which the least that its minimum allows is its minimum; and why it cannot be one."""
    if text is None:
        return draft, None
    sizes = parse_sizes(text)
    if isinstance(sizes, str):
        return draft, Reason("InvalidSizes", "pod", sizes)
    if draft.shape.parted or draft.shape.gated:
        parts = several(draft.part_names.part)
        roles = several(draft.part_names.role)
        why = f"the gang has {parts} or minimums of {roles}, and sizes are for one number of pods"
        return draft, Reason("NotSupported", "pod", f"annotation {SIZES} is not supported: {why}")
    enough = tuple(size for size in sizes if size >= draft.minimum)
    if not enough:
        text = f"annotation {SIZES}: its largest size, {sizes[-1]}, is below its minimum of {draft.minimum}"
        return draft, Reason("InvalidSizes", "pod", text)
    return replace(draft, sizes=enough, minimum=enough[0], roles={}, together=True), None


def _first_marks(split: Split) -> Mapping[str, str]:
    """The annotations of a job's first pod."""
    first = next((member.pod for _, _, members in split.values() for member in members), None)
    if first is not None:
        return first.metadata.annotations
    return _NO_MARKS


def _beyond(minimum: int, policies: Sequence[Policy]) -> str:
    """What of a gang is beyond the limits that admission holds others to."""
    if minimum > PODS:
        return f"a minimum of {minimum} pods is more than the {PODS} that a gang may have"
    if len(policies) > POLICIES:
        return f"{len(policies)} sub-group policies are more than the {POLICIES} that a podGroup may have"
    return ""


def _first_sentence(pending: Sequence[Member], of: Callable[[Task], str]) -> str:
    """What keeps the first pending task that something keeps; in a gang, with the name of its pod."""
    first = min((m.task for m in pending if of(m.task)), key=lambda task: natural(task.key), default=None)
    if first is None:
        return ""
    if len(pending) == 1:
        return of(first)
    return f"pod {first.key}: {of(first)}"


def _shifted(pod_sets: tuple[PodSet, ...], shift: int) -> tuple[PodSet, ...]:
    """The parts with other numbers of their roles."""
    return tuple([_copied(p, role_number=p.role_number + shift) if p.role_number >= 0 else p for p in pod_sets])


def _copied(record: _Record, **fields: object) -> _Record:
    """As `replace`, in a third of the time: most jobs of a cluster get other numbers whenever one comes or goes.

    The copy is not shared yet, and what it takes over was checked when the first one was made.
    """
    made: _Record = _COPIED(record)
    for name, value in fields.items():
        force_setattr(made, name, value)
    return made


_COPIED: Final = methodcaller("__copy__")  # what `copy` calls, without looking for it


def _numbered(job: Job, number: int, first: int) -> Job:
    """A copy of a job without roles, numbered anew.

    It takes half the time of the general way, and most jobs have no roles.
    """
    made: Job = _COPIED(job)
    subs = []
    for sub in job.subs:
        own = _COPIED(sub)
        force_setattr(own, "number", first)
        force_setattr(own, "job_number", number)
        subs.append(own)
        first += 1
    force_setattr(made, "number", number)
    force_setattr(made, "subs", tuple(subs))
    if "shape" in job.__dict__:
        made.__dict__["shape"] = job.shape  # there are no numbers in it
    return made


def _ranks(split: Split) -> tuple[dict[str, int], int]:
    """The rank of each task, and how many ranks there are: sub-job by sub-job, role by role, then by task index, else
    by name. Where tasks run that have ranks already, these are kept, and others get those that are left.
    """
    ordered = [
        (sub_key, member)
        for sub_key, (_, _, members) in sorted(split.items(), key=lambda item: natural(item[0]))
        for member in sorted(members, key=lambda m: (natural(m.task.role), rank_key(m.task), natural(m.task.key)))
    ]
    known, size = _known_ranks(ordered)
    if not known:
        return {member.task.key: rank for rank, (_, member) in enumerate(ordered)}, len(ordered)
    ranks = dict(known)
    taken = set(known.values())
    first = _first_ranks(ordered, known)
    unranked: list[str] = []
    for sub_key, member in ordered:
        if member.task.key in known or member.task.status not in EXISTING:
            continue
        place = place_of(member.pod)
        start = first.get((sub_key, member.task.role, place[0])) if place is not None else None
        rank = start + place[1] if place is not None and start is not None else -1
        if 0 <= rank < PODS and rank not in taken:
            ranks[member.task.key] = rank
            taken.add(rank)
        else:
            unranked.append(member.task.key)
    free = (rank for rank in itertools.count() if rank not in taken)
    ranks |= dict(zip(unranked, free, strict=False))
    whole = max(ranks.values()) < len(ranks)
    size = len(ranks) if whole else max(size, max(ranks.values()) + 1)
    gone = (member.task.key for _, member in ordered if member.task.key not in ranks)
    return ranks | dict.fromkeys(gone, size - 1), size


def _known_ranks(ordered: Sequence[tuple[str, Member]]) -> tuple[dict[str, int], int]:
    """The ranks that running tasks were told with their nodes, and of how many; none where two were told the same."""
    known: dict[str, int] = {}
    size = 0
    for _, member in ordered:
        marks = member.pod.metadata.annotations
        rank = read_number(marks.get(RANK, "")) if member.task.status in READY else None
        if rank is not None and 0 <= rank < PODS:
            known[member.task.key] = rank
            size = max(size, min(read_number(marks.get(RANKS, "")) or 0, PODS))
    if len(set(known.values())) == len(known):
        return (known, size)
    return ({}, 0)


def _first_ranks(ordered: Sequence[tuple[str, Member]], known: Mapping[str, int]) -> dict[tuple[str, str, str], int]:
    """By sub-job, role and part: the rank of the task with index 0, as those that run tell."""
    found: dict[tuple[str, str, str], int] = {}
    for sub_key, member in ordered:
        place = place_of(member.pod)
        if place is not None and member.task.key in known:
            found.setdefault((sub_key, member.task.role, place[0]), known[member.task.key] - place[1])
    return found
