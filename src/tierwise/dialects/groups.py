"""A gang as any language declares it (`Group`), and the job that it becomes.

Dialects read their objects into a `Group`; what that means for scheduling is defined here once, so the same gang in two
languages is the same job. A group is a tree: sub-groups have minimums and constraints of their own, and may have
sub-groups. Where two levels say the same, the job has two, with a policy for sub-groups that are alike; otherwise it is
nested, and its inner groups count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from tierwise.api.core import ObjectMeta, OwnerReference, Pod, ResourceList, parse_time, read_number
from tierwise.api.fabric import CONSTRAINTS, FABRIC
from tierwise.api.koordinator import GatherSpec
from tierwise.api.limits import PODS
from tierwise.api.natural import natural
from tierwise.api.own_keys import labels_said_by_jobs, said_by_jobs
from tierwise.api.pattern import PATTERN, parse_pattern
from tierwise.api.plurals import several, verb
from tierwise.api.selector import matches
from tierwise.api.volcano import NetworkTopologySpec, SubGroupPolicy
from tierwise.dialects.fabrics import FabricMarks, read_marks
from tierwise.dialects.jobs import JobBuilder, Member, Split
from tierwise.dialects.pod_marks import PREEMPTABLE, marked_not_preemptable
from tierwise.model.arrays import Ints
from tierwise.model.job import Constraint, Gather, InnerGroup, Job, Phase, Policy, Reason, SetMember, SetRule, Status
from tierwise.model.part_names import PART_NAMES, PartNames, joint_word
from tierwise.model.snapshot import Fault
from tierwise.model.topology import HYPERNODES, LABELS, is_fabric
from tierwise.port import Key

__all__ = [
    "GangPart",
    "Gathered",
    "Group",
    "SubGroup",
    "build_group",
    "created",
    "follow_group",
    "gang_minimums",
    "group_marks",
    "handed_on",
    "joint_marks",
    "not_supported",
    "smallest",
    "tier_limit",
]

_NOTHING: Mapping[str, str] = {}
_NO_ROLES: Mapping[str, int] = {}
_LONGEST = 128
_SAFE = "bcdfghjklmnpqrstvwxz2456789"
_ROLES = 32
"""Roles that a job has at most; more sub-groups than that stay sub-groups."""


class SubGroup(msgspec.Struct, frozen=True):
    """A part of a group: so many pods of it start together, near each other as its constraint has it."""

    name: str
    minimum: int
    constraint: Constraint | None = None
    sub_groups: tuple[SubGroup, ...] = ()
    min_sub_groups: int | None = None  # how many of them must be whole; None means all
    further: tuple[Constraint, ...] = ()  # constraints on other trees


class GangPart(msgspec.Struct, frozen=True):
    """A gang of Koordinator's, which may be one of several that start together."""

    key: str  # namespace/name
    minimum: int | None  # None where nothing says how many pods it needs
    only_waiting: bool = False  # pods that run do not count towards the minimum


class Gathered(msgspec.Struct, frozen=True):
    """What a gang with gangs of Koordinator's asks of the network."""

    gather: Gather | None
    constraint: Constraint | None
    further: tuple[Constraint, ...] = ()
    refusal: Reason | None = None


