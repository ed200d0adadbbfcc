"""A gang of any further language stands whole or not at all.

Each language is read here by itself, from its records and the marks on pods.
"""

from __future__ import annotations

from collections.abc import Iterator

from tierwise.api.core import Pod
from tierwise.api.koordinator import PodGroup as KoordinatorGroup
from tierwise.api.scheduler_plugins import PodGroup as PluginGroup
from tierwise.api.volcano import PodGroup as VolcanoGroup
from tierwise.audit.gangs import was_whole
from tierwise.audit.pods import Finding, gang, group, stands
from tierwise.port import Objects

__all__ = ["plugin_groups"]


def plugin_groups(objects: Objects) -> Iterator[Finding]:
    """PodGroups of scheduling.x-k8s.io of which a part stands."""
    inside: dict[str, list[Pod]] = {}
    for pod in _unclaimed(objects):
        name = pod.metadata.labels.get("scheduling.x-k8s.io/pod-group", "")
        if name:
            inside.setdefault(f"{pod.metadata.namespace or 'default'}/{name}", []).append(pod)
    for path, record in objects.every(PluginGroup).items():
        standing = sum(stands(pod) for pod in inside.get(path, ()))
        said = record.status.phase in ("Running", "Finished", "Failed", "Unknown")
        if 0 < standing < record.spec.min_member and not was_whole(record.metadata, said=said):
            text = f"{standing} of {record.spec.min_member} pods stand"
            yield Finding("part-of-gang", f"PodGroup {path}", text)


def _unclaimed(objects: Objects) -> Iterator[Pod]:
    """Pods that are in no group of Volcano's, nor of Koordinator's: those count before all others."""
    first = (objects.every(VolcanoGroup), objects.every(KoordinatorGroup))
    for pod in objects.every(Pod).values():
        if group(pod) not in first[0] and gang(pod) not in first[1]:
            yield pod
