"""Tasks that wait for others (`dependsOn`): their pods are made once those they depend on are up.

Volcano's rule: a task is up once its minimum runs with all containers ready, or has succeeded. `iteration: any` asks
for one of the tasks named, everything else for all of them.
"""

from __future__ import annotations

from collections import Counter

from tierwise.api.core import Pod
from tierwise.api.volcano import Job
from tierwise.controllers.job.roster import Roster
from tierwise.dialects.volcano_job import task_minimum

__all__ = ["held_back"]


def held_back(job: Job, roster: Roster) -> frozenset[str]:
    """The tasks of a job with its defaults filled in that wait for others."""
    if not any(task.depends_on is not None for task in job.spec.tasks):
        return frozenset()
    up = Counter(m.task for m in roster.current() if not m.leaving and _is_up(m.pod))
    started = {task.name for task in job.spec.tasks if up[task.name] >= task_minimum(task)}
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
