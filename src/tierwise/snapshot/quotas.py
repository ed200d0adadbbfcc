"""Resource quotas of namespaces: how much more each lets the pods there ask for.

A quota's status says what is used; where it does not, the pods of the namespace that stand on a node are counted (a
waiting pod counts through its job's minimum). `requests.cpu` and `cpu` are the same, and so are `count/pods` and
`pods`; limits, objects other than pods, and scopes are not looked at.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from tierwise.api.core import Pod, ResourceQuota
from tierwise.api.quantity import amount
from tierwise.dialects.kubernetes.requests import counted, effective_request
from tierwise.model.arrays import MOST, POD_SLOTS, Axis, Ints
from tierwise.port import Objects

__all__ = ["PLENTY", "left_by_namespace"]

PLENTY = MOST
"""What is left of a resource that no quota names."""

_ENDED = ("Succeeded", "Failed")


def left_by_namespace(objects: Objects, axis: Axis) -> dict[str, Ints]:
    """Remaining amounts of each namespace with a quota, by resource; the smallest if several quotas name it."""
    result: dict[str, Ints] = {}
    for record in objects.every(ResourceQuota).values():
        namespace = record.metadata.namespace or "default"
        quota_left = result.setdefault(namespace, np.full(len(axis), PLENTY, dtype=np.int64))
        counted: dict[str, int] | None = None
        for name, hard in (record.status.hard or record.spec.hard).items():
            resource = _resource(name)
            if resource not in axis.index:
                continue
            if name in record.status.used:
                used = amount(name, record.status.used[name])
            else:
                counted = counted if counted is not None else _held(namespace, objects.every(Pod).values())
                used = counted.get(resource, 0)
            index = axis.index[resource]
            quota_left[index] = max(min(int(quota_left[index]), amount(name, hard) - used), -PLENTY)
    return result


def _resource(name: str) -> str:
    return POD_SLOTS if name == "count/pods" else name.removeprefix("requests.")


def _held(namespace: str, pods: Collection[Pod]) -> dict[str, int]:
    """Sum of the requests of a namespace's pods that are on nodes."""
    total: dict[str, int] = {}
    for pod in pods:
        holds = bool(pod.spec.node_name) and pod.status.phase not in _ENDED
        if holds and (pod.metadata.namespace or "default") == namespace:
            for name, number in {**effective_request(counted(pod)), POD_SLOTS: 1}.items():
                total[name] = total.get(name, 0) + number
    return total
