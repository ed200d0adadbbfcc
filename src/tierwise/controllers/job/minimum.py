"""What the pods that must start together ask for: the pod group's `minResources`.

Called where a job's pod group is made. Volcano's rule: tasks count in order of their priority, the highest first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tierwise.api.quantity import LARGEST, show
from tierwise.api.volcano import Job, TaskSpec
from tierwise.dialects.requests import effective_request
from tierwise.dialects.volcano_job import task_minimum

__all__ = ["minimum_resources"]


def minimum_resources(job: Job, priorities: Mapping[str, int]) -> dict[str, str]:
    """The canonical amounts that the minimum of a job with its defaults filled in asks for."""

    def priority(task: TaskSpec) -> int:
        return priorities.get(task.template.spec.priority_class_name or job.spec.priority_class_name, 0)

    tasks = sorted(job.spec.tasks, key=lambda task: -priority(task))
    total: dict[str, int] = {}
    for task, count in zip(tasks, _counts(tasks, job.spec.min_available or 0), strict=True):
        for resource, asked in effective_request(task.template.spec).items():
            total[resource] = total.get(resource, 0) + asked * count
    return {resource: show(resource, min(asked, LARGEST)) for resource, asked in sorted(total.items()) if asked}


def _counts(tasks: Sequence[TaskSpec], minimum: int) -> list[int]:
    """How many pods of each task belong to the minimum; tasks stand in the order of their priority."""
    needed = [max(task_minimum(task), 0) for task in tasks]
    if minimum < sum(needed):
        # Fewer than the tasks' own minimums: the first pods in that order, whatever their task wants.
        needed = [0] * len(tasks)
    left = minimum - sum(needed)
    counts = []
    for task, own in zip(tasks, needed, strict=True):
        surplus = min(max(task.replicas - own, 0), left)
        counts.append(own + surplus)
        left -= surplus
    return counts
