"""Failed starts: which pods tell of one, and the record of them, which survives a restart.

A start has failed where the node did not get to run the pod: its kubelet refused it, an image or a device could not be
had before the container ran, a check before it failed, or the node was lost. How a container ends that did run, by
exit code or out of memory, says nothing of the node.

The record is a ConfigMap with a line of JSON for each: the last ones, and few of one namespace, so that no tenant
displaces what others know.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Final

from msgspec.structs import replace

from tierwise.api.codec import Raw
from tierwise.api.core import ConfigMap, ContainerStatus, Node, ObjectMeta, Pod, format_time
from tierwise.api.plurals import count
from tierwise.config.failed_starts import FailedStartRules, failed_start_rules
from tierwise.config.profile import Profile
from tierwise.model.failed_starts import FailedStart, FailedStarts, StartMemory, confirmed, kept_starts
from tierwise.model.job import Status
from tierwise.model.snapshot import Fault, Snapshot
from tierwise.port import Create, Effect, Key, Objects, PatchStatus, RecordEvent, Update
from tierwise.snapshot.derive import Derived, Each, Graph, Records

__all__ = [
    "FAILED_STARTS",
    "SUSPECTED",
    "failed_start",
    "failed_start_effects",
    "forgiving",
    "read_failed_starts",
    "record_key",
    "start_memory",
]

FAILED_STARTS: Final = "tierwise-failed-starts"
"""The name of the ConfigMap; a profile names its namespace."""
SUSPECTED: Final = "tierwise.io/Suspected"
"""The condition of a node that has failed several namespaces."""
_STARTS = "starts"
_FORGIVEN = "forgiven"

_REFUSED: Final = frozenset(
    ("UnexpectedAdmissionError", "TopologyAffinityError", "NodeLost", "NodeShutdown", "Shutdown", "NodeAffinity")
)
_WAITING: Final = frozenset(
    ("ErrImagePull", "ImagePullBackOff", "CreateContainerError", "RunContainerError", "CreatePodSandboxError")
)
_LOST: Final = "DeletionByTaintManager"


def record_key(namespace: str) -> Key:
    """Where the record is."""
    return Key("", "ConfigMap", namespace, FAILED_STARTS)


def failed_start(pod: Pod) -> tuple[str, str, str] | None:
    """The uid of a pod, its node and why it did not start there; None where nothing speaks against the node."""
    node = pod.spec.node_name
    status = pod.status
    if not node:
        return None
    why = ""
    if status.phase == "Failed" and (status.reason in _REFUSED or status.reason.startswith("OutOf")):
        why = status.reason
    elif any(c.type == "DisruptionTarget" and c.reason == _LOST for c in status.conditions):
        why = _LOST
    elif status.phase in ("Pending", ""):
        why = next(filter(None, map(_stuck, (*status.init_container_statuses, *status.container_statuses))), "")
    why = why or next(filter(None, map(_failed_check, status.init_container_statuses)), "")
    if why:
        return (pod.metadata.uid or _path(pod.metadata), node, why)
    return None


def _path(meta: ObjectMeta) -> str:
    return f"{meta.namespace}/{meta.name}"


def _stuck(status: ContainerStatus) -> str:
    waiting = status.state.waiting
    if waiting is not None and waiting.reason in _WAITING:
        return waiting.reason
    return ""


def _failed_check(status: ContainerStatus) -> str:
    """A check that runs before the containers, and failed."""
    ended = status.state.terminated
    if ended is not None and ended.exit_code and ended.reason != "OOMKilled":
        return "Init:Error"
    return ""


def read_failed_starts(
    record: ConfigMap | None,
) -> tuple[tuple[FailedStart, ...], Mapping[str, float], tuple[Fault, ...]]:
    """Read the record: the failed starts, which nodes were forgiven and when, and what is wrong with it."""
    if record is None:
        return (), {}, ()
    try:
        lines = record.data.get(_STARTS, "").splitlines()
        starts = tuple([_read(json.loads(line)) for line in lines])
        forgiven = {str(node): float(at) for node, at in json.loads(record.data.get(_FORGIVEN, "{}")).items()}
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        text = f"it cannot be read, and nothing is remembered: {error}"
        return (), {}, (Fault(f"ConfigMap {_path(record.metadata)}", "InvalidFailedStarts", text),)
    return starts, forgiven, ()


def _read(line: Any) -> FailedStart:
    pod, gang, node, at, why, alone = line
    return FailedStart(str(pod), str(gang), str(node), float(at), str(why), bool(alone))


def start_memory(graph: Graph, profile: Profile, pods: Records[Pod]) -> Derived[tuple[StartMemory, tuple[Fault, ...]]]:
    """The record and what pods tell of, for a profile that asks for it, and what is wrong with the record."""
    rules = failed_start_rules(profile)
    key = record_key(rules.namespace)
    record = graph.whole(lambda found: found.record(key), graph.kinds(ConfigMap))
    marks = graph.whole(_marked, Each(graph.records(Node), _mark)) if rules.condition else graph.whole(lambda: None)
    return graph.whole(partial(_memory, rules), record, Each(pods, failed_start), marks)


def _memory(
    rules: FailedStartRules,
    record: ConfigMap | None,
    telling: Mapping[str, tuple[str, str, str] | None],
    marked: Mapping[str, str] | None,
) -> tuple[StartMemory, tuple[Fault, ...]]:
    recorded, forgiven, faults = read_failed_starts(record)
    memory = StartMemory(rules.namespace, rules.half_life, rules.owners, recorded, forgiven, dict(telling), marked)
    return memory, faults


def _mark(node: Node) -> str:
    return next((condition.status for condition in node.status.conditions if condition.type == SUSPECTED), "")


def _marked(marks: Mapping[str, str]) -> Mapping[str, str]:
    return {node: status for node, status in marks.items() if status}


def failed_start_effects(objects: Objects, snapshot: Snapshot) -> list[Effect]:
    """Write down the starts that have failed since the record was written, and which gangs of it have come up elsewhere
    since; nothing where the profile keeps none.
    """
    memory = snapshot.start_memory
    if memory is None:
        return []
    new = memory.seen_now(snapshot.jobs, snapshot.now)
    recorded = _confirmed(memory, snapshot)
    starts = (*recorded, *new)
    effects = list(_conditions(memory, starts, snapshot))
    if not new and recorded == list(memory.recorded):
        return effects
    return [*effects, *_written(objects, memory, starts), *_suspicions(memory, starts, snapshot.now)]


def _written(objects: Objects, memory: StartMemory, starts: Iterable[FailedStart]) -> list[Effect]:
    key = record_key(memory.namespace)
    present = objects.raw(key)
    data: dict[str, Any] = {_STARTS: _spelled(starts)}
    if present is None:
        metadata = {"name": key.name, "namespace": key.namespace}
        manifest: Raw = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
        return [Create(manifest)]
    before = present.get("data")
    return [Update(key, {**present, "data": {**(before if isinstance(before, dict) else {}), **data}})]


def _conditions(memory: StartMemory, starts: tuple[FailedStart, ...], snapshot: Snapshot) -> Iterable[Effect]:
    """The condition of nodes that have become suspected ones, or are none any more, where a profile asks for it."""
    if memory.marked is None:
        return
    suspected = FailedStarts(starts, memory.forgiven, memory.half_life, memory.owners, snapshot.now).suspected
    for node in sorted({*suspected, *memory.marked} & snapshot.nodes.row.keys()):
        status = str(node in suspected)
        if memory.marked.get(node, "False") == status:
            continue
        text = "it has failed no several namespaces of late"
        if node in suspected:
            text = _why_suspected(suspected[node])
        condition = {
            "type": SUSPECTED,
            "status": status,
            "reason": "NodeSuspected" if node in suspected else "NotSuspected",
            "message": text,
            "lastTransitionTime": format_time(snapshot.now),
        }
        yield PatchStatus(Key("", "Node", "", node), {"conditions": [condition]})


def _why_suspected(owners: tuple[str, ...]) -> str:
    return f"pods of {count(len(owners), 'namespace')} failed to start here: it is used last for a while"


def _confirmed(memory: StartMemory, snapshot: Snapshot) -> list[FailedStart]:
    """The recorded starts; those of gangs that have come up elsewhere since are no longer alone."""
    recorded = list(memory.recorded)
    alone = {start.gang for start in recorded if start.alone}
    nodes = snapshot.nodes
    for job in snapshot.jobs if alone else ():
        if job.key in alone:
            running = [task for task in job.tasks if task.status is Status.RUNNING and task.node >= 0]
            up = [nodes.names[nodes.rows[task.node]] for task in running if memory.telling.get(task.key) is None]
            recorded = confirmed(recorded, job.key, up, len(job.tasks))
    return recorded


def _suspicions(memory: StartMemory, starts: tuple[FailedStart, ...], at: float) -> list[Effect]:
    """An event for each node that what is newly known makes a suspected one."""
    now = FailedStarts(starts, memory.forgiven, memory.half_life, memory.owners, at)
    known = replace(now, starts=memory.recorded).suspected
    events: list[Effect] = []
    for node, owners in now.suspected.items():
        if node not in known:
            node_key = Key("", "Node", "", node)
            events.append(RecordEvent(node_key, "Warning", "NodeSuspected", _why_suspected(owners)))
    return events


def _spelled(starts: Iterable[FailedStart]) -> str:
    """The last ones, and of each namespace so many at most."""
    kept = [[start.pod, start.gang, start.node, start.at, start.why, start.alone] for start in kept_starts(starts)]
    return "".join(f"{json.dumps(line, separators=(',', ':'))}\n" for line in kept)


def forgiving(record: ConfigMap | None, nodes: Iterable[str], now: float) -> Raw:
    """The entry of the record that forgives nodes what was before now."""
    _, forgiven, _ = read_failed_starts(record)
    return {_FORGIVEN: json.dumps({**forgiven, **dict.fromkeys(nodes, now)}, sort_keys=True)}
