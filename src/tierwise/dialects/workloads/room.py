"""How many pods of a namespace may wait at a time: workloads make no more before some of them have started.

The minimum of a gang is made beyond that, since it could not start without, up to twice as many. So `replicas: 100000`
costs what the cluster can run and a queue before it, not a hundred thousand pods.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from tierwise.api import codec
from tierwise.api.codec import Raw, part
from tierwise.api.core import Pod, read_number
from tierwise.api.limits import WAITING
from tierwise.api.volcano import PodGroup
from tierwise.dialects.languages import names, plain
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
        self._made: list[Raw] = []
        self._members: Counter[str] | None = None
        self._gangs: dict[tuple[int, int, int], tuple[str, Raw]] = {}
        self.full: dict[Key, None] = {}

    def within(self, owner: Owner, children: Iterable[Child], missing: Iterable[Raw]) -> Iterator[Raw]:
        """The missing objects of a workload, with as many of its pods as may wait.

        Each of its gangs is counted by itself: further pods of one do not keep another from being made whole.
        """
        minimums: dict[str, int] | None = None
        number_made = 0
        has_pods = False
        for raw in missing:
            if raw["kind"] != "Pod":
                yield raw
                continue
            if not self._any_left(owner.namespace):
                if minimums is None:
                    minimums = _minimums(children)
                    has_pods = any(True for _ in owner.pods())
                lacking = self._lacking(raw, minimums)
                if lacking < 1 or self._waits(owner.namespace) + lacking > 2 * WAITING:
                    if number_made or not has_pods:
                        self.full[key_of_raw(owner.raw)] = None
                    if len(minimums) < 2 or self._waits(owner.namespace) >= 2 * WAITING:
                        return
                    continue
            number_made += 1
            self._note(owner.namespace, raw)
            yield raw

    def _note(self, namespace: str, raw: Raw) -> None:
        self._made.append(raw)
        if self._waiting is not None:
            self._waiting[namespace] += 1
        if self._members is not None:
            self._members[self._gang(raw)] += 1

    def _lacking(self, raw: Raw, minimums: Mapping[str, int]) -> int:
        """How many pods the gang of a pod lacks to start, whoever has declared it; 0 for a pod without one."""
        gang = self._gang(raw)
        if not gang:
            return 0
        if self._members is None:
            self._members = Counter(_gang_of(pod) for pod in self._objects.every(Pod).values())
            self._members.update(map(self._gang, self._made))
        minimum = minimums.get(gang)
        if minimum is None:
            group = self._objects.every(PodGroup).get(gang)
            declared = part(part(raw, "metadata"), "annotations").get(_TOTAL, "")
            minimum = (group.spec.min_member if group is not None else read_number(str(declared))) or 0
        return minimum - self._members[gang]

    def _gang(self, raw: Raw) -> str:
        """The gang of a manifest; pods of one template share their marks, and are read once."""
        meta = part(raw, "metadata")
        shared = (id(meta.get("labels")), id(meta.get("annotations")), id(raw.get("spec")))
        if shared not in self._gangs:
            pod = codec.decode(raw)
            self._gangs[shared] = (_gang_of(pod) if isinstance(pod, Pod) else "", raw)  # kept, so that ids stay its own
        return self._gangs[shared][0]

    def _any_left(self, namespace: str) -> bool:
        pods = self._objects.every(Pod)
        if self._waiting is None and len(pods) + len(self._made) < WAITING:
            return True  # whatever namespace they are of
        if self._waiting is None:
            self._waiting = Counter(_namespace(pod) for pod in pods.values() if _waits(pod))
            self._waiting.update(str(part(raw, "metadata")["namespace"]) for raw in self._made)
        return self._waits(namespace) < WAITING

    def _waits(self, namespace: str) -> int:
        assert self._waiting is not None, "they were counted"
        return self._waiting[namespace]


def _waits(pod: Pod) -> bool:
    return not pod.spec.node_name and not pod.status.ended and not pod.metadata.deletion_timestamp


def _namespace(pod: Pod) -> str:
    return pod.metadata.namespace or "default"


def _gang_of(pod: Pod) -> str:
    """The gang that a pod names first, as namespace/name; "" without one."""
    return next((plain(name)[1] for name in names(pod)), "")


def _minimums(children: Iterable[Child]) -> dict[str, int]:
    """By gang, the pods that must exist before it can start, of the groups among the children of a workload."""
    found: dict[str, int] = {}
    for raw in {id(child.raw): child.raw for child in children}.values():
        if raw["kind"] == "Pod":
            continue
        key = key_of_raw(raw)
        spec = part(raw, "spec")
        if raw["kind"] == "PodGroup":
            gang = part(part(spec, "schedulingPolicy"), "gang")
            number = spec.get("minMember", gang.get("minCount", 0))
        else:
            number = sum(read_number(str(entry.get("minReplicas"))) or 0 for entry in _listed(spec, "podgroups"))
        found[f"{key.namespace}/{key.name}"] = number if isinstance(number, int) else 0
    return found


def _listed(raw: Raw, field: str) -> list[Raw]:
    """The maps of a list."""
    entries = raw.get(field)
    if isinstance(entries, list):
        return [entry for entry in entries if isinstance(entry, dict)]
    return []
