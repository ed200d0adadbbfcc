"""The pod group of a job: its minimums and its topology.

Called by the job controller. Owns the spec fields that follow from the job, and leaves all other fields and the status
alone. A job that wants no pods has no pod group, and a restarted job gets a new one, so that it is queued like any
other.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from operator import is_
from typing import Final

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.api.quantity import LARGEST, amount, show
from tierwise.api.volcano import Job, JobSpec, NetworkTopologySpec, PodGroup, PodGroupSpec, TaskSpec
from tierwise.controllers.job.job_pods import owner_reference
from tierwise.controllers.pod_group import MADE_FOR
from tierwise.dialects.kubernetes.requests import effective_request
from tierwise.dialects.volcano.job import PARTITION_ID, TASK_SPEC, pod_group_name, task_minimum
from tierwise.port import DEPENDS_ON_ANNOTATION, Create, Delete, Effect, Objects, Update, key_of

__all__ = ["PodGroupSpecs"]


# What the pods that must start together ask for: the pod group's `minResources`.
#
# Called where a job's pod group is made. Volcano's rule: tasks count in order of their priority, the highest first.


def minimum_resources(job: Job, priorities: Mapping[str, int]) -> dict[str, str]:
    """The canonical amounts that the minimum of a job with its defaults filled in asks for."""

    def priority(task: TaskSpec) -> int:
        return priorities.get(task.template.spec.priority_class_name or job.spec.priority_class_name, 0)

    tasks = sorted(job.spec.tasks, key=lambda task: -priority(task))
    total: dict[str, int] = {}
    for task, count in zip(tasks, _counts(tasks, job.spec.min_available or 0), strict=True):
        for resource, quantity in effective_request(task.template.spec).items():
            total[resource] = total.get(resource, 0) + quantity * count
    return {
        resource: show(resource, min(quantity, LARGEST)) for resource, quantity in sorted(total.items()) if quantity
    }


def _counts(tasks: Sequence[TaskSpec], minimum: int) -> list[int]:
    """How many pods of each task belong to the minimum; tasks come in the order of their priority."""
    needed = [max(task_minimum(task), 0) for task in tasks]
    if minimum < sum(needed):
        # Fewer than the tasks' own minimums: the first pods in that order, whatever their task wants.
        needed = [0] * len(tasks)
    missing = minimum - sum(needed)
    counts = []
    for task, needed_here in zip(tasks, needed, strict=True):
        surplus = min(max(task.replicas - needed_here, 0), missing)
        counts.append(needed_here + surplus)
        missing -= surplus
    return counts


_OWNED: Final = frozenset(
    {
        "minMember",
        "minTaskMember",
        "minResources",
        "queue",
        "priorityClassName",
        "networkTopology",
        "subGroupPolicy",
    }
)
_NOT_COPIED: Final = frozenset({"kubectl.kubernetes.io/last-applied-configuration", MADE_FOR})
"""Annotations of a job that are not its group's: with the second, the group would be taken for that of some pods."""


class PodGroupSpecs:
    """Pod groups of jobs, and which of their specs were found to follow from which jobs': both told by identity."""

    def __init__(self) -> None:
        self._following: dict[str, tuple[JobSpec, PodGroupSpec, Mapping[str, int]]] = {}
        self._made: dict[str, tuple[JobSpec, object, Mapping[str, int]]] = {}  # what was asked for, and is not yet seen

    def forget(self, job: str) -> None:
        """Drop what is known of a job, by its key."""
        self._following.pop(job, None)
        self._made.pop(job, None)

    def reconcile(
        self, objects: Objects, job: Job, group: PodGroup | None, priorities: Mapping[str, int], *, wants_group: bool
    ) -> list[Effect]:
        """Create the pod group of a job with its defaults filled in, or let it follow the job; delete it if not wanted.

        The same `priorities` of classes must come as the same object for anything to be remembered.
        """
        if group is None:
            return self._create(job, priorities) if wants_group else []
        if group.metadata.deletion_timestamp:
            return []
        if not wants_group:
            return [Delete(key_of(group))]
        path = f"{job.metadata.namespace or 'default'}/{job.metadata.name}"
        if _same(self._following.get(path), job.spec, group.spec, priorities):
            return []
        raw = objects.raw(key_of(group)) or {}
        if _same(self._made.pop(path, None), job.spec, raw.get("spec"), priorities):
            self._following[path] = job.spec, group.spec, priorities
            return []
        manifest = _manifest(job, priorities)
        if _meaning(group.spec) == _meaning(codec.decode(manifest).spec):
            self._following[path] = job.spec, group.spec, priorities
            return []
        # Volcano does not hand on later changes of the job's own topology; there is no reason not to.
        unowned = {field: value for field, value in codec.part(raw, "spec").items() if field not in _OWNED}
        return [Update(key_of(group), {**raw, "spec": {**unowned, **codec.part(manifest, "spec")}})]

    def _create(self, job: Job, priorities: Mapping[str, int]) -> list[Effect]:
        manifest = _manifest(job, priorities)
        self._made[codec.key(job)] = job.spec, manifest["spec"], priorities
        return [Create(manifest)]


