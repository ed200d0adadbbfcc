"""Places that are held while pods are moved, from the record of a defragmentation and the pods as they are now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from tierwise.api.core import ConfigMap, Pod
from tierwise.model.arrays import Axis, Ints
from tierwise.model.held_places import HeldPlace, HeldPlaces
from tierwise.model.job import Job, Status, Task
from tierwise.model.node import NodeTable
from tierwise.model.snapshot import Fault
from tierwise.port import Key, Objects
from tierwise.snapshot.jobs import SortedPods

if TYPE_CHECKING:
    from tierwise.api.defrag_record import DefragRecord, HeldPods

__all__ = ["read_held_places"]

_NOTHING: Final = HeldPlaces()
_LARGEST: Final = 1 << 48
_PODS: Final = 1 << 10


def read_held_places(
    objects: Objects, axis: Axis, nodes: NodeTable, pods: SortedPods
) -> tuple[HeldPlaces, list[Fault]]:
    """Held places, and faults of records that cannot be read."""
    records = objects.of_kind("", "ConfigMap")
    if not records:
        return _NOTHING, []
    from tierwise.api.defrag_record import RECORD_NAME, observed, read_record  # few clusters are defragmented

    config_maps = [(path, records[path]) for path in records if path.endswith(f"/{RECORD_NAME}")]
    if not config_maps:
        return _NOTHING, []
    places: list[HeldPlace] = []
    unobserved: list[tuple[Key, int]] = []
    moving: set[str] = set()
    faults: list[Fault] = []
    for path, config in config_maps:
        assert isinstance(config, ConfigMap)
        try:
            record = read_record(config)
        except ValueError as error:
            faults.append(Fault(f"ConfigMap {path}", "InvalidDefragRecord", str(error)))
            continue
        namespace, _, name = path.rpartition("/")
        if observed(config) < record.revision:
            unobserved.append((Key("", "ConfigMap", namespace, name), record.revision))
        if not record.over:
            moving.update(*(move.pods for move in record.moves[:1]))
        places += _kept(record, axis, nodes.row)
        places += _held(record, axis, nodes, pods.jobs, objects)
    return HeldPlaces(tuple(places), tuple(unobserved), frozenset(moving)), faults


def _kept(record: DefragRecord, axis: Axis, rows: Mapping[str, int]) -> Iterator[HeldPlace]:
    for node, amounts in sorted(record.kept.items()):
        if node in rows:
            yield HeldPlace((), rows[node], _vector(axis, amounts), 1, record.deadline)


def _held(
    record: DefragRecord, axis: Axis, nodes: NodeTable, jobs: Sequence[Job], objects: Objects
) -> Iterator[HeldPlace]:
    """Yield one HeldPlace for each entry of the record whose node exists and which is not taken up fully; it says how
    many places are left, _PODS at most. It has no job keys where the job has no pods at the moment: then the places are
    kept from all jobs.
    """
    placed_before: dict[tuple[str, str, str, bytes], int] = {}  # pods that stand for an earlier entry already
    for held_pods in record.held:
        row = nodes.row.get(held_pods.node)
        if row is None:
            continue
        request = _vector(axis, held_pods.requests)
        if held_pods.owner:
            alike = _children(held_pods.owner, objects)
            keys = tuple(job.key for job in jobs if len(job.tasks) == 1 and job.tasks[0].key in alike)
            present = sum(node == held_pods.node for node in alike.values())
        else:
            jobs_meant = [job for job in jobs if _means(held_pods, job)]
            keys = tuple(job.key for job in jobs_meant)
            present = sum(_stands(task, int(nodes.number[row]), request) for job in jobs_meant for task in job.tasks)
        mark = held_pods.job, held_pods.owner, held_pods.node, request.tobytes()
        missing = held_pods.pods - max(0, present - placed_before.get(mark, 0))
        placed_before[mark] = placed_before.get(mark, 0) + held_pods.pods
        if missing > 0:
            # A job that has no pods at the moment is not known yet: its places are kept from all jobs.
            yield HeldPlace(keys, row, request, min(missing, _PODS), record.expires, held_pods.queue)


def _means(held_pods: HeldPods, job: Job) -> bool:
    """Whether a job is the one that places are held for, by its own name or by that of what it was made for."""
    return held_pods.job == job.key or (bool(job.owner) and held_pods.job == f"{job.key.partition('/')[0]}/{job.owner}")


def _stands(task: Task, node: int, request: Ints) -> bool:
    """Whether a task has come to its place: on the node of a number, with these requests."""
    resources = np.flatnonzero(request)
    return (
        task.status is Status.RUNNING
        and task.node == node
        and bool((task.shape.request[resources] == request[resources]).all())
    )


def _children(owner: str, objects: Objects) -> dict[str, str]:
    """Pods with an owner, by path, and their nodes; without those that have ended or are on their way out."""
    return {
        path: pod.spec.node_name
        for path, pod in objects.every(Pod).items()
        if any(reference.uid == owner for reference in pod.metadata.owner_references)
        and not pod.metadata.deletion_timestamp
        and pod.status.phase not in ("Succeeded", "Failed")
    }


def _vector(axis: Axis, amounts: Mapping[str, int]) -> Ints:
    """Amounts as a column, within bounds: whoever wrote them, sums over them do not wrap."""
    return axis.vector({name: min(max(n, 0), _LARGEST) for name, n in amounts.items() if name in axis.index})