class Group(msgspec.Struct, frozen=True):
    """What a language says of a gang."""

    key: Key  # the object that declares it
    minimum: int  # pods that must start together
    name: str = ""  # as namespace/name, where one object declares several groups
    phase: Phase = Phase.PENDING
    created: float = 0.0
    marks: Mapping[str, str] = _NOTHING  # annotations of its object, and labels that count as such
    constraint: Constraint | None = None
    sub_groups: tuple[SubGroup, ...] = ()
    min_sub_groups: int | None = None  # how many of them must be whole; None means all
    min_resources: ResourceList | None = None
    queue: str = ""  # "": the one that its pods name, else their quota
    priority_class: str = ""
    priority: int | None = None  # as its object states it
    forbears: str = ""  # what says that it causes no evictions
    together: bool = False  # evicting one of its pods evicts all of them
    protected: bool = False  # it is not to be evicted
    protected_from: int | None = None  # the priority from which on it is not, where it does not say
    uniform: bool = False  # its pods must have one scheduler and one priority
    refusal: Reason | None = None  # why it has to wait, whatever room there is
    faults: tuple[Fault, ...] = ()  # what it says of other groups and cannot be
    member: SetMember | None = None  # the set that its language puts it into, by its path, unless it says another
    labels: Mapping[str, str] = _NOTHING  # by which rules of other gangs may mean it
    predecessor: str = ""  # the path of the gang whose place it takes over
    part_names: PartNames = PART_NAMES  # how the language calls its parts
    keyless: bool = False  # its job does not carry the key of its object, which its own key or its gangs tell
    # Volcano's:
    roles: Mapping[str, int] = _NO_ROLES  # the least of each
    policies: tuple[SubGroupPolicy, ...] = ()  # sub-groups that pods name by values of their labels
    apart: Mapping[str, tuple[SetRule, ...]] = {}  # by policy, how its sub-groups keep apart, besides annotations
    previous: Mapping[str, str] = _NOTHING  # by sub-group, the domain that it was last in
    owner: OwnerReference | None = None  # the object that it was made for
    sla: float | None = None  # seconds that it may wait at most
    awaits: Mapping[str, tuple[str, ...]] = {}  # by role, those that must run before its tasks are made
    # Koordinator's:
    gangs: tuple[GangPart, ...] = ()  # those that start together
    missing: tuple[str, ...] = ()  # those of them that do not exist
    satisfied: bool = False  # it had its minimum once, and what is missing may come pod by pod
    asks: GatherSpec | None = None  # what it wants of the network
    fault: str = ""  # why what it says cannot be read

    @property
    def path(self) -> str:
        """What people call it: namespace/name."""
        return self.name or self.key.path


def group_marks(meta: ObjectMeta) -> Mapping[str, str]:
    """Annotations of an object that declares a gang, with those of its labels that count as annotations.

    Of two fabrics the label counts, of two marks that say whether the gang may be evicted the annotation.
    """
    labels = {key: value for key, value in meta.labels.items() if key.startswith(FABRIC) and value}
    if PREEMPTABLE in meta.labels and PREEMPTABLE not in meta.annotations:
        labels[PREEMPTABLE] = meta.labels[PREEMPTABLE]
    if labels:
        return {**meta.annotations, **labels}
    return meta.annotations


