"""A gang as any language declares it (`Group`), and the job that it becomes.

Dialects read their objects into a `Group`; what that means for scheduling is defined here once, so the same gang in two
languages is the same job. A group is a tree: sub-groups have minimums and constraints of their own, and may have
sub-groups. Where two levels say the same, the job has two, with a policy for sub-groups that are alike; otherwise it is
nested, and its inner groups count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from tierwise.api.core import Pod, ResourceList
from tierwise.api.limits import PODS
from tierwise.api.meta import ObjectMeta, parse_time
from tierwise.api.natural import natural
from tierwise.api.pattern import PATTERN, parse_pattern
from tierwise.api.plurals import verb
from tierwise.dialects.fabrics import FabricMarks, read_marks
from tierwise.dialects.jobs import JobBuilder, Member, Split
from tierwise.dialects.koordinator.elastic_quota import forbearing
from tierwise.dialects.volcano.annotations import not_preemptable
from tierwise.model.job import Constraint, InnerGroup, Job, Phase, Policy, Status
from tierwise.model.reason import Reason
from tierwise.model.topology import HYPERNODES, is_fabric
from tierwise.port import Key

__all__ = ["Group", "SubGroup", "build_group", "created", "not_supported", "smallest"]

_NOTHING: Mapping[str, str] = {}
_ROLES = 32
"""Roles that a job has at most; more sub-groups than that stay sub-groups."""


class SubGroup(msgspec.Struct, frozen=True):
    """A part of a group: so many pods of it start together, near each other as its constraint has it."""

    name: str
    minimum: int
    constraint: Constraint | None = None
    sub_groups: tuple[SubGroup, ...] = ()
    min_sub_groups: int | None = None  # how many of them must be whole; None stands for all
    further: tuple[Constraint, ...] = ()  # constraints on other trees


class Group(msgspec.Struct, frozen=True):
    """What a language says of a gang."""

    key: Key  # the object that declares it
    minimum: int  # pods that must start together
    name: str = ""  # as namespace/name, where one object declares several groups
    phase: Phase = Phase.PENDING
    created: float = 0.0
    annotations: Mapping[str, str] = _NOTHING
    constraint: Constraint | None = None
    sub_groups: tuple[SubGroup, ...] = ()
    min_sub_groups: int | None = None  # how many of them must be whole; None stands for all
    min_resources: ResourceList | None = None
    queue: str = ""  # "": the one that its pods name, else their quota
    priority_class: str = ""
    priority: int | None = None  # as its object states it
    forbears: str = ""  # what says that it causes no evictions
    together: bool = False  # evicting one of its pods evicts all of them
    spared: bool = False  # it is not to be evicted
    spared_from: int | None = None  # the priority from which on it is not, where it does not say
    uniform: bool = False  # its pods must have one scheduler and one priority
    refusal: Reason | None = None  # why it has to wait, whatever room there is

    @property
    def path(self) -> str:
        """What people call it: namespace/name."""
        return self.name or self.key.path

    @property
    def meta(self) -> ObjectMeta:
        """Its marks, as functions look for them that know objects alone."""
        return ObjectMeta(name=self.key.name, namespace=self.key.namespace, annotations=dict(self.annotations))


def created(meta: ObjectMeta) -> float:
    """When an object came to be; 0 where it does not say."""
    return parse_time(meta.creation_timestamp) if meta.creation_timestamp else 0.0


def smallest(sub_groups: Sequence[SubGroup], number: int | None) -> int:
    """How many pods so many of these sub-groups need at least; None stands for all of them."""
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
) -> Job:
    """The job of a group and its pods.

    `shared` says that a group of another language has the same name, `foreign` that pods of it are another scheduler's.
    """
    key = f"{group.key.kind}.{group.key.group} {group.path}" if shared else group.path
    marks = (
        read_marks(group.annotations, _kind(group), _names(group.sub_groups)) if group.annotations else FabricMarks()
    )
    subs = tuple(_on_fabrics(sub, marks) for sub in group.sub_groups)
    constraint = marks.own(group.constraint)
    tree = _flattened(SubGroup("", group.minimum, constraint, subs, group.min_sub_groups))
    fault = _missing(tree, "")
    policies, index = _policies(tree) if fault is None else ((), {})
    inner_groups, parents = _inner_groups(tree) if index and _nested(tree, policies) else ((), {})
    outer = {name: inner_groups[number].path for name, number in parents.items()}
    paths = {name: f"{outer[name]}/{name}" if outer.get(name) else name for name in index}
    if inner_groups:
        policies = tuple(replace(policy, minimum=0) for policy in policies)
    least = _as_roles(policies, index) if not inner_groups else {}
    if least:
        policies, index = (), {}
        members = [Member(m.pod, replace(m.task, role=sub_group(m.pod))) for m in members]
    numbers = builder.roles(least)
    refusal = group.refusal or marks.refusal or fault or (_mixed(members, foreign=foreign) if group.uniform else None)
    return builder.job(
        key=key,
        queue=_queue(builder, group, members),
        priority=priority,
        created=group.created,
        phase=group.phase,
        minimum=group.minimum,
        roles={number: least[name] for name, number in numbers.items()},
        role_names={number: name for name, number in numbers.items()},
        constraint=constraint,
        further=marks.whole,
        policies=policies,
        min_resources=builder.least(group.min_resources),
        not_preemptable=group.spared or _important(group, priority) or not_preemptable(group.meta),
        forbears=group.forbears or forbearing(group.meta),
        pattern=parse_pattern(group.annotations.get(PATTERN, "")),
        marks=group.annotations,
        split=_split(key, index, paths, members, sub_group),
        numbers=numbers,
        refusal=refusal,
        together=group.together,
        language=group.key.group,
        declared_by=group.key,
        inner_groups=inner_groups,
        parents={f"{key}/{paths[name]}": number for name, number in parents.items()},
    )


def _kind(group: Group) -> str:
    """The kind of tree that the group's language speaks of."""
    return group.constraint.kind if group.constraint is not None else HYPERNODES


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


def _important(group: Group, priority: int) -> bool:
    return group.spared_from is not None and priority >= group.spared_from


def _queue(builder: JobBuilder, group: Group, members: Sequence[Member]) -> str:
    if group.queue:
        return builder.queue(group.queue, group.key.namespace)
    return builder.queue_of(members[0].pod) if members else builder.queue("default", group.key.namespace)


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


def _missing(group: SubGroup, path: str) -> Reason | None:
    """That a group needs more parts than exist, or that can be whole; the innermost one that is in the way is named."""
    if group.min_sub_groups is None or (path and not group.sub_groups):
        found = (_missing(part, f"{path}/{part.name}") for part in group.sub_groups)
        return next((reason for reason in found if reason is not None), None)
    faults = [_missing(part, f"{path}/{part.name}") for part in group.sub_groups]
    if len(faults) - sum(fault is not None for fault in faults) >= group.min_sub_groups:
        return None
    whose = f"the groups of {path[1:]}" if path else "its groups"
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
    found: Split = {key: (-1, 0, [])}
    places = {name: i for i, name in enumerate(sorted(index, key=natural))}
    for member in members:
        name = sub_group(member.pod) if index else ""
        if name in index:
            found.setdefault(f"{key}/{paths[name]}", (index[name], places[name], []))[2].append(member)
        else:
            found[key][2].append(member)
    return found
