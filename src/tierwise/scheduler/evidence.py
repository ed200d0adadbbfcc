"""What pods tell: when they were bound, and where no object does, whether their gang was ever whole.

All by the API server's own clock, which stamps when a pod is made and when it is bound. A gang that was whole and has
lost pods has replacements that are younger than its first binding, or members that have ended. One of which a pod was
there from the beginning and still has no node, while no other has come, was bound in part.
"""

from __future__ import annotations

from collections.abc import Iterable

from tierwise.api.core import Pod
from tierwise.api.meta import parse_time
from tierwise.model.job import Job, Status
from tierwise.port import Objects

__all__ = ["bound_at", "bound_together", "owned", "partial_since"]


def partial_since(objects: Objects, job: Job) -> float | None:
    """When the last pod of a gang was bound that was never whole; None where it was, or nothing tells."""
    pods = objects.every(Pod)
    standing = [pods[task.key] for task in job.tasks if task.status is Status.RUNNING and task.key in pods]
    waiting = [pods[task.key] for task in job.tasks if task.status is Status.PENDING and task.key in pods]
    bound = [bound_at(pod) for pod in standing]
    times = [time for time in bound if time is not None]
    if not waiting or len(standing) + len(waiting) < len(job.tasks) or len(times) < len(standing) or not times:
        return None
    first = min(times)
    return max(times) if all(_made(pod) <= first for pod in waiting) else None


def owned(pod: Pod) -> bool:
    """Whether somebody makes a pod anew when it is gone."""
    return any(owner.controller for owner in pod.metadata.owner_references)


def bound_together(pods: Iterable[Pod], within: float) -> bool:
    """Whether no more than so many seconds lie between the bindings of pods, as far as they tell."""
    times = [time for pod in pods if (time := bound_at(pod)) is not None]
    return not times or max(times) - min(times) <= within


def bound_at(pod: Pod) -> float | None:
    """When a pod was bound; None where its status does not tell."""
    for condition in pod.status.conditions:
        if (condition.type, condition.status) == ("PodScheduled", "True"):
            try:
                return parse_time(condition.last_transition_time)
            except ValueError:
                return None
    return None


def _made(pod: Pod) -> float:
    stamp = pod.metadata.creation_timestamp
    return parse_time(stamp) if stamp else float("inf")
