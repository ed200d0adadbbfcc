"""env: gives every container the index of its pod within its task, under both names that Volcano uses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tierwise.api.codec import Raw
from tierwise.api.volcano import Job, TaskSpec
from tierwise.controllers.job.plugins.additions import OwnedObject, with_environment

__all__ = ["on_pod_create", "owned_objects"]


def on_pod_create(spec: Raw, job: Job, task: TaskSpec, index: int) -> Raw:
    """Add the index."""
    return with_environment(spec, [{"name": name, "value": str(index)} for name in ("VK_TASK_INDEX", "VC_TASK_INDEX")])


def owned_objects(job: Job, arguments: Sequence[str]) -> Iterator[OwnedObject]:
    """Nothing is needed beside the pods."""
    yield from ()
