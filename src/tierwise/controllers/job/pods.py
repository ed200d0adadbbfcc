"""The pods of a job: one for each index of each task, made from the task's template.

Called by the job controller. Pods are made once the pod group has left Pending, so that a job which has to wait for
its queue costs nothing; a pod that disappeared is made anew, one that ended is not. Pods of the past, and pods that the
job does not ask for any more, are deleted; once the job wants no pods, so are all that still wait or run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from tierwise.api.codec import Raw
from tierwise.api.core import Pod
from tierwise.api.volcano import Job, PodGroup, TaskSpec
from tierwise.controllers.job import plugins, rank, worker
from tierwise.controllers.job.containers import with_volume
from tierwise.controllers.job.dependencies import held_back
from tierwise.controllers.job.owner import owner_reference
from tierwise.controllers.job.roster import JOB_VERSION, RETRY_COUNT, Member, Roster, has_ended
from tierwise.dialects.volcano_job import (
    GROUP_NAME,
    PARTITION_ID,
    TASK_INDEX,
    TASK_SPEC,
    partition_of,
    pod_group_name,
    pod_name,
)
from tierwise.port import Create, Delete, Effect, key_of

__all__ = ["JOB_NAME", "bring"]

JOB_NAME: Final = "volcano.sh/job-name"
_JOB_NAMESPACE: Final = "volcano.sh/job-namespace"
_QUEUE_NAME: Final = "volcano.sh/queue-name"
_TEMPLATE: Final = "volcano.sh/template-uid"
_NUMA: Final = "volcano.sh/numa-topology-policy"

# Marks of a job that hold for each of its pods.
_INHERITED_LABELS: Final = frozenset({"volcano.sh/preemptable", "volcano.sh/cooldown-time"})
_INHERITED_ANNOTATIONS: Final = frozenset(
    {
        "volcano.sh/preemptable",
        "volcano.sh/cooldown-time",
        "volcano.sh/revocable-zone",
        "volcano.sh/jdb-min-available",
        "volcano.sh/jdb-max-unavailable",
    }
)

_STARTED: Final = frozenset({"Inqueue", "Running", "Unknown"})


def bring(every: Mapping[str, Pod], job: Job, group: PodGroup | None, roster: Roster) -> list[Effect]:
    """Create the pods of a job that are missing, and delete those that it does not ask for any more."""
    if not roster.wanted:
        return _delete(member for member in roster.members if not has_ended(member.pod))
    effects = _delete(member for member in roster.members if not member.current)
    if group is None or group.status.phase not in _STARTED or job.status.state.phase == "Restarting":
        return effects
    namespace, waiting = job.metadata.namespace or "default", held_back(job, roster)
    return effects + [
        Create(_manifest(job, task, index))
        for task in job.spec.tasks
        if task.name not in waiting
        for index in range(task.replicas)
        if f"{namespace}/{pod_name(job, task, index)}" not in every
    ]


def _delete(members: Iterable[Member]) -> list[Effect]:
    return [Delete(key_of(member.pod)) for member in members if not member.leaving]


def _manifest(job: Job, task: TaskSpec, index: int) -> Raw:
    """A pod as its template says, with the marks by which scheduler and controllers know it."""
    template = task.template
    raw_spec = template.raw.get("spec")
    spec: Raw = dict(raw_spec) if isinstance(raw_spec, dict) else {}
    spec["schedulerName"] = template.spec.scheduler_name or job.spec.scheduler_name
    if job.spec.priority_class_name and not template.spec.priority_class_name:
        spec["priorityClassName"] = job.spec.priority_class_name
    metadata: Raw = {
        "name": pod_name(job, task, index),
        "namespace": job.metadata.namespace or "default",
        "labels": template.metadata.labels | _labels(job, task, index),
        "annotations": template.metadata.annotations | _annotations(job, task, index),
        "ownerReferences": [owner_reference(job)],
    }
    spec = _with_claims(spec, job)
    told = plugins.furnish(rank.furnish(spec, job), job, task, index)
    spec = worker.furnish(told, job, task, index)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _with_claims(spec: Raw, job: Job) -> Raw:
    """A pod's spec with the volumes of its job: claims, so that scheduling sees them; none is made here."""
    for i, volume in enumerate(job.spec.volumes):
        claim = str(volume.get("volumeClaimName") or f"{job.metadata.name}-volume-{i}")
        source: Raw = {"name": f"job-volume-{i}", "persistentVolumeClaim": {"claimName": claim}}
        spec = with_volume(spec, source, str(volume.get("mountPath", "")))
    return spec


def _labels(job: Job, task: TaskSpec, index: int) -> dict[str, str]:
    labels = {
        TASK_INDEX: str(index),
        JOB_NAME: job.metadata.name,
        TASK_SPEC: task.name,
        _JOB_NAMESPACE: job.metadata.namespace or "default",
        _QUEUE_NAME: job.spec.queue,
    }
    partition = partition_of(task, index)
    if partition:
        labels[PARTITION_ID] = partition
    return labels | {key: value for key, value in job.metadata.labels.items() if key in _INHERITED_LABELS}


def _annotations(job: Job, task: TaskSpec, index: int) -> dict[str, str]:
    annotations = {
        TASK_INDEX: str(index),
        TASK_SPEC: task.name,
        GROUP_NAME: pod_group_name(job),
        JOB_NAME: job.metadata.name,
        _QUEUE_NAME: job.spec.queue,
        JOB_VERSION: str(job.status.version),
        _TEMPLATE: f"{job.metadata.name}-{task.name}",
        RETRY_COUNT: str(job.status.retry_count),
    }
    if task.topology_policy:
        annotations[_NUMA] = task.topology_policy
    return annotations | {k: value for k, value in job.metadata.annotations.items() if k in _INHERITED_ANNOTATIONS}
