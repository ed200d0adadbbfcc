"""What the auditors ask about pods: whether they hold a node, their requests, their gang."""

from __future__ import annotations

from collections import Counter

import msgspec

from tierwise.api.core import Container, Pod, ResourceList, parse_time
from tierwise.api.quantity import amount
from tierwise.port import HYPERNODE_ANNOTATION, PATH_ANNOTATION

__all__ = ["Finding", "asked", "by_part", "counts", "diminished", "ended", "gang", "group", "holds", "ours"]


# What an auditor says.


class Finding(msgspec.Struct, frozen=True):
    """A rule that is broken, by which object, and how."""

    rule: str
    subject: str
    text: str

    def __str__(self) -> str:
        return f"{self.subject}: {self.text} ({self.rule})"


_GANG_LABELS = ("pod-group.scheduling.sigs.k8s.io", "pod-group.scheduling.sigs.k8s.io/name")


def ended(pod: Pod) -> bool:
    """Whether a pod is done, one way or the other."""
    return pod.status.phase in ("Succeeded", "Failed")


def holds(pod: Pod) -> bool:
    """Whether a pod takes up room: it has a node, and its end is not over."""
    return bool(pod.spec.node_name) and not ended(pod)


def ours(pod: Pod) -> bool:
    """Whether tierwise has bound a pod, or is to."""
    marks = pod.metadata.annotations
    return pod.spec.scheduler_name == "tierwise" or HYPERNODE_ANNOTATION in marks or PATH_ANNOTATION in marks


def counts(pod: Pod) -> bool:
    """Whether a pod counts towards its gang: it holds its node and stays, or has done its work."""
    return pod.status.phase == "Succeeded" or (holds(pod) and not pod.metadata.deletion_timestamp)


def diminished(pods: list[Pod], minimum: int) -> bool:
    """Whether the pods of a gang show that it was whole, or may have been: where no object remembers it.

    Some are missing or have ended, or one that waits is younger than the first binding: it replaces another.
    """
    if len(pods) < minimum or any(ended(pod) for pod in pods):
        return True
    bound = [time for pod in pods if counts(pod) and (time := _bound(pod)) is not None]
    created = [
        parse_time(stamp) for pod in pods if not pod.spec.node_name and (stamp := pod.metadata.creation_timestamp)
    ]
    return bool(bound) and any(time > min(bound) for time in created)


def _bound(pod: Pod) -> float | None:
    """When a pod was bound; None where nothing says so."""
    scheduled = (c for c in pod.status.conditions if (c.type, c.status) == ("PodScheduled", "True"))
    stamps = [c.last_transition_time for c in scheduled] or [pod.status.start_time]
    try:
        return parse_time(stamps[0]) if stamps[0] else None
    except ValueError:
        return None


_PARTS = {
    "rbg.workloads.x-k8s.io/role-name": "role",
    "leaderworkerset.sigs.k8s.io/group-index": "group",
    "jobset.sigs.k8s.io/replicatedjob-name": "replicated job",
}
"""Labels that say of which part of its workload a pod is, and how the workload calls such a part, outermost first."""


def by_part(pods: list[Pod]) -> str:
    """In brackets, of which parts of their workload pods are, and how many of each; "" where none says so."""
    parts = Counter(filter(None, map(_part, pods)))
    if len(parts) == 1:
        return f" ({next(iter(parts))})"
    return f" ({', '.join(f'{part}: {number}' for part, number in sorted(parts.items()))})" if parts else ""


def _part(pod: Pod) -> str:
    labels = pod.metadata.labels
    return next((f"{word} {labels[key]}" for key, word in _PARTS.items() if labels.get(key)), "")


def group(pod: Pod) -> str:
    """The pod group that a pod names, as namespace/name; "" where it names none."""
    name = pod.metadata.annotations.get("scheduling.k8s.io/group-name", "")
    if name:
        return f"{pod.metadata.namespace or 'default'}/{name}"
    return ""


def gang(pod: Pod) -> str:
    """The gang of Koordinator's that a pod names by label or annotation, as namespace/name; "" where it names none."""
    names = [pod.metadata.labels.get(label, "") for label in _GANG_LABELS]
    name = next(filter(None, [*names, pod.metadata.annotations.get("gang.scheduling.koordinator.sh/name", "")]), "")
    if name:
        return f"{pod.metadata.namespace or 'default'}/{name}"
    return ""


def asked(pod: Pod) -> Counter[str]:
    """Requests of a pod against its node, as Kubernetes counts them: sidecars add up, other init containers run in
    sequence.
    """
    total: Counter[str] = Counter()
    for container in pod.spec.containers:
        total += _held(pod, container)
    before: Counter[str] = Counter()
    peak: Counter[str] = Counter()
    for container in pod.spec.init_containers:
        if container.restart_policy == "Always":
            before += _held(pod, container)
            peak |= before
        else:
            peak |= before + _amounts(_requests(container))
    total = (total + before) | peak
    if pod.spec.resources is not None and pod.spec.resources.requests:
        of_pod = {n: q for n, q in pod.spec.resources.requests.items() if not n.count("/") and n != "ephemeral-storage"}
        total |= _amounts(of_pod)
        if pod.status.resources is not None:
            total |= _amounts(pod.status.resources.requests) | _amounts(pod.status.allocated_resources)
    total += _amounts(pod.spec.overhead)
    total["pods"] = 1
    return total


def _held(pod: Pod, container: Container) -> Counter[str]:
    """Amounts that a container holds: while it is resized in place, the larger of its request and its allocation."""
    requests = _amounts(_requests(container))
    statuses = (*pod.status.container_statuses, *pod.status.init_container_statuses)
    status = next((s for s in statuses if s.name == container.name), None)
    if status is None or status.resources is None:
        return requests
    has = _amounts(status.resources.requests) | _amounts(status.allocated_resources)
    out_of_reach = [c for c in pod.status.conditions if c.type == "PodResizePending" and c.reason == "Infeasible"]
    return has if out_of_reach else requests | has


def _requests(container: Container) -> ResourceList:
    return {**container.resources.limits, **container.resources.requests}


def _amounts(quantities: ResourceList) -> Counter[str]:
    return Counter({name: amount(name, quantity) for name, quantity in quantities.items()})
