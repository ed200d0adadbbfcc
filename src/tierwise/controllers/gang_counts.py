"""The counts in the status of Koordinator's PodGroups: pods that are bound, running, succeeded and failed.

Called by `controllers.run`. The scheduler writes the phase (`status.koordinator`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from tierwise.api.codec import Raw
from tierwise.api.core import Pod
from tierwise.api.koordinator import PodGroup
from tierwise.controllers.workqueue import Changes, Index, Requeue, WorkQueue
from tierwise.dialects.koordinator.gangs import gang_object, gang_of
from tierwise.port import Effect, Key, Objects, PatchStatus

__all__ = ["GangCountController"]

_PHASES: Final = {"Running": "running", "Succeeded": "succeeded", "Failed": "failed"}


class GangCountController:
    """Brings the counts of PodGroups up to date."""

    def __init__(self) -> None:
        self._pods = Index(Pod, lambda pod: gang_of(pod) or None)
        self._queue = WorkQueue()

    def enqueue(self, objects: Objects, changed: Changes) -> None:
        """Take note of what has changed."""
        if Pod in changed:
            self._queue.add(self._pods.follow(changed))
        if PodGroup in changed:
            self._queue.add([key.path for key in changed[PodGroup]])

    def reconcile(self, objects: Objects, now: float) -> list[Effect]:
        """The patches that write the counts of their pods onto the gangs that have changed.

        It is empty where none is due; a gang that no object declares is skipped, nothing is created.
        """
        if self._queue.idle(now):
            return []

        def one(path: str) -> Requeue:
            gang = gang_object(objects, path)
            return ([] if gang is None else _patch(*gang, self._pods[path])), None

        return self._queue.run(now, one)


def _patch(key: Key, group: PodGroup, pods: Iterable[Pod]) -> list[Effect]:
    counts: Counter[str] = Counter()
    for pod in pods:
        if pod.spec.node_name:
            counts["scheduled"] += 1
        if pod.status.phase in _PHASES:
            counts[_PHASES[pod.status.phase]] += 1
    status: Raw = {
        field: counts[field]
        for field in ("scheduled", "running", "succeeded", "failed")
        if getattr(group.status, field) != counts[field]
    }
    if not status:
        return []
    return [PatchStatus(key, status)]
