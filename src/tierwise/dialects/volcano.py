"""What Volcano's pod groups and queues mean in model words.

A pod belongs to the pod group that its annotation names; its role is its task name. Sub-groups follow the first
policy whose selector matches and whose label keys the pod all has; tasks that no policy takes form a sub-job of their
own. A pod of ours without a group is a job of one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from tierwise.api.core import Pod, ResourceList
from tierwise.api.duration import seconds
from tierwise.api.meta import ObjectMeta, Record, parse_time
from tierwise.api.natural import natural
from tierwise.api.pattern import PATTERN, Pattern, parse_pattern
from tierwise.api.quantity import amount
from tierwise.api.selector import matches
from tierwise.api.volcano import NetworkTopologySpec, PodGroup, Queue, SubGroupPolicy
from tierwise.dialects.elastic_quota import DEFAULT_QUEUE, Quotas
from tierwise.model.arrays import Ints
from tierwise.model.gather import Gather
from tierwise.model.job import Constraint, Job, Part, Phase, Policy, Status, SubJob, Task
from tierwise.model.queue import Queue as ModelQueue
from tierwise.model.resources import Axis
from tierwise.port import SUB_GROUPS_ANNOTATION

__all__ = ["GROUP_ANNOTATION", "Former", "JobBuilder", "Member", "formers", "group_of", "queue", "role_of", "spared"]

GROUP_ANNOTATION = "scheduling.k8s.io/group-name"
_ROLE = "volcano.sh/task-spec"
_INDEX = "volcano.sh/task-index"
_PREEMPTABLE = "volcano.sh/preemptable"
_QUEUE = "scheduling.volcano.sh/queue-name"
_HIERARCHY = "volcano.sh/hierarchy"
_HIERARCHY_WEIGHTS = "volcano.sh/hierarchy-weights"
_SLA = ("volcano.sh/sla-waiting-time", "sla-waiting-time")
_LONGEST = 128
_NOT_ASKED = ("limits.", "count/")  # quota spellings in minResources that no node has
_SAFE = "bcdfghjklmnpqrstvwxz2456789"
_READY = (Status.RUNNING, Status.SUCCEEDED)
_EXISTING = (Status.PENDING, Status.GATED, Status.RUNNING, Status.SUCCEEDED)


class Former(Record, frozen=True):
    """Where a sub-group was last placed, as its pod group remembers it."""

    hyper_node: str = ""
    tier: int = 0


_NOWHERE = Former()
_ALL_NEW: Mapping[str, Former] = {}


@dataclass(frozen=True, slots=True)
class Member:
    """A pod on its way into a job."""

    pod: Pod
    task: Task


def group_of(pod: Pod) -> str:
    """The pod group that a pod names, as namespace/name; empty where it names none."""
    name = pod.metadata.annotations.get(GROUP_ANNOTATION, "")
    return f"{pod.metadata.namespace or 'default'}/{name}" if name else ""


def role_of(pod: Pod) -> str:
    """The task that a pod is one of, by annotation, else by label."""
    return pod.metadata.annotations.get(_ROLE) or pod.metadata.labels.get(_ROLE, "")


def queue(record: Queue) -> ModelQueue:
    """A queue; it takes jobs unless its state says otherwise."""
    spec = record.spec
    guarantee = spec.guarantee.resource
    return ModelQueue(
        name=record.metadata.name,
        order=natural(record.metadata.name),
        weight=spec.weight if spec.weight is not None else 1,
        priority=spec.priority or 0,
        parent=spec.parent,
        open=record.status.state in ("", "Open", "Unknown"),
        reclaimable=spec.reclaimable is not False,
        capability={name: amount(name, q) for name, q in spec.capability.items()},
        deserved={name: amount(name, q) for name, q in spec.deserved.items()},
        guarantee={name: amount(name, q) for name, q in guarantee.items()},
        hierarchy=record.metadata.annotations.get(_HIERARCHY, ""),
        hierarchy_weights=record.metadata.annotations.get(_HIERARCHY_WEIGHTS, ""),
    )


def spared(meta: ObjectMeta) -> bool:
    """Whether an object is marked as not to be evicted; the annotation counts before the label, nonsense as a mark."""
    mark = meta.annotations.get(_PREEMPTABLE, meta.labels.get(_PREEMPTABLE))
    return mark is not None and mark.lower() not in ("true", "t", "1")


def _sla(meta: ObjectMeta) -> float | None:
    """How long a job may wait by its own word; a time that cannot be read, or is not positive, is none."""
    for key in _SLA:
        time = seconds(meta.annotations.get(key, ""))
        if time is not None and time > 0:
            return time
    return None


def _constraint(spec: NetworkTopologySpec | None) -> Constraint | None:
    if spec is None:
        return None
    return Constraint(spec.mode.lower() != "soft", spec.highest_tier_allowed, spec.highest_tier_name)


class JobBuilder:
    """Builds jobs and numbers them, their sub-jobs and their roles."""

    def __init__(self, axis: Axis, quotas: Quotas) -> None:
        self._axis = axis
        self._quotas = quotas
        self._jobs = 0
        self._subs = 0
        self._roles = 0

    def group(self, record: PodGroup, members: Sequence[Member], priority: int) -> Job:
        """The job of a pod group and its pods."""
        spec = record.spec
        key = f"{record.metadata.namespace or 'default'}/{record.metadata.name}"
        roles = self.roles(spec.min_task_member)
        policies = tuple(
            Policy(p.name, p.sub_group_size or 1, p.min_sub_groups or 0, _constraint(p.network_topology))
            for p in spec.sub_group_policy
        )
        owner = next((reference for reference in record.metadata.owner_references if reference.controller), None)
        return self.job(
            key=key,
            queue=spec.queue or "default",
            priority=priority,
            created=parse_time(record.metadata.creation_timestamp) if record.metadata.creation_timestamp else 0.0,
            phase=_phase(record.status.phase),
            minimum=spec.min_member or 0,
            roles={number: spec.min_task_member[name] for name, number in roles.items()},
            role_names={number: name for name, number in roles.items()},
            role_ready=self.ready_by_role(members, roles),
            constraint=_constraint(spec.network_topology),
            policies=policies,
            min_resources=self.least(spec.min_resources),
            spared=spared(record.metadata),
            sla=_sla(record.metadata),
            pattern=parse_pattern(record.metadata.annotations.get(PATTERN, "")),
            owner=owner.name if owner is not None else "",
            lone=owner is not None and owner.kind == "Pod",
            split=_split(key, spec.sub_group_policy, members),
            formers=formers(record.metadata),
            numbers=roles,
        )

    def roles(self, names: Iterable[str]) -> dict[str, int]:
        """Numbers for the roles of a job."""
        roles = {name: self._roles + i for i, name in enumerate(sorted(names))}
        self._roles += len(roles)
        return roles

    def ready_by_role(self, members: Sequence[Member], roles: Mapping[str, int]) -> dict[int, int]:
        """How many tasks of each numbered role count as ready."""
        ready: dict[int, int] = dict.fromkeys(roles.values(), 0)
        for member in members:
            if member.task.role in roles and _counts_ready(member.task):
                ready[roles[member.task.role]] += 1
        return ready

    def least(self, given: ResourceList | None) -> Ints | None:
        """The stated minimum; one that names a resource which nobody has is out of reach."""
        if not given:
            return None
        plain = {name.removeprefix("requests."): q for name, q in given.items() if not name.startswith(_NOT_ASKED)}
        amounts = {name: amount(name, q) for name, q in plain.items()}
        missing = any(number for name, number in amounts.items() if name not in self._axis.index)
        least = self._axis.vector({name: n for name, n in amounts.items() if name in self._axis.index})
        return np.full_like(least, 2**61) if missing else least

    def quota_of(self, members: Sequence[Member]) -> str:
        """The quota of a gang: that of its first pod, in which all of it is counted."""
        return self._quotas.of(members[0].pod) if members else DEFAULT_QUEUE

    def standing(self, member: Member) -> Job:
        """A running pod without a group, as a job of one; there may be very many, so it is made without detours."""
        task, meta = member.task, member.pod.metadata
        key = f"pod {task.key}"
        order, shape = natural(key), task.shape
        sub = SubJob(
            key=key,
            number=self._subs,
            job_number=self._jobs,
            policy=-1,
            minimum=1,
            constraint=None,
            match_index=0,
            order=order,
            priority=shape.priority,
            parts=(),
            total=1,
            request=shape.request,
            held=np.array([task.row] if task.row >= 0 else [], dtype=np.int64),
            ready=1,
            tasks=(task,),
        )
        job = Job(
            key=key,
            number=self._jobs,
            queue=meta.annotations.get(_QUEUE) or self._quotas.of(member.pod),
            priority=shape.priority,
            created=task.created,
            order=order,
            phase=Phase.RUNNING,
            declared=False,
            minimum=1,
            roles={},
            constraint=None,
            policies=(),
            min_resources=None,
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
        key = f"pod {member.task.key}"
        return self.job(
            key=key,
            queue=member.pod.metadata.annotations.get(_QUEUE) or self._quotas.of(member.pod),
            priority=member.task.shape.priority,
            created=parse_time(created) if created else 0.0,
            phase=Phase.INQUEUE,
            minimum=1,
            roles={},
            role_names={},
            role_ready={},
            constraint=None,
            policies=(),
            min_resources=None,
            split={key: (-1, 0, [member])},
            numbers={},
            lone=True,
            gather=gather,
        )

    def job(
        self,
        *,
        key: str,
        constraint: Constraint | None,
        policies: tuple[Policy, ...],
        minimum: int,
        split: dict[str, tuple[int, int, list[Member]]],
        numbers: dict[str, int],
        formers: Mapping[str, Former] = _ALL_NEW,
        pattern: Pattern | None = None,
        **rest: object,
    ) -> Job:
        """A job of members that are split into sub-jobs: by key of each, its policy, match index and members."""
        number = self._jobs
        self._jobs += 1
        effortless: list[tuple[int, Part]] = []
        subs: list[SubJob] = []
        for sub_key, (policy, index, members) in sorted(split.items(), key=lambda item: natural(item[0])):
            own = constraint if policy < 0 else policies[policy].constraint
            least = policies[policy].size if policy >= 0 else (1 if policies else minimum)
            if policies and policy < 0 and not members:
                continue
            parts = _parts(members, numbers, effort=True)
            for part in _parts(members, numbers, effort=False):
                effortless.append((len(subs), part))
            subs.append(
                SubJob(
                    key=sub_key,
                    number=self._subs,
                    job_number=number,
                    policy=policy,
                    minimum=least,
                    constraint=own,
                    match_index=index,
                    order=natural(sub_key),
                    priority=max((m.task.shape.priority for m in members), default=0),
                    parts=parts,
                    total=sum(m.task.status in _EXISTING for m in members),
                    request=_request(members, len(self._axis)),
                    held=_held(members),
                    ready=sum(_counts_ready(m.task) for m in members),
                    tasks=tuple(m.task for m in members),
                    former=formers.get(sub_key.removeprefix(f"{key}/"), _NOWHERE).hyper_node,
                )
            )
            self._subs += 1
        return Job(
            key=key,
            number=number,
            order=natural(key),
            declared=not key.startswith("pod "),
            minimum=minimum,
            constraint=constraint,
            policies=policies,
            subs=tuple(subs),
            tasks=tuple(m.task for _, _, members in split.values() for m in members),
            effortless=tuple(effortless),
            scheduler=next((m.task.shape.scheduler for _, _, members in split.values() for m in members), ""),
            pattern=pattern,
            ranks=_ranks(split) if pattern is not None else {},
            **rest,  # type: ignore[arg-type]
        )


def formers(meta: ObjectMeta) -> dict[str, Former]:
    """Where the sub-groups of a pod group were last placed; what cannot be read is forgotten."""
    try:
        found = msgspec.json.decode(meta.annotations.get(SUB_GROUPS_ANNOTATION, "{}"), type=dict[str, Former])
    except msgspec.DecodeError:
        return {}
    return found


def _counts_ready(task: Task) -> bool:
    """Pending best-effort tasks count as ready: Volcano counts them so, and backfill places them later."""
    return task.status in _READY or (task.status is Status.PENDING and task.shape.best_effort)


def _phase(text: str) -> Phase:
    return next((phase for phase in Phase if phase.value == text), Phase.PENDING)


def _split(
    key: str, policies: Sequence[SubGroupPolicy], members: Sequence[Member]
) -> dict[str, tuple[int, int, list[Member]]]:
    """Sub-job key -> (policy, match index, members); the tasks that no policy takes stand under the job's own key."""
    found: dict[str, tuple[int, int, list[Member]]] = {key: (-1, 0, [])}
    for member in members:
        labels = member.pod.metadata.labels
        for i, policy in enumerate(policies):
            values = [labels.get(k, "") for k in policy.match_label_keys]
            if values and all(values) and matches(policy.label_selector, labels, absent=True):
                sub = f"{key}/{policy.name}-{_joined(values)}"
                index = int(values[0]) if values[0].isdigit() else 0
                found.setdefault(sub, (i, index, []))[2].append(member)
                break
        else:
            found[key][2].append(member)
    return found


