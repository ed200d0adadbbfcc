"""Places that are kept for successors: the record of pods and their nodes, and what is held because of it.

The record is a ConfigMap with a line of JSON for each pod that would come back: it is written while the pod stands, so
that its place is known however fast it goes, and survives a restart. It is bounded, for every namespace by itself.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain
from typing import Any, Final

import numpy as np
from msgspec.structs import replace

from tierwise.api.codec import Raw
from tierwise.api.core import ConfigMap, Pod
from tierwise.config.kept_places import KeptPlaceRules, kept_place_rules
from tierwise.config.profile import Profile
from tierwise.dialects.languages import LANGUAGES, declaring
from tierwise.model.arrays import MOST as LARGEST
from tierwise.model.arrays import Axis
from tierwise.model.held_places import HeldPlace, HeldPlaces
from tierwise.model.job import Job, Status, Task, namespace_of
from tierwise.model.kept_places import KeptPod, PlaceMemory, PodHere, PodState, Successors
from tierwise.model.node import NodeTable
from tierwise.model.snapshot import Fault, Snapshot
from tierwise.port import Create, Effect, Key, Objects, Update, gang_path
from tierwise.snapshot.derive import Derived, Each, Graph, Records
from tierwise.snapshot.jobs import SortedPods

__all__ = ["KEPT_PLACES", "MOST", "MOST_OF_NAMESPACE", "kept_place_effects", "place_memory", "with_kept_places"]

KEPT_PLACES: Final = "tierwise-kept-places"
"""The name of the ConfigMap; a profile names its namespace."""
MOST: Final = 2000
MOST_OF_NAMESPACE: Final = 500
_PLACES: Final = "places"
_ENDED: Final = ("Succeeded", "Failed")
_RETURNS: Final = frozenset(("StatefulSet", "PodClique"))
"""Kinds of owners that make a pod again when it was deleted, whatever becomes of its group."""
_DECLARE: Final = tuple(dict.fromkeys(kind for language in LANGUAGES.values() for kind in language.declares))


def pod_here(served: Container[str], pod: Pod) -> PodHere | None:
    """Its place; None for a pod without a node, or of a scheduler that is not among those served."""
    meta = pod.metadata
    status = pod.status
    if not pod.spec.node_name or pod.spec.scheduler_name not in served:
        return None
    evicted = any(c.type == "DisruptionTarget" and c.status == "True" for c in status.conditions)
    state = PodState.LEAVES if meta.deletion_timestamp else PodState.STANDS
    if evicted or status.phase in _ENDED:
        state = PodState.OVER
    returns = any(owner.controller and owner.kind in _RETURNS for owner in meta.owner_references)
    return PodHere(meta.uid or meta.creation_timestamp, pod.spec.node_name, state, returns)


def place_memory(
    graph: Graph, profile: Profile, pods: Records[Pod], served: Container[str]
) -> Derived[tuple[PlaceMemory, tuple[Fault, ...]]]:
    """The record and the pods that there are, for a profile that asks for it, and what is wrong with the record."""
    rules = kept_place_rules(profile)
    key = _record_key(rules.namespace)
    record = graph.whole(lambda found: found.record(key), graph.kinds(ConfigMap))
    return graph.whole(partial(_memory, rules), record, Each(pods, partial(pod_here, served)))


def _record_key(namespace: str) -> Key:
    return Key("", "ConfigMap", namespace, KEPT_PLACES)


def _memory(
    rules: KeptPlaceRules, record: ConfigMap | None, here: Mapping[str, PodHere | None]
) -> tuple[PlaceMemory, tuple[Fault, ...]]:
    recorded, faults = _read(record)
    return PlaceMemory(rules.namespace, rules.time, recorded, dict(here)), faults


def _read(record: ConfigMap | None) -> tuple[tuple[KeptPod, ...], tuple[Fault, ...]]:
    if record is None:
        return (), ()
    try:
        lines = record.data.get(_PLACES, "").splitlines()[:MOST]
        return tuple([_line(*json.loads(line)) for line in lines]), ()
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        name = f"ConfigMap {record.metadata.namespace}/{record.metadata.name}"
        return (), (Fault(name, "InvalidKeptPlaces", f"it cannot be read, and no place is kept: {error}"),)


def _line(*entries: Any) -> KeptPod:
    pod, uid, gang, declared, owner, returns, node, queue, requests, gone = entries
    amounts = {str(name): min(max(int(number), 0), LARGEST) for name, number in requests.items()}
    pod, uid, gang, declared, owner, node, queue = map(str, (pod, uid, gang, declared, owner, node, queue))
    return KeptPod(pod, uid, gang, declared, owner, bool(returns), node, queue, amounts, float(gone))


# What is held.


def with_kept_places(
    graph: Graph,
    held: Derived[tuple[HeldPlaces, list[Fault]]],
    memory: Derived[PlaceMemory],
    *seen: Derived[Any],
) -> Derived[tuple[HeldPlaces, list[Fault]]]:
    """All that is held, the places that are kept for successors too; `seen` are the axis, the nodes and the jobs."""

    def together(
        found: tuple[HeldPlaces, list[Fault]],
        memory: PlaceMemory,
        axis: Axis,
        nodes: NodeTable,
        pods: SortedPods,
        objects: Objects,
    ) -> tuple[HeldPlaces, list[Fault]]:
        places = _kept_places(memory, axis, nodes, pods.jobs, objects)
        return replace(found[0], places=(*found[0].places, *places)), found[1]

    return graph.whole(together, held, memory, *seen, graph.kinds(*_DECLARE))


def _kept_places(
    memory: PlaceMemory, axis: Axis, nodes: NodeTable, jobs: Iterable[Job], objects: Objects
) -> Iterator[HeldPlace]:
    """The places of pods that are leaving or gone, while somebody comes after them."""
    left = [(kept, until) for kept, until in memory.left() if kept.node in nodes.row]
    successors = Successors(tuple(jobs)) if left else Successors(())
    known = {job.key for job in jobs} if left else set()
    for kept, until in left:
        after = successors.of(kept)
        if after or kept.returns or kept.gang in known or _declared(kept, objects):
            request = axis.vector({name: n for name, n in kept.requests.items() if name in axis.index})
            keys = tuple(job.key for job in after)
            yield HeldPlace(keys, nodes.row[kept.node], request, 1, until, kept.queue, kept.pod)


def _declared(kept: KeptPod, objects: Objects) -> bool:
    group, _, kind = kept.declared.rpartition("/")
    return bool(kind) and objects.record(Key.at(group, kind, gang_path(kept.gang))) is not None


# The record.


def kept_place_effects(objects: Objects, snapshot: Snapshot, evicted: Collection[str]) -> list[Effect]:
    """Write down who stands where and who is gone; nothing where that is known, or the profile keeps no places.

    Places of pods that this cycle has `evicted` are for whoever they were evicted for.
    """
    memory = snapshot.place_memory
    if memory is None:
        return []
    lines = [*_still_kept(memory, snapshot.now, evicted), *_new(memory, objects, snapshot, evicted)]
    lines = _bounded(lines)
    if lines == list(memory.recorded):
        return []
    key = _record_key(memory.namespace)
    present = objects.raw(key)
    data = {_PLACES: "".join(map(_spelled, lines))}
    if present is None:
        metadata = {"name": key.name, "namespace": key.namespace}
        manifest: Raw = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
        return [Create(manifest)]
    return [Update(key, {**present, "data": data})]


def _still_kept(memory: PlaceMemory, now: float, evicted: Collection[str]) -> Iterator[KeptPod]:
    """The recorded places, without those that are nobody's any more and those that a new pod has taken over."""
    for kept in memory.recorded:
        pod = memory.here.get(kept.pod)
        if kept.pod in evicted:
            continue
        if pod is None and not kept.gone:
            yield replace(kept, gone=now)
        elif pod is None:
            if now < kept.gone + memory.time:
                yield kept
        elif pod.uid == kept.uid and pod.state is not PodState.OVER:
            yield kept


