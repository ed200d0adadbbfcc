"""What every worker is told about its place, in its environment: its rank, its partition, and where it stands.

Ranks count through the tasks of a job in their order. Where a pod stands is known only once it is bound: the binding
carries it as annotations, and the variables refer to those, so that they are filled in when the containers start.
"""

from __future__ import annotations

from typing import Final

from tierwise.api.codec import Raw
from tierwise.api.volcano import Job, TaskSpec
from tierwise.controllers.job.containers import with_environment
from tierwise.dialects.volcano_job import partition_of
from tierwise.port import HYPERNODE_ANNOTATION, PATH_ANNOTATION

__all__ = ["furnish"]

_PLACES: Final = {"TIERWISE_HYPERNODE": HYPERNODE_ANNOTATION, "TIERWISE_TOPOLOGY": PATH_ANNOTATION}


def furnish(spec: Raw, job: Job, task: TaskSpec, index: int) -> Raw:
    """A pod's spec with the variables of one worker."""
    given: list[Raw] = [{"name": name, "value": value} for name, value in _facts(job, task, index).items()]
    found: list[Raw] = [
        {"name": name, "valueFrom": {"fieldRef": {"fieldPath": f"metadata.annotations['{annotation}']"}}}
        for name, annotation in _PLACES.items()
    ]
    return with_environment(spec, [*given, *found])


def _facts(job: Job, task: TaskSpec, index: int) -> dict[str, str]:
    before = [other.replicas for other in job.spec.tasks[: job.spec.tasks.index(task)]]
    facts = {
        "TIERWISE_RANK": sum(before) + index,
        "TIERWISE_WORLD_SIZE": sum(other.replicas for other in job.spec.tasks),
        "TIERWISE_TASK_RANK": index,
        "TIERWISE_TASK_SIZE": task.replicas,
    }
    shown = {"TIERWISE_TASK": task.name} | {name: str(number) for name, number in facts.items()}
    size = task.partition_policy.partition_size or 0 if task.partition_policy is not None else 0
    if size > 0:
        shown["TIERWISE_PARTITION"] = partition_of(task, index)
        shown["TIERWISE_PARTITION_RANK"] = str(index % size)
        shown["TIERWISE_PARTITION_SIZE"] = str(size)
    return shown