def _joined(values: list[str]) -> str:
    """Label values as part of a name; long ones as a 32-bit FNV-1a hash in letters that form no words."""
    text = "-".join(values)
    if len(text) <= _LONGEST:
        return text
    number = 2166136261
    for byte in text.encode():
        number = (number ^ byte) * 16777619 % 2**32
    return "".join(_SAFE[ord(digit) % len(_SAFE)] for digit in str(number))


def _parts(members: Sequence[Member], numbers: dict[str, int], *, effort: bool) -> tuple[Part, ...]:
    """Pending tasks by shape and role, in rank order: by task index, else by name."""
    pending = [m for m in members if m.task.status is Status.PENDING and m.task.shape.best_effort is not effort]
    pending.sort(key=lambda m: natural(m.task.key))
    groups: dict[tuple[int, str], list[Member]] = {}
    for member in pending:
        groups.setdefault((member.task.shape.number, member.task.role), []).append(member)
    return tuple(
        Part(
            shape=group[0].task.shape,
            role=role,
            role_number=numbers.get(role, -1),
            tasks=tuple(m.task for m in sorted(group, key=_rank)),
        )
        for (_, role), group in groups.items()
    )


def _ranks(split: dict[str, tuple[int, int, list[Member]]]) -> dict[str, int]:
    """The rank of each task: sub-job by sub-job, role by role, then by task index, else by name."""
    ordered = [
        member.task.key
        for _, (_, _, members) in sorted(split.items(), key=lambda item: natural(item[0]))
        for member in sorted(members, key=lambda m: (natural(m.task.role), _rank(m), natural(m.task.key)))
    ]
    return {key: rank for rank, key in enumerate(ordered)}


def _rank(member: Member) -> tuple[int, bool, int]:
    """By the rank that a dialect gave the task, else by task index; those without one keep the order of names."""
    meta = member.pod.metadata
    index = meta.labels.get(_INDEX) or meta.annotations.get(_INDEX, "")
    return (member.task.rank, not index.isdigit(), int(index) if index.isdigit() else 0)


def _request(members: Sequence[Member], resources: int) -> Ints:
    """Of all tasks that exist, whatever they are doing."""
    total = np.zeros(resources, dtype=np.int64)
    counts: dict[int, list[Task]] = {}
    for member in members:
        if member.task.status in _EXISTING:
            counts.setdefault(member.task.shape.number, []).append(member.task)
    for tasks in counts.values():
        total += tasks[0].shape.request * len(tasks)
    return total


def _held(members: Sequence[Member]) -> Ints:
    rows = [m.task.row for m in members if m.task.status is Status.RUNNING and m.task.row >= 0]
    return np.array(sorted(rows), dtype=np.int64)
