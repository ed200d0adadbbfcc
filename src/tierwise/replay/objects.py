"""A fabric and the jobs of a trace as API objects: nodes, hyperNodes, queues and Volcano Jobs.

Names sort as those of the model do, so that ties fall the same way whichever way a trace is replayed.
"""

from __future__ import annotations

import math

from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.model.queue import Queue
from tierwise.model.topology import ROOT
from tierwise.port import Objects
from tierwise.replay.fabric import AXIS, NAMESPACE, Fabric, amounts
from tierwise.replay.gangs import split
from tierwise.replay.trace import QUEUE, Trace
from tierwise.sim.habits import RUN_FOR, START_AFTER

__all__ = ["JOB_NAME", "cluster_of", "job_of", "number_of", "rank_of", "run_for"]

JOB_NAME = "volcano.sh/job-name"
"""The annotation of a pod that names its Job."""

_VOLCANO = "scheduling.volcano.sh/v1beta1"
_WHOLE, _REST = "whole", "rest"
_LOST = {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}
_ENDLESS = 1_000_000
"""Retries of a job: in a replay a gang that stops always comes back."""


def cluster_of(fabric: Fabric, trace: Trace, queues: tuple[Queue, ...]) -> Objects:
    """The cluster before anybody comes: nodes, the tree over them, queues and classes of priority."""
    manifests = [
        *map(_node, fabric.nodes.names, fabric.nodes.allocatable.T.tolist()),
        *(_hypernode(fabric, domain) for domain in range(ROOT + 1, len(fabric.topology))),
        *map(_queue, queues or (Queue(QUEUE),)),
        *(_class(priority) for priority in sorted(set(trace.priority.tolist()))),
    ]
    return Objects.of((codec.decode(raw), raw) for raw in manifests)


def job_of(trace: Trace, job: int, gpus_per_host: int, *, aware: bool) -> Raw:
    """A job of the trace as a Volcano Job that starts whole, restarts as a whole, and is gone when it has ended."""
    sizes = split(int(trace.gpus[job]), gpus_per_host)
    whole = sizes.count(sizes[0])
    tasks = [_task(_WHOLE, whole, sizes[0], float(trace.duration[job]))]
    if whole < len(sizes):
        tasks.append(_task(_REST, 1, sizes[-1], float(trace.duration[job])))
    spec: Raw = {
        "schedulerName": "volcano",
        "minAvailable": len(sizes),
        "queue": trace.queues[trace.queue[job]],
        "priorityClassName": _named(int(trace.priority[job])),
        "maxRetry": _ENDLESS,
        "ttlSecondsAfterFinished": 0,
        "policies": [{"event": event, "action": "RestartJob"} for event in ("PodEvicted", "PodFailed")],
        "tasks": tasks,
    }
    if aware:
        spec["networkTopology"] = {"mode": "soft"}
    metadata: Raw = {"name": f"job-{job}", "namespace": NAMESPACE}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": metadata, "spec": spec}


def number_of(name: str) -> int:
    """The place in the trace of a Job with this name."""
    return int(name.rpartition("-")[2])


def rank_of(pod: str, pods: int) -> int:
    """The rank of a pod among those of its gang: whole hosts first, then the rest."""
    _, task, index = pod.rsplit("-", 2)
    return int(index) if task == _WHOLE else pods - 1


def run_for(seconds: float) -> str:
    """A duration as the kubelets of the embedded cluster read it."""
    return f"{math.ceil(seconds)}s"


def _task(name: str, replicas: int, gpus: int, duration: float) -> Raw:
    request = _resources(amounts(gpus, 0).tolist())
    container: Raw = {"name": "train", "image": "replay", "resources": {"requests": request, "limits": request}}
    pod: Raw = {"containers": [container], "restartPolicy": "Never", "tolerations": [_LOST]}
    annotations = {START_AFTER: "0s", RUN_FOR: run_for(duration)}
    return {"name": name, "replicas": replicas, "template": {"metadata": {"annotations": annotations}, "spec": pod}}


def _resources(values: list[int]) -> dict[str, str]:
    """Amounts of the axis as quantities; cpu is counted in thousandths."""
    return {
        name: f"{value}m" if name == "cpu" else str(value)
        for name, value in zip(AXIS.names, values, strict=True)
        if value
    }


def _node(name: str, allocatable: list[int]) -> Raw:
    status: Raw = {"allocatable": _resources(allocatable), "conditions": [{"type": "Ready", "status": "True"}]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


def _hypernode(fabric: Fabric, domain: int) -> Raw:
    topology = fabric.topology
    below = [("HyperNode", _path(topology.name[child])) for child in topology.children[domain]]
    below += [("Node", name) for name in fabric.nodes.names[topology.own_span(domain)]]
    members = [{"type": kind, "selector": {"exactMatch": {"name": name}}} for kind, name in below]
    return {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": _path(topology.name[domain])},
        "spec": {"tier": int(topology.tier[domain]), "members": members},
    }


def _path(name: str) -> str:
    return name.replace("/", ".").lower()


def _queue(queue: Queue) -> Raw:
    deserved = _resources([queue.deserved.get(name, 0) for name in AXIS.names])
    spec: Raw = {"weight": queue.weight, "reclaimable": True, **({"deserved": deserved} if deserved else {})}
    status = {"state": "Open"}
    return {"apiVersion": _VOLCANO, "kind": "Queue", "metadata": {"name": queue.name}, "spec": spec, "status": status}


def _class(priority: int) -> Raw:
    metadata = {"name": _named(priority)}
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": metadata, "value": priority}


def _named(priority: int) -> str:
    return f"priority-{priority}"
