"""What a Volcano job means before anything is made of it: defaults, minimums, names.

Shared by the job controller, which makes a pod group and pods of it, and by admission, which judges it.
Answers questions about one job; looks at no other object.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from tierwise.api.volcano import Job, TaskSpec
from tierwise.dialects.identity import made_up_uid

__all__ = [
    "DEFAULT_MAX_RETRY",
    "DEFAULT_QUEUE",
    "DEFAULT_SCHEDULER",
    "GROUP_NAME",
    "KEY_PLUGINS",
    "MPI_FLAGS",
    "OTHER_PLUGINS",
    "PARTITION_ID",
    "PROVIDED_PLUGINS",
    "TASK_INDEX",
    "TASK_SPEC",
    "defaulted",
    "partition_of",
    "plugin_flags",
    "pod_group_name",
    "pod_name",
    "task_minimum",
    "uid_of",
]

DEFAULT_QUEUE: Final = "default"
DEFAULT_SCHEDULER: Final = "volcano"
DEFAULT_MAX_RETRY: Final = 3
PROVIDED_PLUGINS: Final = frozenset({"env", "svc", "ssh", "mpi", "pytorch", "tensorflow", "ray"})
"""Job plugins that the job controller carries out; `KEY_PLUGINS` where it may make Secrets."""
KEY_PLUGINS: Final = frozenset({"ssh", "mpi"})
OTHER_PLUGINS: Final = frozenset({"hcclrank"})
"""Those that Volcano alone has: pods of a job with one of them wait."""

_NEEDS: Final = {"pytorch": ("svc",), "tensorflow": ("svc",), "ray": ("svc",), "mpi": ("svc", "ssh")}
"""By plugin, the others that a job which names it has as well."""

MPI_FLAGS: Final = {"master": "master", "worker": "worker", "port": "22"}
"""The flags of the plugin mpi: the names of two tasks, and the port of ssh."""
_LONGEST_NUMBER: Final = 10

GROUP_NAME: Final = "scheduling.k8s.io/group-name"
TASK_SPEC: Final = "volcano.sh/task-spec"
TASK_INDEX: Final = "volcano.sh/task-index"
PARTITION_ID: Final = "volcano.sh/partition-id"


def defaulted(job: Job) -> Job:
    """The job as Volcano's webhook would complete it; zero counts as absent where Volcano cannot tell the two apart."""
    tasks = tuple(
        replace(
            task,
            name=task.name or f"default{index}",
            min_available=task_minimum(task),
            max_retry=task.max_retry or DEFAULT_MAX_RETRY,
        )
        for index, task in enumerate(job.spec.tasks)
    )
    spec = replace(
        job.spec,
        queue=job.spec.queue or DEFAULT_QUEUE,
        scheduler_name=job.spec.scheduler_name or DEFAULT_SCHEDULER,
        max_retry=job.spec.max_retry or DEFAULT_MAX_RETRY,
        min_available=job.spec.min_available or sum(task_minimum(task) for task in tasks),
        tasks=tasks,
        plugins=_with_needed(job.spec.plugins),
    )
    return replace(job, spec=spec)


def _with_needed(plugins: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Plugins with those that they need."""
    needed = []
    for name in plugins:
        for needed_plugin in _NEEDS.get(name, ()):
            if needed_plugin not in plugins:
                needed.append(needed_plugin)
    return {**plugins, **dict.fromkeys(needed, ())}


def plugin_flags(arguments: Sequence[str], defaults: Mapping[str, str]) -> dict[str, str]:
    """The values of a plugin's flags, as Go reads them: `--name=value`, `-name value`, and a flag by itself is true."""
    flags = dict(defaults)
    words = list(arguments)
    while words:
        name, has_value, value = words.pop(0).lstrip("-").partition("=")
        if name not in defaults:
            break  # Go stops at the first word that it does not know
        if not has_value and defaults[name] not in ("true", "false"):
            value = words.pop(0) if words else defaults[name]
        flags[name] = value if has_value or value else "true"
    for name, value in defaults.items():
        if value.isdecimal() and not (flags[name].isdecimal() and len(flags[name]) < _LONGEST_NUMBER):
            flags[name] = value
    return flags


def task_minimum(task: TaskSpec) -> int:
    """How many pods of a task must start together: its own word, else its required partitions, else all of it."""
    if task.min_available is not None:
        return task.min_available
    policy = task.partition_policy
    required = (policy.min_partitions or 0) * (policy.partition_size or 0) if policy else 0
    return required or task.replicas


def uid_of(job: Job) -> str:
    """The job's uid; for a manifest without one, a stable one that follows from its name."""
    return job.metadata.uid or made_up_uid("Job", job.metadata.namespace or "default", job.metadata.name)


def pod_group_name(job: Job) -> str:
    """The name of the pod group of a job."""
    return f"{job.metadata.name}-{uid_of(job)}"


def pod_name(job: Job, task: TaskSpec, index: int) -> str:
    """The name of a task's pod."""
    return f"{job.metadata.name}-{task.name}-{index}"


def partition_of(task: TaskSpec, index: int) -> str:
    """The partition that a pod of a task belongs to, "" where the task is not parted."""
    if task.partition_policy is None:
        return ""
    size = task.partition_policy.partition_size or 0
    return str(index // size if size > 0 else 0)