def _new(memory: PlaceMemory, objects: Objects, snapshot: Snapshot, evicted: Collection[str]) -> Iterator[KeptPod]:
    """The pods that stand and are not in the record."""
    known = {(kept.pod, kept.uid) for kept in memory.recorded}
    for job, task in _standing(snapshot):
        pod = memory.here.get(task.key)
        if pod is None or pod.state is not PodState.STANDS or task.key in evicted or (task.key, pod.uid) in known:
            continue
        if pod.returns or (job is not None and job.declared and not job.lone):
            yield _seen(pod, task, job, objects, snapshot)


def _seen(pod: PodHere, task: Task, job: Job | None, objects: Objects, snapshot: Snapshot) -> KeptPod:
    key = next((key for key, _ in declaring(objects, job)), None) if job is not None and job.declared else None
    request = task.shape.request
    axis = snapshot.axis.names
    return KeptPod(
        pod=task.key,
        uid=pod.uid,
        gang=job.key if job is not None else "",
        declared=f"{key.group}/{key.kind}" if key is not None else "",
        owner=job.owner if job is not None else "",
        returns=pod.returns,
        node=pod.node,
        queue=job.queue if job is not None else "",
        requests={axis[i]: int(request[i]) for i in np.flatnonzero(request).tolist()},
    )


def _standing(snapshot: Snapshot) -> Iterator[tuple[Job | None, Task]]:
    """The tasks that run on a node that there is, with their jobs; a pod that no queue counts has none."""
    of_jobs = ((job, task) for job in snapshot.jobs for task in job.tasks)
    of_nobody = ((None, task) for task in snapshot.others)
    for job, task in chain(of_jobs, of_nobody):
        if task.status is Status.RUNNING and task.node >= 0:
            yield job, task


def _bounded(lines: Iterable[KeptPod]) -> list[KeptPod]:
    """The first ones, and of each namespace so many at most: who is in the record stays there."""
    of_namespace = Counter[str]()
    kept = list[KeptPod]()
    for line in lines:
        namespace = namespace_of(line.pod)
        if of_namespace[namespace] < MOST_OF_NAMESPACE and len(kept) < MOST:
            of_namespace[namespace] += 1
            kept.append(line)
    return kept


def _spelled(kept: KeptPod) -> str:
    entries = (kept.pod, kept.uid, kept.gang, kept.declared, kept.owner, kept.returns, kept.node, kept.queue)
    return f"{json.dumps([*entries, dict(kept.requests), kept.gone], separators=(',', ':'))}\n"
