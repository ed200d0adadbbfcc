"""Job plugins: what a job asks to be added to its pods, and made beside them (`spec.plugins`).

A plugin is a module with two functions: `on_pod_create` adds to the spec of a pod, `owned_objects` names the objects
that the pods need and whether they are kept up to date. `env` and `svc` do what Volcano's do; others are not known
here, and admission says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tierwise.api.codec import Raw
from tierwise.api.volcano import Job, TaskSpec
from tierwise.controllers.job.plugins import env, svc
from tierwise.controllers.job.plugins.additions import OwnedObject

__all__ = ["PLUGINS", "OwnedObject", "on_pod_create", "owned_objects"]

PLUGINS: Final = {"env": env, "svc": svc}


def on_pod_create(spec: Raw, job: Job, task: TaskSpec, index: int) -> Raw:
    """A pod's spec with what the plugins of its job add to it."""
    for name, plugin in PLUGINS.items():
        if name in job.spec.plugins:
            spec = plugin.on_pod_create(spec, job, task, index)
    return spec


def owned_objects(job: Job) -> Iterator[OwnedObject]:
    """The objects that the plugins of a job want beside its pods."""
    for name, plugin in PLUGINS.items():
        if name in job.spec.plugins:
            yield from plugin.owned_objects(job, job.spec.plugins[name])
