"""TopologicalSort: the services of an application in the order of their dependencies.

Pods of one AppGroup go by the index that its status gives their workload; a workload without an index goes first.
Others go by priority, class and age. To keep that an order, the pods of a group take the places that the ordinary
order gives to the group, and fill them by index.

Argument: `namespaces`, whose AppGroups count also for pods of namespaces without one of that name.
"""

from __future__ import annotations

from collections.abc import Iterable

from tierwise.framework.declaration import takes_part
from tierwise.framework.extension import Arguments, CycleView, JobOrder, Reporter
from tierwise.model.job import Job, Reason, Task
from tierwise.model.services import AppGroup
from tierwise.plugins.qos_sort import ordinary_key, waiting_shapes

__all__ = ["TopologicalSort", "unknown_groups"]

_PLUGIN = "TopologicalSort"


@takes_part(Reporter, JobOrder, rises_with_use=True, by_priority=True)
class TopologicalSort:
    """Orders jobs by the place of their workload in its application."""

    def __init__(self, arguments: Arguments, view: CycleView) -> None:
        self._view = view
        self._places = self._fill(view.jobs)

    def job_key(self, job: Job) -> tuple[float, ...]:
        """Sort key of a job: priority and place in line, which jobs of one AppGroup share out by its dependencies."""
        return self._places[job.number]

    def complaints(self) -> Iterable[tuple[Task, Reason]]:
        """Pods whose group does not exist wait in the ordinary order."""
        return unknown_groups(self._view, _PLUGIN, "it waits in the ordinary order")

    def _fill(self, jobs: tuple[Job, ...]) -> dict[int, tuple[float, float]]:
        ordinary = sorted(jobs, key=lambda job: (ordinary_key(job), job.order))
        places: dict[int, tuple[float, float]] = {}
        groups: dict[str, list[tuple[int, tuple[float, float], Job]]] = {}
        for number, job in enumerate(ordinary):
            place = -float(job.priority), float(number)
            group = self._group(job)
            if group is None:
                places[job.number] = place
            else:
                groups.setdefault(group.key, []).append((_index(group, job), place, job))
        for members in groups.values():
            free = [place for _, place, _ in members]
            for place, (_, _, job) in zip(free, sorted(members, key=lambda m: m[:2]), strict=True):
                places[job.number] = place
        return places

    def _group(self, job: Job) -> AppGroup | None:
        """The group that all pending tasks of a job name."""
        keys = {shape.service[0] if shape.service is not None else "" for shape in waiting_shapes(job)}
        if len(keys) == 1:
            return self._view.snapshot.services.groups.get(keys.pop())
        return None


def _index(group: AppGroup, job: Job) -> int:
    """The first of the places of a job's workloads."""
    services = (shape.service for shape in waiting_shapes(job))
    return min((group.order.get(service[1], 0) for service in services if service is not None), default=0)


def unknown_groups(view: CycleView, plugin: str, outcome: str) -> Iterable[tuple[Task, Reason]]:
    """The pending tasks that name a group which neither their namespace has nor one that the profile lists."""
    for job in view.jobs:
        for pod_set in job.every_pod_set():
            service = pod_set.shape.service
            if service is not None and service[0] not in view.snapshot.services.groups:
                namespace, _, name = service[0].partition("/")
                where = f"namespace {namespace}, nor in one that the profile lists"
                reason = Reason("AppGroupNotFound", plugin, f"AppGroup {name} is not in {where}: {outcome}")
                yield from ((task, reason) for task in pod_set.tasks)
