"""The same gang in every way in which one can be declared, and marks on the objects that declare it.

victim = running("kai", "v", {0: "n0", 1: "n0"})
marked = with_mark(victim, DECLARES["kai"], "annotation", "volcano.sh/preemptable", "false")
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from tests.support import koordinator
from tests.support.languages import (
    composite,
    grouped_pods,
    grove_gang,
    kai_gang,
    kubernetes_gang,
    kueue_gang,
    plugin_gang,
    pod,
    volcano_gang,
)

from tierwise.api.codec import Raw

__all__ = ["BY_PODS", "DECLARES", "LANGUAGE_OF", "QUEUES", "gang_in", "with_mark", "with_priority"]

On = Mapping[int, str]
"""By the number of a pod: the node where it runs."""


def _volcano(name: str, pods: int, on: On) -> list[Raw]:
    return volcano_gang(name, pods, on=on)


def _koordinator(name: str, pods: int, on: On) -> list[Raw]:
    group, *members = koordinator.gang(name, pods, running=on)
    return [{**group, "metadata": {"name": name}}, *members]


def _koordinator_pods(name: str, pods: int, on: On) -> list[Raw]:
    """A gang that the annotations of its pods declare."""
    prefix = "gang.scheduling.koordinator.sh"
    marks = {f"{prefix}/name": name, f"{prefix}/min-available": str(pods)}
    return [pod(f"{name}-{i}", on=on.get(i, ""), annotations=dict(marks)) for i in range(pods)]


def _koordinator_second(name: str, pods: int, on: On) -> list[Raw]:
    """Two gangs that start together: the second one has all pods but the first."""
    partners = {"gang.scheduling.koordinator.sh/groups": f'["default/a-{name}","default/{name}"]'}
    groups: list[Raw] = [
        {
            "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
            "kind": "PodGroup",
            "metadata": {"name": called, "annotations": dict(partners)},
            "spec": {"minMember": least},
        }
        for called, least in ((name, pods - 1), (f"a-{name}", 1))
    ]
    owners = [f"a-{name}", *[name] * (pods - 1)]
    return [*groups, *(koordinator.pod(f"{name}-{i}", of=of, on=on.get(i, "")) for i, of in enumerate(owners))]


def _kubernetes(name: str, pods: int, on: On) -> list[Raw]:
    return kubernetes_gang(name, pods, on=on)


def _composite(name: str, pods: int, on: On) -> list[Raw]:
    """A composite of one PodGroup."""
    (group, *_), members = kubernetes_gang(f"{name}-part", pods), grouped_pods(f"{name}-part", pods, on)
    group["spec"] |= {"parentCompositePodGroupName": name}  # type: ignore[operator]
    return [composite(name, 1), group, *(_renamed(member, f"{name}-{i}") for i, member in enumerate(members))]


def _workload(name: str, pods: int, on: On) -> list[Raw]:
    """A group of a Workload, as in Kubernetes 1.35."""
    declared: Raw = {
        "apiVersion": "scheduling.k8s.io/v1alpha1",
        "kind": "Workload",
        "metadata": {"name": name},
        "spec": {"podGroups": [{"name": "all", "policy": {"gang": {"minCount": pods}}}]},
    }
    named: Raw = {"workloadRef": {"name": name, "podGroup": "all"}}
    return [declared, *(pod(f"{name}-{i}", on=on.get(i, ""), spec=named) for i in range(pods))]


def _scheduler_plugins(name: str, pods: int, on: On) -> list[Raw]:
    return plugin_gang(name, pods, on=on)


def _kai(name: str, pods: int, on: On) -> list[Raw]:
    return kai_gang(name, pods, on={f"{name}-{i}": node for i, node in on.items()})


def _grove(name: str, pods: int, on: On) -> list[Raw]:
    found = grove_gang(name, {"w": pods}, on={f"{name}-w-{i}": node for i, node in on.items()})
    return [found[0], *(_renamed(member, f"{name}-{i}") for i, member in enumerate(found[1:]))]


def _kueue(name: str, pods: int, on: On) -> list[Raw]:
    """A pod group of Kueue's with the Workload that Kueue makes of it."""
    declared: Raw = {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "Workload",
        "metadata": {"name": name},
        "spec": {"queueName": "team", "podSets": [{"name": "main", "count": pods}]},
    }
    return [declared, *kueue_gang(name, pods, on=on)]


def _kueue_pods(name: str, pods: int, on: On) -> list[Raw]:
    return kueue_gang(name, pods, on=on)


# The same in a queue of each kind.


def _in_volcano_queue(name: str, pods: int, on: On) -> list[Raw]:
    group, *members = volcano_gang(name, pods, on=on)
    queue: Raw = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}}
    return [{**queue, "spec": {}}, {**group, "spec": {"minMember": pods, "queue": name}}, *members]


def _in_elastic_quota(name: str, pods: int, on: On) -> list[Raw]:
    quota: Raw = {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {"name": name},
        "spec": {"max": {"cpu": "100"}, "min": {"cpu": "100"}},
    }
    members = _koordinator(name, pods, on)
    for raw in members[1:]:
        raw["metadata"]["labels"]["quota.scheduling.koordinator.sh/name"] = name  # type: ignore[index]
    return [quota, *members]


