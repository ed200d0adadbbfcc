"""A gang as any language declares it (`Group`), and the job that it becomes.

Dialects read their objects into a `Group`; what that means for scheduling is defined here once, so the same gang in two
languages is the same job. A group is a tree: sub-groups have minimums and constraints of their own, and may have
sub-groups. Jobs have two levels; a group that needs more, or a mixture of sub-groups that two levels cannot represent,
waits with a message that names the field.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from tierwise.api.core import Pod, ResourceList
from tierwise.api.limits import PODS
from tierwise.api.meta import ObjectMeta, parse_time
from tierwise.api.natural import natural
from tierwise.api.pattern import PATTERN, parse_pattern
from tierwise.dialects.jobs import JobBuilder, Member, Split
from tierwise.dialects.koordinator.elastic_quota import forbearing
from tierwise.dialects.volcano.annotations import not_preemptable
from tierwise.model.job import Constraint, Job, Phase, Policy, Status
from tierwise.model.reason import Reason
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
    forbears: bool = False  # it causes no evictions
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
    policies, index, fault = _policies(group)
    least = _as_roles(policies, index) if fault is None else {}
    if least:
        policies, index = (), {}
        members = [Member(m.pod, replace(m.task, role=sub_group(m.pod))) for m in members]
    numbers = builder.roles(least)
    refusal = group.refusal or fault or (_mixed(members, foreign=foreign) if group.uniform else None)
    return builder.job(
        key=key,
        queue=_queue(builder, group, members),
        priority=priority,
        created=group.created,
        phase=group.phase,
        minimum=group.minimum,
        roles={number: least[name] for name, number in numbers.items()},
        role_names={number: name for name, number in numbers.items()},
        role_ready=builder.ready_by_role(members, numbers),
        constraint=group.constraint,
        policies=policies,
        min_resources=builder.least(group.min_resources),
        not_preemptable=group.spared or _important(group, priority) or not_preemptable(group.meta),
        forbears=group.forbears or forbearing(group.meta),
        pattern=parse_pattern(group.annotations.get(PATTERN, "")),
        split=_split(key, index, members, sub_group),
        numbers=numbers,
        refusal=refusal,
        together=group.together,
        declared_by=group.key,
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


def _policies(group: Group) -> tuple[tuple[Policy, ...], dict[str, int], Reason | None]:
    """The sub-groups as policies, the policy of each by its name, and why two levels cannot hold them.

    A policy is a number of sub-groups that are alike. Where all of them must be whole each may be a policy of its own;
    where some may be left out they must be alike, for a policy cannot choose among others.
    """
    every, least = _flattened(group)
    nested = next((sub for sub in every if sub.sub_groups), None)
    if nested is not None:
        text = f"sub-group {nested.name} has sub-groups of its own, and jobs have two levels"
        return (), {}, not_supported("more than two levels of groups", text)
    if least > len(every):
        text = f"{least} of its groups must start together, and {len(every)} exist"
        return (), {}, Reason("PodGroupNotFound", "pod", text)
    alike: dict[tuple[int, Constraint | None], list[SubGroup]] = {}
    for sub in sorted(every, key=lambda sub: natural(sub.name)):
        alike.setdefault((min(sub.minimum, PODS), sub.constraint), []).append(sub)
    if least < len(every) and len(alike) > 1:
        text = f"{least} of {len(every)} sub-groups that differ in size or constraint"
        return (), {}, not_supported(text, "a choice is made among sub-groups that are alike")
    policies: list[Policy] = []
    index: dict[str, int] = {}
    for (size, constraint), subs in alike.items():
        index |= {sub.name: len(policies) for sub in subs}
        policies.append(Policy(subs[0].name, size, min(least, len(subs)), constraint))
    return tuple(policies), index, None


def _as_roles(policies: Sequence[Policy], index: Mapping[str, int]) -> dict[str, int]:
    """Sub-groups by name with their minimums, where these are all that they ask for: such ones are roles of one group.

    Roles can be placed on any tree, and near each other; none where a sub-group has a place of its own, or may be
    missing.
    """
    number = len(index)
    if number > _ROLES or any(policy.constraint is not None for policy in policies):
        return {}
    if sum(policy.minimum for policy in policies) < number:
        return {}
    return {name: policies[policy].size for name, policy in index.items()}


def _flattened(group: Group) -> tuple[tuple[SubGroup, ...], int]:
    """The sub-groups and how many of them must be whole, without levels that ask for nothing themselves.

    Where all must be whole, a sub-group that has no constraint and needs all its parts is its parts.
    """
    least = len(group.sub_groups) if group.min_sub_groups is None else group.min_sub_groups
    if least != len(group.sub_groups):
        return group.sub_groups, least
    found: list[SubGroup] = []
    work = list(reversed(group.sub_groups))
    while work:
        sub = work.pop()
        whole = sub.min_sub_groups is None or sub.min_sub_groups == len(sub.sub_groups)
        if sub.sub_groups and sub.constraint is None and whole:
            work += reversed(sub.sub_groups)
        else:
            found.append(sub)
    return tuple(found), len(found)


def _split(key: str, index: Mapping[str, int], members: Sequence[Member], sub_group: Callable[[Pod], str]) -> Split:
    """By sub-group, in the order of their names, not every language having another; the rest under the job's key."""
    found: Split = {key: (-1, 0, [])}
    places = {name: i for i, name in enumerate(sorted(index, key=natural))}
    for member in members:
        name = sub_group(member.pod) if index else ""
        if name in index:
            found.setdefault(f"{key}/{name}", (index[name], places[name], []))[2].append(member)
        else:
            found[key][2].append(member)
    return found
