"""How many pods of a namespace may wait at a time: workloads make no more before some of them have started.

The minimum of a gang is made beyond that, since it could not start without, up to twice as many. So `replicas: 100000`
costs what the cluster can run and a queue before it, not a hundred thousand pods.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from tierwise.api.codec import Raw, part
from tierwise.api.core import Pod, read_number
from tierwise.api.limits import WAITING
from tierwise.api.volcano import PodGroup
from tierwise.dialects.pod_marks import GROUP_ANNOTATION, group_of
from tierwise.dialects.workloads.children import Child, Owner
from tierwise.port import Key, Objects, key_of_raw

__all__ = ["Room"]

_TOTAL = "kueue.x-k8s.io/pod-group-total-count"


class Room:
    """Number of objects that may still be made in each namespace; `full` lists the workloads that had to stop, each
    once.
    """

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._waiting: Counter[str] | None = None
        self._made = 0
        self.full: dict[Key, None] = {}

    def within(self, owner: Owner, children: Iterable[Child], missing: Iterable[Raw]) -> Iterator[Raw]:
        """The missing objects of a workload, with as many of its pods as may wait."""
        minimum = -1
        number_made = 0
        for raw in missing:
            if raw["kind"] != "Pod":
                yield raw
                continue
            if not self._any_left(owner.namespace):
                if minimum < 0:
                    minimum = max(_minimum(children) - sum(1 for _ in owner.pods()), self._lacking(owner, raw))
                if number_made >= minimum or self._waits(owner.namespace) - number_made + minimum > 2 * WAITING:
                    if number_made or not any(True for _ in owner.pods()):
                        self.full[key_of_raw(owner.raw)] = None
                    return
            number_made += 1
            self._made += 1
            if self._waiting is not None:
                self._waiting[owner.namespace] += 1
            yield raw

    def _lacking(self, owner: Owner, raw: Raw) -> int:
        """How many pods a gang of Volcano's lacks that another workload has declared, as that of a launcher."""
        name = str(part(part(raw, "metadata"), "annotations").get(GROUP_ANNOTATION, ""))
        group = self._objects.every(PodGroup).get(f"{owner.namespace}/{name}")
        if group is None:
            return 0
        present = sum(group_of(pod) == f"{owner.namespace}/{name}" for pod in self._objects.every(Pod).values())
        return (group.spec.min_member or 0) - present

    def _any_left(self, namespace: str) -> bool:
        pods = self._objects.every(Pod)
        if self._waiting is None and len(pods) + self._made < WAITING:
            return True  # whatever namespace they are of
        if self._waiting is None:
            self._waiting = Counter(_namespace(pod) for pod in pods.values() if _waits(pod))
            self._waiting[namespace] += self._made
        return self._waits(namespace) < WAITING

    def _waits(self, namespace: str) -> int:
        assert self._waiting is not None, "they were counted"
        return self._waiting[namespace]


def _waits(pod: Pod) -> bool:
    return not pod.spec.node_name and not pod.status.ended and not pod.metadata.deletion_timestamp


def _namespace(pod: Pod) -> str:
    return pod.metadata.namespace or "default"


def _minimum(children: Iterable[Child]) -> int:
    """The pods that must exist before a workload can start, by the group among its children or on its pods."""
    largest = 0
    for raw in {id(child.raw): child.raw for child in children}.values():
        if raw["kind"] == "PodGroup":
            spec = part(raw, "spec")
            gang = part(part(spec, "schedulingPolicy"), "gang")
            number = spec.get("minMember", gang.get("minCount", 0))
        elif raw["kind"] == "PodGang":
            number = sum(
                read_number(str(entry.get("minReplicas"))) or 0 for entry in _listed(part(raw, "spec"), "podgroups")
            )
        else:
            number = read_number(str(part(part(raw, "metadata"), "annotations").get(_TOTAL, "")))
        largest = max(largest, number if isinstance(number, int) else 0)
    return largest


def _listed(raw: Raw, field: str) -> list[Raw]:
    """The maps of a list."""
    entries = raw.get(field)
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
