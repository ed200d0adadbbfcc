"""How large one object may be: the limits that definitions, admission and controllers share.

docs/reference/limits.md lists them. An object beyond a limit is named in a message and not processed, not even in part.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tierwise.api.core import PodSpec
    from tierwise.api.volcano import Job

__all__ = [
    "DEPTH",
    "HOST_PORTS",
    "LIMIT_EXCEEDED",
    "MANY_WAIT",
    "MEMBERS",
    "PODS",
    "POLICIES",
    "RESOURCES",
    "SUB_GROUPS",
    "TASKS",
    "TIER",
    "TOO_MANY_WAITING",
    "WAITING",
    "beyond",
    "too_many_for_gang",
    "too_many_resources",
]

LIMIT_EXCEEDED: Final = "LimitExceeded"
"""The reason that an object beyond a limit is given, in its status and in an event."""

PODS: Final = 100_000
"""Pods of one job, over all its tasks, or of one workload, and so the largest minimum of a gang."""

TASKS: Final = 1_000
"""Tasks of one job."""

POLICIES: Final = 64
"""Sub-group policies of one pod group."""

SUB_GROUPS: Final = 10_000
"""Partitions of one task."""

RESOURCES: Final = 64
"""Resource names in the requests and limits of one container."""

HOST_PORTS: Final = 1_000
"""Host ports of a pod: each is counted on every node."""

MEMBERS: Final = 20_000
"""Members of one hyperNode."""

DEPTH: Final = 64
"""HyperNodes in one chain from the innermost outwards."""

TIER: Final = 2**31 - 1
"""The highest tier."""


WAITING: Final = 20_000
"""Pods of one namespace that wait at a time: controllers make no more before some of them start.

What a gang lacks to start is made beyond it, up to twice as many.
"""


TOO_MANY_WAITING: Final = "TooManyWaitingPods"
"""The reason of an event about who makes no further pods for that, and of jobs that are not looked at."""

MANY_WAIT: Final = f"{WAITING} pods of its namespace wait: further ones are made as these start"


def too_many_for_gang(lacking: int) -> str:
    """Why a gang is not made that lacks so many pods to start."""
    text = f"its gang needs {lacking} pods more to start, and no more than {2 * WAITING} pods of a namespace may wait"
    return f"{text}: none of them is made"


def beyond(job: Job) -> Iterator[tuple[str, str]]:
    """Fields of a job that are beyond a limit, and what is wrong with each."""
    tasks = job.spec.tasks
    if (job.spec.min_available or 0) > PODS:
        text = f"a minimum of {job.spec.min_available} is more than the {PODS} pods that a job may have"
        yield "spec.minAvailable", text
    if len(tasks) > TASKS:
        yield "spec.tasks", f"{len(tasks)} tasks are more than the {TASKS} that a job may have"
    total = 0
    for index, task in enumerate(tasks):
        path = f"spec.tasks[{index}]"
        total += max(task.replicas, 0)
        if (task.min_available or 0) > PODS:
            text = f"a minimum of {task.min_available} is more than the {PODS} pods that a job may have"
            yield f"{path}.minAvailable", text
        if task.replicas > PODS:
            yield f"{path}.replicas", f"{task.replicas} replicas are more than the {PODS} pods that a job may have"
        parted = task.partition_policy
        if parted is not None and (parted.total_partitions or 0) > SUB_GROUPS:
            text = f"{parted.total_partitions} partitions are more than the {SUB_GROUPS} that a task may have"
            yield f"{path}.partitionPolicy.totalPartitions", text
        for where, text in too_many_resources(task.template.spec):
            yield f"{path}.template.spec.{where}", text
    if total > PODS and all(task.replicas <= PODS for task in tasks):
        yield "spec.tasks", f"the replicas of all tasks make {total} pods, more than the {PODS} that a job may have"


def too_many_resources(spec: PodSpec) -> Iterator[tuple[str, str]]:
    """Containers that name more resources than one may."""
    for field, containers in (("containers", spec.containers), ("initContainers", spec.init_containers)):
        for index, container in enumerate(containers):
            number = len({*container.resources.requests, *container.resources.limits})
            if number > RESOURCES:
                text = f"{number} resource names are more than the {RESOURCES} that a container may ask for"
                yield f"{field}[{index}].resources", text
