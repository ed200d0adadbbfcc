"""The pods of a job: one for each index of each task, created from the task's template.

Called by the job controller. Pods are created once the pod group has left Pending, so that a queued job costs nothing.
A pod that disappeared is created again; one that ended is not. Outdated and surplus pods are deleted, and once the job
wants no pods, so are all that are pending or running.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from tierwise.api.codec import Raw, part
from tierwise.api.core import Pod
from tierwise.api.limits import MANY_WAIT, TOO_MANY_WAITING, WAITING, too_many_for_gang
from tierwise.api.pattern import COORDINATES, PATTERN, RANK
from tierwise.api.unsupported import JOB_PLUGINS, NUMA_POLICY
from tierwise.api.volcano import Job, PodGroup, TaskSpec
from tierwise.controllers.job import plugins
from tierwise.controllers.job.job_pods import JOB_VERSION, RETRY_COUNT, JobPod, JobPods, owner_reference
from tierwise.dialects.volcano import job as volcano_job
from tierwise.port import HYPERNODE_ANNOTATION, PATH_ANNOTATION, Create, Delete, Effect, RecordEvent, key_of

__all__ = ["JOB_NAME", "reconcile_pods", "taken_names", "with_rank"]


# Tasks that wait for others (`dependsOn`): their pods are made once those they depend on are up.
#
# Volcano's rule: a task is up once its minimum runs with all containers ready, or has succeeded. `iteration: any` asks
# for one of the tasks named, everything else for all of them.


def held_back(job: Job, job_pods: JobPods) -> frozenset[str]:
    """The tasks of a job with its defaults filled in that wait for others."""
    if not [task for task in job.spec.tasks if task.depends_on is not None]:
        return frozenset()
    up = Counter(m.task for m in job_pods.current() if not m.leaving and _is_up(m.pod))
    started = {task.name for task in job.spec.tasks if up[task.name] >= volcano_job.task_minimum(task)}
    waiting = set()
    for task in job.spec.tasks:
        if task.depends_on is not None and task.depends_on.name:
            ready = [name in started for name in task.depends_on.name]
            if not (any(ready) if task.depends_on.iteration == "any" else all(ready)):
                waiting.add(task.name)
    return frozenset(waiting)


def _is_up(pod: Pod) -> bool:
    if pod.status.phase == "Succeeded":
        return True
    return pod.status.phase == "Running" and all(container.ready for container in pod.status.container_statuses)


# The containers of a job with a pattern are told their rank, by the downward API: it is written with the node.


_VARIABLES: Final = {"TIERWISE_RANK": RANK, "TIERWISE_COORDINATES": COORDINATES}


def with_rank(spec: Raw, job: Job) -> Raw:
    """A pod's spec with the variables, where its job declares a pattern."""
    if PATTERN not in job.metadata.annotations:
        return spec
    return plugins.with_environment(spec, [_variable(*variable) for variable in _VARIABLES.items()])


def _variable(name: str, annotation: str) -> Raw:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{annotation}']"}}}


# What every worker is told about its place, in its environment: its rank, its partition, and its place.
#
# Ranks count through the tasks of a job in their order. The place of a pod is known only once it is bound: the binding
# carries it as annotations, and the variables refer to those, so that they are filled in when the containers start.


_PLACES: Final = {"TIERWISE_HYPERNODE": HYPERNODE_ANNOTATION, "TIERWISE_TOPOLOGY": PATH_ANNOTATION}


def with_worker_environment(spec: Raw, job: Job, task: TaskSpec, index: int) -> Raw:
    """A pod's spec with the variables of one worker."""
    variables: list[Raw] = [{"name": name, "value": value} for name, value in _facts(job, task, index).items()]
    return plugins.with_environment(spec, [*variables, *(_variable(*place) for place in _PLACES.items())])


def _facts(job: Job, task: TaskSpec, index: int) -> dict[str, str]:
    before = [earlier_task.replicas for earlier_task in job.spec.tasks[: job.spec.tasks.index(task)]]
    facts = {
        "TIERWISE_RANK": sum(before) + index,
        "TIERWISE_WORLD_SIZE": sum(any_task.replicas for any_task in job.spec.tasks),
        "TIERWISE_TASK_RANK": index,
        "TIERWISE_TASK_SIZE": task.replicas,
    }
    shown = {"TIERWISE_TASK": task.name} | {name: str(number) for name, number in facts.items()}
    size = task.partition_policy.partition_size or 0 if task.partition_policy is not None else 0
    if size > 0:
        shown["TIERWISE_PARTITION"] = volcano_job.partition_of(task, index)
        shown["TIERWISE_PARTITION_RANK"] = str(index % size)
        shown["TIERWISE_PARTITION_SIZE"] = str(size)
    return shown


JOB_NAME: Final = "volcano.sh/job-name"
_JOB_NAMESPACE: Final = "volcano.sh/job-namespace"
_QUEUE_NAME: Final = "volcano.sh/queue-name"
_TEMPLATE: Final = "volcano.sh/template-uid"

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


def _limit(shortfall: int, room: int) -> tuple[int, str]:
    """How many pods may be made of a job that lacks so many to start, and the text for pods beyond that."""
    if shortfall > room + WAITING:
        return 0, too_many_for_gang(shortfall)
    return max(room, shortfall, 0), MANY_WAIT


