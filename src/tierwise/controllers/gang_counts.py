"""The counts in the status of Koordinator's PodGroups: pods that are bound, running, succeeded and failed.

Called by `controllers.run`. The scheduler writes the phase (`status.koordinator`).
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from tierwise.api.codec import Raw
from tierwise.api.core import Pod
from tierwise.api.koordinator import PodGroup
from tierwise.dialects.koordinator.gangs import gang_of
from tierwise.port import Effect, Key, Objects, PatchStatus

__all__ = ["READS", "reconcile"]

READS: Final = (Pod, PodGroup)

_GROUPS: Final = ("scheduling.sigs.k8s.io", "scheduling.koordinator.sh")
_PHASES: Final = {"Running": "running", "Succeeded": "succeeded", "Failed": "failed"}


def reconcile(objects: Objects, now: float) -> list[Effect]:
    """Bring the counts of each PodGroup up to date."""
    groups = objects.every(PodGroup)
    if not groups:
        return []
    counts: dict[str, Counter[str]] = {}
    for pod in objects.every(Pod).values():
        path = gang_of(pod)
        if path in groups:
            found = counts.setdefault(path, Counter())
            if pod.spec.node_name:
                found["scheduled"] += 1
            if pod.status.phase in _PHASES:
                found[_PHASES[pod.status.phase]] += 1
    return [effect for path, group in groups.items() for effect in _patch(objects, path, group, counts.get(path))]


def _patch(objects: Objects, path: str, group: PodGroup, counts: Counter[str] | None) -> list[Effect]:
    found = counts or Counter()
    status: Raw = {
        field: found[field]
        for field in ("scheduled", "running", "succeeded", "failed")
        if getattr(group.status, field) != found[field]
    }
    if not status:
        return []
    namespace, _, name = path.partition("/")
    keys = (Key(api, "PodGroup", namespace, name) for api in _GROUPS)
    return [PatchStatus(next(key for key in keys if objects.record(key) is group), status)]
