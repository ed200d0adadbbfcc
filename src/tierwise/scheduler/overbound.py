"""Pods that were bound to room which somebody else had taken: two schedulers have decided at the same moment.

The API server binds whatever it is asked to, and a kubelet refuses the pods that come last to a node that is full. So
the pods of such a node are gone through as a kubelet would: those that it has taken up, then gang by gang in the order
in which these were bound. Who finds no room there is to be taken back, if he is ours; so is a pod of ours that a
kubelet has refused. Every scheduler that follows the rule comes to the same order, because it is read off the pods.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from tierwise.api.core import Pod
from tierwise.api.natural import NaturalKey, natural
from tierwise.dialects.koordinator import gang_of
from tierwise.dialects.marks import group_of
from tierwise.model.job import Job, Status, Task
from tierwise.model.snapshot import Snapshot
from tierwise.port import Objects
from tierwise.scheduler.evidence import bound_at, owned

__all__ = ["overbound"]

_CROWDED: Final = "Oversubscribed"
_REFUSED: Final = "OutOf"
"""How a kubelet's reasons begin where a node has too little of something: OutOfcpu, OutOfnvidia.com/gpu, …"""


def overbound(objects: Objects, snapshot: Snapshot) -> dict[str, list[Pod]]:
    """The pods to be taken back, by the key of their job: none of them has ever run, and all will be made anew."""
    found: dict[str, list[Pod]] = {}
    for job, pod in (*_refused(objects, snapshot), *_last(objects, snapshot)):
        if owned(pod):
            found.setdefault(job.key, []).append(pod)
    return found


def _refused(objects: Objects, snapshot: Snapshot) -> Iterator[tuple[Job, Pod]]:
    pods = objects.every(Pod)
    for job in snapshot.jobs:
        for task in job.tasks:
            if task.status is Status.FAILED and task.key in pods:
                pod = pods[task.key]
                if pod.status.reason.startswith(_REFUSED) and not pod.metadata.deletion_timestamp:
                    yield job, pod


class _Guest(msgspec.Struct, frozen=True):
    """A pod on a node that holds too much."""

    task: Task
    pod: Pod
    job: Job | None  # None where it is not ours
    stays: bool  # a kubelet has taken it up


def _last(objects: Objects, snapshot: Snapshot) -> Iterator[tuple[Job, Pod]]:
    names = {fault.subject.removeprefix("Node ") for fault in snapshot.faults if fault.code == _CROWDED}
    if not names:
        return
    guests = _guests(objects, snapshot, {snapshot.nodes.row[name] for name in names})
    gangs = {_gang(guest.pod) for row in guests.values() for guest in row if not guest.stays}
    times = _times(objects, gangs)
    for row, there in guests.items():
        if any(not guest.stays and bound_at(guest.pod) is None for guest in there):
            continue  # bound a moment ago: the server's word on when is on its way
        free = snapshot.nodes.allocatable[:, row].copy()
        for guest in sorted(there, key=lambda guest: _turn(guest, times)):
            asks = guest.task.shape.request
            if not ((asks > free) & (asks > 0)).any():
                free -= asks
            elif guest.job is not None and not guest.stays and guest.task.status is Status.RUNNING:
                yield guest.job, guest.pod


def _guests(objects: Objects, snapshot: Snapshot, rows: set[int]) -> dict[int, list[_Guest]]:
    pods = objects.every(Pod)
    found: dict[int, list[_Guest]] = {row: [] for row in sorted(rows)}
    everyone = ((job, task) for job in snapshot.jobs for task in job.tasks)
    for job, task in (*everyone, *((None, task) for task in snapshot.others)):
        if task.row in rows and task.status in (Status.RUNNING, Status.RELEASING) and task.key in pods:
            pod = pods[task.key]
            up = bool(pod.status.start_time) or pod.status.phase not in ("", "Pending")
            ours = job if job is not None and job.declared else None
            found[task.row].append(_Guest(task, pod, ours, up))
    return found


def _gang(pod: Pod) -> str:
    """Whom a pod is bound with, told by the pod alone: pods of other schedulers are no jobs of ours."""
    return group_of(pod) or gang_of(pod) or f"pod {pod.metadata.namespace or 'default'}/{pod.metadata.name}"


def _times(objects: Objects, gangs: set[str]) -> dict[str, float]:
    """When the last pod of each gang was bound."""
    times = dict.fromkeys(gangs, 0.0)
    for pod in objects.every(Pod).values():
        if pod.spec.node_name and (gang := _gang(pod)) in gangs:
            times[gang] = max(times[gang], bound_at(pod) or 0.0)
    return times


def _turn(guest: _Guest, times: dict[str, float]) -> tuple[bool, float, NaturalKey, NaturalKey]:
    gang = _gang(guest.pod)
    return not guest.stays, 0.0 if guest.stays else times[gang], natural(gang), natural(guest.task.key)