def reconcile_pods(
    every: Mapping[str, Pod], job: Job, group: PodGroup | None, job_pods: JobPods, room: int
) -> list[Effect]:
    """Create the pods of a job that are missing, and delete those that it does not ask for any more.

    No more than there is `room` for in its namespace, and `WAITING` beside those for what it needs to start. Where that
    is more, none of them is made. An event tells of it.
    """
    if not job_pods.wanted:
        return _delete([member for member in job_pods.members if not member.pod.status.ended])
    effects = _delete([member for member in job_pods.members if not member.current])
    if group is None or group.status.phase not in _STARTED or job.status.state.phase == "Restarting":
        return effects
    namespace = job.metadata.namespace or "default"
    waiting = held_back(job, job_pods)
    missing = []
    for task in job.spec.tasks:
        if task.name not in waiting:
            names = (f"{namespace}/{volcano_job.pod_name(job, task, index)}" for index in range(task.replicas))
            missing += [(task, index) for index, name in enumerate(names) if name not in every]
    alive = sum(not member.pod.status.ended for member in job_pods.members)
    limit, text = _limit((job.spec.min_available or 0) - alive, room)
    if len(missing) > limit:
        missing = sorted(
            missing, key=lambda task_and_index: task_and_index[1] >= volcano_job.task_minimum(task_and_index[0])
        )[:limit]
        effects.append(RecordEvent(key_of(job), "Warning", TOO_MANY_WAITING, text))
    return effects + [Create(_manifest(job, task, index)) for task, index in missing]


def taken_names(every: Mapping[str, Pod], job: Job, job_pods: JobPods) -> list[str]:
    """Pods of others that are called as pods of the job would be, which cannot be made for that."""
    if not job_pods.wanted or len(job_pods.members) >= sum(task.replicas for task in job.spec.tasks):
        return []  # most jobs have all their pods
    pod_names = {member.pod.metadata.name for member in job_pods.members}
    namespace = job.metadata.namespace or "default"
    names = (volcano_job.pod_name(job, task, index) for task in job.spec.tasks for index in range(task.replicas))
    return [name for name in names if name not in pod_names and f"{namespace}/{name}" in every]


def _delete(members: Iterable[JobPod]) -> list[Effect]:
    return [Delete(key_of(member.pod)) for member in members if not member.leaving]


def _manifest(job: Job, task: TaskSpec, index: int) -> Raw:
    """A pod as its template says, with the marks by which scheduler and controllers know it."""
    template = task.template
    spec = dict(part(template.raw, "spec"))
    spec["schedulerName"] = template.spec.scheduler_name or job.spec.scheduler_name
    if job.spec.priority_class_name and not template.spec.priority_class_name:
        spec["priorityClassName"] = job.spec.priority_class_name
    metadata: Raw = {
        "name": volcano_job.pod_name(job, task, index),
        "namespace": job.metadata.namespace or "default",
        "labels": template.metadata.labels | _labels(job, task, index),
        "annotations": template.metadata.annotations | _annotations(job, task, index),
        "ownerReferences": [owner_reference(job)],
    }
    spec = _with_claims(spec, job)
    pod_spec = plugins.on_pod_create(with_rank(spec, job), job, task, index)
    spec = with_worker_environment(pod_spec, job, task, index)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _with_claims(spec: Raw, job: Job) -> Raw:
    """A pod's spec with the volumes of its job: claims, so that scheduling sees them; none is made here."""
    for i, volume in enumerate(job.spec.volumes):
        claim = str(volume.get("volumeClaimName") or f"{job.metadata.name}-volume-{i}")
        source: Raw = {"name": f"job-volume-{i}", "persistentVolumeClaim": {"claimName": claim}}
        spec = plugins.with_volume(spec, source, str(volume.get("mountPath", "")))
    return spec


def _labels(job: Job, task: TaskSpec, index: int) -> dict[str, str]:
    labels = {
        volcano_job.TASK_INDEX: str(index),
        JOB_NAME: job.metadata.name,
        volcano_job.TASK_SPEC: task.name,
        _JOB_NAMESPACE: job.metadata.namespace or "default",
        _QUEUE_NAME: job.spec.queue,
    }
    partition = volcano_job.partition_of(task, index)
    if partition:
        labels[volcano_job.PARTITION_ID] = partition
    return labels | {key: value for key, value in job.metadata.labels.items() if key in _INHERITED_LABELS}


def _annotations(job: Job, task: TaskSpec, index: int) -> dict[str, str]:
    annotations = {
        volcano_job.TASK_INDEX: str(index),
        volcano_job.TASK_SPEC: task.name,
        volcano_job.GROUP_NAME: volcano_job.pod_group_name(job),
        JOB_NAME: job.metadata.name,
        _QUEUE_NAME: job.spec.queue,
        JOB_VERSION: str(job.status.version),
        _TEMPLATE: f"{job.metadata.name}-{task.name}",
        RETRY_COUNT: str(job.status.retry_count),
    }
    if task.topology_policy:
        annotations[NUMA_POLICY] = task.topology_policy
    if lacking := sorted(plugins.lacking_plugins(job)):
        annotations[JOB_PLUGINS] = ",".join(lacking)
    return annotations | {k: value for k, value in job.metadata.annotations.items() if k in _INHERITED_ANNOTATIONS}
