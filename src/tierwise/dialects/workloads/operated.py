"""Workloads whose own controllers run: pods that these have made are among the objects, so none are made of them here.

A pod says by labels whose it is. One that was made here is owned by the workload, or by others that were made here and
end there; controllers have kinds of their own in between, or their objects were left out of the input.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from tierwise.api.core import ObjectMeta, Pod
from tierwise.dialects.workloads.children import Family, controller_of
from tierwise.port import Key, Objects

__all__ = ["operated"]

_NAMED_BY: Final[Mapping[tuple[str, str], Sequence[str]]] = {
    ("workloads.x-k8s.io", "RoleBasedGroup"): (
        "rbg.workloads.x-k8s.io/group-name",
        "rolebasedgroup.workloads.x-k8s.io/name",
    ),
    ("workload.serving.volcano.sh", "ModelServing"): ("modelserving.volcano.sh/name",),
    ("orchestration.aibrix.ai", "StormService"): ("storm-service-name",),
    ("orchestration.aibrix.ai", "RoleSet"): ("roleset-name",),
    ("serving.kserve.io", "InferenceService"): ("serving.kserve.io/inferenceservice",),
    ("nvidia.com", "DynamoGraphDeployment"): ("nvidia.com/dynamo-graph-deployment-name",),
    ("grove.io", "PodCliqueSet"): ("app.kubernetes.io/part-of",),
}
"""The labels of pods that name their workload, in one version of the controller or another."""
_BESIDE: Final[Mapping[str, Mapping[str, str]]] = {
    "app.kubernetes.io/part-of": {"app.kubernetes.io/managed-by": "grove-operator"},
}
"""What else pods say, where many kinds have the label."""
_STEPS: Final = 8
"""Owners above a pod; more are a circle."""


def operated(objects: Objects, expanded_kinds: Collection[tuple[str, str]]) -> frozenset[Key]:
    """The workloads that have pods of their own controllers; `made` are the kinds that may come to be here."""
    labels = {}
    for kind, names in _NAMED_BY.items():
        if objects.of_kind(*kind):
            for label in names:
                labels[label] = kind
    if not labels:
        return frozenset()
    operated_keys: set[Key] = set()
    for pod in objects.every(Pod).values():
        for key in _named(pod.metadata, labels):
            if key not in operated_keys and not _was_made_here(pod.metadata, key, objects, expanded_kinds):
                operated_keys.add(key)
    return frozenset(operated_keys)


def _named(meta: ObjectMeta, labels: Mapping[str, tuple[str, str]]) -> Iterator[Key]:
    for label, kind in labels.items():
        name = meta.labels.get(label, "")
        if name and _BESIDE.get(label, {}).items() <= meta.labels.items():
            yield Key(*kind, meta.namespace or "default", name)


def _was_made_here(meta: ObjectMeta, whose: Key, objects: Objects, expanded_kinds: Collection[tuple[str, str]]) -> bool:
    """Whether owners of known kinds lead to the workload."""
    for _ in range(_STEPS):
        owner = controller_of(meta)
        if owner is None:
            return False
        group = owner.api_version.rpartition("/")[0]
        if (group, owner.kind, owner.name) == (whose.group, whose.kind, whose.name):
            return True
        record = Family(objects).record(Key(group, owner.kind, whose.namespace, owner.name))
        if record is None or (group, owner.kind) not in expanded_kinds:
            return False
        meta = record.metadata
    return False
