"""Pods on an overcommitted node: two schedulers bound pods to the same resources at the same time.

The API server accepts every bind, and a kubelet rejects the pods that arrive last on a full node. This module goes
through the pods of such a node as a kubelet would: first the pods that it has started, then gang by gang in the order
of binding. Pods of ours that do not fit are evicted, and so are those that a kubelet has rejected. Every scheduler that
follows this rule finds the same order, because it is derived from the pods alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from tierwise.api.core import Pod
from tierwise.api.meta import parse_time
from tierwise.api.natural import NaturalKey, natural
from tierwise.dialects.languages import whose
from tierwise.model.job import Job, Status, Task
from tierwise.model.snapshot import Snapshot
from tierwise.port import Objects, lone_gang

__all__ = ["bound_at", "bound_together", "overbound", "owned", "partial_since"]


# What pods tell: when they were bound, and where no object does, whether their gang was ever whole.
#
# All by the API server's own clock, which stamps when a pod is made and when it is bound. A gang that was whole and
# has lost pods has replacements that are younger than its first binding, or members that have ended. One of which a
# pod was there from the beginning and still has no node, while no other has come, was bound in part.


def partial_since(objects: Objects, tasks: Sequence[Task]) -> float | None:
    """When the last pod was bound of a gang, or a part of one, that was never whole; None else, or if nothing tells."""
    pods = objects.every(Pod)
    standing = [pods[task.key] for task in tasks if task.status is Status.RUNNING and task.key in pods]
    waiting = [pods[task.key] for task in tasks if task.status is Status.PENDING and task.key in pods]
    bound = [bound_at(pod) for pod in standing]
    times = [time for time in bound if time is not None]
    if not waiting or len(standing) + len(waiting) < len(tasks) or len(times) < len(standing) or not times:
        return None
    first = min(times)
    return max(times) if all(_made(pod) <= first for pod in waiting) else None


def owned(pod: Pod) -> bool:
    """Whether a controller makes a pod again when it is gone."""
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


_CROWDED: Final = "Oversubscribed"
_REFUSED: Final = "OutOf"
"""How a kubelet's reasons begin where a node has too little of something: OutOfcpu, OutOfnvidia.com/gpu, …"""


def overbound(objects: Objects, snapshot: Snapshot) -> dict[str, list[Pod]]:
    """The pods to be taken back, by the key of their job: none of them has ever run, and all will be made again."""
    found: dict[str, list[Pod]] = {}
    for job, pod in (*_refused(objects, snapshot), *_last(objects, snapshot)):
        if owned(pod):
            found.setdefault(job.key, []).append(pod)
    return found


def _refused(objects: Objects, snapshot: Snapshot) -> Iterator[tuple[Job, Pod]]:
    pods = objects.every(Pod)
    for job in snapshot.columns.with_status(Status.FAILED):
        for task in job.tasks:
            if task.status is Status.FAILED and task.key in pods:
                pod = pods[task.key]
                if pod.status.reason.startswith(_REFUSED) and not pod.metadata.deletion_timestamp:
                    yield job, pod


class _BoundPod(msgspec.Struct, frozen=True):
    """A pod on a node that holds too much."""

    task: Task
    pod: Pod
    job: Job | None  # None where it is not ours
    stays: bool  # a kubelet has taken it up


def _last(objects: Objects, snapshot: Snapshot) -> Iterator[tuple[Job, Pod]]:
    names = {fault.subject.removeprefix("Node ") for fault in snapshot.faults if fault.code == _CROWDED}
    if not names:
        return
    guests = _guests(objects, snapshot, sorted(snapshot.nodes.row[name] for name in names))
    newcomers = [guest.pod for row in guests.values() for guest in row if not guest.stays]
    if not newcomers:
        return  # a node may hold too much for as long as it likes
    times = _times(objects, newcomers)
    for row, there in guests.items():
        if any(not guest.stays and bound_at(guest.pod) is None for guest in there):
            continue  # bound a moment ago: the server's word on when is on its way
        free = snapshot.nodes.allocatable[:, row].copy()
        for guest in sorted(there, key=lambda guest: _binding_order(guest, times)):
            asks = guest.task.shape.request
            if not ((asks > free) & (asks > 0)).any():
                free -= asks
            elif guest.job is not None and not guest.stays and guest.task.status is Status.RUNNING:
                yield guest.job, guest.pod


def _guests(objects: Objects, snapshot: Snapshot, rows: list[int]) -> dict[int, list[_BoundPod]]:
    pods = objects.every(Pod)
    found: dict[int, list[_BoundPod]] = {row: [] for row in rows}
    for job, task in snapshot.columns.on_rows(rows):
        if task.status in (Status.RUNNING, Status.RELEASING) and task.key in pods:
            pod = pods[task.key]
            up = bool(pod.status.start_time) or pod.status.phase not in ("", "Pending")
            ours = job if job is not None and job.declared else None
            found[int(snapshot.nodes.rows[task.node])].append(_BoundPod(task, pod, ours, up))
    return found


def _gang(pod: Pod) -> str:
    """Which pods a pod is bound with, told by the pod alone: pods of other schedulers are no jobs of ours."""
    return whose(pod) or lone_gang(f"{pod.metadata.namespace or 'default'}/{pod.metadata.name}")


def _times(objects: Objects, members: Sequence[Pod]) -> dict[str, float]:
    """When the last pod was bound of each gang that has some of these."""
    times = dict.fromkeys(map(_gang, members), 0.0)
    namespaces = {pod.metadata.namespace for pod in members}  # no gang has pods in two
    for pod in objects.every(Pod).values():
        if pod.metadata.namespace in namespaces and pod.spec.node_name and (gang := _gang(pod)) in times:
            times[gang] = max(times[gang], bound_at(pod) or 0.0)
    return times


def _binding_order(guest: _BoundPod, times: dict[str, float]) -> tuple[bool, float, NaturalKey, NaturalKey]:
    gang = _gang(guest.pod)
    return not guest.stays, 0.0 if guest.stays else times[gang], natural(gang), natural(guest.task.key)
