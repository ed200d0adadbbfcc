"""Places of pods that are about to come back: those of a StatefulSet, and those of gangs.

The place of a pod that is leaving or gone is its successor's for a while. The successor is the pod of the same name;
else a pod of the same gang, of a gang that names it as its predecessor, or of one that was made for the same object.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from math import inf

import msgspec

from tierwise.model.job import Job, namespace_of

__all__ = ["KeptPod", "PlaceMemory", "PodHere", "PodState", "Successors"]


class PodState(enum.Enum):
    """The state of a pod, as far as its place is concerned."""

    STANDS = "stands"
    LEAVES = "leaves"  # its deletion was asked for
    OVER = "over"  # it has ended, or was evicted: its place is for others


class PodHere(msgspec.Struct, frozen=True):
    """A pod that exists."""

    uid: str  # or, in files, when it was made
    node: str
    state: PodState
    returns: bool  # its owner makes a pod again that was deleted


class KeptPod(msgspec.Struct, frozen=True):
    """A pod with a place, as it was when it was last seen there."""

    pod: str  # namespace/name
    uid: str
    gang: str  # the key of its job
    declared: str  # group and kind of the object that declares its gang; "" where nothing does
    owner: str  # the name of the object that its gang was made for; "" where it was not made for one
    returns: bool
    node: str
    queue: str
    requests: Mapping[str, int]
    gone: float = 0.0  # when it was first seen to be gone; 0 while it is there


class PlaceMemory(msgspec.Struct, frozen=True):
    """The record of pods and their places, and the pods that exist now."""

    namespace: str  # in which the record is kept
    time: float  # seconds for which a place is kept
    recorded: tuple[KeptPod, ...] = ()
    here: Mapping[str, PodHere | None] = {}  # by namespace/name; None for a pod without a node

    def left(self) -> Iterator[tuple[KeptPod, float]]:
        """Places whose pod is leaving or gone, and until when each is kept; infinite while that is not known."""
        for kept in self.recorded:
            pod = self.here.get(kept.pod)
            if pod is None:
                yield kept, kept.gone + self.time if kept.gone else inf
            elif pod.uid == kept.uid and pod.state is PodState.LEAVES:
                yield kept, inf


class Successors:
    """The jobs that wait, by whose places are theirs."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        waiting = [job for job in jobs if any(True for pod_set in job.every_pod_set() if pod_set.tasks)]
        self._by_pod = {task.key: job for job in waiting for pods in job.every_pod_set() for task in pods.tasks}
        self._by_key = {job.key: job for job in waiting}
        self._by_predecessor: dict[str, list[Job]] = {}
        self._by_owner: dict[tuple[str, str], list[Job]] = {}
        for job in waiting:
            if job.predecessor:
                self._by_predecessor.setdefault(job.predecessor, []).append(job)
            if job.owner and not any(len(sub.held) for sub in job.subs):
                self._by_owner.setdefault((namespace_of(job.key), job.owner), []).append(job)

    def of(self, kept: KeptPod) -> list[Job]:
        """Whoever of them comes after a pod."""
        for one in (self._by_pod.get(kept.pod), self._by_key.get(kept.gang)):
            if one is not None:
                return [one]
        named = self._by_predecessor.get(kept.gang)
        return named or self._by_owner.get((namespace_of(kept.gang), kept.owner), []) if kept.owner else named or []
