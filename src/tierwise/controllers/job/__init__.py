"""Volcano's batch jobs: a pod group that says what must start together, the pods of every task, and a status.

Called by `controllers.run`. Life-cycle policies (restart, abort, ...) have no part here: they would add a stage of
their own before the pods are looked at.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tierwise.api.core import Pod, PriorityClass
from tierwise.api.volcano import Job, PodGroup
from tierwise.controllers.job import pod_group, pods, status
from tierwise.dialects.volcano_job import defaulted, pod_group_name
from tierwise.port import Effect, Objects

__all__ = ["READS", "reconcile"]

READS: Final = (Job, PodGroup, Pod, PriorityClass)


def reconcile(objects: Objects, now: float) -> list[Effect]:
    """Bring the pod group, the pods and the status of each job up to date."""
    jobs = objects.every(Job)
    if not jobs:
        return []
    groups, owned = objects.every(PodGroup), _pods_by_job(objects.every(Pod))
    priorities = {name: class_.value for name, class_ in objects.every(PriorityClass).items()}
    effects: list[Effect] = []
    for path, declared in jobs.items():
        if declared.metadata.deletion_timestamp:
            continue
        job = defaulted(declared)
        namespace = path.partition("/")[0]
        group = groups.get(f"{namespace}/{pod_group_name(job)}")
        effects += pod_group.bring(objects, job, group, priorities)
        effects += pods.bring(objects.every(Pod), job, group, owned.get(path, ()))
        effects += status.bring(job, owned.get(path, ()), now)
    return effects


def _pods_by_job(every: Mapping[str, Pod]) -> dict[str, list[Pod]]:
    """The pods of each job, by the job's key; a pod that something else controls is not the job's, whatever it says."""
    found: dict[str, list[Pod]] = {}
    for path, pod in every.items():
        meta = pod.metadata
        name = meta.labels.get(pods.JOB_NAME) or meta.annotations.get(pods.JOB_NAME)
        controller = next((owner for owner in meta.owner_references if owner.controller), None)
        if name and (controller is None or (controller.kind, controller.name) == ("Job", name)):
            found.setdefault(f"{path.partition('/')[0]}/{name}", []).append(pod)
    return found