def _same(previous: tuple[object, object, object] | None, *seen: object) -> bool:
    """Whether three things are the very objects that are known."""
    return previous is not None and all(map(is_, previous, seen))


def _meaning(spec: PodGroupSpec) -> tuple[object, ...]:
    """The owned fields of a spec, free of the several ways in which a quantity can be spelled."""
    resources = {name: amount(name, quantity) for name, quantity in (spec.min_resources or {}).items()}
    roles = dict(spec.min_task_member)
    topology = spec.network_topology
    return spec.min_member, roles, resources, spec.queue, spec.priority_class_name, topology, spec.sub_group_policy


def _manifest(job: Job, priorities: Mapping[str, int]) -> Raw:
    meta = job.metadata
    annotations = {key: value for key, value in meta.annotations.items() if key not in _NOT_COPIED}
    metadata: Raw = {
        "name": pod_group_name(job),
        "namespace": meta.namespace or "default",
        "labels": dict(meta.labels),
        "annotations": annotations,
        "ownerReferences": [owner_reference(job)],
    }
    awaited = {}
    for task in job.spec.tasks:
        if task.depends_on is not None:
            awaited[task.name] = list(task.depends_on.name)
    if any(awaited.values()):
        annotations[DEPENDS_ON_ANNOTATION] = json.dumps(awaited, separators=(",", ":"))
    if meta.creation_timestamp:
        # A gang has waited since its job was submitted. A real API server puts its own time here.
        metadata["creationTimestamp"] = meta.creation_timestamp
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": metadata,
        "spec": _spec(job, priorities),
    }


def _spec(job: Job, priorities: Mapping[str, int]) -> Raw:
    spec: Raw = {
        "minMember": job.spec.min_available,
        "minTaskMember": {task.name: task_minimum(task) for task in job.spec.tasks},
        "queue": job.spec.queue,
    }
    resources = minimum_resources(job, priorities)
    if resources:
        spec["minResources"] = resources
    if job.spec.priority_class_name:
        spec["priorityClassName"] = job.spec.priority_class_name
    topology = job.spec.network_topology
    if topology is not None:
        spec["networkTopology"] = _topology(topology, both=False)
    policies = []
    for task in job.spec.tasks:
        if task.partition_policy is not None:
            policies.append(_policy(task))
    if policies:
        spec["subGroupPolicy"] = policies
    return spec


def _policy(task: TaskSpec) -> Raw:
    """The sub-group policy of the partitions of a task."""
    partitions = task.partition_policy
    assert partitions is not None
    policy: Raw = {
        "name": task.name,
        "subGroupSize": partitions.partition_size or 1,
        "minSubGroups": partitions.min_partitions or 0,
        "labelSelector": {"matchLabels": {TASK_SPEC: task.name}},
        "matchLabelKeys": [PARTITION_ID],
    }
    if partitions.network_topology is not None:
        policy["networkTopology"] = _topology(partitions.network_topology, both=True)
    return policy


def _topology(topology: NetworkTopologySpec, *, both: bool) -> Raw:
    """A topology as the pod group carries it; where a job gives tier and name, the tier counts (`both` keeps them)."""
    shown: Raw = {"mode": topology.mode}
    if topology.highest_tier_allowed is not None:
        shown["highestTierAllowed"] = topology.highest_tier_allowed
    if topology.highest_tier_name and (both or topology.highest_tier_allowed is None):
        shown["highestTierName"] = topology.highest_tier_name
    return shown
