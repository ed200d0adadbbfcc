"""A gang of any further language stands whole or not at all, and where its constraint has it.

Each language is read here by itself, from its records and the marks on pods. A gang that has been whole and has lost
pods since is not a broken promise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tierwise.api.core import Node, Pod
from tierwise.api.koordinator import PodGroup as KoordinatorGroup
from tierwise.api.scheduler_plugins import PodGroup as PluginGroup
from tierwise.api.volcano import PodGroup as VolcanoGroup
from tierwise.api.workload import PodGroup as KubernetesGroup
from tierwise.api.workload import Workload
from tierwise.audit.gangs import was_whole
from tierwise.audit.pods import Finding, gang, group, stands
from tierwise.port import Objects

__all__ = ["kubernetes_groups", "plugin_groups", "workload_groups"]

_STARTED = ("PodGroupInitiallyScheduled", "PodGroupScheduled")


def plugin_groups(objects: Objects) -> Iterator[Finding]:
    """PodGroups of scheduling.x-k8s.io of which a part stands."""
    inside = _standing(objects, lambda pod: pod.metadata.labels.get("scheduling.x-k8s.io/pod-group", ""))
    for path, record in objects.every(PluginGroup).items():
        said = record.status.phase in ("Running", "Finished", "Failed", "Unknown")
        if not was_whole(record.metadata, said=said):
            yield from _part(f"PodGroup {path}", len(inside.get(path, ())), record.spec.min_member)


def kubernetes_groups(objects: Objects) -> Iterator[Finding]:
    """PodGroups of scheduling.k8s.io of which a part stands, or whose pods stand in several domains."""
    inside = _standing(
        objects, lambda pod: pod.spec.scheduling_group.pod_group_name if pod.spec.scheduling_group else ""
    )
    for path, record in objects.every(KubernetesGroup).items():
        policy, standing = record.spec.scheduling_policy.gang, inside.get(path, [])
        said = any(c.type in _STARTED and c.status == "True" for c in record.status.conditions)
        if policy is not None and not was_whole(record.metadata, said=said):
            yield from _part(f"PodGroup {path}", len(standing), policy.min_count)
        for entry in record.spec.scheduling_constraints.topology:
            yield from _apart(objects, f"PodGroup {path}", standing, entry.key)


def workload_groups(objects: Objects) -> Iterator[Finding]:
    """Groups of the first Workloads of scheduling.k8s.io of which a part stands, though all their pods are there."""

    def named(pod: Pod) -> str:
        found = pod.spec.workload_ref
        return f"{found.name}/{found.pod_group}/{found.pod_group_replica_key}" if found is not None else ""

    inside, every = _standing(objects, named), _standing(objects, named, also_waiting=True)
    for path, pods in every.items():
        namespace, name, own, _ = path.split("/", 3)
        record = objects.every(Workload).get(f"{namespace}/{name}")
        for entry in record.spec.pod_groups if record is not None else ():
            if entry.name == own and entry.policy.gang is not None and len(pods) >= entry.policy.gang.min_count:
                yield from _part(f"Workload {path}", len(inside.get(path, ())), entry.policy.gang.min_count)


def _part(subject: str, number: int, least: int) -> Iterator[Finding]:
    if 0 < number < least:
        yield Finding("part-of-gang", subject, f"{number} of {least} pods stand")


def _apart(objects: Objects, subject: str, pods: list[Pod], key: str) -> Iterator[Finding]:
    """Pods on nodes with several values of a label, or with none."""
    nodes = objects.every(Node)
    held = [nodes[pod.spec.node_name] for pod in pods if pod.spec.node_name in nodes]
    values = {node.metadata.labels.get(key, "") for node in held}
    if len(values) > 1:
        text = f"its pods stand in several domains of {key}: {', '.join(sorted(values))}"
        yield Finding("topology", subject, text)


def _standing(objects: Objects, named: Callable[[Pod], str], *, also_waiting: bool = False) -> dict[str, list[Pod]]:
    """The pods that stand, by namespace and what they name; groups of Volcano's and Koordinator's come first."""
    first, second = objects.every(VolcanoGroup), objects.every(KoordinatorGroup)
    found: dict[str, list[Pod]] = {}
    for pod in objects.every(Pod).values():
        name = named(pod)
        if name and group(pod) not in first and gang(pod) not in second and (also_waiting or stands(pod)):
            found.setdefault(f"{pod.metadata.namespace or 'default'}/{name}", []).append(pod)
    return found
