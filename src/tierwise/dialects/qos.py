"""The quality-of-service class of a pod, by Kubernetes' rules: how firmly it asks for cpu and memory."""

from __future__ import annotations

from typing import Final

from tierwise.api.core import PodSpec
from tierwise.api.quantity import milli

__all__ = ["BEST_EFFORT", "BURSTABLE", "GUARANTEED", "qos_class"]

GUARANTEED: Final = 0
BURSTABLE: Final = 1
BEST_EFFORT: Final = 2

_COUNTED: Final = ("cpu", "memory")


def qos_class(spec: PodSpec) -> int:
    """Guaranteed where every container limits cpu and memory and asks for just that; best effort where none asks."""
    requests: dict[str, int] = {}
    limits: dict[str, int] = {}
    all_limited = True
    for container in (*spec.containers, *spec.init_containers):
        given = container.resources
        for name in _COUNTED:
            limit = milli(given.limits.get(name, 0))
            limits[name] = limits.get(name, 0) + limit
            requests[name] = requests.get(name, 0) + milli(given.requests.get(name, given.limits.get(name, 0)))
            all_limited = all_limited and limit > 0
    if not any(requests.values()) and not any(limits.values()):
        return BEST_EFFORT
    return GUARANTEED if all_limited and requests == limits else BURSTABLE
