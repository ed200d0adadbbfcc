"""Elastic quotas and their pods in a line each, and what becomes of them under Koordinator's profile.

hall = [*nodes("n0 n1", gpu=8), quota("a", most=16, least=8)]
outcome = settle(hall, [worker("w", quota="a", gpu=8)])
assert {"w": "n0"} == outcome.bound
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import msgspec
from tests.support.koordinator import objects_of
from tests.support.sight import schedule

from tierwise.api.codec import Raw
from tierwise.api.elastic_quota import RUNTIME, ElasticQuota
from tierwise.config.kube import read_kube
from tierwise.config.profile import DEFAULT, Profile
from tierwise.explain.wire import pending_wire
from tierwise.sim.cluster.driver import reconcile
from tierwise.sim.cluster.store import EmbeddedCluster

__all__ = ["GPU", "Outcome", "koordinator", "nodes", "quota", "runtimes", "settle", "worker"]

GPU = "nvidia.com/gpu"
_PREFIX = "quota.scheduling.koordinator.sh/"


def nodes(names: str, *, gpu: int = 8, labels: Mapping[str, object] | None = None) -> list[Raw]:
    """Nodes with so many cards each."""
    return [
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
            "status": {"allocatable": {GPU: str(gpu), "pods": "110"}},
        }
        for name in names.split()
    ]


def quota(
    name: str,
    *,
    most: int,
    least: int | None = 0,
    parent: str = "",
    is_parent: bool = False,
    lends: bool = True,
    namespace: str = "default",
    weight: int | None = None,
    labels: Mapping[str, object] | None = None,
    annotations: Mapping[str, object] | None = None,
) -> Raw:
    """A quota in cards."""
    noted: Raw = dict(annotations or {})
    if weight is not None:
        noted[f"{_PREFIX}shared-weight"] = json.dumps({GPU: str(weight)})
    marks: Raw = {
        f"{_PREFIX}parent": parent,
        f"{_PREFIX}is-parent": "true" if is_parent else "false",
        f"{_PREFIX}allow-lent-resource": "true" if lends else "false",
        **(labels or {}),
    }
    return {
        "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {"name": name, "namespace": namespace, "labels": marks, "annotations": noted},
        "spec": {"max": {GPU: str(most)}, **({"min": {GPU: str(least)}} if least is not None else {})},
    }


def worker(
    name: str,
    *,
    quota: str = "",
    gpu: int = 1,
    on: str = "",
    priority: int = 0,
    firm: bool = False,
    of: str = "",
    namespace: str = "default",
    **spec: object,
) -> Raw:
    """A pod; `firm` makes it non-preemptible, `of` names its gang, `on` the node where it runs."""
    labels = {f"{_PREFIX}name": quota} if quota else {}
    labels |= {f"{_PREFIX}preemptible": "false"} if firm else {}
    labels |= {"pod-group.scheduling.sigs.k8s.io": of} if of else {}
    leaving = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if on.endswith("!") else {}
    asked = {"resources": {"requests": {GPU: str(gpu)}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": labels, **leaving},
        "spec": {
            "schedulerName": "koord-scheduler",
            "priority": priority,
            "containers": [{"name": "main", **asked}],
            **({"nodeName": on.rstrip("!")} if on else {}),
            **spec,
        },
        "status": {"phase": "Running"} if on else {},
    }


def koordinator(*, preempts: bool = False, in_quota: bool = True, **quota_args: object) -> Profile:
    """Koordinator's profile: job preemption by `preempts`, preemption within quotas by `in_quota`."""
    names = ["Coscheduling", *(["ElasticQuota"] if in_quota else [])]
    raw = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "schedulerName": "koord-scheduler",
                "pluginConfig": [
                    {"name": "Coscheduling", "args": {"enablePreemption": preempts, "awareNetworkTopology": True}},
                    {"name": "ElasticQuota", "args": quota_args},
                ],
                "plugins": {
                    "preFilter": {"enabled": [{"name": "Coscheduling"}, {"name": "ElasticQuota"}]},
                    "postFilter": {"disabled": [{"name": "*"}], "enabled": [{"name": name} for name in names]},
                },
            }
        ],
    }
    return read_kube(raw)


class Outcome(msgspec.Struct, frozen=True):
    """What became of pods, by name."""

    bound: dict[str, str]
    nominated: dict[str, str]
    evicted: list[str]
    why: dict[str, str]


def settle(*manifests: Sequence[Raw], profile: Profile | None = None, cycles: int | None = None) -> Outcome:
    """Run until nothing changes, or so many cycles."""
    objects = objects_of(*(list(part) for part in manifests))
    history = schedule(objects, profile if profile is not None else koordinator(), now=0.0, cycles=cycles)
    assert history.report is not None
    waiting = pending_wire(history.after(0.0), history.report, history.nominations)
    return Outcome(
        {_short(pod): node for pod, node in history.bindings.items()},
        {_short(pod): node for pod, node in history.nominations.items()},
        sorted(_short(eviction.task.key) for eviction in history.evictions),
        {_short(str(row["pod"])): f"{row['reason']}: {row['message']}" for row in waiting},
    )


def _short(path: str) -> str:
    return path.removeprefix("default/")


def runtimes(*manifests: Sequence[Raw], profile: Profile = DEFAULT) -> dict[str, int]:
    """The runtime in cards that the controller writes on every quota."""
    cluster = EmbeddedCluster(objects_of(*(list(part) for part in manifests)))
    reconcile(cluster, 0.0, profile)
    found = cluster.read().every(ElasticQuota).values()
    return {q.metadata.name: int(json.loads(q.metadata.annotations[RUNTIME])[GPU]) for q in found}