def _in_kai_queue(name: str, pods: int, on: On) -> list[Raw]:
    queue: Raw = {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": name}, "spec": {}}
    return [queue, *kai_gang(name, pods, on={f"{name}-{i}": node for i, node in on.items()}, queue=name)]


def _in_local_queue(name: str, pods: int, on: On) -> list[Raw]:
    return _in_kueue(name, "all", name, pods, on)


def _in_cluster_queue(name: str, pods: int, on: On) -> list[Raw]:
    return _in_kueue("local", name, name, pods, on)


def _in_kueue(local: str, around: str, name: str, pods: int, on: On) -> list[Raw]:
    kueue = "kueue.x-k8s.io"
    members = kueue_gang(name, pods, on=on)
    for raw in members:
        raw["metadata"]["labels"][f"{kueue}/queue-name"] = local  # type: ignore[index]
    inner: Raw = {"apiVersion": f"{kueue}/v1beta1", "kind": "LocalQueue", "spec": {"clusterQueue": around}}
    outer: Raw = {"apiVersion": f"{kueue}/v1beta1", "kind": "ClusterQueue", "spec": {}}
    queues: list[Raw] = [{**inner, "metadata": {"name": local}}, {**outer, "metadata": {"name": around}}]
    return [*queues, *members]


def _renamed(raw: Raw, name: str) -> Raw:
    meta = raw["metadata"]
    assert isinstance(meta, dict)
    return {**raw, "metadata": {**meta, "name": name}}


_WAYS: Final[Mapping[str, tuple[str, str, Callable[[str, int, On], list[Raw]]]]] = {
    "volcano": ("scheduling.volcano.sh", "PodGroup", _volcano),
    "koordinator": ("scheduling.sigs.k8s.io", "PodGroup", _koordinator),
    "koordinator, second gang": ("scheduling.sigs.k8s.io", "PodGroup", _koordinator_second),
    "koordinator, by pods": ("scheduling.sigs.k8s.io", "", _koordinator_pods),
    "kubernetes": ("scheduling.k8s.io", "PodGroup", _kubernetes),
    "kubernetes, composite": ("scheduling.k8s.io", "CompositePodGroup", _composite),
    "kubernetes, part of a composite": ("scheduling.k8s.io", "PodGroup", _composite),
    "kubernetes, workload": ("scheduling.k8s.io", "Workload", _workload),
    "scheduler-plugins": ("scheduling.x-k8s.io", "PodGroup", _scheduler_plugins),
    "kai": ("scheduling.run.ai", "PodGroup", _kai),
    "grove": ("scheduler.grove.io", "PodGang", _grove),
    "kueue": ("kueue.x-k8s.io", "Workload", _kueue),
    "kueue, by pods": ("kueue.x-k8s.io", "", _kueue_pods),
}

_QUEUES: Final[Mapping[str, tuple[str, Callable[[str, int, On], list[Raw]]]]] = {
    "a Queue of Volcano": ("Queue", _in_volcano_queue),
    "an ElasticQuota": ("ElasticQuota", _in_elastic_quota),
    "a Queue of KAI": ("Queue", _in_kai_queue),
    "a LocalQueue": ("LocalQueue", _in_local_queue),
    "a ClusterQueue": ("ClusterQueue", _in_cluster_queue),
}

QUEUES: Final[Mapping[str, str]] = {way: kind for way, (kind, _) in _QUEUES.items()}
"""By way in which a gang is in a queue, the kind of the queue, which is called like the gang."""

DECLARES: Final[Mapping[str, str]] = {way: kind for way, (_, kind, _) in _WAYS.items() if kind}
"""By way, the kind of object that declares the gang and may be marked."""

BY_PODS: Final = tuple(way for way in _WAYS if way not in DECLARES)
"""Ways without such an object."""

LANGUAGE_OF: Final[Mapping[str, str]] = {way: language for way, (language, _, _) in _WAYS.items()}


def gang_in(way: str, name: str, pods: int, on: On | None = None) -> list[Raw]:
    """A gang of so many pods of one cpu each, which are called NAME-0, NAME-1 and so on; `on` says which run where."""
    made = _QUEUES[way][1] if way in _QUEUES else _WAYS[way][2]
    return copy.deepcopy(made(name, pods, on or {}))


def with_mark(manifests: Iterable[Raw], kind: str, form: str, key: str, value: str, name: str = "") -> list[Raw]:
    """The same objects; those of one kind, or the one of them with this name, have the mark as `form` says."""
    field = {"annotation": "annotations", "label": "labels"}[form]
    found: list[Any] = copy.deepcopy(list(manifests))
    for raw in found:
        if raw["kind"] == kind and name in ("", raw["metadata"]["name"]):
            raw["metadata"][field] = {**raw["metadata"].get(field, {}), key: value}
    return found


def with_priority(manifests: Iterable[Raw], priority: int) -> list[Raw]:
    """The same objects; all pods have this priority."""
    found: list[Any] = copy.deepcopy(list(manifests))
    for raw in found:
        if raw["kind"] == "Pod":
            raw["spec"]["priority"] = priority
    return found
