"""The pods of a job: one for each index of each task, made from the task's template.

Called by the job controller. Pods are made once the pod group has left Pending, so that a job which has to wait for
its queue costs nothing; a pod that disappeared is made anew, one that ended is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from tierwise.api.codec import Raw
from tierwise.api.core import Pod
from tierwise.api.volcano import Job, PodGroup, TaskSpec
from tierwise.controllers.job import rank
from tierwise.controllers.job.owner import owner_reference
from tierwise.dialects.volcano_job import GROUP_NAME, PARTITION_ID, TASK_SPEC, pod_group_name, pod_name, task_minimum
from tierwise.port import Create, Delete, Effect, key_of

__all__ = ["ENDED", "JOB_NAME", "bring", "has_ended"]

JOB_NAME: Final = "volcano.sh/job-name"
_TASK_INDEX: Final = "volcano.sh/task-index"
_JOB_NAMESPACE: Final = "volcano.sh/job-namespace"
_QUEUE_NAME: Final = "volcano.sh/queue-name"
_JOB_VERSION: Final = "volcano.sh/job-version"
_RETRY_COUNT: Final = "volcano.sh/job-retry-count"
_TEMPLATE: Final = "volcano.sh/template-uid"
_PREEMPTABLE: Final = "volcano.sh/preemptable"

_STARTED: Final = frozenset({"Inqueue", "Running", "Unknown"})
_ACTIVE: Final = frozenset({"", "Pending", "Running"})
ENDED: Final = frozenset({"Completed", "Failed", "Terminated", "Aborted"})
"""Phases of a job in which none of its pods may wait or run."""


def bring(every: Mapping[str, Pod], job: Job, group: PodGroup | None, own: Sequence[Pod]) -> list[Effect]:
    """Create the pods of a job that are missing, and delete those that it does not ask for any more."""
    phase = job.status.state.phase
    if phase in ENDED:
        return _delete(pod for pod in own if not has_ended(pod))
    if phase not in _ACTIVE:
        return []  # on its way to another phase, which is not this controller's doing
    namespace = job.metadata.namespace or "default"
    asked = {pod_name(job, task, index): (task, index) for task in job.spec.tasks for index in range(task.replicas)}
    effects = _delete(pod for pod in own if pod.metadata.name not in asked)
    if group is None or group.status.phase not in _STARTED:
        return effects
    waiting = {task.name for task in job.spec.tasks if _waits(task, job, own)}
    missing = [
        (name, task, index)
        for name, (task, index) in asked.items()
        if task.name not in waiting and f"{namespace}/{name}" not in every
    ]
    return effects + [Create(_manifest(job, task, index)) for _, task, index in missing]


def has_ended(pod: Pod) -> bool:
    """Whether a pod has run to its end, well or not."""
    return pod.status.phase in ("Succeeded", "Failed")


def _delete(pods: Iterable[Pod]) -> list[Effect]:
    return [Delete(key_of(pod)) for pod in pods if not pod.metadata.deletion_timestamp]


def _waits(task: TaskSpec, job: Job, own: Sequence[Pod]) -> bool:
    """Whether the tasks that a task depends on have not started yet: all of them, or the first of them to do so."""
    if task.depends_on is None or not task.depends_on.name:
        return False
    up: dict[str, int] = {}
    for pod in own:
        if pod.status.phase in ("Running", "Succeeded") and not pod.metadata.deletion_timestamp:
            role = pod.metadata.annotations.get(TASK_SPEC, "")
            up[role] = up.get(role, 0) + 1
    named = [other for other in job.spec.tasks if other.name in task.depends_on.name]
    started = [up.get(other.name, 0) >= task_minimum(other) for other in named]
    return not (any(started) if task.depends_on.iteration == "any" else all(started))


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
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": rank.furnish(spec, job)}


def _labels(job: Job, task: TaskSpec, index: int) -> dict[str, str]:
    labels = {
        _TASK_INDEX: str(index),
        JOB_NAME: job.metadata.name,
        TASK_SPEC: task.name,
        _JOB_NAMESPACE: job.metadata.namespace or "default",
        _QUEUE_NAME: job.spec.queue,
    }
    if task.partition_policy is not None:
        size = task.partition_policy.partition_size or 0
        labels[PARTITION_ID] = str(index // size if size > 0 else 0)
    return labels | _inherited(job.metadata.labels)


def _annotations(job: Job, task: TaskSpec, index: int) -> dict[str, str]:
    return {
        _TASK_INDEX: str(index),
        TASK_SPEC: task.name,
        GROUP_NAME: pod_group_name(job),
        JOB_NAME: job.metadata.name,
        _QUEUE_NAME: job.spec.queue,
        _JOB_VERSION: str(job.status.version),
        _TEMPLATE: f"{job.metadata.name}-{task.name}",
        _RETRY_COUNT: str(job.status.retry_count),
    } | _inherited(job.metadata.annotations)


def _inherited(marks: Mapping[str, str]) -> dict[str, str]:
    """The marks of a job that hold for each of its pods."""
    return {key: value for key, value in marks.items() if key == _PREEMPTABLE}