def handed_on(labels: Mapping[str, str], annotations: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """What a workload says for its job, as labels and annotations of the group that is made for it.

    What it says by a label stays one: groups, and pods, are read for both.
    """
    known = labels_said_by_jobs()
    said = {key: value for key, value in annotations.items() if key.startswith("volcano.sh/") or said_by_jobs(key)}
    by_label = {key: value for key, value in labels.items() if key in known or key.startswith(FABRIC)}
    return {"labels": by_label, "annotations": said}


def joint_marks(metas: Sequence[ObjectMeta], *, fabrics: bool = True) -> Mapping[str, str]:
    """Marks of several objects that declare one gang together: those of the first, and what jobs say in the others.

    Of those who say something of one kind the first counts. Without `fabrics` constraints of the others are left out:
    they are about a part of the gang.
    """
    marks = group_marks(metas[0])
    for meta in metas[1:]:
        said = {key: value for key, value in group_marks(meta).items() if said_by_jobs(key)}
        if not fabrics:
            said = {key: value for key, value in said.items() if key != CONSTRAINTS and not key.startswith(FABRIC)}
        if said:
            marks = {**said, **marks}
    return marks


def created(meta: ObjectMeta) -> float:
    """When an object came to be; 0 where it does not say."""
    if meta.creation_timestamp:
        return parse_time(meta.creation_timestamp)
    return 0.0


def smallest(sub_groups: Sequence[SubGroup], number: int | None) -> int:
    """How many pods so many of these sub-groups need at least; None means all of them."""
    return sum(sorted(sub.minimum for sub in sub_groups)[:number])


def not_supported(field: str, why: str) -> Reason:
    """That a field of a group asks for something which cannot be honoured."""
    return Reason("NotSupported", "pod", f"{field} is not supported: {why}")


def build_group(
    builder: JobBuilder,
    group: Group,
    members: Sequence[Member],
    priority: int,
    sub_group: Callable[[Pod], str],
    *,
    shared: bool,
    foreign: bool = False,
    gathered: Gathered | None = None,
    least: Ints | None = None,
) -> Job:
    """The job of a group and its pods; of a group of gangs that start together, `members` have these as their roles.

    `shared` says that a group of another language has the same name, `foreign` that pods of it are another scheduler's.
    `least` is what the builder makes of its minResources.
    """
    marks = _marks(group)
    constraint = gathered.constraint if gathered is not None else marks.own(group.constraint)
    further = gathered.further if gathered is not None else marks.whole
    member = _member(group, marks.member)
    constraint, further = _within_set(constraint, further, member)
    tree = _tree(group, constraint, marks)
    fault = _missing(tree, "", group.part_names)
    gangs = group.gangs if shared or len(group.gangs) > 1 else ()
    if gangs:
        members = _in_gangs(group, members)
    roles = gang_minimums(group, members) if gangs else group.roles
    parts = _parts(tree) if fault is None else _NO_PARTS
    if not roles and not parts.inner_groups:
        roles = _as_roles(parts.policies, parts.policy_of)
        if roles:
            parts = _NO_PARTS
            members = with_roles(members, sub_group)
    key = _shared_key(group) if shared else group.path
    policies = parts.policies
    if group.policies:
        policies, split = _labelled(key, group, marks, members)
    else:
        split = _split(key, parts.policy_of, parts.paths, members, sub_group)
    refusal = _refusal(group, marks, fault, members, foreign=foreign)
    numbers = builder.roles(roles)
    draft = Job(
        key=key,
        number=-1,
        queue=_queue(builder, group, members),
        priority=priority,
        created=group.created,
        order=_order(key, group.owner),
        phase=group.phase,
        declared=True,
        minimum=sum(gang_minimums(group, members).values()) if group.gangs else group.minimum,
        roles={number: roles[name] for name, number in numbers.items()},
        role_names={number: name for name, number in numbers.items()},
        constraint=constraint,
        further=further,
        policies=policies,
        min_resources=least,
        not_preemptable=_protected(group, priority),
        sla=group.sla,
        pattern=parse_pattern(group.marks[PATTERN]) if PATTERN in group.marks else None,
        owner=group.owner.name if group.owner is not None else "",
        predecessor=group.predecessor,
        lone=group.owner is not None and group.owner.kind == "Pod",
        refusal=gathered.refusal if gathered is not None else refusal,
        together=group.together,
        language=group.key.group,
        declared_by=None if group.keyless else group.key,
        inner_groups=parts.inner_groups,
        gather=gathered.gather if gathered is not None else None,
        gangs=tuple(gang.key for gang in gangs),
        missing=group.missing,
        satisfied=group.satisfied,
        awaits=dict(group.awaits),
        member=member,
        labels=group.labels,
        part_names=group.part_names,
    )
    return builder.job(
        draft,
        split,
        previous={f"{key}/{sub}": domain for sub, domain in group.previous.items()},
        parents={f"{key}/{parts.paths[name]}": number for name, number in parts.parents.items()},
        marks=group.marks,
        forbears=group.forbears,
    )


def _marks(group: Group) -> FabricMarks:
    """The fabrics, further constraints and sets that the annotations of a group name."""
    if not group.marks:
        return FabricMarks()
    names = [policy.name for policy in group.policies] or _names(group.sub_groups)
    return read_marks(group.marks, _kind(group), names, group.part_names)


def _tree(group: Group, constraint: Constraint | None, marks: FabricMarks) -> SubGroup:
    """The group as the root of its sub-groups."""
    subs = tuple(_on_fabrics(sub, marks) for sub in group.sub_groups)
    return _flattened(SubGroup("", group.minimum, constraint, subs, group.min_sub_groups))


class _Parts(NamedTuple):
    """The sub-groups of a group as policies, and the inner groups between these and the group."""

    policies: tuple[Policy, ...]
    policy_of: Mapping[str, int]  # by name of a sub-group
    inner_groups: tuple[InnerGroup, ...]
    parents: Mapping[str, int]  # by name of a sub-group: the number of the inner group that it is a part of
    paths: Mapping[str, str]  # by name of a sub-group: its name below that of its inner group


_NO_PARTS = _Parts((), {}, (), {}, {})


def _parts(tree: SubGroup) -> _Parts:
    """The parts of a tree of sub-groups; policies below inner groups have no minimum of their own."""
    policies, index = _policies(tree)
    if not index or not _nested(tree, policies):
        return _Parts(policies, index, (), {}, {name: name for name in index})
    inner_groups, parents = _inner_groups(tree)
    outer = {name: inner_groups[number].path for name, number in parents.items()}
    paths = {name: f"{outer[name]}/{name}" if outer.get(name) else name for name in index}
    return _Parts(tuple(replace(policy, minimum=0) for policy in policies), index, inner_groups, parents, paths)


def _refusal(
    group: Group, marks: FabricMarks, fault: Reason | None, members: Sequence[Member], *, foreign: bool
) -> Reason | None:
    """Why a group cannot be scheduled as it is declared; None if it can."""
    refusal = group.refusal or marks.refusal or fault
    if refusal is None and group.uniform:
        refusal = _mixed(members, foreign=foreign)
    if refusal is None and marks.apart and not group.policies:
        why = f"{several(group.part_names.part)} stand apart by a subGroupPolicy, and this group has none"
        return not_supported(f"annotation {CONSTRAINTS}: apart", why)
    return refusal


def _member(group: Group, said: SetMember | None) -> SetMember | None:
    """A part of a set of its namespace: as the marks of a group say, else as its language does.

    Rules of its language that mean gangs by their labels hold in any case.
    """
    own = group.member
    member = said or own
    if member is None:
        return None
    by_labels = [rule for rule in own.rules if rule.among is not None] if own is not None and said is not None else []
    namespace = group.path.partition("/")[0]
    rules = tuple(_of_namespace(rule, namespace, group.key.group) for rule in (*member.rules, *by_labels))
    return replace(member, set=f"{namespace}/{member.set}" if member.set else "", rules=rules)


def _of_namespace(rule: SetRule, namespace: str, language: str) -> SetRule:
    """A rule about a set of a namespace; one that labels mean is of one language, too."""
    return replace(rule, set=f"{namespace}{f' {language}' if rule.among is not None else ''}/{rule.set}")


def _within_set(
    constraint: Constraint | None, further: tuple[Constraint, ...], member: SetMember | None
) -> tuple[Constraint | None, tuple[Constraint, ...]]:
    """The constraints of a gang whose set stays together: what holds for all parts of it holds for each.

    A narrower tree of the same kind is left to `network-topology-aware`, which takes the tighter tier of both.
    """
    for rule in member.rules if member is not None else ():
        own = rule.constraint
        if rule.apart or not own.hard:
            continue
        if constraint is None or (not constraint.hard and constraint.kind == own.kind):
            constraint = own
        elif own.kind != constraint.kind or (own.kind == LABELS and own.tier_name != constraint.tier_name):
            further = (*further, own) if own not in further else further
    return constraint, further


def follow_group(
    builder: JobBuilder,
    job: Job,
    group: Group,
    members: Sequence[Member],
    sub_group: Callable[[Pod], str],
    *,
    foreign: bool,
) -> Job | None:
    """The job of a group whose pods are what they were, but for their nodes and states; None where it is to be built.

    That is so where states decide about more than who waits.
    """
    if any(gang.only_waiting for gang in group.gangs):
        return None
    if group.uniform and (job.refusal is not None or _mixed(members, foreign=foreign) is not None):
        return None
    if job.role_names and not group.roles:
        members = _in_gangs(group, members) if group.gangs else with_roles(members, sub_group)
    return builder.moved(job, members, forbears=group.forbears)


def with_roles(members: Sequence[Member], role: Callable[[Pod], str]) -> list[Member]:
    """Members with the roles that their pods have in a job."""
    return [Member(m.pod, replace(m.task, role=role(m.pod))) for m in members]


def _shared_key(group: Group) -> str:
    """The key of a job whose path a group of another language has."""
    if group.gangs:
        return f"gang {group.path}"
    return f"{group.key.kind}.{group.key.group} {group.path}"


def _in_gangs(group: Group, members: Sequence[Member]) -> Sequence[Member]:
    """Members of a job in which gangs are roles; of several gangs they have them already."""
    if len(group.gangs) == 1:
        return with_roles(members, lambda pod: group.gangs[0].key)
    return members


def gang_minimums(group: Group, members: Sequence[Member]) -> dict[str, int]:
    """How many pods of each gang must be placed; where only waiting ones count, as many again as run already."""
    found = {}
    for gang in group.gangs:
        own = [m.task.status for m in members if len(group.gangs) == 1 or m.task.role == gang.key]
        found[gang.key] = len(own) + 1 if gang.minimum is None else gang.minimum
        if gang.only_waiting and Status.PENDING in own:
            found[gang.key] += own.count(Status.RUNNING) + own.count(Status.SUCCEEDED)
    return found


def _order(key: str, owner: OwnerReference | None) -> tuple[object, ...]:
    """The natural order of its name; a group that was made is named by a uid, and so takes the place of its owner."""
    namespace, _, name = key.partition("/")
    if owner is not None and name == f"podgroup-{owner.uid}":
        key = f"{namespace}/{owner.name} {name}"
    return natural(key)


def _labelled(
    key: str, group: Group, marks: FabricMarks, members: Sequence[Member]
) -> tuple[tuple[Policy, ...], Split]:
    """Sub-groups by policy and label values; the tasks that no policy takes are under the job's own key.

    A policy without keys has no values to tell sub-groups apart, so all tasks that it selects are one.
    """
    policies = tuple(
        Policy(
            p.name,
            p.sub_group_size or 1,
            p.min_sub_groups or 0,
            marks.own(tier_limit(p.network_topology), p.name),
            marks.of(p.name),
            (*marks.apart.get(p.name, ()), *group.apart.get(p.name, ())),
        )
        for p in group.policies
    )
    found: Split = {key: (-1, 0, [])}
    for member in members:
        labels = member.pod.metadata.labels
        for i, policy in enumerate(group.policies):
            values = [labels.get(k, "") for k in policy.match_label_keys]
            if all(values) and matches(policy.label_selector, labels, absent=True):
                sub = f"{key}/{policy.name}-{_joined(values)}"
                index = read_number(values[0]) or 0 if values else 0
                found.setdefault(sub, (i, index, []))[2].append(member)
                break
        else:
            found[key][2].append(member)
    return policies, found


def _joined(values: list[str]) -> str:
    """Label values as part of a name; long ones as a 32-bit FNV-1a hash in letters that form no words."""
    text = "-".join(values)
    if len(text) <= _LONGEST:
        return text
    number = 2166136261
    for byte in text.encode():
        number = (number ^ byte) * 16777619 % 2**32
    return "".join(_SAFE[ord(digit) % len(_SAFE)] for digit in str(number))


def tier_limit(spec: NetworkTopologySpec | None) -> Constraint | None:
    """A constraint in Volcano's words."""
    if spec is None:
        return None
    return Constraint(spec.mode.lower() != "soft", spec.highest_tier_allowed, spec.highest_tier_name)


def _kind(group: Group) -> str:
    """The kind of tree that the group's language speaks of."""
    if group.constraint is not None:
        return group.constraint.kind
    return HYPERNODES


def _names(sub_groups: Sequence[SubGroup]) -> list[str]:
    return [name for sub in sub_groups for name in (sub.name, *_names(sub.sub_groups))]


def _on_fabrics(sub: SubGroup, marks: FabricMarks) -> SubGroup:
    """A sub-group with its constraints on the trees that the marks of its group name; its own marks count before."""
    own = sub.constraint
    if own is not None and not is_fabric(own.kind):
        own = marks.own(own, sub.name)
    return replace(
        sub,
        constraint=own,
        further=(*sub.further, *marks.of(sub.name)),
        sub_groups=tuple(_on_fabrics(inner, marks) for inner in sub.sub_groups),
    )


def _mixed(members: Sequence[Member], *, foreign: bool) -> Reason | None:
    """Pods of one group that differ in what the language wants to be the same."""
    waiting = [m for m in members if m.task.status in (Status.PENDING, Status.GATED, Status.RUNNING)]
    if foreign or len({m.pod.spec.scheduler_name for m in waiting}) > 1:
        return Reason("InvalidGroup", "pod", "its pods name several schedulers, and a group must have one")
    levels = sorted({m.task.shape.priority for m in waiting})
    if len(levels) > 1:
        text = f"its pods have several priorities, from {levels[0]} to {levels[-1]}, and a group must have one"
        return Reason("InvalidGroup", "pod", text)
    return None


def _protected(group: Group, priority: int) -> bool:
    """Whether the gang is not to be evicted: as its language says, by its mark, or because of its priority."""
    important = group.protected_from is not None and priority >= group.protected_from
    return group.protected or important or marked_not_preemptable(group.marks.get(PREEMPTABLE))


def _queue(builder: JobBuilder, group: Group, members: Sequence[Member]) -> str:
    if group.gangs:
        return builder.quota_of(members)
    if group.queue:
        return builder.queue(group.queue, group.key.namespace, members)
    if members:
        return builder.queue_of(members[0].pod)
    return builder.queue("default", group.key.namespace)


def _flattened(group: SubGroup) -> SubGroup:
    """The group without levels that ask for nothing themselves: one that has no constraint and needs all its parts is
    its parts, where all of it is needed.
    """
    parts: list[SubGroup] = []
    for part in map(_flattened, group.sub_groups):
        bare = part.constraint is None and not part.further
        dissolves = part.sub_groups and bare and _needs_all(part) and _needs_all(group)
        parts += part.sub_groups if dissolves else (part,)
    number = None if _needs_all(group) else group.min_sub_groups
    return replace(group, sub_groups=tuple(parts), min_sub_groups=number)


def _needs_all(group: SubGroup) -> bool:
    return group.min_sub_groups is None or group.min_sub_groups == len(group.sub_groups)


def _missing(group: SubGroup, path: str, names: PartNames) -> Reason | None:
    """That a group needs more parts than exist, or that can be whole; the innermost one that is in the way is named."""
    if group.min_sub_groups is None or (path and not group.sub_groups):
        found = (_missing(part, f"{path}/{part.name}", names) for part in group.sub_groups)
        return next((reason for reason in found if reason is not None), None)
    faults = [_missing(part, f"{path}/{part.name}", names) for part in group.sub_groups]
    if len(faults) - sum(fault is not None for fault in faults) >= group.min_sub_groups:
        return None
    words = several(joint_word(names.group if part.sub_groups else names.of(part.name) for part in group.sub_groups))
    whose = f"the {words} of {path[1:]}" if path else f"its {words}"
    there = f"{len(faults)} {verb(len(faults), 'exists', 'exist')}"
    text = f"{group.min_sub_groups} of {whose} must start together, and {there}"
    return next(filter(None, faults), None) or Reason("PodGroupNotFound", "pod", text)


def _policies(tree: SubGroup) -> tuple[tuple[Policy, ...], dict[str, int]]:
    """A policy for each kind of innermost sub-groups that are alike, and the policy of each of these by its name."""
    alike: dict[tuple[int, Constraint | None, tuple[Constraint, ...]], list[SubGroup]] = {}
    for sub in sorted(_innermost(tree), key=lambda sub: natural(sub.name)):
        limit = replace(sub.constraint, preferred="") if sub.constraint is not None else None
        alike.setdefault((min(sub.minimum, PODS), limit, sub.further), []).append(sub)
    policies: list[Policy] = []
    index: dict[str, int] = {}
    for (size, _, further), subs in alike.items():
        least = len(subs) if tree.min_sub_groups is None else min(tree.min_sub_groups, len(subs))
        least = least if size else 0  # nothing is needed of them, not even that they exist
        index |= {sub.name: len(policies) for sub in subs}
        policies.append(Policy(subs[0].name, size, least, subs[0].constraint, further))
    return tuple(policies), index


def _innermost(group: SubGroup) -> Iterator[SubGroup]:
    for part in group.sub_groups:
        yield from _innermost(part) if part.sub_groups else (part,)


def _nested(tree: SubGroup, policies: Sequence[Policy]) -> bool:
    """Whether two levels cannot hold the groups: there are more of them, or some of unlike ones may be left out."""
    chooses = tree.min_sub_groups is not None and len(policies) > 1
    return chooses or any(part.sub_groups for part in tree.sub_groups)


def _inner_groups(tree: SubGroup) -> tuple[tuple[InnerGroup, ...], dict[str, int]]:
    """The groups of groups in preorder, the tree itself first, and the one that each innermost sub-group is in."""
    found: list[InnerGroup] = []
    parents: dict[str, int] = {}
    work = [(tree, "", -1)]
    while work:
        group, path, parent = work.pop()
        number = len(found)
        needed = len(group.sub_groups) if group.min_sub_groups is None else group.min_sub_groups
        needed = max(needed - sum(not part.sub_groups and not part.minimum for part in group.sub_groups), 0)
        pods = min(smallest(group.sub_groups, group.min_sub_groups), PODS)
        found.append(InnerGroup(path, parent, needed, pods, group.constraint, group.further))
        parents |= {part.name: number for part in group.sub_groups if not part.sub_groups}
        inside = (part for part in reversed(group.sub_groups) if part.sub_groups)
        work += ((part, f"{path}/{part.name}" if path else part.name, number) for part in inside)
    return tuple(found), parents


def _as_roles(policies: Sequence[Policy], index: Mapping[str, int]) -> dict[str, int]:
    """Sub-groups by name with their minimums, where these are all that they ask for: such ones are roles of one group.

    Roles can be placed on any tree, and near each other; none where a sub-group has a place of its own, or may be
    missing.
    """
    if len(index) > _ROLES or any(policy.constraint is not None or policy.further for policy in policies):
        return {}
    if sum(policy.minimum for policy in policies) < sum(policies[number].size > 0 for number in index.values()):
        return {}
    return {name: policies[policy].size for name, policy in index.items()}


def _split(
    key: str,
    index: Mapping[str, int],
    paths: Mapping[str, str],
    members: Sequence[Member],
    sub_group: Callable[[Pod], str],
) -> Split:
    """By sub-group, in the order of their names, not every language having another; the rest under the job's key."""
    if not index:
        return {key: (-1, 0, [*members])}
    found: Split = {key: (-1, 0, [])}
    places = {name: i for i, name in enumerate(sorted(index, key=natural))}
    for member in members:
        name = sub_group(member.pod)
        if name in index:
            found.setdefault(f"{key}/{paths[name]}", (index[name], places[name], []))[2].append(member)
        else:
            found[key][2].append(member)
    return found
